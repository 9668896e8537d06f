#include "trail.h"

size_t trail_common(const struct trail *t, const struct trail_prompt *p)
{
    size_t common = 0, back = 0;
    if (t->adapted != p->adapted)
        return 0;
    while (common < t->n_tokens && common + 1 < p->n && t->tokens[common] == p->ids[common])
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
    struct trail_prompt all = {t->tokens, t->n_tokens, t->adapted};
    return by->adapted == t->adapted && trail_common(by, &all) + TRAIL_WORTH >= t->n_tokens;
}

size_t trail_common_now(const struct tft_session *s, const int32_t *ids, size_t n)
{
    return n ? tft_rewind_keeps(s, cli_held(s, ids, n)) : 0;
}

uint32_t trail_least(const struct tft_session *s)
{
    uint32_t low = 1, high = (uint32_t)tft_rewind_keeps(s, tft_pos(s));
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (tft_rewind_keeps(s, mid))
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* The newest mark before position `at`; 0: none. */
static size_t mark_before(const struct tft_session *s, size_t at)
{
    return at ? tft_rewind_keeps(s, at - 1) : 0;
}

uint32_t trail_marks(const struct tft_session *s, uint32_t *marks)
{
    size_t last = mark_before(s, tft_rewind_keeps(s, tft_pos(s)));
    uint32_t n = 0;
    for (size_t at = last; at; at = mark_before(s, at))
        n++;
    uint32_t i = n;
    for (size_t at = last; marks && at; at = mark_before(s, at))
        marks[--i] = (uint32_t)at;
    return n;
}
