/* Tokenizes a conversation. */
#include "chat/tuffet_chat.h"

#include "base/options.h"

static bool is_text(const struct tft_model *m, int32_t id)
{
    size_t n;
    tft_token_text(m, id, false, &n);
    return n > 0;
}

enum tft_status tft_chat_tokenize(const struct tft_chat_text *t, const struct tft_model *m,
                                  int32_t *ids, size_t cap, size_t *n, bool *text_goes_on)
{
    if (tft_options_reserved(t->reserved, sizeof t->reserved, "tft_chat_text", NULL) != TFT_OK)
        return TFT_ERR_ARG;
    enum tft_status status =
        tft_tokenize_spans(m, t->p, t->n, t->trusted, t->n_trusted, TFT_ADD_BOS, ids, cap, n);
    if (status == TFT_OK && ids && text_goes_on)
        *text_goes_on = *n && is_text(m, ids[*n - 1]);
    return status;
}
