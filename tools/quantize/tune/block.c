#include "tools/quantize/tune/block.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/exp_log.h"
#include "tools/quantize/tune/attention.h"
#include "port/port.h"
#include "tools/quantize/tune/matmul.h"
#include "model/rope.h"
#include "tools/quantize/tune/row_ops.h"
#include "tools/quantize/round/affine.h"

/* Rows of logits that are computed at a time. */
enum { LOGITS = 128 };

struct tape {
    const struct tft_model *m;
    size_t n, n_prefix;
    real error_weight;
    int n_threads;
    size_t q_width, kv_width;
    struct matmul *matmul;
    struct attention *attention;
    struct coded_rows *coded_rows;
    void *memory; /* of all buffers below */

    float *cos, *sin; /* [n, n_rot] */
    struct tft_affine *affine; /* [n] of the input that is quantized */
    double *error; /* [n] squared errors of quantization, or losses of the head's rows */
    /* activations of the block; q0, k0: before, q, k: after their norm and RoPE */
    real *h, *x2, *h2;      /* [n, D] */
    real *q0, *q, *a;       /* [n, H E] */
    real *k0, *k, *v;       /* [n, G E] */
    real *g, *u, *c;        /* [n, F] */
    const struct coded_view *coded; /* what the default cache makes of k and v */
    /* gradients */
    real *dh;               /* [n, D] */
    real *da, *dq, *dq0;    /* [n, H E] */
    real *dk, *dk0, *dv;    /* [n, G E] */
    real *dc, *dg, *du;     /* [n, F] */
    real *logits;           /* [LOGITS, V] */
};

/* ----------------------------------------------------------------------------------- row by row */

typedef void row_fn(const struct tape *t, const void *arg, size_t row);

struct row_task {
    const struct tape *t;
    const void *arg;
    row_fn *f;
    size_t n;
};

static void share(void *arg, int tid, int n_threads)
{
    const struct row_task *task = arg;
    size_t begin = task->n * (size_t)tid / (size_t)n_threads,
           end = task->n * (size_t)(tid + 1) / (size_t)n_threads;
    for (size_t i = begin; i < end; i++)
        task->f(task->t, task->arg, i);
}

static void each_row(const struct tape *t, size_t n, row_fn *f, const void *arg)
{
    tft_port_team(t->n_threads, share, &(struct row_task){t, arg, f, n});
}

/* The matrices of a step: its output or input gradient y, input x, output gradient dy. */
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

/* y = RoPE of x, whose heads are normalized first if the model does so. */
static void normalize_and_rotate_row(const struct tape *t, const void *arg, size_t i)
{
    const struct rows *r = arg;
    size_t dim = t->m->head_dim;
    real *y = r->y + i * r->width;
    memcpy(y, r->x + i * r->width, r->width * sizeof *y);
    for (size_t at = 0; r->norm->w && at < r->width; at += dim)
        row_norm(y + at, y + at, r->norm, dim, t->m->norm_eps);
    row_rope(t->m, y, r->width, t->cos + i * t->m->n_rot, t->sin + i * t->m->n_rot, false);
}

/* dx = r->y from dy, which is overwritten. */
static void normalize_and_rotate_back_row(const struct tape *t, const void *arg, size_t i)
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

/* Sets t->affine to how x: [n, width] is quantized. Returns the step: 1 for one element per row, 0
   for one that all rows share. */
