#include "model/prefix.h"

#include "model/keys.h"

/* The prefix's keys or values as f16 [n_layer, n_prefix, G, E]: in place, or expanded once, so that
   sessions know f16 alone. */
static const uint16_t *prefix_rows(struct tft_load *ld, const char *name)
{
    const struct tft_model *m = ld->m;
    const struct tft_tensor *t = tft_source_tensor(ld->s, name);
    uint64_t width = (uint64_t)m->n_head_kv * m->head_dim;
    if (!t || (t->type != TFT_Q8_0 && t->type != TFT_Q4_1))
        return tft_load_exactly(
            ld, name, TFT_F16,
            (const uint64_t[4]){m->head_dim, m->n_head_kv, m->n_prefix, m->n_layer});
    if (!tft_load_exactly(ld, name, t->type,
                          (const uint64_t[4]){width, m->n_prefix, m->n_layer, 1}))
        return NULL;
    uint16_t *to =
        tft_arena_take(&ld->arena, (size_t)m->n_layer * m->n_prefix, (size_t)width * sizeof *to);
    tft_load_convert_later(ld, &(struct tft_conversion){
                                   .tensor = t,
                                   .rows = (uint64_t)m->n_layer * m->n_prefix,
                                   .num = TFT_NUM_F16,
                                   .to = to,
                               });
    return to;
}

void tft_prefix_bos(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const struct tft_value *v = tft_source_value(ld->s, TFT_KEY_PREFIX_TOKENS);
    int32_t bos = m->tokenizer ? tft_tokenizer_bos(m->tokenizer) : -1;
    m->prefix_bos = false;
    for (uint64_t i = 0; v && i < v->n; i++) {
        int64_t id;
        if (!tft_value_int(v, i, &id))
            tft_load_fail(ld, TFT_ERR_FORMAT, "%s has an element that is not an integer",
                          TFT_KEY_PREFIX_TOKENS);
        else
            m->prefix_bos |= bos >= 0 && id == bos;
    }
}

void tft_prefix_load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const struct tft_value *v = tft_source_value(ld->s, TFT_KEY_PREFIX_TOKENS);
    m->n_prefix = 0;
    if (!v || ld->status != TFT_OK)
        return;
    if (!v->is_array || v->n < 1 || v->n >= m->n_ctx)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not an array of 1 to %u tokens",
                      TFT_KEY_PREFIX_TOKENS, m->n_ctx - 1);
    if (ld->status != TFT_OK)
        return;
    m->n_prefix = (uint32_t)v->n;
    m->prefix_k = prefix_rows(ld, TFT_KEY_PREFIX_K);
    m->prefix_v = prefix_rows(ld, TFT_KEY_PREFIX_V);
    m->prefix_x = NULL;
    if (tft_source_tensor(ld->s, TFT_KEY_PREFIX_X))
        m->prefix_x = tft_load_exactly(ld, TFT_KEY_PREFIX_X, TFT_F32,
                                       (const uint64_t[4]){m->n_embd, 1, 1, 1});
}
