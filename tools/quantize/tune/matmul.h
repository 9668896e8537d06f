/*
 * Products of matrices, forward and back. In floats by the runtime's own kernels: product.c. In
 * double precision by plain loops, for the tests: tests/tune_product.c.
 */
#ifndef QUANTIZE_TUNE_MATMUL_H
#define QUANTIZE_TUNE_MATMUL_H

#include "model/model.h"
#include "tools/quantize/tune/real.h"

struct matmul;

/* For up to n rows. NULL without memory. close(NULL) is fine. */
struct matmul *matmul_open(const struct tft_model *m, size_t n, int n_threads);
void matmul_close(struct matmul *p);

/* x: [n, width] becomes the bytes that linear layers with this input multiply; q: [n] or, with a
   step of 0, [1] how they are held. */
void matmul_take(struct matmul *p, const real *x, size_t n, size_t width,
                  const struct tft_affine *q, size_t step);

/* y: [n, rows of l] = W x + bias of what was taken; or that added to y. */
void matmul_run(struct matmul *p, real *y, const struct tft_linear *l, bool add);

/* dx: [n, cols of l] = dy W, or that added to dx; dy: [n, rows of l]. The weights of an I8 matrix
   as they are, scaled bytes. */
void matmul_back(struct matmul *p, real *dx, const real *dy, size_t n, const struct tft_linear *l,
                  bool add);

/* y: [M, N] = x w^T, x: [M, K], w: [N, K]; rows of y ldy apart, those of the others next to each
   other */
void matmul_plain(const struct tft_model *m, real *y, size_t ldy, const real *x, const real *w,
                   size_t M, size_t N, size_t K);

/* y: [M, N] += p v, p: [M, K] with rows ldp apart, v: [K, N] */
void matmul_mix(const struct tft_model *m, real *y, const real *p, size_t ldp, const real *v,
                 size_t M, size_t N, size_t K);

#endif
