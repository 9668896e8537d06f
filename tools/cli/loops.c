#include "loops.h"

bool loops_take(struct loops *l, int32_t id)
{
    uint32_t fills = 0; /* how many of the newest tokens a span of fewer than LOOPS_LEAST fills */
    bool found = false;
    for (uint32_t span = 1; span <= LOOPS_MOST && span <= l->n; span++) {
        bool same = l->last[(l->n - span) % LOOPS_MOST] == id;
        uint32_t filled = span + (l->same[span] = same ? l->same[span] + 1 : 0);
        if (span < LOOPS_LEAST)
            fills = filled > fills ? filled : fills;
        else
            found |= filled >= LOOPS_TIMES * span && fills < LOOPS_TIMES * span;
    }
    l->last[l->n++ % LOOPS_MOST] = id;
    return found || fills >= LOOPS_FILL;
}
