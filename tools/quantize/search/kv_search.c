#include "tools/quantize/search/kv_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "kv/kv.h"
#include "port/port.h"
#include "run/session.h"

enum { HELD_OUT = 5 };                              /* one window in so many, as in tuning */
enum { MEASURED_TOKENS = 1024, JUDGED_TOKENS = 2048 }; /* of text, whole windows of it */
enum { KEYS, VALUES };

/* What a unit may have: mixed keys, and everything else. */
static const float mixed_bits[] = {1,     1.25f, 1.5f,  1.75f, 2,     2.25f, 2.5f,
                                   2.75f, 3,     3.25f, 3.5f,  3.75f, 4,     16},
                   whole_bits[] = {1, 1.5f, 2, 3, 4, 8, 16};
/* Of these some are measured in all layers, and one of the fewest in each layer alone. */
static const struct kv_side_found mixed_points = {7,
                                                  {1, 1.25f, 1.5f, 2, 2.5f, 3, 4},
                                                  {0},
                                                  0,
                                                  1.25f},
                                  whole_points = {6, {1, 1.5f, 2, 3, 4, 8}, {0}, 0, 1};

struct searcher {
    const struct tft_model *m;
    const struct kv_search_opts *o;
    struct kv_search *r;
    struct tft_error bad;
    struct tft_kv_policy policy; /* of o->kv */
    uint32_t n_units;
    struct knapsack_item *unit; /* [n_units] */
    float *bits;          /* [n_units] of a cache that is being put into words */
    uint32_t *window;     /* those that are run now */
    uint32_t n_windows, scored;
    float *reference;     /* [n_windows, scored, V] logits with the f16 cache */
    double *divergence;   /* [scored] */
    double work, all_work; /* windows */
    bool stopped;
};

static bool failed(const struct searcher *z)
{
    return z->bad.code != TFT_OK || z->stopped;
}

/* ---------------------------------------------------------------------------------------- words */

/* ",k=3x4/2": a side of z->bits. False if there is no room for it. */
static bool put_side(const struct searcher *z, int side, char text[TFT_KV_TEXT], const char *name)
{
    size_t n = strlen(text), runs = 0;
    for (uint32_t l = 0, end, layers = z->n_units / 2; l < layers; l = end) {
        float bits = z->bits[2 * l + (uint32_t)side];
        for (end = l + 1; end < layers && z->bits[2 * end + (uint32_t)side] == bits;)
            end++;
        int wrote = end < layers
                        ? snprintf(text + n, TFT_KV_TEXT - n, "%s%gx%u", l ? "/" : name,
                                   (double)bits, end - l)
                        : snprintf(text + n, TFT_KV_TEXT - n, "%s%g", l ? "/" : name, (double)bits);
        n += (size_t)wrote;
        if (n >= TFT_KV_TEXT || ++runs > TFT_KV_RUNS)
            return false;
    }
    return true;
}

/* The cache that z->bits are of. */
static void put_kv(struct searcher *z, char text[TFT_KV_TEXT])
{
    bool knobs = strchr(z->o->kv, '=') != NULL; /* there are some already */
    int n = snprintf(text, TFT_KV_TEXT, "%s", z->o->kv);
    if (n >= TFT_KV_TEXT || !put_side(z, KEYS, text, knobs ? ",k=" : ":k=") ||
        !put_side(z, VALUES, text, ",v="))
        tft_fail(&z->bad, TFT_ERR_UNSUPPORTED,
                 "%s: too many layers for a cache with bits for each to be put into words",
                 z->m->source.name);
}

/* All units have 16 bits, but every step-th from `first` on. */
static void put_some(struct searcher *z, uint32_t first, uint32_t step, float bits,
                     char text[TFT_KV_TEXT])
{
    for (uint32_t i = 0; i < z->n_units; i++)
        z->bits[i] = i >= first && (i - first) % step == 0 ? bits : 16;
    put_kv(z, text);
}

static size_t block_bytes(struct searcher *z, const char *kv)
{
    struct tft_kv_policy policy = {0};
    struct tft_kv_shape shape = tft_model_kv_shape(z->m);
    tft_kv_parse(&policy, kv, &z->bad);
    return failed(z) ? 0 : tft_kv_block_bytes(&shape, &policy);
}

