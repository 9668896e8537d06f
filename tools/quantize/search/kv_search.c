#include "tools/quantize/search/kv_search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/exp_log.h"
#include "kv/kv.h"
#include "run/session.h"
#include "tools/quantize/measure/divergence.h"

/* Tokens of text to measure costs on, and to compare the results on, rounded up to whole
   windows. */
enum { MEASURED_TOKENS = 1024, JUDGED_TOKENS = 2048 };
enum { KEYS, VALUES };

/* Bits of a layer's keys or values: of keys with mixed bits, and of all others. */
static const float mixed_bits[] = {1,     1.25f, 1.5f,  1.75f, 2,     2.25f, 2.5f,
                                   2.75f, 3,     3.25f, 3.5f,  3.75f, 4,     16},
                   whole_bits[] = {1, 1.5f, 2, 3, 4, 8, 16};
/* Bits measured in all layers at once, and in each layer alone. */
static const struct kv_side_found mixed_points = {7,
                                                  {1, 1.25f, 1.5f, 2, 2.5f, 3, 4},
                                                  {0},
                                                  0,
                                                  1.25f},
                                  whole_points = {6, {1, 1.5f, 2, 3, 4, 8}, {0}, 0, 1};

/* Settings tried with a depth, one row after another. */
enum { N_VALUES = 8 };
static const struct {
    const char *name, *value[N_VALUES];
} settings[] = {
    {"clip", {"centre", "zero", "none"}},
    {"retain",
     {"window:32", "window:64", "window:128", "window:256", "fill:64", "fill:128", "log2:32",
      "log2:64"}},
    {"v", {"@token", "@channel"}},
    {"group", {"32", "64", "128"}},
};
#define N_SETTINGS (sizeof settings / sizeof *settings)
_Static_assert(1 + N_SETTINGS * N_VALUES <= KV_TRIED, "room for all, and the cache that is given");

struct searcher {
    const struct tft_model *m;
    const struct kv_search_opts *o;
    struct kv_search *r;
    struct tft_error bad;
    char kv[TFT_KV_TEXT]; /* the cache to search bits for: o->kv, or the best settings */
    struct tft_kv_policy policy; /* of kv */
    uint32_t *layer;             /* [n_kv_layer] the layer without a window that gives each layer
                                    its bits: the layer itself, or a neighbour if the layer has a
                                    window. Layers without a window are counted alone */
    uint32_t n_units;
    struct knapsack_item
        *item;        /* [n_units] keys of the first layer without a window, its values, keys of the
                         second one, and so on */
    float *bits;      /* [n_units] of the cache of format_kv */
    struct divergence d; /* from the f16 cache */
};

static bool failed(const struct searcher *z)
{
    return z->bad.code != TFT_OK || z->d.stopped;
}

/* -------------------------------------------------------------------- text of a cache policy */

