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

float *tft_pass_row(const struct tft_pass *p, enum tft_buf buf, uint32_t t)
{
    uint32_t row = buf == TFT_LOGITS ? t - p->first : t;
    return p->s->buf[buf] + (size_t)row * tft_pass_width(p, buf);
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

/* Heads follow each other without a gap, over the tokens too: this thread's share of all of them. */
static void head_share(const struct tft_pass *p, enum tft_buf buf, size_t *begin, size_t *end, uint32_t *per_token)
{
    *per_token = tft_pass_width(p, buf) / p->m->head_dim;
    tft_pass_share(p, (size_t)(p->n - p->first) * *per_token, begin, end);
}

void tft_rmsnorm_heads(struct tft_pass *p, enum tft_buf buf, const struct tft_norm *w)
{
    size_t begin, end;
    uint32_t per_token, dim = p->m->head_dim;
    tft_pass_touch(p, 0, BIT(buf));
    head_share(p, buf, &begin, &end, &per_token);
    float *head = tft_pass_row(p, buf, p->first);
    for (size_t i = begin; i < end; i++)
        p->m->kern.rmsnorm(head + i * dim, head + i * dim, w->w, dim, p->m->norm_eps);
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
    size_t begin, end;
    uint32_t per_token;
    tft_pass_touch(p, BIT(TFT_ROPE), BIT(buf));
    head_share(p, buf, &begin, &end, &per_token);
    for (size_t i = begin; i < end;) { /* the heads of one token share their angles */
        size_t t = p->first + i / per_token, n = per_token - i % per_token;
        n = n < end - i ? n : end - i;
        rotate(tft_pass_row(p, buf, p->first) + i * m->head_dim, p->s->rope_cos + t * m->n_rot, p->s->rope_sin + t * m->n_rot, n,
               m->head_dim, m->n_rot);
        i += n;
    }
}

/* Numbers one by one: this thread's share of a buffer's rows, a cache line at a time. */
static float *element_share(const struct tft_pass *p, enum tft_buf buf, size_t *offset, size_t *n)
{
    enum { LINE = 16 };
    size_t all = (size_t)(p->n - p->first) * tft_pass_width(p, buf), begin, end;
    tft_pass_share(p, (all + LINE - 1) / LINE, &begin, &end);
    end = end * LINE < all ? end * LINE : all;
    *offset = begin * LINE < end ? begin * LINE : end;
    *n = end - *offset;
    return tft_pass_row(p, buf, p->first) + *offset;
}

void tft_silu_mul(struct tft_pass *p)
{
    size_t offset, n;
    tft_pass_touch(p, BIT(TFT_U), BIT(TFT_G));
    float *g = element_share(p, TFT_G, &offset, &n);
    p->m->kern.silu_mul(g, g, tft_pass_row(p, TFT_U, p->first) + offset, n);
}

void tft_gelu(struct tft_pass *p)
{
    size_t offset, n;
    tft_pass_touch(p, 0, BIT(TFT_G));
    float *g = element_share(p, TFT_G, &offset, &n);
    p->m->kern.gelu(g, g, n);
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

/* Tokens taken against all of a thread's rows at a time: their activations should stay in a small L2 cache (256 KiB) while
   the weights go by, yet be enough that the weights go by seldom. */
static uint32_t tokens_per_block(uint32_t cols)
{
    enum { BYTES = 256 << 10, STEP = 12, LEAST = 24 };
    uint32_t fit = BYTES / (cols * (uint32_t)sizeof(float)) / STEP * STEP;
    return fit < LEAST ? LEAST : fit;
}

static void linear(struct tft_pass *p, enum tft_buf to, const struct tft_linear *l, enum tft_buf from, bool add)
{
    enum { UNIT = 16 }; /* rows per share: a cache line of results, so that threads do not write to the same one */
    const struct tft_mat *w = &l->w;
    tft_pass_touch(p, BIT(from), BIT(to));

    size_t begin, end;
    tft_pass_share(p, (w->rows + UNIT - 1) / UNIT, &begin, &end);
    begin *= UNIT;
    end = end * UNIT < w->rows ? end * UNIT : w->rows;
    if (begin >= end)
        return;

    uint32_t block = tokens_per_block(w->cols), ldy = tft_pass_width(p, to), ldx = tft_pass_width(p, from);
    for (uint32_t t = p->first; t < p->n; t += block) {
        uint32_t n = p->n - t < block ? p->n - t : block;
        p->m->kern.gemm[w->num](tft_pass_row(p, to, t) + begin, ldy, tft_pass_row(p, from, t), ldx,
                                mat_row(w, (uint32_t)begin), l->bias ? l->bias + begin : NULL, add, n, end - begin, w->cols);
    }
}

void tft_linear(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w, enum tft_buf from)
{
    linear(p, to, w, from, false);
}

void tft_linear_add(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w, enum tft_buf from)
{
    linear(p, to, w, from, true);
}
