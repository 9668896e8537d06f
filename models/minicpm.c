/*
 * minicpm: Hu et al. 2024 (arXiv 2404.06395, section 4 and appendix A). Also MiniCPM 4, with
 * divisors of RoPE for short and for long sessions. The formula is granite's with a = 1 / sqrt(E),
 * and with the paper's factors where the file has none: e = 12, r = 1.4 / sqrt(layers), l = D /
 * 256.
 *
 *      x = e embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + r Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + r Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out) / l
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_multipliers multipliers = {.embedding = 12, .depth = 1.4f, .width = 256};

static const struct tft_transformer minicpm = {
    .rope = TFT_ROPE_PAIRS,
    .multipliers = &multipliers,
};

const struct tft_arch tft_arch_minicpm = {
    .name = "minicpm",
    .load = tft_transformer_load,
    .layer = tft_granite_layer,
    .transformer = &minicpm,
};
