/*
 * olmoe: Muennighoff et al. 2024 (arXiv 2409.02060, section 2). The weights of experts are not
 * renormalised.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k over all heads    then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          x = x + mixture(rms(x) g_ffn)                     models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = false};

static const struct tft_transformer olmoe = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_WHOLE,
    .mixture = &mixture,
};

const struct tft_arch tft_arch_olmoe = {
    .name = "olmoe",
    .pieces = 1u << TFT_PIECE_WHOLE_QK_NORM,
    .load = tft_transformer_load,
    .layer = tft_transformer_layer,
    .transformer = &olmoe,
};
