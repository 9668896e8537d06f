#include "tools/quantize/round/grid.h"

#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "tools/quantize/array.h"
#include "tools/quantize/blocks/blocks.h"
#include "tools/quantize/round/feedback.h"

enum { NARROWEST = 16 }; /* numbers that share scales in every type */

struct grid {
    unsigned char *to;
    enum tft_dtype type;
    float *w;
    size_t rows, cols, row_bytes;
    const struct metric *metric;
    float *weight; /* [cols] of each column, for the choice of scales */
    float *start;  /* [rows, cols / NARROWEST] the number of code 0 */
    float *step;   /* likewise: from one code to the next */
    uint8_t *code; /* [rows, cols] */
    float *row;    /* [threads, 2, cols] */
};

/* NaN becomes 0. */
static float clamp(float v, float most) { return v > 0 ? v < most ? v : most : 0; }

/* Reads the grid of a row from its blocks, by giving all numbers the first code, and the last. */
static void read_grid(const struct grid *g, size_t row, float *low, float *high)
{
    unsigned char *to = g->to + row * g->row_bytes;
    const struct tft_dtype_info *info = tft_dtype_info(g->type);
    uint8_t *code = g->code + row * g->cols;
    unsigned most = blocks_levels(g->type) - 1;
    memset(code, 0, g->cols);
    blocks_codes(to, g->type, code, g->cols);
    info->to_f32(low, to, g->cols);
    memset(code, (int)most, g->cols);
    blocks_codes(to, g->type, code, g->cols);
    info->to_f32(high, to, g->cols);
    for (size_t k = 0; k < g->cols; k += NARROWEST) {
        size_t at = (row * g->cols + k) / NARROWEST;
        g->start[at] = low[k];
        g->step[at] = (high[k] - low[k]) / (float)most;
    }
}

static void choose_scales(void *arg, int tid, int n_threads)
{
    const struct grid *g = arg;
    float *scratch = g->row + (size_t)tid * 2 * g->cols;
    size_t begin = g->rows * (size_t)tid / (size_t)n_threads,
           end = g->rows * (size_t)(tid + 1) / (size_t)n_threads;
    for (size_t row = begin; row < end; row++) {
        blocks_row(g->to + row * g->row_bytes, g->type, g->w + row * g->cols, g->weight, g->cols);
        read_grid(g, row, scratch, scratch + g->cols);
    }
}

/* With feedback from each number to later ones. */
static bool round_group(void *user, size_t row, size_t which, const struct feedback_group *f,
                        bool again, float *value)
{
    const struct grid *g = user;
    const uint32_t *column = g->metric->column + g->metric->begin[which];
    float most = (float)(blocks_levels(g->type) - 1), t[FEEDBACK_GROUP], now[FEEDBACK_GROUP];
    uint8_t *code = g->code + row * g->cols, next[FEEDBACK_GROUP];
    memcpy(t, f->target, sizeof t);
    for (size_t i = f->n; i-- > 0;) {
        size_t at = (row * g->cols + column[i]) / NARROWEST;
        float step = g->step[at], inverse = step != 0 ? 1 / step : 0;
        /* adding 2^23 rounds a small float to an integer, ties to even */
        next[i] = (uint8_t)((clamp((t[i] - g->start[at]) * inverse, most) + 0x1p23f) - 0x1p23f);
        value[i] = g->start[at] + step * (float)next[i];
        now[i] = g->start[at] + step * (float)code[column[i]];
        float e = f->weight[i] - value[i];
        for (size_t j = 0; f->factor && j < i; j++)
            t[j] += e * f->factor[i * FEEDBACK_GROUP + j];
    }
    if (again && !(feedback_cost(f, value) < feedback_cost(f, now)))
        return false;
    for (size_t i = 0; i < f->n; i++)
        code[column[i]] = next[i];
    return true;
}

static void put_codes(void *arg, int tid, int n_threads)
{
    const struct grid *g = arg;
    size_t begin = g->rows * (size_t)tid / (size_t)n_threads,
           end = g->rows * (size_t)(tid + 1) / (size_t)n_threads;
    for (size_t row = begin; row < end; row++) {
        unsigned char *to = g->to + row * g->row_bytes;
        blocks_codes(to, g->type, g->code + row * g->cols, g->cols);
        tft_dtype_info(g->type)->to_f32(g->w + row * g->cols, to, g->cols);
    }
}

static bool take_memory(struct grid *g, int n_threads)
{
    g->weight = malloc(g->cols * sizeof *g->weight);
    g->start = array_alloc(sizeof *g->start, g->rows, g->cols / NARROWEST, 1);
    g->step = array_alloc(sizeof *g->step, g->rows, g->cols / NARROWEST, 1);
    g->code = array_alloc(sizeof *g->code, g->rows, g->cols, 1);
    g->row = array_alloc(sizeof *g->row, (uint64_t)n_threads, 2 * g->cols, 1);
    return g->weight && g->start && g->step && g->code && g->row;
}

bool grid_round(unsigned char *to, enum tft_dtype type, float *w, size_t rows,
                const struct grid_how *how)
{
    const struct metric *m = how->metric;
    struct grid g = {.to = to, .type = type, .w = w, .rows = rows, .cols = m->n, .metric = m};
    uint64_t bytes = 0;
    tft_dtype_bytes(type, m->n, &bytes);
    g.row_bytes = (size_t)bytes;
    bool ok = take_memory(&g, how->n_threads);
    for (size_t i = 0; ok && i < m->n; i++)
        g.weight[m->column[i]] = m->weight[i];
    if (ok)
        tft_port_team(how->n_threads, choose_scales, &g);
    ok = ok && feedback_round(&(struct feedback){.metric = m,
                                                 .rows = rows,
                                                 .w = w,
                                                 .round = round_group,
                                                 .round_user = &g,
                                                 .kern = how->kern,
                                                 .n_threads = how->n_threads,
                                                 .progress = how->progress,
                                                 .user = how->user});
    if (ok)
        tft_port_team(how->n_threads, put_codes, &g);
    free(g.weight);
    free(g.start);
    free(g.step);
    free(g.code);
    free(g.row);
    return ok;
}
