/*
 * internlm2: InternLM 2 and 2.5 (Cai et al. 2024, arXiv 2403.17297, section 2.2). The formula is
 * llama's.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer internlm2 = {.rope = TFT_ROPE_PAIRS};

const struct tft_arch tft_arch_internlm2 = {
    .name = "internlm2",
    .load = tft_transformer_load,
    .layer = tft_llama_layer,
    .transformer = &internlm2,
};
