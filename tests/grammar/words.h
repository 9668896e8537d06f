/* A vocabulary of random words, for tests of masks: open_lexicon is the group's setup,
   close_lexicon its teardown. Include it after test.h. */
#ifndef TFT_TEST_WORDS_H
#define TFT_TEST_WORDS_H

#include "grammar/grammar.h"
#include "random.h"
#include "vocabs.h"

enum { WORDS = 600 };

static struct tft_tokenizer *tokens;
static struct tft_lexicon *lexicon;
static uint64_t seed = 1;

/* "\xe2\x96\x81" is a space in this vocabulary. The last three are no whole characters. */
static const char *const pieces[] = {"a",
                                     "b",
                                     "k",
                                     "A",
                                     "Z",
                                     "0",
                                     "7",
                                     "\xe2\x96\x81",
                                     "\xe2\x96\x81",
                                     ",",
                                     "\"",
                                     "\\",
                                     ".",
                                     "\xc3\xa9",
                                     "\xe2\x82\xac",
                                     "\xf0\x9f\x98\x80",
                                     "\xe2\x82",
                                     "\xc3",
                                     "\x80"};
enum { PIECES = sizeof pieces / sizeof *pieces, WHOLE = PIECES - 3 };

/* Words of few pieces, so that many are of one class, and longer ones of any. */
static inline void add_words(struct vocab *v)
{
    for (int i = 0; i < WORDS; i++) {
        char text[64] = "";
        uint32_t n = 1 + random_below(&seed, i % 3 ? 4 : 12), few = i % 2 ? 3 : WHOLE;
        if (i % 5 == 0)
            strcat(text, "\xe2\x96\x81");
        for (uint32_t k = 0; k < n; k++)
            strcat(text, pieces[random_below(&seed, few)]);
        if (i % 7 == 0)
            strcat(text, pieces[WHOLE + random_below(&seed, PIECES - WHOLE)]);
        vocab_add(v, text, -(float)i, TFT_TOKEN_NORMAL);
    }
    static const char *const more[] = {"abk.",
                                       ",.",
                                       "abka,",
                                       "kab,b",
                                       "\xc3\xa9"
                                       "a",
                                       "\xe2\x82\xac"
                                       "k"};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        vocab_add(v, more[i], -WORDS, TFT_TOKEN_NORMAL);
    for (size_t n = 58; n <= 63; n++) { /* around the most characters that masks count */
        char text[64] = "";
        memset(text, 'a', n);
        vocab_add(v, text, -WORDS, TFT_TOKEN_NORMAL);
    }
}

static inline int open_lexicon(void **state)
{
    static struct vocab v = {.model = "llama"};
    (void)state;
    vocab_add(&v, "<unk>", 0, TFT_TOKEN_UNKNOWN);
    vocab_add(&v, "</s>", 0, TFT_TOKEN_CONTROL);
    vocab_add_bytes(&v);
    add_words(&v);
    tokens = open_vocab(&v);
    return tft_lexicon_make(&lexicon, tokens, NULL, NULL);
}

static inline int close_lexicon(void **state)
{
    (void)state;
    tft_lexicon_close(lexicon);
    tft_tokenizer_close(tokens);
    return 0;
}

#endif
