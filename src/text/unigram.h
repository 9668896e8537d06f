/*
 * SentencePiece's Unigram model (google/sentencepiece unigram_model.cc; Kudo 2018): of all ways to
 * cut a text into pieces, takes the way with the highest sum of scores. Text is normalised first,
 * by the vocabulary's table if there is one.
 */
#ifndef TFT_UNIGRAM_H
#define TFT_UNIGRAM_H

#include "trie.h"

enum {
    TFT_CHARSMAP_KEY = 64,  /* the most bytes of text that an entry replaces */
    TFT_CHARSMAP_TEXT = 256 /* the most bytes of a replacement */
};

/* A table of replacements in SentencePiece's form: a double array (darts-clone) with offsets of
   strings in `texts` as values. */
struct tft_charsmap {
    const unsigned char *units; /* [n_unit] u32, little-endian */
    const char *texts;          /* [n_text], each ends with NUL */
    size_t n_unit, n_text;
};

struct tft_unigram {
    struct tft_charsmap map; /* n_unit 0: no table */
    struct tft_trie trie;
    float *score;       /* [n_token] */
    double unknown;     /* the score of a character without a token */
    bool merges_spaces; /* merge runs of spaces, and drop spaces at both ends */
};

/* Reads the value tokenizer.ggml.precompiled_charsmap, not copied: data must outlive *map. False if
   the value is damaged. */
bool tft_charsmap_read(struct tft_charsmap *map, const unsigned char *data, size_t size);

/* The replacement of the longest start of text[n], n >= 1, in the table; *len: the length of this
   start. NULL: no such start. */
const char *tft_charsmap_find(const struct tft_charsmap *map, const char *text, size_t n,
                              size_t *len);

#endif
