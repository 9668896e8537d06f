#include "heapsort.h"

#include <assert.h>
#include <string.h>

enum { MAX_SIZE = 16 };

/* A heap with the last item of the order at the root. */
struct heap {
    char *items;
    size_t size;
    tft_before *before;
    const void *ctx;
};

static char *item(const struct heap *h, size_t i)
{
    return h->items + i * h->size;
}

static void swap(const struct heap *h, size_t i, size_t j)
{
    char saved[MAX_SIZE];
    memcpy(saved, item(h, i), h->size);
    memcpy(item(h, i), item(h, j), h->size);
    memcpy(item(h, j), saved, h->size);
}

/* Restores the heap of the first n items below index i. */
static void sift_down(const struct heap *h, size_t i, size_t n)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && h->before(h->ctx, item(h, child), item(h, child + 1)))
            child++;
        if (!h->before(h->ctx, item(h, i), item(h, child)))
            return;
        swap(h, i, child);
    }
}

void tft_heapsort(void *items, size_t n, size_t size, tft_before *before, const void *ctx)
{
    assert(size <= MAX_SIZE);
    struct heap h = {items, size, before, ctx};
    for (size_t i = n / 2; i-- > 0;)
        sift_down(&h, i, n);
    for (size_t i = n; i-- > 1;) {
        swap(&h, 0, i);
        sift_down(&h, 0, i);
    }
}
