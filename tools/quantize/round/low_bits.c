#include "tools/quantize/round/low_bits.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "port/port.h"
#include "tools/quantize/round/feedback.h"
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

enum { LANES = FEEDBACK_LANES, CANDIDATES = LOW_BITS_SCALE * 4, FINALISTS = 5 };

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
static float cost_nearest(const struct feedback_group *g, const struct candidate *c)
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
static float round_group(const struct feedback_group *g, const struct candidate *c, float most,
                         float *w8)
{
    float inverse = 1 / (float)c->scale, scale = (float)c->scale, t[FEEDBACK_GROUP], cost = 0;
    memcpy(t, g->target, sizeof t);
    for (size_t i = g->n; i-- > 0 && !(cost > most);) {
        w8[i] = scale * multiple(t[i] * inverse, c->low, c->high);
        float e = t[i] - w8[i];
        cost += g->cost[i] * e * e;
        if (!g->factor)
            continue;
        const float *l = g->factor + i * FEEDBACK_GROUP;
        e = g->weight[i] - w8[i];
        for (size_t j = 0; j < i; j++)
            t[j] += e * l[j];
    }
    return cost;
}

static int least(int a, int b) { return a < b ? a : b; }

static int most(int a, int b) { return a > b ? a : b; }

/* levels: the largest code */
static struct candidate candidate_of(int levels, int scale, int zero)
{
    int limit = 127 / scale;
    return (struct candidate){.scale = scale,
                              .zero = zero,
                              .low = (float)most(-zero, -limit),
                              .high = (float)least(levels - zero, limit)};
}

/* Lists scales from the one for the whole range of the targets down to about half of it, and zeros
   that clip both ends alike, or one end by up to `aside` steps more. Returns their number. */
static size_t list_candidates(const struct feedback_group *g, int levels, int aside,
                              struct candidate *list)
{
    float low = 0, high = 0; /* codes cannot be far from 0 */
    size_t n = 0;
    for (size_t i = 0; i < g->n; i++) {
        low = g->target[i] < low ? g->target[i] : low;
        high = g->target[i] > high ? g->target[i] : high;
    }
    float step = fminf(fmaxf((high - low) / (float)levels, 0), 2 * LOW_BITS_SCALE);
    int top = most(1, least((int)ceilf(step), LOW_BITS_SCALE)),
        bottom = least(top, most(1, (int)(step * 0.5f)));
    for (int scale = top; scale >= bottom; scale--) {
        float middle = (float)levels / 2 - (low + high) / 2 / (float)scale;
        int zero = (int)floorf(fminf(fmaxf(middle, 0), LOW_BITS_ZERO));
        for (int z = most(zero - aside, 0); z <= least(zero + 1 + aside, LOW_BITS_ZERO); z++) {
            list[n] = candidate_of(levels, scale, z);
            list[n].cost = cost_nearest(g, &list[n]);
            n++;
        }
    }
    return n;
}

/* The cost of the group rounded to nearest. */
static float group_cost(const struct feedback_group *g, int levels)
{
    struct candidate list[CANDIDATES];
    float best = FLT_MAX;
    for (size_t i = 0, n = list_candidates(g, levels, 0, list); i < n; i++)
        best = list[i].cost < best ? list[i].cost : best;
    return best;
}

/* Chooses scale and zero, and rounds. w8: [n]; cost: of the result */
static struct candidate choose(const struct feedback_group *g, int levels, float *w8, float *cost)
{
    struct candidate list[CANDIDATES], best = {0};
    float trial[FEEDBACK_GROUP];
    size_t n = list_candidates(g, levels, 1, list), tries = g->factor ? FINALISTS : 1;
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
};

static int levels_of(const struct low_bits *q) { return (1 << q->bits) - 1; }

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
        step = fmax(step, (high - low) / levels_of(q));
        step = fmax(step, fmax(high, -low) / 127 * LOW_BITS_SCALE);
    }
    return step;
}

/* A small scale lets s be chosen finely, but clips the widest groups. */
static float choose_row_scale(const struct matrix *a, size_t row)
{
    static const float parts[] = {1, 0.85f, 0.72f, 0.61f, 0.52f};
    const float *w = a->w + row * a->q->cols;
    double step = widest_step(a->q, w), best_cost = INFINITY;
    float best = 1;
    for (size_t i = 0; step > 0 && i < sizeof parts / sizeof *parts; i++) {
        float scale = fmaxf((float)(step / LOW_BITS_SCALE) * parts[i], FLT_MIN);
        double cost = 0;
        for (size_t which = 0; which < a->q->groups; which++) {
            struct feedback_group g;
            feedback_load(&g, a->metric, which, w, scale, NULL);
            cost += (double)group_cost(&g, levels_of(a->q));
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
    size_t begin = a->q->rows * (size_t)tid / (size_t)n_threads,
           end = a->q->rows * (size_t)(tid + 1) / (size_t)n_threads;
    for (size_t row = begin; row < end; row++)
        a->q->row_scale[row] = choose_row_scale(a, row);
}

/* The current numbers of a group. */
static void read_group(const struct matrix *a, size_t row, size_t which, float *w8)
{
    const struct metric *m = a->metric;
    const struct low_bits *q = a->q;
    size_t first = m->begin[which], at = row * q->groups + m->column[first] / q->group;
    int scale = pack_low_scale(q->factors[at]), zero = pack_low_zero(q->factors[at]);
    for (size_t i = 0; first + i < m->begin[which + 1]; i++)
        w8[i] = (float)(scale * (q->code[row * q->cols + m->column[first + i]] - zero));
}

static void put_group(const struct matrix *a, size_t row, size_t which, const struct candidate *c,
                      const float *w8)
{
    const struct metric *m = a->metric;
    struct low_bits *q = a->q;
    size_t first = m->begin[which], at = row * q->groups + m->column[first] / q->group;
    q->factors[at] = pack_low_factors(c->scale, c->zero);
    for (size_t i = 0; first + i < m->begin[which + 1]; i++)
        q->code[row * q->cols + m->column[first + i]] = (uint8_t)((int)w8[i] / c->scale + c->zero);
}

static bool round_one(void *user, size_t row, size_t which, const struct feedback_group *g,
                      bool again, float *w8)
{
    const struct matrix *a = user;
    float now[FEEDBACK_GROUP], cost = 0;
    struct candidate c = choose(g, levels_of(a->q), w8, &cost);
    if (again) {
        read_group(a, row, which, now);
        if (!(cost < feedback_cost(g, now)))
            return false;
    }
    put_group(a, row, which, &c, w8);
    return true;
}

bool low_bits_round(struct low_bits *q, const float *w, const struct low_bits_how *how)
{
    struct matrix a = {q, w, how->metric};
    tft_port_team(how->n_threads, choose_row_scales, &a);
    return feedback_round(&(struct feedback){.metric = how->metric,
                                             .rows = q->rows,
                                             .w = w,
                                             .unit = q->row_scale,
                                             .round = round_one,
                                             .round_user = &a,
                                             .kern = how->kern,
                                             .n_threads = how->n_threads,
                                             .progress = how->progress,
                                             .user = how->user});
}
