/*
 * WordPiece (google-research/bert tokenization.py; Wu et al. 2016, section 4.1): a text is
 * normalised and cut at white space and punctuation, and from the left of each word the longest
 * piece of the vocabulary is taken again and again.
 *
 * In a GGUF file the pieces that begin a word have U+2581 before them, which becomes a space; the
 * pieces that go on, "##ing" in vocab.txt, have nothing.
 */
#ifndef TFT_WORDPIECE_H
#define TFT_WORDPIECE_H

#include "trie.h"

enum { TFT_WORDPIECE_MOST = 100 }; /* the most characters of a word; a longer one is unknown */

struct tft_wordpiece {
    struct tft_trie trie;
    bool lowercase, strip_accents;
};

#endif
