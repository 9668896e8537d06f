/*
 * Finds prefixes that take a text's own outliers.
 *
 * In many models a few tokens of a text have numbers in the residual stream that are hundreds of
 * times as large as all others: BOS, and the first newline or full stop (Sun et al. 2024, "Massive
 * activations in large language models"; IntactKV calls them pivots). One such token decides the
 * range that 8 bits must cover. It is one only the first time: with its keys and values in front of
 * the text, later ones are tokens like all others. So the text itself says which tokens the prefix
 * should have:
 *
 *   1  Run the text behind the prefix so far, and note each token's largest number. Those with more
 *      than PIVOT_TIMES the median are the pivots.
 *   2  Candidates: each pivot, with none, one or two of the tokens before it, as a newline may be a
 *      pivot after a word and none after BOS. Each is put behind the prefix, and before the places
 *      of the text where the pivots are. Those whose error of 8 bits there is least, L_q of
 *      cushion_search.h, run before the whole text.
 *   3  Where no pivot is left, a prefix is found. If none is, the best one goes to 1, as long as
 *      fewer are left each time.
 *
 * Where CushionCache's search (cushion_search.h) tries every token of the vocabulary, this tries
 * some forty, and needs seconds where that needs minutes. It cannot find a token that the text does
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
    const int32_t *start; /* [n_start] tokens that every prefix begins with */
    uint32_t n_start;
    uint32_t most; /* tokens of a prefix at most: n_start <= most <= CUSHION_MAX */
    int n_threads;
    bool (*progress)(void *user, double done); /* NULL, or told 0..1; false: stop */
    void *user;
};

struct pivots_prefix {
    int32_t token[CUSHION_MAX];
    uint32_t n;
    uint32_t left; /* pivots that the text has behind it */
    float peak;    /* the largest number that a token of the text has behind it */
    double loss;   /* L_q of the text, in the layers up to where pivots arise */
};

struct pivots {
    struct pivots_prefix start;                 /* the prefix that the search began with */
    struct pivots_prefix prefix[PIVOT_PREFIXES]; /* [n] least loss first */
    uint32_t n;   /* 0: there is no pivot, or no room for a token */
    float median; /* of the tokens' largest numbers, behind `start` */
};

/* m: opened by tft_model_open_unexpanded. If *stopped: TFT_OK, and *r is of no use. */
enum tft_status pivots_search(struct tft_model *m, const struct pivots_opts *o, struct pivots *r,
                              bool *stopped, struct tft_error *err);

#endif
