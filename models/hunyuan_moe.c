/*
 * hunyuan-moe: Tencent 2024 (Hunyuan-A13B; arXiv 2411.02265, section 2.1). hunyuan-dense with
 * experts of renormalised weights, and a shared expert.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half a head apart
 *          q, k = rms(q) g_q, rms(k) g_k per head
 *          x = x + Wo attend(q, K, V)
 *          x = x + mixture(rms(x) g_ffn)     models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true};

static const struct tft_transformer hunyuan_moe = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .mixture = &mixture,
};

const struct tft_arch tft_arch_hunyuan_moe = {
    .name = "hunyuan-moe",
    .parts = TFT_BIT(TFT_PART_LATE_QK_NORM),
    .load = tft_transformer_load,
    .layer = tft_hunyuan_layer,
    .transformer = &hunyuan_moe,
};
