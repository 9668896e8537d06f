/* Operations that work on rows of tokens one by one: embedding, norms, rotation, and bytes of rows
   with a dynamic range. */
#include "cpu.h"

#include <string.h>

#include "base/rope.h"
#include "simd/affine.h"

/* y = norm(x): LayerNorm where w has a bias, RMSNorm where it has none; y may be x. */
static void norm_floats(const struct tft_model *m, const struct tft_norm *w, size_t n,
                        const float *x, float *y)
{
    if (w->b)
        m->kern.layernorm(y, x, w->w, w->b, n, m->norm_eps);
    else
        m->kern.rmsnorm(y, x, w->w, n, m->norm_eps);
}

/* Row `row` of a table of floats. */
static const float *table_row(const struct tft_mat *w, uint32_t row)
{
    return (const float *)w->data + (size_t)row * w->cols;
}

void tft_cpu_embed(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    const float *positions = m->pos_embed.data; /* [n_ctx, D] */
    uint32_t begin, end;
    tft_pass_touch(p, 0, BIT(TFT_X));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *x = tft_pass_row(p, TFT_X, t);
        tft_mat_row(m, &m->embed, (uint32_t)p->tokens[t], x);
        if (m->embed_scale != 1)
            m->kern.scale(x, m->embed_scale, m->n_embd);
        if (m->type_embed.rows)
            m->kern.add(x, table_row(&m->type_embed, p->types ? p->types[t] : 0), m->n_embd);
        if (positions)
            m->kern.add(x, positions + (size_t)tft_pass_position(p, t) * m->n_embd, m->n_embd);
        if (m->token_norm.w)
            norm_floats(m, &m->token_norm, m->n_embd, x, x);
    }
}

/* ---------------------------------------------------------------------------------------- norms */

void tft_cpu_norm_row(const struct tft_pass *p, const struct tft_norm *w, uint32_t t, float *h)
{
    const struct tft_kernels *kern = &p->m->kern;
    float *x = tft_pass_row(p, TFT_X, t), eps = p->m->norm_eps;
    if (!w->w)
        memcpy(h, x, p->m->n_embd * sizeof *h);
    else if (w->plain)
        for (uint32_t i = 0; i < p->m->n_embd; i++)
            h[i] = x[i] * w->w[i];
    else if (w->b)
        kern->layernorm(h, x, w->w, w->b, p->m->n_embd, eps);
    else
        kern->rmsnorm(h, x, w->w, p->m->n_embd, eps);
}

static void norm_row_u8(const struct tft_pass *p, const struct tft_norm *w, uint32_t t, uint8_t *h,
                        const struct tft_affine *q)
{
    const struct tft_kernels *kern = &p->m->kern;
    float *x = tft_pass_row(p, TFT_X, t), eps = p->m->norm_eps;
    if (!w->w)
        kern->quantize(h, x, p->m->n_embd, q);
    else if (w->b)
        kern->layernorm_u8(h, x, w->w, w->b, p->m->n_embd, eps, q);
    else
        kern->rmsnorm_u8(h, x, w->w, p->m->n_embd, eps, q);
}

/* Row `row` of a buffer, which is complete, as groups of bytes. */
static void quantize_groups(const struct tft_pass *p, enum tft_buf buf, uint32_t row,
                            const struct tft_input *in)
{
    p->m->kern.quantize_groups(tft_pass_bytes(p, buf, row), in->width, 0,
                               tft_pass_row(p, buf, row), in->width);
}

/* A tap sees the row of the token, not a thread's own. */
bool tft_cpu_own_row(const struct tft_pass *p, enum tft_buf buf, const struct tft_input *in)
{
    bool range = in->range == TFT_RANGE_STATIC ||
                 (in->range == TFT_RANGE_GROUPS && !p->work->tap.see);
    return buf == TFT_XN && range && p->n - p->first == 1;
}

