/*
 * The trie of the vocabulary. Nodes are in depth-first order, so that a subtree is a range of
 * nodes, and its tokens are a range of tokens.
 */
#ifndef TFT_LEXICON_H
#define TFT_LEXICON_H

#include "grammar.h"

enum { TFT_LEXICON_MIXED = 255 };

struct tft_trie_node {
    uint32_t end;   /* the subtree is nodes [this, end) */
    uint32_t token; /* those that end at this node are token[token .. that of the next node) */
    uint16_t depth;
    uint8_t byte;  /* on the way from the parent */
    uint8_t plain; /* the longest way from here to a token, in characters, if there are only plain
                      characters on all ways, whole ones; else, and within a character,
                      TFT_LEXICON_MIXED */
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
    bool has_byte[256];                /* whether a token is this byte alone */
    uint32_t longest;                  /* bytes of the longest token */
};

/* Plain characters: those that may stand for themselves in a JSON string, but U+007F. A grammar
   whose strings allow them all needs no walk through tokens that have only those. */
static inline bool tft_plain_byte(unsigned byte)
{
    return byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
}

/* How UTF-8 goes on after `byte`, where `state` of a character's bytes were read before: the new
   state; 0: between two characters; -1: not a plain character. The states are the continuation
   bytes that are missing, 1 to 3, or 4 and more where the next byte is limited. */
int tft_plain_step(int state, unsigned byte);
enum { TFT_PLAIN_STATES = 8 };

#endif
