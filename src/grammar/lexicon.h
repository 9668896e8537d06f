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
    TFT_LEXICON_STRINGS = 3,
};

struct tft_trie_node {
    uint32_t end;   /* the subtree is nodes [this, end) */
    uint32_t token; /* those that end at this node are token[token .. that of the next node) */
    uint32_t kinds; /* a bit for each kind of the characters at this node and below; the last
                       character of a token may be incomplete */
    uint32_t depth : 14, byte : 8; /* byte: leads here from the parent */
    uint32_t chars : 8;   /* the most of these characters in one token; TFT_LEXICON_LONG: that many
                             or more */
    uint32_t strings : 2; /* all tokens at this node and below are in string[k] for k < strings */
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
    uint32_t *string[TFT_LEXICON_STRINGS]; /* [n_word] mask k: tokens whose characters may all be in
                                              a JSON string, at most tft_string_chars[k] of them */
    uint8_t kind[128];                     /* the kinds of ASCII characters */
    bool has_byte[256];                /* whether a token is this byte alone */
    uint32_t longest;                  /* bytes of the longest token */
};

extern const uint8_t tft_string_chars[TFT_LEXICON_STRINGS]; /* descending */
extern const uint32_t tft_string_kinds; /* the kinds of all characters but quote, backslash,
                                           controls and U+007F */

/* The state of a UTF-8 decoder after `byte`, if it was `state` before. 0: between two characters; 1
   to 3: as many continuation bytes are missing; 4 and more: the next byte is limited. Returns -1 if
   the bytes are not UTF-8. */
int tft_utf8_step(int state, unsigned byte);
enum { TFT_UTF8_STATES = 8 };

#endif
