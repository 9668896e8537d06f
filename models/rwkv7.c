/*
 * rwkv7: Peng et al. 2025 (arXiv 2503.14456, section 4 and appendix). No attention: each head has a
 * matrix S that maps keys to values, and a token sees the one before it.
 *
 *      x = ln(embed[token])
 *      per layer:
 *          h = ln(x), d = h of the token before - h            0 in place of the first token's
 *          r, k, v = Wr (h + d m_r), Wk (h + d m_k), Wv (h + d m_v)
 *          w = exp(-sigmoid(w0 + W2 tanh(W1 (h + d m_w))) / sqrt(e))
 *          a = sigmoid(a0 + A2 A1 (h + d m_a)),  g = G2 sigmoid(G1 (h + d m_g))
 *          v = v + (v of layer 0 - v) sigmoid(v0 + V2 V1 (h + d m_v))       not in layer 0
 *          c = k k_k / |k k_k| per head,  k = k (1 + (a - 1) k_a)
 *          S = S diag(w) - (S c) (c a)^T + v k^T,  y = S r                  per head
 *          y = ln(y) per head + v sum(r k r_k)
 *          x = x + Wo (y g)
 *          h = ln(x), d as above
 *          x = x + Wdown relu(Wup (h + d m))^2
 *      logits = Wout ln(x)
 *
 * All ln have a bias. The state is h of the last token, twice, and S of all heads. Files have the
 * six m in one tensor, and A0, A1, A2 in place of V0, V1, V2 in layer 0, where nothing reads them.
 */
#include <math.h>
#include <string.h>

#include "model/load.h"
#include "model/parts.h"
#include "models/layers.h"
#include "models/registry.h"

enum { MOST_DIM = 1 << 10, MOST_RANK = 1 << 16, INPUTS = 6 };

static void load_shape(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    struct tft_rwkv_shape *s = &m->rwkv;
    s->dim = tft_load_dim(ld, "wkv.head_size", 0, MOST_DIM);
    s->decay_rank = tft_load_dim(ld, "attention.decay_lora_rank", 0, MOST_RANK);
    s->rate_rank = tft_load_dim(ld, "attention.iclr_lora_rank", 0, MOST_RANK);
    s->value_rank = tft_load_dim(ld, "attention.value_residual_mix_lora_rank", 0, MOST_RANK);
    s->gate_rank = tft_load_dim(ld, "attention.gate_lora_rank", 0, MOST_RANK);
    if (tft_load_dim(ld, "token_shift_count", 2, 2) != 2)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "rwkv7.token_shift_count is not 2");
    if (ld->w8a8)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "W8A8 files of rwkv7 are not supported");
    if (s->dim % TFT_PANEL || m->n_embd % s->dim)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "heads of %u numbers for a width of %u: heads have a multiple of %d numbers, "
                      "and are equal parts of the width",
                      s->dim, m->n_embd, TFT_PANEL);
    if (ld->status != TFT_OK)
        return;
    s->heads = m->n_head = m->n_head_kv = m->n_embd / s->dim;
    s->ones = tft_load_equal(ld, s->dim, 1);
    tft_load_head_dim(ld, s->dim);
    m->attn_scale = 1 / sqrtf((float)s->dim); /* as if a layer had attention */
    tft_load_mixer_room(
        ld, m->n_embd, 5 * m->n_embd + s->decay_rank + s->rate_rank + s->value_rank + s->gate_rank);
}

/* [D] of a tensor of this whole name. */
static const float *vector(struct tft_load *ld, const char *fmt, unsigned layer)
{
    return tft_load_vector(ld, fmt, layer, ld->m->n_embd);
}

static struct tft_low_rank low_rank(struct tft_load *ld, unsigned layer, const char *in,
                                    const char *out, const char *bias, uint32_t rank)
{
    uint32_t d = ld->m->n_embd;
    return (struct tft_low_rank){
        .in = tft_load_matrices(ld, in, layer, 1, rank, d),
        .out = tft_load_matrices(ld, out, layer, 1, d, rank),
        .bias = bias ? vector(ld, bias, layer) : NULL,
    };
}

static void load_value(struct tft_load *ld, unsigned layer, struct tft_rwkv *x)
{
    const char *in = "blk.%u.time_mix_v1", *out = "blk.%u.time_mix_v2";
    if (layer) {
        x->value =
            low_rank(ld, layer, in, out, "blk.%u.time_mix_v0.weight", ld->m->rwkv.value_rank);
        return;
    }
    tft_load_ignore(ld, in, layer);
    tft_load_ignore(ld, out, layer);
    tft_load_ignore(ld, "blk.%u.time_mix_v0", layer);
}

