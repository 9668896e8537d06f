/*
 * gpt2: Radford et al. 2019 (section 2.3, on Radford et al. 2018).
 *
 *      x = embed[token] + embed_pos[position]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wqkv h + bqkv, in three parts
 *          x = x + Wo attend(q, K, V) + bo
 *          h = layernorm(x)
 *          x = x + Wdown gelu(Wup h + bup) + bdown
 *      logits = Wout layernorm(x)
 */
#include "models/registry.h"
#include "model/load.h"
#include "run/pass.h"

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_load_shape(ld);
    m->norm_eps = tft_load_real(ld, "attention.layer_norm_epsilon", 0);

    uint32_t q = m->n_head * m->head_dim, kv = m->n_head_kv * m->head_dim;
    tft_load_embedding(ld);
    m->pos_embed = tft_load_table(ld, "position_embd.weight", m->n_ctx, m->n_embd);
    for (unsigned l = 0; l < m->n_layer && ld->status == TFT_OK; l++) {
        struct tft_block *b = tft_load_block(ld, l);
        b->attn_norm = tft_load_norm(ld, "blk.%u.attn_norm", l, m->n_embd, true);
        if (ld->w8a8) { /* in parts, each of whole panels */
            b->q = tft_load_linear(ld, "blk.%u.attn_q", l, q, m->n_embd, true);
            b->k = tft_load_linear(ld, "blk.%u.attn_k", l, kv, m->n_embd, true);
            b->v = tft_load_linear(ld, "blk.%u.attn_v", l, kv, m->n_embd, true);
        } else {
            struct tft_linear qkv = tft_load_linear(ld, "blk.%u.attn_qkv", l, q + 2 * kv, m->n_embd,
                                                    true);
            b->q = tft_linear_rows(&qkv, 0, q);
            b->k = tft_linear_rows(&qkv, q, kv);
            b->v = tft_linear_rows(&qkv, q + kv, kv);
        }
        b->o = tft_load_linear(ld, "blk.%u.attn_output", l, m->n_embd, q, true);
        b->ffn_norm = tft_load_norm(ld, "blk.%u.ffn_norm", l, m->n_embd, true);
        b->up = tft_load_linear(ld, "blk.%u.ffn_up", l, m->n_ff, m->n_embd, true);
        b->down = tft_load_linear(ld, "blk.%u.ffn_down", l, m->n_embd, m->n_ff, true);
    }
    m->out_norm = tft_load_norm(ld, "output_norm", 0, m->n_embd, true);
    tft_load_head(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_model *m = p->m;
    const struct tft_block *b = &m->block[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_kv_append(p, l);
    if (l + 1 == m->n_layer)
        tft_keep_last(p);
    tft_attend(p, l, &b->o);
    tft_linear_add(p, TFT_X, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gelu(p, &b->up, &b->down);
    tft_linear_add(p, TFT_X, &b->down, TFT_G);
}

const struct tft_arch tft_arch_gpt2 = {"gpt2", load, layer};
