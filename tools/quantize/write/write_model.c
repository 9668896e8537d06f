#include "tools/quantize/write/write_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/quantize/array.h"
#include "tools/quantize/measure/kv_calibrate.h"
#include "base/crc32.h"
#include "tools/quantize/search/cushion.h"
#include "base/error.h"
#include "tools/quantize/round/pack.h"
#include "tools/quantize/round/pack_low.h"
#include "tools/quantize/round/prefix_pack.h"
#include "model/keys.h"
#include "tools/quantize/round/rotate.h"
#include "tools/quantize/round/smooth.h"
#include "tools/quantize/write/in_place.h"
#include "tools/quantize/write/old_keys.h"
#include "models/transformer.h"

static bool failed(const struct model_writer *f)
{
    return f->bad->code != TFT_OK;
}

/* -------------------------------------------------------------------------------------- vectors */

/* Counts a tensor, or describes it. Its name is fmt, with the layer, and suffix. */
static void describe(struct model_writer *f, enum tft_dtype type, uint32_t n_dims,
                     const uint64_t *ne, const char *fmt, unsigned layer, const char *suffix)
{
    char name[80];
    f->n_tensors++;
    if (f->pass == WRITE_COUNT)
        return;
    int n = snprintf(name, sizeof name, fmt, layer);
    n += snprintf(name + n, sizeof name - (size_t)n, "%s", suffix);
    tft_gguf_put_tensor(f->w, (struct tft_str){name, (size_t)n}, type, n_dims, ne);
}

/* v: [rows, n], or NULL: no such tensor; divide: [n] or NULL */
static void put_floats(struct model_writer *f, const char *fmt, unsigned layer, const char *suffix,
                       const float *v, size_t rows, size_t n, const float *divide)
{
    if (!v)
        return;
    if (f->pass < WRITE_DATA) {
        describe(f, TFT_F32, rows > 1 ? 2 : 1, (const uint64_t[]){n, rows}, fmt, layer, suffix);
        return;
    }
    for (size_t i = 0; i < rows; i++) {
        float *copy = memcpy(f->row, v + i * n, n * sizeof *v);
        if (divide)
            smooth_divide(copy, divide, n);
        tft_gguf_put_data(f->w, copy, n * sizeof *v);
    }
}

static void put_vector(struct model_writer *f, const char *fmt, unsigned layer, const char *suffix,
                       const float *v, size_t n, const float *divide)
{
    put_floats(f, fmt, layer, suffix, v, 1, n, divide);
}

/* Copies a tensor of the old file. w: the model's matrix, which may be expanded now; no rows: no
   such tensor. */
static void put_same(struct model_writer *f, const char *fmt, unsigned layer,
                     const struct tft_mat *w)
{
    char name[80];
    snprintf(name, sizeof name, fmt, layer);
    const struct tft_tensor *t = w->rows ? tft_source_tensor(&f->m->source, name) : NULL;
    if (t && f->pass < WRITE_DATA)
        describe(f, t->type, t->n_dims, t->ne, fmt, layer, "");
    else if (t)
        tft_gguf_put_data(f->w, t->data, (size_t)t->bytes);
}

static void put_norm(struct model_writer *f, const char *fmt, unsigned layer,
                     const struct tft_norm *w, size_t n, const float *divide)
{
    put_vector(f, fmt, layer, ".weight", w->w, n, divide);
    put_vector(f, fmt, layer, ".bias", w->b, n, divide);
}

/* Of a head, of all heads together, or of all heads with gains of their own. */
static void put_qk_norm(struct model_writer *f, const char *fmt, unsigned layer,
                        const struct tft_norm *w, uint32_t heads)
{
    const struct tft_model *m = f->m;
    uint32_t dim = m->layer[layer].kv.dim;
    bool whole = m->parts & TFT_BIT(TFT_PART_WHOLE_QK_NORM);
    put_floats(f, fmt, layer, ".weight", w->w, m->zeros ? heads : 1, whole ? heads * dim : dim,
               NULL);
}

/* ------------------------------------------------------------------------------------- matrices */

/* Fails if `found`, as pack_max returned it, names a row that is not finite. */
static bool bad_row(struct model_writer *f, const char *fmt, unsigned layer, size_t row,
                    size_t found, size_t rows)
{
    char name[64];
    snprintf(name, sizeof name, fmt, layer);
    if (found < rows)
        tft_fail(f->bad, TFT_ERR_FORMAT, "%s: NaN or infinity in the weights of %s, row %zu",
                 f->m->source.name, name, row + found);
    return found < rows;
}

