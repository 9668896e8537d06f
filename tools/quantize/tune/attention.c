#include "tools/quantize/tune/attention.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "port/port.h"
#include "tools/quantize/tune/matmul.h"
#include "tools/quantize/tune/row_ops.h"

/* Queries of a head that are processed together. */
enum { TILE = 32 };

/* Buffers of one thread. N: tokens of prefix and sequence. */
struct scratch {
    real *k, *v, *dk, *dv; /* [N, E] of a KV head */
    real *far_k, *far_v;   /* [N, E] */
    real *q, *dq, *dy;     /* [TILE, E] */
    real *p, *dp;          /* [TILE, N] */
    real *slope;           /* [TILE, N] of the cap of scores, in a model that has one */
    real *transposed;      /* [N, TILE] */
};

struct attention {
    const struct tft_model *m;
    size_t n_prefix;
    int n_threads;
    struct scratch *scratch; /* [n_threads] */
    real *memory;
};

static struct scratch carve(real *at, size_t all, size_t dim)
{
    struct scratch s;
    s.k = at;
    s.v = s.k + all * dim;
    s.dk = s.v + all * dim;
    s.dv = s.dk + all * dim;
    s.far_k = s.dv + all * dim;
    s.far_v = s.far_k + all * dim;
    s.q = s.far_v + all * dim;
    s.dq = s.q + TILE * dim;
    s.dy = s.dq + TILE * dim;
    s.p = s.dy + TILE * dim;
    s.dp = s.p + TILE * all;
    s.transposed = s.dp + TILE * all;
    s.slope = s.transposed + TILE * all;
    return s;
}

struct attention *attention_open(const struct tft_model *m, size_t n_prefix, size_t n,
                                 int n_threads)
{
    size_t all = n_prefix + n, dim = m->head_dim,
           each = 6 * all * dim + 3 * TILE * dim + (m->score_cap > 0 ? 4 : 3) * TILE * all, bytes;
    struct attention *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (struct attention){.m = m, .n_prefix = n_prefix, .n_threads = n_threads};
    a->scratch = calloc((size_t)n_threads, sizeof *a->scratch);
    if (tft_mul((size_t)n_threads * each, sizeof(real), &bytes))
        a->memory = malloc(bytes);
    if (!a->scratch || !a->memory) {
        attention_close(a);
        return NULL;
    }
    for (int i = 0; i < n_threads; i++)
        a->scratch[i] = carve(a->memory + (size_t)i * each, all, dim);
    return a;
}

void attention_close(struct attention *a)
{
    if (!a)
        return;
    free(a->scratch);
    free(a->memory);
    free(a);
}

/* Between contiguous rows [n, dim] and rows `stride` apart. */
static void gather(real *to, const real *from, size_t stride, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * dim, from + i * stride, dim * sizeof *to);
}

static void scatter(real *to, size_t stride, const real *from, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * stride, from + i * dim, dim * sizeof *to);
}

static void scatter_add(real *to, size_t stride, const real *from, size_t n, size_t dim)
{
    for (size_t i = 0; i < n; i++)
        for (size_t d = 0; d < dim; d++)
            to[i * stride + d] += from[i * dim + d];
}

/* x: [all]: the scores from `first` up to n become their softmax, the others 0. */
static void softmax(real *x, size_t first, size_t n, size_t all)
{
    real max = x[first], sum = 0;
    for (size_t i = first + 1; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (size_t i = first; i < n; i++)
        sum += x[i] = real_exp(x[i] - max);
    for (size_t i = first; i < n; i++)
        x[i] /= sum;
    memset(x, 0, first * sizeof *x);
    memset(x + n, 0, (all - n) * sizeof *x);
}

/* --------------------------------------------------------------------------------------- a head */

/* Queries from .. from + rows - 1 of a head, and the keys that they see: `keys` of them from
   `first` on, up to the last query's own. */
struct tile {
    size_t head, from, rows, first, keys;
};

/* Caps the scores of a query, y = c tanh(x / c); slope: [n] the derivative of y. */
static void cap(const struct attention *a, real *x, real *slope, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        x[j] = row_softcap(x[j], (real)a->m->score_cap);
        slope[j] = row_softcap_slope(x[j], (real)a->m->score_cap);
    }
}

/* The first row that the query before row `end` sees. */
static size_t first_seen(const struct attention_rows *x, size_t end)
{
    return x->window && end > x->window ? end - x->window : 0;
}

