#include "models/transformer.h"

#include <math.h>
#include <string.h>

#include "model/load.h"
#include "model/parts.h"
#include "models/mixture.h"

/* Whether the architecture's formula has a part in every file. */
static bool formula_has(const struct tft_load *ld, enum tft_formula_part part)
{
    return ld->m->arch->parts >> part & 1;
}

static bool has_qkv_bias(const struct tft_load *ld, unsigned layer)
{
    static const char *const names[] = {"blk.%u.attn_qkv", "blk.%u.attn_q", "blk.%u.attn_k",
                                        "blk.%u.attn_v"};
    bool has = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        has |= tft_load_has_bias(ld, names[i], layer);
    return has;
}

static bool has_bias(const struct tft_load *ld, const struct tft_transformer *t, unsigned layer)
{
    return t->qkv_bias || has_qkv_bias(ld, layer);
}

/* A matrix of feed-forward. */
static struct tft_linear load_half(struct tft_load *ld, const struct tft_transformer *t,
                                   const char *name, unsigned layer, uint32_t rows, uint32_t cols)
{
    return tft_load_linear(ld, name, layer, rows, cols,
                           t->ffn_bias || tft_load_has_bias(ld, name, layer));
}

/* W8A8 and packed files have three tensors, each of whole panels. */
bool tft_transformer_fused_qkv(struct tft_load *ld, unsigned layer, uint32_t q)
{
    const struct tft_transformer *t = ld->m->arch->transformer;
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t d = ld->m->n_embd, kv = b->kv.n * b->kv.dim, all = q + 2 * kv;
    const char *qkv = "blk.%u.attn_qkv";
    bool fused = tft_load_has_linear(ld, qkv, layer) ||
                 (t->fused_qkv && !tft_load_has_linear(ld, "blk.%u.attn_q", layer)),
         bias = has_bias(ld, t, layer);
    if (!fused || ld->w8a8)
        return false;
    b->q = tft_load_linear_rows(ld, qkv, layer, all, 0, q, d, bias);
    b->k = tft_load_linear_rows(ld, qkv, layer, all, q, kv, d, bias);
    b->v = tft_load_linear_rows(ld, qkv, layer, all, q + kv, kv, d, bias);
    return true;
}

static void load_qkv(struct tft_load *ld, const struct tft_transformer *t, unsigned layer,
                     uint32_t q)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t d = ld->m->n_embd, kv = b->kv.n * b->kv.dim;
    bool bias = has_bias(ld, t, layer);
    if (tft_transformer_fused_qkv(ld, layer, q))
        return;
    b->q = tft_load_linear(ld, "blk.%u.attn_q", layer, q, d, bias);
    b->k = tft_load_linear(ld, "blk.%u.attn_k", layer, kv, d, bias);
    b->v = tft_load_linear(ld, "blk.%u.attn_v", layer, kv, d, bias);
}

static void load_qk_norm(struct tft_load *ld, const struct tft_transformer *t, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    bool whole = t->qk_norm == TFT_QK_NORM_WHOLE;
    uint32_t q = whole ? m->n_head : 1, k = whole ? m->n_head_kv : 1, dim = m->head_dim;
    if (t->qk_norm == TFT_NO_QK_NORM)
        return;
    b->q_norm = tft_load_norm(ld, "blk.%u.attn_q_norm", layer, q * dim, false);
    b->k_norm = tft_load_norm(ld, "blk.%u.attn_k_norm", layer, k * dim, false);
}

/* A norm [D]. With bare_norms, LayerNorm's gain is 1 and its bias 0 where the file has none. */
static struct tft_norm load_norm(struct tft_load *ld, const struct tft_transformer *t,
                                 const char *fmt, unsigned layer)
{
    uint32_t d = ld->m->n_embd;
    bool bare = t->bare_norms && !tft_load_has_bias(ld, fmt, layer);
    struct tft_norm w = {0};
    if (!bare)
        return tft_load_norm(ld, fmt, layer, d, t->layer_norm);
    if (tft_load_has_linear(ld, fmt, layer))
        w = tft_load_norm(ld, fmt, layer, d, false);
    else
        w.w = tft_load_equal(ld, d, 1);
    w.b = tft_load_equal(ld, d, 0);
    return w;
}

/* A norm [D] of which the name may lack ".weight". */
static struct tft_norm load_short_norm(struct tft_load *ld, const char *fmt, unsigned layer)
{
    uint32_t d = ld->m->n_embd;
    if (tft_load_has_linear(ld, fmt, layer) || !ld->m->arch->transformer->short_names)
        return tft_load_norm(ld, fmt, layer, d, false);
    return (struct tft_norm){.w = tft_load_vector(ld, fmt, layer, d)};
}

