#include "tune_rounding.h"

#include <stdlib.h>

/* Constants in the order in which a run asks for them. */
struct record {
    real *x;
    size_t n, next;
};

static enum rounding mode;
static struct record products, errors;

static bool rewind_record(struct record *r, bool clear)
{
    bool whole = !r->next || r->next == r->n;
    r->next = 0;
    r->n = clear ? 0 : r->n;
    return whole;
}

bool rounding_begin(enum rounding next)
{
    mode = next;
    bool whole = rewind_record(&products, mode == RECORD);
    return rewind_record(&errors, mode == RECORD) && whole;
}

/* The constant of this run at the base, which is `now` if this run is the base. */
static real constant(struct record *r, real now)
{
    if (mode == REPLAY)
        return r->next < r->n ? r->x[r->next++] : NAN;
    if (mode == RECORD) {
        if (!(r->n & (r->n - 1))) /* full: doubles */
            r->x = realloc(r->x, (r->n ? 2 * r->n : 1) * sizeof *r->x);
        r->x[r->n++] = now;
    }
    return now;
}

real real_round(real x)
{
    return constant(&errors, rint(x));
}

real rounding_straight_through(real x)
{
    return x + constant(&products, rint(x) - x);
}
