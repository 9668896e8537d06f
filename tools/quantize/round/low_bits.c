#include "tools/quantize/round/low_bits.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "port/port.h"
#include "tools/quantize/array.h"
#include "tools/quantize/round/pack_low.h"

bool low_bits_open(struct low_bits *q, size_t rows, size_t cols, uint32_t bits, uint32_t group)
{
    size_t n;
    *q = (struct low_bits){.bits = bits,
                           .group = group,
                           .rows = rows,
                           .cols = cols,
                           .groups = (cols + group - 1) / group};
    if (!tft_mul(rows, cols, &n))
        return false;
    q->code = malloc(n + 1);
    q->factors = malloc(rows * q->groups + 1);
    q->row_scale = malloc((rows + 1) * sizeof *q->row_scale);
    return q->code && q->factors && q->row_scale;
}

void low_bits_close(struct low_bits *q)
{
    free(q->code);
    free(q->factors);
    free(q->row_scale);
    *q = (struct low_bits){0};
}

void low_bits_int8(const struct low_bits *q, size_t row, int8_t *to)
{
    const uint8_t *code = q->code + row * q->cols;
    for (size_t k = 0; k < q->cols; k++) {
        uint8_t factors = q->factors[row * q->groups + k / q->group];
        to[k] = (int8_t)(pack_low_scale(factors) * (code[k] - pack_low_zero(factors)));
    }
}

/* ------------------------------------------------------------------------------------- a group */

enum { LANES = 8, CANDIDATES = LOW_BITS_SCALE * 4, FINALISTS = 5 };

/* Some weights of a row that share s and z, in units of the row's scale and in the order of places.
   Arrays are padded with zeros to whole LANES. */
struct group {
    size_t n;
    int levels;                   /* the largest code */
    float weight[LOW_BITS_GROUP]; /* input of the rounding */
    float target[LOW_BITS_GROUP]; /* the weight with the feedback of the groups before */
    float cost[LOW_BITS_GROUP];   /* of an error, squared */
    const float *factor;          /* [n, LOW_BITS_GROUP] L within the group; NULL: no feedback */
};

/* A scale s and zero z to try. Weights become s * (c - z), and c - z is in low .. high. */
struct candidate {
    int scale, zero;
    float low, high, cost;
};

/* The nearest multiple for v = w / scale, between low and high. Adding 1.5 * 2^23 rounds a small
   float to an integer, ties to even, like rintf, which compilers do not vectorize for old CPUs. */
static inline float multiple(float v, float low, float high)
{
    v = v > low ? v : low; /* also if v is NaN */
    v = v < high ? v : high;
    return (v + 0x1.8p23f) - 0x1.8p23f;
}

/* The cost of rounding each target to the nearest. */
static float cost_nearest(const struct group *g, const struct candidate *c)
{
    float inverse = 1 / (float)c->scale, scale = (float)c->scale, sum[LANES] = {0}, all = 0;
    for (size_t i = 0; i < g->n; i += LANES)
        for (size_t j = 0; j < LANES; j++) {
            float w = g->target[i + j], e = w - scale * multiple(w * inverse, c->low, c->high);
            sum[j] += g->cost[i + j] * e * e;
        }
    for (size_t j = 0; j < LANES; j++)
        all += sum[j];
    return all;
}

/* Rounds with feedback from each weight to later ones. w8: [n]. Returns the cost, or one above
   `most` as soon as it is reached. */
static float round_group(const struct group *g, const struct candidate *c, float most, float *w8)
{
    float inverse = 1 / (float)c->scale, scale = (float)c->scale, t[LOW_BITS_GROUP], cost = 0;
    memcpy(t, g->target, sizeof t);
    for (size_t i = g->n; i-- > 0 && !(cost > most);) {
        w8[i] = scale * multiple(t[i] * inverse, c->low, c->high);
        float e = t[i] - w8[i];
        cost += g->cost[i] * e * e;
        if (!g->factor)
            continue;
        const float *l = g->factor + i * LOW_BITS_GROUP;
        e = g->weight[i] - w8[i];
        for (size_t j = 0; j < i; j++)
            t[j] += e * l[j];
    }
    return cost;
}

static int least(int a, int b) { return a < b ? a : b; }

static int most(int a, int b) { return a > b ? a : b; }

static struct candidate candidate_of(const struct group *g, int scale, int zero)
{
    int limit = 127 / scale;
    return (struct candidate){.scale = scale,
                              .zero = zero,
                              .low = (float)most(-zero, -limit),
                              .high = (float)least(g->levels - zero, limit)};
}

/* Lists scales from the one for the whole range of the targets down to about half of it, and zeros
   that clip both ends alike, or one end by up to `aside` steps more. Returns their number. */
