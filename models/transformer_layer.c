/* The transformer's formula, block by block; transformer.c loads what it computes with. */
#include "models/delta_net.h"
#include "models/layer_embed.h"
#include "models/short_conv.h"
#include "models/transformer.h"
#include "run/ops.h"

static void norm_qk(struct tft_pass *p, const struct tft_block *b)
{
    switch (p->m->arch->transformer->qk_norm) {
    case TFT_NO_QK_NORM: break;
    case TFT_QK_NORM_HEADS: tft_rmsnorm_heads(p, b); break;
    case TFT_QK_NORM_WHOLE: tft_rmsnorm_whole(p, b); break;
    case TFT_QK_NORM_OWN:
        if (b->q_norm.w)
            tft_layernorm_heads(p, b);
        break;
    }
}

/* X += the output of l for `from`, normalised and scaled where the formula says so. Then X is
   multiplied by `scale`, unless that is NULL. */
static void add(struct tft_pass *p, const struct tft_linear *l, enum tft_buf from,
                const struct tft_norm *norm, const float *scale)
{
    if (!tft_model_adds_apart(p->m)) {
        tft_linear_add(p, TFT_X, l, from);
        return;
    }
    tft_linear_apart(p, l, from);
    tft_add_apart(p, norm, scale);
}

/* A = attend(XN) */
static void attention(struct tft_pass *p, uint32_t layer)
{
    const struct tft_model *m = p->m;
    const struct tft_block *b = &m->block[layer];
    bool late = m->pieces & 1u << TFT_PIECE_LATE_QK_NORM;
    if (m->pieces & 1u << TFT_PIECE_OUTPUT_GATE)
        tft_gated_qkv(p, b);
    else
        tft_qkv(p, b);
    if (!late)
        norm_qk(p, b);
    if (m->n_rot && !b->no_rope)
        tft_rope(p, b);
    if (m->query_growth > 0)
        tft_scale_queries(p);
    if (late)
        norm_qk(p, b);
    if (b->k.w.rows)
        tft_kv_append(p, layer);
    if (layer + 1 == m->n_layer - m->n_shared) /* the later layers add nothing to the cache */
        tft_keep_last(p);
    tft_attend(p, layer);
}

/* A = the output of the layer's mixer: attention, a short convolution or a delta net. Behind the
   mixer of the last layer, only tokens whose logits are wanted are computed. */
static void mix(struct tft_pass *p, uint32_t layer)
{
    const struct tft_block *b = &p->m->block[layer];
    if (b->mixer == TFT_MIX_ATTENTION) {
        attention(p, layer);
        return;
    }
    if (b->mixer == TFT_MIX_SHORT_CONV)
        tft_short_conv_mix(p, b);
    else
        tft_delta_net_mix(p, b);
    if (layer + 1 == p->m->n_layer)
        tft_keep_last(p);
}

/* G = the hidden activations of XN */
static void feed_forward(struct tft_pass *p, const struct tft_block *b)
{
    if (p->m->arch->transformer->activation == TFT_GELU)
        tft_gelu(p, &b->up, &b->down);
    else
        tft_gated(p, &b->gate, &b->up, &b->down);
}

/* Y = the sum of the block's own feed-forward and of its experts, each with norms of its own. */
static void beside(struct tft_pass *p, const struct tft_block *b)
{
    tft_norm(p, &b->ffn_norm, &b->up);
    feed_forward(p, b);
    tft_linear_apart(p, &b->down, TFT_G);
    tft_set_aside(p, &b->experts.beside_norm);
    tft_norm(p, &b->experts.in_norm, &b->experts.up);
    tft_route(p, b);
    tft_experts(p, b);
    tft_add_aside(p, &b->experts.sum_norm);
}

/* X = scale * (X + the mixture of experts of X): mixture.h. */
static void mixture(struct tft_pass *p, const struct tft_block *b, const float *scale)
{
    if (tft_block_has_experts_beside(b)) {
        beside(p, b);
    } else {
        tft_norm(p, &b->ffn_norm, &b->experts.up);
        tft_route(p, b);
        if (b->up.w.rows) {
            feed_forward(p, b);
            tft_linear_apart(p, &b->down, TFT_G);
        }
        tft_experts(p, b);
    }
    tft_add_apart(p, &b->ffn_post_norm, scale);
}

void tft_transformer_layer(struct tft_pass *p, uint32_t layer)
{
    const struct tft_model *m = p->m;
    const struct tft_block *b = &m->block[layer];
    bool own_embed = m->layer_embed.n;
    const float *scale = own_embed ? NULL : b->scale;
    if (own_embed && layer == 0)
        tft_layer_embed_begin(p);
    tft_norm(p, &b->attn_norm, &b->q);
    mix(p, layer);
    if (m->parallel) /* the input of feed-forward is that of attention */
        tft_norm(p, &b->ffn_norm, &b->up);
    add(p, &b->o, TFT_A, &b->attn_post_norm, NULL);

    if (tft_block_has_experts(b)) {
        mixture(p, b, scale);
    } else {
        if (!m->parallel)
            tft_norm(p, &b->ffn_norm, &b->up);
        feed_forward(p, b);
        add(p, &b->down, TFT_G, &b->ffn_post_norm, scale);
    }
    if (own_embed)
        tft_layer_embed_add(p, layer, b->scale);
}
