#include "models/transformer.h"

#include "model/load.h"
#include "run/ops.h"

static void load_qkv(struct tft_load *ld, const struct tft_transformer *t, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_block *b = tft_load_block(ld, layer);
    uint32_t q = m->n_head * m->head_dim, kv = m->n_head_kv * m->head_dim;
    if (t->fused_qkv && !ld->w8a8 && !tft_load_has_linear(ld, "blk.%u.attn_q", layer)) {
        const char *qkv = "blk.%u.attn_qkv";
        uint32_t all = q + 2 * kv, d = m->n_embd;
        b->q = tft_load_linear_rows(ld, qkv, layer, all, 0, q, d, t->qkv_bias);
        b->k = tft_load_linear_rows(ld, qkv, layer, all, q, kv, d, t->qkv_bias);
        b->v = tft_load_linear_rows(ld, qkv, layer, all, q + kv, kv, d, t->qkv_bias);
    } else {
        b->q = tft_load_linear(ld, "blk.%u.attn_q", layer, q, m->n_embd, t->qkv_bias);
        b->k = tft_load_linear(ld, "blk.%u.attn_k", layer, kv, m->n_embd, t->qkv_bias);
        b->v = tft_load_linear(ld, "blk.%u.attn_v", layer, kv, m->n_embd, t->qkv_bias);
    }
    if (t->qk_norm) {
        b->q_norm = tft_load_norm(ld, "blk.%u.attn_q_norm", layer, m->head_dim, false);
        b->k_norm = tft_load_norm(ld, "blk.%u.attn_k_norm", layer, m->head_dim, false);
    }
}

static void load_block(struct tft_load *ld, const struct tft_transformer *t, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_block *b = tft_load_block(ld, layer);
    uint32_t q = m->n_head * m->head_dim, d = m->n_embd, ff = m->n_ff;
    b->attn_norm = tft_load_norm(ld, "blk.%u.attn_norm", layer, d, t->layer_norm);
    load_qkv(ld, t, layer);
    b->o = tft_load_linear(ld, "blk.%u.attn_output", layer, d, q, t->o_bias);
    b->ffn_norm = tft_load_norm(ld, "blk.%u.ffn_norm", layer, d, t->layer_norm);
    if (!t->gelu)
        b->gate = tft_load_linear(ld, "blk.%u.ffn_gate", layer, ff, d, t->ffn_bias);
    b->up = tft_load_linear(ld, "blk.%u.ffn_up", layer, ff, d, t->ffn_bias);
    b->down = tft_load_linear(ld, "blk.%u.ffn_down", layer, d, ff, t->ffn_bias);
}

void tft_transformer_load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const struct tft_transformer *t = m->arch->transformer;
    tft_load_shape(ld);
    if (t->rope != TFT_NO_ROPE)
        tft_load_rope(ld, t->rope == TFT_ROPE_HALVES);
    m->norm_eps = tft_load_real(
        ld, t->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0);

    tft_load_embedding(ld);
    if (t->learned_positions)
        m->pos_embed = tft_load_table(ld, "position_embd.weight", m->n_ctx, m->n_embd);
    for (unsigned layer = 0; layer < m->n_layer && ld->status == TFT_OK; layer++)
        load_block(ld, t, layer);
    m->out_norm = tft_load_norm(ld, "output_norm", 0, m->n_embd, t->layer_norm);
    tft_load_head(ld);
}

void tft_transformer_layer(struct tft_pass *p, uint32_t layer)
{
    const struct tft_model *m = p->m;
    const struct tft_transformer *t = m->arch->transformer;
    const struct tft_block *b = &m->block[layer];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    if (t->qk_norm)
        tft_rmsnorm_heads(p, b);
    if (t->rope != TFT_NO_ROPE)
        tft_rope(p);
    tft_kv_append(p, layer);
    if (layer + 1 == m->n_layer)
        tft_keep_last(p);
    tft_attend(p, layer, &b->o);
    tft_linear_add(p, TFT_X, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    if (t->gelu)
        tft_gelu(p, &b->up, &b->down);
    else
        tft_swiglu(p, &b->gate, &b->up, &b->down);
    tft_linear_add(p, TFT_X, &b->down, TFT_G);
}
