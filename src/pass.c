#include "pass.h"

#include "rope.h"
#include "session.h"

/* ------------------------------------------------------------------------------------------- the machinery */

void tft_pass_touch(struct tft_pass *p, unsigned reads, unsigned writes)
{
    if ((reads & p->written) | (writes & (p->written | p->read))) {
        tft_port_barrier();
        p->read = p->written = 0;
    }
    p->read |= reads;
    p->written |= writes;
}

#define BIT(buf) (1u << (buf))

uint32_t tft_pass_width(const struct tft_pass *p, enum tft_buf buf)
{
    const struct tft_model *m = p->m;
    switch (buf) {
    case TFT_Q:
    case TFT_A: return m->n_head * m->head_dim;
    case TFT_K:
    case TFT_V: return m->n_head_kv * m->head_dim;
    case TFT_G:
    case TFT_U: return m->n_ff;
    case TFT_LOGITS: return m->n_vocab;
    default: return m->n_embd;
    }
}

enum { LINE = 16 }; /* floats of a cache line: threads should not write to the same one */

/* Logits are the caller's, without gaps. Other rows are an odd number of cache lines apart: were it a power of two, the same column of
   all rows would fall into the same few lines of a cache. */
uint32_t tft_pass_stride(const struct tft_pass *p, enum tft_buf buf)
{
    uint32_t width = tft_pass_width(p, buf);
    return buf == TFT_LOGITS ? width : ((width + LINE - 1) / LINE | 1) * LINE;
}

float *tft_pass_row(const struct tft_pass *p, enum tft_buf buf, uint32_t t)
{
    uint32_t row = buf == TFT_LOGITS ? t - p->first : t;
    return p->s->buf[buf] + (size_t)row * tft_pass_stride(p, buf);
}

void tft_pass_share(const struct tft_pass *p, size_t n, size_t *begin, size_t *end)
{
    *begin = n * (size_t)p->tid / (size_t)p->n_threads;
    *end = n * (size_t)(p->tid + 1) / (size_t)p->n_threads;
}

/* This thread's share of the pass's tokens. */
static void token_share(const struct tft_pass *p, uint32_t *begin, uint32_t *end)
{
    size_t a, b;
    tft_pass_share(p, p->n - p->first, &a, &b);
    *begin = p->first + (uint32_t)a;
    *end = p->first + (uint32_t)b;
}

void tft_keep_last(struct tft_pass *p)
{
    p->first = p->n > p->keep ? p->n - p->keep : 0;
}

/* --------------------------------------------------------------------------------------- token by token */

static const void *mat_row(const struct tft_mat *w, uint32_t row)
{
    return (const char *)w->data + (size_t)row * w->cols * tft_num_bytes(w->num);
}

void tft_embed(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    uint32_t begin, end;
    tft_pass_touch(p, 0, BIT(TFT_X));
    token_share(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *x = tft_pass_row(p, TFT_X, t);
        m->kern.widen[m->embed.num](x, mat_row(&m->embed, (uint32_t)p->tokens[t]), m->n_embd);
        if (m->pos_embed.data)
            m->kern.add(x, mat_row(&m->pos_embed, p->pos + t), m->n_embd);
    }
}

void tft_rmsnorm(struct tft_pass *p, enum tft_buf to, const struct tft_norm *w, enum tft_buf from)
{
    uint32_t begin, end;
    tft_pass_touch(p, BIT(from), BIT(to));
    token_share(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++)
        p->m->kern.rmsnorm(tft_pass_row(p, to, t), tft_pass_row(p, from, t), w->w, tft_pass_width(p, from), p->m->norm_eps);
}

/* This thread's part of every row of a pass: tokens [begin, end), numbers [from, to) of each. Many tokens are shared out whole, few are cut
   into multiples of `unit` numbers. */
struct part {
    uint32_t begin, end;
    size_t from, to;
};

static struct part row_part(const struct tft_pass *p, enum tft_buf buf, size_t unit)
{
    size_t width = tft_pass_width(p, buf), from, to;
    struct part r = {p->first, p->n, 0, width};
    if (p->n - p->first >= (uint32_t)p->n_threads) {
        token_share(p, &r.begin, &r.end);
        return r;
    }
    tft_pass_share(p, (width + unit - 1) / unit, &from, &to);
    r.from = from * unit < width ? from * unit : width;
    r.to = to * unit < width ? to * unit : width;
    return r;
}

