/*
 * qwen3, dense: Yang et al. 2025 (arXiv 2505.09388, section 2). The size of a head is a value of
 * the file, not the width divided by the number of heads.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer qwen3 = {.rope = TFT_ROPE_HALVES, .qk_norm = TFT_QK_NORM_HEADS};

const struct tft_arch tft_arch_qwen3 = {
    .name = "qwen3",
    .load = tft_transformer_load,
    .layer = tft_transformer_layer,
    .transformer = &qwen3,
};
