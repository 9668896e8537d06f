/*
 * gemma2: Gemma Team 2024 (arXiv 2408.00118, section 2). Norms before and after each half; scores
 * and logits have soft caps, cap(y, c) = c tanh(y / c); every other layer, from the first on,
 * attends to a window. The 27B model, of 46 layers, divides scores by sqrt(D / H).
 *
 *      x = sqrt(D) embed[token]
 *      per layer:
 *          h = rms(x) g1
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half a head apart
 *          x = x + rms(Wo attend(q, K, V)) g2        scores: cap(q.k / sqrt(E), 50)
 *          h = rms(x) g3
 *          x = x + rms(Wdown (gelu(Wgate h) * Wup h)) g4
 *      logits = cap(embed (rms(x) g_out), 30)
 */
#include <math.h>

#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer gemma2 = {
    .rope = TFT_ROPE_HALVES,
    .scaled_embedding = true,
    .window_period = 2,
    .window = 4096,
    .caps = true,
};

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    m->score_cap = m->score_cap > 0 ? m->score_cap : 50;
    m->logit_cap = m->logit_cap > 0 ? m->logit_cap : 30;
    if (m->n_layer == 46) /* 27B */
        m->attn_scale = 1.0f / sqrtf((float)(m->n_embd / m->n_head));
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l); /* with the cap of scores */
    tft_residual_normed(p, &b->o, TFT_A, &b->attn_post_norm);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, TFT_GELU);
    tft_residual_normed(p, &b->down, TFT_G, &b->ffn_post_norm);
}

const struct tft_arch tft_arch_gemma2 = {
    .name = "gemma2",
    .parts = TFT_BIT(TFT_PART_GEGLU) | TFT_BIT(TFT_PART_POST_NORM),
    .load = load,
    .layer = layer,
    .transformer = &gemma2,
};
