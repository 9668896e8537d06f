/* Copying a session to another one. */
#include "base/error.h"
#include "saved.h"

#include <string.h>

static enum tft_status can_copy(const struct tft_session *to, const struct tft_session *from,
                                const struct tft_saved *h, struct tft_error *err)
{
    struct tft_saved own = tft_saved_of(to, NULL);
    own.model.described = to->m != from->m; /* in h it is 0 */
    const char *name = to->m->source.name, *differs = tft_saved_differs(h, &own);
    if (differs)
        return tft_fail(err, TFT_ERR_ARG, "%s: cannot copy a session with %s", name, differs);
    if (h->pos > to->capacity)
        return tft_fail(err, TFT_ERR_FULL,
                        "%s: the session to copy has %u tokens, and the other has room for %u",
                        name, h->pos, to->capacity);
    return tft_saved_on_cpu(to, err);
}

static void take(struct tft_walk *w, void *p, size_t n)
{
    if (p && n)
        memcpy(p, w->from, n);
}

enum tft_status tft_session_copy(struct tft_session *to, const struct tft_session *from,
                                 struct tft_error *err)
{
    struct tft_saved h = tft_saved_of(from, NULL);
    enum tft_status status = can_copy(to, from, &h, err);
    if (status == TFT_OK && to != from)
        tft_saved_restore(to, from, &h, &(struct tft_kv_image){.state = h.kv, .kv = &from->kv},
                          &(struct tft_walk){.part = take, .loads = true, .kv = &from->kv});
    return status;
}
