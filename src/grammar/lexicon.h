/*
 * The trie of the vocabulary. Nodes are in depth-first order, so that a subtree is a range of
 * nodes, and its tokens are a range of tokens.
 */
#ifndef TFT_LEXICON_H
#define TFT_LEXICON_H

#include "grammar.h"

/* Kinds of characters. Grammars seldom treat characters of one kind differently. */
enum {
    TFT_KIND_WIDE = 29, /* all characters beyond ASCII */
    TFT_KINDS = 30,
    TFT_KIND_NONE = 31, /* the bytes from the node's parent on are not whole characters */
    TFT_LEXICON_LONG = 255,
};

struct tft_trie_node {
    uint32_t end;   /* the subtree is nodes [this, end) */
    uint32_t token; /* those that end at this node are token[token .. that of the next node) */
    uint32_t kinds; /* a bit for each kind of the characters at this node and below; the last
                       character of a token may be incomplete */
    uint32_t depth : 14, byte : 8; /* byte: leads here from the parent */
    uint32_t chars : 8; /* the most of these characters in one token; TFT_LEXICON_LONG: that many or
                           more */
};

struct tft_lexicon {
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    const struct tft_tokenizer *t;
    uint32_t n_vocab, n_node, n_token; /* n_token: those that are text */
    uint32_t n_word;                   /* of 32 bits, for a bit for each token of the vocabulary */
    struct tft_trie_node *node;        /* [n_node + 1]; the last one is the end of tokens */
    int32_t *token;                    /* [n_token] sorted by their bytes */
    uint32_t *ends;                    /* [n_word] tokens that end generation */
    uint32_t *within[2]; /* within.c: masks of tokens by their characters; [1]: of tokens that begin
                            with a space, by those behind it */
    uint32_t common;     /* kinds of characters that many tokens have */
    uint8_t kind[128];   /* the kinds of ASCII characters */
    bool has_byte[256];  /* whether a token is this byte alone */
    uint32_t longest;    /* bytes of the longest token */
};

/* The state of a UTF-8 decoder after `byte`, if it was `state` before. 0: between two characters; 1
   to 3: as many continuation bytes are missing; 4 and more: the next byte is limited. Returns -1 if
   the bytes are not UTF-8. */
int tft_utf8_step(int state, unsigned byte);
enum { TFT_UTF8_STATES = 8 };

/* ---- within.c: tokens by their characters. Most of a mask is often all tokens of one class of
   characters: a word, digits, the inside of a string. These are found by a few operations on whole
   masks. */

enum {
    TFT_WITHIN_CHARS = 62, /* longer tokens, and those that are not UTF-8, are never found */
    TFT_WITHIN_PLANES = 6, /* bits of a number of characters */
    TFT_WITHIN_MASKS = TFT_KINDS + TFT_WITHIN_PLANES + 1,
};

/* Fills in lx->within and lx->common. False: out of memory. */
bool tft_within_make(struct tft_lexicon *lx);

void tft_within_free(struct tft_lexicon *lx);

/* Writes to bits[n_word] the tokens whose characters are all of these kinds; with `spaced`, those
   of them behind the space that the token begins with. */
void tft_within(const struct tft_lexicon *lx, bool spaced, uint32_t kinds, uint32_t *bits);

/* Clears the bits of tokens with more than `chars` characters, counted likewise. chars is below
   1 << TFT_WITHIN_PLANES. */
void tft_within_chars(const struct tft_lexicon *lx, bool spaced, unsigned chars, uint32_t *bits);

#endif
