#include "trail.h"

#include "run/session.h"

size_t trail_common(const struct trail *t, const int32_t *ids, size_t n)
{
    size_t common = 0, back = 0;
    while (common < t->n_tokens && common + 1 < n && t->tokens[common] == ids[common])
        common++;
    if (t->marked && common < t->n_tokens) {
        for (uint32_t i = 0; i < t->n_marks && t->marks[i] <= common; i++)
            back = t->marks[i];
        common = back;
    }
    return common >= t->least ? common : 0;
}

bool trail_covers(const struct trail *by, const struct trail *t)
{
    return trail_common(by, t->tokens, t->n_tokens) + TRAIL_WORTH >= t->n_tokens;
}

/* with prefill=prompt, the contents of the cache depend on where the last prompt ended; and after a
   slide, on tokens that are gone */
bool trail_is_whole(const struct tft_session *s) { return !s->whole_prompt && !s->kv.dropped; }

size_t trail_common_now(const struct tft_session *s, const int32_t *ids, size_t n)
{
    if (!n || !trail_is_whole(s))
        return 0;
    size_t common = cli_held(s, ids, n);
    if (common >= s->kv.held)
        return s->kv.held;
    if (s->states.size)
        common = tft_states_before(&s->states, (uint32_t)common);
    return tft_kv_keeps(&s->kv, (uint32_t)common) ? common : 0;
}

uint32_t trail_least(const struct tft_session *s)
{
    uint32_t low = 1, high = s->kv.held;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (tft_kv_keeps(&s->kv, mid))
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}
