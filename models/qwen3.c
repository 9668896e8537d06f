/*
 * qwen3, dense: Yang et al. 2025 (arXiv 2505.09388, section 2). The size of a head is its own, not
 * the width over the heads.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/registry.h"
#include "model/load.h"
#include "run/pass.h"

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_load_shape(ld);
    tft_load_rope(ld, true);
    m->norm_eps = tft_load_real(ld, "attention.layer_norm_rms_epsilon", 0);

    uint32_t q = m->n_head * m->head_dim, kv = m->n_head_kv * m->head_dim;
    tft_load_embedding(ld);
    for (unsigned l = 0; l < m->n_layer && ld->status == TFT_OK; l++) {
        struct tft_block *b = tft_load_block(ld, l);
        b->attn_norm = tft_load_norm(ld, "blk.%u.attn_norm", l, m->n_embd, false);
        b->q = tft_load_linear(ld, "blk.%u.attn_q", l, q, m->n_embd, false);
        b->k = tft_load_linear(ld, "blk.%u.attn_k", l, kv, m->n_embd, false);
        b->q_norm = tft_load_norm(ld, "blk.%u.attn_q_norm", l, m->head_dim, false);
        b->k_norm = tft_load_norm(ld, "blk.%u.attn_k_norm", l, m->head_dim, false);
        b->v = tft_load_linear(ld, "blk.%u.attn_v", l, kv, m->n_embd, false);
        b->o = tft_load_linear(ld, "blk.%u.attn_output", l, m->n_embd, q, false);
        b->ffn_norm = tft_load_norm(ld, "blk.%u.ffn_norm", l, m->n_embd, false);
        b->gate = tft_load_linear(ld, "blk.%u.ffn_gate", l, m->n_ff, m->n_embd, false);
        b->up = tft_load_linear(ld, "blk.%u.ffn_up", l, m->n_ff, m->n_embd, false);
        b->down = tft_load_linear(ld, "blk.%u.ffn_down", l, m->n_embd, m->n_ff, false);
    }
    m->out_norm = tft_load_norm(ld, "output_norm", 0, m->n_embd, false);
    tft_load_head(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_model *m = p->m;
    const struct tft_block *b = &m->block[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    tft_rope(p);
    tft_kv_append(p, l);
    if (l + 1 == m->n_layer)
        tft_keep_last(p);
    tft_attend(p, l, &b->o);
    tft_linear_add(p, TFT_X, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_swiglu(p, &b->gate, &b->up, &b->down);
    tft_linear_add(p, TFT_X, &b->down, TFT_G);
}

const struct tft_arch tft_arch_qwen3 = {"qwen3", load, layer};