/* Appends a side of z->bits, like ",k=3x4/2". False if it does not fit. */
static bool format_side(const struct searcher *z, int side, char text[TFT_KV_TEXT],
                        const char *name)
{
    size_t n = strlen(text), runs = 0;
    for (uint32_t l = 0, end, layers = z->m->n_kv_layer; l < layers; l = end) {
        float bits = z->bits[2 * z->layer[l] + (uint32_t)side];
        for (end = l + 1; end < layers && z->bits[2 * z->layer[end] + (uint32_t)side] == bits;)
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

/* The separator between a policy and one more knob. */
static char separator(const char *kv)
{
    return strchr(kv, '=') ? ',' : ':';
}

/* text = the policy z->kv with z->bits. */
static void format_kv(struct searcher *z, char text[TFT_KV_TEXT])
{
    char keys[] = {separator(z->kv), 'k', '=', 0};
    strcpy(text, z->kv);
    if (!format_side(z, KEYS, text, keys) || !format_side(z, VALUES, text, ",v="))
        tft_fail(&z->bad, TFT_ERR_UNSUPPORTED,
                 "%s: has too many layers: the cache policy with bits for each is too long",
                 z->m->source.name);
}

/* text = the policy in which units first, first + step, .. have `bits`, and all others 16. */
static void format_bits(struct searcher *z, uint32_t first, uint32_t step, float bits,
                        char text[TFT_KV_TEXT])
{
    for (uint32_t i = 0; i < z->n_units; i++)
        z->bits[i] = i >= first && (i - first) % step == 0 ? bits : 16;
    format_kv(z, text);
}

static size_t block_bytes(struct searcher *z, const char *kv)
{
    struct tft_kv_policy policy = {0};
    struct tft_kv_shape shape = tft_model_kv_shape(z->m);
    tft_kv_parse(&policy, kv, &z->bad);
    return failed(z) ? 0 : tft_kv_block_bytes(&shape, &policy);
}

/* Bytes of a token as the budget counts them, rounded up. block: bytes of a block */
static size_t token_bytes(const struct searcher *z, size_t block)
{
    struct tft_kv_shape shape = tft_model_kv_shape(z->m);
    uint32_t tokens = z->o->depth ? z->o->depth : tft_kv_block(&z->policy);
    uint64_t bytes = z->o->depth ? tft_kv_held_bytes(&shape, &z->policy, tokens, block) : block;
    return (size_t)((bytes + tokens - 1) / tokens);
}

/* The budget for the codes of a block; 0 if the slots take all of it. */
static size_t block_budget(const struct searcher *z)
{
    struct tft_kv_shape shape = tft_model_kv_shape(z->m);
    uint32_t depth = z->o->depth, block = tft_kv_block(&z->policy);
    if (!depth)
        return z->r->budget * block;
    uint64_t all = (uint64_t)z->r->budget * depth,
             slots = tft_kv_held_bytes(&shape, &z->policy, depth, 0);
    return all <= slots ? 0 : (size_t)((all - slots) / (depth / block));
}

/* ---------------------------------------------------------------------------------------- costs */

/* Measures the policy of format_bits. */
static double measure_bits(struct searcher *z, uint32_t first, uint32_t step, float bits)
{
    char kv[TFT_KV_TEXT];
    format_bits(z, first, step, bits, kv);
    return failed(z) ? 0 : divergence_measure(&z->d, kv);
}

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

/* See kv_search.h. At most the cost of the most bits. */
static double side_floor(const struct kv_side_found *f)
{
    uint32_t n = f->n;
    return f->cost[n - 1] - fmax(f->cost[n - 2] - f->cost[n - 1], 0) /
                                (tft_pow(4, (double)(f->bits[n - 1] - f->bits[n - 2])) - 1);
}

static void measure_side(struct searcher *z, uint32_t side)
{
    struct kv_side_found *f = &z->r->side[side];
    *f = mixed(z, side) ? mixed_points : whole_points;
    for (uint32_t j = 0; j < f->n && !failed(z); j++)
        f->cost[j] = measure_bits(z, side, 2, f->bits[j]);
    f->floor = side_floor(f);
    for (uint32_t i = side; i < z->n_units && !failed(z); i += 2)
        z->r->unit[i].cost = measure_bits(z, i, z->n_units, f->alone);
}

/* The least of n costs of growing bits, minus the floor: more bits never cost more, apart from
   noise. At least a hundredth of the floor, as smaller costs are noise too. */
static double above(double floor, const double *cost, uint32_t n)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < n; i++)
        least = fmin(least, cost[i] - floor);
    return fmax(least, 0.01 * floor + 1e-9);
}

/* Cost of `bits` in all layers of a side, interpolated. */
static double side_cost(const struct kv_side_found *f, float bits)
{
    uint32_t i = 1;
    while (f->bits[i] < bits)
        i++;
    double at = (double)((bits - f->bits[i - 1]) / (f->bits[i] - f->bits[i - 1]));
    return tft_exp((1 - at) * tft_log(above(f->floor, f->cost, i)) +
                   at * tft_log(above(f->floor, f->cost, i + 1)));
}

static void fill_costs(struct searcher *z)
{
    for (uint32_t i = 0; i < z->n_units; i++) {
        uint32_t n;
        const float *bits = bits_of(z, i % 2, &n);
        double sum = 0;
        for (uint32_t j = i % 2; j < z->n_units; j += 2)
            sum += above(z->r->floor, &z->r->unit[j].cost, 1);
        double share = above(z->r->floor, &z->r->unit[i].cost, 1) / sum;
        for (uint32_t j = 0; j < n; j++)
            z->item[i].cost[j] = bits[j] == 16 ? 0 : share * side_cost(&z->r->side[i % 2], bits[j]);
    }
}

/* Bytes of the keys, or the values, of a block in f16 in the n-th layer without a window. */
static size_t f16_bytes(const struct searcher *z, uint32_t n)
{
    uint32_t l = 0;
    for (; tft_model_kv_window(z->m, l) || n; l++)
        n -= !tft_model_kv_window(z->m, l);
    return tft_kv_block(&z->policy) * tft_model_kv_width(z->m, l) * sizeof(uint16_t);
}

