/*
 * Bits of each layer's keys and values for a KV cache that takes so many bytes a token, by what
 * they are measured to cost: in place of the trials that AsymKV (section 8) names as its
 * limitation, one for each number of layers l_k and l_v.
 *
 * What a cache costs is how far it moves the distribution of the next token from that of the f16
 * cache: the Kullback-Leibler divergence, a mean over the second halves of some windows of the
 * calibration text. All tokens of the vocabulary count in it, not the one alone that comes next:
 * perplexity, a difference of two large numbers, is noisier. But where activations are bytes it has
 * a floor. A cache that differs in the order of its sums alone has some of them rounded otherwise,
 * and that is 0.001 nats at tinyllama; one whose keys all differ a little has 0.002: more than most
 * layers' keys cost in two bits, and no loss, since either rounding is as good. So a layer's keys,
 * or its values, are measured where they cost most, in very few bits, all others in 16:
 *
 *      share(l) = (cost of layer l alone in few bits - floor of 16 bits) / the sum of that over all
 *      layers
 *
 * and what bits are worth is measured where that is most, in all layers of a side at once, the
 * other side in 16:
 *
 *      cost(l, b) = share(l) (cost of all layers in b bits - floor of the side)
 *
 * for a few b, and in between on a straight line of ln cost. The floor of a side is where costs
 * would end if the last two went on as 4^-b, as the square error of a step of 2^-b does.
 * (tinyllama's keys above theirs: 0.024 in 1.25 bits, 0.0071 in 1.5, 0.0021 in 2, 0.0003 in 3; and
 * 1 bit is out of the question.) Costs are taken to add up, and the bits are those with the least
 * sum within the budget: kv_allot.h.
 *
 * What comes of it is then measured on windows that had no part in it (one in five), and so is the
 * best cache of the same budget whose layers are all alike. If that is no worse there, it is what
 * is kept.
 */
#ifndef QUANTIZE_SEARCH_KV_SEARCH_H
#define QUANTIZE_SEARCH_KV_SEARCH_H

#include "tools/quantize/search/knapsack.h"
#include "kv/policy.h"
#include "model/model.h"

struct kv_search_opts {
    const int32_t *text; /* [n_windows, window] */
    uint32_t n_windows, window; /* at least 2; so long that a cache quantizes what they begin
                                   with */
    const char *kv;      /* the cache to start from: all of it but the bits stays */
    double bits;         /* the budget: bits of a number all in, */
    size_t bytes;        /* or, if it is not 0, bytes of a token */
    int n_threads;       /* 0: all CPUs */
    bool (*progress)(void *user, double done); /* false: stop */
    void *user;
};

enum { KV_POINTS = 7 };

/* Keys, or values. Costs are in nats a token. */
struct kv_side_found {
    uint32_t n;
    float bits[KV_POINTS];  /* so many in all layers */
    double cost[KV_POINTS]; /* cost so much */
    double floor;
    float alone;            /* bits of a layer that is measured by itself */
};

/* A layer's. */
struct kv_unit_found {
    double cost; /* by itself */
    float bits;  /* what it has been given */
};

/* A cache, and the divergence on windows that were held out. */
struct kv_held_out {
    char kv[TFT_KV_TEXT];
    size_t bytes; /* of a token */
    double divergence;
};

struct kv_search {
    uint32_t n_layer;
    size_t budget;              /* bytes of a token */
    struct kv_unit_found *unit; /* [n_layer, keys and values], to be freed by kv_search_free */
    double floor;               /* what a cache of 16 bits costs that is of the same kind */
    struct kv_side_found side[2];
    struct kv_held_out searched, uniform;
    bool better; /* searched is */
};

/* Whether a W8A8 model made of m can be searched so, as far as is known before it is made: TFT_OK,
   or what kv_search would fail with. */
enum tft_status kv_search_check(const struct tft_model *m, const struct kv_search_opts *o,
                                struct tft_error *err);

/* m: an open model. TFT_OK, and nothing in *r, if *stopped. */
enum tft_status kv_search(const struct tft_model *m, const struct kv_search_opts *o,
                          struct kv_search *r, bool *stopped, struct tft_error *err);

/* All zero is fine. */
void kv_search_free(struct kv_search *r);

#endif