void write_check(struct model_writer *f, uint32_t l)
{
    for (int i = 0; i < LAYER_MATS && !failed(f); i++) {
        struct tft_layer *b = &f->m->layer[l];
        const struct tft_linear *linear = layers_linear(b, i);
        if (!linear)
            continue;
        size_t rows = tft_mat_all_rows(&linear->w), cols = linear->w.cols;
        bad_row(f, quantize_matrix_format(b, i), l, 0,
                pack_max(f->scale[0], layers_weights(linear), cols, rows, cols), rows);
    }
}

/* scale: [rows, padded], first the largest weight of each row, then the scales. */
static void choose_scales(struct model_writer *f, const char *fmt, unsigned layer,
                          const struct tft_mat *w, float *scale)
{
    float top = 0;
    uint32_t rows = (uint32_t)tft_mat_all_rows(w);
    for (uint32_t i = 0; i < rows && !failed(f); i += TFT_PANEL) {
        uint32_t n = rows - i < TFT_PANEL ? rows - i : TFT_PANEL;
        layers_rows(f->y, w, i, n, f->rows);
        bad_row(f, fmt, layer, i, pack_max(scale + i, f->rows, w->cols, n, w->cols), n);
    }
    for (uint32_t i = 0; i < rows; i++)
        top = scale[i] > top ? scale[i] : top;
    for (uint32_t i = 0; i < tft_panel_rows(rows); i++)
        scale[i] = pack_scale(i >= rows ? 0 : f->o->per_tensor ? top : scale[i]);
}

/* How matrix `which` holds codes; NULL: the matrix is int8. */
static const struct tft_low *codes_of(const struct model_writer *f, int which)
{
    uint32_t bits = f->in_layer ? quantize_bits(f->o, f->layer, which) : 8;
    return bits < 8 ? tft_format_low(bits, quantize_group(f->o, f->layer, which))->low : NULL;
}

static void describe_panels(struct model_writer *f, const char *fmt, unsigned layer,
                            const struct tft_mat *w, int which)
{
    const struct tft_low *low = codes_of(f, which);
    uint64_t cols = tft_panel_cols(w->cols), rows = tft_panel_rows(w->rows);
    uint64_t panels[] = {low ? tft_low_panel(low, cols) : cols, low ? rows / TFT_PANEL : rows,
                         w->experts};
    if (low && f->codes)
        f->codes[f->n_tensors] = pack_low_key(low);
    if (low && f->nats && f->o->nats)
        f->nats[f->n_tensors] = f->o->nats[f->layer * LAYER_MATS + (uint32_t)which];
    describe(f, TFT_I8, w->experts ? 3 : 2, panels, fmt, layer, ".weight");
}

/* Panels of weights that are already rounded. */
static void put_rounded(struct model_writer *f, const struct low_bits *q, int which)
{
    const struct tft_low *low = codes_of(f, which);
    size_t padded = tft_panel_rows(q->rows);
    for (size_t i = 0; i < padded; i += TFT_PANEL) {
        size_t rows = q->rows - i < TFT_PANEL ? q->rows - i : TFT_PANEL;
        pack_low_panel((uint8_t *)f->panel, f->rowsum[which] + i, low, q->code + i * q->cols,
                       q->cols, q->factors + i * q->groups, rows, q->cols);
        tft_gguf_put_data(f->w, f->panel, tft_low_panel(low, tft_panel_cols(q->cols)));
    }
    for (size_t i = 0; i < padded; i++)
        f->scale[which][i] = i < q->rows ? q->row_scale[i] : 1;
}

/* The panels of matrix `which`. Its scales and row sums are kept for put_scales. */
static void put_panels(struct model_writer *f, const char *fmt, unsigned layer,
                       const struct tft_mat *w, int which)
{
    size_t cols = tft_panel_cols(w->cols);
    if (f->pass < WRITE_DATA) {
        describe_panels(f, fmt, layer, w, which);
        return;
    }
    if (codes_of(f, which)) {
        put_rounded(f, &f->rounded[which], which);
        return;
    }
    uint32_t rows = (uint32_t)tft_mat_all_rows(w);
    choose_scales(f, fmt, layer, w, f->scale[which]);
    for (uint32_t i = 0; i < rows && !failed(f); i += TFT_PANEL) {
        uint32_t n = rows - i < TFT_PANEL ? rows - i : TFT_PANEL;
        layers_rows(f->y, w, i, n, f->rows);
        pack_panel(f->panel, f->rowsum[which] + i, f->scale[which] + i, f->rows, w->cols, n,
                   w->cols);
        tft_gguf_put_data(f->w, f->panel, TFT_PANEL * cols);
    }
}

