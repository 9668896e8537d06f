/*
 * RWKV-7 (models/rwkv7.c): mixes with the token before, the products of two matrices, then each
 * head through all tokens, one after the other.
 *
 * A row of M has D numbers of each place below: values of layer 0, then what the products of two
 * matrices read and, in the same place, write. Their inner vectors follow.
 */
#include "conv.h"

#include <math.h>
#include <string.h>

#include "simd/expf.h"

enum place { FIRST, DECAY, RATE, VALUE, GATE, PLACES };

static float *place(const struct tft_pass *p, enum place at, uint32_t t)
{
    return tft_pass_row(p, TFT_M, t) + (size_t)at * p->m->n_embd;
}

/* --------------------------------------------------------------------------------- token shift */

/* The numbers of the state from `at` on are Y of the token before. */
static void shift(struct tft_pass *p, const struct tft_layer *b, size_t at)
{
    float *state = tft_cpu_state(p, b) + at;
    size_t begin, end;
    tft_pass_touch(p, BIT(TFT_Y), BIT(TFT_Z) | BIT(TFT_STATES));
    tft_pass_share(p, p->m->n_embd, &begin, &end);
    for (uint32_t t = 0; t < p->n; t++) {
        const float *y = tft_pass_row(p, TFT_Y, t),
                    *before = t ? tft_pass_row(p, TFT_Y, t - 1) : state;
        float *z = tft_pass_row(p, TFT_Z, t);
        for (size_t i = begin; i < end; i++)
            z[i] = before[i] - y[i];
    }
    memcpy(state + begin, tft_pass_row(p, TFT_Y, p->n - 1) + begin, (end - begin) * sizeof *state);
}

static void shift_time(struct tft_pass *p, const struct tft_layer *b) { shift(p, b, 0); }

static void shift_channel(struct tft_pass *p, const struct tft_layer *b)
{
    shift(p, b, p->m->n_embd);
}

void tft_cpu_shift(struct tft_pass *p, const struct tft_layer *b, bool channel)
{
    size_t d = p->m->n_embd;
    tft_pass_by_state_part(p, channel ? shift_channel : shift_time, b, channel ? d : 0, d);
}

/* Numbers [from, to) of h = Y + w Z of token t. */
static void mix(const struct tft_pass *p, const float *w, uint32_t t, float *h, size_t from,
                size_t to)
{
    const float *y = tft_pass_row(p, TFT_Y, t), *z = tft_pass_row(p, TFT_Z, t);
    for (size_t i = from; i < to; i++)
        h[i] = y[i] + z[i] * w[i];
}

void tft_cpu_lerp(struct tft_pass *p, const float *w, const struct tft_linear *l)
{
    uint32_t begin, end, own = (uint32_t)p->tid, d = p->m->n_embd;
    if (tft_cpu_own_row(p, TFT_XN, l->in)) {
        tft_pass_touch(p, BIT(TFT_Y) | BIT(TFT_Z), 0);
        float *h = tft_pass_row(p, TFT_XN, own);
        mix(p, w, p->first, h, 0, d);
        p->m->kern.quantize_groups(tft_pass_bytes(p, TFT_XN, own), d, 0, h, d);
        return;
    }
    tft_pass_touch(p, BIT(TFT_Y) | BIT(TFT_Z), BIT(TFT_XN));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++)
        mix(p, w, t, tft_pass_row(p, TFT_XN, t), 0, d);
    tft_cpu_quantize(p, TFT_XN, l->in);
}

/* ------------------------------------------------------------------- products of two matrices */

static const struct {
    enum place place;
    enum tft_rwkv_input input;
} products[] = {{DECAY, TFT_RWKV_W}, {RATE, TFT_RWKV_A}, {VALUE, TFT_RWKV_V}, {GATE, TFT_RWKV_G}};
enum { PRODUCTS = sizeof products / sizeof *products };

static const struct tft_low_rank *matrices(const struct tft_layer *b, enum place at)
{
    const struct tft_rwkv *x = &b->rwkv;
    return at == DECAY ? &x->decay : at == RATE ? &x->rate : at == VALUE ? &x->value : &x->gate;
}

