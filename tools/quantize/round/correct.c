#include "tools/quantize/round/correct.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "tools/quantize/array.h"

/* ROWS rows are solved together. Places are solved in blocks: a product of matrices first subtracts
   the part of all places that are solved already. */
enum { ROWS = 64, BLOCK = 32 };

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
    float *scratch; /* [threads, 2 * ROWS + BLOCK, n] */
};

static size_t channel_of(const struct metric *m, size_t column)
{
    return m->map ? m->map[column] : column;
}

/* y += x part^T, where part has numbers of L with their signs changed. y: [ROWS, places] and x:
   [ROWS, k], with rows n apart; part: [places, k] */
static void subtract(const struct correct_task *t, float *y, const float *x, const float *part,
                     size_t places, size_t k)
{
    if (k)
        t->kern->gemm[TFT_NUM_F32](&(struct tft_gemm){.y = y,
                                                      .ldy = t->m->n,
                                                      .x = x,
                                                      .ldx = t->m->n,
                                                      .w = part,
                                                      .add = true,
                                                      .M = ROWS,
                                                      .N = places,
                                                      .K = k});
}

/* Copies a block of u, transposed: the numbers of one place lie side by side, so that compilers
   make vectors of a loop over rows. */
static void load(float (*v)[ROWS], const float *u, size_t n, size_t places)
{
    for (size_t i = 0; i < places; i++)
        for (size_t row = 0; row < ROWS; row++)
            v[i][row] = u[row * n + i];
}

static void store(float *u, float (*v)[ROWS], size_t n, size_t places)
{
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i < places; i++)
            u[row * n + i] = v[i][row];
}

/* Solves z L^T = u; z replaces u. part: [BLOCK, n] scratch */
static void solve_up(const struct correct_task *t, float *u, float *part)
{
    size_t n = t->m->n;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t places = n - first < BLOCK ? n - first : BLOCK;
        const float *l = t->m->factor + first * n;
        float v[BLOCK][ROWS];
        for (size_t i = 0; i < places; i++)
            for (size_t k = 0; k < first; k++)
                part[i * first + k] = -l[i * n + k];
        subtract(t, u + first, u, part, places, first);
        load(v, u + first, n, places);
        for (size_t i = 0; i < places; i++)
            for (size_t j = 0; j < i; j++)
                for (size_t row = 0; row < ROWS; row++)
                    v[i][row] -= l[i * n + first + j] * v[j][row];
        store(u + first, v, n, places);
    }
}

/* Solves v L = u; v replaces u. part: [BLOCK, n] scratch */
static void solve_down(const struct correct_task *t, float *u, float *part)
{
    size_t n = t->m->n;
    for (size_t end = n, places; end > 0; end -= places) {
        places = end % BLOCK ? end % BLOCK : BLOCK;
        size_t first = end - places, after = n - end;
        const float *l = t->m->factor + first;
        float v[BLOCK][ROWS];
        for (size_t k = 0; k < after; k++)
            for (size_t i = 0; i < places; i++)
                part[i * after + k] = -l[(end + k) * n + i];
        subtract(t, u + first, u + end, part, places, after);
        load(v, u + first, n, places);
        for (size_t j = places; j-- > 0;)
            for (size_t i = 0; i < j; i++)
                for (size_t row = 0; row < ROWS; row++)
                    v[i][row] -= l[(first + j) * n + i] * v[j][row];
        store(u + first, v, n, places);
    }
}

/* Solves v L D L^T = u; v replaces u. u: [ROWS, n] by place */
static void solve(const struct correct_task *t, float *u, float *part)
{
    size_t n = t->m->n;
    solve_up(t, u, part);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i < n; i++)
            u[row * n + i] /= t->m->weight[i];
    solve_down(t, u, part);
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

/* rows: at most ROWS; scratch: [2 * ROWS + BLOCK, n] */
static void correct_rows(const struct correct_task *t, size_t first, size_t rows, float *scratch)
{
    const struct metric *m = t->m;
    size_t n = m->n;
    float *w = t->w + first * n, *moved = scratch + n * ROWS, *part = moved + n * ROWS,
          *u = scratch; /* after the rows by channel */
    add_up(t, first, rows, scratch, moved);
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i < n; i++)
            u[row * n + i] = row < rows ? moved[row * n + channel_of(m, m->column[i])] : 0;
    solve(t, u, part);
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < n; i++) {
            float *to = &w[row * n + m->column[i]], v = *to + SHARE * u[row * n + i];
            *to = isfinite(v) ? v : *to;
        }
}

/* Each thread corrects ROWS rows at a time. */
static void correct_share(void *arg, int tid, int n_threads)
{
    const struct correct_task *t = arg;
    for (size_t i = (size_t)tid * ROWS; i < t->rows; i += (size_t)n_threads * ROWS)
        correct_rows(t, i, t->rows - i < ROWS ? t->rows - i : ROWS,
                     t->scratch + (size_t)tid * (2 * ROWS + BLOCK) * t->m->n);
}

bool correct_weights(float *w, size_t rows, const struct metric *m, const struct correct_for *f,
                     const struct tft_kernels *kern, int n_threads)
{
    struct correct_task t = {.w = w, .rows = rows, .m = m, .f = f, .kern = kern};
    t.scratch = array_alloc(sizeof *t.scratch, m->n, 2 * ROWS + BLOCK, (uint64_t)n_threads);
    if (!t.scratch)
        return false;
    tft_port_team(n_threads, correct_share, &t);
    free(t.scratch);
    return true;
}
