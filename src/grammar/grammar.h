/*
 * The folder grammar/ constrains tokens to a grammar. A lexicon is the vocabulary as a trie of
 * bytes (lexicon.c). A grammar is an automaton over bytes with a stack, compiled from text (gbnf.c,
 * regex.c, compile.c). A state is a place in it, and says which tokens may come (state.c), and
 * which must (forced.c).
 * Other folders include this header and no other of it.
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

/* The token of that name which is no text, such as <think>; -1: there is none. */
int32_t tft_lexicon_special(const struct tft_lexicon *lx, const char *name, size_t n);

uint32_t tft_grammar_vocab(const struct tft_grammar_state *s); /* that of its lexicon */

/* Writes the bytes that must come next to out[cap], up to where two bytes are possible or the text
   may end. Returns how many; *done: nothing can come behind them. The state stays where it is. */
size_t tft_grammar_only_text(struct tft_grammar_state *s, char *out, size_t cap, bool *done);

/* The tokenizer of its lexicon. */
const struct tft_tokenizer *tft_grammar_tokenizer(const struct tft_grammar_state *s);

/* [(n_vocab + 31) / 32] bits, the tokens that may come next; NULL: out of memory. Valid until the
   state changes. */
const uint32_t *tft_grammar_mask(struct tft_grammar_state *s);

#endif
