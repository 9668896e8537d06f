/* The texts of a request for embeddings, in place of an answer in its job. */
#ifndef SERVE_TEXTS_H
#define SERVE_TEXTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXTS_MOST = 2048, TEXTS_TOKENS = 300000 }; /* of a request */

struct text {
    int32_t *ids;   /* [n], n > 0; without the tokens that the model's prefix holds */
    uint8_t *types; /* [n] of a pair; or NULL */
    size_t n;
};

struct texts {
    size_t n, at;  /* at: the next text */
    uint64_t turn; /* the embedder's: turn of the last text taken from these */
    bool lost;     /* the embedder's: memory was short for a result */
    struct text text[];
};

/* Allocates n texts, all empty. NULL: out of memory. */
struct texts *texts_new(size_t n);
void texts_free(struct texts *t); /* t may be NULL */

#endif
