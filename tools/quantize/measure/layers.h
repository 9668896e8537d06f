/* The model of floats, a layer at a time, over the prefix and all windows of the calibration
   text. */
#ifndef QUANTIZE_MEASURE_LAYERS_H
#define QUANTIZE_MEASURE_LAYERS_H

#include "tools/quantize/options.h"
#include "tools/quantize/round/rotate_residual.h"
#include "run/session.h"

/* The matrices of a layer in the order of the file. */
enum { MAT_Q, MAT_K, MAT_V, MAT_O, MAT_GATE, MAT_UP, MAT_DOWN, LAYER_MATS };

struct layers {
    struct tft_model *m;
    struct tft_session *s;
    const struct quantize_opts *o;
    size_t n_windows;
    size_t stride; /* of a row of x */
    float *prefix; /* [n_prefix, stride] the residual stream */
    float *text;   /* [n_windows, window, stride] */
    float *weights; /* a layer's matrices as f32, one after the other */
    char *packed;   /* and as int8; NULL unless they are wanted */
    bool (*step)(void *user, double done); /* NULL, or called after each window of a run, done in
                                              0..1; false: leave the rest of them */
    void *step_user;
    struct tft_block kept;      /* the layer in hand as it was */
    struct tft_norm kept_norm;  /* and the last norm */
    struct residual_rotation q;          /* n is 0 where the residual stream is not rotated */
    float *ones;                /* [D] weights of norms whose gain the matrices have taken up; NULL
                                   then too */
    float *bias[2];             /* [D] rotated ones of a layer's o and down */
};

/* What layers_take makes room for. */
struct layers_room {
    uint32_t batch; /* tokens of a pass */
    size_t rows;    /* of `text` */
    bool bytes;     /* for layers_pack */
};

/* With the text's embedding in `text`; or with room there. Afterwards, until it is closed, the last
   norm is as a rotated residual stream wants it. */
enum tft_status layers_open(struct layers *y, struct tft_model *m, const struct quantize_opts *o,
                            struct tft_error *err);
enum tft_status layers_take(struct layers *y, struct tft_model *m, const struct quantize_opts *o,
                            const struct layers_room *room, struct tft_error *err);
void layers_close(struct layers *y);

/* A matrix of the block, NULL where the architecture has none. */
struct tft_linear *layers_linear(struct tft_block *b, int which);

/* While a layer is loaded its matrices are ours to change. */
float *layers_numbers(const struct tft_linear *l);

/* The linear layers that share one of the two inputs that come out of a norm: how many, and
   which. */
size_t layers_readers(struct tft_block *b, uint32_t which, struct tft_linear *l[3]);

/* Expands layer l into weights, and gives it them; then back. */
void layers_load(struct layers *y, uint32_t l);
void layers_unload(struct layers *y, uint32_t l);

/* Layer l, loaded, with weights of int8, a scale for each channel, and inputs of bytes in each
   token's own range. False, and it stays one of floats, where panels cannot hold a matrix: one with
   a number that is not finite, or with rows that are too long. */
bool layers_pack(struct layers *y, uint32_t l);

/* Where the residual stream is rotated: layer l, loaded and without a NaN, becomes one that reads
   and writes the rotated stream. */
void layers_rotate(struct layers *y, uint32_t l);

/* Rows first .. first + n - 1 of a matrix as floats, wherever its numbers are now: to: [n, cols].
   Those of embedding and head, which are never loaded, are rotated here. */
void layers_rows(const struct layers *y, const struct tft_mat *w, uint32_t first, uint32_t n,
                 float *to);

/* Rows x of n tokens through a part of the model: their embedding; a loaded layer; the last norm,
   for s->tap. See struct tft_pass. */
struct layers_job {
    enum { LAYERS_EMBED, LAYERS_LAYER, LAYERS_HEAD } what;
    float *x;              /* [n, stride] */
    const int32_t *tokens; /* [n], for EMBED */
    uint32_t n, pos, each, layer;
};
void layers_pass(const struct layers *y, const struct layers_job *j);

/* Runs the layer over prefix and text, or over the text only with `dry`: then x stays as it was.
   s->tap sees what comes by in the text. */
void layers_run(struct layers *y, uint32_t l, bool dry);

/* The last norm, window by window, for s->tap. */
void layers_run_head(struct layers *y);

/* Keys and values of the prefix in layer l: [n_prefix, G, E] each, f16. */
void layers_prefix(const struct layers *y, uint32_t l, uint16_t *k, uint16_t *v);

/* [D] what its last token has in the residual stream by now. */
const float *layers_prefix_x(const struct layers *y);

#endif
