/*
 * Prompt lookup (Saxena 2023; Yang et al. 2023, "Inference with Reference"): the newest tokens are
 * looked up in the text before, and the tokens that followed there are the draft tokens. A pass
 * computes draft tokens too (feed.c), which costs little if the pass waits for memory. Draft tokens
 * change times, and never a result.
 *
 * The longer the match, the more likely is acceptance. So each length of a match has a rate: the
 * share of accepted draft tokens after such a match, lately. A draft token counts even if no pass
 * computed it, so learning the rates costs no time.
 */
#ifndef TFT_LOOKUP_H
#define TFT_LOOKUP_H

#include <stdbool.h>
#include <stdint.h>

/* Guesses of a pass, at most; lengths that are told apart, the last one for all longer ones. */
enum { TFT_LOOKUP_MOST = 14, TFT_LOOKUP_LENGTHS = 8 };

/* The probability, or the cost, of 1. */
enum { TFT_LOOKUP_ONE = 65536 };

struct tft_lookup {
    uint32_t most;   /* draft tokens of a pass, at most; 0: the session makes none */
    uint32_t length; /* tokens of the match, at most TFT_LOOKUP_LENGTHS; 0: there is no match */
    uint32_t from;   /* index of the token after the match: the first draft token */
    uint32_t ahead;  /* draft tokens that the last pass computed, and that may still come */
    uint32_t pays;   /* a draft token is computed if its probability is at least this, in 1/65536 */
    uint32_t rate[TFT_LOOKUP_LENGTHS]; /* accepted draft tokens after a match of 1, 2, ... tokens,
                                          in 1/65536 */
};

/* most: draft tokens of a pass, at most. costs: how much longer a pass takes with one token more,
   in 1/65536 of a pass of one token. */
void tft_lookup_open(struct tft_lookup *k, uint32_t most, uint32_t costs);

/* tokens[n]: the session's; the last one is new. Learns whether it is the one that was guessed, and
   finds the next match. */
void tft_lookup_see(struct tft_lookup *k, const int32_t *tokens, uint32_t n);

/* Writes the draft tokens that pay after tokens[n], at most `most`. Returns their number. */
uint32_t tft_lookup_propose(const struct tft_lookup *k, int32_t *tokens, uint32_t n, uint32_t most);

/* How likely the first draft token is to hold; 0: there is none. */
uint32_t tft_lookup_chance(const struct tft_lookup *k);

/* Moves a rate by a sixteenth towards 1 if `held`, else towards 0. */
void tft_lookup_learn(uint32_t *rate, bool held);

/* Forgets the match and the draft tokens: the session's tokens have changed in another way than by
   a new one. The rates stay. */
void tft_lookup_forget(struct tft_lookup *k);

#endif