void tft_cpu_norm(struct tft_pass *p, const struct tft_norm *w, const struct tft_linear *l)
{
    const struct tft_affine *q = &l->in->affine;
    uint32_t begin, end, own = (uint32_t)p->tid;
    if (tft_cpu_own_row(p, TFT_XN, l->in)) {
        tft_pass_touch(p, BIT(TFT_X), 0);
        if (l->in->range == TFT_RANGE_STATIC) {
            norm_row_u8(p, w, p->first, tft_pass_bytes(p, TFT_XN, own), q);
        } else {
            tft_cpu_norm_row(p, w, p->first, tft_pass_row(p, TFT_XN, own));
            quantize_groups(p, TFT_XN, own, l->in);
        }
        return;
    }
    tft_pass_touch(p, BIT(TFT_X), BIT(TFT_XN));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++)
        if (l->in->range == TFT_RANGE_STATIC)
            norm_row_u8(p, w, t, tft_pass_bytes(p, TFT_XN, t), q);
        else
            tft_cpu_norm_row(p, w, t, tft_pass_row(p, TFT_XN, t));
    tft_cpu_quantize(p, TFT_XN, l->in);
}

void tft_cpu_keep_hidden(struct tft_pass *p)
{
    const struct tft_seq whole = {.s = p->s, .n = p->n, .n_hidden = p->n_hidden};
    const struct tft_seq *seq = p->seq ? p->seq : &whole;
    size_t width = p->m->n_embd, row = 0, begin, end;
    tft_pass_touch(p, BIT(TFT_X), 0);
    tft_pass_share(p, p->n_hidden, &begin, &end);
    for (uint32_t i = 0; row < p->n_hidden; i++)
        for (uint32_t k = 0; k < seq[i].n_hidden; k++, row++)
            if (row >= begin && row < end)
                tft_cpu_norm_row(p, &p->m->out_norm, seq[i].at + seq[i].n - seq[i].n_hidden + k,
                                 (p->seq ? seq[i].s->out.hidden : p->hidden) + k * width);
    if (!p->seq)
        p->first = p->n - p->n_logits;
}

/* RMSNorm of n heads of `dim` numbers. */
static void rmsnorm_heads(struct tft_pass *p, enum tft_buf buf, const struct tft_norm *w,
                          uint32_t n, uint32_t dim)
{
    tft_pass_touch_heads(p, 0, BIT(buf), BIT(buf));
    struct tft_part part = tft_pass_part(p, (size_t)n * dim, dim);
    for (uint32_t t = part.begin; t < part.end; t++) {
        float *row = tft_pass_row(p, buf, t);
        for (size_t i = part.from; i < part.to; i += dim)
            p->m->kern.rmsnorm(row + i, row + i, w->w, dim, p->m->norm_eps);
    }
}

void tft_cpu_rmsnorm_heads(struct tft_pass *p, const struct tft_layer *b)
{
    rmsnorm_heads(p, TFT_Q, &b->q_norm, p->m->n_head, b->kv.dim);
    if (b->k.w.rows)
        rmsnorm_heads(p, TFT_K, &b->k_norm, b->kv.n, b->kv.dim);
    if (b->k.w.rows && b->v_norm.w)
        rmsnorm_heads(p, TFT_V, &b->v_norm, b->kv.n, b->kv.dim);
}

static void norm_whole(struct tft_pass *p, enum tft_buf buf, const struct tft_norm *w)
{
    uint32_t begin, end;
    tft_pass_touch(p, 0, BIT(buf));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *row = tft_pass_row(p, buf, t);
        norm_floats(p->m, w, tft_pass_width(p, buf), row, row);
    }
}

void tft_cpu_rmsnorm_whole(struct tft_pass *p, const struct tft_layer *b)
{
    norm_whole(p, TFT_Q, &b->q_norm);
    norm_whole(p, TFT_K, &b->k_norm);
}

static void layernorm_heads(struct tft_pass *p, enum tft_buf buf, const struct tft_norm *w)
{
    const struct tft_model *m = p->m;
    uint32_t dim = m->head_dim;
    tft_pass_touch_heads(p, 0, BIT(buf), BIT(buf));
    struct tft_part part = tft_pass_part(p, tft_pass_width(p, buf), dim);
    for (uint32_t t = part.begin; t < part.end; t++) {
        float *row = tft_pass_row(p, buf, t);
        for (size_t i = part.from; i < part.to; i += dim)
            m->kern.layernorm(row + i, row + i, w->w + i, m->zeros, dim, m->norm_eps);
    }
}

void tft_cpu_layernorm_heads(struct tft_pass *p, const struct tft_layer *b)
{
    layernorm_heads(p, TFT_Q, &b->q_norm);
    layernorm_heads(p, TFT_K, &b->k_norm);
}

