#include "tools/quantize/tune/tape.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "port/port.h"
#include "tools/quantize/round/affine.h"

/* ----------------------------------------------------------------------------------- row by row */

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

void each_row(const struct tape *t, size_t n, row_fn *f, const void *arg)
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

void norm_rows(const struct tape *t, real *y, const real *x, const struct tft_norm *w)
{
    each_row(t, t->n, norm_row, &(struct rows){.y = y, .x = x, .width = t->m->n_embd, .norm = w});
}

void norm_rows_back(const struct tape *t, real *dx, const real *dy, const real *x,
                    const struct tft_norm *w)
{
    each_row(t, t->n, norm_back_row, &(struct rows){dx, x, dy, t->m->n_embd, w});
}

/* ----------------------------------------------------------------------------------- quantizers */

static void row_range(const real *x, size_t n, double *low, double *high)
{
    for (size_t i = 0; i < n; i++) {
        *low = (double)x[i] < *low ? (double)x[i] : *low;
        *high = (double)x[i] > *high ? (double)x[i] : *high;
    }
}

size_t choose_affine(const struct tape *t, const real *x, size_t n, size_t width,
                     const struct tft_input *in)
{
    double low, high;
    if (!has_affine(in))
        return 0;
    if (in->range == TFT_RANGE_STATIC) {
        t->affine[0] = in->affine;
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        low = high = 0;
        row_range(x + i * width, width, &low, &high);
        t->affine[i] = affine_cover(low, high);
    }
    return 1;
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

void quantize_input(struct tape *t, const real *x, size_t width, const struct tft_linear *l)
{
    size_t step = choose_affine(t, x, t->n, width, l->in);
    if (has_affine(l->in))
        each_row(t, t->n, error_row, &(struct quantize_rows){.x = x, .width = width, .step = step});
    matmul_take(t->matmul, x, t->n, l->in, t->affine, step);
}

void quantize_back(const struct tape *t, real *dx, const real *x, size_t width,
                   const struct tft_linear *l)
{
    size_t step = choose_affine(t, x, t->n, width, l->in);
    if (has_affine(l->in))
        each_row(t, t->n, quantize_back_row,
                 &(struct quantize_rows){dx, x, width, step, t->error_weight});
}

/* -------------------------------------------------------------------------------------- opening */

/* Whether the last layers use the keys and values of this layer of the cache. */
static bool is_shared(const struct tft_model *m, uint32_t kv_layer)
{
    bool found = false;
    for (uint32_t l = m->n_layer - m->n_shared; l < m->n_layer; l++)
        found |= m->layer[l].kv_layer == kv_layer;
    return found;
}

static void layout_shared(struct tape *t, struct tft_arena *a)
{
    const struct tft_model *m = t->m;
    t->shared = tft_arena_take(a, m->n_shared ? m->n_kv_layer : 0, sizeof *t->shared);
    for (uint32_t i = 0; m->n_shared && i < m->n_kv_layer; i++) {
        size_t bytes = tft_model_kv_width(m, i) * sizeof(real);
        struct shared_rows s = {0};
        if (is_shared(m, i))
            s = (struct shared_rows){
                tft_arena_take(a, t->n, bytes), tft_arena_take(a, t->n, bytes),
                tft_arena_take(a, t->n, bytes), tft_arena_take(a, t->n, bytes),
                tft_arena_take(a, t->n, bytes), tft_arena_take(a, t->n, bytes)};
        if (!t->shared)
            continue;
        t->shared[i] = s;
        real *const gradients[] = {s.dk, s.dv, s.far_k, s.far_v};
        for (size_t k = 0; s.dk && k < sizeof gradients / sizeof *gradients; k++)
            memset(gradients[k], 0, t->n * bytes);
    }
    if (!m->n_shared)
        t->shared = NULL;
}

static void layout(struct tape *t, struct tft_arena *a)
{
    const struct tft_model *m = t->m;
    size_t d = m->n_embd, q = (size_t)m->n_head * m->head_dim,
           kv = (size_t)m->n_head_kv * m->head_dim, f = m->n_ff, n = t->n;
    struct {
        real **at;
        size_t width;
    } const all[] = {{&t->h, d},   {&t->x2, d}, {&t->h2, d}, {&t->dh, d},  {&t->q0, q},
                     {&t->q, q},   {&t->a, q},  {&t->da, q}, {&t->dq, q},  {&t->dq0, q},
                     {&t->k0, kv}, {&t->k, kv}, {&t->v, kv}, {&t->dk, kv}, {&t->dk0, kv},
                     {&t->dv, kv}, {&t->g, f},  {&t->u, f},  {&t->c, f},   {&t->dc, f},
                     {&t->dg, f},  {&t->du, f}, {&t->dout, d}, {&t->far_k, kv}, {&t->far_v, kv}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i].at = tft_arena_take(a, n, all[i].width * sizeof(real));
    bool norms = m->parts & TFT_BIT(TFT_PART_VALUE_NORM);
    t->v0 = tft_arena_take(a, norms ? n : 0, kv * sizeof *t->v0);
    t->dv0 = tft_arena_take(a, norms ? n : 0, kv * sizeof *t->dv0);
    t->x0 = tft_arena_take(a, m->n_round ? n : 0, d * sizeof *t->x0);
    t->x3 = tft_arena_take(a, m->layer_embed.n ? n : 0, d * sizeof *t->x3);
    layout_shared(t, a);
    size_t apart = tft_model_adds_y(m) ? n : 0;
    t->y = tft_arena_take(a, apart, d * sizeof *t->y);
    t->y2 = tft_arena_take(a, apart, d * sizeof *t->y2);
    t->dy = tft_arena_take(a, apart, d * sizeof *t->dy);
    t->logits = tft_arena_take(a, m->n_vocab, LOGITS * sizeof *t->logits);
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
    t->matmul = matmul_open(m, n, n_threads);
    t->attention = attention_open(m, n_prefix, n, n_threads);
    t->coded_rows = coded_rows_open(m, n, n_threads);
    t->heads = heads_open(m, n_prefix, n);
    t->embeds = m->layer_embed.n ? layer_embeds_open(m, n, n_threads) : NULL;
    struct tft_arena a = {0};
    layout(t, &a);
    t->memory = a.failed ? NULL : tft_port_alloc(a.used, TFT_ALIGN);
    if (!t->matmul || !t->attention || !t->coded_rows || !t->heads || !t->memory ||
        (m->layer_embed.n && !t->embeds)) {
        tape_close(t);
        return NULL;
    }
    a = (struct tft_arena){.base = t->memory};
    layout(t, &a);
    return t;
}

void tape_close(struct tape *t)
{
    if (!t)
        return;
    matmul_close(t->matmul);
    attention_close(t->attention);
    coded_rows_close(t->coded_rows);
    heads_close(t->heads);
    layer_embeds_close(t->embeds);
    tft_port_free(t->memory);
    free(t);
}
