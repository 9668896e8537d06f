/*
 * phi3: Abdin et al. 2024 (arXiv 2404.14219, section 2). Also Phi-3.5-mini, Phi-4 and Phi-4-mini.
 * The formula is llama's; one tensor has the rows of q, k and v, and one the rows of the gate and
 * of up. A part of each head is rotated, with divisors for short and for long sessions, and with an
 * amplitude (load_rope.c). Phi-3-mini-4k has a window of 2047 tokens in all layers, which llama.cpp
 * does not apply.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wqkv h, in three parts      q, k rotated, partners half of n_rot apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          gate, up = Wup h, in two parts
 *          x = x + Wdown (silu(gate) * up)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer phi3 = {
    .rope = TFT_ROPE_HALVES,
    .fused_qkv = true,
    .fused_gate = true,
    .window_period = TFT_WINDOW_EVERYWHERE,
};

const struct tft_arch tft_arch_phi3 = {
    .name = "phi3",
    .load = tft_transformer_load,
    .layer = tft_llama_layer,
    .transformer = &phi3,
};
