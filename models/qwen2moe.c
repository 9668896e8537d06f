/*
 * qwen2moe: Yang et al. 2024 (arXiv 2407.10671, section 2.2.2). qwen2 with experts of weights that
 * are not renormalised, and a shared expert with a gate.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h + bq, Wk h + bk, Wv h + bv      q, k rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          x = x + mixture(rms(x) g_ffn)                  models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = false};

static const struct tft_transformer qwen2moe = {
    .rope = TFT_ROPE_HALVES,
    .qkv_bias = true,
    .mixture = &mixture,
};

const struct tft_arch tft_arch_qwen2moe = {
    .name = "qwen2moe",
    .load = tft_transformer_load,
    .layer = tft_llama_layer,
    .transformer = &qwen2moe,
};