static void fill_bytes(struct searcher *z)
{
    char kv[TFT_KV_TEXT];
    format_bits(z, 0, 1, 16, kv);
    size_t all = failed(z) ? 0 : block_bytes(z, kv);
    for (uint32_t i = 0; i < z->n_units; i++) {
        const float *bits = bits_of(z, i % 2, &z->item[i].n);
        for (uint32_t j = 0; j < z->item[i].n && !failed(z); j++) {
            format_bits(z, i, z->n_units, bits[j], kv);
            z->item[i].bytes[j] = block_bytes(z, kv) + f16_bytes(z, i / 2) - all;
        }
    }
}

/* --------------------------------------------------------------------------------------- choice */

static void format_picked(struct searcher *z, struct kv_measured *h)
{
    for (uint32_t i = 0; i < z->n_units; i++) {
        uint32_t n;
        z->bits[i] = bits_of(z, i % 2, &n)[z->item[i].picked];
    }
    format_kv(z, h->kv);
    h->bytes = token_bytes(z, block_bytes(z, h->kv));
}

/* Picks the best pair of bits that all layers share. */
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
                cost += z->item[i].cost[i % 2 ? v : k];
                bytes += z->item[i].bytes[i % 2 ? v : k];
            }
            if (bytes <= budget && cost < least) {
                least = cost;
                best[KEYS] = k;
                best[VALUES] = v;
            }
        }
    for (uint32_t i = 0; i < z->n_units; i++)
        z->item[i].picked = best[i % 2];
}

static void distribute(struct searcher *z, struct kv_measured *to)
{
    if (!knapsack_solve(z->item, z->n_units, block_budget(z)))
        tft_fail(&z->bad, TFT_ERR_NOMEM,
                 "%s: out of memory to distribute the bits of its cache", z->m->source.name);
    format_picked(z, to);
}

static void choose(struct searcher *z)
{
    fill_costs(z);
    pick_uniform(z, block_budget(z));
    format_picked(z, &z->r->uniform);
    distribute(z, &z->r->searched);
    for (uint32_t i = 0; i < z->n_units; i++)
        z->r->unit[i].bits = z->bits[i];
}

/* ------------------------------------------------------------------------------------- settings */

/* Whether the second half of a window attends to quantized keys, or values. */
static bool long_enough(const struct searcher *z, enum tft_kv_which which)
{
    struct tft_retained at = {0};
    for (uint32_t left = z->o->window, n; left; left -= n) {
        if (!tft_retain_room(&z->policy, which, &at))
            tft_retain_quantize(&z->policy, which, &at, NULL, NULL);
        uint32_t room = tft_retain_room(&z->policy, which, &at);
        n = left < room ? left : room;
        tft_retain_add(&z->policy, &at, n);
    }
    return at.blocks > 0;
}

/* Whether the cache of z->kv is within the budget at its fewest bits. */
static bool affordable(struct searcher *z)
{
    fill_bytes(z);
    return !failed(z) && knapsack_least(z->item, z->n_units) <= block_budget(z);
}

/* Measures z->kv with bits that fit the budget, as if all units had the same value. */
static double try_settings(struct searcher *z)
{
    struct kv_measured *t = &z->r->tried[z->r->n_tried++];
    for (uint32_t i = 0; i < z->n_units; i++) {
        uint32_t n;
        const float *bits = bits_of(z, i % 2, &n);
        for (uint32_t j = 0; j < n; j++)
            z->item[i].cost[j] = bits[j] == 16 ? 0 : tft_pow(4, (double)-bits[j]);
    }
    distribute(z, t);
    return t->divergence = failed(z) ? INFINITY : divergence_measure(&z->d, t->kv);
}

static bool same_settings(const struct tft_kv_policy *a, const struct tft_kv_policy *b)
{
    return a->clip == b->clip && a->group == b->group && a->k.retain == b->k.retain &&
           a->v.retain == b->v.retain && a->k.window == b->k.window &&
           a->v.window == b->v.window && a->v.axis == b->v.axis;
}

/* Adds a knob to z->kv. False if the cache stays the same, or cannot be tried. A file's order of
   channels is calibrated for one size of groups. */
