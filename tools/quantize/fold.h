/*
 * Folds the transforms of a layer's inputs before rounding into the layer's matrices, so that the
 * layer computes the same: rotation of attention's output and of ffn_down's input (round/rotate.h),
 * division of inputs by factors (SmoothQuant or AWQ), and the KV cache's channel order of values.
 */
#ifndef QUANTIZE_FOLD_H
#define QUANTIZE_FOLD_H

#include "model/model.h"
#include "tools/quantize/options.h"

struct fold {
    const struct tft_model *m;
    const struct quantize_opts *o;
    const int32_t *value_order;      /* [G, E] as in struct kv_calibration, or NULL */
    float *factor[TFT_INPUT_KINDS]; /* [width] divisors of each input, after rotation */
    float *values; /* [G, E] the factors of attention's output, which heads that share a value also
                      share */
};

/* False if memory is short. value_order must stay valid, and may change. close accepts all zeros,
   and a failed open. */
bool fold_open(struct fold *f, const struct tft_model *m, const struct quantize_opts *o,
               const int32_t *value_order);
void fold_close(struct fold *f);

/* Sets all factors to 1. Call it before each layer. */
void fold_reset(const struct fold *f);

/* The two steps, on a loaded layer (measure/layers.h); factors are chosen between the steps. Norms
   are divided when they are written. */
void fold_rotate(const struct fold *f, struct tft_layer *b);
void fold_scale(const struct fold *f, struct tft_layer *b);

/* Undoes both steps. */
void fold_undo(const struct fold *f, struct tft_layer *b);

/* Do to values of a prefix in a layer of the cache, v: [n, G, E] f16, the same as the steps do to
   the rows of attn_v: rotation and factors, and the order. restore undoes both. */
void fold_prefix(const struct fold *f, uint16_t *v, uint32_t n, uint32_t kv_layer);
void fold_prefix_order(const struct fold *f, uint16_t *v, uint32_t n, uint32_t kv_layer);
void fold_prefix_restore(const struct fold *f, uint16_t *v, uint32_t n, uint32_t kv_layer);

/* quantize() divides and reorders the values of the prefix, and records this in o->values. This
   function undoes it in all layers and returns the float model's values. v: [n_kv_layer, n_prefix,
   G, E]. False if memory is short. */
bool fold_restore_rows(const struct tft_model *m, const struct quantize_opts *o, uint16_t *v);

/* Saves the factors and the order of layer l, or restores them. */
void fold_keep(const struct fold *f, struct quantize_values *to, uint32_t l);
void fold_recall(const struct fold *f, const struct quantize_values *from, uint32_t l,
                 int32_t *value_order);

#endif