static void mix_all(struct tft_pass *p, const struct tft_layer *b)
{
    size_t d = p->m->n_embd;
    tft_pass_touch(p, BIT(TFT_Y) | BIT(TFT_Z), BIT(TFT_M));
    struct tft_part part = tft_pass_part(p, d, TFT_LINE);
    for (uint32_t t = part.begin; t < part.end; t++)
        for (int i = 0; i < PRODUCTS; i++)
            mix(p, b->rwkv.lerp + products[i].input * d, t, place(p, products[i].place, t),
                part.from, part.to);
}

/* This thread's rows [*begin, *end) of M's numbers from `to` on = w times its numbers from `from`
   on. */
static void multiply(const struct tft_pass *p, const struct tft_mat *w, size_t to, size_t from,
                     size_t *begin, size_t *end)
{
    const struct tft_linear l = {.w = *w};
    float *row = tft_pass_row(p, TFT_M, p->first);
    size_t ld = tft_pass_stride(p, TFT_M);
    tft_cpu_share_rows(p, &l, begin, end);
    struct tft_product product = {
        .y = row + to + *begin, .ldy = ld, .x = row + from, .ldx = ld, .n = p->n - p->first};
    if (*begin < *end)
        w->format->product(&p->m->kern, w, &product, *begin, *end);
}

/* The function of inner numbers, in place. */
static void bend(enum place at, float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (at == DECAY) /* tanh */
            x[i] = (float)(1 - 2 / (1 + tft_exp(2 * (double)x[i])));
        else if (at == GATE)
            x[i] = (float)(1 / (1 + tft_exp(-(double)x[i])));
    }
}

static void make_inner(struct tft_pass *p, const struct tft_layer *b)
{
    size_t d = p->m->n_embd, to = PLACES * d, begin, end;
    tft_pass_touch(p, 0, BIT(TFT_M));
    for (int i = 0; i < PRODUCTS; i++) {
        const struct tft_mat *w = &matrices(b, products[i].place)->in;
        if (!w->rows)
            continue;
        multiply(p, w, to, products[i].place * d, &begin, &end);
        for (uint32_t t = p->first; t < p->n; t++)
            bend(products[i].place, tft_pass_row(p, TFT_M, t) + to + begin, end - begin);
        to += w->rows;
    }
}

static void make_outer(struct tft_pass *p, const struct tft_layer *b)
{
    size_t d = p->m->n_embd, from = PLACES * d, begin, end;
    tft_pass_touch(p, 0, BIT(TFT_M));
    for (int i = 0; i < PRODUCTS; i++) {
        const struct tft_mat *w = &matrices(b, products[i].place)->out;
        if (!w->rows)
            continue;
        multiply(p, w, products[i].place * d, from, &begin, &end);
        from += w->cols;
    }
}

/* ----------------------------------------------------------------------------------- the heads */

/* Head j of one token: n numbers from number `at` on of each row. */
struct head {
    size_t at, n;
    float *r, *k, *v, *first, *decay, *rate, *value, *gate;
};

static struct head head_of(const struct tft_pass *p, uint32_t j, uint32_t t)
{
    size_t n = p->m->rwkv.dim, at = j * n;
    return (struct head){
        .at = at,
        .n = n,
        .r = tft_pass_row(p, TFT_Q, t) + at,
        .k = tft_pass_row(p, TFT_K, t) + at,
        .v = tft_pass_row(p, TFT_V, t) + at,
        .first = place(p, FIRST, t) + at,
        .decay = place(p, DECAY, t) + at,
        .rate = place(p, RATE, t) + at,
        .value = place(p, VALUE, t) + at,
        .gate = place(p, GATE, t) + at,
    };
}

/* x = sigmoid(x + bias) */
static void sigmoid(const struct tft_model *m, float *x, const float *bias, size_t n)
{
    m->kern.add(x, bias, n);
    m->kern.sigmoid_mul(x, m->rwkv.ones, x, n);
}

/* Layer 0 keeps its values, and later layers move theirs towards them. */
static void mix_values(const struct tft_model *m, const struct tft_layer *b, const struct head *h)
{
    const float *bias = b->rwkv.value.bias;
    if (!bias) {
        memcpy(h->first, h->v, h->n * sizeof *h->v);
        return;
    }
    sigmoid(m, h->value, bias + h->at, h->n);
    for (size_t i = 0; i < h->n; i++)
        h->v[i] += (h->first[i] - h->v[i]) * h->value[i];
}

