/*
 * gemma3n, text: Google 2025 (https://ai.google.dev/gemma/docs/gemma-3n; E2B, E4B). As gemma4
 * without experts, with several residual streams and a product beside attention
 * (models/altup.h), and gates of which the first layers keep the largest.
 *
 *      x = sqrt(D) embed[token], and the streams X of it
 *      per layer:
 *          P = predict(X)
 *          h = rms(P_0) g1
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k, v = rms(q) g_q, rms(k) g_k, rms(v) per head
 *          q, k rotated                                partners half a head apart
 *          s = (rms(Wo attend(q, K, V)) g2 + P_0 + laurel(h)) / sqrt(2)
 *          f = rms(s) g3
 *          g = Wgate f, or max(0, g - mean - c deviation)      c of activation_sparsity_scale
 *          y = s + rms(Wdown (gelu(g) * Wup f)) g4
 *          X = correct(P, y)
 *          X_1, ... += rms(Wout (gelu(Wgate' (X_0 g_s)) * p_l)) g5     models/layer_embed.h
 *      x = end(X)
 *      logits = c tanh(embed (rms(x) g_out) / c)
 *
 * The last layers use keys and values of earlier ones, as gemma4's.
 */
#include "model/load.h"
#include "models/altup.h"
#include "models/layer_embed.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static void load_block(struct tft_load *ld, unsigned layer)
{
    if (layer == 0) {
        ld->m->logit_cap = tft_load_factor(ld, "final_logit_softcapping", 30);
        tft_layer_embed_load(ld);
        tft_altup_load(ld);
    }
    tft_layer_embed_load_layer(ld, layer);
    tft_altup_load_layer(ld, layer);
}

static const struct tft_transformer gemma3n = {
    .rope = TFT_ROPE_HALVES,
    .scaled_embedding = true,
    .window_period = 5,
    .mixer = tft_gemma4_attention,
    .block = load_block,
};

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_altup_shape(ld);
    tft_gemma4_load(ld);
    if (!m->layer_embed.n)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "it has no per-layer embeddings");
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    if (l == 0) {
        tft_layer_embed_begin(p);
        tft_altup_begin(p);
    }
    tft_altup_predict(p, b);
    tft_norm(p, &b->attn_norm, &b->altup.left);
    tft_laurel(p, b);
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_linear_y(p, &b->o, TFT_A);
    tft_laurel_join(p, b);

    tft_norm(p, &b->ffn_norm, &b->up);
    if (b->altup.sparsity > 0)
        tft_sparse_hidden(p, b);
    else
        tft_gated(p, b, TFT_GELU);
    tft_residual_normed(p, &b->down, TFT_G, &b->ffn_post_norm);
    tft_altup_correct(p, b);

    tft_norm(p, &b->altup.scale, &b->embed_gate);
    tft_embed_gate(p, l);
    tft_linear_y(p, &b->embed_out, TFT_I);
    tft_altup_add(p, b);
    if (l + 1 == p->m->n_layer)
        tft_altup_end(p);
}

const struct tft_arch tft_arch_gemma3n = {
    .name = "gemma3n",
    .parts = TFT_BIT(TFT_PART_GEGLU) | TFT_BIT(TFT_PART_POST_NORM) | TFT_BIT(TFT_PART_VALUE_NORM) |
             TFT_BIT(TFT_PART_ALTUP),
    .load = load,
    .layer = layer,
    .transformer = &gemma3n,
};