/* ----------------------------------------------------------------------------------- divergence */

/* Logits of the second half of a window, with a cache. */
static struct tft_session *run(struct searcher *z, const char *kv, uint32_t window)
{
    struct tft_session_opts so = {.size = sizeof so,
                                  .capacity = z->o->window,
                                  .n_batch = z->scored,
                                  .n_logits = z->scored,
                                  .n_threads = z->o->n_threads,
                                  .kv = kv};
    struct tft_session *s = NULL;
    const int32_t *ids = z->o->text + (size_t)window * z->o->window;
    if (tft_session_open(&s, z->m, &so, &z->bad) == TFT_OK &&
        tft_prefill(s, ids, z->o->window) != TFT_OK)
        tft_fail(&z->bad, TFT_ERR_ARG, "%s: a token that is none in the text", z->m->source.name);
    z->work++;
    if (z->o->progress && !z->o->progress(z->o->user, fmin(z->work / z->all_work, 1)))
        z->stopped = true;
    return s;
}

struct compared {
    const struct searcher *z;
    const struct tft_session *s;
    const float *reference; /* [scored, V] */
};

/* The sum of p ln (p / q), p and q from logits. */
static double divergence(const float *p, const float *q, uint32_t n)
{
    double p_max = -INFINITY, q_max = -INFINITY, p_sum = 0, q_sum = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        p_max = fmax(p_max, (double)p[i]);
        q_max = fmax(q_max, (double)q[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        double e = exp((double)p[i] - p_max);
        p_sum += e;
        q_sum += exp((double)q[i] - q_max);
        sum += e * ((double)p[i] - (double)q[i]);
    }
    return sum / p_sum - (p_max + log(p_sum)) + (q_max + log(q_sum));
}

static void compare(void *arg, int tid, int n_threads)
{
    const struct compared *c = arg;
    uint32_t n = c->z->scored, vocab = c->z->m->n_vocab;
    for (uint32_t i = (uint32_t)tid; i < n; i += (uint32_t)n_threads)
        c->z->divergence[i] = divergence(c->reference + (size_t)i * vocab,
                                         tft_logits(c->s, n - 1 - i), vocab);
}

/* The windows of z with the f16 cache. */
static void take_reference(struct searcher *z)
{
    size_t each = (size_t)z->scored * z->m->n_vocab, bytes;
    free(z->reference);
    z->reference = tft_mul(each * z->n_windows, sizeof *z->reference, &bytes) ? malloc(bytes)
                                                                              : NULL;
    if (!z->reference)
        tft_fail(&z->bad, TFT_ERR_NOMEM, "%s: no memory for the logits of %u tokens",
                 z->m->source.name, z->scored * z->n_windows);
    for (uint32_t i = 0; i < z->n_windows && !failed(z); i++) {
        struct tft_session *s = run(z, "f16", z->window[i]);
        for (uint32_t j = 0; j < z->scored && !failed(z); j++)
            memcpy(z->reference + i * each + (size_t)j * z->m->n_vocab,
                   tft_logits(s, z->scored - 1 - j), z->m->n_vocab * sizeof(float));
        tft_session_close(s);
    }
}

/* The mean over the windows of z. */
static double measure(struct searcher *z, const char *kv)
{
    double sum = 0;
    int n_threads = !tft_port_threaded() ? 1 : z->o->n_threads ? z->o->n_threads : tft_port_cpus();
    for (uint32_t i = 0; i < z->n_windows && !failed(z); i++) {
        struct tft_session *s = run(z, kv, z->window[i]);
        struct compared c = {z, s, z->reference + (size_t)i * z->scored * z->m->n_vocab};
        if (!failed(z))
            tft_port_team(n_threads, compare, &c);
        tft_session_close(s);
        for (uint32_t j = 0; j < z->scored && !failed(z); j++)
            sum += z->divergence[j];
    }
    if (!failed(z) && !isfinite(sum))
        tft_fail(&z->bad, TFT_ERR_UNSUPPORTED, "%s: gives logits that are no numbers",
                 z->m->source.name);
    return sum / ((double)z->scored * z->n_windows);
}

/* put_some, measured */
static double measure_bits(struct searcher *z, uint32_t first, uint32_t step, float bits)
{
    char kv[TFT_KV_TEXT];
    put_some(z, first, step, bits, kv);
    return failed(z) ? 0 : measure(z, kv);
}

/* ---------------------------------------------------------------------------------------- costs */

static bool mixed(const struct searcher *z, uint32_t side)
{
    return side == KEYS && z->policy.k.axis == TFT_KV_MIXED;
}

static const float *bits_of(const struct searcher *z, uint32_t side, uint32_t *n)
{
    *n = mixed(z, side) ? sizeof mixed_bits / sizeof *mixed_bits
                        : sizeof whole_bits / sizeof *whole_bits;
    return mixed(z, side) ? mixed_bits : whole_bits;
}

/* See kv_search.h. No higher than what is measured of the most bits. */
static double floor_of(const struct kv_side_found *f)
{
    uint32_t n = f->n;
    return f->cost[n - 1] - fmax(f->cost[n - 2] - f->cost[n - 1], 0) /
                                (pow(4, (double)(f->bits[n - 1] - f->bits[n - 2])) - 1);
}

static void measure_side(struct searcher *z, uint32_t side)
{
    struct kv_side_found *f = &z->r->side[side];
    *f = mixed(z, side) ? mixed_points : whole_points;
    for (uint32_t j = 0; j < f->n && !failed(z); j++)
        f->cost[j] = measure_bits(z, side, 2, f->bits[j]);
    f->floor = floor_of(f);
    for (uint32_t i = side; i < z->n_units && !failed(z); i += 2)
        z->r->unit[i].cost = measure_bits(z, i, z->n_units, f->alone);
}

/* The least of n costs, above the floor: more bits cost no more, what else there is in them is
   noise. So is a hundredth of the floor. */
static double above(double floor, const double *cost, uint32_t n)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < n; i++)
        least = fmin(least, cost[i] - floor);
    return fmax(least, 0.01 * floor + 1e-9);
}

