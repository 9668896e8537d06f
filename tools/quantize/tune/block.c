#include "tools/quantize/tune/block.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "tools/quantize/tune/attention.h"
#include "port/port.h"
#include "tools/quantize/tune/matmul.h"
#include "model/rope.h"
#include "tools/quantize/tune/row_ops.h"
#include "tools/quantize/round/affine.h"

/* Rows of logits at a time. */
enum { LOGITS = 128 };

struct tape {
    const struct tft_model *m;
    size_t n, n_prefix;
    real error_weight;
    int n_threads;
    size_t q_width, kv_width;
    struct matmul *matmul;
    struct attention *attention;
    void *memory; /* of all below */

    float *cos, *sin; /* [n, n_rot] */
    struct tft_affine *affine; /* [n] of the input in hand */
    double *lost; /* [n] */
    /* of the block in hand; q and k before and after their norm and the rotation */
    real *h, *x2, *h2;      /* [n, D] */
    real *q0, *q, *a;       /* [n, H E] */
    real *k0, *k, *v;       /* [n, G E] */
    real *g, *u, *c;        /* [n, F] */
    /* gradients */
    real *dh;               /* [n, D] */
    real *da, *dq, *dq0;    /* [n, H E] */
    real *dk, *dk0, *dv;    /* [n, G E] */
    real *dc, *dg, *du;     /* [n, F] */
    real *logits;           /* [LOGITS, V] */
};

/* ----------------------------------------------------------------------------------- row by row */

typedef void row_fn(const struct tape *t, const void *arg, size_t row);

struct each {
    const struct tape *t;
    const void *arg;
    row_fn *f;
    size_t n;
};

static void share(void *arg, int tid, int n_threads)
{
    const struct each *e = arg;
    size_t begin = e->n * (size_t)tid / (size_t)n_threads,
           end = e->n * (size_t)(tid + 1) / (size_t)n_threads;
    for (size_t i = begin; i < end; i++)
        e->f(e->t, e->arg, i);
}

static void each_row(const struct tape *t, size_t n, row_fn *f, const void *arg)
{
    tft_port_team(t->n_threads, share, &(struct each){t, arg, f, n});
}

/* A matrix of rows that a step reads or writes. */
struct rows {
    real *y;
    const real *x, *dy;
    size_t width;
    const struct tft_norm *norm;
};

static void norm_row(const struct tape *t, const void *arg, size_t i)
{
    const struct rows *r = arg;
    row_norm(r->y + i * r->width, r->x + i * r->width, r->norm, r->width, t->m->norm_eps);
}

static void norm_back_row(const struct tape *t, const void *arg, size_t i)
{
    const struct rows *r = arg;
    row_norm_back(r->y + i * r->width, r->dy + i * r->width, r->x + i * r->width, r->norm,
                   r->width, t->m->norm_eps);
}

static void norm(const struct tape *t, real *y, const real *x, const struct tft_norm *w)
{
    each_row(t, t->n, norm_row, &(struct rows){.y = y, .x = x, .width = t->m->n_embd, .norm = w});
}

static void norm_back(const struct tape *t, real *dx, const real *dy, const real *x,
                      const struct tft_norm *w)
{
    each_row(t, t->n, norm_back_row, &(struct rows){dx, x, dy, t->m->n_embd, w});
}

/* ----------------------------------------------------------------------------- queries and keys */

/* y = x with its heads normalised, where the model does that, and turned. */
static void place_row(const struct tape *t, const void *arg, size_t i)
{
    const struct rows *r = arg;
    size_t dim = t->m->head_dim;
    real *y = r->y + i * r->width;
    memcpy(y, r->x + i * r->width, r->width * sizeof *y);
    for (size_t at = 0; r->norm->w && at < r->width; at += dim)
        row_norm(y + at, y + at, r->norm, dim, t->m->norm_eps);
    row_rope(t->m, y, r->width, t->cos + i * t->m->n_rot, t->sin + i * t->m->n_rot, false);
}

/* dy, which is spoiled, to r->y. */
static void place_back_row(const struct tape *t, const void *arg, size_t i)
{
    const struct rows *r = arg;
    size_t dim = t->m->head_dim, bytes = r->width * sizeof(real);
    real *dx = r->y + i * r->width, *dy = (real *)(uintptr_t)r->dy + i * r->width;
    row_rope(t->m, dy, r->width, t->cos + i * t->m->n_rot, t->sin + i * t->m->n_rot, true);
    if (!r->norm->w) {
        memcpy(dx, dy, bytes);
        return;
    }
    memset(dx, 0, bytes);
    for (size_t at = 0; at < r->width; at += dim)
        row_norm_back(dx + at, dy + at, r->x + i * r->width + at, r->norm, dim, t->m->norm_eps);
}

