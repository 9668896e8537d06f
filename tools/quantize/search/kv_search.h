/*
 * Chooses the bits of each layer's keys and values for a KV cache within a budget of bytes per
 * token, from measurements. AsymKV (section 8) names its limitation: it needs a trial for each pair
 * of layer counts l_k, l_v. This search does not.
 *
 * The cost of a cache is its divergence (divergence.h) from the f16 cache. "Layers" here are layers
 * without a window. Layers with one are f16 in every cache; their bits and bytes do not count.
 *
 * With 8-bit activations the divergence has a floor. A cache that only adds in another order
 * changes the rounding of some activations, which costs 0.001 nats for tinyllama; a cache with
 * slightly different keys costs 0.002. This is more than the cost of 2 bits for most layers' keys,
 * and not a loss, as either rounding is as good. So a layer's keys, or values, are measured where
 * they cost most: at very few bits, with all others at 16:
 *
 *      share(l) = (cost of layer l alone at few bits - floor of 16 bits) / the sum of that over all
 *                 layers
 *
 * The value of bits is also measured where it is largest, in all layers of a side (keys or values)
 * at once, with the other side at 16:
 *
 *      cost(l, b) = share(l) (cost of all layers at b bits - floor of the side)
 *
 * for a few b, and linear in ln cost between them. The floor of a side is the limit of its costs if
 * they continued as 4^-b after the last two, like the squared error of a step of 2^-b. (tinyllama's
 * keys above their floor: 0.024 at 1.25 bits, 0.0071 at 1.5, 0.0021 at 2, 0.0003 at 3.) Costs are
 * assumed to add up, and knapsack.h finds the bits with the least sum within the budget.
 *
 * The result is measured on held-out windows, one in five, and so is the best cache of the same
 * budget with equal bits in all layers. The latter is kept if it is no worse.
 *
 * With a depth, other settings are searched before the bits, in this order: clip, retention, the
 * axis of the values' scales, group. Each value of a setting is tried in the best cache so far. All
 * caches have the same bytes: each gets the bits that fit the budget, distributed with a cost of
 * 4^-b for the keys, and for the values, of every layer. A window of f16 tokens is tried only if it
 * is at most a quarter of a window of text. The scored tokens then see mostly codes, as at a large
 * depth.
 */
#ifndef QUANTIZE_SEARCH_KV_SEARCH_H
#define QUANTIZE_SEARCH_KV_SEARCH_H

#include "kv/policy.h"
#include "model/model.h"
#include "tools/quantize/search/knapsack.h"

struct kv_search_opts {
    const int32_t *text; /* [n_windows, window] */
    uint32_t n_windows;  /* at least 2 */
    uint32_t window;     /* long enough that the cache quantizes tokens of its first half */
    const char *kv;      /* the cache to search bits for; its other settings stay, or with a depth
                            are the start of the search of settings */
    double bits;         /* budget: mean bits of a number, all overhead included, */
    size_t bytes;        /* or, if not 0, bytes of a token */
    uint32_t depth;      /* 0: the budget is for a quantized token. Otherwise it is the mean over a
                            session of this many tokens, with all slots and blocks; and clip,
                            retention, the values' scales and group are searched, too */
    int n_threads;       /* 0: all CPUs */
    bool (*progress)(void *user, double done); /* false: stop */
    void *user;
};

enum { KV_POINTS = 7, KV_TRIED = 33 };

/* Measurements of the keys, or of the values. Costs are in nats per token. */
struct kv_side_found {
    uint32_t n;
    float bits[KV_POINTS];  /* in all layers */
    double cost[KV_POINTS]; /* of these bits */
    double floor;
    float alone; /* bits of the measurement of each layer alone */
};

/* The keys or the values of one layer. */
struct kv_unit_found {
    double cost; /* measured alone */
    float bits;  /* result */
};

/* A cache, and its divergence from f16. */
struct kv_measured {
    char kv[TFT_KV_TEXT];
    size_t bytes; /* of a token */
    double divergence;
};

struct kv_search {
    uint32_t n_layer;           /* layers without a window */
    size_t budget;              /* bytes of a token */
    struct kv_unit_found *unit; /* [n_layer, keys and values]; kv_search_free frees it */
    double floor;               /* cost of a cache of the same kind with 16 bits */
    struct kv_side_found side[2];
    struct kv_measured tried[KV_TRIED]; /* settings, in order, on the windows of the search */
    uint32_t n_tried;
    struct kv_measured searched, uniform; /* on held-out windows */
    bool better;                          /* `searched` is better than `uniform` */
};

/* Fails like kv_search would, as far as can be known before the W8A8 model is made; m: the float
   model to make it from. */
enum tft_status kv_search_check(const struct tft_model *m, const struct kv_search_opts *o,
                                struct tft_error *err);

/* m: an open model. If *stopped: TFT_OK, and *r is all zeros. */
enum tft_status kv_search(const struct tft_model *m, const struct kv_search_opts *o,
                          struct kv_search *r, bool *stopped, struct tft_error *err);

/* Accepts all zeros. */
void kv_search_free(struct kv_search *r);

#endif
