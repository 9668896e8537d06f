/*
 * Rotation of the residual stream (QuaRot: Ashkboos et al. 2024, section 4, stage 1a; SpinQuant's
 * R1: Liu et al. 2024). RMSNorm without its gain does not see a rotation, for it keeps lengths
 * (SliceGPT: Ashkboos et al. 2024, section 3), and the linear layers on either side take it up. So
 * a model of the same outputs has the stream Q x in place of x, its outlier channels spread over
 * all of them, at no cost:
 *
 *      Q x = (C kron H) (s * x)        n numbers, n = m p, p the largest power of two that divides
 *                                      n
 *
 *   H  [p, p]: the Walsh-Hadamard matrix / sqrt(p), in natural order, as in rotate.h
 *   C  [m, m]: the discrete Hartley transform, cas(2 pi j k / m) / sqrt(m), cas t = cos t + sin t:
 *      symmetric and its own inverse, whatever m is (Bracewell 1983), so that no width is without a
 *      rotation
 *   s  [n]: signs, without which a stream of one value in all channels would become a single spike:
 *      - where the top bit is set of number i of SplitMix64 (Steele et al. 2014, figure 16) from
 *        seed 0
 *
 * Computed in double precision and rounded once; a gain is part of that. The same bits on every
 * machine and with any threads.
 */
#ifndef QUANTIZE_ROUND_ROTATE_RESIDUAL_H
#define QUANTIZE_ROUND_ROTATE_RESIDUAL_H

#include <stdbool.h>
#include <stddef.h>

struct residual_rotation {
    size_t n, m, p;
    int n_threads;
    double *sign; /* [n] s / sqrt(n) */
    double *cas;  /* [m] cas(2 pi k / m) */
    double *work; /* [threads, n + m, 8] */
};

/* n > 0. False if there is no memory. All zero is fine to close, and a failed open. */
bool rotate_residual_open(struct residual_rotation *q, size_t n, int n_threads);
void rotate_residual_close(struct residual_rotation *q);

/* w: [rows, n], rows `stride` apart; gain: [n] or NULL. Each row r becomes Q (gain * r): an
   embedding, or the weights of a layer that reads the stream after a norm with that gain, since w g
   x = (Q (g w)) (Q x). A team of threads does it, here and below. */
void rotate_residual_rows(const struct residual_rotation *q, float *w, size_t stride, size_t rows,
                   const float *gain);

/* w: [n, cols], rows `stride` apart, becomes Q w: the weights of a layer whose output is added to
   the stream. */
void rotate_residual_columns(const struct residual_rotation *q, float *w, size_t stride,
                             size_t cols);

#endif
