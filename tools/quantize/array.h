/* Arrays with dimensions from a file. */
#ifndef QUANTIZE_ARRAY_H
#define QUANTIZE_ARRAY_H

#include <stdint.h>
#include <stdlib.h>

/* An array [a, b, c] of elements of `size` bytes; the caller frees it with free(). NULL if memory
   is short or the size overflows size_t: weights of 2 bits take sixteen times as many bytes as
   floats, which can exceed 32 bits. */
static inline void *array_alloc(size_t size, uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(a, b, &bytes) || __builtin_mul_overflow(bytes, c, &bytes) ||
        __builtin_mul_overflow(bytes, size, &bytes) || bytes > SIZE_MAX)
        return NULL;
    return malloc(bytes ? (size_t)bytes : 1);
}

#endif
