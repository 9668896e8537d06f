/*
 * dots1: dots.llm1 (rednote-hilab 2025, arXiv 2506.05767, section 2). qwen3moe with leading dense
 * layers, and with sigmoids as weights of experts, which a bias helps to choose.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)       leading_dense_block_count layers
 *          or x = x + mixture(h)                       models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true, .says_renorm = true, .sigmoid = true};

static const struct tft_transformer dots1 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .mixture = &mixture,
};

const struct tft_arch tft_arch_dots1 = {
    .name = "dots1",
    .load = tft_transformer_load,
    .layer = tft_qwen3_layer,
    .transformer = &dots1,
};