static void load_pre_norms(struct tft_load *ld, const struct tft_transformer *t, unsigned layer)
{
    const struct tft_model *m = ld->m;
    struct tft_layer *b = tft_load_layer(ld, layer);
    const char *first = "blk.%u.attn_norm", *second = "blk.%u.attn_norm_2",
               *ffn = tft_transformer_ffn_norm(t);
    b->attn_norm = load_norm(ld, t, first, layer);
    if (!m->names_norm_2) {
        b->ffn_norm =
            t->short_names ? load_short_norm(ld, ffn, layer) : load_norm(ld, t, ffn, layer);
        return;
    }
    b->ffn_norm = b->attn_norm;
    if (tft_load_has_norm(ld, second, layer))
        b->attn_norm = load_norm(ld, t, second, layer);
}

static void load_ffn(struct tft_load *ld, const struct tft_transformer *t, unsigned layer)
{
    bool mixed = tft_mixture_has(ld, layer);
    if (mixed)
        tft_mixture_load(ld, t->mixture, layer);
    if (mixed && !t->mixture->beside)
        return;
    struct tft_layer *b = tft_load_layer(ld, layer);
    uint32_t d = ld->m->n_embd, dense = ld->m->n_ff_dense,
             ff = dense ? dense : tft_load_ff(ld, layer);
    const char *gate = "blk.%u.ffn_gate", *up = "blk.%u.ffn_up";
    if (t->fused_gate && !ld->w8a8 && !tft_load_has_linear(ld, gate, layer)) {
        bool bias = t->ffn_bias || tft_load_has_bias(ld, up, layer);
        b->gate = tft_load_linear_rows(ld, up, layer, 2 * ff, 0, ff, d, bias);
        b->up = tft_load_linear_rows(ld, up, layer, 2 * ff, ff, ff, d, bias);
    } else {
        if (!t->no_gate)
            b->gate = load_half(ld, t, gate, layer, ff, d);
        b->up = load_half(ld, t, up, layer, ff, d);
    }
    b->down = load_half(ld, t, "blk.%u.ffn_down", layer, d, ff);
}

/* ARCH.attention.sliding_window tokens, in layers that the key sliding_window_pattern names: a
   period, or a bool for each layer. */
uint32_t tft_transformer_window(struct tft_load *ld, unsigned layer)
{
    const struct tft_transformer *t = ld->m->arch->transformer;
    const char *size = "attention.sliding_window", *pattern = "attention.sliding_window_pattern";
    if (!t->window_period || (!t->window && !tft_load_has(ld, size)))
        return 0;
    const struct tft_value *v = tft_load_by_layer(ld, pattern);
    bool all = t->window_period == TFT_WINDOW_EVERYWHERE;
    uint32_t window = all ? tft_load_count(ld, size, 0, INT32_MAX)
                          : tft_load_dim(ld, size, t->window, INT32_MAX),
             period = 1;
    uint64_t has = 0;
    if (all && window >= ld->m->n_ctx) /* Phi-3.5: no text is longer */
        return 0;
    if (!v && ld->status == TFT_OK) {
        period = tft_load_dim(ld, pattern, t->window_period, INT32_MAX);
        has = t->window_first ? layer % period != 0 : layer % period < period - 1;
    } else if (v && (!tft_value_uint(v, layer, &has) || has > 1)) {
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s.%s is neither an integer nor a list of bools",
                      ld->m->arch->name, pattern);
    }
    return has ? window : 0;
}

void tft_transformer_attention(struct tft_load *ld, unsigned layer, uint32_t q)
{
    struct tft_model *m = ld->m;
    const struct tft_transformer *t = m->arch->transformer;
    struct tft_layer *b = tft_load_layer(ld, layer);
    const char *output = "blk.%u.attn_output";
    b->mixer = TFT_MIX_ATTENTION;
    b->kv = (struct tft_kv_heads){m->n_head_kv, m->head_dim};
    if (!m->encoder) /* it has no cache */
        b->kv_layer = tft_load_kv_layer(ld, b->kv);
    b->window = tft_transformer_window(ld, layer);
    b->has_sinks = t->sinks;
    if (t->sinks)
        b->sinks = tft_load_vector(ld, "blk.%u.attn_sinks.weight", layer, m->n_head);
    load_qkv(ld, t, layer, q);
    load_qk_norm(ld, t, layer);
    b->o = tft_load_linear(ld, output, layer, m->n_embd, m->n_head * m->head_dim,
                           t->o_bias || tft_load_has_bias(ld, output, layer));
}

static void load_mixer(struct tft_load *ld, const struct tft_transformer *t, unsigned layer)
{
    if (t->mixer && t->mixer(ld, layer))
        return;
    if (!tft_load_kv_heads(ld, layer))
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "layer %u has no attention, as all of %s have",
                      layer, ld->m->arch->name);
    tft_transformer_attention(ld, layer, ld->m->n_head * ld->m->head_dim);
}

