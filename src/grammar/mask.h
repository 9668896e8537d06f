/* The cached masks of tft_grammar_mask (grammar.h). */
#ifndef TFT_MASK_H
#define TFT_MASK_H

#include "place.h"

/* Frees the masks of all states, not s->mask. */
void tft_mask_forget(struct tft_grammar_state *s);

#endif
