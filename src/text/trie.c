#include "trie.h"

#include <string.h>

#include "base/alloc.h"
#include "base/heapsort.h"

static const char *text_of(const struct tft_tokenizer *t, uint32_t id)
{
    return t->bytes + t->token[id].offset;
}

/* The order by text, and equal texts by id. */
static bool comes_before(const void *ctx, const void *first, const void *second)
{
    const struct tft_tokenizer *t = ctx;
    uint32_t a = *(const uint32_t *)first, b = *(const uint32_t *)second;
    uint32_t n_a = t->token[a].n, n_b = t->token[b].n;
    int c = memcmp(text_of(t, a), text_of(t, b), n_a < n_b ? n_a : n_b);
    return c ? c < 0 : n_a != n_b ? n_a < n_b : a < b;
}

/* The normal tokens with a text, sorted; returns their number. */
static uint32_t sort_tokens(const struct tft_tokenizer *t, uint32_t *order)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_token; i++)
        if (t->token[i].kind == TFT_TOKEN_NORMAL && t->token[i].n)
            order[n++] = i;
    tft_heapsort(order, n, sizeof *order, comes_before, t);
    return n;
}

/* Each token adds a node for each byte after its common start with the previous token. */
static size_t count_nodes(const struct tft_tokenizer *t, const uint32_t *order, uint32_t n)
{
    size_t nodes = 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t len = t->token[order[i]].n, before = i ? t->token[order[i - 1]].n : 0, same = 0;
        while (same < len && same < before &&
               text_of(t, order[i])[same] == text_of(t, order[i - 1])[same])
            same++;
        nodes += len - same;
    }
    return nodes;
}

/* The tokens of a node: order[low .. high), with the same first `depth` bytes. */
struct part {
    uint32_t low, high, depth;
};

/* Adds the children of a node after the n_node nodes. */
static void add_children(struct tft_trie *trie, struct part *part, const struct tft_tokenizer *t,
                         const uint32_t *order, size_t parent)
{
    struct part p = part[parent];
    struct tft_trie_node *node = &trie->node[parent];
    node->first = (uint32_t)trie->n_node;
    if (p.depth && t->token[order[p.low]].n == p.depth)
        node->id = (int32_t)order[p.low];
    while (p.low < p.high && t->token[order[p.low]].n == p.depth)
        p.low++; /* the token itself, and tokens with the same text */
    for (uint32_t high; p.low < p.high; p.low = high) {
        char byte = text_of(t, order[p.low])[p.depth];
        for (high = p.low + 1; high < p.high && text_of(t, order[high])[p.depth] == byte;)
            high++;
        trie->node[trie->n_node] = (struct tft_trie_node){.id = -1, .byte = (unsigned char)byte};
        part[trie->n_node++] = (struct part){p.low, high, p.depth + 1};
        node->n++;
    }
}

enum tft_status tft_trie_build(struct tft_trie *trie, const struct tft_tokenizer *t)
{
    size_t size = t->n_token * sizeof(uint32_t);
    uint32_t *order = tft_alloc(t->allocator, size);
    if (!order)
        return TFT_ERR_NOMEM;
    uint32_t n = sort_tokens(t, order);
    size_t nodes = count_nodes(t, order, n), size_part, size_node;
    bool fits = tft_mul(nodes, sizeof(struct part), &size_part) &&
                tft_mul(nodes, sizeof *trie->node, &size_node);
    struct part *part = fits ? tft_alloc(t->allocator, size_part) : NULL;
    trie->node = part ? tft_alloc(t->allocator, size_node) : NULL;
    trie->n_node = trie->node ? nodes : 0;
    if (trie->node) {
        trie->n_node = 1;
        trie->node[0] = (struct tft_trie_node){.id = -1};
        part[0] = (struct part){0, n, 0};
        for (size_t i = 0; i < trie->n_node; i++)
            add_children(trie, part, t, order, i);
    }
    if (part)
        tft_free(t->allocator, part, size_part);
    tft_free(t->allocator, order, size);
    return trie->node ? TFT_OK : TFT_ERR_NOMEM;
}

void tft_trie_free(struct tft_trie *trie, const struct tft_tokenizer *t)
{
    if (trie->node)
        tft_free(t->allocator, trie->node, trie->n_node * sizeof *trie->node);
    *trie = (struct tft_trie){0};
}

const struct tft_trie_node *tft_trie_child(const struct tft_trie *trie,
                                           const struct tft_trie_node *node, unsigned char byte)
{
    const struct tft_trie_node *child = trie->node + node->first;
    for (size_t n = node->n; n;) {
        size_t half = n / 2;
        if (child[half].byte < byte) {
            child += half + 1;
            n -= half + 1;
        } else if (child[half].byte == byte) {
            return &child[half];
        } else {
            n = half;
        }
    }
    return NULL;
}