static size_t list_candidates(const struct group *g, int aside, struct candidate *list)
{
    float low = 0, high = 0; /* codes cannot be far from 0 */
    size_t n = 0;
    for (size_t i = 0; i < g->n; i++) {
        low = g->target[i] < low ? g->target[i] : low;
        high = g->target[i] > high ? g->target[i] : high;
    }
    float step = fminf(fmaxf((high - low) / (float)g->levels, 0), 2 * LOW_BITS_SCALE);
    int top = most(1, least((int)ceilf(step), LOW_BITS_SCALE)),
        bottom = least(top, most(1, (int)(step * 0.5f)));
    for (int scale = top; scale >= bottom; scale--) {
        float middle = (float)g->levels / 2 - (low + high) / 2 / (float)scale;
        int zero = (int)floorf(fminf(fmaxf(middle, 0), LOW_BITS_ZERO));
        for (int z = most(zero - aside, 0); z <= least(zero + 1 + aside, LOW_BITS_ZERO); z++) {
            list[n] = candidate_of(g, scale, z);
            list[n].cost = cost_nearest(g, &list[n]);
            n++;
        }
    }
    return n;
}

/* The cost of the group rounded to nearest. */
static float group_cost(const struct group *g)
{
    struct candidate list[CANDIDATES];
    float best = FLT_MAX;
    for (size_t i = 0, n = list_candidates(g, 0, list); i < n; i++)
        best = list[i].cost < best ? list[i].cost : best;
    return best;
}

/* Chooses scale and zero, and rounds. w8: [n]; cost: of the result */
static struct candidate choose(const struct group *g, float *w8, float *cost)
{
    struct candidate list[CANDIDATES], best = {0};
    float trial[LOW_BITS_GROUP];
    size_t n = list_candidates(g, 1, list), tries = g->factor ? FINALISTS : 1;
    for (size_t i = 0; i < tries && i < n; i++) {
        size_t next = i;
        for (size_t j = i + 1; j < n; j++)
            next = list[j].cost < list[next].cost ? j : next;
        struct candidate c = list[next];
        list[next] = list[i];
        float now = round_group(g, &c, i ? *cost : INFINITY, trial);
        if (i == 0 || now < *cost) {
            *cost = now;
            best = c;
            memcpy(w8, trial, sizeof trial);
        }
    }
    return best;
}

/* ------------------------------------------------------------------------------------ a matrix */

struct matrix {
    struct low_bits *q;
    const float *w;
    const struct metric *metric;
    const struct tft_kernels *kern;
    float *error;   /* [rows, cols] weight minus rounded weight, by place */
    float *target;  /* [rows, group] feedback to the current group */
    float *columns; /* [group, cols] its columns of L, each from the place after the group; in later
                       sweeps its rows of H */
    float *within;  /* [group, LOW_BITS_GROUP] L within the group */
    float *weight;  /* [group] D within the group */
    size_t group;   /* index of the current group, in the order of places */
};

static void share(const struct matrix *a, int tid, int n_threads, size_t *begin, size_t *end)
{
    *begin = a->q->rows * (size_t)tid / (size_t)n_threads;
    *end = a->q->rows * (size_t)(tid + 1) / (size_t)n_threads;
}

/* feedback: [n], or NULL: none */
static void load_group(const struct matrix *a, struct group *g, size_t which, size_t row,
                       float scale, const float *feedback)
{
    const struct metric *m = a->metric;
    const float *w = a->w + row * a->q->cols;
    size_t first = m->begin[which], end = m->begin[which + 1];
    memset(g, 0, sizeof *g);
    g->n = end - first;
    g->levels = (1 << a->q->bits) - 1;
    for (size_t i = 0; i < g->n; i++) {
        float v = w[m->column[first + i]];
        g->weight[i] = v / scale;
        g->target[i] = (feedback ? v + feedback[i] : v) / scale;
        g->cost[i] = m->weight[first + i];
    }
}

/* The step that the widest group of a row needs if nothing is clipped. */
static double widest_step(const struct low_bits *q, const float *w)
{
    double step = 0;
    for (size_t first = 0; first < q->cols; first += q->group) {
        double low = 0, high = 0;
        for (size_t k = first; k < q->cols && k < first + q->group; k++) {
            low = fmin(low, w[k]);
            high = fmax(high, w[k]);
        }
        step = fmax(step, (high - low) / ((1 << q->bits) - 1));
        step = fmax(step, fmax(high, -low) / 127 * LOW_BITS_SCALE);
    }
    return step;
}