static void bound_heads(struct tft_pass *p, enum tft_buf buf, uint32_t dim)
{
    float bound = p->m->qkv_bound;
    tft_pass_touch_heads(p, 0, BIT(buf), BIT(buf));
    struct tft_part part = tft_pass_part(p, tft_pass_width(p, buf), dim);
    for (uint32_t t = part.begin; t < part.end; t++) {
        float *row = tft_pass_row(p, buf, t);
        for (size_t i = part.from; i < part.to; i++) /* a NaN stays */
            row[i] = row[i] > bound ? bound : row[i] < -bound ? -bound : row[i];
    }
}

void tft_cpu_bound_qkv(struct tft_pass *p, const struct tft_layer *b)
{
    bound_heads(p, TFT_Q, b->kv.dim);
    bound_heads(p, TFT_K, b->kv.dim);
    bound_heads(p, TFT_V, b->kv.dim);
}

/* From the last head on, since a head moves towards the end of its row. */
static void pad_heads(const struct tft_model *m, float *row, size_t heads, size_t dim)
{
    size_t n = m->v_dim;
    for (size_t h = heads; h-- > 0;) {
        memmove(row + h * dim, row + h * n, n * sizeof *row);
        memset(row + h * dim + n, 0, (dim - n) * sizeof *row);
        if (m->value_scale != 1)
            m->kern.scale(row + h * dim, m->value_scale, n);
    }
}

void tft_cpu_pad_values(struct tft_pass *p, const struct tft_layer *b)
{
    uint32_t begin, end;
    tft_pass_touch(p, 0, BIT(TFT_V));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++)
        pad_heads(p->m, tft_pass_row(p, TFT_V, t), b->kv.n, b->kv.dim);
}

void tft_cpu_add_y(struct tft_pass *p, const struct tft_norm *w, const float *scale)
{
    const struct tft_model *m = p->m;
    uint32_t begin, end;
    tft_pass_touch(p, BIT(TFT_Y), BIT(TFT_X) | BIT(TFT_Y));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *x = tft_pass_row(p, TFT_X, t), *y = tft_pass_row(p, TFT_Y, t);
        if (w->w)
            m->kern.rmsnorm(y, y, w->w, m->n_embd, m->norm_eps);
        if (m->residual_scale != 1)
            m->kern.scale(y, m->residual_scale, m->n_embd);
        m->kern.add(x, y, m->n_embd);
        if (scale)
            m->kern.scale(x, *scale, m->n_embd);
    }
}

void tft_cpu_norm_sum(struct tft_pass *p, const struct tft_norm *w, const struct tft_norm *again)
{
    const struct tft_model *m = p->m;
    uint32_t begin, end;
    size_t n = m->n_embd;
    tft_pass_touch(p, BIT(TFT_Y), BIT(TFT_X) | BIT(TFT_Y));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *x = tft_pass_row(p, TFT_X, t), *y = tft_pass_row(p, TFT_Y, t);
        m->kern.add(y, x, n);
        norm_floats(m, w, n, y, again->w ? y : x);
        if (!again->w)
            continue;
        m->kern.add(y, x, n);
        norm_floats(m, again, n, y, x);
    }
}

/* ------------------------------------------------------------------------------------- rotation */

/* Rotates n heads. */
static void rotate(struct tft_pass *p, enum tft_buf buf, const struct tft_layer *b, uint32_t n)
{
    const struct tft_model *m = p->m;
    tft_rope_fn *rope = m->rope_halves ? m->kern.rope_halves : m->kern.rope_pairs;
    bool own = b->window && m->rope_freq_window;
    uint32_t dim = b->kv.dim, n_rot = own ? m->n_rot_window : m->n_rot;
    /* tables of layers with a window come after the others */
    const struct tft_work *work = p->work;
    size_t table = own ? (size_t)work->n_batch * m->n_rot : 0;
    tft_pass_touch_heads(p, BIT(TFT_ROPE), BIT(buf), BIT(buf));
    struct tft_part part = tft_pass_part(p, (size_t)n * dim, dim);
    for (uint32_t t = part.begin; t < part.end; t++) {
        size_t at = table + (size_t)t * n_rot;
        rope(tft_pass_row(p, buf, t) + part.from, work->rope_cos + at, work->rope_sin + at,
             (part.to - part.from) / dim, dim, n_rot);
    }
}

