#include "tools/quantize/tune/layer_embeds.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "port/port.h"
#include "tools/quantize/tune/matmul.h"
#include "tools/quantize/tune/row_ops.h"

/* Tokens that a thread takes at a time, so that sums do not depend on the number of threads. */
enum { TILE = 32 };

/* Buffers of one thread; P: numbers of an embedding. */
struct scratch {
    real *g, *c, *dc, *dg, *dp; /* [TILE, P] */
    real *o, *d_o;              /* [TILE, D] */
    float *row;                 /* [n_layer P], or [D] if that is more */
};

struct layer_embeds {
    const struct tft_model *m;
    size_t n, wide; /* wide: n_layer P */
    int n_threads;
    real *p;                /* [n, n_layer, P] the embeddings */
    real *gate, *out;       /* [P, D], [D, P] of the current layer; gate: also rows of Wp */
    struct scratch *thread; /* [n_threads] */
    void *memory;
};

static void layout(struct layer_embeds *e, struct tft_arena *a)
{
    size_t p = e->m->layer_embed.n, d = e->m->n_embd;
    e->p = tft_arena_take(a, e->n, e->wide * sizeof *e->p);
    e->gate = tft_arena_take(a, p, d * sizeof *e->gate);
    e->out = tft_arena_take(a, p, d * sizeof *e->out);
    e->thread = tft_arena_take(a, (size_t)e->n_threads, sizeof *e->thread);
    for (int i = 0; i < e->n_threads; i++) {
        struct scratch s = {0};
        real **const narrow[] = {&s.g, &s.c, &s.dc, &s.dg, &s.dp};
        for (size_t k = 0; k < sizeof narrow / sizeof *narrow; k++)
            *narrow[k] = tft_arena_take(a, TILE, p * sizeof(real));
        s.o = tft_arena_take(a, TILE, d * sizeof *s.o);
        s.d_o = tft_arena_take(a, TILE, d * sizeof *s.d_o);
        s.row = tft_arena_take(a, e->wide > d ? e->wide : d, sizeof *s.row);
        if (e->thread)
            e->thread[i] = s;
    }
}

struct layer_embeds *layer_embeds_open(const struct tft_model *m, size_t n, int n_threads)
{
    struct layer_embeds *e = calloc(1, sizeof *e);
    struct tft_arena a = {0};
    if (!e)
        return NULL;
    *e = (struct layer_embeds){.m = m,
                               .n = n,
                               .wide = (size_t)m->n_layer * m->layer_embed.n,
                               .n_threads = n_threads};
    layout(e, &a);
    e->memory = a.failed ? NULL : tft_port_alloc(a.used, TFT_ALIGN);
    if (!e->memory) {
        layer_embeds_close(e);
        return NULL;
    }
    a = (struct tft_arena){.base = e->memory};
    layout(e, &a);
    return e;
}

void layer_embeds_close(struct layer_embeds *e)
{
    if (!e)
        return;
    tft_port_free(e->memory);
    free(e);
}

/* ---------------------------------------------------------------------------- rows, in the team */

struct expand_task {
    struct layer_embeds *e;
    real *to;
    const struct tft_mat *w;
    uint32_t first, n;
};

static void expand_rows(void *arg, int tid, int n_threads)
{
    const struct expand_task *task = arg;
    float *row = task->e->thread[tid].row;
    for (uint32_t r = (uint32_t)tid; r < task->n; r += (uint32_t)n_threads) {
        tft_mat_row(task->e->m, task->w, task->first + r, row);
        for (uint32_t k = 0; k < task->w->cols; k++)
            task->to[(size_t)r * task->w->cols + k] = (real)row[k];
    }
}

/* to: [n, cols] = rows of w from `first` on */
static void expand(struct layer_embeds *e, real *to, const struct tft_mat *w, uint32_t first,
                   uint32_t n)
{
    tft_port_team(e->n_threads, expand_rows, &(struct expand_task){e, to, w, first, n});
}

/* A step for tokens at .. at + n - 1, n <= TILE. */
struct tiles {
    struct layer_embeds *e;
    uint32_t layer;
    const int32_t *token;
    const real *x;
    real *y;
    void (*step)(const struct tiles *t, const struct scratch *s, size_t at, size_t n);
};

static void share_tiles(void *arg, int tid, int n_threads)
{
    const struct tiles *t = arg;
    size_t step = (size_t)n_threads * TILE;
    for (size_t at = (size_t)tid * TILE; at < t->e->n; at += step)
        t->step(t, &t->e->thread[tid], at, t->e->n - at < TILE ? t->e->n - at : TILE);
}

static void each_tile(struct tiles *t)
{
    tft_port_team(t->e->n_threads, share_tiles, t);
}

/* ------------------------------------------------------------------------------- the embeddings */

