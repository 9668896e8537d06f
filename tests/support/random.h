/* Random numbers, the same on every machine. */
#ifndef TFT_TEST_RANDOM_H
#define TFT_TEST_RANDOM_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t random_u32(void) /* xorshift: Marsaglia 2003 */
{
    static uint32_t s = 2463534242;
    s ^= s << 13;
    s ^= s >> 17;
    return s ^= s << 5;
}

/* Uniform in [-1, 1). */
static inline float random_even(void)
{
    return (float)(int32_t)random_u32() * 0x1p-31f;
}

/* About normal, of variance 1: the sum of 12 uniform numbers of variance 1/12. */
static inline float random_normal(void)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += random_even() * 0.5f;
    return sum;
}

static inline void random_fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = random_even();
}

#endif
