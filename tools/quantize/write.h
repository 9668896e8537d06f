/* What goes into the file (quantized.h): first all values, then the tensors in one order twice,
   once to name them, once with their data. */
#ifndef QUANTIZE_WRITE_H
#define QUANTIZE_WRITE_H

#include "file/gguf.h"
#include "layers.h"

struct writing {
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
/* value_order: as in struct cache */
void write_open(struct writing *f, const struct layers *y, const int32_t *value_order,
                const char *path, struct tft_error *bad);
/* Without `keep`, or after a failure, there is no file. */
void write_close(struct writing *f, bool keep);

void write_values(struct writing *f);
/* The arrays of the inputs, which stand among the values, once it is known what they are. result:
   [inputs] */
void write_inputs(struct writing *f, const struct quantize_input *result);

/* Tensors in this order. They are taken from the model as it is now. */
void write_embedding(struct writing *f);
/* attn, ffn: [D] what the weights of the norms are divided by, or NULL */
void write_layer(struct writing *f, uint32_t l, const float *attn, const float *ffn);
void write_head(struct writing *f);
/* k, v: [n_layer, n_prefix, G, E] */
void write_prefix(struct writing *f, const uint16_t *k, const uint16_t *v);
/* importance: [n_layer, G, E], of the keys' channels */
void write_importance(struct writing *f, const float *importance);
struct cache;
void write_cache(struct writing *f, const struct cache *c);

/* Fails if there is no number among the loaded weights of layer l: before they spoil what is
   computed with them. */
void write_check(struct writing *f, uint32_t l);

#endif