/* Of all layers of a side. */
static double side_cost(const struct kv_side_found *f, float bits)
{
    uint32_t i = 1;
    while (f->bits[i] < bits)
        i++;
    double at = (double)((bits - f->bits[i - 1]) / (f->bits[i] - f->bits[i - 1]));
    return exp((1 - at) * log(above(f->floor, f->cost, i)) +
               at * log(above(f->floor, f->cost, i + 1)));
}

static void take_costs(struct searcher *z)
{
    for (uint32_t i = 0; i < z->n_units; i++) {
        uint32_t n;
        const float *bits = bits_of(z, i % 2, &n);
        double sum = 0;
        for (uint32_t j = i % 2; j < z->n_units; j += 2)
            sum += above(z->r->floor, &z->r->unit[j].cost, 1);
        double share = above(z->r->floor, &z->r->unit[i].cost, 1) / sum;
        for (uint32_t j = 0; j < n; j++)
            z->unit[i].cost[j] = bits[j] == 16 ? 0 : share * side_cost(&z->r->side[i % 2], bits[j]);
    }
}

/* Units of a side are as long as each other. */
static void take_bytes(struct searcher *z)
{
    char kv[TFT_KV_TEXT];
    put_some(z, 0, 1, 16, kv);
    size_t all = failed(z) ? 0 : block_bytes(z, kv);
    for (uint32_t i = 0; i < z->n_units; i++) {
        const float *bits = bits_of(z, i % 2, &z->unit[i].n);
        for (uint32_t j = 0; j < z->unit[i].n && !failed(z); j++) {
            put_some(z, i, z->n_units, bits[j], kv);
            z->unit[i].bytes[j] = i > 1 ? z->unit[i - 2].bytes[j]
                                        : block_bytes(z, kv) + all / z->n_units - all;
        }
    }
}

/* --------------------------------------------------------------------------------------- choice */

