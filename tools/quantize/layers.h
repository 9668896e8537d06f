/* The model of floats, a layer at a time, over the prefix and all windows of the calibration text. */
#ifndef LAYERS_H
#define LAYERS_H

#include "quantize.h"
#include "session.h"

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
    bool (*step)(void *user, double done); /* NULL, or called after each window of a run, done in 0..1; false: leave the rest of them */
    void *step_user;
    struct tft_mat kept[LAYER_MATS]; /* what the block had before */
};

/* With the text's embedding in `text`; or with room for so many rows there, for passes of up to `batch` tokens. */
enum tft_status layers_open(struct layers *y, struct tft_model *m, const struct quantize_opts *o, struct tft_error *err);
enum tft_status layers_take(struct layers *y, struct tft_model *m, const struct quantize_opts *o, uint32_t batch, size_t rows,
                            struct tft_error *err);
void layers_close(struct layers *y);

/* A matrix of the block, NULL where the architecture has none. */
struct tft_linear *layers_linear(struct tft_block *b, int which);

/* Expands layer l into weights, and gives it them; then back. */
void layers_load(struct layers *y, uint32_t l);
void layers_unload(struct layers *y, uint32_t l);

/* Rows x of n tokens through a part of the model: their embedding; a loaded layer; the last norm, for s->tap. See struct tft_pass. */
struct layers_job {
    enum { LAYERS_EMBED, LAYERS_LAYER, LAYERS_HEAD } what;
    float *x;              /* [n, stride] */
    const int32_t *tokens; /* [n], for EMBED */
    uint32_t n, pos, each, layer;
};
void layers_pass(const struct layers *y, const struct layers_job *j);

/* Runs the layer over prefix and text, or over the text only with `dry`: then x stays as it was. s->tap sees what comes by in the text. */
void layers_run(struct layers *y, uint32_t l, bool dry);

/* The last norm, window by window, for s->tap. */
void layers_run_head(struct layers *y);

/* Keys and values of the prefix in layer l: [n_prefix, G, E] each, f16. */
void layers_prefix(const struct layers *y, uint32_t l, uint16_t *k, uint16_t *v);

#endif