static bool change(struct searcher *z, const char *name, const char *value)
{
    struct tft_kv_policy was = z->policy;
    size_t n = strlen(z->kv), room = sizeof z->kv - n;
    int wrote = snprintf(z->kv + n, room, "%c%s=%s", separator(z->kv), name, value);
    return (size_t)wrote < room && tft_kv_parse(&z->policy, z->kv, NULL) == TFT_OK &&
           !same_settings(&was, &z->policy) && (!was.reorder || was.group == z->policy.group) &&
           z->policy.k.window <= z->o->window / 4 && z->o->depth >= tft_kv_block(&z->policy) &&
           long_enough(z, TFT_KV_K) && long_enough(z, TFT_KV_V) && affordable(z);
}

/* State of a search of settings. */
struct settings {
    char kv[TFT_KV_TEXT];
    struct tft_kv_policy policy;
};

static void move_to(struct searcher *z, const struct settings *to)
{
    strcpy(z->kv, to->kv);
    z->policy = to->policy;
}

static struct settings settings_now(const struct searcher *z)
{
    struct settings now = {.policy = z->policy};
    strcpy(now.kv, z->kv);
    return now;
}

/* Leaves z->kv with the best settings. */
static void search_settings(struct searcher *z)
{
    double least = try_settings(z);
    for (size_t s = 0; s < N_SETTINGS; s++) {
        struct settings first = settings_now(z), best = first;
        for (int i = 0; i < N_VALUES && !failed(z); i++) {
            const char *value = settings[s].value[i];
            double now = INFINITY;
            if (value && change(z, settings[s].name, value))
                now = try_settings(z);
            else
                z->d.work += z->d.n_picked;
            if (now < least) {
                least = now;
                best = settings_now(z);
            }
            move_to(z, &first);
        }
        move_to(z, &best);
    }
    if (!failed(z))
        fill_bytes(z);
}

/* --------------------------------------------------------------------------------------- search */

static void search(struct searcher *z)
{
    uint32_t judged = divergence_pick(&z->d, DIVERGENCE_HELD, JUDGED_TOKENS),
             measured = divergence_pick(&z->d, DIVERGENCE_OTHERS, MEASURED_TOKENS);
    double points = (mixed(z, KEYS) ? mixed_points.n : whole_points.n) + whole_points.n;
    double tried = z->o->depth ? 1 + (double)N_SETTINGS * N_VALUES : 0;
    z->d.total_work = measured * (z->n_units + points + tried + 2) + 3.0 * judged;
    divergence_refer(&z->d, "f16");
    if (z->o->depth)
        search_settings(z);
    z->r->floor = failed(z) ? 0 : measure_bits(z, 0, 1, 16);
    measure_side(z, KEYS);
    measure_side(z, VALUES);
    if (!failed(z))
        choose(z);
    divergence_pick(&z->d, DIVERGENCE_HELD, JUDGED_TOKENS);
    divergence_refer(&z->d, "f16");
    z->r->uniform.divergence = divergence_measure(&z->d, z->r->uniform.kv);
    z->r->searched.divergence = divergence_measure(&z->d, z->r->searched.kv);
    z->r->better = z->r->searched.divergence < z->r->uniform.divergence;
}

/* -------------------------------------------------------------------------------------- opening */

/* The number of layers without a window; the search chooses their bits. */
static uint32_t searched_layers(const struct tft_model *m)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < m->n_kv_layer; l++)
        n += !tft_model_kv_window(m, l);
    return n;
}

static void check(struct searcher *z)
{
    const struct kv_search_opts *o = z->o;
    const char *name = z->m->source.name;
    if (tft_kv_parse(&z->policy, o->kv, &z->bad) != TFT_OK)
        return;
    strcpy(z->kv, o->kv); /* the parser refuses longer ones */
    if (!tft_kv_quantizes(&z->policy))
        tft_fail(&z->bad, TFT_ERR_ARG,
                 "the KV cache %s has no bits to search for: choose a quantized one", o->kv);
    else if (z->policy.clip == TFT_KV_CALIBRATED)
        tft_fail(&z->bad, TFT_ERR_ARG,
                 "the KV cache %s has clips that are calibrated for its bits, so other bits cannot "
                 "be tried: search with clip=zero",
                 o->kv);
    else if (!searched_layers(z->m))
        tft_fail(&z->bad, TFT_ERR_UNSUPPORTED,
                 "%s: all its layers have windows, which stay in floats: there are no bits to "
                 "search for",
                 name);
    else if (!tft_kv_bytes(z->m, "rtn", NULL)) /* not o->kv: m may lack mixed keys' importance */
        tft_fail(&z->bad, TFT_ERR_UNSUPPORTED, "%s: the model does not support a KV cache like %s",
                 name, o->kv);
    else if (o->n_windows < 2)
        tft_fail(&z->bad, TFT_ERR_ARG,
                 "%s: a search needs at least two windows of text, one to measure and one held out",
                 name);
    else if (!long_enough(z, TFT_KV_K) || !long_enough(z, TFT_KV_V))
        tft_fail(&z->bad, TFT_ERR_ARG,
                 "%s: a window of %u tokens is too short: this cache keeps all of them in f16",
                 name, o->window);
}

