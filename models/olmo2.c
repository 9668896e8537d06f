/*
 * olmo2: OLMo Team 2024 (arXiv 2501.00656, section 2.2). Norms come after attention and
 * feed-forward, and q and k are normalised over all their heads together. In OLMo 3 three layers in
 * four attend to a window; YaRN is for the others, with the factor of cosines and sines that its
 * configuration names, attention_factor, 0.1 ln(8) + 1. llama.cpp multiplies it by that once more.
 *
 *      x = embed[token]
 *      per layer:
 *          q, k, v = Wq x, Wk x, Wv x
 *          q, k = rms(q) g_q, rms(k) g_k     then rotated, partners half a head apart
 *          x = x + rms(Wo attend(q, K, V)) g_attn
 *          x = x + rms(Wdown (silu(Wgate x) * Wup x)) g_ffn
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer olmo2 = {.qk_norm = TFT_QK_NORM_WHOLE, .window_period = 4};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_load_rope(ld, true, true); /* the file names the whole factor of YaRN */
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
    if (tft_load_has(ld, "attention.sliding_window"))
        tft_load_rope_window(ld, 0, ld->m->head_dim);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_take(p, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_whole(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual_normed(p, &b->o, TFT_A, &b->attn_post_norm);

    tft_take(p, &b->up);
    tft_gated(p, b, TFT_SILU);
    tft_residual_normed(p, &b->down, TFT_G, &b->ffn_post_norm);
}

const struct tft_arch tft_arch_olmo2 = {
    .name = "olmo2",
    .parts = TFT_BIT(TFT_PART_NO_PRE_NORM) | TFT_BIT(TFT_PART_POST_NORM) |
              TFT_BIT(TFT_PART_WHOLE_QK_NORM),
    .load = load,
    .layer = layer,
    .transformer = &olmo2,
};