static void put_picked(struct searcher *z, struct kv_held_out *h)
{
    for (uint32_t i = 0; i < z->n_units; i++) {
        uint32_t n;
        z->bits[i] = bits_of(z, i % 2, &n)[z->unit[i].picked];
    }
    put_kv(z, h->kv);
    h->bytes = tft_kv_bytes(z->m, h->kv);
}

/* All layers are given the same. */
static void pick_uniform(struct searcher *z, size_t budget)
{
    uint32_t n[2], best[2] = {0, 0};
    double least = INFINITY;
    bits_of(z, KEYS, &n[KEYS]);
    bits_of(z, VALUES, &n[VALUES]);
    for (uint32_t k = 0; k < n[KEYS]; k++)
        for (uint32_t v = 0; v < n[VALUES]; v++) {
            double cost = 0;
            size_t bytes = 0;
            for (uint32_t i = 0; i < z->n_units; i++) {
                cost += z->unit[i].cost[i % 2 ? v : k];
                bytes += z->unit[i].bytes[i % 2 ? v : k];
            }
            if (bytes <= budget && cost < least) {
                least = cost;
                best[KEYS] = k;
                best[VALUES] = v;
            }
        }
    for (uint32_t i = 0; i < z->n_units; i++)
        z->unit[i].picked = best[i % 2];
}

static void choose(struct searcher *z)
{
    size_t budget = z->r->budget * tft_kv_block(&z->policy);
    take_costs(z);
    pick_uniform(z, budget);
    put_picked(z, &z->r->uniform);
    if (!knapsack_solve(z->unit, z->n_units, budget))
        tft_fail(&z->bad, TFT_ERR_NOMEM, "%s: no memory to share out the bits of its cache",
                 z->m->source.name);
    put_picked(z, &z->r->searched);
    for (uint32_t i = 0; i < z->n_units; i++)
        z->r->unit[i].bits = z->bits[i];
}

/* -------------------------------------------------------------------------------------- windows */

static bool held_out(const struct kv_search_opts *o, uint32_t window)
{
    return window % HELD_OUT == HELD_OUT - 1 ||
           (o->n_windows < HELD_OUT && window == o->n_windows - 1);
}

/* Of those that are held out, or of the others, so many that they have `tokens`, spread over
   all. */
static void choose_windows(struct searcher *z, bool held, uint32_t tokens)
{
    uint32_t have = 0, want = (tokens + z->o->window - 1) / z->o->window;
    for (uint32_t i = 0; i < z->o->n_windows; i++)
        if (held_out(z->o, i) == held)
            z->window[have++] = i;
    z->n_windows = have < want ? have : want;
    for (uint32_t i = 0; i < z->n_windows; i++)
        z->window[i] = z->window[(size_t)i * have / z->n_windows];
}

static uint32_t count_windows(struct searcher *z, bool held, uint32_t tokens)
{
    choose_windows(z, held, tokens);
    return z->n_windows;
}

static void search(struct searcher *z)
{
    uint32_t judged = count_windows(z, true, JUDGED_TOKENS),
             measured = count_windows(z, false, MEASURED_TOKENS);
    double points = (mixed(z, KEYS) ? mixed_points.n : whole_points.n) + whole_points.n;
    z->all_work = measured * (z->n_units + points + 2) + 3.0 * judged;
    take_reference(z);
    z->r->floor = failed(z) ? 0 : measure_bits(z, 0, 1, 16);
    measure_side(z, KEYS);
    measure_side(z, VALUES);
    if (!failed(z))
        choose(z);
    choose_windows(z, true, JUDGED_TOKENS);
    if (!failed(z))
        take_reference(z);
    z->r->uniform.divergence = failed(z) ? 0 : measure(z, z->r->uniform.kv);
    z->r->searched.divergence = failed(z) ? 0 : measure(z, z->r->searched.kv);
    z->r->better = z->r->searched.divergence < z->r->uniform.divergence;
}

/* -------------------------------------------------------------------------------------- opening */

