/*
 * modern-bert: ModernBERT (Warner et al. 2024, arXiv 2412.13663, section 2.1): gte-modernbert,
 * Granite Embedding R2. Norms are LayerNorm without a bias. Two layers in three see a window, as
 * many tokens on each side as its half, and are rotated with a base of their own. A reranker of
 * this kind takes the mean, and has GELU and a norm before its classifier (pooled.h).
 *
 *      x = layernorm(embed[token])
 *      per layer:
 *          h = layernorm(x), or x in the first layer
 *          q, k, v = Wqkv h, in three parts        q, k rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = layernorm(x)
 *          x = x + Wdown (a(Wgate h) * Wup h)      a is GELU, or SiLU if hidden_activation says so
 *      hidden vectors = layernorm(x)
 */
#include "model/load.h"
#include "models/encoder.h"
#include "models/layers.h"
#include "models/pooled.h"
#include "models/registry.h"
#include "models/transformer.h"

/* Norms without a bias get one of zeros; the first layer has no norm. */
static void block(struct tft_load *ld, unsigned layer)
{
    if (layer == 0 && !tft_load_has_norm(ld, "blk.%u.attn_norm", 0))
        tft_load_layer(ld, layer)->attn_norm = (struct tft_norm){0};
}

static const struct tft_transformer modern = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .bare_norms = true,
    .fused_gate = true,
    .window_period = 3,
    .window_first = true,
    .block = block,
};

/* Whether hidden activations are SiLU's. */
static bool load_silu(struct tft_load *ld)
{
    char full[96];
    struct tft_str name = {0};
    const struct tft_value *v = tft_load_value(ld, "hidden_activation", full);
    if (!v)
        return false;
    tft_value_str(v, &name);
    bool silu = tft_str_is(name, "silu") || tft_str_is(name, "swish");
    if (!silu && !tft_str_is(name, "gelu"))
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "%s is neither gelu nor silu", full);
    return silu;
}

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_transformer_load(ld);
    if (tft_load_has(ld, "attention.sliding_window"))
        tft_load_rope_window(ld, 10000, m->head_dim);
    tft_encoder_embedding(ld, false);
    m->hidden_silu = load_silu(ld);
    tft_pooled_load(ld, (struct tft_pooled){.from = TFT_POOLING_MEAN, .gelu = true});
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, p->m->hidden_silu ? TFT_SILU : tft_encoder_activation(p->m));
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_modern_bert = {
    .name = "modern-bert",
    .parts = TFT_BIT(TFT_PART_ENCODER),
    .load = load,
    .layer = layer,
    .transformer = &modern,
};
