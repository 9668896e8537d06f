/*
 * One choice for each of some units, so that their bytes stay within a budget and their costs add
 * up to the least: the multiple-choice knapsack problem, solved exactly. What choices differ by is
 * few multiples of one number of bytes (a panel's quad has whole bits), so that a table of all
 * budgets, in such steps, is small: Kellerer, Pferschy & Pisinger 2004, section 11.5.
 */
#ifndef QUANTIZE_SEARCH_KNAPSACK_H
#define QUANTIZE_SEARCH_KNAPSACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KNAPSACK_CHOICES = 16 };

struct knapsack_item {
    uint32_t n; /* at least 1 */
    size_t bytes[KNAPSACK_CHOICES];
    double cost[KNAPSACK_CHOICES];
    uint32_t picked;
};

/* The least that units can take: what a budget must be at least. */
size_t knapsack_least(const struct knapsack_item *unit, size_t n);

/* Fills `picked` of each. Of choices that are as good the first one counts. False without
   memory. */
bool knapsack_solve(struct knapsack_item *unit, size_t n, size_t budget);

#endif
