/*
 * granitemoe: IBM Granite 3 (transformers: GraniteMoeForCausalLM, GraniteMoeSharedForCausalLM).
 * granite with experts of renormalised weights, and a shared expert in some files.
 *
 *      x = e embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + r Wo attend(q, K, V)      scores: a q.k, without 1 / sqrt(E)
 *          x = x + r mixture(rms(x) g_ffn)   models/mixture.h
 *      logits = Wout (rms(x) g_out) / l
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true};

static const struct tft_multipliers multipliers = {0};

static const struct tft_transformer granitemoe = {
    .multipliers = &multipliers,
    .mixture = &mixture,
};

const struct tft_arch tft_arch_granitemoe = {
    .name = "granitemoe",
    .load = tft_granite_load,
    .layer = tft_granite_layer,
    .transformer = &granitemoe,
};
