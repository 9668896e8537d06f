/*
 * smollm3: Bakouch et al. 2025 (SmolLM3). The formula is llama's, but each fourth layer does not
 * rotate q and k (NoPE: Yang et al. 2025, arXiv 2501.18795).
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs, but in layers
 *                                            3, 7, 11, ...
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer smollm3 = {.rope = TFT_ROPE_PAIRS, .no_rope_period = 4};

const struct tft_arch tft_arch_smollm3 = {
    .name = "smollm3",
    .pieces = 1u << TFT_PIECE_ROPE_LAYERS,
    .load = tft_transformer_load,
    .layer = tft_transformer_layer,
    .transformer = &smollm3,
};
