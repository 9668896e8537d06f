/* Laying things out one after the other: sizes that cannot wrap, and a bump allocator. */
#ifndef TFT_ARENA_H
#define TFT_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TFT_ALIGN = 64 }; /* a cache line, and the widest vector */

/* a * b and a + b; false if the result does not fit. */
static inline bool tft_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool tft_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* The next multiple of TFT_ALIGN; 0 if there is none. */
static inline size_t tft_round_up(size_t size)
{
    return size > SIZE_MAX - TFT_ALIGN ? 0 : (size + TFT_ALIGN - 1) / TFT_ALIGN * TFT_ALIGN;
}

/* A bump allocator over one block. With base NULL nothing is placed and `used` counts: run the same
   layout function once to learn the size and once to place. A size that wraps sets `failed`. */
struct tft_arena {
    char *base;
    size_t used;
    bool failed;
};

/* count * size bytes, aligned to TFT_ALIGN; NULL while counting. */
void *tft_arena_take(struct tft_arena *a, size_t count, size_t size);

#endif
