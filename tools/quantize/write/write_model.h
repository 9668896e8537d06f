/* What goes into the file (keys.h): first all values, then the tensors in one order twice,
   once to name them, once with their data. */
#ifndef QUANTIZE_WRITE_WRITE_MODEL_H
#define QUANTIZE_WRITE_WRITE_MODEL_H

#include "file/file.h"
#include "tools/quantize/inputs.h"
#include "tools/quantize/measure/layers.h"

struct model_writer {
    const struct layers *y;
    const struct tft_model *m;
    const struct quantize_opts *o;
    struct tft_error *bad; /* the first problem, after which nothing more is written */
    struct tft_gguf_writer *w;
    bool describe; /* the tensors are only named yet */
    const int32_t *value_order;  /* [G, E] of the layer in hand, or NULL */
    float *row, *bias;           /* [widest vector of the model] room for one */
    float *rows;                 /* [16, widest row of a matrix] */
    int8_t *panel;               /* likewise, padded */
    float *scale[LAYER_MATS];    /* [most rows, padded] */
    int32_t *rowsum[LAYER_MATS]; /* likewise */
    /* of the inputs' arrays in the file */
    uint64_t scale_place, zero_place, range_place, error_place;
};

/* Failures, here and below, are put into *bad, which may have one from elsewhere. All zero is fine
   to close, and a failed open. */
/* value_order: as in struct kv_calibration */
void write_open(struct model_writer *f, const struct layers *y, const int32_t *value_order,
                const char *path, struct tft_error *bad);
/* Without `keep`, or after a failure, there is no file. */
void write_close(struct model_writer *f, bool keep);

void write_values(struct model_writer *f);
/* The arrays of the inputs, which stand among the values, once it is known what they are. result:
   [inputs] */
void write_inputs(struct model_writer *f, const struct quantize_input *result);

/* Tensors in this order. They are taken from the model as it is now. */
void write_embedding(struct model_writer *f);
/* attn, ffn: [D] what the weights of the norms are divided by, or NULL */
void write_layer(struct model_writer *f, uint32_t l, const float *attn, const float *ffn);
void write_head(struct model_writer *f);
/* k, v: [n_layer, n_prefix, G, E] */
void write_prefix(struct model_writer *f, const uint16_t *k, const uint16_t *v);
/* importance: [n_layer, G, E], of the keys' channels */
void write_importance(struct model_writer *f, const float *importance);
struct kv_calibration;
void write_kv_calibration(struct model_writer *f, const struct kv_calibration *c);

/* Fails if there is no number among the loaded weights of layer l: before they spoil what is
   computed with them. */
void write_check(struct model_writer *f, uint32_t l);

#endif
