/*
 * The loss of one sequence after a prefix, and its gradient in the prefix' keys and values. One of
 * two:
 *
 *      L = L_pred + lambda L_q                        CushionCache, section 4.2, eq. 11
 *          L_pred   mean of -log p(next token)
 *          L_q      |x - q(x)|^2, summed over what the linear layers of all blocks take, mean over
 *                   the tokens (eq. 6)
 *
 *      L = 1/2 sum over the blocks |x - x_float|^2    IntactKV, section 3.2, eq. 2; mean over the
 *      tokens
 *          x, x_float   what the block leaves in the residual stream of this model and of the model
 *                       of floats that it was made of
 *
 * q is the model's own quantizer, so that L_q is what int8 costs at run time: eq. 6 takes what a
 * block leaves and a range of the text's own.
 */
#ifndef QUANTIZE_TUNE_SEQUENCE_LOSS_H
#define QUANTIZE_TUNE_SEQUENCE_LOSS_H

#include "tools/quantize/tune/block.h"

struct sequence;

/* For sequences of n >= 2 tokens of an open W8A8 model; lambda: 0 for the second loss. NULL without
   memory. close(NULL) is fine. */
struct sequence *sequence_open(const struct tft_model *m, size_t n, real lambda, int n_threads);
void sequence_close(struct sequence *s);

/* Numbers in the keys and values of a prefix: [2, n_layer, n_prefix, G, E], the keys first. */
size_t sequence_params(const struct tft_model *m);

struct sequence_loss {
    double all;    /* that of the gradient */
    double judged; /* L_pred, or all of the other: what a prefix is chosen by */
};

/* token: [n]; wanted: [n_layer, n, D] f16, or NULL for the first loss; params, gradient:
   [sequence_params]. gradient, if not NULL, is added to. */
struct sequence_loss sequence_run(struct sequence *s, const int32_t *token, const uint16_t *wanted,
                                  real *params, real *gradient);

#endif