/* The bias of v, rotated, divided and reordered like v's rows. */
static const float *value_bias(struct model_writer *f, const struct tft_linear *l)
{
    uint32_t rotated = quantize_head_block(f->m, f->o), dim = f->m->head_dim;
    if (!l->bias || f->pass < WRITE_DATA)
        return l->bias;
    float *copy = memcpy(f->bias, l->bias, l->w.rows * sizeof *copy);
    if (rotated)
        rotate_columns(copy, l->w.rows, 1, l->w.rows, rotated);
    smooth_divide(copy, f->factors->values, l->w.rows);
    for (uint32_t i = 0; f->value_order && i < l->w.rows; i += dim)
        channel_order_columns(copy + i, dim, 1, dim, f->value_order + i);
    return copy;
}

/* The vectors that go with a matrix's panels. */
static void put_scales(struct model_writer *f, const char *fmt, unsigned layer,
                       const struct tft_linear *l, int which)
{
    const float *bias = which == MAT_V ? value_bias(f, l) : l->bias;
    size_t rows = tft_panel_rows(l->w.rows), n = l->w.experts ? l->w.experts : 1;
    put_floats(f, fmt, layer, ".scale", f->scale[which], n, rows, NULL);
    put_floats(f, fmt, layer, ".bias", bias, n, l->w.rows, NULL);
    if (f->pass < WRITE_DATA)
        describe(f, TFT_I32, n > 1 ? 2 : 1, (const uint64_t[]){rows, n}, fmt, layer, ".rowsum");
    else
        tft_gguf_put_data(f->w, f->rowsum[which], n * rows * sizeof *f->rowsum[which]);
}

/* w: must be the model's own struct: layers_rows compares its address */
static void put_matrix(struct model_writer *f, const char *name, const struct tft_mat *w)
{
    f->in_layer = false;
    put_panels(f, name, 0, w, 0);
    if (!failed(f))
        put_scales(f, name, 0, &(struct tft_linear){.w = *w}, 0);
}

/* -------------------------------------------------------------------------------------- tensors */

void write_embedding(struct model_writer *f)
{
    const struct tft_model *m = f->m;
    static const char *const divisors[] = {"rope_freqs", "rope_factors_short",
                                           "rope_factors_long"};
    char name[40];
    put_matrix(f, "token_embd", &m->embed);
    if (m->encoder)
        return;
    put_floats(f, "position_embd", 0, ".weight", m->pos_embed.data, m->pos_embed.rows,
               m->pos_embed.cols, NULL);
    put_same(f, "per_layer_token_embd.weight", 0, &m->layer_embed.embed);
    put_same(f, "per_layer_model_proj.weight", 0, &m->layer_embed.w.w);
    put_norm(f, "per_layer_proj_norm", 0, &m->layer_embed.norm, m->layer_embed.n, NULL);
    put_same(f, "altup_proj.weight", 0, &m->altup.begin);
    put_same(f, "altup_unembd_proj.weight", 0, &m->altup.end);
    for (size_t i = 0; i < sizeof divisors / sizeof *divisors; i++) {
        snprintf(name, sizeof name, "%s.weight", divisors[i]);
        const struct tft_tensor *t = tft_source_tensor(&m->source, name);
        if (t)
            put_vector(f, divisors[i], 0, ".weight", (const float *)(const void *)t->data,
                       (size_t)t->ne[0], NULL);
    }
}

/* The weights of a convolution, as files have them: [channels, n]. */
static void put_taps(struct model_writer *f, const char *fmt, unsigned layer,
                     const struct tft_taps *taps)
{
    if (f->pass < WRITE_DATA) {
        describe(f, TFT_F32, 2, (const uint64_t[]){taps->n, taps->channels}, fmt, layer, ".weight");
        return;
    }
    for (uint32_t i = 0; i < taps->channels; i++)
        for (uint32_t k = 0; k < taps->n; k++)
            tft_gguf_put_data(f->w, taps->w + (size_t)k * taps->channels + i, sizeof *taps->w);
}

static void put_mamba(struct model_writer *f, uint32_t l, const struct tft_layer *b)
{
    const struct tft_mamba_shape *s = &f->m->mamba;
    put_taps(f, "blk.%u.ssm_conv1d", l, &b->taps);
    put_vector(f, "blk.%u.ssm_conv1d", l, ".bias", b->taps.bias, b->taps.channels, NULL);
    put_floats(f, "blk.%u.ssm_a", l, "", b->mamba.decay, s->heads, 1, NULL);
    put_floats(f, "blk.%u.ssm_d", l, "", b->mamba.skip, s->heads, 1, NULL);
    put_vector(f, "blk.%u.ssm_dt", l, ".bias", b->mamba.bias, s->heads, NULL);
    put_floats(f, "blk.%u.ssm_norm", l, ".weight", b->mamba.norm.w, s->groups,
               tft_mamba_width(s) / s->groups, NULL);
}

