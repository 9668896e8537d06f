/* Writes the W8A8 file (keys.h): first all values, then the tensors. Three passes visit the tensors
   in the same order: to count them, to describe them, and to write their data. */
#ifndef QUANTIZE_WRITE_WRITE_MODEL_H
#define QUANTIZE_WRITE_WRITE_MODEL_H

#include "file/file.h"
#include "tools/quantize/inputs.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/round/low_bits.h"

enum write_pass { WRITE_COUNT, WRITE_DESCRIPTIONS, WRITE_DATA };

/* Divisors of a layer's vectors. */
struct write_factors {
    const float *attn, *ffn; /* [D] the norms' weights and biases */
    const float *values;     /* [G, E] the bias of v, before it is reordered */
};

struct model_writer {
    const struct layers *y;
    const struct tft_model *m;
    const struct quantize_opts *o;
    struct tft_error *bad; /* the first failure; nothing is written after it */
    struct tft_gguf_writer *w;
    enum write_pass pass;        /* set by write_start_pass */
    size_t n_tensors;            /* tensors of this pass so far */
    int32_t *codes;              /* [n_tensors] TFT_KEY_WEIGHT_CODES, from the second pass on */
    float *nats;                 /* [n_tensors] likewise TFT_KEY_WEIGHT_NATS */
    const int32_t *value_order;  /* [G, E] of the current layer, or NULL */
    bool in_layer;               /* matrices of layers can have few bits, ... */
    uint32_t layer;              /* ... of this one */
    const struct low_bits *rounded; /* [LAYER_MATS] of the current layer, or NULL */
    const struct write_factors *factors; /* of the current layer */
    float *row, *bias;           /* [widest vector of the model] scratch */
    float *rows;                 /* [16, widest row of a matrix] scratch */
    int8_t *panel;               /* likewise, padded */
    float *scale[LAYER_MATS];    /* [most rows, padded] of each matrix of the layer */
    int32_t *rowsum[LAYER_MATS]; /* likewise */
    /* offsets in the file of the arrays that write_inputs fills */
    uint64_t scale_place, zero_place, range_place, error_place, ends_place, codes_place,
        nats_place;
};

/* value_order: as in struct kv_calibration. Failures, here and below, go to *bad, which may hold an
   earlier failure of the caller's. close accepts all zeros, and a failed open; if nothing failed,
   *temp is the file without a name, for tft_new_file_end. temp: NULL for no file */
void write_open(struct model_writer *f, const struct layers *y, const int32_t *value_order,
                const char *path, struct tft_error *bad);
void write_close(struct model_writer *f, struct tft_new_file **temp);

/* Tensors put after this call are counted, described or written. */
void write_start_pass(struct model_writer *f, enum write_pass pass);

/* All values, after the first pass. Arrays of the inputs are filled in later, by write_inputs;
   result: [inputs] */
void write_values(struct model_writer *f);
void write_inputs(struct model_writer *f, const struct quantize_input *result);

/* Tensors, in this order, from the model's current state. */
void write_embedding(struct model_writer *f);
/* rounded: NULL, or [LAYER_MATS] the matrices with few bits; this function rounds all others to
   int8. */
void write_layer(struct model_writer *f, uint32_t l, const struct write_factors *factors,
                 const struct low_bits *rounded);
void write_head(struct model_writer *f);
/* Of an encoder: all tensors that write_embedding and write_layer do not write, as they are. */
void write_others(struct model_writer *f);
/* The blocks that predict further tokens, as they are. */
void write_predictors(struct model_writer *f);
/* k, v: [n_kv_layer, n_prefix, G, E] */
void write_prefix(struct model_writer *f, const uint16_t *k, const uint16_t *v);
/* importance: [n_kv_layer, G, E], of the keys' channels */
void write_importance(struct model_writer *f, const float *importance);
struct kv_calibration;
void write_kv_calibration(struct model_writer *f, const struct kv_calibration *c);

/* Fails if a weight of loaded layer l is not finite. Call it before the layer runs. */
void write_check(struct model_writer *f, uint32_t l);

#endif
