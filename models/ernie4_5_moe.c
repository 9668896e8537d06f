/*
 * ernie4_5-moe: Baidu 2025 (ERNIE 4.5 technical report, section 2). ernie4_5 with experts in the
 * layers after the leading dense ones: their weights are a softmax, renormalised, and a bias helps
 * to choose them.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)     leading_dense_block_count layers
 *          or x = x + mixture(h)                     models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true};

static const struct tft_transformer ernie4_5_moe = {
    .rope = TFT_ROPE_PAIRS,
    .mixture = &mixture,
};

const struct tft_arch tft_arch_ernie4_5_moe = {
    .name = "ernie4_5-moe",
    .load = tft_transformer_load,
    .layer = tft_llama_layer,
    .transformer = &ernie4_5_moe,
};
