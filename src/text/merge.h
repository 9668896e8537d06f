/*
 * BPE merging for both tokenizers. A text starts as a row of symbols (characters or bytes). Of all
 * adjacent pairs that together are a token, the pair of the lowest rank becomes one symbol, the
 * leftmost pair of equal rank first, until no pair is a token. A heap holds each symbol that can
 * merge with the next symbol, by the rank of the pair: O(n log n) for every text of n bytes, even
 * without a space.
 */
#ifndef TFT_MERGE_H
#define TFT_MERGE_H

#include "tuffet.h"

/* The position of its first byte identifies a symbol. A symbol ends where the next symbol starts.
   */
struct tft_symbol {
    uint32_t prev, next; /* positions; next of the last symbol is n */
    int32_t id;          /* the token of its bytes, or -1 */
    int32_t merged_id;   /* the token of this and the next symbol together; set while in the heap */
    uint32_t heap_index; /* or TFT_NOT_IN_HEAP */
};

enum { TFT_MERGE_SHORT = 128 };
#define TFT_NOT_IN_HEAP UINT32_MAX

/* Memory for merging texts in sequence: 29 bytes for each byte of text. A text of at most
   TFT_MERGE_SHORT bytes needs no allocation. */
struct tft_merge {
    struct tft_symbol *symbol; /* [n], by position */
    uint64_t *heap;            /* [n_heap], rank << 32 | position, smallest first */
    char *text;                /* [n], for the caller */
    uint32_t n, n_heap;
    size_t capacity; /* in bytes of text */

    const struct tft_allocator *allocator;
    void *owned; /* one allocation for the arrays; NULL: the short arrays below */
    size_t owned_size;
    struct tft_symbol short_symbol[TFT_MERGE_SHORT];
    uint64_t short_heap[TFT_MERGE_SHORT];
    char short_text[TFT_MERGE_SHORT];
};

void tft_merge_init(struct tft_merge *m, const struct tft_allocator *a);
void tft_merge_free(struct tft_merge *m);

/* Starts a text of n bytes, 1 to 2^31, and discards the previous text; no later text is longer than
   `longest`. TFT_ERR_NOMEM. */
enum tft_status tft_merge_start(struct tft_merge *m, size_t n, size_t longest);

/* Adds the symbol of the bytes [pos, end). id: the token of the bytes, or -1. The first pos is 0,
   every other pos the end of the previous symbol. */
void tft_merge_add(struct tft_merge *m, uint32_t pos, uint32_t end, int32_t id);

/* Whether the adjacent symbols at `left` and `right` together are a token; *id: the token, *rank:
   its rank. */
typedef bool tft_merge_join(const void *ctx, const struct tft_merge *m, uint32_t left,
                            uint32_t right, int32_t *id, uint32_t *rank);

/* Merges. The remaining symbols are m->symbol[0], the symbol at its `next`, and so on up to n. */
void tft_merge_run(struct tft_merge *m, tft_merge_join *join, const void *ctx);

#endif
