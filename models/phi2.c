/*
 * phi2: Phi-1, Phi-1.5 and Phi-2 (Li et al. 2023, arXiv 2309.05463, section 2.1). The halves of a
 * block are computed side by side, after one norm. A part of each head is rotated, and logits have
 * a bias.
 *
 *      x = embed[token]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wq h + bq, Wk h + bk, Wv h + bv   q, k rotated, partners half of n_rot apart
 *          x = x + Wo attend(q, K, V) + bo + Wdown gelu(Wup h + bup) + bdown
 *      logits = Wout layernorm(x) + bout
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer phi2 = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .qkv_bias = true,
    .o_bias = true,
    .ffn_bias = true,
    .no_gate = true,
};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    ld->m->parallel = ld->m->names_norm_2 = true;
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_add_attention(p, b);

    tft_gelu(p, b);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_phi2 = {
    .name = "phi2",
    .parts = TFT_BIT(TFT_PART_HEAD_BIAS),
    .load = load,
    .layer = layer,
    .transformer = &phi2,
};