static void load_time_mix(struct tft_load *ld, unsigned layer)
{
    struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    struct tft_rwkv *x = &b->rwkv;
    uint32_t d = m->n_embd;
    x->lerp = tft_load_planes(ld, "blk.%u.time_mix_lerp_fused", layer, INPUTS, d);
    x->decay = low_rank(ld, layer, "blk.%u.time_mix_w1", "blk.%u.time_mix_w2",
                        "blk.%u.time_mix_w0.weight", m->rwkv.decay_rank);
    x->rate = low_rank(ld, layer, "blk.%u.time_mix_a1", "blk.%u.time_mix_a2",
                       "blk.%u.time_mix_a0.weight", m->rwkv.rate_rank);
    load_value(ld, layer, x);
    x->gate =
        low_rank(ld, layer, "blk.%u.time_mix_g1", "blk.%u.time_mix_g2", NULL, m->rwkv.gate_rank);
    x->k_k = vector(ld, "blk.%u.time_mix_k_k.weight", layer);
    x->k_a = vector(ld, "blk.%u.time_mix_k_a.weight", layer);
    x->r_k = vector(ld, "blk.%u.time_mix_r_k.weight", layer);
    x->norm = tft_load_norm(ld, "blk.%u.time_mix_ln", layer, d, true);
    b->mix.r = tft_load_linear(ld, "blk.%u.time_mix_receptance", layer, d, d, false);
    b->mix.k = tft_load_linear(ld, "blk.%u.time_mix_key", layer, d, d, false);
    b->mix.v = tft_load_linear(ld, "blk.%u.time_mix_value", layer, d, d, false);
    b->o = tft_load_linear(ld, "blk.%u.time_mix_output", layer, d, d, false);
}

static void load_block(struct tft_load *ld, unsigned layer)
{
    struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t d = m->n_embd;
    memset(b, 0, sizeof *b); /* in the counting run it was another layer's */
    b->mixer = TFT_MIX_RWKV;
    b->attn_norm = tft_load_norm(ld, "blk.%u.attn_norm", layer, d, true);
    b->ffn_norm = tft_load_norm(ld, "blk.%u.attn_norm_2", layer, d, true);
    load_time_mix(ld, layer);
    b->rwkv.channel_lerp = vector(ld, "blk.%u.channel_mix_lerp_k.weight", layer);
    b->up = tft_load_linear(ld, "blk.%u.channel_mix_key", layer, m->n_ff, d, false);
    b->down = tft_load_linear(ld, "blk.%u.channel_mix_value", layer, d, m->n_ff, false);
    tft_load_state(ld, b, (uint64_t)d * (2 + m->rwkv.dim));
    m->parts |= tft_parts_of(m, b);
}

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_load_shape(ld, false);
    m->norm_eps = tft_load_real(ld, "attention.layer_norm_epsilon", 0);
    load_shape(ld);
    tft_load_embedding(ld);
    m->embed_norm = tft_load_norm(ld, "token_embd_norm", 0, m->n_embd, true);
    for (unsigned layer = 0; layer < m->n_layer && ld->status == TFT_OK; layer++)
        load_block(ld, layer);
    m->out_norm = tft_load_norm(ld, "output_norm", 0, m->n_embd, true);
    tft_load_head(ld);
}

/* X = ln(X) */
static void norm_embeddings(struct tft_pass *p)
{
    const struct tft_input floats = {.index = TFT_NO_INDEX, .range = TFT_RANGE_FLOAT};
    const struct tft_linear l = {.w.cols = p->m->n_embd, .in = &floats};
    tft_norm_y(p, &p->m->embed_norm);
    tft_copy(p, TFT_X, TFT_Y, &l);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    if (l == 0)
        norm_embeddings(p);
    tft_norm_y(p, &b->attn_norm);
    tft_shift(p, b, false);
    tft_time_mix(p, b);
    tft_residual(p, &b->o, TFT_A);

    tft_norm_y(p, &b->ffn_norm);
    tft_shift(p, b, true);
    if (l + 1 == p->m->n_layer)
        tft_keep_last(p);
    tft_lerp(p, b->rwkv.channel_lerp, &b->up);
    tft_plain(p, b, TFT_RELU2);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_rwkv7 = {
    .name = "rwkv7",
    .parts = TFT_BIT(TFT_PART_RWKV) | TFT_BIT(TFT_PART_PLAIN_RELU2),
    .load = load,
    .layer = layer,
};
