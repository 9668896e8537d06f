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
 *
 * gemma-embedding: EmbeddingGemma (Schechter Vera et al. 2025, arXiv 2509.20354). The same as an
 * encoder: tokens see all tokens of their text, or in a layer with a window as many on each side as
 * its half. Two products of the pooled vector follow (pooled.h).
 */
#include <math.h>

#include "model/load.h"
#include "models/layers.h"
#include "models/pooled.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer gemma3 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .scaled_embedding = true,
    .window_period = 6,
    .caps = true,
};

static const struct tft_transformer gemma_embedding = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .scaled_embedding = true,
    .window_period = 6,
};

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    if (m->n_layer == 62) /* 27B */
        m->attn_scale = 1.0f / sqrtf((float)(m->n_embd / m->n_head));
    tft_transformer_tensors(ld);
    if (tft_load_has(ld, "attention.sliding_window"))
        tft_load_rope_window(ld, 10000, m->head_dim);
}

static void load_embedding(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_transformer_load(ld);
    if (tft_load_has(ld, "attention.sliding_window"))
        tft_load_rope_window(ld, 10000, m->head_dim);
    tft_pooled_load(ld, (struct tft_pooled){.from = TFT_POOLING_CLS});
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual_normed(p, &b->o, TFT_A, &b->attn_post_norm);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, TFT_GELU);
    tft_residual_normed(p, &b->down, TFT_G, &b->ffn_post_norm);
}

const struct tft_arch tft_arch_gemma3 = {
    .name = "gemma3",
    .parts = TFT_BIT(TFT_PART_GEGLU) | TFT_BIT(TFT_PART_POST_NORM),
    .load = load,
    .layer = layer,
    .transformer = &gemma3,
};

const struct tft_arch tft_arch_gemma_embedding = {
    .name = "gemma-embedding",
    .parts = TFT_BIT(TFT_PART_ENCODER) | TFT_BIT(TFT_PART_GEGLU) | TFT_BIT(TFT_PART_POST_NORM),
    .load = load_embedding,
    .layer = layer,
    .transformer = &gemma_embedding,
};
