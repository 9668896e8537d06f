/* The state of a grammar in a saved session: configurations and stacks, unchanged. */
#ifndef TFT_GRAMMAR_SAVED_H
#define TFT_GRAMMAR_SAVED_H

#include "kv/saved.h"

/* Walks through the bytes for tft_grammar_load. The state must not have failed. */
void tft_grammar_save(const struct tft_grammar_state *s, struct tft_walk *w);

/* Whether the state has failed: it allows no token and cannot be saved. */
bool tft_grammar_failed(const struct tft_grammar_state *s);

/* Restores the state from p[n]. TFT_ERR_ARG: p is of another grammar; TFT_ERR_FORMAT: p is not a
   place; TFT_ERR_NOMEM. After an error the state is unchanged. */
enum tft_status tft_grammar_load(struct tft_grammar_state *s, const unsigned char *p, size_t n);

#endif