/* Latent attention's tensors that stay as they are; k_b and v_b may be one tensor. */
static void put_latent(struct model_writer *f, uint32_t l, const struct tft_latent *x)
{
    const struct tft_latent_shape *s = &f->m->latent;
    put_norm(f, "blk.%u.attn_q_a_norm", l, &x->q_norm, s->q_rank, NULL);
    put_norm(f, "blk.%u.attn_kv_a_norm", l, &x->norm, s->rank, NULL);
    put_same(f, "blk.%u.attn_q_b.weight", l, &x->q_b.w);
    put_same(f, "blk.%u.attn_k_b.weight", l, &x->k_b);
    put_same(f, "blk.%u.attn_v_b.weight", l, &x->v_b);
    put_same(f, "blk.%u.attn_kv_b.weight", l, &x->k_b);
}

/* Of several residual streams; all stay as they are. */
static void put_altup(struct model_writer *f, uint32_t l, const struct tft_altup_layer *a)
{
    static const char *const names[] = {
        "blk.%u.altup_router_norm.weight",  "blk.%u.altup_router.weight",
        "blk.%u.altup_predict_coef.weight", "blk.%u.altup_correct_coef.weight",
        "blk.%u.altup_correct_scale.weight", "blk.%u.laurel_l.weight",
        "blk.%u.laurel_r.weight",           "blk.%u.laurel_post_norm.weight"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        put_same(f, names[i], l, &a->router);
}

/* A mixer's tensors beside its matrices. */
static void put_mixer(struct model_writer *f, uint32_t l, const struct tft_layer *b)
{
    const struct tft_model *m = f->m;
    if (b->mixer == TFT_MIX_SHORT_CONV) {
        put_taps(f, "blk.%u.shortconv.conv", l, &b->taps);
    } else if (b->mixer == TFT_MIX_DELTA_NET) {
        put_taps(f, "blk.%u.ssm_conv1d", l, &b->taps);
        put_vector(f, "blk.%u.ssm_a", l, "", b->delta.decay, m->delta.v_heads, NULL);
        put_vector(f, "blk.%u.ssm_dt", l, ".bias", b->delta.bias, m->delta.v_heads, NULL);
        put_norm(f, "blk.%u.ssm_norm", l, &b->delta.norm, m->delta.dim, NULL);
    } else if (b->mixer == TFT_MIX_ATTENTION) {
        put_latent(f, l, &b->latent);
        put_vector(f, "blk.%u.attn_sinks", l, ".weight", b->sinks, m->n_head, NULL);
        put_qk_norm(f, "blk.%u.attn_q_norm", l, &b->q_norm, m->n_head);
        put_qk_norm(f, "blk.%u.attn_k_norm", l, &b->k_norm, m->n_head_kv);
    }
    if (tft_layer_has_mamba(b))
        put_mamba(f, l, b);
}

/* Panels first, in the order in which a token uses them, so that they are read from memory in one
   run. The small tensors follow. */
void write_layer(struct model_writer *f, uint32_t l, const struct write_factors *factors,
                 const struct low_bits *rounded)
{
    const struct tft_model *m = f->m;
    struct tft_layer *b = &m->layer[l];
    f->in_layer = true;
    f->layer = l;
    f->rounded = rounded;
    f->factors = factors;
    for (int i = 0; i < LAYER_MATS && !failed(f); i++)
        if (layers_linear(b, i))
            put_panels(f, quantize_matrix_format(b, i), l, &layers_linear(b, i)->w, i);
    for (int i = 0; i < LAYER_MATS && !failed(f); i++)
        if (layers_linear(b, i))
            put_scales(f, quantize_matrix_format(b, i), l, layers_linear(b, i), i);
    if (m->encoder)
        return;
    bool two = m->names_norm_2; /* each half has its own, with its factors */
    put_norm(f, two ? "blk.%u.attn_norm_2" : "blk.%u.attn_norm", l, &b->attn_norm, m->n_embd,
             factors->attn);
    put_mixer(f, l, b);
    put_norm(f, "blk.%u.post_attention_norm", l, &b->attn_post_norm, m->n_embd, NULL);
    put_norm(f, two ? "blk.%u.attn_norm" : tft_transformer_ffn_norm(m->arch->transformer), l,
             &b->ffn_norm, m->n_embd, factors->ffn);
    put_norm(f, "blk.%u.post_ffw_norm", l, &b->ffn_post_norm, m->n_embd, NULL);
    put_same(f, "blk.%u.inp_gate.weight", l, &b->embed_gate.w);
    put_same(f, "blk.%u.proj.weight", l, &b->embed_out.w);
    put_norm(f, "blk.%u.post_norm", l, &b->embed_norm, m->n_embd, NULL);
    put_altup(f, l, &b->altup);
    put_vector(f, "blk.%u.layer_output_scale", l, ".weight", b->scale, 1, NULL);
    put_norm(f, "blk.%u.attn_sub_norm", l, &b->attn_sub_norm, (size_t)m->n_head * m->head_dim,
             NULL);
    put_norm(f, "blk.%u.ffn_sub_norm", l, &b->ffn_sub_norm, m->n_ff, NULL);
    put_floats(f, "blk.%u.ffn_gate_inp", l, ".weight", b->experts.router.data, m->n_expert,
               m->n_embd, NULL);
    put_vector(f, "blk.%u.ffn_gate_inp", l, ".bias", b->experts.router_bias, m->n_expert, NULL);
    put_vector(f, "blk.%u.ffn_gate_inp", l, ".scale", b->experts.router_norm.w, m->n_embd, NULL);
    put_norm(f, "blk.%u.pre_ffw_norm_2", l, &b->experts.in_norm, m->n_embd, NULL);
    put_norm(f, "blk.%u.post_ffw_norm_1", l, &b->experts.beside_norm, m->n_embd, NULL);
    put_norm(f, "blk.%u.post_ffw_norm_2", l, &b->experts.sum_norm, m->n_embd, NULL);
    put_same(f, "blk.%u.ffn_latent_down.weight", l, &b->experts.latent_down.w);
    put_same(f, "blk.%u.ffn_latent_up.weight", l, &b->experts.latent_up.w);
    put_vector(f, "blk.%u.exp_probs_b", l, ".bias", b->experts.bias, m->n_expert, NULL);
    put_vector(f, "blk.%u.ffn_gate_inp_shexp", l, ".weight", b->experts.shared_gate.data, m->n_embd,
               NULL);
}

/* Whether the head shares the embedding's panels. With a rotated residual stream it cannot: the
   head has the gain of the last norm. */
static bool tied(const struct model_writer *f)
{
    return f->m->output.w.tensor == f->m->embed.tensor && !f->y->rotation.n;
}

void write_head(struct model_writer *f)
{
    const struct tft_model *m = f->m;
    put_norm(f, tft_transformer_out_norm(m->arch->transformer), 0, &m->out_norm, m->n_embd, NULL);
    if (!tied(f))
        put_matrix(f, "output", &m->output.w);
    put_vector(f, "output", 0, ".bias", m->output.bias, m->n_vocab, NULL);
}

/* Copies the tensor t. */
static void put_tensor(struct model_writer *f, const struct tft_tensor *t)
{
    if (f->pass == WRITE_DATA)
        tft_gguf_put_data(f->w, t->data, (size_t)t->bytes);
    else
        f->n_tensors++;
    if (f->pass == WRITE_DESCRIPTIONS)
        tft_gguf_put_tensor(f->w, t->name, t->type, t->n_dims, t->ne);
}

/* Whether t is the matrix of l, which may be fused, or its bias: NAME.weight, NAME.bias. */
static bool is_of(const struct tft_tensor *t, const struct tft_linear *l)
{
    static const char weight[] = "weight", bias[] = "bias";
    const struct tft_tensor *w = l->w.tensor;
    if (t == w)
        return true;
    size_t n = w->name.n - (sizeof weight - 1);
    return t->name.n == n + sizeof bias - 1 && memcmp(t->name.p, w->name.p, n) == 0 &&
           memcmp(t->name.p + n, bias, sizeof bias - 1) == 0;
}

static bool is_written(const struct tft_model *m, const struct tft_tensor *t)
{
    if (t == m->embed.tensor)
        return true;
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (int i = 0; i < LAYER_MATS; i++) {
            const struct tft_linear *linear = layers_linear(&m->layer[l], i);
            if (linear && is_of(t, linear))
                return true;
        }
    return false;
}

void write_others(struct model_writer *f)
{
    const struct tft_source *s = &f->m->source;
    for (size_t i = 0; i < s->n_tensor; i++)
        if (!is_written(f->m, &s->tensor[i]))
            put_tensor(f, &s->tensor[i]);
}

/* Whether t belongs to a block after the layers. */
static bool is_beyond(const struct tft_model *m, const struct tft_tensor *t)
{
    char name[80];
    unsigned block;
    snprintf(name, sizeof name, "%.*s", (int)(t->name.n < 79 ? t->name.n : 79), t->name.p);
    return sscanf(name, "blk.%u.", &block) == 1 && block >= m->n_layer;
}

/* They read the residual stream, so they are left out where it is rotated. */
void write_predictors(struct model_writer *f)
{
    const struct tft_source *s = &f->m->source;
    for (size_t i = 0; i < s->n_tensor && !f->y->rotation.n; i++) {
        if (is_beyond(f->m, &s->tensor[i]))
            put_tensor(f, &s->tensor[i]);
    }
}

/* The states after the prefix. */
static void put_state(struct model_writer *f)
{
    size_t n = f->m->state_size;
    if (f->pass < WRITE_DATA)
        describe(f, TFT_F32, 1, &(const uint64_t){n}, TFT_KEY_PREFIX_STATE, 0, "");
    else
        tft_gguf_put_data(f->w, f->y->prefix_state, n * sizeof *f->y->prefix_state);
}

void write_prefix(struct model_writer *f, const uint16_t *k, const uint16_t *v)
{
    const struct tft_model *m = f->m;
    enum tft_dtype type = f->o->prefix_type;
    uint32_t n = f->o->n_prefix;
    if (!n)
        return;
    if (f->pass == WRITE_COUNT) {
        f->n_tensors += 2;
    } else if (f->pass == WRITE_DESCRIPTIONS) {
        prefix_describe(f->w, (struct tft_str){TFT_KEY_PREFIX_K, strlen(TFT_KEY_PREFIX_K)}, m, type,
                        n);
        prefix_describe(f->w, (struct tft_str){TFT_KEY_PREFIX_V, strlen(TFT_KEY_PREFIX_V)}, m, type,
                        n);
    } else if (prefix_check_numbers(m, n, k, v, f->bad) == TFT_OK) {
        prefix_put(f->w, m, type, n, k);
        prefix_put(f->w, m, type, n, v);
    }
    if (failed(f))
        return;
    put_vector(f, TFT_KEY_PREFIX_X, 0, "", layers_prefix_x(f->y), m->n_embd, NULL);
    if (m->state_size)
        put_state(f);
}

/* data: [n_kv_layer, G, n], `all` numbers, or NULL: no such tensor. In a model whose layers differ,
   the tensor has one dimension. */
static void put_heads(struct model_writer *f, const char *name, enum tft_dtype type,
                      const void *data, uint64_t n, uint64_t all)
{
    const struct tft_model *m = f->m;
    const uint64_t equal[3] = {n, m->n_head_kv, m->n_kv_layer};
    bool differ = m->parts & TFT_BIT(TFT_PART_LAYER_SIZES);
    if (data && f->pass < WRITE_DATA)
        describe(f, type, differ ? 1 : 3, differ ? &all : equal, name, 0, "");
    else if (data)
        tft_gguf_put_data(f->w, data, all * tft_dtype_info(type)->bytes);
}

void write_importance(struct model_writer *f, const float *importance)
{
    put_heads(f, TFT_KEY_KV_IMPORTANCE, TFT_F32, importance, f->m->head_dim, f->m->kv_numbers);
}

void write_kv_calibration(struct model_writer *f, const struct kv_calibration *c)
{
    uint64_t groups = kv_calibrate_groups(c, f->m->head_dim),
             all = c->alpha[0] ? kv_calibrate_groups_before(c, f->m->n_kv_layer) : 0;
    put_heads(f, TFT_KEY_KV_ORDER, TFT_I32, c->key_order, f->m->head_dim, f->m->kv_numbers);
    put_heads(f, TFT_KEY_KV_CLIP_K, TFT_F32, c->alpha[0], groups, all);
    put_heads(f, TFT_KEY_KV_CLIP_V, TFT_F32, c->alpha[1], groups, all);
}

/* --------------------------------------------------------------------------------------- values */

static void put_text(struct model_writer *f, const char *key, const char *text)
{
    tft_gguf_put_str(f->w, key, (struct tft_str){text, strlen(text)});
}

static void put_search(struct model_writer *f, const struct cushion *c)
{
    float losses[2 * CUSHION_ROUNDS];
    for (uint32_t i = 0; i < c->tried; i++) {
        losses[2 * i] = (float)c->round[i].before;
        losses[2 * i + 1] = (float)c->round[i].after;
    }
    tft_gguf_put_f32(f->w, TFT_KEY_PREFIX_TAU, (float)c->tau);
    tft_gguf_put_array(f->w, TFT_KEY_PREFIX_LOSSES, TFT_VALUE_F32, losses, 2 * c->tried);
}

static uint32_t count_matrices(const struct model_writer *f, uint32_t bits, uint32_t group)
{
    uint32_t layers = f->m->n_round ? f->m->n_round : f->m->n_layer, n = 0;
    for (uint32_t l = 0; l < layers; l++)
        for (int i = 0; i < LAYER_MATS; i++)
            n += layers_linear(&f->m->layer[l], i) && quantize_bits(f->o, l, i) == bits &&
                 quantize_group(f->o, l, i) == group;
    return n;
}

/* "int8 per channel", "int8 per channel, in groups of 32 of 3 bits in 22 matrices, 4 in 132", with
   a part for each size of groups. */
static void put_weights(struct model_writer *f)
{
    const char *first = ", in groups of %u of %u bits in %u matrices", *more = ", %u in %u";
    char text[512];
    int n = snprintf(text, sizeof text, "int8 per %s", f->o->per_tensor ? "tensor" : "channel");
    for (uint32_t group = 32; group <= LOW_BITS_GROUP; group *= 2) {
        bool listed = false;
        for (uint32_t bits = 2; bits < 8; bits++) {
            uint32_t matrices = count_matrices(f, bits, group);
            if (matrices && listed)
                n += snprintf(text + n, sizeof text - (size_t)n, more, bits, matrices);
            else if (matrices)
                n += snprintf(text + n, sizeof text - (size_t)n, first, group, bits, matrices);
            listed |= matrices > 0;
        }
    }
    put_text(f, TFT_KEY_WEIGHTS, text);
}

void write_start_pass(struct model_writer *f, enum write_pass pass)
{
    if (pass == WRITE_DESCRIPTIONS) {
        f->codes = calloc(f->n_tensors + 1, sizeof *f->codes);
        f->nats = calloc(f->n_tensors + 1, sizeof *f->nats);
    }
    if (pass == WRITE_DESCRIPTIONS && (!f->codes || !f->nats))
        tft_fail(f->bad, TFT_ERR_NOMEM, "%s: out of memory to write the model", f->m->source.name);
    if (pass == WRITE_DATA && f->codes && quantize_low_bits(f->o, 0, f->m->n_layer))
        tft_gguf_fill_array(f->w, f->codes_place, TFT_VALUE_I32, f->codes, f->n_tensors);
    if (pass == WRITE_DATA && f->nats && f->o->nats)
        tft_gguf_fill_array(f->w, f->nats_place, TFT_VALUE_F32, f->nats, f->n_tensors);
    f->pass = pass;
    f->n_tensors = 0;
}

void write_values(struct model_writer *f)
{
    static const char *const methods[] = {"min-max", "percentile", "mse"};
    const struct quantize_opts *o = f->o;
    const struct tft_source *s = &f->m->source;
    uint32_t n = tft_model_inputs(f->m);
    tft_gguf_put_u32(f->w, "general.alignment", 64); /* a cache line; a panel's quad of columns */
    for (size_t i = 0; i < s->n_value; i++)
        if (!s->value[i].ignored && !describes_old_file(s->value[i].key))
            tft_gguf_put_value(f->w, &s->value[i]);

    tft_gguf_put_u32(f->w, TFT_KEY_VERSION, TFT_FILE_VERSION);
    tft_gguf_put_checksum(f->w, TFT_CHECKSUM_KEY);
    tft_gguf_put_u32(f->w, TFT_KEY_VOCAB, f->m->n_vocab);
    put_weights(f);
    f->scale_place = tft_gguf_put_array_later(f->w, TFT_KEY_INPUT_SCALE, TFT_VALUE_F32, n);
    f->zero_place = tft_gguf_put_array_later(f->w, TFT_KEY_INPUT_ZERO, TFT_VALUE_U8, n);
    f->range_place = tft_gguf_put_array_later(f->w, TFT_KEY_INPUT_RANGE, TFT_VALUE_U8, n);
    f->error_place = tft_gguf_put_array_later(f->w, TFT_KEY_INPUT_ERROR, TFT_VALUE_F32, n);
    f->ends_place = tft_gguf_put_array_later(f->w, TFT_KEY_INPUT_ENDS, TFT_VALUE_F32, n);
    if (quantize_low_bits(o, 0, f->m->n_layer))
        f->codes_place =
            tft_gguf_put_array_later(f->w, TFT_KEY_WEIGHT_CODES, TFT_VALUE_I32, f->n_tensors);
    if (o->nats)
        f->nats_place =
            tft_gguf_put_array_later(f->w, TFT_KEY_WEIGHT_NATS, TFT_VALUE_F32, f->n_tensors);
    tft_gguf_put_u32(f->w, TFT_KEY_HADAMARD, quantize_down_block(f->m, o));

    if (o->kv)
        put_text(f, TFT_KEY_KV, o->kv);

    /* how the file was made, as information */
    tft_gguf_put_u32(f->w, TFT_KEY_ROTATE_VALUES, quantize_head_block(f->m, o));
    tft_gguf_put_bool(f->w, TFT_KEY_ROTATE_RESIDUAL, f->y->rotation.n);
    tft_gguf_put_f32(f->w, TFT_KEY_SMOOTH, o->smooth);
    put_text(f, TFT_KEY_CALIBRATION_METHOD, methods[o->method]);
    tft_gguf_put_u32(f->w, TFT_KEY_CALIBRATION_TOKENS, (uint32_t)(f->y->n_windows * o->window));
    tft_gguf_put_u32(f->w, TFT_KEY_CALIBRATION_WINDOW, o->window);
    tft_gguf_put_u32(f->w, TFT_KEY_CALIBRATION_HASH,
                     tft_crc32(0, o->text, o->n_text * sizeof *o->text));
    if (!f->m->encoder)
        tft_gguf_put_array_later(f->w, TFT_KEY_HELD_OUT, TFT_VALUE_F32,
                                 CHECK_GROUPS * HELD_OUT_NUMBERS); /* write_held_out */
    if (o->n_prefix) {
        tft_gguf_put_array(f->w, TFT_KEY_PREFIX_TOKENS, TFT_VALUE_I32, o->prefix, o->n_prefix);
        if (o->n_prefix_text)
            tft_gguf_put_u32(f->w, TFT_KEY_PREFIX_TEXT, o->n_prefix_text);
        put_text(f, TFT_KEY_PREFIX_METHOD,
                 o->pivots ? "pivots" : o->cushion ? "cushion" : "intact");
    }
    if (o->cushion && o->cushion->tried)
        put_search(f, o->cushion);
}

void write_inputs(struct model_writer *f, const struct quantize_input *result)
{
    for (uint32_t i = 0; i < tft_model_inputs(f->m); i++) {
        float error = (float)result[i].error, ends = (float)result[i].ends;
        uint8_t zero = (uint8_t)result[i].affine.zero, range = (uint8_t)f->o->range[i];
        tft_gguf_fill_array(f->w, f->scale_place + 4 * i, TFT_VALUE_F32, &result[i].affine.scale,
                            1);
        tft_gguf_fill_array(f->w, f->zero_place + i, TFT_VALUE_U8, &zero, 1);
        tft_gguf_fill_array(f->w, f->error_place + 4 * i, TFT_VALUE_F32, &error, 1);
        tft_gguf_fill_array(f->w, f->ends_place + 4 * i, TFT_VALUE_F32, &ends, 1);
        tft_gguf_fill_array(f->w, f->range_place + i, TFT_VALUE_U8, &range, 1);
    }
}

/* -------------------------------------------------------------------------------------- opening */

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static bool alloc_scratch(struct model_writer *f)
{
    const struct tft_model *m = f->m;
    size_t cols = larger(larger(m->n_embd, larger(m->n_ff, m->n_ff_expert)), m->mixed_width);
    size_t kv = (size_t)m->n_head_kv * m->head_dim,
           layer = larger(larger(larger(cols, kv), m->mixer_width),
                          m->n_expert * larger(m->n_embd, m->n_ff_expert)),
           rows = larger(larger(layer, m->n_vocab), m->layer_embed.n);
    f->row = array_alloc(sizeof *f->row, tft_panel_rows(rows), 1, 1);
    f->bias = malloc(kv * sizeof *f->bias);
    f->rows = malloc(TFT_PANEL * cols * sizeof *f->rows);
    f->panel = malloc(TFT_PANEL * (tft_panel_cols(cols) + TFT_LOW_MAX_GROUP));
    for (int i = 0; i < LAYER_MATS; i++) {
        /* the first one also serves embedding and head */
        size_t most = tft_panel_rows(i ? layer : rows);
        f->scale[i] = array_alloc(sizeof *f->scale[i], most, 1, 1);
        f->rowsum[i] = array_alloc(sizeof *f->rowsum[i], most, 1, 1);
        if (!f->scale[i] || !f->rowsum[i])
            return false;
    }
    return f->row && f->bias && f->rows && f->panel;
}

void write_open(struct model_writer *f, const struct layers *y, const int32_t *value_order,
                const char *path, struct tft_error *bad)
{
    *f =
        (struct model_writer){.y = y, .m = y->m, .o = y->o, .value_order = value_order, .bad = bad};
    if (alloc_scratch(f))
        tft_gguf_create(&f->w, path, bad);
    else
        tft_fail(bad, TFT_ERR_NOMEM, "%s: out of memory to write the model", y->m->source.name);
}

void write_close(struct model_writer *f, struct tft_new_file **temp)
{
    if (temp && !failed(f))
        tft_gguf_complete(f->w, temp, f->bad);
    else
        tft_gguf_close(f->w, false, NULL);
    free(f->row);
    free(f->bias);
    free(f->rows);
    free(f->panel);
    free(f->codes);
    free(f->nats);
    for (int i = 0; i < LAYER_MATS; i++) {
        free(f->scale[i]);
        free(f->rowsum[i]);
    }
    *f = (struct model_writer){0};
}
