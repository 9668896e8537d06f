/* A plain GGUF file: the tensors of a model, their numbers in ggml's types. */
#ifndef QUANTIZE_WRITE_PLAIN_H
#define QUANTIZE_WRITE_PLAIN_H

#include "tools/quantize/blocks/mix.h"
#include "tools/quantize/measure/importance.h"

enum { PLAIN_TYPES = 64 }; /* more than the number of types */

struct plain_opts {
    const struct mix *mix;
    const struct importance *importance; /* all zeros: unknown */
    unsigned char *const *rounded; /* [tensors] blocks of a tensor, or NULL; NULL: none */
    const char *kv;                /* the file's default cache; NULL: none */
    bool keeps_cache; /* "keep": the old default, without kv, and the tables of fisher stay */
    int n_threads;
    bool (*progress)(void *user, double done); /* false: stop */
    void *user;
};

struct plain_made {
    size_t tensors[PLAIN_TYPES]; /* of each type */
    size_t n_tensor;
    uint64_t bytes;  /* of all, */
    uint64_t blocks; /* and of tensors in blocks */
};

/* The tensors that the file will have. */
struct plain_made plain_plan(const struct tft_source *s, const struct mix *mix);

/* Writes the file for `path`, which has no name yet: *temp, for tft_new_file_end. NULL after a
   failure, and if *stopped. Fails if a number is NaN, an infinity, or too large for a type. */
enum tft_status plain_write(const struct tft_source *s, const char *path,
                            const struct plain_opts *o, struct tft_new_file **temp, bool *stopped,
                            struct tft_error *err);

#endif
