/*
 * qwen35: Qwen3.5, dense, its text. Three of four layers have a gated delta net instead of
 * attention; attention has a gate on its output, and rotates a part of each head.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          x = x + Wout delta(h)                           models/delta_net.h
 *          or
 *          q, z = Wq h per head; k, v = Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head          then rotated, partners half of n_rot
 *                                                          apart
 *          x = x + Wo (attend(q, K, V) * sigmoid(z))
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 *
 * Files call g_ffn post_attention_norm. Their rope.dimension_sections are for images: in text, all
 * three positions are the same. A block that predicts a further token is one with attention
 * (models/predictor.h).
 */
#include "model/load.h"
#include "models/delta_net.h"
#include "models/layers.h"
#include "models/predictor.h"
#include "models/registry.h"
#include "models/transformer.h"

/* Queries of attention have gates beside them. */
bool tft_qwen35_mixer(struct tft_load *ld, unsigned layer)
{
    bool predicts = layer >= ld->m->n_layer;
    if (predicts || !tft_delta_net_load(ld, layer))
        tft_transformer_attention(ld, layer, 2 * ld->m->n_head * ld->m->head_dim);
    return true;
}

static const struct tft_transformer qwen35 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .mixer = tft_qwen35_mixer,
    .ffn_norm = "blk.%u.post_attention_norm",
};

void tft_qwen35_load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_load_shape(ld, false);
    tft_transformer_drop_predicting(ld);
    tft_load_mixer_width(ld, m->n_head * m->head_dim, 2 * m->n_head * m->head_dim); /* q and z */
    tft_delta_net_shape(ld);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
    tft_predictor_load(ld);
}

static void attention_input(struct tft_pass *p, const struct tft_layer *b)
{
    tft_gated_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    tft_rope(p, b);
}

void tft_qwen35_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->reads[0]);
    if (b->mixer == TFT_MIX_DELTA_NET) {
        tft_delta_net_mix(p, l);
    } else {
        attention_input(p, b);
        tft_attention(p, l); /* times the gates' sigmoids */
    }
    tft_residual(p, &b->o, TFT_A);

    if (tft_layer_has_experts(b)) /* qwen35moe */
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b);
}

/* In a pass through the model, only the block's keys and values are wanted. */
void tft_qwen35_predict(struct tft_pass *p)
{
    uint32_t l = p->m->n_layer;
    const struct tft_layer *b = &p->m->layer[l];
    p->first = 0;
    tft_predict_input(p);
    if (p->before) {
        tft_qwen35_layer(p, l);
        tft_predict_head(p);
        return;
    }
    tft_norm(p, &b->attn_norm, &b->reads[0]);
    attention_input(p, b);
    tft_kv_append(p, l);
    if (!p->seq)
        p->first = p->n;
    tft_attend(p, l); /* stores the rest, where the cache quantizes */
}

const struct tft_arch tft_arch_qwen35 = {
    .name = "qwen35",
    .parts = TFT_BIT(TFT_PART_OUTPUT_GATE),
    .load = tft_qwen35_load,
    .layer = tft_qwen35_layer,
    .predict = tft_qwen35_predict,
    .transformer = &qwen35,
};