/* A small scale lets s be chosen finely, but clips the widest groups. */
static float choose_row_scale(const struct matrix *a, size_t row)
{
    static const float parts[] = {1, 0.85f, 0.72f, 0.61f, 0.52f};
    double step = widest_step(a->q, a->w + row * a->q->cols), best_cost = INFINITY;
    float best = 1;
    for (size_t i = 0; step > 0 && i < sizeof parts / sizeof *parts; i++) {
        float scale = fmaxf((float)(step / LOW_BITS_SCALE) * parts[i], FLT_MIN);
        double cost = 0;
        for (size_t which = 0; which < a->q->groups; which++) {
            struct group g;
            load_group(a, &g, which, row, scale, NULL);
            cost += (double)group_cost(&g);
        }
        cost *= (double)scale * (double)scale;
        if (i == 0 || cost < best_cost) {
            best_cost = cost;
            best = scale;
        }
    }
    return best;
}

static void choose_row_scales(void *arg, int tid, int n_threads)
{
    const struct matrix *a = arg;
    size_t begin, end;
    share(a, tid, n_threads, &begin, &end);
    for (size_t row = begin; row < end; row++)
        a->q->row_scale[row] = choose_row_scale(a, row);
}

/* The errors of the groups before, for a thread's rows. */
static void feed_back(const struct matrix *a, size_t begin, size_t end)
{
    const struct metric *m = a->metric;
    size_t n = m->begin[a->group + 1] - m->begin[a->group], after = m->begin[a->group + 1];
    if (after == m->n)
        memset(a->target + begin * n, 0, (end - begin) * n * sizeof *a->target);
    else
        a->kern->gemm[TFT_NUM_F32](&(struct tft_gemm){.y = a->target + begin * n,
                                                      .ldy = n,
                                                      .x = a->error + begin * m->n + after,
                                                      .ldx = m->n,
                                                      .w = a->columns,
                                                      .M = end - begin,
                                                      .N = n,
                                                      .K = m->n - after});
}

static void put_group(const struct matrix *a, const struct group *g, size_t row,
                      const struct candidate *c, const float *w8)
{
    const struct metric *m = a->metric;
    struct low_bits *q = a->q;
    size_t first = m->begin[a->group], at = row * q->groups + m->column[first] / q->group;
    q->factors[at] = pack_low_factors(c->scale, c->zero);
    for (size_t i = 0; i < g->n; i++) {
        size_t k = m->column[first + i];
        q->code[row * q->cols + k] = (uint8_t)((int)w8[i] / c->scale + c->zero);
        if (a->error)
            a->error[row * q->cols + first + i] =
                a->w[row * q->cols + k] - w8[i] * q->row_scale[row];
    }
}

static void round_rows(void *arg, int tid, int n_threads)
{
    const struct matrix *a = arg;
    size_t begin, end, n = a->metric->begin[a->group + 1] - a->metric->begin[a->group];
    share(a, tid, n_threads, &begin, &end);
    if (a->error && begin < end)
        feed_back(a, begin, end);
    for (size_t row = begin; row < end; row++) {
        struct group g;
        float w8[LOW_BITS_GROUP], cost;
        load_group(a, &g, a->group, row, a->q->row_scale[row],
                   a->error ? a->target + row * n : NULL);
        g.factor = a->within;
        struct candidate c = choose(&g, w8, &cost);
        put_group(a, &g, row, &c, w8);
    }
}

/* Copies the part of L that the next group needs. */
static void load_factor(const struct matrix *a)
{
    const struct metric *m = a->metric;
    size_t first = m->begin[a->group], end = m->begin[a->group + 1];
    for (size_t i = first; i < end; i++)
        memcpy(a->within + (i - first) * LOW_BITS_GROUP, m->factor + i * m->n + first,
               (i - first) * sizeof *a->within);
    for (size_t k = end; k < m->n; k++)
        for (size_t i = first; i < end; i++)
            a->columns[(i - first) * (m->n - end) + k - end] = m->factor[k * m->n + i];
}

/* -------------------------------------------------------------------------------------- sweeps */

/* If there is feedback. The second sweep lowers the cost of stories15M's matrices by 3 to 4 %, a
   third would by another 1 %. */
enum { SWEEPS = 2 };

