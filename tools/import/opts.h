/* Options of an import. */
#ifndef IMPORT_OPTS_H
#define IMPORT_OPTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* New type of the matrices; vectors and norms are always f32. KEEP: unchanged. */
enum import_type { IMPORT_KEEP, IMPORT_F16, IMPORT_BF16, IMPORT_F32 };

struct import_opts {
    enum import_type type;
    bool no_ranges;    /* never a W8A8 file: ranges of a quantized folder's inputs are left out */
    bool no_tokenizer; /* the file gets no tokenizer, even if the folder has one */
    const char *ignore_keys; /* members of config.json that count as absent, separated by commas; or
                                NULL */
    void (*warn)(void *user, const char *text); /* NULL, or called with lines for people */
    /* NULL, or called before the data of the tensors is written, with its size; false: stop */
    bool (*begin)(void *user, uint64_t bytes);
    /* NULL, or called after each layer; done: 0..1, and 0 while quantized matrices are read to
       choose their types; false: stop */
    bool (*progress)(void *user, double done);
    void *user;
};

struct import_result {
    size_t tensors;
    uint64_t bytes; /* of all tensors of the file */
    bool stopped;   /* a callback returned false: there is no file */
};

#endif
