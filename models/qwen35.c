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
 * three positions are the same. Blocks that predict further tokens (nextn_predict_layers) come last
 * and are not computed.
 */
#include "model/load.h"
#include "models/delta_net.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

/* Queries of attention have gates beside them. */
static bool load_mixer(struct tft_load *ld, unsigned layer)
{
    if (!tft_delta_net_load(ld, layer))
        tft_transformer_attention(ld, layer, 2 * ld->m->n_head * ld->m->head_dim);
    return true;
}

static const struct tft_transformer qwen35 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .mixer = load_mixer,
    .ffn_norm = "blk.%u.post_attention_norm",
};

/* Blocks that predict further tokens come last. */
static void drop_predicting_blocks(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    char full[96];
    const struct tft_value *v = tft_load_value(ld, "nextn_predict_layers", full);
    uint64_t n = 0;
    if (v && (v->is_array || !tft_value_uint(v, 0, &n) || n >= m->n_layer))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not less than the number of blocks, %u", full,
                      m->n_layer);
    else
        m->n_layer = m->n_host = m->n_layer - (uint32_t)n;
}

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_load_shape(ld, false);
    drop_predicting_blocks(ld);
    tft_load_mixer_width(ld, m->n_head * m->head_dim, 2 * m->n_head * m->head_dim); /* q and z */
    tft_delta_net_shape(ld);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->reads[0]);
    if (b->mixer == TFT_MIX_DELTA_NET) {
        tft_delta_net_mix(p, l);
    } else {
        tft_gated_qkv(p, b);
        tft_rmsnorm_heads(p, b);
        tft_rope(p, b);
        tft_attention(p, l); /* times the gates' sigmoids */
    }
    tft_residual(p, &b->o, TFT_A);

    tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_qwen35 = {
    .name = "qwen35",
    .parts = TFT_BIT(TFT_PART_OUTPUT_GATE),
    .load = load,
    .layer = layer,
    .transformer = &qwen35,
};
