/*
 * The transformer that most architectures are variants of. An architecture that is one names the
 * parts in which it differs, and its own file has no code:
 *
 *      x = embed[token] + positions[position]              if learned_positions
 *      per layer:
 *          h = norm(x)                                     RMSNorm, or LayerNorm
 *          q, k, v = Wq h + bq, Wk h + bk, Wv h + bv       biases if qkv_bias
 *          q, k = rms(q), rms(k) per head                  if qk_norm
 *          q, k rotated by their positions                 if rope
 *          x = x + Wo attend(q, K, V) + bo                 bias if o_bias
 *          h = norm(x)
 *          x = x + Wdown a + bdown                         biases if ffn_bias
 *              where a = silu(Wgate h) * Wup h             or gelu(Wup h + bup)
 *      logits = Wout norm(x)
 */
#ifndef TFT_TRANSFORMER_H
#define TFT_TRANSFORMER_H

#include "model/model.h"

/* How RoPE pairs the numbers of a head: neighbours, or numbers half of n_rot apart. */
enum tft_rotation { TFT_NO_ROPE, TFT_ROPE_PAIRS, TFT_ROPE_HALVES };

/* All zero: RMSNorm, no biases, positions not encoded, a gated feed-forward network. */
struct tft_transformer {
    enum tft_rotation rope;
    bool learned_positions; /* position_embd */
    bool layer_norm;        /* LayerNorm with a bias; otherwise RMSNorm */
    bool qk_norm;           /* RMSNorm of each head of q and k, before the rotation */
    bool fused_qkv;         /* one tensor attn_qkv has the rows of q, k and v, in that order. W8A8
                               and packed files have three tensors, each of whole panels. */
    bool qkv_bias, o_bias, ffn_bias;
    bool gelu;              /* of up, without a gate; otherwise SwiGLU */
};

/* For struct tft_arch, whose `transformer` is set. */
void tft_transformer_load(struct tft_load *ld);
void tft_transformer_layer(struct tft_pass *p, uint32_t layer);

#endif
