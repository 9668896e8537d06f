#include "pass.h"

#include <math.h>

#include "simd/affine.h"
#include "backend/device.h"
#include "model/rope.h"
#include "session.h"

/* -------------------------------------------------------------------------------- the machinery */

void tft_pass_touch(struct tft_pass *p, unsigned reads, unsigned writes)
{
    if ((reads & p->written) | (writes & (p->written | p->read))) {
        tft_port_barrier();
        p->read = p->written = p->by_head = 0;
    }
    p->read |= reads;
    p->written |= writes;
}

/* The same for heads of `buf`, read or written by their share: who wrote them like this has not to
   wait for itself. */
static void touch_heads(struct tft_pass *p, unsigned reads, unsigned writes, unsigned buf)
{
    bool shared_out = p->n - p->first < (uint32_t)p->n_threads; /* see row_part */
    unsigned own = shared_out ? p->by_head & buf : 0;
    p->written &= ~own;
    tft_pass_touch(p, reads, writes);
    p->written |= own;
    p->by_head |= writes & buf;
}

#define BIT(buf) (1u << (buf))

float *tft_pass_row(const struct tft_pass *p, enum tft_buf buf, uint32_t t)
{
    uint32_t row = buf == TFT_LOGITS ? t - p->first : t;
    return p->s->buf[buf] + (size_t)row * tft_pass_stride(p, buf);
}

uint8_t *tft_pass_bytes(const struct tft_pass *p, enum tft_buf buf, uint32_t t)
{
    return p->s->bytes[buf] + (size_t)t * tft_pass_byte_stride(p, buf);
}

