/*
 * The loss of one sequence after a prefix, and its gradient with respect to the prefix's keys and
 * values. There are two losses:
 *
 *      L = L_pred + lambda L_q                        CushionCache, section 4.2, eq. 11
 *          L_pred   mean of -log p(next token)
 *          L_q      |x - q(x)|^2, summed over the inputs of the linear layers of all blocks, mean
 *                   over the tokens (eq. 6)
 *
 *      L = 1/2 sum over the blocks |x - x_float|^2    IntactKV, section 3.2, eq. 2; mean over the
 *                                                     tokens
 *          x, x_float   output of the block, in the residual stream, of this model and of the float
 *                       model that it was made from
 *
 * q is the model's own quantizer, so that L_q is the error of int8 at run time. Eq. 6 instead takes
 * the outputs of blocks, and the range of the text itself.
 */
#ifndef QUANTIZE_TUNE_SEQUENCE_LOSS_H
#define QUANTIZE_TUNE_SEQUENCE_LOSS_H

#include "tools/quantize/tune/block.h"

struct sequence;

/* For sequences of n >= 2 tokens of an open model. lambda: 0 for the second loss, and for models
   that are not W8A8. NULL if memory is short. close accepts NULL. */
struct sequence *sequence_open(const struct tft_model *m, size_t n, real lambda, int n_threads);
void sequence_close(struct sequence *s);

/* For the runs that follow: watch sees each block of a run with a gradient. The first loss is then
   -log p of tokens that the model draws from its own predictions, with the numbers of seed, so that
   the mean of squared gradients is the Fisher information. Both must stay valid. */
void sequence_watch(struct sequence *s, const struct block_watch *watch, const uint64_t *seed);

/* Number of a prefix's keys and values: [2, n_kv_layer, n_prefix, G, E], keys first; G and E of
   each layer. */
size_t sequence_params(const struct tft_model *m);

struct sequence_loss {
    double total;  /* L; the gradient is of this loss */
    double judged; /* L_pred, or L of the second kind: the loss that compares prefixes */
};

/* token: [n]; float_outputs: [n_layer, n, D] f16 for the second loss, NULL for the first; params:
   [sequence_params]; gradient: likewise, added to, or NULL. */
struct sequence_loss sequence_run(struct sequence *s, const int32_t *token,
                                  const uint16_t *float_outputs, real *params, real *gradient);

#endif
