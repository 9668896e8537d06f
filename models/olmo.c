/*
 * olmo: OLMo 1 and 1.7 (Groeneveld et al. 2024, arXiv 2402.00838, section 2.1). Its LayerNorm has
 * neither a gain nor a bias. Where the file names attention.clamp_kqv, c, numbers of q, k and v are
 * bounded.
 *
 *      x = embed[token]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wq h, Wk h, Wv h        between -c and c; q, k rotated in neighbouring pairs
 *          x = x + Wo attend(q, K, V)
 *          h = layernorm(x)
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout layernorm(x)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer olmo = {
    .rope = TFT_ROPE_PAIRS,
    .layer_norm = true,
    .bare_norms = true,
};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    ld->m->qkv_bound = tft_load_factor(ld, "attention.clamp_kqv", 0);
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    if (p->m->qkv_bound > 0)
        tft_bound_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_olmo = {
    .name = "olmo",
    .load = load,
    .layer = layer,
    .transformer = &olmo,
};
