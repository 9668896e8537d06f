/*
 * Merging symbols, the heart of both tokenizers: of all neighbours that together make a token,
 * those of the best (lowest) rank become one symbol, the leftmost of equals first, until none is
 * left. With a heap that holds each symbol once, by the rank at which it joins the next: O(n log
 * n), for a text without a space as well.
 */
#ifndef TFT_MERGE_H
#define TFT_MERGE_H

#include "tuffet.h"

/* A symbol is named by the place of its first byte; it ends where the next one starts. */
struct tft_symbol {
    uint32_t prev, next; /* next of the last one is n */
    int32_t id;          /* the token it is, or -1 */
    int32_t joined;      /* the token that it and the next one make; only if in the heap */
    uint32_t slot;       /* in the heap, or TFT_NO_SLOT */
};

enum { TFT_MERGE_SHORT = 128 };
#define TFT_NO_SLOT UINT32_MAX

/* Room to merge texts in, one after another: 29 bytes for each of text, without an allocation up to
   TFT_MERGE_SHORT. */
struct tft_merge {
    struct tft_symbol *symbol; /* by first byte */
    uint64_t *heap;            /* rank << 32 | symbol, smallest first */
    char *text;                /* for the caller */
    uint32_t n, n_heap;
    size_t room;

    const struct tft_allocator *allocator;
    void *owned;
    size_t owned_size;
    struct tft_symbol short_symbol[TFT_MERGE_SHORT];
    uint64_t short_heap[TFT_MERGE_SHORT];
    char short_text[TFT_MERGE_SHORT];
};

void tft_merge_init(struct tft_merge *m, const struct tft_allocator *a);
void tft_merge_free(struct tft_merge *m);

/* Starts on a text of n bytes, 1 to 2^31; `most` is the longest there will be. What was in it is
   forgotten. */
enum tft_status tft_merge_start(struct tft_merge *m, size_t n, size_t most);

/* The symbol of bytes [at, end). From 0 on, each where the last one ended. */
void tft_merge_put(struct tft_merge *m, uint32_t at, uint32_t end, int32_t id);

/* Whether two neighbours make a token, and which, at what rank. */
typedef bool tft_merge_join(const void *ctx, const struct tft_merge *m, uint32_t left,
                            uint32_t right, int32_t *id, uint32_t *rank);

/* Merges. Then the symbols are m->symbol[0], the one at its `next`, and so on up to n. */
void tft_merge_run(struct tft_merge *m, tft_merge_join *join, const void *ctx);

#endif
