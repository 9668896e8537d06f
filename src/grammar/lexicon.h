/*
 * The trie of the vocabulary. Nodes are in depth-first order, so that a subtree is a range of
 * nodes, and its tokens are a range of tokens.
 */
#ifndef TFT_LEXICON_H
#define TFT_LEXICON_H

#include "grammar.h"

/* Kinds of characters: those that grammars seldom tell apart. */
enum {
    TFT_KIND_WIDE = 29, /* all beyond ASCII */
    TFT_KINDS = 30,
    TFT_KIND_NONE = 31, /* of a node: not whole characters, from the node's parent on */
    TFT_LEXICON_LONG = 255,
    TFT_LEXICON_STRINGS = 3,
};

struct tft_trie_node {
    uint32_t end;   /* the subtree is nodes [this, end) */
    uint32_t token; /* those that end at this node are token[token .. that of the next node) */
    uint32_t kinds; /* a bit for each kind of the characters here and below; the last one of a token
                       may be cut */
    uint32_t depth : 14, byte : 8; /* byte: on the way from the parent */
    uint32_t chars : 8;   /* the most characters of them in a token, TFT_LEXICON_LONG if too many */
    uint32_t strings : 2; /* all tokens here and below are in the first so many masks of strings */
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
    uint32_t *string[TFT_LEXICON_STRINGS]; /* [n_word] tokens of kinds that a JSON string may have,
                                              of at most tft_string_chars[] characters */
    uint8_t kind[128];                     /* of the characters of ASCII */
    bool has_byte[256];                /* whether a token is this byte alone */
    uint32_t longest;                  /* bytes of the longest token */
};

extern const uint8_t tft_string_chars[TFT_LEXICON_STRINGS]; /* descending */
extern const uint32_t tft_string_kinds; /* all but quote, backslash, controls and U+007F */

/* How UTF-8 goes on after `byte`, where `state` of a character's bytes were read before: the new
   state; 0: between two characters; -1: not UTF-8. The states are the continuation bytes that are
   missing, 1 to 3, or 4 and more where the next byte is limited. */
int tft_utf8_step(int state, unsigned byte);
enum { TFT_UTF8_STATES = 8 };

#endif
