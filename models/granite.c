/*
 * granite, dense: IBM Granite 3 and 4 (transformers: GraniteForCausalLM). Its four factors are
 * values of the file: e embedding_scale, r residual_scale, l logit_scale, a attention.scale. Where
 * the file says rope.scaling.finetuned = false, q and k are not rotated.
 *
 *      x = e embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + r Wo attend(q, K, V)      scores: a q.k, without 1 / sqrt(E)
 *          h = rms(x) g_ffn
 *          x = x + r Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out) / l
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_multipliers multipliers = {0};

static const struct tft_transformer granite = {.multipliers = &multipliers};

void tft_granite_load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    if (tft_load_flag(ld, "rope.scaling.finetuned", true))
        tft_load_rope(ld, false, false);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}

void tft_granite_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    if (p->m->n_rot)
        tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    if (tft_layer_has_experts(b)) /* granitemoe */
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_granite = {
    .name = "granite",
    .load = tft_granite_load,
    .layer = tft_granite_layer,
    .transformer = &granite,
};