/* value = c, rate = c a; k gets its factor */
static void make_keys(const struct tft_model *m, const struct tft_layer *b, const struct head *h)
{
    const float *k_k = b->rwkv.k_k + h->at, *k_a = b->rwkv.k_a + h->at;
    double sum = 0;
    for (size_t i = 0; i < h->n; i++) {
        h->value[i] = h->k[i] * k_k[i];
        sum += (double)h->value[i] * (double)h->value[i];
        h->k[i] *= 1 + (h->rate[i] - 1) * k_a[i];
    }
    double length = sqrt(sum);
    m->kern.scale(h->value, (float)(1 / (length > 1e-12 ? length : 1e-12)), h->n);
    m->kern.mul(h->rate, h->rate, h->value, h->n);
}

/* y = the head's output, of y = S r. */
static void finish(const struct tft_model *m, const struct tft_layer *b, const struct head *h,
                   float *y)
{
    const float eps = 64e-5f, *r_k = b->rwkv.r_k + h->at;
    double sum = 0;
    for (size_t i = 0; i < h->n; i++)
        sum += (double)(h->r[i] * h->k[i]) * (double)r_k[i];
    m->kern.layernorm(y, y, b->rwkv.norm.w + h->at, b->rwkv.norm.b + h->at, h->n, eps);
    for (size_t i = 0; i < h->n; i++)
        y[i] = (y[i] + h->v[i] * (float)sum) * h->gate[i];
}

static void run_head(const struct tft_pass *p, const struct tft_layer *b, uint32_t j, uint32_t t)
{
    const struct tft_model *m = p->m;
    struct head h = head_of(p, j, t);
    float *y = tft_pass_row(p, TFT_A, t) + h.at,
          *s = tft_cpu_state(p, b) + 2 * (size_t)m->n_embd + h.at * h.n;
    const float slope = -0.60653066f; /* -1 / sqrt(e) */
    sigmoid(m, h.decay, b->rwkv.decay.bias + h.at, h.n);
    for (size_t i = 0; i < h.n; i++)
        h.decay[i] = tft_expf(slope * h.decay[i]);
    sigmoid(m, h.rate, b->rwkv.rate.bias + h.at, h.n);
    mix_values(m, b, &h);
    make_keys(m, b, &h);
    m->kern.wkv(&(struct tft_wkv){.s = s,
                                  .r = h.r,
                                  .w = h.decay,
                                  .k = h.k,
                                  .v = h.v,
                                  .c = h.value,
                                  .a = h.rate,
                                  .o = y,
                                  .E = h.n});
    finish(m, b, &h, y);
}

static void run_heads(struct tft_pass *p, const struct tft_layer *b)
{
    size_t begin, end;
    tft_pass_touch(
        p, 0, BIT(TFT_Q) | BIT(TFT_K) | BIT(TFT_V) | BIT(TFT_M) | BIT(TFT_A) | BIT(TFT_STATES));
    tft_pass_share(p, p->m->rwkv.heads, &begin, &end);
    for (size_t j = begin; j < end; j++)
        for (uint32_t t = 0; t < p->n; t++)
            run_head(p, b, (uint32_t)j, t);
}

void tft_cpu_time_mix(struct tft_pass *p, const struct tft_layer *b)
{
    const float *lerp = b->rwkv.lerp;
    size_t d = p->m->n_embd;
    tft_cpu_lerp(p, lerp + TFT_RWKV_R * d, &b->mix.r);
    tft_cpu_linear(p, TFT_Q, &b->mix.r, TFT_XN, false);
    tft_cpu_lerp(p, lerp + TFT_RWKV_K * d, &b->mix.k);
    tft_cpu_linear(p, TFT_K, &b->mix.k, TFT_XN, false);
    tft_cpu_lerp(p, lerp + TFT_RWKV_V * d, &b->mix.v);
    tft_cpu_linear(p, TFT_V, &b->mix.v, TFT_XN, false);
    mix_all(p, b);
    make_inner(p, b);
    make_outer(p, b);
    tft_pass_by_state_part(p, run_heads, b, 2 * d, d * p->m->rwkv.dim);
    tft_cpu_quantize(p, TFT_A, b->o.in);
}
