/* quantize_to_blocks(): the layers of a plain GGUF file. */
#include <stdlib.h>

#include "base/error.h"
#include "tools/quantize/blocks/blocks.h"
#include "tools/quantize/blocks/mix.h"
#include "tools/quantize/convert/convert.h"
#include "tools/quantize/convert/few_bits.h"
#include "tools/quantize/quantize.h"
#include "tools/quantize/round/grid.h"

/* Whether a matrix of the layer becomes blocks, all of its tensor. */
static bool blocks_fit(const struct tft_model *m, const struct mix *mix, const struct tft_mat *w)
{
    const struct tft_tensor *t = w->tensor;
    if (!t || t->ne[0] != w->cols || t->ne[1] * t->ne[2] * t->ne[3] != tft_mat_all_rows(w))
        return false;
    enum tft_dtype type = mix_type(mix, &m->source, t);
    return type != t->type && blocks_levels(type);
}

static void round_layers(struct conversion *c)
{
    for (uint32_t l = 0; l < c->m->n_layer && !conversion_failed(c); l++) {
        convert_prepare(c, l);
        if (!conversion_failed(c) && conversion_has_own_weights(c->m, l))
            few_bits_round(c, l);
        if (!conversion_failed(c))
            few_bits_run(c, l);
        convert_leave(c, l);
    }
}

/* bits: [n_layer, LAYER_MATS] of the copy *o. */
static enum tft_status to_blocks(struct tft_model *m, struct quantize_opts *o, uint8_t *bits,
                                 bool *stopped, struct tft_error *err)
{
    struct conversion c = {.m = m, .o = o, .low_bits = true};
    for (uint32_t i = 0; i < m->n_layer * LAYER_MATS; i++) {
        struct tft_layer *b = &m->layer[i / LAYER_MATS];
        const struct tft_linear *l = layers_linear(b, (int)(i % LAYER_MATS));
        bool fits = l && blocks_fit(m, o->blocks->mix, &l->w);
        bits[i] = fits ? 4 : 8; /* a matrix of fewer than 8 is rounded */
    }
    c.result = calloc(tft_model_inputs(m), sizeof *c.result);
    enum tft_status status =
        c.result ? convert_open(&c, err)
                 : tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to quantize", m->source.name);
    if (status == TFT_OK && quantize_low_bits(o, 0, m->n_layer))
        round_layers(&c);
    if (status == TFT_OK)
        status = convert_close(&c, stopped, err);
    free(c.result);
    return status;
}

enum tft_status quantize_to_blocks(struct tft_model *m, const struct quantize_opts *from,
                                   bool *stopped, struct tft_error *err)
{
    struct quantize_opts o = *from;
    uint8_t *bits = calloc(m->n_layer, LAYER_MATS);
    enum tft_range *range = calloc(tft_model_inputs(m), sizeof *range);
    enum tft_status status =
        bits && range ? TFT_OK
                      : tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", m->source.name);
    *stopped = false;
    for (uint32_t i = 0; range && i < tft_model_inputs(m); i++)
        range[i] = TFT_RANGE_TOKEN; /* no static range is chosen */
    o.bits = bits;
    o.range = range;
    o.group = GRID_GROUP;
    if (status == TFT_OK)
        status = to_blocks(m, &o, bits, stopped, err);
    free(bits);
    free(range);
    return status;
}