static void probabilities(const struct attention *a, const struct scratch *s,
                          const struct attention_rows *x, const struct tile *t)
{
    size_t dim = x->heads.dim, width = a->m->n_head * dim;
    gather(s->q, x->q + t->from * width + t->head * dim, width, t->rows, dim);
    matmul_plain(a->m, s->p, t->keys, s->q, s->k + t->first * dim, t->rows, t->keys, dim);
    for (size_t i = 0; i < t->rows; i++) {
        real *row = s->p + i * t->keys;
        size_t end = a->n_prefix + t->from + i + 1, begin = first_seen(x, end);
        for (size_t j = 0; j < t->keys; j++)
            row[j] *= (real)a->m->attn_scale;
        if (a->m->score_cap > 0)
            cap(a, row, s->slope + i * t->keys, t->keys);
        softmax(row, begin - t->first, end - t->first, t->keys);
    }
}

static void tile_run(const struct attention *a, const struct scratch *s, real *y,
                     const struct attention_rows *x, const struct tile *t)
{
    size_t dim = x->heads.dim, width = a->m->n_head * dim;
    probabilities(a, s, x, t);
    memset(s->dq, 0, t->rows * dim * sizeof *s->dq); /* used as the output's tile */
    matmul_mix(a->m, s->dq, s->p, t->keys, s->v + t->first * dim, t->rows, dim, t->keys);
    scatter(y + t->from * width + t->head * dim, width, s->dq, t->rows, dim);
}

/* to: [cols, rows], from: [rows, cols] */
static void transpose(real *to, const real *from, size_t rows, size_t cols)
{
    for (size_t j = 0; j < cols; j++)
        for (size_t i = 0; i < rows; i++)
            to[j * rows + i] = from[i * cols + j];
}

/* The number of the tile's keys that are at least dx->far tokens before its first query; 0 if the
   caller does not ask for them. */
static size_t far_keys(const struct attention *a, const struct attention_gradients *dx,
                       const struct tile *t)
{
    size_t end = a->n_prefix + t->from + 1, far = dx->far + t->first;
    return dx->far_k && end > far ? end - far : 0;
}

/*
 * With S = scale Q K^T, P = softmax(S), Y = P V:
 *      dV = P^T dY            dP = dY V^T     dS = P (dP - sum_j P dP)
 *      dQ = scale dS K        dK = scale dS^T Q
 * With P = softmax(c tanh(S / c)), dS has a factor of tanh' = 1 - tanh^2 (Gemma 2, section 2). Keys
 * that a query does not see have P = 0, and so dS = 0.
 */
static void tile_back(const struct attention *a, const struct scratch *s,
                      const struct attention_gradients *dx, const real *dy,
                      const struct attention_rows *x, const struct tile *t)
{
    size_t far = far_keys(a, dx, t);
    size_t dim = x->heads.dim, width = a->m->n_head * dim, at = t->from * width + t->head * dim;
    probabilities(a, s, x, t);
    gather(s->dy, dy + at, width, t->rows, dim);
    matmul_plain(a->m, s->dp, t->keys, s->dy, s->v + t->first * dim, t->rows, t->keys, dim);
    transpose(s->transposed, s->p, t->rows, t->keys);
    matmul_mix(a->m, s->dv + t->first * dim, s->transposed, t->rows, s->dy, t->keys, dim, t->rows);
    matmul_mix(a->m, s->far_v + t->first * dim, s->transposed, t->rows, s->dy, far, dim, t->rows);
    for (size_t i = 0; i < t->rows; i++) {
        real *p = s->p + i * t->keys, *dp = s->dp + i * t->keys, sum = 0;
        for (size_t j = 0; j < t->keys; j++)
            sum += p[j] * dp[j];
        for (size_t j = 0; j < t->keys; j++)
            dp[j] = p[j] * (dp[j] - sum) * (real)a->m->attn_scale;
        for (size_t j = 0; a->m->score_cap > 0 && j < t->keys; j++)
            dp[j] *= s->slope[i * t->keys + j];
    }
    memset(s->dq, 0, t->rows * dim * sizeof *s->dq);
    matmul_mix(a->m, s->dq, s->dp, t->keys, s->k + t->first * dim, t->rows, dim, t->keys);
    scatter(dx->q + at, width, s->dq, t->rows, dim);
    transpose(s->transposed, s->dp, t->rows, t->keys);
    matmul_mix(a->m, s->dk + t->first * dim, s->transposed, t->rows, s->q, t->keys, dim, t->rows);
    matmul_mix(a->m, s->far_k + t->first * dim, s->transposed, t->rows, s->q, far, dim, t->rows);
}

