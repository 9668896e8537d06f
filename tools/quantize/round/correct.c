#include "tools/quantize/round/correct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "tools/quantize/array.h"

enum { LANES = 16 }; /* rows that are solved together */

/* The part of the way. Divergence in nats of stories15M (texts) / MiniMind2-Small (conversations),
   4 bits, groups of 32, ranges by token, if inputs alone are made up for:
     0: 0.0703 / 0.1429   0.5: 0.0594 / 0.0924   1: 0.0708 / 0.270 (ranges chosen) */
static const float SHARE = 0.5f;

struct correct_task {
    float *w; /* [rows, n] */
    size_t rows;
    const struct metric *m;
    const struct correct_for *f;
    const struct tft_kernels *kern;
    float *scratch; /* [threads, 3, n, LANES] */
};

static size_t channel_of(const struct metric *m, size_t column)
{
    return m->map ? m->map[column] : column;
}

/* Solves v L D L^T = u in place, for LANES rows. u: [n, LANES] by place */
static void solve(const struct metric *m, float *u)
{
    size_t n = m->n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            for (size_t lane = 0; lane < LANES; lane++)
                u[i * LANES + lane] -= m->factor[i * n + j] * u[j * LANES + lane];
    for (size_t i = 0; i < n; i++)
        for (size_t lane = 0; lane < LANES; lane++)
            u[i * LANES + lane] /= m->weight[i];
    for (size_t j = n; j-- > 0;)
        for (size_t i = 0; i < j; i++)
            for (size_t lane = 0; lane < LANES; lane++)
                u[i * LANES + lane] -= m->factor[j * n + i] * u[j * LANES + lane];
}

/* to: [rows, n] = W D + R by channel, of rows first ...; by_channel: [rows, n] scratch */
static void add_up(const struct correct_task *t, size_t first, size_t rows, float *by_channel,
                   float *to)
{
    const struct metric *m = t->m;
    size_t n = m->n;
    for (size_t row = 0; row < rows; row++)
        for (size_t k = 0; k < n; k++)
            by_channel[row * n + channel_of(m, k)] = t->w[(first + row) * n + k];
    if (t->f->stream)
        memcpy(to, t->f->stream + first * n, rows * n * sizeof *to);
    else
        memset(to, 0, rows * n * sizeof *to);
    if (t->f->gap)
        t->kern->gemm[TFT_NUM_F32](&(struct tft_gemm){.y = to,
                                                      .ldy = n,
                                                      .x = by_channel,
                                                      .ldx = n,
                                                      .w = t->f->gap,
                                                      .add = true,
                                                      .M = rows,
                                                      .N = n,
                                                      .K = n});
}

/* rows: at most LANES; scratch: [3, n, LANES] */
static void correct_rows(const struct correct_task *t, size_t first, size_t rows, float *scratch)
{
    const struct metric *m = t->m;
    size_t n = m->n;
    float *w = t->w + first * n, *moved = scratch + n * LANES, *u = moved + n * LANES;
    add_up(t, first, rows, scratch, moved);
    for (size_t i = 0; i < n; i++)
        for (size_t lane = 0; lane < LANES; lane++)
            u[i * LANES + lane] =
                lane < rows ? moved[lane * n + channel_of(m, m->column[i])] : 0;
    solve(m, u);
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < n; i++) {
            float *to = &w[row * n + m->column[i]], v = *to + SHARE * u[i * LANES + row];
            *to = isfinite(v) ? v : *to;
        }
}

/* Threads take LANES rows in turns. */
static void correct_share(void *arg, int tid, int n_threads)
{
    const struct correct_task *t = arg;
    size_t n = t->m->n;
    for (size_t i = (size_t)tid * LANES; i < t->rows; i += (size_t)n_threads * LANES)
        correct_rows(t, i, t->rows - i < LANES ? t->rows - i : LANES,
                     t->scratch + (size_t)tid * 3 * n * LANES);
}

bool correct_weights(float *w, size_t rows, const struct metric *m, const struct correct_for *f,
                     const struct tft_kernels *kern, int n_threads)
{
    struct correct_task t = {.w = w, .rows = rows, .m = m, .f = f, .kern = kern};
    t.scratch = array_alloc(sizeof *t.scratch, m->n, 3 * LANES, (uint64_t)n_threads);
    if (!t.scratch)
        return false;
    tft_port_team(n_threads, correct_share, &t);
    free(t.scratch);
    return true;
}
