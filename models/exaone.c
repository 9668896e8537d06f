/*
 * exaone: EXAONE 3, 3.5 and Deep (LG AI Research 2024, arXiv 2412.04862, section 2). The formula is
 * llama's, with partners of RoPE half a head apart.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer exaone = {.rope = TFT_ROPE_HALVES};

const struct tft_arch tft_arch_exaone = {
    .name = "exaone",
    .load = tft_transformer_load,
    .layer = tft_llama_layer,
    .transformer = &exaone,
};