/* Whether the second half of a window sees tokens that have codes. */
static bool long_enough(const struct searcher *z)
{
    struct tft_retained at = {0};
    for (uint32_t left = z->o->window, n; left; left -= n) {
        if (!tft_retain_room(&z->policy, &at))
            tft_retain_evict(&z->policy, &at, NULL, NULL);
        uint32_t room = tft_retain_room(&z->policy, &at);
        n = left < room ? left : room;
        tft_retain_add(&z->policy, &at, n);
    }
    return at.blocks > 0;
}

static void check(struct searcher *z)
{
    const struct kv_search_opts *o = z->o;
    const char *name = z->m->source.name;
    if (tft_kv_parse(&z->policy, o->kv, &z->bad) != TFT_OK)
        return;
    if (!tft_kv_evicts(&z->policy))
        tft_fail(&z->bad, TFT_ERR_ARG, "a KV cache of %s has no bits to search for", o->kv);
    else if (!tft_kv_bytes(z->m, "rtn")) /* the importance of mixed keys is yet to come perhaps */
        tft_fail(&z->bad, TFT_ERR_UNSUPPORTED, "%s: is no model for a cache like %s", name, o->kv);
    else if (o->n_windows < 2)
        tft_fail(
            &z->bad, TFT_ERR_ARG,
            "%s: a search takes two windows of text at least, one to measure and one to judge by",
            name);
    else if (!long_enough(z))
        tft_fail(&z->bad, TFT_ERR_ARG,
                 "%s: a window of %u tokens is too short: this cache holds all of them as f16",
                 name, o->window);
}

static void set_budget(struct searcher *z)
{
    const struct tft_model *m = z->m;
    double numbers = 2.0 * m->n_layer * m->n_head_kv * m->head_dim;
    z->r->n_layer = m->n_layer;
    z->r->budget = z->o->bytes ? z->o->bytes : (size_t)(z->o->bits * numbers / 8 + 1e-6);
    size_t block = tft_kv_block(&z->policy),
           least = (knapsack_least(z->unit, z->n_units) + block - 1) / block;
    if (z->r->budget < least)
        tft_fail(&z->bad, TFT_ERR_ARG,
                 "%s: a token takes %zu bytes at least in such a cache, and the budget is %zu",
                 m->source.name, least, z->r->budget);
}

static bool take(struct searcher *z)
{
    z->n_units = 2 * z->m->n_layer;
    z->scored = z->o->window / 2;
    z->unit = calloc(z->n_units, sizeof *z->unit);
    z->bits = malloc(z->n_units * sizeof *z->bits);
    z->window = malloc(z->o->n_windows * sizeof *z->window);
    z->divergence = malloc(z->scored * sizeof *z->divergence);
    z->r->unit = calloc(z->n_units, sizeof *z->r->unit);
    return z->unit && z->bits && z->window && z->divergence && z->r->unit;
}

void kv_search_free(struct kv_search *r)
{
    free(r->unit);
    *r = (struct kv_search){0};
}

static void begin(struct searcher *z)
{
    *z->r = (struct kv_search){0};
    check(z);
    if (!failed(z) && !take(z))
        tft_fail(&z->bad, TFT_ERR_NOMEM, "%s: no memory", z->m->source.name);
    if (!failed(z))
        take_bytes(z);
    if (!failed(z))
        set_budget(z);
}

static enum tft_status end(struct searcher *z, struct tft_error *err)
{
    free(z->unit);
    free(z->bits);
    free(z->window);
    free(z->divergence);
    free(z->reference);
    if (failed(z))
        kv_search_free(z->r);
    if (z->bad.code != TFT_OK && err)
        *err = z->bad;
    return z->bad.code;
}

enum tft_status kv_search_check(const struct tft_model *m, const struct kv_search_opts *o,
                                struct tft_error *err)
{
    struct kv_search none;
    struct searcher z = {.m = m, .o = o, .r = &none};
    begin(&z);
    enum tft_status status = end(&z, err);
    kv_search_free(&none);
    return status;
}

enum tft_status kv_search(const struct tft_model *m, const struct kv_search_opts *o,
                          struct kv_search *r, bool *stopped, struct tft_error *err)
{
    struct searcher z = {.m = m, .o = o, .r = r};
    begin(&z);
    if (!failed(&z))
        search(&z);
    *stopped = z.stopped;
    return end(&z, err);
}
