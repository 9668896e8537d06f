/*
 * qwen3vl: Qwen3-VL, its text (Bai et al. 2025, arXiv 2511.21631). The formula is qwen3's.
 * rope.dimension_sections gives the numbers of a head in turns to positions in time, height and
 * width, which are the same in text.
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
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer qwen3vl = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
};

const struct tft_arch tft_arch_qwen3vl = {
    .name = "qwen3vl",
    .load = tft_transformer_load,
    .layer = tft_qwen3_layer,
    .transformer = &qwen3vl,
};
