/*
 * nemotron: Minitron and Nemotron-Mini (Parmar et al. 2024, arXiv 2402.16819, section 2). A part of
 * each head is rotated; feed-forward has squared ReLU and no gate.
 *
 *      x = embed[token]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half of n_rot apart
 *          x = x + Wo attend(q, K, V)
 *          h = layernorm(x)
 *          x = x + Wdown relu(Wup h)^2
 *      logits = Wout layernorm(x)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer nemotron = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .no_gate = true,
};

const struct tft_arch tft_arch_nemotron = {
    .name = "nemotron",
    .parts = TFT_BIT(TFT_PART_PLAIN_RELU2),
    .load = tft_transformer_load,
    .layer = tft_arcee_layer,
    .transformer = &nemotron,
};
