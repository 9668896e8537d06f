#include "slot.h"

#include "trail.h"

size_t slot_common(const struct slot *s, const struct loras *l, const int32_t *ids, size_t n)
{
    return s->s && loras_same(&s->loras, l) ? trail_common_now(s->s, ids, n) : 0;
}

struct slot *slot_choose(struct slot *slots, size_t n_slots, const struct job *j)
{
    struct slot *best = NULL, *fresh = NULL;
    size_t most = 0;
    for (struct slot *s = slots; s < slots + n_slots; s++) {
        if (s->job || s->off)
            continue;
        if (!s->s || !tft_pos(s->s)) {
            if (!fresh || (s->s && !fresh->s))
                fresh = s;
            continue;
        }
        size_t common = slot_common(s, &j->loras, j->ids, j->n_ids);
        if (!best || common > most || (common == most && s->used < best->used)) {
            best = s;
            most = common;
        }
    }
    bool shares = best && most >= j->n_ids / 2 && tft_pos(best->s) - most <= TRAIL_WORTH;
    return fresh && !shares ? fresh : best;
}

const struct slot *slot_source(const struct slot *slots, size_t n_slots, const struct slot *to,
                               const struct job *j)
{
    const struct slot *best = NULL;
    size_t most = slot_common(to, &j->loras, j->ids, j->n_ids) + TRAIL_WORTH;
    for (const struct slot *s = slots; s < slots + n_slots; s++) {
        size_t common = s == to ? 0 : slot_common(s, &j->loras, j->ids, j->n_ids);
        if (common > most) {
            best = s;
            most = common;
        }
    }
    return best;
}
