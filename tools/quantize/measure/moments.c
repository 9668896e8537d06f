#include "tools/quantize/measure/moments.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "port/port.h"
#include "tools/quantize/inputs.h"

enum { ROWS = 64 }; /* rows of h per step of a thread */

static float *alloc_zeros(size_t rows, size_t cols)
{
    size_t bytes;
    return tft_mul(rows, cols * sizeof(float), &bytes) ? calloc(bytes + 1, 1) : NULL;
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Rows of an input in a window of text: one for each token, or, if the layer has experts, one for
   each pair of a token and an expert. */
static size_t rows_of(const struct moments *s, bool experts, uint32_t which)
{
    return (size_t)s->window * (experts && which == TFT_IN_DOWN ? s->m->n_expert_used : 1);
}

static size_t window_rows(const struct moments *s, uint32_t which)
{
    return rows_of(s, tft_layer_has_experts(s->layer), which);
}

static size_t width_of(const struct moments *s, uint32_t which)
{
    return quantize_input_width(s->m, s->layer, which);
}

bool moments_open(struct moments *s, const struct tft_model *m, uint32_t window, bool correlated,
                  const bool wanted[TFT_INPUT_KINDS], int n_threads)
{
    size_t widest = 0;
    *s = (struct moments){
        .m = m, .n_threads = n_threads, .window = window, .correlated = correlated};
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++) {
        size_t n = quantize_input_width(m, NULL, i);
        widest = n > widest ? n : widest;
        if (!wanted[i])
            continue;
        s->x[i] = alloc_zeros(rows_of(s, m->n_expert, i), n);
        s->h[i] = alloc_zeros(correlated ? n : 1, n);
        s->exact[i] = correlated ? alloc_zeros(rows_of(s, m->n_expert, i), n) : NULL;
        s->gap[i] = correlated ? alloc_zeros(n, n) : NULL;
        if (!s->x[i] || !s->h[i] || (correlated && !(s->exact[i] && s->gap[i])))
            return false;
        if (!correlated || (i != TFT_IN_O && i != TFT_IN_DOWN))
            continue;
        s->missing[i] = alloc_zeros(m->n_embd, window);
        s->stream[i] = alloc_zeros(m->n_embd, n);
        if (!s->missing[i] || !s->stream[i])
            return false;
    }
    size_t rows = larger(window, rows_of(s, m->n_expert, TFT_IN_DOWN));
    s->columns = alloc_zeros(widest, rows);
    s->away = correlated ? alloc_zeros(widest, rows) : NULL;
    return s->columns && (s->away || !correlated);
}

void moments_close(struct moments *s)
{
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++) {
        free(s->x[i]);
        free(s->h[i]);
        free(s->exact[i]);
        free(s->gap[i]);
        free(s->missing[i]);
        free(s->stream[i]);
    }
    free(s->columns);
    free(s->away);
    *s = (struct moments){0};
}

static bool sums(const struct moments *s, uint32_t which)
{
    return s->h[which] && s->inputs >> which & 1;
}

void moments_begin(struct moments *s, const struct tft_layer *layer, uint32_t inputs)
{
    s->layer = layer;
    s->inputs = inputs;
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++) {
        size_t n = width_of(s, i);
        if (!sums(s, i))
            continue;
        memset(s->h[i], 0, (s->correlated ? n : 1) * n * sizeof *s->h[i]);
        if (s->gap[i])
            memset(s->gap[i], 0, n * n * sizeof *s->gap[i]);
        if (s->stream[i])
            memset(s->stream[i], 0, s->m->n_embd * n * sizeof *s->stream[i]);
    }
}

void moments_put(const struct moments *s, uint32_t which, size_t i, const float *x)
{
    size_t n = width_of(s, which);
    if (sums(s, which))
        memcpy(s->x[which] + i * n, x, n * sizeof *x);
}

void moments_put_exact(const struct moments *s, uint32_t which, size_t i, const float *x)
{
    size_t n = width_of(s, which);
    if (sums(s, which) && s->exact[which])
        memcpy(s->exact[which] + i * n, x, n * sizeof *x);
}

