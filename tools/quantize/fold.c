#include "tools/quantize/fold.h"

#include <stdlib.h>
#include <string.h>

#include "tools/quantize/array.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/round/channel_order.h"
#include "tools/quantize/round/rotate.h"
#include "tools/quantize/round/smooth.h"

/* Numbers of a token's values in the widest layer: [G, E]. In a model whose layers differ all
   factors are 1, and values keep their order. */
static size_t width_of_values(const struct fold *f)
{
    return (size_t)f->m->n_head_kv * f->m->head_dim;
}

bool fold_open(struct fold *f, const struct tft_model *m, const struct quantize_opts *o,
               const int32_t *value_order)
{
    *f = (struct fold){.m = m, .o = o, .value_order = value_order};
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++) {
        f->factor[i] = array_alloc(sizeof *f->factor[i], quantize_input_width(m, NULL, i), 1, 1);
        if (!f->factor[i])
            return false;
    }
    f->values = malloc(width_of_values(f) * sizeof *f->values);
    return f->values;
}

void fold_close(struct fold *f)
{
    for (int i = 0; i < TFT_INPUT_KINDS; i++)
        free(f->factor[i]);
    free(f->values);
    *f = (struct fold){0};
}

void fold_reset(const struct fold *f)
{
    for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++)
        for (size_t k = 0; k < quantize_input_width(f->m, NULL, i); k++)
            f->factor[i][k] = 1;
    for (size_t k = 0; k < width_of_values(f); k++)
        f->values[k] = 1;
}

/* ------------------------------------------------------------------------------------- matrices */

/* Permutes a KV head's rows of v, and the columns of o that read them. */
static void permute_head(const struct fold *f, struct tft_layer *b, uint32_t head,
                         const int32_t *order)
{
    uint32_t dim = f->m->head_dim, shared = f->m->n_head / f->m->n_head_kv;
    channel_order_rows(layers_weights(&b->v) + (size_t)head * dim * b->v.w.cols, b->v.w.cols, dim,
                       b->v.w.cols, order);
    for (uint32_t h = head * shared; h < (head + 1) * shared; h++)
        channel_order_columns(layers_weights(&b->o) + h * dim, b->o.w.cols, b->o.w.rows, dim,
                              order);
}

/* Puts values in the channel order of the KV cache, as attention mixes values channel by channel:
   SKVQ, eq. 1 and algorithm 1. The order of keys cannot be fused: RoPE, between their rows and the
   cache, rotates pairs of channels. */
static void reorder_values(const struct fold *f, struct tft_layer *b)
{
    const int32_t *order = f->value_order;
    for (uint32_t h = 0; order && b->mixer == TFT_MIX_ATTENTION && h < f->m->n_head_kv; h++)
        permute_head(f, b, h, order + h * f->m->head_dim);
}

/* Undoes reorder_values. */
static void restore_values(const struct fold *f, struct tft_layer *b)
{
    uint32_t dim = f->m->head_dim;
    int32_t inverse[CHANNEL_ORDER_MAX];
    const int32_t *order = f->value_order;
    for (uint32_t h = 0; order && b->mixer == TFT_MIX_ATTENTION && h < f->m->n_head_kv; h++) {
        for (uint32_t d = 0; d < dim; d++)
            inverse[order[h * dim + d]] = (int32_t)d;
        permute_head(f, b, h, inverse);
    }
}

/* Undone by itself: the Hadamard matrix of a head is its own inverse. */
static void rotate_values(const struct fold *f, struct tft_layer *b)
{
    uint32_t head = quantize_head_block(f->m, f->o);
    if (!head || b->mixer != TFT_MIX_ATTENTION)
        return;
    rotate_rows(layers_weights(&b->v), b->v.w.cols, b->v.w.rows, b->v.w.cols, head);
    rotate_columns(layers_weights(&b->o), b->o.w.cols, b->o.w.rows, b->o.w.cols, head);
}

/* l: NULL if the layer has none */
static void rotate_down(const struct fold *f, const struct tft_linear *l)
{
    uint32_t down = quantize_down_block(f->m, f->o);
    if (down && l)
        rotate_columns_online(layers_weights(l), l->w.cols, tft_mat_all_rows(&l->w), l->w.cols,
                              down);
}

static void restore_down(const struct fold *f, const struct tft_linear *l)
{
    uint32_t down = quantize_down_block(f->m, f->o);
    rotate_down(f, l);
    if (down && l)
        f->m->kern.scale(layers_weights(l), (float)down, tft_mat_all_rows(&l->w) * l->w.cols);
}

/* Multiplies each column by the factor of the input that it reads, and divides the rows of v and up
   by the factors of the inputs that they make. Norms are divided when they are written. */
static void scale_inputs(const struct fold *f, struct tft_layer *b)
{
    for (int i = 0; i < LAYER_MATS; i++) {
        struct tft_linear *l = layers_linear(b, i);
        if (l)
            smooth_columns(layers_weights(l), l->w.cols, tft_mat_all_rows(&l->w), l->w.cols,
                           f->factor[quantize_matrix_input(b, i)]);
    }
    if (b->mixer == TFT_MIX_ATTENTION)
        smooth_rows(layers_weights(&b->v), b->v.w.rows, b->v.w.cols, f->values);
    smooth_rows(layers_weights(&b->up), b->up.w.rows, b->up.w.cols, f->factor[TFT_IN_DOWN]);
}

