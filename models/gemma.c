/*
 * gemma: Gemma Team 2024 (arXiv 2403.08295, section 2). The gains of norms are stored as 1 + w, as
 * GGUF files have them. The size of a head is a value of the file.
 *
 *      x = sqrt(D) embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (gelu(Wgate h) * Wup h)
 *      logits = embed (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer gemma = {
    .rope = TFT_ROPE_HALVES,
    .scaled_embedding = true,
};

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, TFT_GELU);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_gemma = {
    .name = "gemma",
    .parts = TFT_BIT(TFT_PART_GEGLU),
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &gemma,
};
