/*
 * The trie of the vocabulary. Nodes are in depth-first order, so a subtree is a range of nodes, and
 * its tokens are a range of tokens.
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

struct tft_lexicon_node {
    uint32_t end;   /* the subtree is nodes [this, end) */
    uint32_t token; /* this node's tokens are token[token .. the next node's `token`) */
    uint32_t kinds; /* a bit for each kind of the characters at this node and below; the last
                       character of a token may be incomplete */
    uint32_t depth : 14, byte : 8; /* byte: leads here from the parent */
    uint32_t chars : 8; /* the most such characters in one token; TFT_LEXICON_LONG: at least that
                           many */
};

struct tft_lexicon {
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    const struct tft_tokenizer *t;
    uint32_t n_vocab, n_node, n_token; /* n_token: text tokens */
    uint32_t n_word;            /* words of 32 bits, with a bit for each token of the vocabulary */
    struct tft_lexicon_node *node; /* [n_node + 1]; the last marks the end of tokens */
    int32_t *token;             /* [n_token] sorted by their bytes */
    uint32_t *ends;             /* [n_word] tokens that end generation */
    uint32_t *within[2]; /* within.c: masks of tokens by their characters; [1]: of tokens that begin
                            with a space, by the characters after the space */
    uint32_t common;     /* kinds of characters that many tokens have */
    uint8_t kind[128];   /* the kinds of ASCII characters */
    bool has_byte[256];  /* whether a token is this byte alone */
    uint32_t longest;    /* bytes of the longest token */
};

/* The next state of a UTF-8 decoder in `state` after `byte`. 0: between two characters; 1 to 3: as
   many continuation bytes are missing; 4 and more: the next byte is limited. Returns -1 if the
   bytes are not UTF-8. */
int tft_utf8_step(int state, unsigned byte);
enum { TFT_UTF8_STATES = 8 };

/* ---- within.c: tokens by their characters. Often most of a mask is all tokens of one class of
   characters: a word, digits, the inside of a string. A few operations on whole masks find these
   tokens. */

enum {
    TFT_WITHIN_CHARS = 62, /* longer tokens, and tokens that are not UTF-8, are never found */
    TFT_WITHIN_PLANES = 6, /* bits of a number of characters */
    TFT_WITHIN_MASKS = TFT_KINDS + TFT_WITHIN_PLANES + 1,
};

/* Fills in lx->within and lx->common. False: out of memory. */
bool tft_within_make(struct tft_lexicon *lx);

void tft_within_free(struct tft_lexicon *lx);

/* Writes to bits[n_word] the tokens with characters of these kinds only; with `spaced`, the tokens
   that begin with a space and have such characters after it. */
void tft_within(const struct tft_lexicon *lx, bool spaced, uint32_t kinds, uint32_t *bits);

/* Clears the bits of tokens with more than `chars` characters; with `spaced`, not counting the
   space. chars is below 1 << TFT_WITHIN_PLANES. */
void tft_within_chars(const struct tft_lexicon *lx, bool spaced, unsigned chars, uint32_t *bits);

#endif
