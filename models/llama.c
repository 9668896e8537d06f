/*
 * llama: Touvron et al. 2023 (arXiv 2302.13971, section 2.2), with grouped queries (Ainslie et al.
 * 2023). Also Llama 2 and 3, TinyLlama, SmolLM, and llama2.c's models.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *          or x = x + mixture(h)             Mixtral (Jiang et al. 2024, arXiv 2401.04088)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true, .optional = true};

static const struct tft_transformer llama = {.rope = TFT_ROPE_PAIRS, .mixture = &mixture};

const struct tft_arch tft_arch_llama = {
    .name = "llama",
    .load = tft_transformer_load,
    .layer = tft_transformer_layer,
    .transformer = &llama,
};
