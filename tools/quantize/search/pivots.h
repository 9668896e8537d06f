/*
 * Finds prefixes that take a text's own outliers.
 *
 * In many models a few tokens of a text have numbers in the residual stream that are hundreds of
 * times as large as all others: BOS, and the first newline or full stop (Sun et al. 2024, "Massive
 * activations in large language models"; IntactKV calls them pivots). One such token decides the
 * range that 8 bits must cover. A token is a pivot only the first time: with its keys and values
 * before the text, later occurrences are tokens like all others. So the text itself tells which
 * tokens the prefix should have:
 *
 *   1  Run the text after the prefix so far, and record each token's largest number. Tokens with
 *      more than PIVOT_TIMES the median are the pivots.
 *   2  Candidates: each pivot, with none, one or two of the tokens before it, as a newline may be a
 *      pivot after a word and none after BOS. Each candidate comes after the prefix and before the
 *      places of the text with pivots. The candidates with the least error of 8 bits there, L_q of
 *      cushion_search.h, run before the whole text.
 *   3  A prefix that leaves no pivot is a result. If none does, repeat from 1 with the best one, as
 *      long as fewer pivots are left each time.
 *
 * Where CushionCache's search (cushion_search.h) tries every token of the vocabulary, this search
 * tries some forty, and needs seconds instead of minutes. It cannot find a token that the text does
 * not have.
 */
#ifndef QUANTIZE_SEARCH_PIVOTS_H
#define QUANTIZE_SEARCH_PIVOTS_H

#include "model/model.h"
#include "tools/quantize/search/cushion.h"

/* PIVOT_TIMES: three of the eight bits would be lost to all other tokens. */
enum { PIVOT_TIMES = 8, PIVOT_PREFIXES = 4 };

struct pivots_opts {
    const int32_t *text; /* [n_windows, window] */
    uint32_t n_windows, window;
    const int32_t *start; /* [n_start] first tokens of every prefix */
    uint32_t n_start;
    uint32_t most; /* most tokens of a prefix: n_start <= most <= CUSHION_MAX */
    int n_threads;
    bool (*progress)(void *user, double done); /* NULL, or called with 0..1; false: stop */
    void *user;
};

struct pivots_prefix {
    int32_t token[CUSHION_MAX];
    uint32_t n;
    uint32_t left; /* pivots of the text after the prefix */
    float peak;    /* the largest number of a token of the text after the prefix */
    double loss;   /* L_q of the text, in the layers up to where pivots arise */
};

struct pivots {
    struct pivots_prefix start;                 /* the initial prefix of the search */
    struct pivots_prefix prefix[PIVOT_PREFIXES]; /* [n] least loss first */
    uint32_t n;   /* 0: no pivot, or no room for a token */
    float median; /* of the tokens' largest numbers, after `start` */
};

/* m: opened by tft_model_open_unexpanded. If *stopped: TFT_OK, and *r is not usable. */
enum tft_status pivots_search(struct tft_model *m, const struct pivots_opts *o, struct pivots *r,
                              bool *stopped, struct tft_error *err);

#endif
