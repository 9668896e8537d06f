#include "slot.h"

size_t slot_common(const struct slot *s, const int32_t *ids, size_t n)
{
    return s->s && n ? cli_held(s->s, ids, n) : 0;
}

struct slot *slot_choose(struct slot *slots, size_t n_slots, const int32_t *ids, size_t n)
{
    struct slot *best = NULL, *fresh = NULL;
    size_t most = 0;
    for (struct slot *s = slots; s < slots + n_slots; s++) {
        if (s->job)
            continue;
        if (!s->s || !tft_pos(s->s)) {
            if (!fresh || (s->s && !fresh->s))
                fresh = s;
            continue;
        }
        size_t common = slot_common(s, ids, n);
        if (!best || common > most || (common == most && s->used < best->used)) {
            best = s;
            most = common;
        }
    }
    return fresh && (!best || most < n / 2) ? fresh : best;
}
