/*
 * A mixture of experts in place of a feed-forward layer: Shazeer et al. 2017 (arXiv 1701.06538,
 * section 2.1), with the gate of Mixtral (arXiv 2401.04088, section 2.1).
 *
 *      h = norm(x)
 *      s = Wrouter h                           [n_expert] in floats, in W8A8 models too
 *      w = softmax(s)                          or sigmoid(s), each by itself
 *      choose the n_expert_used experts with the largest w + bias; of equal ones, the first
 *                                              with groups: of the n_group_used groups of which the
 *                                              two largest w + bias have the largest sums
 *      w = w / max(sum of chosen w, 2^-14)     if renorm
 *      w = w * expert_scale
 *      y = sum of w_e Wdown_e (silu(Wgate_e h) * Wup_e h)      over chosen experts, in their order
 *                                              with moe_latent_size, v = Wlatent_down h in place of
 *                                              h, and Wlatent_up y in place of y
 *      y = g ffn(h) + y                        where the block has a feed-forward of its own, the
 *                                              shared expert; g is 1, or sigmoid(Wg h)
 *
 * With `chosen`, the experts with the largest s are chosen, and w is the softmax of these s alone.
 * With `biases`, s and each product with a matrix of an expert have one added.
 *
 * With `beside`, the block's own feed-forward has norms of its own (Gemma 4):
 *
 *      s = Wrouter (rms(x) g_r) / sqrt(D)      and chosen w are multiplied by their expert's factor
 *      y = rms(ffn(rms(x) g3)) g_1 + rms(the sum of the experts, of rms(x) g_e) g_2
 *
 * Keys of a file: expert_count, expert_used_count, expert_feed_forward_length,
 * expert_shared_feed_forward_length, expert_shared_count, expert_gating_func (1: softmax, 2:
 * sigmoid), expert_weights_scale, expert_group_count, expert_group_used_count,
 * leading_dense_block_count (the first N layers have no experts), moe_every_n_layers.
 */
#ifndef TFT_MIXTURE_H
#define TFT_MIXTURE_H

#include "model/model.h"

struct tft_mixture {
    bool renorm;
    bool says_renorm;  /* a file may say otherwise: expert_weights_norm */
    bool sigmoid;      /* if the file does not name a gating function */
    bool optional;     /* a file without expert_count is dense */
    bool beside;       /* feed-forward and experts have norms of their own, as above */
    bool chosen;       /* weights are softmax of the scores of chosen experts alone */
    bool raw;          /* the router reads x without a norm */
    bool finds_dense;  /* without leading_dense_block_count, layers before the first router are
                          dense */
    bool everywhere;   /* no layer is dense: leading_dense_block_count is 0 */
    bool biases;       /* the router and all matrices of experts have one */
    bool groups;       /* a file may have its experts in groups */
    bool no_gate;      /* neither experts nor the shared one have a gate */
    bool alternate;    /* layer l has experts if l % moe_every_n_layers is 1 */
    bool latent;       /* a file may give them a width of their own: moe_latent_size */
    bool fused_shared; /* without ffn_gate_shexp, ffn_up_shexp has the rows of the gate, then of up.
                          W8A8 and packed files have two tensors */
};

/* Dimensions of the experts, where the architecture has them. Comes after tft_load_shape, and sets
   m->n_ff to the largest width of feed-forward layers that are not experts. */
void tft_mixture_shape(struct tft_load *ld, const struct tft_mixture *x);

/* Whether layer `layer` has experts. */
bool tft_mixture_has(const struct tft_load *ld, unsigned layer);

/* Its experts, and the feed-forward beside them. */
void tft_mixture_load(struct tft_load *ld, const struct tft_mixture *t, unsigned layer);

#endif