/* --------------------------------------------------------------------------- hidden activations */

static void activate_row(const struct tape *t, const void *arg, size_t i)
{
    const struct tft_block *b = arg;
    size_t n = t->m->n_ff, at = i * n;
    row_activate(t->c + at, t->g + at, b->gate.w.rows ? t->u + at : NULL, n);
    if (b->down.in->hadamard)
        row_hadamard(t->c + at, n, b->down.in->hadamard);
}

static void activate_back_row(const struct tape *t, const void *arg, size_t i)
{
    const struct tft_block *b = arg;
    size_t n = t->m->n_ff, at = i * n;
    bool gated = b->gate.w.rows;
    if (b->down.in->hadamard)
        row_hadamard(t->dc + at, n, b->down.in->hadamard);
    row_activate_back(t->dg + at, gated ? t->du + at : NULL, t->dc + at, t->g + at,
                       gated ? t->u + at : NULL, n);
}

/* ----------------------------------------------------------------------------------- quantizers */

static void row_range(const real *x, size_t n, double *low, double *high)
{
    for (size_t i = 0; i < n; i++) {
        *low = (double)x[i] < *low ? (double)x[i] : *low;
        *high = (double)x[i] > *high ? (double)x[i] : *high;
    }
}

/* How x: [n, width] is held: t->affine of each row, or with the step of 0 that is returned then, of
   all. */
static size_t hold(const struct tape *t, const real *x, size_t n, size_t width,
                   const struct tft_input *in)
{
    double low = 0, high = 0;
    if (in->range == TFT_RANGE_STATIC) {
        t->affine[0] = in->affine;
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (in->range == TFT_RANGE_TOKEN)
            low = high = 0;
        row_range(x + i * width, width, &low, &high);
        t->affine[i] = affine_cover(low, high);
    }
    if (in->range == TFT_RANGE_TENSOR)
        t->affine[0] = affine_cover(low, high);
    return in->range == TFT_RANGE_TOKEN;
}

struct quantize_rows {
    real *dx;
    const real *x;
    size_t width, step;
    real weight;
};

static void lost_row(const struct tape *t, const void *arg, size_t i)
{
    const struct quantize_rows *r = arg;
    t->lost[i] += row_error(r->x + i * r->width, r->width, &t->affine[i * r->step]);
}

static void quantize_back_row(const struct tape *t, const void *arg, size_t i)
{
    const struct quantize_rows *r = arg;
    row_quantize_back(r->dx + i * r->width, r->x + i * r->width, r->width, &t->affine[i * r->step],
                       r->weight);
}

/* x: [n, width], for the linear layers that share it. */
static void take(struct tape *t, const real *x, size_t width, const struct tft_linear *l)
{
    size_t step = hold(t, x, t->n, width, l->in);
    each_row(t, t->n, lost_row, &(struct quantize_rows){.x = x, .width = width, .step = step});
    matmul_take(t->matmul, x, t->n, width, t->affine, step);
}

static void take_back(const struct tape *t, real *dx, const real *x, size_t width,
                      const struct tft_linear *l)
{
    size_t step = hold(t, x, t->n, width, l->in);
    each_row(t, t->n, quantize_back_row,
             &(struct quantize_rows){dx, x, width, step, t->error_weight});
}

/* -------------------------------------------------------------------------------------- a block */

static struct attention_rows attention_in(const struct tape *t, struct prefix_rows prefix)
{
    return (struct attention_rows){t->q, t->k, t->v, prefix.k, prefix.v};
}

