/*
 * Prompt lookup (Saxena 2023; Yang et al. 2023, "Inference with Reference"): the newest tokens are
 * looked up among those before, and what followed them there is the guess of what comes next. A
 * pass takes guesses along (feed.c), which costs little where it waits for memory. Whether a guess
 * is computed changes times, and never a result.
 *
 * The longer the text that is the same, the likelier the guess. So there is a rate for each length:
 * how many of the last guesses behind such a text held. Guesses count whether or not a pass took
 * them along, so that finding out costs nothing.
 */
#ifndef TFT_LOOKUP_H
#define TFT_LOOKUP_H

#include <stdint.h>

/* Guesses of a pass, at most; lengths that are told apart, the last one for all longer ones. */
enum { TFT_LOOKUP_MOST = 14, TFT_LOOKUP_LENGTHS = 8 };

struct tft_lookup {
    uint32_t most;   /* guesses of a pass, at most; 0: the session makes none */
    uint32_t length; /* of the text found, up to TFT_LOOKUP_LENGTHS; 0: none was */
    uint32_t from;   /* index of the token behind it, which is the guess of the next one */
    uint32_t ahead;  /* tokens that are computed already: they come next if the guess holds */
    uint32_t pays;   /* a guess is taken along if its chance is at least this, in 1/65536 */
    uint32_t rate[TFT_LOOKUP_LENGTHS]; /* in 1/65536 */
};

/* Begins with up to `most` guesses. costs: what a pass takes longer for each, in 1/65536 of a pass
   of one token. */
void tft_lookup_open(struct tft_lookup *k, uint32_t most, uint32_t costs);

/* Token n - 1 of tokens[n] has been added to those that were seen, or that were there when all was
   forgotten. Learns whether it was the guess, and looks for the next one. */
void tft_lookup_see(struct tft_lookup *k, const int32_t *tokens, uint32_t n);

/* Writes the guesses that are worth it behind tokens[n], at most `most`. Returns their number. */
uint32_t tft_lookup_guess(const struct tft_lookup *k, int32_t *tokens, uint32_t n, uint32_t most);

/* The tokens have changed in another way, or are not to be computed as they were. */
void tft_lookup_forget(struct tft_lookup *k);

#endif
