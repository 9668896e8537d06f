/*
 * starcoder2: Lozhkov et al. 2024 (arXiv 2402.19173, section 6).
 *
 *      x = embed[token]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wq h + bq, Wk h + bk, Wv h + bv      q, k rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V) + bo
 *          h = layernorm(x)
 *          x = x + Wdown gelu(Wup h + bup) + bdown
 *      logits = Wout layernorm(x)
 */
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer starcoder2 = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .qkv_bias = true,
    .o_bias = true,
    .ffn_bias = true,
    .activation = TFT_GELU,
};

const struct tft_arch tft_arch_starcoder2 = {
    .name = "starcoder2",
    .load = tft_transformer_load,
    .layer = tft_transformer_layer,
    .transformer = &starcoder2,
};