static void project(const struct tiles *t, const struct scratch *s, size_t at, size_t n)
{
    const struct layer_embeds *e = t->e;
    size_t p = e->m->layer_embed.n, d = e->m->n_embd;
    (void)s;
    matmul_plain(e->m, e->p + at * e->wide + t->layer * p, e->wide, t->x + at * d, e->gate, n, p,
                 d);
}

/* p = (rms(p / sqrt(D)) g + sqrt(P) table) / sqrt(2) */
static void mix(const struct tiles *t, const struct scratch *s, size_t at, size_t n)
{
    const struct layer_embeds *e = t->e;
    const struct tft_layer_embed *w = &e->m->layer_embed;
    real small = 1 / real_sqrt((real)e->m->n_embd), large = real_sqrt((real)w->n),
         half = 1 / real_sqrt((real)2);
    for (size_t i = at; i < at + n; i++) {
        real *p = e->p + i * e->wide;
        tft_mat_row(e->m, &w->embed, (uint32_t)t->token[i], s->row);
        for (size_t k = 0; k < e->wide; k++)
            p[k] *= small;
        for (size_t k = 0; k < e->wide; k += w->n)
            row_norm(p + k, p + k, &w->norm, w->n, e->m->norm_eps);
        for (size_t k = 0; k < e->wide; k++)
            p[k] = (p[k] + large * (real)s->row[k]) * half;
    }
}

void layer_embeds_begin(struct layer_embeds *e, const int32_t *token, const real *x)
{
    uint32_t p = e->m->layer_embed.n;
    for (uint32_t l = 0; l < e->m->n_layer; l++) {
        expand(e, e->gate, &e->m->layer_embed.w.w, l * p, p);
        each_tile(&(struct tiles){.e = e, .layer = l, .x = x, .step = project});
    }
    each_tile(&(struct tiles){.e = e, .token = token, .step = mix});
}

/* ------------------------------------------------------------------------------------ of layers */

/* g = Wgate x, c = gelu(g) * p, o = Wout c */
static void to_output(const struct tiles *t, const struct scratch *s, size_t at, size_t n)
{
    const struct layer_embeds *e = t->e;
    size_t p = e->m->layer_embed.n, d = e->m->n_embd;
    matmul_plain(e->m, s->g, p, t->x + at * d, e->gate, n, p, d);
    for (size_t i = 0; i < n; i++)
        row_activate(s->c + i * p, s->g + i * p, e->p + (at + i) * e->wide + t->layer * p, p, true);
    matmul_plain(e->m, s->o, d, s->c, e->out, n, d, p);
}

static void run(const struct tiles *t, const struct scratch *s, size_t at, size_t n)
{
    const struct tft_model *m = t->e->m;
    size_t d = m->n_embd;
    to_output(t, s, at, n);
    for (size_t i = 0; i < n; i++) {
        real *o = s->o + i * d;
        row_norm(o, o, &m->layer[t->layer].embed_norm, d, m->norm_eps);
        for (size_t k = 0; k < d; k++)
            t->y[(at + i) * d + k] = t->x[(at + i) * d + k] + o[k];
    }
}

static void back(const struct tiles *t, const struct scratch *s, size_t at, size_t n)
{
    const struct layer_embeds *e = t->e;
    const struct tft_model *m = e->m;
    size_t p = m->layer_embed.n, d = m->n_embd;
    to_output(t, s, at, n);
    memset(s->d_o, 0, n * d * sizeof *s->d_o);
    for (size_t i = 0; i < n; i++)
        row_norm_back(s->d_o + i * d, t->y + (at + i) * d, s->o + i * d,
                      &m->layer[t->layer].embed_norm, d, m->norm_eps);
    memset(s->dc, 0, n * p * sizeof *s->dc);
    matmul_mix(m, s->dc, s->d_o, d, e->out, n, p, d);
    for (size_t i = 0; i < n; i++)
        row_activate_back(s->dg + i * p, s->dp + i * p, s->dc + i * p, s->g + i * p,
                          e->p + (at + i) * e->wide + t->layer * p, p, true);
    matmul_mix(m, t->y + at * d, s->dg, p, e->gate, n, d, p);
}

static void expand_layer(struct layer_embeds *e, uint32_t l)
{
    const struct tft_layer *b = &e->m->layer[l];
    expand(e, e->gate, &b->embed_gate.w, 0, b->embed_gate.w.rows);
    expand(e, e->out, &b->embed_out.w, 0, b->embed_out.w.rows);
}

void layer_embeds_run(struct layer_embeds *e, uint32_t l, real *y, const real *x)
{
    expand_layer(e, l);
    each_tile(&(struct tiles){.e = e, .layer = l, .x = x, .y = y, .step = run});
}

void layer_embeds_back(struct layer_embeds *e, uint32_t l, real *dx, const real *x)
{
    expand_layer(e, l);
    each_tile(&(struct tiles){.e = e, .layer = l, .x = x, .y = dx, .step = back});
}