/* The one half of a block, with the block's only norm. */
static void load_half_block(struct tft_load *ld, const struct tft_transformer *t, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    if (tft_load_ff(ld, layer)) {
        b->mixer = TFT_MIX_NONE;
        b->ffn_norm = load_norm(ld, t, tft_transformer_ffn_norm(t), layer);
        load_ffn(ld, t, layer);
    } else {
        b->attn_norm = load_norm(ld, t, "blk.%u.attn_norm", layer);
        load_mixer(ld, t, layer);
    }
    ld->m->parts |= tft_parts_of(ld->m, b);
}

void tft_transformer_block(struct tft_load *ld, unsigned layer)
{
    const struct tft_transformer *t = ld->m->arch->transformer;
    struct tft_layer *b = tft_load_layer(ld, layer);
    memset(b, 0, sizeof *b); /* in the counting run it was another layer's */
    if (formula_has(ld, TFT_PART_HALF_BLOCKS)) {
        load_half_block(ld, t, layer);
        return;
    }
    if (!formula_has(ld, TFT_PART_NO_PRE_NORM))
        load_pre_norms(ld, t, layer);
    if (formula_has(ld, TFT_PART_POST_NORM)) {
        b->attn_post_norm = load_short_norm(ld, "blk.%u.post_attention_norm", layer);
        b->ffn_post_norm = load_short_norm(ld, "blk.%u.post_ffw_norm", layer);
    }
    load_mixer(ld, t, layer);
    load_ffn(ld, t, layer);
    if (t->block)
        t->block(ld, layer);
    ld->m->parts |= tft_parts_of(ld->m, b);
}

/* A block of a round after the first: weights of the block of the first round. */
static void repeat_block(struct tft_load *ld, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    *b = *tft_load_layer(ld, layer % ld->m->n_round);
    b->kv_layer = tft_load_kv_layer(ld, b->kv);
}

/* Sets kv_window, from which the cache takes the windows of layers. */
static void load_windows(struct tft_load *ld, const struct tft_transformer *t)
{
    struct tft_model *m = ld->m;
    if (!t->window && !tft_load_has(ld, "attention.sliding_window"))
        return;
    uint32_t *windows = tft_arena_take(&ld->arena, m->n_kv_layer, sizeof *windows), n = 0;
    bool some = false;
    windows = windows ? windows : ld->windows;
    for (uint32_t l = 0; l < m->n_layer && ld->status == TFT_OK; l++) {
        uint32_t window = tft_transformer_window(ld, l);
        some |= window > 0;
        if (windows && tft_load_kv_heads(ld, l) && l < m->n_layer - m->n_shared)
            windows[n++] = window;
    }
    m->kv_window = some ? windows : NULL;
}

static void load_caps(struct tft_load *ld)
{
    ld->m->score_cap = tft_load_factor(ld, "attn_logit_softcapping", 0);
    ld->m->logit_cap = tft_load_factor(ld, "final_logit_softcapping", 0);
}

static void load_multipliers(struct tft_load *ld, const struct tft_multipliers *x)
{
    struct tft_model *m = ld->m;
    float e = x->embedding > 0 ? x->embedding : 1,
          r = x->depth > 0 ? x->depth / sqrtf((float)m->n_layer) : 1,
          l = x->width > 0 ? (float)m->n_embd / x->width : 1;
    m->embed_scale = tft_load_factor(ld, "embedding_scale", e);
    m->residual_scale = tft_load_factor(ld, "residual_scale", r);
    m->logit_scale = 1 / tft_load_factor(ld, "logit_scale", l);
    m->attn_scale = tft_load_factor(ld, "attention.scale", m->attn_scale);
}

void tft_transformer_values(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const struct tft_transformer *t = m->arch->transformer;
    if (t->rope != TFT_NO_ROPE)
        tft_load_rope(ld, t->rope == TFT_ROPE_HALVES, false);
    m->norm_eps = tft_load_real(
        ld, t->layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0);
    if (t->scaled_embedding)
        m->embed_scale = sqrtf((float)m->n_embd);
    if (t->multipliers)
        load_multipliers(ld, t->multipliers);
    if (t->caps)
        load_caps(ld);
}

void tft_transformer_tensors(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const struct tft_transformer *t = m->arch->transformer;
    if (t->mixture)
        tft_mixture_shape(ld, t->mixture);
    tft_load_embedding(ld);
    for (unsigned layer = 0; layer < m->n_layer && ld->status == TFT_OK; layer++)
        if (m->n_round && layer >= m->n_round)
            repeat_block(ld, layer);
        else
            tft_transformer_block(ld, layer);
    m->out_norm = (struct tft_norm){0};
    if (!t->no_out_norm)
        m->out_norm = load_norm(ld, t, tft_transformer_out_norm(t), 0);
    if (m->encoder) {
        tft_load_ignore(ld, "output", 0);
        return;
    }
    if (!m->n_kv_layer && !formula_has(ld, TFT_PART_HALF_BLOCKS))
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "no layer has attention");
    if (t->window_period)
        load_windows(ld, t);
    tft_load_head(ld);
}

void tft_transformer_drop_predicting(struct tft_load *ld)
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

void tft_transformer_load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}
