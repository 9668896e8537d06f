/*
 * bailingmoe2: Ling and Ring 2.0 (Ling Team 2025, arXiv 2510.22115, section 2). Half of each head
 * is rotated. Layers after the leading dense ones have experts in groups, with sigmoids as weights,
 * which a bias helps to choose, and a shared expert. Blocks that predict further tokens come last
 * and are not computed.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wqkv h, in three parts
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half of n_rot apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)       leading_dense_block_count layers
 *          or x = x + mixture(h)                       models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {
    .renorm = true,
    .says_renorm = true,
    .sigmoid = true,
    .groups = true,
};

static const struct tft_transformer bailingmoe2 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .fused_qkv = true,
    .mixture = &mixture,
};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_transformer_drop_predicting(ld);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}

const struct tft_arch tft_arch_bailingmoe2 = {
    .name = "bailingmoe2",
    .load = load,
    .layer = tft_qwen3_layer,
    .transformer = &bailingmoe2,
};