static size_t choose_affine(const struct tape *t, const real *x, size_t n, size_t width,
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

static void error_row(const struct tape *t, const void *arg, size_t i)
{
    const struct quantize_rows *r = arg;
    t->error[i] += row_error(r->x + i * r->width, r->width, &t->affine[i * r->step]);
}

static void quantize_back_row(const struct tape *t, const void *arg, size_t i)
{
    const struct quantize_rows *r = arg;
    row_quantize_back(r->dx + i * r->width, r->x + i * r->width, r->width, &t->affine[i * r->step],
                       r->weight);
}

/* Quantizes x: [n, width] for the linear layers that read it, and adds its error. */
static void quantize_input(struct tape *t, const real *x, size_t width, const struct tft_linear *l)
{
    size_t step = choose_affine(t, x, t->n, width, l->in);
    each_row(t, t->n, error_row, &(struct quantize_rows){.x = x, .width = width, .step = step});
    matmul_take(t->matmul, x, t->n, width, t->affine, step);
}

static void quantize_back(const struct tape *t, real *dx, const real *x, size_t width,
                          const struct tft_linear *l)
{
    size_t step = choose_affine(t, x, t->n, width, l->in);
    each_row(t, t->n, quantize_back_row,
             &(struct quantize_rows){dx, x, width, step, t->error_weight});
}

/* -------------------------------------------------------------------------------------- a block */

static struct attention_rows attention_in(const struct tape *t, struct prefix_rows prefix)
{
    return (struct attention_rows){t->q, t->k, t->v, prefix.k, prefix.v, t->coded};
}

/* Computes the block up to ffn_down, whose input t->c is then. */
static void run_to_down(struct tape *t, uint32_t l, struct prefix_rows prefix, const real *x)
{
    const struct tft_model *m = t->m;
    const struct tft_block *b = &m->block[l];
    size_t d = m->n_embd;

    norm(t, t->h, x, &b->attn_norm);
    quantize_input(t, t->h, d, &b->q);
    matmul_run(t->matmul, t->q0, &b->q, false);
    matmul_run(t->matmul, t->k0, &b->k, false);
    matmul_run(t->matmul, t->v, &b->v, false);
    each_row(t, t->n, normalize_and_rotate_row,
             &(struct rows){.y = t->q, .x = t->q0, .width = t->q_width, .norm = &b->q_norm});
    each_row(t, t->n, normalize_and_rotate_row,
             &(struct rows){.y = t->k, .x = t->k0, .width = t->kv_width, .norm = &b->k_norm});
    t->coded = coded_rows_run(t->coded_rows, l, t->k, t->v);
    const struct attention_rows in = attention_in(t, prefix);
    attention_run(t->attention, t->a, &in, t->n);
    quantize_input(t, t->a, t->q_width, &b->o);
    memcpy(t->x2, x, t->n * d * sizeof *x);
    matmul_run(t->matmul, t->x2, &b->o, true);

    norm(t, t->h2, t->x2, &b->ffn_norm);
    quantize_input(t, t->h2, d, &b->up);
    matmul_run(t->matmul, t->g, b->gate.w.rows ? &b->gate : &b->up, false);
    if (b->gate.w.rows)
        matmul_run(t->matmul, t->u, &b->up, false);
    each_row(t, t->n, activate_row, b);
}

double block_run(struct tape *t, uint32_t l, struct prefix_rows prefix, real *y, const real *x)
{
    const struct tft_block *b = &t->m->block[l];
    double lost = 0;
    memset(t->error, 0, t->n * sizeof *t->error);
    run_to_down(t, l, prefix, x);
    quantize_input(t, t->c, t->m->n_ff, &b->down);
    memcpy(y, t->x2, t->n * t->m->n_embd * sizeof *y);
    matmul_run(t->matmul, y, &b->down, true);
    for (size_t i = 0; i < t->n; i++)
        lost += t->error[i];
    return lost;
}

/* dx: the gradient of the block's output on entry, of its attention half's output on return. */
static void ffn_back(struct tape *t, const struct tft_block *b, real *dx)
{
    const struct tft_model *m = t->m;
    matmul_back(t->matmul, t->dc, dx, t->n, &b->down, false);
    quantize_back(t, t->dc, t->c, m->n_ff, &b->down);
    each_row(t, t->n, activate_back_row, b);
    matmul_back(t->matmul, t->dh, t->dg, t->n, b->gate.w.rows ? &b->gate : &b->up, false);
    if (b->gate.w.rows)
        matmul_back(t->matmul, t->dh, t->du, t->n, &b->up, true);
    quantize_back(t, t->dh, t->h2, m->n_embd, &b->up);
    norm_back(t, dx, t->dh, t->x2, &b->ffn_norm);
}

static void attention_half_back(struct tape *t, const struct tft_block *b,
                                struct prefix_rows prefix, struct prefix_rows dprefix, real *dx,
                                const real *x)
{
    const struct attention_rows in = attention_in(t, prefix);
    const struct attention_gradients out = {t->dq, t->dk, t->dv, dprefix.k, dprefix.v};
    matmul_back(t->matmul, t->da, dx, t->n, &b->o, false);
    quantize_back(t, t->da, t->a, t->q_width, &b->o);
    attention_back(t->attention, &out, t->da, &in, t->n);
    each_row(t, t->n, normalize_and_rotate_back_row,
             &(struct rows){t->dq0, t->q0, t->dq, t->q_width, &b->q_norm});
    each_row(t, t->n, normalize_and_rotate_back_row,
             &(struct rows){t->dk0, t->k0, t->dk, t->kv_width, &b->k_norm});
    matmul_back(t->matmul, t->dh, t->dq0, t->n, &b->q, false);
    matmul_back(t->matmul, t->dh, t->dk0, t->n, &b->k, true);
    matmul_back(t->matmul, t->dh, t->dv, t->n, &b->v, true);
    quantize_back(t, t->dh, t->h, t->m->n_embd, &b->q);
    norm_back(t, dx, t->dh, x, &b->attn_norm);
}

void block_back(struct tape *t, uint32_t l, struct prefix_rows prefix, struct prefix_rows dprefix,
                real *dx, const real *x)
{
    const struct tft_block *b = &t->m->block[l];
    run_to_down(t, l, prefix, x);
    ffn_back(t, b, dx);
    attention_half_back(t, b, prefix, dprefix, dx, x);
}

/* ----------------------------------------------------------------------------------------- head */

/* Rows of logits. */
struct logit_rows {
    const int32_t *next; /* the token that follows each row's */
    size_t total;        /* rows of the loss's mean */
};

/* Row i of the logits becomes the gradient of the loss with respect to them, and t->error[i] the
   row's -log p. */
static void logit_row(const struct tape *t, const void *arg, size_t i)
{
    const struct logit_rows *g = arg;
    size_t n = t->m->n_vocab, want = (size_t)g->next[i];
    real *x = t->logits + i * n, max = x[0], at = x[want];
    double sum = 0;
    for (size_t j = 1; j < n; j++)
        max = x[j] > max ? x[j] : max;
    for (size_t j = 0; j < n; j++)
        sum += (double)(x[j] = real_exp(x[j] - max));
    for (size_t j = 0; j < n; j++)
        x[j] /= (real)(sum * (double)g->total);
    x[want] -= 1 / (real)g->total;
    t->error[i] = (double)(max - at) + tft_log(sum);
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
        size_t step = choose_affine(t, t->h + i * d, n, d, m->output.in);
        matmul_take(t->matmul, t->h + i * d, n, d, t->affine, step);
        matmul_run(t->matmul, t->logits, &m->output, false);
        each_row(t, n, logit_row, &(struct logit_rows){token + i + 1, total});
        for (size_t j = 0; j < n; j++)
            loss += t->error[j];
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
    t->logits = tft_arena_take(a, m->n_vocab, LOGITS * sizeof *t->logits);
    t->cos = tft_arena_take(a, n, m->n_rot * sizeof *t->cos);
    t->sin = tft_arena_take(a, n, m->n_rot * sizeof *t->sin);
    t->affine = tft_arena_take(a, n, sizeof *t->affine);
    t->error = tft_arena_take(a, n > LOGITS ? n : LOGITS, sizeof *t->error);
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
    t->coded_rows = coded_rows_open(m, n, n_threads);
    struct tft_arena a = {0};
    layout(t, &a);
    t->memory = a.failed ? NULL : tft_port_alloc(a.used, TFT_ALIGN);
    if (!t->matmul || !t->attention || !t->coded_rows || !t->memory) {
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
    coded_rows_close(t->coded_rows);
    tft_port_free(t->memory);
    free(t);
}
