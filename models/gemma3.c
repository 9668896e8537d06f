/*
 * gemma3, text: Gemma Team 2025 (arXiv 2503.19786, section 2). As gemma2, with norms of q and k in
 * the place of the cap of scores. Five layers in six attend to a window and are rotated with a base
 * of their own; linear scaling of RoPE is for the others. The 27B model, of 62 layers, divides
 * scores by sqrt(D / H).
 *
 *      x = sqrt(D) embed[token]
 *      per layer:
 *          h = rms(x) g1
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
 *          x = x + rms(Wo attend(q, K, V)) g2
 *          h = rms(x) g3
 *          x = x + rms(Wdown (gelu(Wgate h) * Wup h)) g4
 *      logits = embed (rms(x) g_out)
 */
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer gemma3 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .activation = TFT_GEGLU,
    .scaled_embedding = true,
    .window_period = 6,
    .window_plain_rope = true,
    .window_base = 10000,
    .caps = true,
    .wide_layers = 62,
};

const struct tft_arch tft_arch_gemma3 = {
    .name = "gemma3",
    .pieces = 1u << TFT_PIECE_POST_NORM,
    .load = tft_transformer_load,
    .layer = tft_transformer_layer,
    .transformer = &gemma3,
};