uint32_t tft_pass_position(const struct tft_pass *p, uint32_t t)
{
    return p->pos + (p->each ? t % p->each : t);
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

/* ------------------------------------------------------------------------------- token by token */

void tft_embed(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    const float *positions = m->pos_embed.data; /* [n_ctx, D] */
    uint32_t begin, end;
    tft_pass_touch(p, 0, BIT(TFT_X));
    token_share(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *x = tft_pass_row(p, TFT_X, t);
        tft_mat_row(m, &m->embed, (uint32_t)p->tokens[t], x);
        if (positions)
            m->kern.add(x, positions + (size_t)tft_pass_position(p, t) * m->n_embd, m->n_embd);
    }
}

static void norm_row(const struct tft_pass *p, const struct tft_norm *w, uint32_t t)
{
    const struct tft_kernels *kern = &p->m->kern;
    float *h = tft_pass_row(p, TFT_H, t), *x = tft_pass_row(p, TFT_X, t), eps = p->m->norm_eps;
    if (w->b)
        kern->layernorm(h, x, w->w, w->b, p->m->n_embd, eps);
    else
        kern->rmsnorm(h, x, w->w, p->m->n_embd, eps);
}

static void norm_row_u8(const struct tft_pass *p, const struct tft_norm *w, uint32_t t, uint8_t *h,
                        const struct tft_affine *q)
{
    const struct tft_kernels *kern = &p->m->kern;
    float *x = tft_pass_row(p, TFT_X, t), eps = p->m->norm_eps;
    if (w->b)
        kern->layernorm_u8(h, x, w->w, w->b, p->m->n_embd, eps, q);
    else
        kern->rmsnorm_u8(h, x, w->w, p->m->n_embd, eps, q);
}

/* One token's normalised row is made by each thread for itself: that takes less time than to wait
   for another. */
static bool own_row(const struct tft_pass *p, enum tft_buf buf, const struct tft_input *in)
{
    return buf == TFT_H && in->range == TFT_RANGE_STATIC && p->n - p->first == 1;
}

void tft_norm(struct tft_pass *p, const struct tft_norm *w, const struct tft_linear *l)
{
    uint32_t begin, end;
    if (p->on) {
        p->on->norm(p, w, l);
        return;
    }
    if (own_row(p, TFT_H, l->in)) {
        tft_pass_touch(p, BIT(TFT_X), 0);
        norm_row_u8(p, w, p->first, tft_pass_bytes(p, TFT_H, (uint32_t)p->tid), &l->in->affine);
        return;
    }
    tft_pass_touch(p, BIT(TFT_X), BIT(TFT_H));
    token_share(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++)
        if (l->in->range == TFT_RANGE_STATIC)
            norm_row_u8(p, w, t, tft_pass_bytes(p, TFT_H, t), &l->in->affine);
        else
            norm_row(p, w, t);
    tft_pass_quantize(p, TFT_H, l->in);
}

/* This thread's part of every row of a pass: tokens [begin, end), numbers [from, to) of each. Many
   tokens are shared out whole, few are cut into multiples of `unit` numbers. */
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

static void rmsnorm_heads(struct tft_pass *p, enum tft_buf buf, const struct tft_norm *w)
{
    uint32_t dim = p->m->head_dim;
    touch_heads(p, 0, BIT(buf), BIT(buf));
    struct part r = row_part(p, buf, dim);
    for (uint32_t t = r.begin; t < r.end; t++) {
        float *row = tft_pass_row(p, buf, t);
        for (size_t i = r.from; i < r.to; i += dim)
            p->m->kern.rmsnorm(row + i, row + i, w->w, dim, p->m->norm_eps);
    }
}

void tft_rmsnorm_heads(struct tft_pass *p, const struct tft_block *b)
{
    if (p->on) {
        p->on->rmsnorm_heads(p, b);
        return;
    }
    rmsnorm_heads(p, TFT_Q, &b->q_norm);
    rmsnorm_heads(p, TFT_K, &b->k_norm);
}

static void rotate(struct tft_pass *p, enum tft_buf buf)
{
    const struct tft_model *m = p->m;
    tft_rope_fn *rope = m->rope_halves ? m->kern.rope_halves : m->kern.rope_pairs;
    touch_heads(p, BIT(TFT_ROPE), BIT(buf), BIT(buf));
    struct part r = row_part(p, buf, m->head_dim);
    for (uint32_t t = r.begin; t < r.end; t++)
        rope(tft_pass_row(p, buf, t) + r.from, p->s->rope_cos + (size_t)t * m->n_rot,
             p->s->rope_sin + (size_t)t * m->n_rot, (r.to - r.from) / m->head_dim, m->head_dim,
             m->n_rot);
}

void tft_rope(struct tft_pass *p)
{
    if (p->on) {
        p->on->rope(p);
        return;
    }
    rotate(p, TFT_Q);
    rotate(p, TFT_K);
}

static void store(const struct tft_pass *p, uint32_t layer, uint32_t head, uint32_t slot,
                  uint32_t t)
{
    uint32_t dim = p->m->head_dim;
    tft_kv_put(&p->s->kv, &p->m->kern, layer, head, slot, tft_pass_row(p, TFT_K, t) + head * dim,
               tft_pass_row(p, TFT_V, t) + head * dim);
}

void tft_kv_chunk(struct tft_pass *p, uint32_t layer, const struct tft_chunk *c)
{
    const struct tft_kv *kv = &p->s->kv;
    size_t begin, end;
    touch_heads(p, BIT(TFT_K) | BIT(TFT_V), BIT(TFT_KV), BIT(TFT_K));
    tft_pass_share(p, kv->n_head_kv, &begin, &end);
    for (uint32_t h = (uint32_t)begin; h < end; h++) {
        if (c->evict)
            tft_coded_evict(kv, &p->m->kern, layer, h, c->before, p->tid);
        for (uint32_t t = c->from; t < c->to; t++)
            store(p, layer, h, kv->n_prefix + c->slot + t - c->from, t);
    }
}

void tft_kv_append(struct tft_pass *p, uint32_t layer)
{
    const struct tft_kv *kv = &p->s->kv;
    size_t begin, end;
    if (p->on) {
        p->on->kv_append(p, layer);
        return;
    }
    if (kv->policy.coded) { /* what does not go into the first chunk waits for tft_attend */
        struct tft_retained at = kv->at;
        struct tft_chunk first = tft_retain_chunk(&kv->policy, &at, 0, p->n);
        tft_kv_chunk(p, layer, &first);
        return;
    }
    touch_heads(p, BIT(TFT_K) | BIT(TFT_V), BIT(TFT_KV), BIT(TFT_K));
    tft_pass_share(p, kv->n_head_kv, &begin, &end); /* by heads: a panel belongs to 16 tokens */
    for (uint32_t h = (uint32_t)begin; h < end; h++)
        for (uint32_t t = 0; t < p->n; t++)
            store(p, p->each ? t / p->each : layer, h, tft_pass_position(p, t) - p->s->dropped, t);
}

/* ------------------------------------------------------------------------------- dynamic ranges */

/* The range of tokens [begin, end). */
static void rows_range(const struct tft_pass *p, enum tft_buf buf, uint32_t begin, uint32_t end,
                       float *min, float *max)
{
    *min = *max = 0;
    for (uint32_t t = begin; t < end; t++) {
        float row_min, row_max;
        p->m->kern.range(tft_pass_row(p, buf, t), tft_pass_width(p, buf), &row_min, &row_max);
        *min = fminf(*min, row_min);
        *max = fmaxf(*max, row_max);
    }
}

/* The range of all tokens of the pass, whichever thread has seen them. */
static struct tft_affine common_affine(const struct tft_pass *p, enum tft_buf buf, uint32_t begin,
                                       uint32_t end)
{
    float(*part)[2] = p->s->range_part, min = 0, max = 0;
    rows_range(p, buf, begin, end, &part[p->tid][0], &part[p->tid][1]);
    tft_port_barrier();
    for (int i = 0; i < p->n_threads; i++) {
        min = fminf(min, part[i][0]);
        max = fmaxf(max, part[i][1]);
    }
    tft_port_barrier(); /* before anyone changes its part again */
    return tft_affine_of(min, max);
}

void tft_pass_quantize(struct tft_pass *p, enum tft_buf buf, const struct tft_input *in)
{
    if (in->range != TFT_RANGE_TOKEN && in->range != TFT_RANGE_TENSOR)
        return;
    uint32_t begin, end;
    struct tft_affine q = {0};
    tft_pass_touch(p, 0, BIT(buf));
    token_share(p, &begin, &end);
    if (in->range == TFT_RANGE_TENSOR)
        q = common_affine(p, buf, begin, end);
    for (uint32_t t = begin; t < end; t++) {
        if (in->range == TFT_RANGE_TOKEN) {
            float min, max;
            rows_range(p, buf, t, t + 1, &min, &max);
            q = tft_affine_of(min, max);
        }
        p->s->affine[buf][t] = q;
        p->m->kern.quantize(tft_pass_bytes(p, buf, t), tft_pass_row(p, buf, t),
                            tft_pass_width(p, buf), &q);
    }
}

/* ------------------------------------------------------------------------------- matrix product */

/* Rows [begin, end) of l for tokens [t, t + n) of `from`, which go to y, rows ldy apart; `begin` is
   a multiple of TFT_PANEL. */
static void product(const struct tft_pass *p, float *y, size_t ldy, const struct tft_linear *l,
                    enum tft_buf from, bool add, size_t begin, size_t end, uint32_t t, uint32_t n)
{
    const struct tft_mat *w = &l->w;
    struct tft_product job = {.y = y, .ldy = ldy, .bias = l->bias, .add = add, .n = n};
    if (w->format->takes_bytes) {
        bool fixed = l->in->range == TFT_RANGE_STATIC;
        job.bytes = tft_pass_bytes(p, from, own_row(p, from, l->in) ? (uint32_t)p->tid : t);
        job.ldx = tft_pass_byte_stride(p, from);
        job.affine = fixed ? &l->in->affine : &p->s->affine[from][t];
        job.step = !fixed;
    } else {
        job.x = tft_pass_row(p, from, t);
        job.ldx = tft_pass_stride(p, from);
    }
    w->format->product(&p->m->kern, w, &job, begin, end);
}

void tft_pass_tap(struct tft_pass *p, const struct tft_linear *l, enum tft_buf from)
{
    size_t unit = p->each ? p->each : 1, begin, end; /* a sequence is shown to one thread */
    tft_pass_touch(p, BIT(from), 0);
    tft_pass_share(p, (p->n - p->first) / unit, &begin, &end);
    begin = p->first + begin * unit;
    end = p->first + end * unit;
    if (p->s->tap && begin < end && p->tapped != l->in)
        p->s->tap(p->s->tap_user, p->tid, l->in, begin, end - begin,
                  tft_pass_row(p, from, (uint32_t)begin), tft_pass_stride(p, from));
    p->tapped = l->in;
}

static void linear(struct tft_pass *p, enum tft_buf to, const struct tft_linear *l,
                   enum tft_buf from, bool add)
{
    const struct tft_mat *w = &l->w;
    tft_pass_touch(p, own_row(p, from, l->in) ? 0 : BIT(from), BIT(to));
    tft_pass_tap(p, l, from);

    size_t begin, end;
    tft_pass_share(p, (w->rows + TFT_LINE - 1) / TFT_LINE, &begin, &end);
    begin *= TFT_LINE;
    end = end * TFT_LINE < w->rows ? end * TFT_LINE : w->rows;
    if (begin >= end)
        return;

    product(p, tft_pass_row(p, to, p->first) + begin, tft_pass_stride(p, to), l, from, add, begin,
            end, p->first, p->n - p->first);
}

void tft_qkv(struct tft_pass *p, const struct tft_block *b)
{
    if (p->on) {
        p->on->qkv(p, b);
        return;
    }
    linear(p, TFT_Q, &b->q, TFT_H, false);
    linear(p, TFT_K, &b->k, TFT_H, false);
    linear(p, TFT_V, &b->v, TFT_H, false);
}

void tft_linear_add(struct tft_pass *p, enum tft_buf to, const struct tft_linear *w,
                    enum tft_buf from)
{
    if (p->on)
        p->on->linear_add(p, to, w, from);
    else
        linear(p, to, w, from, true);
}

/* --------------------------------------------------------------------------- hidden activations */

/* Floats, in place: g of n numbers, and u where there is a gate. */
static void activate(const struct tft_kernels *kern, float *g, const float *u, size_t n,
                     const struct tft_input *in)
{
    if (u)
        kern->silu_mul(g, g, u, n);
    else
        kern->gelu(g, g, n);
    if (in->hadamard)
        kern->hadamard(g, n, in->hadamard);
}

/* y = the same, as bytes. */
static void activate_u8(const struct tft_kernels *kern, uint8_t *y, float *g, const float *u,
                        size_t n, const struct tft_input *in)
{
    if (in->hadamard) {
        activate(kern, g, u, n, in);
        kern->quantize(y, g, n, &in->affine);
    } else if (u) {
        kern->silu_mul_u8(y, g, u, n, &in->affine);
    } else {
        kern->gelu_u8(y, g, n, &in->affine);
    }
}

static void hidden_floats(struct tft_pass *p, const struct tft_linear *gate,
                          const struct tft_linear *up, const struct tft_linear *down)
{
    linear(p, TFT_G, gate ? gate : up, TFT_H, false);
    if (gate)
        linear(p, TFT_U, up, TFT_H, false);

    tft_pass_touch(p, gate ? BIT(TFT_U) : 0, BIT(TFT_G));
    struct part r = row_part(p, TFT_G,
                             down->in->hadamard > TFT_LINE ? down->in->hadamard : TFT_LINE);
    for (uint32_t t = r.begin; t < r.end; t++)
        activate(&p->m->kern, tft_pass_row(p, TFT_G, t) + r.from,
                 gate ? tft_pass_row(p, TFT_U, t) + r.from : NULL, r.to - r.from, down->in);
    tft_pass_quantize(p, TFT_G, down->in);
}

/* A slice of the hidden rows, for a tile of tokens at a time: what the two products leave is still
   in the cache when it becomes bytes, and no other copy of it is made. Slices are whole blocks of
   the transform; the fewer the tokens the longer they are, because a few tokens wait for weights to
   come from memory, and those come quickest in long runs. */
static void hidden_bytes(struct tft_pass *p, const struct tft_linear *gate,
                         const struct tft_linear *up, const struct tft_linear *down)
{
    const struct tft_hidden_scratch *w = &p->s->hidden[p->tid];
    uint32_t block = down->in->hadamard, unit = block > 64 ? block : 64;
    size_t from, to, width = up->w.rows;
    tft_pass_touch(p, own_row(p, TFT_H, up->in) ? 0 : BIT(TFT_H), BIT(TFT_G));
    tft_pass_share(p, (width + unit - 1) / unit, &from, &to);
    to = to * unit < width ? to * unit : width;
    if (p->first == p->n)
        return;

    uint32_t tokens = p->n - p->first < TFT_HIDDEN_TOKENS ? p->n - p->first : TFT_HIDDEN_TOKENS;
    size_t slice = TFT_HIDDEN_TOKENS / tokens * TFT_HIDDEN_ROWS;
    for (size_t i = from * unit; i < to; i += slice)
        for (uint32_t t = p->first; t < p->n; t += tokens) {
            size_t rows = to - i < slice ? to - i : slice;
            uint32_t n = p->n - t < tokens ? p->n - t : tokens;
            product(p, w->gate, slice, gate ? gate : up, TFT_H, false, i, i + rows, t, n);
            if (gate)
                product(p, w->up, slice, up, TFT_H, false, i, i + rows, t, n);
            for (uint32_t j = 0; j < n; j++)
                activate_u8(&p->m->kern, tft_pass_bytes(p, TFT_G, t + j) + i, w->gate + j * slice,
                            gate ? w->up + j * slice : NULL, rows, down->in);
        }
}

static void hidden(struct tft_pass *p, const struct tft_linear *gate, const struct tft_linear *up,
                   const struct tft_linear *down)
{
    if (p->on)
        p->on->hidden(p, gate, up, down);
    else if (down->in->range == TFT_RANGE_STATIC)
        hidden_bytes(p, gate, up, down);
    else
        hidden_floats(p, gate, up, down);
}

void tft_swiglu(struct tft_pass *p, const struct tft_linear *gate, const struct tft_linear *up,
                const struct tft_linear *down)
{
    hidden(p, gate, up, down);
}

void tft_gelu(struct tft_pass *p, const struct tft_linear *up, const struct tft_linear *down)
{
    hidden(p, NULL, up, down);
}

/* ------------------------------------------------------------------------------------ the whole */

void tft_pass_positions(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    size_t begin, end;
    if (!m->n_rot)
        return;
    tft_pass_touch(p, 0, BIT(TFT_ROPE));
    tft_pass_share(p, p->n, &begin, &end);
    for (size_t t = begin; t < end; t++)
        tft_rope_angles(p->s->rope_cos + t * m->n_rot, p->s->rope_sin + t * m->n_rot, m->rope_freq,
                        m->n_rot, m->rope_halves, tft_pass_position(p, (uint32_t)t));
}

void tft_head(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    tft_norm(p, &m->out_norm, &m->output);
    linear(p, TFT_LOGITS, &m->output, TFT_H, false);
}

void tft_forward(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    if (m->n_host) {
        tft_pass_positions(p);
        tft_embed(p);
    }
    for (uint32_t l = 0; l < m->n_host; l++)
        m->arch->layer(p, l);
    if (!m->device)
        tft_head(p);
}
