#include "tools/quantize/search/knapsack.h"

#include <stdlib.h>

#include "base/alloc.h"

static size_t least_of(const struct knapsack_item *it)
{
    size_t least = it->bytes[0];
    for (uint32_t i = 1; i < it->n; i++)
        least = it->bytes[i] < least ? it->bytes[i] : least;
    return least;
}

size_t knapsack_least(const struct knapsack_item *item, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += least_of(&item[i]);
    return sum;
}

/* The greatest common divisor of all choices' bytes above their item's least; at least 1. *most:
   the largest such bytes of each item, summed. */
static size_t step_of(const struct knapsack_item *item, size_t n, size_t *most)
{
    size_t step = 0;
    *most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t least = least_of(&item[i]), top = 0;
        for (uint32_t j = 0; j < item[i].n; j++) {
            size_t more = item[i].bytes[j] - least, a = more;
            top = more > top ? more : top;
            while (a) { /* Euclid */
                size_t b = step % a;
                step = a;
                a = b;
            }
        }
        *most += top;
    }
    return step ? step : 1;
}

/* cost: [cells], the least cost of the items before `it` within c steps of bytes; on return `it` is
   included. picked: [cells] the choice of `it`. */
static void add_item(const struct knapsack_item *it, size_t step, double *cost, uint8_t *picked,
                     size_t cells)
{
    size_t least = least_of(it);
    for (size_t c = cells; c-- > 0;) { /* cells below c still hold the old costs */
        double best = 0;
        bool any = false;
        for (uint32_t j = 0; j < it->n; j++) {
            size_t takes = (it->bytes[j] - least) / step;
            if (takes > c || (any && cost[c - takes] + it->cost[j] >= best))
                continue;
            best = cost[c - takes] + it->cost[j];
            picked[c] = (uint8_t)j;
            any = true;
        }
        cost[c] = best;
    }
}

bool knapsack_solve(struct knapsack_item *item, size_t n, size_t budget)
{
    size_t most, step = step_of(item, n, &most), least = knapsack_least(item, n),
                 more = budget - least, bytes;
    size_t cells = (more < most ? more : most) / step + 1;
    double *cost = calloc(cells, sizeof *cost);
    uint8_t *picked = tft_mul(cells, n, &bytes) ? malloc(bytes) : NULL;
    if (cost && picked) {
        for (size_t i = 0; i < n; i++)
            add_item(&item[i], step, cost, picked + i * cells, cells);
        for (size_t i = n, c = cells - 1; i-- > 0;) {
            item[i].picked = picked[i * cells + c];
            c -= (item[i].bytes[item[i].picked] - least_of(&item[i])) / step;
        }
    }
    bool room = cost && picked;
    free(cost);
    free(picked);
    return room;
}
