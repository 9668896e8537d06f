/*
 * seed_oss: ByteDance Seed 2025 (transformers: SeedOssForCausalLM). The formula is qwen2's; files
 * call g_ffn post_attention_norm.
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

static const struct tft_transformer seed_oss = {
    .rope = TFT_ROPE_HALVES,
    .ffn_norm = "blk.%u.post_attention_norm",
};

const struct tft_arch tft_arch_seed_oss = {
    .name = "seed_oss",
    .load = tft_transformer_load,
    .layer = tft_llama_layer,
    .transformer = &seed_oss,
};
