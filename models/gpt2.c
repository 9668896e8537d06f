/*
 * gpt2: Radford et al. 2019 (section 2.3, on Radford et al. 2018).
 *
 *      x = embed[token] + embed_pos[position]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wqkv h + bqkv, in three parts
 *          x = x + Wo attend(q, K, V) + bo
 *          h = layernorm(x)
 *          x = x + Wdown gelu(Wup h + bup) + bdown
 *      logits = Wout layernorm(x)
 */
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer gpt2 = {
    .learned_positions = true,
    .layer_norm = true,
    .fused_qkv = true,
    .qkv_bias = true,
    .o_bias = true,
    .ffn_bias = true,
    .activation = TFT_GELU,
};

const struct tft_arch tft_arch_gpt2 = {
    .name = "gpt2",
    .load = tft_transformer_load,
    .layer = tft_transformer_layer,
    .transformer = &gpt2,
};