/* Copies the group's rows of H, and factorizes the part within the group: L D L^T. */
static void load_block(const struct matrix *a)
{
    const struct metric *m = a->metric;
    size_t first = m->begin[a->group], n = m->begin[a->group + 1] - first;
    metric_rows(m, first, n, a->columns);
    for (size_t i = 0; i < n; i++) {
        float *row = a->within + i * LOW_BITS_GROUP;
        double d = (double)a->columns[i * m->n + first + i];
        for (size_t j = 0; j < i; j++) {
            const float *other = a->within + j * LOW_BITS_GROUP;
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
   (e H) of the group; error: [n] e; both in units of the row's scale on return. */
static void aim(const struct matrix *a, struct group *g, const float *gradient, const float *error,
                float scale)
{
    const struct metric *m = a->metric;
    size_t first = m->begin[a->group];
    float v[LOW_BITS_GROUP];
    for (size_t i = 0; i < g->n; i++) {
        float sum = gradient[i];
        const float *h = a->columns + i * m->n + first;
        for (size_t j = 0; j < g->n; j++)
            sum -= error[j] * h[j];
        v[i] = -sum / scale; /* the correction that other groups ask for: x L D L^T = v */
    }
    for (size_t i = 0; i < g->n; i++)
        for (size_t j = 0; j < i; j++)
            v[i] -= v[j] * a->within[i * LOW_BITS_GROUP + j];
    for (size_t i = g->n; i-- > 0;) {
        v[i] /= a->weight[i];
        for (size_t j = i + 1; j < g->n; j++)
            v[i] -= v[j] * a->within[j * LOW_BITS_GROUP + i];
    }
    for (size_t i = 0; i < g->n; i++) {
        g->target[i] = g->weight[i] - v[i];
        g->weight[i] = g->target[i];
        g->cost[i] = a->weight[i];
    }
}

/* The cost of the group's current numbers. */
static float cost_now(const struct matrix *a, const struct group *g, size_t row)
{
    const struct metric *m = a->metric;
    const struct low_bits *q = a->q;
    size_t first = m->begin[a->group], at = row * q->groups + m->column[first] / q->group;
    int scale = pack_low_scale(q->factors[at]), zero = pack_low_zero(q->factors[at]);
    float e[LOW_BITS_GROUP], cost = 0;
    for (size_t i = g->n; i-- > 0;) {
        int code = q->code[row * q->cols + m->column[first + i]];
        e[i] = g->target[i] - (float)(scale * (code - zero));
        float sum = e[i];
        for (size_t j = i + 1; j < g->n; j++)
            sum += e[j] * a->within[j * LOW_BITS_GROUP + i];
        cost += g->cost[i] * sum * sum;
    }
    return cost;
}

static void round_rows_again(void *arg, int tid, int n_threads)
{
    const struct matrix *a = arg;
    const struct metric *m = a->metric;
    size_t begin, end, first = m->begin[a->group], n = m->begin[a->group + 1] - first;
    share(a, tid, n_threads, &begin, &end);
    if (begin == end)
        return;
    a->kern->gemm[TFT_NUM_F32](&(struct tft_gemm){.y = a->target + begin * n,
                                                  .ldy = n,
                                                  .x = a->error + begin * m->n,
                                                  .ldx = m->n,
                                                  .w = a->columns,
                                                  .M = end - begin,
                                                  .N = n,
                                                  .K = m->n});
    for (size_t row = begin; row < end; row++) {
        struct group g;
        float w8[LOW_BITS_GROUP], scale = a->q->row_scale[row], cost;
        load_group(a, &g, a->group, row, scale, NULL);
        aim(a, &g, a->target + row * n, a->error + row * m->n + first, scale);
        g.factor = a->within;
        struct candidate c = choose(&g, w8, &cost);
        if (cost < cost_now(a, &g, row))
            put_group(a, &g, row, &c, w8);
    }
}

static bool take_memory(struct matrix *a)
{
    size_t errors, targets, n = a->q->cols, group = a->q->group;
    if (!a->metric->factor)
        return true;
    if (!tft_mul(a->q->rows, n * sizeof *a->error, &errors) ||
        !tft_mul(a->q->rows, group * sizeof *a->target, &targets))
        return false;
    a->error = malloc(errors + 1);
    a->target = malloc(targets + 1);
    a->columns = array_alloc(sizeof *a->columns, group, n, 1);
    a->within = malloc(group * LOW_BITS_GROUP * sizeof *a->within);
    a->weight = malloc(group * sizeof *a->weight);
    return a->error && a->target && a->columns && a->within && a->weight;
}

/* Rounds each group, in the order of the metric. done: number of sweeps before; after the first, a
   group changes only if this lowers the cost. */
static bool sweep(struct matrix *a, const struct low_bits_how *how, int done, int sweeps)
{
    for (a->group = a->q->groups; a->group-- > 0;) {
        if (done)
            load_block(a);
        else if (a->error)
            load_factor(a);
        tft_port_team(how->n_threads, done ? round_rows_again : round_rows, a);
        double share_done = 1 - (double)a->group / (double)a->q->groups;
        if (how->progress && !how->progress(how->user, (done + share_done) / sweeps))
            return false;
    }
    return true;
}

bool low_bits_round(struct low_bits *q, const float *w, const struct low_bits_how *how)
{
    struct matrix a = {.q = q, .w = w, .metric = how->metric, .kern = how->kern};
    bool ok = take_memory(&a);
    int sweeps = a.error ? SWEEPS : 1;
    if (ok)
        tft_port_team(how->n_threads, choose_row_scales, &a);
    for (int i = 0; ok && i < sweeps; i++)
        ok = sweep(&a, how, i, sweeps);
    free(a.error);
    free(a.target);
    free(a.columns);
    free(a.within);
    free(a.weight);
    return ok;
}
