/* Writes a GGUF file with packed matrices (simd/packed.h), which model/packed.c reads. */
#ifndef PACK_PACK_H
#define PACK_PACK_H

#include "model/model.h"

struct pack_opts {
    int n_threads; /* 0: tft_cpu_threads() */
    /* NULL, or called after each piece of a few MB; done: 0..1; false: stop */
    bool (*progress)(void *user, double done);
    void *user;
};

struct pack_result {
    size_t tensors, packed; /* of the new file, and how many of them are packed */
    uint64_t bytes;         /* of all tensors */
    bool stopped;           /* progress() returned false: there is no file */
};

/* m: opened by tft_model_open_unexpanded. `path` may be m's own file. Takes a few MB of memory. On
   failure, and if stopped, there is no new file, and an existing one is unchanged. TFT_ERR_ARG:
   nothing to pack. TFT_ERR_FORMAT: a scale is NaN or infinity. */
enum tft_status pack(const struct tft_model *m, const char *path, const struct pack_opts *o,
                     struct pack_result *r, struct tft_error *err);

#endif
