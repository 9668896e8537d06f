/* A lexicon with bytes as tokens, for tests of grammars: open_lexicon is the group's setup,
   close_lexicon its teardown. Include it after test.h. */
#ifndef TFT_TEST_BYTE_LEXICON_H
#define TFT_TEST_BYTE_LEXICON_H

#include <stdio.h>

#include "grammar/grammar.h"
#include "vocabs.h"

static struct tft_tokenizer *byte_tokens;
static struct tft_lexicon *lexicon;
enum { FIRST_BYTE = 3 }; /* the token of byte 0 */

static inline int open_lexicon(void **state)
{
    static struct vocab v = {.model = "llama"};
    (void)state;
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    vocab_add(&v, "<s>", 0, TFT_TOKEN_CONTROL);
    vocab_add(&v, "</s>", 0, TFT_TOKEN_CONTROL);
    vocab_add_bytes(&v);
    byte_tokens = open_vocab(&v);
    return tft_lexicon_make(&lexicon, byte_tokens, NULL, NULL);
}

static inline int close_lexicon(void **state)
{
    (void)state;
    tft_lexicon_close(lexicon);
    tft_tokenizer_close(byte_tokens);
    return 0;
}

/* Whether the grammar takes all of the text. */
static inline bool accepts(const struct tft_grammar *g, const char *text)
{
    struct tft_grammar_state *s;
    bool does = true;
    assert_int_equal(tft_grammar_begin(&s, g, NULL), TFT_OK);
    for (; *text && does; text++)
        does = tft_grammar_accept(s, FIRST_BYTE + (unsigned char)*text) == TFT_OK;
    does = does && tft_grammar_can_end(s);
    tft_grammar_end(s);
    return does;
}

#endif
