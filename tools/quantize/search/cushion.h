/* The result of a search for a cushion (cushion_search.h): the tokens of a prefix, and how each
   was found. */
#ifndef QUANTIZE_SEARCH_CUSHION_H
#define QUANTIZE_SEARCH_CUSHION_H

#include <stdbool.h>
#include <stdint.h>

/* Samples of text that a candidate token is judged by. */
enum { CUSHION_SAMPLES = 4 };

/* CUSHION_MAX: tokens of a prefix. Rounds: one for each token before the last and one for each at
   the end, at most. */
enum { CUSHION_MAX = 8, CUSHION_ROUNDS = 2 * CUSHION_MAX };

/* One round: of the token that it accepted, or of the best candidate if it accepted none. */
struct cushion_round {
    double before, after; /* L_q, summed over the round's samples, without the token and with it */
    double nats;          /* rise of the mean -ln p of a token of the samples */
    uint32_t sample[CUSHION_SAMPLES]; /* indices of the samples in the text, highest L_q first; 0
                                         beyond the number of samples that the text has */
    int32_t token;
    uint32_t tail;    /* tokens of the prefix that come after this one: 0 or 1 */
    uint32_t taken;   /* 1: the prefix has the token now */
    uint32_t refused; /* finalists whose L_q was low enough, but whose `nats` were too high */
};

struct cushion {
    int32_t token[CUSHION_MAX];
    uint32_t n;
    bool kept; /* a checkpoint was written from which a stopped search can resume */
    double tau, cost;
    uint32_t tried; /* rounds */
    struct cushion_round round[CUSHION_ROUNDS];
};

#endif
