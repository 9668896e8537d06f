/* A bump allocator, and sums and products of sizes with overflow checks. */
#ifndef TFT_ARENA_H
#define TFT_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TFT_ALIGN = 64 }; /* a cache line, and the widest vector */

/* *out = a * b, *out = a + b; false if the result does not fit a size_t. */
static inline bool tft_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool tft_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* The least multiple of TFT_ALIGN that is >= size; 0 if the multiple does not fit a size_t. */
static inline size_t tft_round_up(size_t size)
{
    return size > SIZE_MAX - TFT_ALIGN ? 0 : (size + TFT_ALIGN - 1) / TFT_ALIGN * TFT_ALIGN;
}

/* A bump allocator over one block. If `base` is NULL, the arena only counts: run a layout function
   once for the size, allocate, and run the function again to place. */
struct tft_arena {
    char *base;  /* the block, or NULL while counting */
    size_t used; /* bytes taken so far; SIZE_MAX after a failure */
    bool failed; /* a size did not fit a size_t */
};

/* The next count * size bytes, aligned to TFT_ALIGN; NULL while counting, or if the size does not
   fit. */
void *tft_arena_take(struct tft_arena *a, size_t count, size_t size);

#endif
