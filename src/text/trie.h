/* A trie of the normal tokens of a vocabulary, to find all pieces that a text begins with. The
   children of a node are adjacent. */
#ifndef TFT_TRIE_H
#define TFT_TRIE_H

#include "vocab.h"

struct tft_trie_node {
    uint32_t first;     /* of the children, sorted by byte */
    int32_t id;         /* the token that ends here, or -1 */
    uint16_t n;         /* of children */
    unsigned char byte; /* the last byte of the node's text */
};

struct tft_trie {
    struct tft_trie_node *node; /* [n_node]; node 0 is the root */
    size_t n_node;
};

/* TFT_ERR_NOMEM. The memory is from t->allocator. */
enum tft_status tft_trie_build(struct tft_trie *trie, const struct tft_tokenizer *t);
void tft_trie_free(struct tft_trie *trie, const struct tft_tokenizer *t);

/* The child of `node` for a byte; NULL: none. */
const struct tft_trie_node *tft_trie_child(const struct tft_trie *trie,
                                           const struct tft_trie_node *node, unsigned char byte);

#endif
