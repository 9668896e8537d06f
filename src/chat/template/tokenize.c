/* Tokenizes a conversation. */
#include "chat/tuffet_chat.h"

#include <string.h>

#include "base/alloc.h"

/* The number of tokens at the start (0 or 1) that repeat BOS: the template wrote BOS, and either
   tft_tokenize_spans put BOS before it (*kept is 1), or the model's prefix has BOS. */
static size_t extra_bos(const struct tft_chat_text *t, const struct tft_model *m,
                        const int32_t *ids, size_t n, size_t *kept)
{
    struct tft_model_info info = {.size = sizeof info};
    int32_t bos = tft_token_bos(m);
    size_t len;
    const char *name = tft_token_text(m, bos, true, &len);
    bool written = name && len && t->n_trusted && !t->trusted->begin && len <= t->trusted->end &&
                   memcmp(t->p, name, len) == 0;
    tft_model_describe(m, &info);
    *kept = !info.prefix_bos;
    return written && n > *kept && ids[0] == bos && ids[*kept] == bos;
}

static bool is_text(const struct tft_model *m, int32_t id)
{
    size_t n;
    tft_token_text(m, id, false, &n);
    return n > 0;
}

/* Writes the tokens to p[cap], with one BOS; if more than cap, sets only *n. */
static enum tft_status tokenize(const struct tft_chat_text *t, const struct tft_model *m,
                                int32_t *p, size_t cap, size_t *n, bool *text_goes_on)
{
    size_t kept;
    enum tft_status status =
        tft_tokenize_spans(m, t->p, t->n, t->trusted, t->n_trusted, TFT_ADD_BOS, p, cap, n);
    if (status != TFT_OK || !p)
        return status;
    size_t extra = extra_bos(t, m, p, *n, &kept);
    *n -= extra;
    if (extra)
        memmove(p + kept, p + kept + 1, (*n - kept) * sizeof *p);
    if (text_goes_on)
        *text_goes_on = *n && is_text(m, p[*n - 1]);
    return TFT_OK;
}

enum tft_status tft_chat_tokenize(const struct tft_chat_text *t, const struct tft_model *m,
                                  int32_t *ids, size_t cap, size_t *n, bool *text_goes_on)
{
    *n = 0;
    enum tft_status status = tokenize(t, m, ids, cap, n, text_goes_on);
    bool counted = status == TFT_ERR_FULL || (status == TFT_OK && !ids);
    if (!counted)
        return status;
    size_t all = *n, bytes;
    int32_t *p = tft_mul(all, sizeof *p, &bytes) ? tft_alloc(NULL, bytes) : NULL;
    if (!p)
        return TFT_ERR_NOMEM;
    status = tokenize(t, m, p, all, n, text_goes_on);
    if (status == TFT_OK && ids) {
        memcpy(ids, p, (*n < cap ? *n : cap) * sizeof *p);
        status = *n > cap ? TFT_ERR_FULL : TFT_OK;
    }
    tft_free(NULL, p, bytes);
    return status;
}
