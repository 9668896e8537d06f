/*
 * qwen2vl: Qwen2-VL and Qwen2.5-VL, their text (Wang et al. 2024, arXiv 2409.12191). The formula is
 * qwen2's. rope.dimension_sections gives the numbers of a head to positions in time, height and
 * width, which are the same in text.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h + bq, Wk h + bk, Wv h + bv      q, k rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer qwen2vl = {.rope = TFT_ROPE_HALVES, .qkv_bias = true};

const struct tft_arch tft_arch_qwen2vl = {
    .name = "qwen2vl",
    .load = tft_transformer_load,
    .layer = tft_llama_layer,
    .transformer = &qwen2vl,
};
