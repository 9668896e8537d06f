/*
 * qwen2: Yang et al. 2024 (arXiv 2407.10671, section 2.2.1). Also Qwen2.5.
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

static const struct tft_transformer qwen2 = {
    .rope = TFT_ROPE_HALVES,
    .qkv_bias = true,
    .window_period = TFT_WINDOW_EVERYWHERE,
};

const struct tft_arch tft_arch_qwen2 = {
    .name = "qwen2",
    .load = tft_transformer_load,
    .layer = tft_llama_layer,
    .transformer = &qwen2,
};
