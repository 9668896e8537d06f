#include "tools/quantize/options.h"

#include <stdlib.h>
#include <string.h>

#include "tools/quantize/array.h"
#include "tools/quantize/round/rotate.h"

bool quantize_values_open(struct quantize_values *v, const struct tft_model *m)
{
    v->factor = array_alloc(sizeof *v->factor, m->n_layer, m->n_head_kv, m->head_dim);
    v->order = array_alloc(sizeof *v->order, m->n_layer, m->n_head_kv, m->head_dim);
    return v->factor && v->order;
}

void quantize_values_close(struct quantize_values *v)
{
    free(v->factor);
    free(v->order);
    *v = (struct quantize_values){0};
}

const char *quantize_float_cache(const char *kv)
{
    return kv && strcmp(kv, "f32") == 0 ? "f32" : "f16";
}

uint32_t quantize_bits(const struct quantize_opts *o, uint32_t layer, int matrix)
{
    return o->bits ? o->bits[layer * LAYER_MATS + (uint32_t)matrix] : 8;
}

uint32_t quantize_group(const struct quantize_opts *o, uint32_t layer, int matrix)
{
    return o->groups ? o->groups[layer * LAYER_MATS + (uint32_t)matrix] : o->group;
}

bool quantize_low_bits(const struct quantize_opts *o, uint32_t first, uint32_t end)
{
    for (uint32_t l = first; l < end; l++)
        for (int i = 0; i < LAYER_MATS; i++)
            if (quantize_bits(o, l, i) < 8)
                return true;
    return false;
}

bool quantize_rotate_all_possible(const struct tft_model *m)
{
    return !m->out_norm.b && !m->pos_embed.data && !m->n_expert && !m->n_round &&
           !(m->parts & (TFT_BIT(TFT_PART_NO_PRE_NORM) | TFT_BIT(TFT_PART_POST_NORM)));
}

/* Whether some layer uses keys, before their norm, as values. */
static bool has_keys_as_values(const struct tft_model *m)
{
    for (uint32_t l = 0; l < m->n_layer; l++)
        if (tft_layer_has_kv(&m->layer[l]) && !m->layer[l].v.w.rows)
            return true;
    return false;
}

bool quantize_rotate_o_possible(const struct tft_model *m)
{
    return !tft_model_has_states(m) && !(m->qkv_bound > 0) &&
           !(m->parts & (TFT_BIT(TFT_PART_SUB_NORM) | TFT_BIT(TFT_PART_OWN_GATE) |
                         TFT_BIT(TFT_PART_LATENT) | TFT_BIT(TFT_PART_SHORT_VALUES))) &&
           !has_keys_as_values(m);
}

enum quantize_rotate quantize_rotate_auto(const struct tft_model *m)
{
    bool tied = m->output.w.tensor == m->embed.tensor;
    if (m->encoder)
        return QUANTIZE_ROTATE_NONE;
    return quantize_rotate_all_possible(m) && !tied ? QUANTIZE_ROTATE_ALL : QUANTIZE_ROTATE_O_DOWN;
}

/* One block size for all layers: the smallest power of two divides all heads. */
uint32_t quantize_head_block(const struct tft_model *m, const struct quantize_opts *o)
{
    uint32_t block = ROTATE_MAX;
    if (o->rotate == QUANTIZE_ROTATE_NONE || !quantize_rotate_o_possible(m))
        return 0;
    for (uint32_t l = 0; l < m->n_kv_layer; l++) {
        uint32_t own = (uint32_t)rotate_block(tft_model_kv_heads(m, l).dim);
        block = own < block ? own : block;
    }
    return block;
}

/* At least eight blocks, so that threads can share the transform. */
static uint32_t hidden_block(uint32_t width)
{
    uint32_t block = (uint32_t)rotate_block(width);
    while (block > 1 && width / block < 8)
        block /= 2;
    return block;
}

/* One block size for all layers. Sizes are powers of two, so the smallest one divides all
   widths. */
uint32_t quantize_down_block(const struct tft_model *m, const struct quantize_opts *o)
{
    uint32_t block = m->n_expert ? hidden_block(m->n_ff_expert) : ROTATE_MAX;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        const struct tft_layer *b = &m->layer[l];
        uint32_t own = b->down.w.cols ? hidden_block(b->down.w.cols) : block;
        block = own < block ? own : block;
    }
    bool none = o->rotate < QUANTIZE_ROTATE_O_DOWN || (!m->n_ff && !m->n_expert); /* mamba2 */
    return none ? 0 : block;
}
