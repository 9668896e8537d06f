/*
 * qwen3moe: Yang et al. 2025 (arXiv 2505.09388, section 2). qwen3 with experts of renormalised
 * weights.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          x = x + mixture(rms(x) g_ffn)               models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true};

static const struct tft_transformer qwen3moe = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .mixture = &mixture,
};

const struct tft_arch tft_arch_qwen3moe = {
    .name = "qwen3moe",
    .load = tft_transformer_load,
    .layer = tft_qwen3_layer,
    .transformer = &qwen3moe,
};