/* ------------------------------------------------------------------------------------ all heads */

struct attention_task {
    const struct attention *a;
    const struct attention_rows *x;
    const struct attention_gradients *dx; /* NULL: forward */
    real *y;
    const real *dy;
    size_t n;
};

/* Queries from `from` on that see the same codes. */
static size_t rows_until_quantization(const struct coded_view *c, size_t from, size_t n)
{
    size_t end = n;
    for (int side = 0; c && side < TFT_KV_SIDES; side++)
        for (size_t i = 0; i < n; i++)
            if (c->since[side][i] > from && c->since[side][i] < end)
                end = c->since[side][i];
    return end - from;
}

/* Replaces the rows of tokens that are quantized before query `from` by their codes. at: the head's
   first column. */
static void see_codes(const struct attention_task *task, const struct scratch *s, size_t at,
                      size_t from)
{
    const struct coded_view *c = task->x->coded;
    size_t dim = task->x->heads.dim, width = task->x->heads.n * dim;
    for (int side = 0; c && side < TFT_KV_SIDES; side++) {
        real *rows = (side == TFT_KV_K ? s->k : s->v) + task->a->n_prefix * dim;
        for (size_t i = 0; i < from; i++)
            if (c->since[side][i] == from)
                memcpy(rows + i * dim, c->row[side] + i * width + at, dim * sizeof *rows);
    }
}

/* One thread computes a KV head with all queries that read it. */
static void kv_head(const struct attention_task *task, const struct scratch *s, size_t h)
{
    const struct attention *a = task->a;
    size_t dim = task->x->heads.dim, width = task->x->heads.n * dim, m = a->n_prefix,
           group = a->m->n_head / task->x->heads.n, at = h * dim;
    gather(s->k, task->x->prefix_k + at, width, m, dim);
    gather(s->v, task->x->prefix_v + at, width, m, dim);
    gather(s->k + m * dim, task->x->k + at, width, task->n, dim);
    gather(s->v + m * dim, task->x->v + at, width, task->n, dim);
    if (task->dx) {
        memset(s->dk, 0, (m + task->n) * dim * sizeof *s->dk);
        memset(s->dv, 0, (m + task->n) * dim * sizeof *s->dv);
        memset(s->far_k, 0, (m + task->n) * dim * sizeof *s->far_k);
        memset(s->far_v, 0, (m + task->n) * dim * sizeof *s->far_v);
    }
    for (struct tile t = {0}; t.from < task->n; t.from += t.rows) {
        t.rows = rows_until_quantization(task->x->coded, t.from, task->n);
        t.rows = t.rows < TILE ? t.rows : TILE;
        t.first = first_seen(task->x, m + t.from + 1);
        t.keys = m + t.from + t.rows - t.first;
        see_codes(task, s, at, t.from);
        for (t.head = h * group; t.head < (h + 1) * group; t.head++)
            if (task->dx)
                tile_back(a, s, task->dx, task->dy, task->x, &t);
            else
                tile_run(a, s, task->y, task->x, &t);
    }
    if (!task->dx)
        return;
    scatter_add(task->dx->prefix_k + at, width, s->dk, m, dim);
    scatter_add(task->dx->prefix_v + at, width, s->dv, m, dim);
    scatter(task->dx->k + at, width, s->dk + m * dim, task->n, dim);
    scatter(task->dx->v + at, width, s->dv + m * dim, task->n, dim);
    if (!task->dx->far_k)
        return;
    scatter(task->dx->far_k + at, width, s->far_k + m * dim, task->n, dim);
    scatter(task->dx->far_v + at, width, s->far_v + m * dim, task->n, dim);
}

static void run(void *arg, int tid, int n_threads)
{
    const struct attention_task *task = arg;
    for (size_t h = (size_t)tid; h < task->x->heads.n; h += (size_t)n_threads)
        kv_head(task, &task->a->scratch[tid], h);
}

void attention_run(struct attention *a, real *y, const struct attention_rows *x, size_t n)
{
    tft_port_team(a->n_threads, run, &(struct attention_task){a, x, NULL, y, NULL, n});
}

void attention_back(struct attention *a, const struct attention_gradients *dx, const real *dy,
                    const struct attention_rows *x, size_t n)
{
    tft_port_team(a->n_threads, run, &(struct attention_task){a, x, dx, NULL, dy, n});
}
