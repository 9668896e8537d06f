/* Sets of characters in patterns, and their spelling in JSON. */
#ifndef TFT_SCHEMA_SET_H
#define TFT_SCHEMA_SET_H

#include "schema.h"

enum { SCHEMA_RANGES = 128 };

struct schema_set { /* initialize to zero */
    struct {
        uint32_t lo, hi;
    } range[SCHEMA_RANGES + 1]; /* [n]; a complement may have one range more */
    size_t n;
};

/* Adds lo .. hi; false: the set already has SCHEMA_RANGES ranges. */
bool tft_schema_set_add(struct schema_set *set, uint32_t lo, uint32_t hi);

/* Sorts and merges the ranges, then complements them if `not`. */
void tft_schema_set_finish(struct schema_set *set, bool not );

/* Writes an expression of GBNF for one character of the set. */
void tft_schema_set_put(struct schema *c, const struct schema_set *set);

#endif
