#include "tools/quantize/text/talks.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for `more` elements after the first n. */
static bool grow(void **p, size_t *room, size_t n, size_t more, size_t size)
{
    if (n + more <= *room)
        return true;
    size_t to = 2 * (n + more);
    void *q = to <= SIZE_MAX / size ? realloc(*p, to * size) : NULL;
    if (!q)
        return false;
    *p = q;
    *room = to;
    return true;
}

bool talks_add(struct talks *t, const int32_t *ids, size_t n)
{
    void *p = t->ids, *end = t->end;
    bool grown = grow(&p, &t->room_ids, t->n_ids, n + !n, sizeof *t->ids);
    t->ids = p;
    grown = grown && grow(&end, &t->room, t->n, 1, sizeof *t->end);
    t->end = end;
    if (!grown)
        return false;
    if (n)
        memcpy(t->ids + t->n_ids, ids, n * sizeof *ids);
    t->n_ids += n;
    t->end[t->n++] = t->n_ids;
    return true;
}

void talks_free(struct talks *t)
{
    free(t->ids);
    free(t->end);
    *t = (struct talks){0};
}

size_t talks_lead(const struct tft_model *m, const int32_t *ids, size_t n)
{
    size_t added = 0;
    return n && ids[0] == tft_token_bos(m) &&
           tft_tokenize(m, "", 0, TFT_ADD_BOS, NULL, 0, &added) == TFT_OK && added;
}

bool talks_is_kept(size_t text) { return text % KEPT_TALK == KEPT_TALK - 1; }

static size_t begin_of(const struct talks *t, size_t text)
{
    return text ? t->end[text - 1] : 0;
}

size_t talks_tokens(const struct talks *t, bool kept)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++)
        if (talks_is_kept(i) == kept)
            n += t->end[i] - begin_of(t, i);
    return n;
}

size_t talks_same(const struct talks *t)
{
    size_t same = t->n ? t->end[0] : 0;
    for (size_t i = 0; i < t->n; i++) {
        const int32_t *ids = t->ids + begin_of(t, i);
        size_t n = t->end[i] - begin_of(t, i), k = 0;
        while (k < same && k + 1 < n && ids[k] == t->ids[k])
            k++;
        same = k;
    }
    return same;
}

/* The tokens of a text that the prefix already has: as tft_prefix_held. */
static size_t given(const int32_t *ids, size_t n, const struct talks_start *start)
{
    size_t at = n && start->held >= 0 && ids[0] == start->held;
    bool begins = start->n_prefix && start->n_prefix < n - at &&
                  memcmp(ids + at, start->prefix, start->n_prefix * sizeof *ids) == 0;
    return begins ? at + start->n_prefix : at;
}

size_t talks_windows(const struct talks *t, bool kept, const struct talks_start *start,
                     uint32_t window, size_t most, int32_t *out)
{
    size_t windows = 0, at = 0; /* at: tokens so far of the current window */
    for (size_t i = 0; i < t->n && windows < most; i++) {
        const int32_t *ids = t->ids + begin_of(t, i);
        size_t n = t->end[i] - begin_of(t, i), skip = at ? 0 : given(ids, n, start);
        if (talks_is_kept(i) != kept || !n)
            continue;
        if (!at && start->bos >= 0)
            out[windows * window + at++] = start->bos;
        size_t take = n - skip < window - at ? n - skip : window - at;
        memcpy(out + windows * window + at, ids + skip, take * sizeof *ids);
        at += take;
        if (at == window) {
            windows++;
            at = 0;
        }
    }
    return windows;
}
