#include "model/ends.h"

#include <math.h>

#include "model/keys.h"

/* Numbers per token of the input; 0: the input does not take part, or has no static range. */
static double numbers_of(const struct tft_model *m, const struct tft_layer *b, uint32_t which)
{
    const struct tft_input *in = &b->in[which];
    bool experts = tft_layer_has_experts(b) && which == TFT_IN_DOWN;
    if (!tft_model_has_input(m, which) || in->range != TFT_RANGE_STATIC)
        return 0;
    return (double)in->width * (experts ? m->n_expert_used : 1);
}

/* The file's shares, by input; NULL: it has none. */
static const struct tft_value *file_ends(const struct tft_model *m)
{
    const struct tft_value *v = tft_source_value(&m->source, TFT_KEY_INPUT_ENDS);
    return m->byte_inputs && v && v->is_array && v->n == tft_model_inputs(m) ? v : NULL;
}

/* Adds n numbers, and at_ends by the file's share of the input. */
static void add(const struct tft_value *v, uint32_t index, double n, double *all, double *ends)
{
    double share = 0;
    if (n > 0 && tft_value_real(v, index, &share)) {
        *all += n;
        *ends += n * share;
    }
}

double tft_calibrated_ends(const struct tft_model *m)
{
    const struct tft_value *v = file_ends(m);
    double all = 0, ends = 0;
    if (!v)
        return NAN;
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++) {
            double n = numbers_of(m, &m->layer[l], i);
            add(v, m->layer[l].in[i].index, n, &all, &ends);
        }
    if (m->head_in.range == TFT_RANGE_STATIC)
        add(v, m->head_in.index, m->head_in.width, &all, &ends);
    return all > 0 && ends >= 0 && ends <= all ? ends / all : NAN;
}

double tft_input_ends(const struct tft_model *m, uint32_t index)
{
    const struct tft_value *v = file_ends(m);
    double share;
    return v && tft_value_real(v, index, &share) && share >= 0 && share <= 1 ? share : NAN;
}
