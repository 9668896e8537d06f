/*
 * Rotation of the residual stream (QuaRot: Ashkboos et al. 2024, section 4, stage 1a; SpinQuant's
 * R1: Liu et al. 2024). The rotation spreads outlier channels over all channels at no run-time
 * cost: RMSNorm without its gain commutes with a rotation, which keeps lengths (SliceGPT: Ashkboos
 * et al. 2024, section 3), and the linear layers on either side absorb the rotation. The model's
 * outputs stay the same, and its stream is Q x in place of x:
 *
 *      Q x = (C kron H) (s * x)        n numbers, n = m p, p the largest power of two that divides
 *                                      n
 *
 *   H  [p, p]: the Walsh-Hadamard matrix / sqrt(p), in natural order, as in rotate.h
 *   C  [m, m]: the discrete Hartley transform, cas(2 pi j k / m) / sqrt(m), cas t = cos t + sin t.
 *      It is symmetric and its own inverse for every m (Bracewell 1983), so every width has a
 *      rotation.
 *   s  [n]: signs. Without them, a stream with one value in all channels would become a single
 *      spike. Sign i is - if the top bit of number i of SplitMix64 (Steele et al. 2014, figure 16),
 *      seed 0, is set.
 *
 * Computed in double precision, with the gain, and rounded once. The result has the same bits on
 * every machine and for any number of threads.
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
    double *work; /* [threads, n + m, 8] scratch */
};

/* n > 0. False if memory is short. close accepts all zeros, and a failed open. */
bool rotate_residual_open(struct residual_rotation *q, size_t n, int n_threads);
void rotate_residual_close(struct residual_rotation *q);

/* Each row r becomes Q (gain * r); w: [rows, n], rows `stride` apart; gain: [n] or NULL. For an
   embedding, and for a layer that reads the stream after a norm with that gain: w g x = (Q (g w))
   (Q x). Runs on a team of threads, as does rotate_residual_columns. */
void rotate_residual_rows(const struct residual_rotation *q, float *w, size_t stride, size_t rows,
                          const float *gain);

/* w becomes Q w; w: [n, cols], rows `stride` apart. For a layer that adds its output to the
   stream. */
void rotate_residual_columns(const struct residual_rotation *q, float *w, size_t stride,
                             size_t cols);

#endif
