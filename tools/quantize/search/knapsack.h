/*
 * Picks one choice for each item, so that the bytes stay within a budget and the sum of costs is
 * least: the multiple-choice knapsack problem, solved exactly by a table over all budgets
 * (Kellerer, Pferschy & Pisinger 2004, section 11.5). The table is small, as the bytes of an item's
 * choices differ by few multiples of one number: a panel's quad has whole bits.
 */
#ifndef QUANTIZE_SEARCH_KNAPSACK_H
#define QUANTIZE_SEARCH_KNAPSACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KNAPSACK_CHOICES = 16 };

struct knapsack_item {
    uint32_t n; /* choices, at least 1 */
    size_t bytes[KNAPSACK_CHOICES];
    double cost[KNAPSACK_CHOICES];
    uint32_t picked; /* result */
};

/* The least total bytes of the items. */
size_t knapsack_least(const struct knapsack_item *item, size_t n);

/* Fills `picked` of each item; budget: at least knapsack_least. Of equal choices the first wins.
   False if memory is short. */
bool knapsack_solve(struct knapsack_item *item, size_t n, size_t budget);

#endif
