#include "tools/quantize/round/feedback.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "port/port.h"
#include "tools/quantize/array.h"

struct sweeps {
    const struct feedback *f;
    float *error;   /* [rows, cols] weight minus rounded weight, by place */
    float *target;  /* [rows, group] feedback to the current group */
    float *columns; /* [group, cols] its columns of L, each from the place after the group; in later
                       sweeps its rows of H */
    float *within;  /* [group, FEEDBACK_GROUP] L within the group */
    float *weight;  /* [group] D within the group */
    size_t group;   /* index of the current group, in the order of places */
};

static void share(const struct sweeps *a, int tid, int n_threads, size_t *begin, size_t *end)
{
    *begin = a->f->rows * (size_t)tid / (size_t)n_threads;
    *end = a->f->rows * (size_t)(tid + 1) / (size_t)n_threads;
}

static float unit_of(const struct feedback *f, size_t row) { return f->unit ? f->unit[row] : 1; }

void feedback_load(struct feedback_group *g, const struct metric *m, size_t which, const float *w,
                   float unit, const float *feedback)
{
    size_t first = m->begin[which], end = m->begin[which + 1];
    memset(g, 0, sizeof *g);
    g->n = end - first;
    for (size_t i = 0; i < g->n; i++) {
        float v = w[m->column[first + i]];
        g->weight[i] = v / unit;
        g->target[i] = (feedback ? v + feedback[i] : v) / unit;
        g->cost[i] = m->weight[first + i];
    }
}

float feedback_cost(const struct feedback_group *g, const float *value)
{
    float e[FEEDBACK_GROUP], cost = 0;
    for (size_t i = g->n; i-- > 0;) {
        e[i] = g->target[i] - value[i];
        float sum = e[i];
        for (size_t j = i + 1; j < g->n; j++)
            sum += e[j] * g->factor[j * FEEDBACK_GROUP + i];
        cost += g->cost[i] * sum * sum;
    }
    return cost;
}

/* Keeps the errors of a group that was rounded. */
static void put_errors(const struct sweeps *a, size_t row, const float *value)
{
    const struct metric *m = a->f->metric;
    size_t first = m->begin[a->group], end = m->begin[a->group + 1];
    float unit = unit_of(a->f, row);
    for (size_t i = first; i < end && a->error; i++)
        a->error[row * m->n + i] =
            a->f->w[row * m->n + m->column[i]] - value[i - first] * unit;
}

/* --------------------------------------------------------------------------------- first sweep */

/* The errors of the groups before, for a thread's rows. */
static void feed_back(const struct sweeps *a, size_t begin, size_t end)
{
    const struct metric *m = a->f->metric;
    size_t n = m->begin[a->group + 1] - m->begin[a->group], after = m->begin[a->group + 1];
    if (after == m->n)
        memset(a->target + begin * n, 0, (end - begin) * n * sizeof *a->target);
    else
        a->f->kern->gemm[TFT_NUM_F32](&(struct tft_gemm){.y = a->target + begin * n,
                                                         .ldy = n,
                                                         .x = a->error + begin * m->n + after,
                                                         .ldx = m->n,
                                                         .w = a->columns,
                                                         .M = end - begin,
                                                         .N = n,
                                                         .K = m->n - after});
}

static void round_rows(void *arg, int tid, int n_threads)
{
    const struct sweeps *a = arg;
    const struct metric *m = a->f->metric;
    size_t begin, end, n = m->begin[a->group + 1] - m->begin[a->group];
    share(a, tid, n_threads, &begin, &end);
    if (a->error && begin < end)
        feed_back(a, begin, end);
    for (size_t row = begin; row < end; row++) {
        struct feedback_group g;
        float value[FEEDBACK_GROUP];
        feedback_load(&g, m, a->group, a->f->w + row * m->n, unit_of(a->f, row),
                      a->error ? a->target + row * n : NULL);
        g.factor = a->within;
        if (a->f->round(a->f->round_user, row, a->group, &g, false, value))
            put_errors(a, row, value);
    }
}

/* Copies the part of L that the next group needs. */
static void load_factor(const struct sweeps *a)
{
    const struct metric *m = a->f->metric;
    size_t first = m->begin[a->group], end = m->begin[a->group + 1];
    for (size_t i = first; i < end; i++)
        memcpy(a->within + (i - first) * FEEDBACK_GROUP, m->factor + i * m->n + first,
               (i - first) * sizeof *a->within);
    for (size_t k = end; k < m->n; k++)
        for (size_t i = first; i < end; i++)
            a->columns[(i - first) * (m->n - end) + k - end] = m->factor[k * m->n + i];
}

/* -------------------------------------------------------------------------------- later sweeps */

/* The number of sweeps, if there is feedback. The second one lowers the cost of stories15M's
   matrices by 3 to 4 %, a third one would by another 1 %. */
enum { SWEEPS = 2 };

