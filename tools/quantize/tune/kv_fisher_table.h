/*
 * The rows of a head's table except the losses (kv/fisher.h), from keys or values of a text. With F
 * the Fisher information of a channel (kv_fisher.h), u the sum of squares of its column in the
 * output matrices of the layers that read it, over the query heads, and var its variance:
 *
 *      key      w = F + 0.3 mean of F over the head
 *      value    w = u r + 0.05 mean of u r over the head        r = sum of F var / sum of u var
 *
 *      gain     sqrt(w) / sd, over the head's sum of sqrt(w) sd
 *      step     z = (x - mean) / (the token's gain, not rounded); of 21 steps, 0.5 to 1.5 of the
 *               best one for a Gaussian of the deviation of z (Max 1960, table II), the one with
 *               the least mean squared error
 */
#ifndef QUANTIZE_TUNE_KV_FISHER_TABLE_H
#define QUANTIZE_TUNE_KV_FISHER_TABLE_H

#include <stddef.h>
#include <stdint.h>

enum { KV_FISHER_SAMPLES = 2048 }; /* tokens that make a table, at most */

/* A head's keys, or values, of n tokens, 0 < n <= KV_FISHER_SAMPLES. Rows of x are `stride`
   apart. */
struct kv_fisher_rows {
    const float *x;
    size_t n, stride;
    uint32_t dim;         /* at most TFT_CODED_DIM */
    const double *square; /* [dim] F */
    const double *output; /* [dim] u; NULL: keys */
};

/* table: [rows, dim] */
void kv_fisher_table(float *table, const struct kv_fisher_rows *x);

/* A number that a float holds. */
static inline float kv_fisher_held(double x)
{
    return x < 0x1p-100 ? 0 : x > 0x1p100 ? 0x1p100f : (float)x;
}

#endif
