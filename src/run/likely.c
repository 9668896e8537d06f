#include "likely.h"

#include <math.h>

int32_t tft_likely_begin(struct tft_likely *l)
{
    l->best = l->floor = -INFINITY;
    l->n_ranked = l->end = 0;
    l->layer = 0;
    l->kern->tops(l->tops, l->logits, l->n);
    for (size_t b = 0; b < tft_likely_layers(l->n); b++)
        l->best = l->tops[b] > l->best ? l->tops[b] : l->best;
    for (size_t i = 0; i < l->n; i++) {
        while (i % TFT_TOPS == 0 && i + TFT_TOPS < l->n &&
               l->tops[i / TFT_TOPS] < l->best)
            i += TFT_TOPS;
        if (l->logits[i] == l->best)
            return (int32_t)i;
    }
    return 0;
}

/* ------------------------------------------------------------------------------------- the heap */

static bool before(struct tft_candidate a, struct tft_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void swap(struct tft_candidate *a, struct tft_candidate *b)
{
    struct tft_candidate t = *a;
    *a = *b;
    *b = t;
}

/* The heap has its root, the most likely candidate, at the end of the array, and grows to the left:
   node i is root[-i]. The removed root takes the place of the last node, so removed candidates are
   in order. */
static void sift_down(struct tft_candidate *root, size_t n, size_t i)
{
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n)
            return;
        if (child + 1 < n && before(*(root - child - 1), *(root - child)))
            child++;
        if (!before(*(root - child), *(root - i)))
            return;
        swap(root - child, root - i);
        i = child;
    }
}

/* ----------------------------------------------------------------------------------- the layers */

enum { RUN = 16 }; /* logits that a compiler compares together */
_Static_assert(TFT_TOPS % RUN == 0, "a block is whole runs");

static bool any_from(const float *x, float lower)
{
    int found = 0;
    for (size_t i = 0; i < RUN; i++)
        found |= x[i] >= lower;
    return found;
}

/* Collects the logits [i, end) from `lower` up to the last layer's. */
static void collect_run(struct tft_likely *l, float lower, size_t i, size_t end)
{
    for (; i < end; i++) {
        float x = l->logits[i];
        if (x >= lower && !(l->layer && x >= l->above))
            l->c[l->end++] = (struct tft_candidate){x, (int32_t)i};
    }
}

/* Collects the candidates of the next layer, from `lower` on. */
static void collect(struct tft_likely *l, float lower)
{
    size_t i = 0;
    while (i + RUN <= l->n) {
        if (i % TFT_TOPS == 0 && !(l->tops[i / TFT_TOPS] >= lower)) {
            i += TFT_TOPS;
            continue;
        }
        if (any_from(l->logits + i, lower))
            collect_run(l, lower, i, i + RUN);
        i += RUN;
    }
    collect_run(l, lower, i, l->n);
    l->above = lower;
    l->layer++;
    size_t n = l->end - l->n_ranked;
    for (size_t j = n / 2; j-- > 0;)
        sift_down(l->c + l->end - 1, n, j);
}

/* Makes a heap of the next layer that is not empty. Returns false after the last one. */
static bool next_layer(struct tft_likely *l)
{
    static const float width[] = {4, 10, 24, INFINITY};
    while (l->n_ranked == l->end) {
        if (l->layer == sizeof width / sizeof *width || (l->layer && l->above <= l->floor))
            return false;
        float w = width[l->layer], lower = w < INFINITY ? l->best - w * l->unit : -INFINITY;
        collect(l, lower > l->floor ? lower : l->floor);
    }
    return true;
}

bool tft_likely_has(struct tft_likely *l, size_t i)
{
    while (l->n_ranked <= i) {
        if (!next_layer(l))
            return false;
        struct tft_candidate *root = l->c + l->end - 1;
        swap(root, l->c + l->n_ranked++);
        sift_down(root, l->end - l->n_ranked, 0);
    }
    return true;
}