/* All of the block but the last product, whose input is t->c then. */
static void inside(struct tape *t, const struct tft_block *b, struct prefix_rows prefix,
                   const real *x)
{
    const struct tft_model *m = t->m;
    const struct attention_rows in = attention_in(t, prefix);
    size_t d = m->n_embd;

    norm(t, t->h, x, &b->attn_norm);
    take(t, t->h, d, &b->q);
    matmul_run(t->matmul, t->q0, &b->q, false);
    matmul_run(t->matmul, t->k0, &b->k, false);
    matmul_run(t->matmul, t->v, &b->v, false);
    each_row(t, t->n, place_row,
             &(struct rows){.y = t->q, .x = t->q0, .width = t->q_width, .norm = &b->q_norm});
    each_row(t, t->n, place_row,
             &(struct rows){.y = t->k, .x = t->k0, .width = t->kv_width, .norm = &b->k_norm});
    attention_run(t->attention, t->a, &in, t->n);
    take(t, t->a, t->q_width, &b->o);
    memcpy(t->x2, x, t->n * d * sizeof *x);
    matmul_run(t->matmul, t->x2, &b->o, true);

    norm(t, t->h2, t->x2, &b->ffn_norm);
    take(t, t->h2, d, &b->up);
    matmul_run(t->matmul, t->g, b->gate.w.rows ? &b->gate : &b->up, false);
    if (b->gate.w.rows)
        matmul_run(t->matmul, t->u, &b->up, false);
    each_row(t, t->n, activate_row, b);
}

double block_run(struct tape *t, uint32_t l, struct prefix_rows prefix, real *y, const real *x)
{
    const struct tft_block *b = &t->m->block[l];
    double lost = 0;
    memset(t->lost, 0, t->n * sizeof *t->lost);
    inside(t, b, prefix, x);
    take(t, t->c, t->m->n_ff, &b->down);
    memcpy(y, t->x2, t->n * t->m->n_embd * sizeof *y);
    matmul_run(t->matmul, y, &b->down, true);
    for (size_t i = 0; i < t->n; i++)
        lost += t->lost[i];
    return lost;
}

/* From dx after the block to dx between its halves. */
static void ffn_back(struct tape *t, const struct tft_block *b, real *dx)
{
    const struct tft_model *m = t->m;
    matmul_back(t->matmul, t->dc, dx, t->n, &b->down, false);
    take_back(t, t->dc, t->c, m->n_ff, &b->down);
    each_row(t, t->n, activate_back_row, b);
    matmul_back(t->matmul, t->dh, t->dg, t->n, b->gate.w.rows ? &b->gate : &b->up, false);
    if (b->gate.w.rows)
        matmul_back(t->matmul, t->dh, t->du, t->n, &b->up, true);
    take_back(t, t->dh, t->h2, m->n_embd, &b->up);
    norm_back(t, dx, t->dh, t->x2, &b->ffn_norm);
}

static void attention_half_back(struct tape *t, const struct tft_block *b,
                                struct prefix_rows prefix, struct prefix_rows dprefix, real *dx,
                                const real *x)
{
    const struct attention_rows in = attention_in(t, prefix);
    const struct attention_gradients out = {t->dq, t->dk, t->dv, dprefix.k, dprefix.v};
    matmul_back(t->matmul, t->da, dx, t->n, &b->o, false);
    take_back(t, t->da, t->a, t->q_width, &b->o);
    attention_back(t->attention, &out, t->da, &in, t->n);
    each_row(t, t->n, place_back_row, &(struct rows){t->dq0, t->q0, t->dq, t->q_width, &b->q_norm});
    each_row(t, t->n, place_back_row,
             &(struct rows){t->dk0, t->k0, t->dk, t->kv_width, &b->k_norm});
    matmul_back(t->matmul, t->dh, t->dq0, t->n, &b->q, false);
    matmul_back(t->matmul, t->dh, t->dk0, t->n, &b->k, true);
    matmul_back(t->matmul, t->dh, t->dv, t->n, &b->v, true);
    take_back(t, t->dh, t->h, t->m->n_embd, &b->q);
    norm_back(t, dx, t->dh, x, &b->attn_norm);
}

void block_back(struct tape *t, uint32_t l, struct prefix_rows prefix, struct prefix_rows dprefix,
                real *dx, const real *x)
{
    const struct tft_block *b = &t->m->block[l];
    inside(t, b, prefix, x);
    ffn_back(t, b, dx);
    attention_half_back(t, b, prefix, dprefix, dx, x);
}

/* ----------------------------------------------------------------------------------------- head */

/* Some rows of logits, with the tokens that should have come. */
struct guess {
    const int32_t *wanted;
    size_t total;
};

/* Row i of the logits becomes the gradient of the loss in them, and t->lost[i] the row's part of
   the loss times n. */
static void guess_row(const struct tape *t, const void *arg, size_t i)
{
    const struct guess *g = arg;
    size_t n = t->m->n_vocab, want = (size_t)g->wanted[i];
    real *x = t->logits + i * n, max = x[0], at = x[want];
    double sum = 0;
    for (size_t j = 1; j < n; j++)
        max = x[j] > max ? x[j] : max;
    for (size_t j = 0; j < n; j++)
        sum += (double)(x[j] = real_exp(x[j] - max));
    for (size_t j = 0; j < n; j++)
        x[j] /= (real)(sum * (double)g->total);
    x[want] -= 1 / (real)g->total;
    t->lost[i] = (double)(max - at) + log(sum);
}

