/*
 * Possible effects of a KV cache on a head's attention, measured on the unchanged head:
 *
 *   - the attention that the tokens kept in f16 by a rule receive: LogQuant, figure 4;
 *   - the effect of 2 bits for keys, or for values, on each step of attention: AsymKV,
 *     figures 1 and 2.
 *
 * Both are averages over every COST_STEP-th query of the second half of a window. The step has no
 * factor in common with the sizes of caches, so that these are met at all stages of filling up. The
 * first two tokens and the prefix, which attention rests on, count for no rule.
 */
#ifndef INSPECT_CACHE_COST_H
#define INSPECT_CACHE_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { COST_STEP = 7, COST_FIRST = 2, COST_GROUP = 32, COST_LEVELS = 4 };

/* Rules that keep R tokens. */
enum cache_cost_rule {
    COST_NEWEST, /* the newest R: SKVQ, StreamingLLM */
    COST_FILL,   /* the tokens since the last multiple of R: KIVI */
    COST_LOG2,   /* at most R, sparser with age: LogQuant, algorithm 1 with W = R / 3 */
    COST_HEAVY,  /* the newest R / 2, and the R / 2 that received most so far: H2O (Zhang et al.
                    2023) */
    COST_BEST,   /* the R that receive most now: no rule can do better */
    COST_RULES
};
extern const char *const cache_cost_rule_name[COST_RULES]; /* "newest", "fill", ... */
enum { COST_SIZES = 3 };
extern const uint32_t cache_cost_size[COST_SIZES]; /* R: 48, 96, 192 */

/* Mean squared errors. With keys of 2 bits: of the keys, of scores before softmax, of weights after
   it, of attention's output. With values of 2 bits: of the values, of attention's output. */
enum cache_cost_error {
    COST_KEY,
    COST_SCORE,
    COST_WEIGHT,
    COST_KEY_OUTPUT,
    COST_VALUE,
    COST_VALUE_OUTPUT,
    COST_ERRORS
};

/* A histogram of the errors of attention's output, for keys or values of 2 bits. Bin i has the
   share of errors from 2^(-i / 2) to 2^((1 - i) / 2); bin 0 also has larger ones, the last bin also
   smaller ones. */
enum { COST_BINS = 48 };

/* Sums over queries. cache_cost_mean divides them by the number of queries. */
struct cache_cost_found {
    double queries;
    double kept[COST_RULES][COST_SIZES]; /* shares of attention that kept tokens receive */
    double error[COST_ERRORS];
    double key_sizes[COST_BINS], value_sizes[COST_BINS];
};

/* Working memory for one head at a time, of at most head_dim numbers, with the scores scale * q.k.
   cache_cost_open returns NULL if memory is short. */
struct cache_cost_room;
struct cache_cost_room *cache_cost_open(uint32_t positions, uint32_t head_dim, double scale);
void cache_cost_close(struct cache_cost_room *r); /* accepts NULL */

/* Begins a head of head_dim numbers, E, in a window with n positions; the first n_prefix are the
   prefix's. Returns the place for its keys, [n, E], and its values, n E numbers later; the caller
   fills both before the first row. */
float *cache_cost_begin(struct cache_cost_room *r, uint32_t head_dim, uint32_t n,
                        uint32_t n_prefix);

/* The next row, for each token of the text in turn. q: [E]. weight: [n] output of softmax for the
   positions up to the token, which is at position n - 1; their sum is `sum`. */
void cache_cost_row(struct cache_cost_room *r, struct cache_cost_found *f, const float *q,
                   const float *weight, uint32_t n, double sum);

/* The averages over all queries of n heads; all zeros if there are none. */
struct cache_cost_found cache_cost_mean(const struct cache_cost_found *f, uint32_t n);

#endif
