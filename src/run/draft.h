/*
 * Draft tokens by a draft model (Leviathan et al. 2023, "Fast Inference from Transformers via
 * Speculative Decoding"): the most likely next tokens of a smaller model with the same vocabulary.
 * Here a draft token is accepted if the caller feeds the same token, so nothing is accepted or
 * rejected by chance, and the text is the same with draft tokens and without.
 */
#ifndef TFT_DRAFT_H
#define TFT_DRAFT_H

#include "base/error.h"

struct tft_draft_model; /* session.h */
struct tft_session;

/* TFT_ERR_ARG: the draft model's vocabulary differs from the model's. */
enum tft_status tft_draft_check(const struct tft_model *m, const struct tft_session *draft,
                                struct tft_error *err);

/* s: of a draft model; NULL: m has a predictor, or there are no such draft tokens. costs: of a
   draft token in a pass of m, as in tft_lookup_open. */
void tft_draft_open(struct tft_draft_model *d, const struct tft_model *m, struct tft_session *s,
                    uint32_t costs);

/* A draft token was accepted, or not. */
void tft_draft_learn(struct tft_draft_model *d, bool held);

/* How many draft tokens pay, at most `most`: all before one have to be accepted, too. */
uint32_t tft_draft_worth(struct tft_draft_model *d, uint32_t most);

/* Writes the draft tokens that pay after tokens[n], at most `most`. Returns their number: 0 too if
   the draft's session is full or fails. */
uint32_t tft_draft_propose(struct tft_draft_model *d, const struct tft_model *m, int32_t *tokens,
                         uint32_t n, uint32_t most);

#endif
