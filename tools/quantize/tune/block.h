/*
 * A block of a W8A8 model over the tokens of one sequence, after the keys and values of a prefix,
 * and the gradient of a loss in those. What the gradient needs of the block's inside is computed
 * again from its input (Chen et al. 2016, section 4): of all blocks together only what goes into
 * each is kept.
 */
#ifndef QUANTIZE_TUNE_BLOCK_H
#define QUANTIZE_TUNE_BLOCK_H

#include "model/model.h"
#include "tools/quantize/tune/real.h"

struct tape;

/* For sequences of n tokens at positions n_prefix, n_prefix + 1 ..; error_weight: that of half of
   |x - q(x)|^2 in the gradient, where x is what linear layers take. NULL without memory.
   close(NULL) is fine. */
struct tape *tape_open(const struct tft_model *m, size_t n_prefix, size_t n, real error_weight,
                       int n_threads);
void tape_close(struct tape *t);

/* [n_prefix, G, E] each: of one block, or the gradients in them. */
struct prefix_rows {
    real *k, *v;
};

/* x, y: [n, D] the residual stream before and after block l. Returns the sum of |x - q(x)|^2 over
   its linear layers' inputs. */
double block_run(struct tape *t, uint32_t l, struct prefix_rows prefix, real *y, const real *x);

/* dx: [n, D] the gradient in y on entry, in x on return. What the loss has by this block is added
   to dprefix. */
void block_back(struct tape *t, uint32_t l, struct prefix_rows prefix, struct prefix_rows dprefix,
                real *dx, const real *x);

/* The mean over i < n - 1 of -log p(token[i + 1]) after x: [n, D], what the last block leaves. With
   dx its gradient is put there. */
double head_run(struct tape *t, const int32_t *token, const real *x, real *dx);

#endif
