/*
 * The folder grammar/ constrains tokens to a grammar. A lexicon is the vocabulary as a trie of
 * bytes (lexicon.c). A grammar is an automaton over bytes with a stack, compiled from text (gbnf.c,
 * regex.c, compile.c). A state is a place in a grammar: it has the allowed tokens (state.c) and the
 * forced tokens (forced.c). Other folders include only this header of grammar/.
 *
 * tuffet.h describes the public functions tft_lexicon_*, tft_grammar_*.
 */
#ifndef TFT_GRAMMAR_H
#define TFT_GRAMMAR_H

#include "text/tokenizer.h"
#include "tuffet.h"

/* For tft_lexicon_open: the tokens of t, which must outlive the lexicon. */
enum tft_status tft_lexicon_make(struct tft_lexicon **out, const struct tft_tokenizer *t,
                                 const struct tft_allocator *a, struct tft_error *err);

uint32_t tft_lexicon_size(const struct tft_lexicon *lx); /* n_vocab */

/* The token of the name that is not text, such as <think>; -1: absent. */
int32_t tft_lexicon_special(const struct tft_lexicon *lx, const char *name, size_t n);

uint32_t tft_grammar_vocab(const struct tft_grammar_state *s); /* the lexicon's n_vocab */

/* Writes the forced next bytes to out[cap], up to a place where two bytes are possible or the text
   may end. Returns the number of bytes; *done: nothing can follow. The state does not move. */
size_t tft_grammar_only_text(struct tft_grammar_state *s, char *out, size_t cap, bool *done);

/* The tokenizer of the state's lexicon. */
const struct tft_tokenizer *tft_grammar_tokenizer(const struct tft_grammar_state *s);

/* [(n_vocab + 31) / 32] bits, the tokens that may come next; NULL: out of memory. Valid until the
   state changes. */
const uint32_t *tft_grammar_mask(struct tft_grammar_state *s);

#endif