static void set_budget(struct searcher *z)
{
    const struct tft_model *m = z->m;
    double numbers = 0; /* of a token's keys and values */
    for (uint32_t l = 0; l < m->n_kv_layer; l++)
        numbers += tft_model_kv_window(m, l) ? 0 : 2.0 * (double)tft_model_kv_width(m, l);
    z->r->n_layer = z->n_units / 2;
    z->r->budget = z->o->bytes ? z->o->bytes : (size_t)(z->o->bits * numbers / 8 + 1e-6);
    size_t least = knapsack_least(z->item, z->n_units);
    if (z->o->depth && z->o->depth < tft_kv_block(&z->policy))
        tft_fail(&z->bad, TFT_ERR_ARG, "%s: a depth of %u tokens is too small: this cache would "
                 "quantize none of them", m->source.name, z->o->depth);
    else if (least > block_budget(z))
        tft_fail(&z->bad, TFT_ERR_ARG,
                 "%s: a token takes at least %zu bytes in this cache%s, more than the budget of "
                 "%zu",
                 m->source.name, token_bytes(z, least),
                 z->o->depth ? " at this depth, f16 slots included" : "", z->r->budget);
}

static bool alloc_all(struct searcher *z)
{
    const struct tft_model *m = z->m;
    z->n_units = 2 * searched_layers(m);
    z->layer = malloc(m->n_kv_layer * sizeof *z->layer);
    for (uint32_t l = 0, n = 0; z->layer && l < m->n_kv_layer; l++) {
        n += !tft_model_kv_window(m, l);
        z->layer[l] = n ? n - 1 : 0;
    }
    z->item = calloc(z->n_units, sizeof *z->item);
    z->bits = malloc(z->n_units * sizeof *z->bits);
    z->r->unit = calloc(z->n_units, sizeof *z->r->unit);
    return z->layer && z->item && z->bits && z->r->unit;
}

void kv_search_free(struct kv_search *r)
{
    free(r->unit);
    *r = (struct kv_search){0};
}

static void prepare(struct searcher *z)
{
    *z->r = (struct kv_search){0};
    check(z);
    if (!failed(z) && !alloc_all(z))
        tft_fail(&z->bad, TFT_ERR_NOMEM, "%s: out of memory to search the bits of its cache",
                 z->m->source.name);
    if (!failed(z))
        fill_bytes(z);
    if (!failed(z))
        set_budget(z);
}

static enum tft_status finish(struct searcher *z, struct tft_error *err)
{
    if (failed(z))
        kv_search_free(z->r);
    free(z->layer);
    free(z->item);
    free(z->bits);
    divergence_close(&z->d);
    if (z->bad.code != TFT_OK && err)
        *err = z->bad;
    return z->bad.code;
}

enum tft_status kv_search_check(const struct tft_model *m, const struct kv_search_opts *o,
                                struct tft_error *err)
{
    struct kv_search none;
    struct searcher z = {.m = m, .o = o, .r = &none};
    prepare(&z);
    enum tft_status status = finish(&z, err);
    kv_search_free(&none);
    return status;
}

enum tft_status kv_search(const struct tft_model *m, const struct kv_search_opts *o,
                          struct kv_search *r, bool *stopped, struct tft_error *err)
{
    struct searcher z = {.m = m, .o = o, .r = r};
    prepare(&z);
    divergence_open(&z.d, m,
                    &(struct divergence_opts){.text = o->text,
                                              .n_windows = o->n_windows,
                                              .window = o->window,
                                              .n_threads = o->n_threads,
                                              .progress = o->progress,
                                              .user = o->user},
                    &z.bad);
    if (!failed(&z))
        search(&z);
    *stopped = z.d.stopped;
    return finish(&z, err);
}