/* Copies the group's rows of H, and factorizes the part within the group: L D L^T. */
static void load_block(const struct sweeps *a)
{
    const struct metric *m = a->f->metric;
    size_t first = m->begin[a->group], n = m->begin[a->group + 1] - first;
    metric_rows(m, first, n, a->columns);
    for (size_t i = 0; i < n; i++) {
        float *row = a->within + i * FEEDBACK_GROUP;
        double d = (double)a->columns[i * m->n + first + i];
        for (size_t j = 0; j < i; j++) {
            const float *other = a->within + j * FEEDBACK_GROUP;
            double v = (double)a->columns[i * m->n + first + j];
            for (size_t k = 0; k < j; k++)
                v -= (double)row[k] * (double)other[k] * (double)a->weight[k];
            row[j] = (float)(v / (double)a->weight[j]);
            d -= (double)row[j] * (double)row[j] * (double)a->weight[j];
        }
        a->weight[i] = (float)d;
    }
}

/* Sets the group's targets to the best weights for the errors elsewhere in the row. gradient: [n]
   (e H) of the group; error: [n] e; both in units of the row on return. */
static void aim(const struct sweeps *a, struct feedback_group *g, const float *gradient,
                const float *error, float unit)
{
    const struct metric *m = a->f->metric;
    size_t first = m->begin[a->group];
    float v[FEEDBACK_GROUP];
    for (size_t i = 0; i < g->n; i++) {
        float sum = gradient[i];
        const float *h = a->columns + i * m->n + first;
        for (size_t j = 0; j < g->n; j++)
            sum -= error[j] * h[j];
        v[i] = -sum / unit; /* the correction that other groups ask for: x L D L^T = v */
    }
    for (size_t i = 0; i < g->n; i++)
        for (size_t j = 0; j < i; j++)
            v[i] -= v[j] * a->within[i * FEEDBACK_GROUP + j];
    for (size_t i = g->n; i-- > 0;) {
        v[i] /= a->weight[i];
        for (size_t j = i + 1; j < g->n; j++)
            v[i] -= v[j] * a->within[j * FEEDBACK_GROUP + i];
    }
    for (size_t i = 0; i < g->n; i++) {
        g->target[i] = g->weight[i] - v[i];
        g->weight[i] = g->target[i];
        g->cost[i] = a->weight[i];
    }
}

static void round_rows_again(void *arg, int tid, int n_threads)
{
    const struct sweeps *a = arg;
    const struct metric *m = a->f->metric;
    size_t begin, end, first = m->begin[a->group], n = m->begin[a->group + 1] - first;
    share(a, tid, n_threads, &begin, &end);
    if (begin == end)
        return;
    a->f->kern->gemm[TFT_NUM_F32](&(struct tft_gemm){.y = a->target + begin * n,
                                                     .ldy = n,
                                                     .x = a->error + begin * m->n,
                                                     .ldx = m->n,
                                                     .w = a->columns,
                                                     .M = end - begin,
                                                     .N = n,
                                                     .K = m->n});
    for (size_t row = begin; row < end; row++) {
        struct feedback_group g;
        float value[FEEDBACK_GROUP], unit = unit_of(a->f, row);
        feedback_load(&g, m, a->group, a->f->w + row * m->n, unit, NULL);
        aim(a, &g, a->target + row * n, a->error + row * m->n + first, unit);
        g.factor = a->within;
        if (a->f->round(a->f->round_user, row, a->group, &g, true, value))
            put_errors(a, row, value);
    }
}

/* ----------------------------------------------------------------------------------- the whole */

static bool take_memory(struct sweeps *a)
{
    size_t errors, targets, n = a->f->metric->n, group = a->f->metric->group;
    if (!a->f->metric->factor)
        return true;
    if (!tft_mul(a->f->rows, n * sizeof *a->error, &errors) ||
        !tft_mul(a->f->rows, group * sizeof *a->target, &targets))
        return false;
    a->error = malloc(errors + 1);
    a->target = malloc(targets + 1);
    a->columns = array_alloc(sizeof *a->columns, group, n, 1);
    a->within = malloc(group * FEEDBACK_GROUP * sizeof *a->within);
    a->weight = malloc(group * sizeof *a->weight);
    return a->error && a->target && a->columns && a->within && a->weight;
}

/* Rounds each group, in the order of the metric. done: number of sweeps before; after the first, a
   group changes only if this lowers the cost. */
static bool sweep(struct sweeps *a, int done, int sweeps)
{
    const struct feedback *f = a->f;
    for (a->group = f->metric->groups; a->group-- > 0;) {
        if (done)
            load_block(a);
        else if (a->error)
            load_factor(a);
        tft_port_team(f->n_threads, done ? round_rows_again : round_rows, a);
        double share_done = 1 - (double)a->group / (double)f->metric->groups;
        if (f->progress && !f->progress(f->user, (done + share_done) / sweeps))
            return false;
    }
    return true;
}

bool feedback_round(const struct feedback *f)
{
    struct sweeps a = {.f = f};
    bool ok = take_memory(&a);
    int sweeps = a.error ? SWEEPS : 1;
    for (int i = 0; ok && i < sweeps; i++)
        ok = sweep(&a, i, sweeps);
    free(a.error);
    free(a.target);
    free(a.columns);
    free(a.within);
    free(a.weight);
    return ok;
}
