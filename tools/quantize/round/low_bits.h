/*
 * Weights of 2 to 4 bits that are int8 numbers: QServe's progressive group quantization (Lin et al.
 * 2024, section 4.1). `group` consecutive inputs of a row have a small integer scale s and a zero
 * z, so that a weight with the code c is
 *
 *   w8 = s * (c - z)      0 <= c < 2^bits, 1 <= s <= 15, 0 <= z <= 15, |w8| <= 127
 *   w  = w8 * scale of the row
 *
 * A matrix of such weights is also an int8 matrix, so that its products stay exact sums of
 * integers. The last group of a row is shorter if `group` does not divide the row.
 *
 * QServe first rounds to int8, then the int8 numbers to codes. Here s, z, c and the row's scale are
 * chosen for the floats, by the least cost (metric.h): all scales s, ranges clipped at either end,
 * and several scales of the row.
 *
 * Rounding is GPTQ (feedback.h) if the metric has the inputs' correlations. Unlike in the papers, s
 * and z of a group have the least cost after feedback within the group.
 */
#ifndef QUANTIZE_ROUND_LOW_BITS_H
#define QUANTIZE_ROUND_LOW_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/quantize/round/metric.h"

enum { LOW_BITS_SCALE = 15, LOW_BITS_ZERO = 15, LOW_BITS_GROUP = 128 }; /* the largest of each */

struct low_bits {
    uint32_t bits, group; /* 2 .. 4; 1 .. LOW_BITS_GROUP */
    size_t rows, cols;
    size_t groups;         /* of a row */
    uint8_t *code;         /* [rows, cols] */
    uint8_t *factors;      /* [rows, groups] pack_low_factors(s, z) */
    float *row_scale;      /* [rows]; positive normal numbers */
};

/* Takes memory for a matrix. False if memory is short. close accepts all zeros, and a failed open.
 */
bool low_bits_open(struct low_bits *q, size_t rows, size_t cols, uint32_t bits, uint32_t group);
void low_bits_close(struct low_bits *q);

/* to: [cols] = the row's weights as int8. The only place where codes become numbers. */
void low_bits_int8(const struct low_bits *q, size_t row, int8_t *to);

/* Rounds w: [rows, cols], finite. metric: for inputs of `cols` channels in groups of `group`. The
   result does not depend on kern or n_threads. progress: NULL, or called with the share done;
   false: stop. False if memory is short, or if it was stopped. */
struct low_bits_how {
    const struct metric *metric;
    const struct tft_kernels *kern;
    int n_threads;
    bool (*progress)(void *user, double done);
    void *user;
};
bool low_bits_round(struct low_bits *q, const float *w, const struct low_bits_how *how);

#endif
