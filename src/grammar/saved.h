/* The state of a grammar in a saved session: configurations and stacks, as they are. */
#ifndef TFT_GRAMMAR_SAVED_H
#define TFT_GRAMMAR_SAVED_H

#include "kv/saved.h"

/* Walks through what tft_grammar_load reads. The state must not have failed. */
void tft_grammar_save(const struct tft_grammar_state *s, struct tft_walk *w);

/* Whether the state has failed: no token may come, and there is nothing to save. */
bool tft_grammar_failed(const struct tft_grammar_state *s);

/* Puts the state where p[n] says. TFT_ERR_ARG: that is of another grammar; TFT_ERR_FORMAT: it is
   not a place; TFT_ERR_NOMEM. After an error the state is where it was. */
enum tft_status tft_grammar_load(struct tft_grammar_state *s, const unsigned char *p, size_t n);

#endif
