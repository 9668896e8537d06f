#include "likely.h"

#include <math.h>

/* ---------------------------------------------------------------------------------- the largest */

/* The largest of x[n]; -infinity if n is 0. It is computed in 16 lanes, so that compilers use
   vectors. */
static float largest(const float *x, size_t n)
{
    enum { LANES = 16 };
    float lane[LANES], max = -INFINITY;
    size_t i = 0;
    for (size_t j = 0; j < LANES; j++)
        lane[j] = -INFINITY;
    for (; i + LANES <= n; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            lane[j] = x[i + j] > lane[j] ? x[i + j] : lane[j];
    for (; i < n; i++)
        max = x[i] > max ? x[i] : max;
    for (size_t j = 0; j < LANES; j++)
        max = lane[j] > max ? lane[j] : max;
    return max;
}

int32_t tft_likely_begin(struct tft_likely *l)
{
    l->best = -INFINITY;
    l->n_ranked = l->end = 0;
    l->layer = 0;
    for (size_t i = 0, b = 0; i < l->n; i += TFT_LIKELY_BLOCK, b++) {
        size_t left = l->n - i;
        l->tops[b] = largest(l->logits + i, left < TFT_LIKELY_BLOCK ? left : TFT_LIKELY_BLOCK);
        l->best = l->tops[b] > l->best ? l->tops[b] : l->best;
    }
    for (size_t i = 0; i < l->n; i++) {
        while (i % TFT_LIKELY_BLOCK == 0 && i + TFT_LIKELY_BLOCK < l->n &&
               l->tops[i / TFT_LIKELY_BLOCK] < l->best)
            i += TFT_LIKELY_BLOCK;
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

/* The heap has its root, the likeliest candidate, at the end of the array, and grows to the left:
   node i is root[-i]. What leaves it is put where its last node was, which is behind what left it
   before. */
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

/* Collects the candidates from `lower` up to those of the last layer. */
static void collect(struct tft_likely *l, float lower)
{
    for (size_t i = 0; i < l->n; i++) {
        if (i % TFT_LIKELY_BLOCK == 0 && !(l->tops[i / TFT_LIKELY_BLOCK] >= lower)) {
            i += TFT_LIKELY_BLOCK - 1;
            continue;
        }
        float x = l->logits[i];
        if (x >= lower && !(l->layer && x >= l->above))
            l->c[l->end++] = (struct tft_candidate){x, (int32_t)i};
    }
    l->above = lower;
    l->layer++;
    size_t n = l->end - l->n_ranked;
    for (size_t i = n / 2; i-- > 0;)
        sift_down(l->c + l->end - 1, n, i);
}

/* Makes a heap of the next layer that is not empty. Returns false after the last one. */
static bool next_layer(struct tft_likely *l)
{
    static const float width[] = {4, 10, 24, INFINITY};
    while (l->n_ranked == l->end) {
        if (l->layer == sizeof width / sizeof *width)
            return false;
        float w = width[l->layer];
        collect(l, w < INFINITY ? l->best - w * l->unit : -INFINITY);
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
