/* The one way to get memory: through the caller's allocator, with sizes that cannot wrap. */
#ifndef TFT_ALLOC_H
#define TFT_ALLOC_H

#include "tuffet.h"

enum { TFT_ALIGN = 64 }; /* a cache line, and the widest vector */

/* NULL for `a` is the C library. Sizes are rounded up to TFT_ALIGN; 0 bytes is a valid request. NULL if it fails. */
void *tft_alloc(const struct tft_allocator *a, size_t size);
void tft_free(const struct tft_allocator *a, void *ptr, size_t size); /* ptr may be NULL; size as asked for */

/* a * b and a + b; false if the result does not fit. */
static inline bool tft_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool tft_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* A bump allocator over one block. With base NULL nothing is placed and `used` counts: run the same layout function
   once to learn the size and once to place. A size that wraps sets `failed`. */
struct tft_arena {
    char *base;
    size_t used;
    bool failed;
};

/* count * size bytes, aligned to TFT_ALIGN; NULL while counting. */
void *tft_arena_take(struct tft_arena *a, size_t count, size_t size);

#endif
