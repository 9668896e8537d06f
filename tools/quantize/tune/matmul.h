/*
 * Matrix products of the trainer, forward and back. matmul.c computes in float with the runtime's
 * own kernels. tests/tools/quantize/tune_matmul.c computes in double with plain loops, to check
 * gradients.
 */
#ifndef QUANTIZE_TUNE_MATMUL_H
#define QUANTIZE_TUNE_MATMUL_H

#include "model/model.h"
#include "tools/quantize/tune/real.h"

struct matmul;

/* For at most n rows. NULL if memory is short. close accepts NULL. */
struct matmul *matmul_open(const struct tft_model *m, size_t n, int n_threads);
void matmul_close(struct matmul *p);

/* Sets the input of the matmul_run calls that follow, x: [n, width], in the forms that the layers
   of `in` read: bytes, groups of bytes, floats. Of bytes, q: scale and zero-point of each row, [n]
   with step 1, or of all rows, [1] with step 0. x and q must stay valid. */
void matmul_take(struct matmul *p, const real *x, size_t n, const struct tft_input *in,
                 const struct tft_affine *q, size_t step);

/* y: [n, rows of l] = W x + bias; or y += W x + bias if `add`. */
void matmul_run(struct matmul *p, real *y, const struct tft_linear *l, bool add);

/* dx: [n, cols of l] = dy W, or dx += dy W if `add`; dy: [n, rows of l]. W is the weights as
   floats, codes times their scales. */
void matmul_back(struct matmul *p, real *dx, const real *dy, size_t n, const struct tft_linear *l,
                 bool add);

/* y: [M, N] = x w^T, x: [M, K], w: [N, K]. Rows of y are ldy apart, rows of x and w contiguous. */
void matmul_plain(const struct tft_model *m, real *y, size_t ldy, const real *x, const real *w,
                  size_t M, size_t N, size_t K);

/* y: [M, N] += p v, p: [M, K] with rows ldp apart, v: [K, N] */
void matmul_mix(const struct tft_model *m, real *y, const real *p, size_t ldp, const real *v,
                size_t M, size_t N, size_t K);

#endif