/* Undoes scale_inputs. */
static void unscale_inputs(const struct fold *f, struct tft_layer *b)
{
    for (size_t row = 0; b->mixer == TFT_MIX_ATTENTION && row < b->v.w.rows; row++)
        f->m->kern.scale(layers_weights(&b->v) + row * b->v.w.cols, f->values[row],
                         b->v.w.cols);
    for (size_t row = 0; row < b->up.w.rows; row++)
        f->m->kern.scale(layers_weights(&b->up) + row * b->up.w.cols,
                         f->factor[TFT_IN_DOWN][row], b->up.w.cols);
    for (int i = 0; i < LAYER_MATS; i++) {
        struct tft_linear *l = layers_linear(b, i);
        for (size_t row = 0; l && row < tft_mat_all_rows(&l->w); row++)
            smooth_divide(layers_weights(l) + row * l->w.cols,
                          f->factor[quantize_matrix_input(b, i)], l->w.cols);
    }
}

/* A matrix that reads hidden activations; NULL: the block has none beside MAT_DOWN. */
static struct tft_linear *shared_down(struct tft_layer *b)
{
    return b->side_out.w.rows ? NULL : layers_linear(b, MAT_SHARED_DOWN);
}

void fold_rotate(const struct fold *f, struct tft_layer *b)
{
    rotate_values(f, b);
    rotate_down(f, layers_linear(b, MAT_DOWN));
    rotate_down(f, shared_down(b));
}

void fold_scale(const struct fold *f, struct tft_layer *b)
{
    scale_inputs(f, b);
    reorder_values(f, b);
}

void fold_undo(const struct fold *f, struct tft_layer *b)
{
    restore_values(f, b);
    unscale_inputs(f, b);
    rotate_values(f, b);
    restore_down(f, layers_linear(b, MAT_DOWN));
    restore_down(f, shared_down(b));
}

/* ----------------------------------------------------------------------------------- the prefix */

void fold_prefix(const struct fold *f, uint16_t *v, uint32_t n, uint32_t kv_layer)
{
    size_t width = tft_model_kv_width(f->m, kv_layer), rotated = quantize_head_block(f->m, f->o),
           block = rotated ? rotated : 1;
    for (size_t i = 0; i < n * width; i += block) {
        float part[ROTATE_MAX];
        f->m->kern.widen[TFT_NUM_F16](part, v + i, block);
        rotate_columns(part, block, 1, block, block);
        smooth_divide(part, f->values + i % width, block);
        f->m->kern.narrow[TFT_NUM_F16](v + i, part, block);
    }
}

void fold_prefix_order(const struct fold *f, uint16_t *v, uint32_t n, uint32_t kv_layer)
{
    size_t width = tft_model_kv_width(f->m, kv_layer), dim = tft_model_kv_heads(f->m, kv_layer).dim;
    uint16_t old[CHANNEL_ORDER_MAX];
    for (size_t i = 0; f->value_order && i < n * width; i += dim) {
        memcpy(old, v + i, dim * sizeof *old);
        for (size_t d = 0; d < dim; d++)
            v[i + d] = old[f->value_order[i % width + d]];
    }
}

static void restore_order(const struct fold *f, uint16_t *v, uint32_t n, uint32_t kv_layer)
{
    size_t width = tft_model_kv_width(f->m, kv_layer), dim = tft_model_kv_heads(f->m, kv_layer).dim;
    uint16_t old[CHANNEL_ORDER_MAX];
    for (size_t i = 0; f->value_order && i < n * width; i += dim) {
        memcpy(old, v + i, dim * sizeof *old);
        for (size_t d = 0; d < dim; d++)
            v[i + (size_t)f->value_order[i % width + d]] = old[d];
    }
}

void fold_prefix_restore(const struct fold *f, uint16_t *v, uint32_t n, uint32_t kv_layer)
{
    size_t width = tft_model_kv_width(f->m, kv_layer), rotated = quantize_head_block(f->m, f->o),
           block = rotated ? rotated : 1;
    restore_order(f, v, n, kv_layer);
    for (size_t i = 0; i < n * width; i += block) {
        float part[ROTATE_MAX];
        f->m->kern.widen[TFT_NUM_F16](part, v + i, block);
        for (size_t d = 0; d < block; d++)
            part[d] *= f->values[i % width + d];
        rotate_columns(part, block, 1, block, block);
        f->m->kern.narrow[TFT_NUM_F16](v + i, part, block);
    }
}

void fold_keep(const struct fold *f, struct quantize_values *to, uint32_t l)
{
    const struct tft_layer *b = &f->m->layer[l];
    size_t width = width_of_values(f),
           dim = b->mixer == TFT_MIX_ATTENTION ? b->kv.dim : f->m->head_dim;
    memcpy(to->factor + l * width, f->values, width * sizeof *to->factor);
    for (size_t i = 0; i < width; i++)
        to->order[l * width + i] = f->value_order ? f->value_order[i] : (int32_t)(i % dim);
}

void fold_recall(const struct fold *f, const struct quantize_values *from, uint32_t l,
                 int32_t *value_order)
{
    size_t width = width_of_values(f);
    memcpy(f->values, from->factor + l * width, width * sizeof *f->values);
    memcpy(value_order, from->order + l * width, width * sizeof *value_order);
}

bool fold_restore_rows(const struct tft_model *m, const struct quantize_opts *o, uint16_t *v)
{
    struct fold f;
    size_t width = (size_t)m->n_head_kv * m->head_dim;
    int32_t *order = malloc(width * sizeof *order);
    bool room = fold_open(&f, m, o, order) && order;
    for (uint32_t l = 0; room && l < m->n_layer; l++) {
        uint32_t kv_layer = m->layer[l].kv_layer;
        if (!tft_layer_has_kv(&m->layer[l]))
            continue;
        fold_recall(&f, o->values, l, order);
        fold_prefix_restore(&f, v + o->n_prefix * tft_model_kv_before(m, kv_layer), o->n_prefix,
                            kv_layer);
    }
    fold_close(&f);
    free(order);
    return room;
}
