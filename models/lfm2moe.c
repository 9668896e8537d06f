/*
 * lfm2moe: Liquid AI 2025 (arXiv 2511.23404, section 2). lfm2 with experts in the layers after the
 * leading dense ones: their weights are sigmoids, renormalised, and a bias helps to choose them.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          x = x + Wout conv(Win h)                        models/short_conv.h
 *          or
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head          then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)           leading_dense_block_count layers
 *          or x = x + mixture(h)                           models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/short_conv.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true, .sigmoid = true};

static const struct tft_transformer lfm2moe = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .window_period = TFT_WINDOW_EVERYWHERE,
    .mixer = tft_short_conv_load,
    .out_norm = "token_embd_norm",
    .mixture = &mixture,
};

const struct tft_arch tft_arch_lfm2moe = {
    .name = "lfm2moe",
    .load = tft_transformer_load,
    .layer = tft_lfm2_layer,
    .transformer = &lfm2moe,
};
