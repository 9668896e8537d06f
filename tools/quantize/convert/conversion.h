/* The state of a conversion, which the files of this folder share. */
#ifndef QUANTIZE_CONVERT_CONVERSION_H
#define QUANTIZE_CONVERT_CONVERSION_H

#include "model/model.h"
#include "tools/quantize/fold.h"
#include "tools/quantize/measure/input_stats.h"
#include "tools/quantize/measure/key_importance.h"
#include "tools/quantize/measure/kv_calibrate.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/measure/moments.h"
#include "tools/quantize/options.h"
#include "tools/quantize/round/low_bits.h"
#include "tools/quantize/write/write_model.h"

struct conversion {
    struct tft_model *m;
    const struct quantize_opts *o;
    struct quantize_input *result;
    struct layers y;
    struct input_stats stats;
    struct key_importance importance;
    struct kv_calibration kv;
    struct model_writer file;
    bool stopped;
    uint32_t layers_done;
    uint32_t steps; /* finished steps of the current layer: runs over the text, AWQ, rounding */
    bool measuring; /* the KV cache is calibrated from the current run */
    struct tft_error bad; /* the first failure */

    struct fold fold; /* of the current layer; SmoothQuant or AWQ choose its factors */
    float *w_max, *x_max; /* [D] largest weight and input of each channel */
    uint16_t *prefix_k, *prefix_v; /* [n_kv_layer, n_prefix, G, E] */

    /* if weights have fewer than 8 bits; else zeros */
    bool low_bits;
    struct moments moments;
    struct low_bits *rounded; /* [LAYER_MATS] of the current layer, or [n_round, LAYER_MATS] of all
                                 layers with weights of their own; no rows: 8 bits */
    float *exact; /* [n_windows, window, stride] the float model's residual stream, if rounding or
                     o->outputs needs it: the stream in `y` went through rounded layers */
    struct shared_kv exact_shared; /* its keys and values */
    float *floats;   /* the current layer's weights before rounding; NULL: they are not kept */
    uint32_t stages; /* runs of the text through the current layer before all weights are rounded */
    bool advances;   /* the float model's stream goes on in the current run */
    uint32_t end, exact_end; /* of the current run, and of the float model's beside it: products
                                from this input on are left out (layers_compute_until) */
    int now;      /* the matrix being rounded; the input, while AWQ scales it */
};

/* Whether it failed, or o->progress stopped it: nothing more is to be done. */
bool conversion_failed(const struct conversion *c);
void conversion_fail_memory(struct conversion *c);

/* Whether no earlier layer has the weights of layer l. */
bool conversion_has_own_weights(const struct tft_model *m, uint32_t l);

/* The matrices of layer l: [LAYER_MATS]; NULL: all have 8 bits. */
struct low_bits *conversion_rounded(const struct conversion *c, uint32_t l);

/* Whether the layer has keys and values of earlier tokens. */
bool conversion_has_cache(const struct conversion *c, const struct tft_layer *b);

/* Whether AWQ chooses factors. */
bool conversion_scales_moments(const struct conversion *c);

/* done: 0..1 of all work; or of the current step of the layer, when false means that it was
   stopped. The head has one step. */
void conversion_progress(struct conversion *c, double done);
bool conversion_step(struct conversion *c, double done);

#endif
