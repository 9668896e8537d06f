/*
 * A transformer block of a model over the tokens of one sequence after a prefix, and the
 * gradient of a loss with respect to the prefix's keys and values. Only the input of each block is
 * kept: the gradient computes the inner activations again (Chen et al. 2016, section 4).
 */
#ifndef QUANTIZE_TUNE_BLOCK_H
#define QUANTIZE_TUNE_BLOCK_H

#include "model/model.h"
#include "tools/quantize/tune/real.h"

struct tape;

/* [n_prefix, G, E] each: the prefix in one block, or its gradients. A block without keys and values
   of its own has those of the block that it shares them with. */
struct prefix_rows {
    real *k, *v;
};

/* What the attention of a block computes with, after RoPE, during block_back. */
struct block_rows {
    const real *q, *dy;         /* [n, H, E] queries, and the gradient of what they get */
    const real *k, *v;          /* [n, G, E] */
    const real *far_k, *far_v;  /* [n, G, E] gradients from queries at least `far` tokens later
                                   (attention_gradients.far_k and .far_v), of all blocks that share
                                   the keys and values: the block that has them comes last */
};
struct block_watch {
    size_t far;
    void (*take)(void *user, uint32_t l, const struct block_rows *x);
    void *user;
};

/* x, y: [n, D] the residual stream before and after block l. Returns the sum of |x - q(x)|^2 over
   the inputs of its linear layers. */
double block_run(struct tape *t, uint32_t l, struct prefix_rows prefix, real *y, const real *x);

/* dx: [n, D] the gradient of y on entry, of x on return; x: the block's input. The gradient of the
   prefix is added to dprefix. */
void block_back(struct tape *t, uint32_t l, struct prefix_rows prefix, struct prefix_rows dprefix,
                real *dx, const real *x);

#endif
