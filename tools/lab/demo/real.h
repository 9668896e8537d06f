/* The number type of the model that is trained: float, or double where the gradient is checked. */
#ifndef DEMO_REAL_H
#define DEMO_REAL_H

#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef DEMO_DOUBLE
typedef double real;
#define CBLAS_GEMM cblas_dgemm
static inline real fast_exp(real x)
{
    return exp(x);
}
#else
typedef float real;
#define CBLAS_GEMM cblas_sgemm

/*
 * exp without a branch or a call, so that loops over it become vector code: x = n ln 2 + r, |r| <=
 * ln 2 / 2, and a polynomial of degree 6 (Taylor's: its error there is below 2^-23 of the result).
 * Adding 1.5 * 2^23 rounds to an integer that is left in the low bits, from where it is added to
 * the exponent.
 */
static inline real fast_exp(real x)
{
    x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
    float t = x * 1.44269504f + 12582912.0f, n = t - 12582912.0f;
    /* ln 2 in two parts, the first exact in few bits */
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t shift, bits;
    memcpy(&shift, &t, 4);
    memcpy(&bits, &p, 4);
    bits += shift << 23;
    memcpy(&p, &bits, 4);
    return p;
}
#endif

/* c[m, n] = scale * op(a) op(b) + (add ? c : 0); op(a) is [m, k], op(b) is [k, n]; ld*: distance of
   rows in memory. */
static inline void gemm(bool a_t, bool b_t, int m, int n, int k, real scale, const real *a, int lda,
                        const real *b, int ldb, bool add, real *c, int ldc)
{
    CBLAS_GEMM(CblasRowMajor, a_t ? CblasTrans : CblasNoTrans, b_t ? CblasTrans : CblasNoTrans, m,
               n, k, scale, a, lda, b, ldb, add ? 1 : 0, c, ldc);
}

#endif
