/*
 * SentencePiece's Unigram model (google/sentencepiece unigram_model.cc; Kudo 2018): of all ways to
 * cut a text into pieces, the one with the highest sum of scores. Text is normalised first, by the
 * table of the vocabulary if it has one.
 */
#ifndef TFT_UNIGRAM_H
#define TFT_UNIGRAM_H

#include "trie.h"

enum {
    TFT_CHARSMAP_KEY = 64,  /* bytes of text that an entry of the table replaces, at most */
    TFT_CHARSMAP_TEXT = 256 /* bytes that replace them, at most */
};

/* A table of replacements, as SentencePiece compiles it: a double array (darts-clone), whose values
   are offsets of strings in `texts`. */
struct tft_charsmap {
    const unsigned char *units; /* [n_unit] u32, little-endian */
    const char *texts;          /* [n_text], each with NUL behind it */
    size_t n_unit, n_text;
};

struct tft_unigram {
    struct tft_charsmap map; /* n_unit 0: there is none */
    struct tft_trie trie;
    float *score;       /* [n_token] */
    double unknown;     /* the score of a character without a token */
    bool merges_spaces; /* several spaces are one, and those at both ends are dropped */
};

/* Reads the value tokenizer.ggml.precompiled_charsmap, which stays in use. False if it is
   damaged. */
bool tft_charsmap_read(struct tft_charsmap *map, const unsigned char *data, size_t size);

/* The replacement of the longest start of text[n], n >= 1, that the table has, and *len, the length
   of this start. NULL if the table has none. */
const char *tft_charsmap_find(const struct tft_charsmap *map, const char *text, size_t n,
                              size_t *len);

#endif
