/* The masks that tft_grammar_mask (grammar.h) keeps. */
#ifndef TFT_MASK_H
#define TFT_MASK_H

#include "place.h"

/* Forgets the masks of all states, not s->mask. */
void tft_mask_forget(struct tft_grammar_state *s);

#endif
