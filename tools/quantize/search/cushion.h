/* The result of a search for a cushion (cushion_search.h): the tokens of a prefix, and the round
   that found each. */
#ifndef QUANTIZE_SEARCH_CUSHION_H
#define QUANTIZE_SEARCH_CUSHION_H

#include <stdbool.h>
#include <stdint.h>

/* Samples of text that judge a candidate token. */
enum { CUSHION_SAMPLES = 4 };

/* CUSHION_MAX: tokens of a prefix. Rounds: one for each token before the last and one for each at
   the end, at most. */
enum { CUSHION_MAX = 8, CUSHION_ROUNDS = 2 * CUSHION_MAX };

/* One round: of the accepted token, or of the best candidate if none was accepted. */
struct cushion_round {
    double before, after; /* L_q, summed over the round's samples, without the token and with it */
    double nats;          /* rise of the mean -ln p of a token of the samples */
    uint32_t sample[CUSHION_SAMPLES]; /* indices of the samples in the text, highest L_q first; 0
                                         beyond the text's samples */
    int32_t token;
    uint32_t tail;    /* tokens of the prefix that come after this one: 0 or 1 */
    uint32_t taken;   /* 1: the prefix has the token now */
    uint32_t refused; /* finalists with an L_q low enough, but `nats` too high */
};

struct cushion {
    int32_t token[CUSHION_MAX];
    uint32_t n;
    bool kept; /* a checkpoint was written; a stopped search can resume from it */
    double tau, cost;
    uint32_t tried; /* rounds */
    struct cushion_round round[CUSHION_ROUNDS];
};

#endif
