#include "lora.h"

#include <math.h>

#include "base/crc32.h"
#include "base/error.h"
#include "base/options.h"

enum tft_status tft_session_loras_check(const struct tft_model *m, const struct tft_session_opts *o,
                                        struct tft_error *err)
{
    if (o->n_loras && !o->loras)
        return tft_fail(err, TFT_ERR_ARG, "n_loras is %u, and loras is NULL", o->n_loras);
    for (uint32_t i = 0; i < o->n_loras; i++) {
        const struct tft_lora_use *use = &o->loras[i];
        enum tft_status status =
            tft_options_reserved(use->reserved, sizeof use->reserved, "tft_lora_use", err);
        if (status != TFT_OK)
            return status;
        if (!use->lora || use->lora->m != m)
            return tft_fail(err, TFT_ERR_ARG, "%s: adapter %u was opened for another model",
                            m->source.name, i);
        if (!isfinite(use->scale))
            return tft_fail(err, TFT_ERR_ARG, "%s: the scale of adapter %u is not a number",
                            m->source.name, i);
    }
    return TFT_OK;
}

void tft_session_loras_layout(struct tft_session_loras *l, struct tft_arena *a,
                              const struct tft_session_opts *o)
{
    *l = (struct tft_session_loras){.use = tft_arena_take(a, o->n_loras, sizeof *l->use)};
    for (uint32_t i = 0; i < o->n_loras; i++) {
        const struct tft_lora_use *use = &o->loras[i];
        if (use->scale == 0)
            continue;
        if (l->use)
            l->use[l->n] = *use;
        l->n++;
        l->stride += use->lora->rank;
        l->cols = use->lora->cols > l->cols ? use->lora->cols : l->cols;
    }
    for (int i = 0; i < TFT_LORA_SLOTS; i++)
        l->low[i] = tft_arena_take(a, o->n_batch, l->stride * sizeof(float));
    l->row = tft_arena_take(a, (size_t)o->n_threads, l->cols * sizeof(float));
}

bool tft_session_loras_of_head(const struct tft_session_loras *l, const struct tft_model *m)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (tft_lora_part_of(l->use[i].lora, &m->output))
            return true;
    return false;
}

uint32_t tft_session_loras_sum(const struct tft_session_loras *l)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        sum = tft_crc32(sum, &l->use[i].lora->sum, sizeof l->use[i].lora->sum);
        sum = tft_crc32(sum, &l->use[i].scale, sizeof l->use[i].scale);
    }
    return sum;
}