double head_run(struct tape *t, const int32_t *token, const real *x, real *dx)
{
    const struct tft_model *m = t->m;
    size_t d = m->n_embd, total = t->n - 1;
    double loss = 0;
    norm(t, t->h, x, &m->out_norm);
    if (dx)
        memset(t->dh, 0, t->n * d * sizeof *dx);
    for (size_t i = 0, n; i < total; i += n) {
        n = total - i < LOGITS ? total - i : LOGITS;
        size_t step = hold(t, t->h + i * d, n, d, m->output.in);
        matmul_take(t->matmul, t->h + i * d, n, d, t->affine, step);
        matmul_run(t->matmul, t->logits, &m->output, false);
        each_row(t, n, guess_row, &(struct guess){token + i + 1, total});
        for (size_t j = 0; j < n; j++)
            loss += t->lost[j];
        if (!dx)
            continue;
        matmul_back(t->matmul, t->dh + i * d, t->logits, n, &m->output, false);
        for (size_t j = 0; j < n; j++)
            row_quantize_back(t->dh + (i + j) * d, t->h + (i + j) * d, d, &t->affine[j * step], 0);
    }
    if (dx) {
        memset(dx, 0, t->n * d * sizeof *dx);
        norm_back(t, dx, t->dh, x, &m->out_norm);
    }
    return loss / (double)total;
}

/* -------------------------------------------------------------------------------------- opening */

static void layout(struct tape *t, struct tft_arena *a)
{
    const struct tft_model *m = t->m;
    size_t d = m->n_embd, q = t->q_width, kv = t->kv_width, f = m->n_ff, n = t->n;
    struct {
        real **at;
        size_t width;
    } const all[] = {{&t->h, d},   {&t->x2, d}, {&t->h2, d}, {&t->dh, d},  {&t->q0, q},
                     {&t->q, q},   {&t->a, q},  {&t->da, q}, {&t->dq, q},  {&t->dq0, q},
                     {&t->k0, kv}, {&t->k, kv}, {&t->v, kv}, {&t->dk, kv}, {&t->dk0, kv},
                     {&t->dv, kv}, {&t->g, f},  {&t->u, f},  {&t->c, f},   {&t->dc, f},
                     {&t->dg, f},  {&t->du, f}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i].at = tft_arena_take(a, n, all[i].width * sizeof(real));
    t->logits = tft_arena_take(a, LOGITS, m->n_vocab * sizeof *t->logits);
    t->cos = tft_arena_take(a, n, m->n_rot * sizeof *t->cos);
    t->sin = tft_arena_take(a, n, m->n_rot * sizeof *t->sin);
    t->affine = tft_arena_take(a, n, sizeof *t->affine);
    t->lost = tft_arena_take(a, n > LOGITS ? n : LOGITS, sizeof *t->lost);
}

struct tape *tape_open(const struct tft_model *m, size_t n_prefix, size_t n, real error_weight,
                       int n_threads)
{
    struct tape *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    *t = (struct tape){
        .m = m, .n = n, .n_prefix = n_prefix, .error_weight = error_weight, .n_threads = n_threads};
    t->q_width = (size_t)m->n_head * m->head_dim;
    t->kv_width = (size_t)m->n_head_kv * m->head_dim;
    t->matmul = matmul_open(m, n, n_threads);
    t->attention = attention_open(m, n_prefix, n, n_threads);
    struct tft_arena a = {0};
    layout(t, &a);
    t->memory = a.failed ? NULL : tft_port_alloc(a.used, TFT_ALIGN);
    if (!t->matmul || !t->attention || !t->memory) {
        tape_close(t);
        return NULL;
    }
    a = (struct tft_arena){.base = t->memory};
    layout(t, &a);
    for (size_t i = 0; i < n; i++)
        tft_rope_angles(t->cos + i * m->n_rot, t->sin + i * m->n_rot, m->rope_freq, m->n_rot,
                        m->rope_halves, (uint32_t)(n_prefix + i));
    return t;
}

void tape_close(struct tape *t)
{
    if (!t)
        return;
    matmul_close(t->matmul);
    attention_close(t->attention);
    tft_port_free(t->memory);
    free(t);
}
