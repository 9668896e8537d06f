/*
 * command-r: Command R, Aya 23 and Aya Expanse (Aryabumi et al. 2024, arXiv 2405.15032, section 2).
 * cohere2 without windows; all layers rotate q and k. Models of 64 layers and more, which normalise
 * each head of q and k, are refused.
 *
 *      x = embed[token]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + Wo attend(q, K, V) + Wdown (silu(Wgate h) * Wup h)
 *      logits = l Wout layernorm(x)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer command_r = {
    .rope = TFT_ROPE_PAIRS,
    .layer_norm = true,
    .bare_norms = true,
};

const struct tft_arch tft_arch_command_r = {
    .name = "command-r",
    .load = tft_cohere_load,
    .layer = tft_cohere_layer,
    .transformer = &command_r,
};