void tft_rmsnorm_heads(struct tft_pass *p, enum tft_buf buf, const struct tft_norm *w)
{
    uint32_t dim = p->m->head_dim;
    tft_pass_touch(p, 0, BIT(buf));
    struct part r = row_part(p, buf, dim);
    for (uint32_t t = r.begin; t < r.end; t++) {
        float *row = tft_pass_row(p, buf, t);
        for (size_t i = r.from; i < r.to; i += dim)
            p->m->kern.rmsnorm(row + i, row + i, w->w, dim, p->m->norm_eps);
    }
}

void tft_layernorm(struct tft_pass *p, enum tft_buf to, const struct tft_norm *w, enum tft_buf from)
{
    uint32_t begin, end;
    tft_pass_touch(p, BIT(from), BIT(to));
    token_share(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++)
        p->m->kern.layernorm(tft_pass_row(p, to, t), tft_pass_row(p, from, t), w->w, w->b, tft_pass_width(p, from),
                             p->m->norm_eps);
}

void tft_rope(struct tft_pass *p, enum tft_buf buf)
{
    const struct tft_model *m = p->m;
    tft_rope_fn *rotate = m->rope_halves ? m->kern.rope_halves : m->kern.rope_pairs;
    tft_pass_touch(p, BIT(TFT_ROPE), BIT(buf));
    struct part r = row_part(p, buf, m->head_dim);
    for (uint32_t t = r.begin; t < r.end; t++)
        rotate(tft_pass_row(p, buf, t) + r.from, p->s->rope_cos + (size_t)t * m->n_rot, p->s->rope_sin + (size_t)t * m->n_rot,
               (r.to - r.from) / m->head_dim, m->head_dim, m->n_rot);
}

void tft_silu_mul(struct tft_pass *p)
{
    tft_pass_touch(p, BIT(TFT_U), BIT(TFT_G));
    struct part r = row_part(p, TFT_G, LINE);
    for (uint32_t t = r.begin; t < r.end; t++) {
        float *g = tft_pass_row(p, TFT_G, t) + r.from;
        p->m->kern.silu_mul(g, g, tft_pass_row(p, TFT_U, t) + r.from, r.to - r.from);
    }
}

void tft_gelu(struct tft_pass *p)
{
    tft_pass_touch(p, 0, BIT(TFT_G));
    struct part r = row_part(p, TFT_G, LINE);
    for (uint32_t t = r.begin; t < r.end; t++) {
        float *g = tft_pass_row(p, TFT_G, t) + r.from;
        p->m->kern.gelu(g, g, r.to - r.from);
    }
}

void tft_kv_append(struct tft_pass *p, uint32_t layer)
{
    const struct tft_model *m = p->m;
    size_t begin, end;
    tft_pass_touch(p, BIT(TFT_K) | BIT(TFT_V), BIT(TFT_KV));
    tft_pass_share(p, m->n_head_kv, &begin, &end); /* by heads: a panel belongs to 16 tokens */
    for (uint32_t h = (uint32_t)begin; h < end; h++)
        for (uint32_t t = 0; t < p->n; t++)
            tft_kv_put(&p->s->kv, &m->kern, layer, h, p->pos + t, tft_pass_row(p, TFT_K, t) + h * m->head_dim,
                       tft_pass_row(p, TFT_V, t) + h * m->head_dim);
}

/* ------------------------------------------------------------------------------------------ matrix product */

static void linear(struct tft_pass *p, enum tft_buf to, const struct tft_linear *l, enum tft_buf from, bool add)
{
    const struct tft_mat *w = &l->w;
    tft_pass_touch(p, BIT(from), BIT(to));

    size_t begin, end;
    tft_pass_share(p, (w->rows + LINE - 1) / LINE, &begin, &end);
    begin *= LINE;
    end = end * LINE < w->rows ? end * LINE : w->rows;
    if (begin >= end)
        return;

    p->m->kern.gemm[w->num](tft_pass_row(p, to, p->first) + begin, tft_pass_stride(p, to), tft_pass_row(p, from, p->first),
                            tft_pass_stride(p, from), mat_row(w, (uint32_t)begin), l->bias ? l->bias + begin : NULL, add,
                            p->n - p->first, end - begin, w->cols);
}

void tft_linear(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w, enum tft_buf from)
{
    linear(p, to, w, from, false);
}

void tft_linear_add(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w, enum tft_buf from)
{
    linear(p, to, w, from, true);
}
