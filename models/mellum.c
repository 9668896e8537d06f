/*
 * mellum: Mellum 2 12B-A2.5B (JetBrains 2026). qwen3moe with windows: three layers in four attend
 * to a window; YaRN is for the others.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          x = x + mixture(rms(x) g_ffn)               models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true};

static const struct tft_transformer mellum = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .window_period = 4,
    .mixture = &mixture,
};

static void load(struct tft_load *ld)
{
    tft_transformer_load(ld);
    if (tft_load_has(ld, "attention.sliding_window"))
        tft_load_rope_window(ld, 0, ld->m->head_dim);
}

const struct tft_arch tft_arch_mellum = {
    .name = "mellum",
    .load = load,
    .layer = tft_qwen3_layer,
    .transformer = &mellum,
};
