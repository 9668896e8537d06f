#include "tools/quantize/search/knapsack.h"

#include <stdlib.h>

#include "base/alloc.h"

static size_t least_of(const struct knapsack_item *u)
{
    size_t least = u->bytes[0];
    for (uint32_t i = 1; i < u->n; i++)
        least = u->bytes[i] < least ? u->bytes[i] : least;
    return least;
}

size_t knapsack_least(const struct knapsack_item *unit, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += least_of(&unit[i]);
    return sum;
}

/* The largest number of bytes that all choices are a multiple of beyond their unit's least, 1 or
   more; *most: beyond it in all, at most. */
static size_t step_of(const struct knapsack_item *unit, size_t n, size_t *most)
{
    size_t step = 0;
    *most = 0;
    for (size_t i = 0; i < n; i++) {
        size_t least = least_of(&unit[i]), top = 0;
        for (uint32_t j = 0; j < unit[i].n; j++) {
            size_t more = unit[i].bytes[j] - least, a = more;
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

/* cost: [cells], the least that the units before u cost with so many steps at most; it becomes that
   with u. */
static void add_unit(const struct knapsack_item *u, size_t step, double *cost, uint8_t *picked,
                     size_t cells)
{
    size_t least = least_of(u);
    for (size_t c = cells; c-- > 0;) { /* what is read below c has not been changed */
        double best = 0;
        bool any = false;
        for (uint32_t j = 0; j < u->n; j++) {
            size_t takes = (u->bytes[j] - least) / step;
            if (takes > c || (any && cost[c - takes] + u->cost[j] >= best))
                continue;
            best = cost[c - takes] + u->cost[j];
            picked[c] = (uint8_t)j;
            any = true;
        }
        cost[c] = best;
    }
}

bool knapsack_solve(struct knapsack_item *unit, size_t n, size_t budget)
{
    size_t most, step = step_of(unit, n, &most), least = knapsack_least(unit, n),
                 more = budget - least, bytes;
    size_t cells = (more < most ? more : most) / step + 1;
    double *cost = calloc(cells, sizeof *cost);
    uint8_t *picked = tft_mul(cells, n, &bytes) ? malloc(bytes) : NULL;
    if (cost && picked) {
        for (size_t i = 0; i < n; i++)
            add_unit(&unit[i], step, cost, picked + i * cells, cells);
        for (size_t i = n, c = cells - 1; i-- > 0;) {
            unit[i].picked = picked[i * cells + c];
            c -= (unit[i].bytes[unit[i].picked] - least_of(&unit[i])) / step;
        }
    }
    bool room = cost && picked;
    free(cost);
    free(picked);
    return room;
}