void tft_cpu_rope(struct tft_pass *p, const struct tft_layer *b)
{
    rotate(p, TFT_Q, b, p->m->n_head);
    if (b->k.w.rows)
        rotate(p, TFT_K, b, b->kv.n);
}

void tft_cpu_scale_queries(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    tft_pass_touch_heads(p, 0, BIT(TFT_Q), BIT(TFT_Q));
    struct tft_part part = tft_pass_part(p, tft_pass_width(p, TFT_Q), m->head_dim);
    for (uint32_t t = part.begin; t < part.end; t++) {
        uint32_t periods = tft_pass_position(p, t) / m->query_period;
        if (periods)
            m->kern.scale(tft_pass_row(p, TFT_Q, t) + part.from,
                          (float)(1 + (double)m->query_growth * tft_rope_log(1.0 + periods)),
                          part.to - part.from);
    }
}

/* ------------------------------------------------------------------------------- dynamic ranges */

/* A layer's input may be shorter than a row. */
void tft_cpu_quantize_token(const struct tft_pass *p, enum tft_buf buf, uint32_t row,
                            const struct tft_input *in)
{
    float min, max;
    p->m->kern.range(tft_pass_row(p, buf, row), in->width, &min, &max);
    p->work->affine[buf][row] = tft_affine_of(min, max);
    p->m->kern.quantize(tft_pass_bytes(p, buf, row), tft_pass_row(p, buf, row), in->width,
                        &p->work->affine[buf][row]);
}

/* Applies in->norm to the row, then the Hadamard transform, and quantizes it if the range is
   static. */
static void norm_input(const struct tft_pass *p, enum tft_buf buf, uint32_t row,
                       const struct tft_input *in)
{
    const struct tft_kernels *kern = &p->m->kern;
    float *x = tft_pass_row(p, buf, row);
    size_t n = in->width;
    kern->rmsnorm(x, x, in->norm, n, p->m->norm_eps);
    if (in->hadamard)
        kern->hadamard(x, n, in->hadamard);
    if (in->range == TFT_RANGE_STATIC)
        kern->quantize(tft_pass_bytes(p, buf, row), x, n, &in->affine);
}

void tft_cpu_quantize(struct tft_pass *p, enum tft_buf buf, const struct tft_input *in)
{
    bool dynamic = in->range != TFT_RANGE_FLOAT && in->range != TFT_RANGE_STATIC;
    if (!dynamic && !in->norm)
        return;
    uint32_t begin, end;
    tft_pass_touch(p, 0, BIT(buf));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end && in->norm; t++)
        norm_input(p, buf, t, in);
    if (!dynamic)
        return;
    for (uint32_t t = begin; t < end; t++)
        if (in->range == TFT_RANGE_GROUPS)
            quantize_groups(p, buf, t, in);
        else
            tft_cpu_quantize_token(p, buf, t, in);
}

void tft_cpu_quantize_for(struct tft_pass *p, enum tft_buf from, const struct tft_linear *l)
{
    tft_cpu_quantize(p, from, l->in);
}

/* The floats of a row are left out where a static range makes bytes of them. */
static void copy_row(struct tft_pass *p, enum tft_buf to, uint32_t row, const float *x,
                     const struct tft_linear *l)
{
    if (l->in->range == TFT_RANGE_STATIC)
        p->m->kern.quantize(tft_pass_bytes(p, to, row), x, l->w.cols, &l->in->affine);
    else
        memcpy(tft_pass_row(p, to, row), x, l->w.cols * sizeof *x);
}

void tft_cpu_copy(struct tft_pass *p, enum tft_buf to, enum tft_buf from,
                  const struct tft_linear *l)
{
    uint32_t begin, end, own = (uint32_t)p->tid;
    if (tft_cpu_own_row(p, to, l->in)) {
        tft_pass_touch(p, BIT(from), 0);
        copy_row(p, to, own, tft_pass_row(p, from, p->first), l);
        if (l->in->range == TFT_RANGE_GROUPS)
            quantize_groups(p, to, own, l->in);
        return;
    }
    tft_pass_touch(p, BIT(from), BIT(to));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++)
        copy_row(p, to, t, tft_pass_row(p, from, t), l);
    tft_cpu_quantize(p, to, l->in);
}
