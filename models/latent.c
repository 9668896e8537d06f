#include "models/latent.h"

#include <math.h>

#include "model/load.h"
#include "models/layers.h"

enum { MOST = TFT_MAX_HEAD_DIM };

/* Numbers of a head's key. */
static uint32_t key_length(struct tft_load *ld)
{
    const char *own = "attention.key_length_mla";
    return tft_load_has(ld, own) ? tft_load_dim(ld, own, 0, MOST) : ld->m->head_dim;
}

/* Numbers of a head's value. The file's value_length is that, or the cache's. */
static uint32_t value_length(struct tft_load *ld)
{
    const char *own = "attention.value_length_mla";
    uint32_t usual = ld->m->n_embd / ld->m->n_head;
    uint32_t all = tft_load_dim(ld, "attention.value_length", usual, MOST);
    return tft_load_has(ld, own) ? tft_load_dim(ld, own, 0, MOST) : all;
}

static uint32_t larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

void tft_latent_shape(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    uint32_t key = key_length(ld), value = value_length(ld),
             q_rank = tft_load_count(ld, "attention.q_lora_rank", 0, MOST),
             rank = tft_load_dim(ld, "attention.kv_lora_rank", 0, MOST),
             rot = tft_load_dim(ld, "rope.dimension_count", 0, MOST);
    if (rot >= key)
        tft_load_fail(ld, TFT_ERR_FORMAT, "all %u numbers of a key are rotated", key);
    tft_load_head_dim(ld, rot + rank);
    if (larger(key, value) > rot + rank || q_rank > m->n_head * m->head_dim)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "heads of %u numbers of a latent vector of %u, queries of one of %u",
                      larger(key, value), rank, q_rank);
    if (ld->status != TFT_OK)
        return;
    bool two_steps = tft_load_has_linear(ld, "blk.%u.attn_q_a", 0);
    m->latent = (struct tft_latent_shape){.q_rank = two_steps ? q_rank : 0,
                                          .rank = rank,
                                          .nope = key - rot,
                                          .rot = rot,
                                          .v_dim = value};
    m->n_head_kv = 1;
    m->attn_scale = 1 / sqrtf((float)key);
    m->mixed_width = m->n_head * value;
    m->mixer_width = m->n_head * (m->head_dim + value); /* see buffers.h, TFT_M */
}

static void load_queries(struct tft_load *ld, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t rows = m->n_head * (m->latent.nope + m->latent.rot), rank = m->latent.q_rank;
    if (!rank) {
        b->q = tft_load_linear(ld, "blk.%u.attn_q", layer, rows, m->n_embd, false);
        return;
    }
    b->q = tft_load_linear(ld, "blk.%u.attn_q_a", layer, rank, m->n_embd, false);
    b->latent.q_norm = tft_load_norm(ld, "blk.%u.attn_q_a_norm", layer, rank, false);
    b->latent.q_b = tft_load_plain_linear(ld, "blk.%u.attn_q_b", layer, rows, rank);
}

bool tft_latent_load(struct tft_load *ld, unsigned layer)
{
    struct tft_model *m = ld->m;
    const struct tft_latent_shape *s = &m->latent;
    struct tft_layer *b = tft_load_layer(ld, layer);
    const char *both = "blk.%u.attn_kv_b";
    b->mixer = TFT_MIX_ATTENTION;
    b->kv = (struct tft_kv_heads){1, m->head_dim};
    b->kv_layer = tft_load_kv_layer(ld, b->kv);
    load_queries(ld, layer);
    b->k = tft_load_linear(ld, "blk.%u.attn_kv_a_mqa", layer, s->rank + s->rot, m->n_embd, false);
    b->latent.norm = tft_load_norm(ld, "blk.%u.attn_kv_a_norm", layer, s->rank, false);
    if (tft_load_has_linear(ld, both, layer)) {
        tft_load_latent_pair(ld, both, layer, &b->latent);
    } else {
        b->latent.k_b =
            tft_load_matrices(ld, "blk.%u.attn_k_b", layer, m->n_head, s->rank, s->nope);
        b->latent.v_b =
            tft_load_matrices(ld, "blk.%u.attn_v_b", layer, m->n_head, s->v_dim, s->rank);
    }
    b->o = tft_load_linear(ld, "blk.%u.attn_output", layer, m->n_embd, m->n_head * s->v_dim, false);
    return true;
}

void tft_latent_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_latent_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_latent_values(p, b);
    tft_residual(p, &b->o, TFT_A);

    if (tft_layer_has_experts(b))
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b);
}
