/*
 * Guesses by a draft model (Leviathan et al. 2023, "Fast Inference from Transformers via
 * Speculative Decoding"): a smaller model of the same vocabulary, whose likeliest tokens are the
 * guess of what comes next. Here a guess holds if the caller feeds that very token, so there is
 * nothing to accept or to reject by chance, and the text is the same with guesses and without.
 */
#ifndef TFT_DRAFT_H
#define TFT_DRAFT_H

#include "base/error.h"

struct tft_draft_model; /* session.h */
struct tft_session;

/* TFT_ERR_ARG: the draft's vocabulary is another one than that of the model. */
enum tft_status tft_draft_check(const struct tft_model *m, const struct tft_session *draft,
                                struct tft_error *err);

/* costs: those of a guess in a pass of m. */
void tft_draft_open(struct tft_draft_model *d, const struct tft_model *m, struct tft_session *s,
                    uint32_t costs);

/* A guess has held, or not. */
void tft_draft_learn(struct tft_draft_model *d, bool held);

/* Writes the guesses that pay behind tokens[n], at most `most`. Returns their number: 0 too if the
   draft's session is full or fails. */
uint32_t tft_draft_guess(struct tft_draft_model *d, const struct tft_model *m, int32_t *tokens,
                         uint32_t n, uint32_t most);

#endif
