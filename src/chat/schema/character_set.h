/* Sets of characters, as patterns have them, and how JSON spells one of them. */
#ifndef TFT_SCHEMA_SET_H
#define TFT_SCHEMA_SET_H

#include "schema.h"

enum { SCHEMA_RANGES = 128 };

struct schema_set { /* starts from all zero */
    struct {
        uint32_t lo, hi;
    } range[SCHEMA_RANGES + 1]; /* [n]; a complement may have one more */
    size_t n;
};

/* Adds lo .. hi; false: there are SCHEMA_RANGES already. */
bool tft_schema_set_add(struct schema_set *set, uint32_t lo, uint32_t hi);

/* Sorts and merges; then the complement, if `not`. */
void tft_schema_set_finish(struct schema_set *set, bool not );

/* Writes an expression of GBNF for one of them. */
void tft_schema_set_put(struct schema *c, const struct schema_set *set);

#endif