bool moments_has_stream(const struct moments *s, uint32_t which)
{
    return sums(s, which) && s->stream[which] && window_rows(s, which) == s->window;
}

void moments_put_exact_stream(const struct moments *s, uint32_t which, const float *x,
                              size_t stride)
{
    for (size_t t = 0; t < s->window; t++)
        for (size_t k = 0; k < s->m->n_embd; k++)
            s->missing[which][k * s->window + t] = x[t * stride + k];
}

void moments_put_stream(const struct moments *s, uint32_t which, const float *x, size_t stride)
{
    for (size_t t = 0; t < s->window; t++)
        for (size_t k = 0; k < s->m->n_embd; k++)
            s->missing[which][k * s->window + t] -= x[t * stride + k];
}

struct add_task {
    const struct moments *s;
    uint32_t which;
};

/* columns = x^T and away = (exact - x)^T, for a share of the channels */
static void transpose(void *arg, int tid, int n_threads)
{
    const struct add_task *task = arg;
    const struct moments *s = task->s;
    size_t n = width_of(s, task->which), window = window_rows(s, task->which),
           begin = n * (size_t)tid / (size_t)n_threads,
           end = n * (size_t)(tid + 1) / (size_t)n_threads;
    for (size_t t = 0; t < window; t++)
        for (size_t k = begin; k < end; k++) {
            float x = s->x[task->which][t * n + k];
            s->columns[k * window + t] = x;
            if (s->away)
                s->away[k * window + t] = s->exact[task->which][t * n + k] - x;
        }
}

static void add_diagonal(const struct moments *s, float *h, size_t n, size_t window)
{
    for (size_t k = 0; k < n; k++)
        for (size_t t = 0; t < window; t++)
            h[k] += s->columns[k * window + t] * s->columns[k * window + t];
}

/* Threads take blocks of rows in turns, as the last blocks are the longest. */
static void add(void *arg, int tid, int n_threads)
{
    const struct add_task *task = arg;
    const struct moments *s = task->s;
    float *h = s->h[task->which];
    size_t n = width_of(s, task->which), window = window_rows(s, task->which);
    if (!s->correlated && tid == 0)
        add_diagonal(s, h, n, window);
    for (size_t i = (size_t)tid * ROWS; s->correlated && i < n; i += (size_t)n_threads * ROWS) {
        size_t rows = n - i < ROWS ? n - i : ROWS;
        s->m->kern.gemm[TFT_NUM_F32](&(struct tft_gemm){.y = h + i * n,
                                                        .ldy = n,
                                                        .x = s->columns + i * window,
                                                        .ldx = window,
                                                        .w = s->columns,
                                                        .add = true,
                                                        .M = rows,
                                                        .N = i + rows,
                                                        .K = window});
        s->m->kern.gemm[TFT_NUM_F32](&(struct tft_gemm){.y = s->gap[task->which] + i * n,
                                                        .ldy = n,
                                                        .x = s->columns + i * window,
                                                        .ldx = window,
                                                        .w = s->away,
                                                        .add = true,
                                                        .M = rows,
                                                        .N = n,
                                                        .K = window});
    }
}

static void add_stream(void *arg, int tid, int n_threads)
{
    const struct add_task *task = arg;
    const struct moments *s = task->s;
    size_t n = width_of(s, task->which), d = s->m->n_embd, window = s->window;
    for (size_t i = (size_t)tid * ROWS; i < d; i += (size_t)n_threads * ROWS)
        s->m->kern.gemm[TFT_NUM_F32](&(struct tft_gemm){.y = s->stream[task->which] + i * n,
                                                        .ldy = n,
                                                        .x = s->missing[task->which] + i * window,
                                                        .ldx = window,
                                                        .w = s->columns,
                                                        .add = true,
                                                        .M = d - i < ROWS ? d - i : ROWS,
                                                        .N = n,
                                                        .K = window});
}

void moments_add(const struct moments *s)
{
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++) {
        if (!sums(s, i))
            continue;
        struct add_task task = {s, i};
        tft_port_team(s->n_threads, transpose, &task);
        tft_port_team(s->n_threads, add, &task);
        if (moments_has_stream(s, i))
            tft_port_team(s->n_threads, add_stream, &task);
    }
}
