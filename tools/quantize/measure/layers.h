/* Runs a float model one layer at a time over the prefix and all windows of the calibration text,
   so that only one layer's weights are expanded in memory. */
#ifndef QUANTIZE_MEASURE_LAYERS_H
#define QUANTIZE_MEASURE_LAYERS_H

#include "tools/quantize/inputs.h"
#include "tools/quantize/measure/shared_kv.h"
#include "tools/quantize/options.h"
#include "tools/quantize/round/rotate_residual.h"
#include "run/session.h"

struct layers {
    struct tft_model *m;
    struct tft_batch *batch; /* passes compute in its workspace */
    struct tft_session *s;
    struct tft_work *work; /* in which passes compute */
    void *memory; /* of `work`, if the model is an encoder: there are no batch and session then, and
                     `lane` is the window that runs, a whole text */
    int n_threads;
    struct tft_session **seq; /* [n_seq] sessions of sequences that run together */
    struct tft_seq *lane;    /* [n_seq] */
    uint32_t n_seq;
    struct tft_tap tap; /* sees the inputs of linear layers */
    const struct quantize_opts *o;
    size_t n_windows;
    size_t stride;  /* from one row of `prefix` or `text` to the next */
    float *prefix_state; /* [state_size] after the prefix, of the layers so far */
    float *prefix;  /* [n_prefix, stride] the residual stream */
    float *text;    /* [n_windows, window, stride] likewise */
    float *weights; /* the loaded layer's matrices as f32, one after another */
    size_t n_weights; /* numbers of these */
    char *packed;   /* and as int8 panels; NULL unless layers_capacity.int8 */
    /* NULL, or called before window i of a run of a layer */
    void (*before_window)(void *user, size_t i);
    /* NULL, or called after each window of a run; done: 0..1 of the run; false: skip the rest */
    bool (*on_window)(void *user, double done);
    void *on_window_user;
    struct tft_layer original;         /* the loaded layer before it was loaded */
    struct tft_norm original_norm;     /* the last norm before rotation */
    struct tft_mat original_embed;     /* the matrix of per-layer embeddings before expansion */
    float *embed;                      /* its expanded copy; NULL: no such matrix */
    float *embed_x;                    /* [tokens of a pass, stride] embeddings; likewise */
    struct shared_kv shared;           /* of the windows; layers_open alone fills it */
    struct residual_rotation rotation; /* n is 0: the residual stream is not rotated */
    float *ones;    /* [D] weights of norms after their gain was moved into matrices; NULL if no
                       rotation */
    float *bias[3]; /* [D] rotated biases of the loaded layer's o, down and side_out; likewise */
};

/* Sizes for layers_open_empty. */
struct layers_capacity {
    uint32_t batch; /* most tokens of a pass */
    size_t rows;    /* of `text` */
    uint32_t slots; /* of the cache; 0: enough for prefix and batch */
    bool int8;      /* memory for layers_pack */
};

/* layers_open fills `text` with the embedded calibration text. layers_open_empty leaves `text` to
   the caller. While y is open and the residual stream is rotated, the model's last norm has no
   gain; layers_close restores the gain. */
enum tft_status layers_open(struct layers *y, struct tft_model *m, const struct quantize_opts *o,
                            struct tft_error *err);
enum tft_status layers_open_empty(struct layers *y, struct tft_model *m,
                                  const struct quantize_opts *o,
                                  const struct layers_capacity *capacity, struct tft_error *err);
void layers_close(struct layers *y);

/* Opens y->seq: n sessions, whose caches have room for `slots` tokens. On failure, too,
   layers_close_sequences must follow. */
enum tft_status layers_open_sequences(struct layers *y, uint32_t n, uint32_t slots,
                                      struct tft_error *err);
void layers_close_sequences(struct layers *y);

/* Matrix `which` (MAT_Q..) of the block; NULL if the architecture has none. In a mixture of experts
   MAT_GATE, MAT_UP and MAT_DOWN are the matrices of all experts, one after another
   (tft_mat_all_rows), and MAT_SHARED_GATE .. MAT_SHARED_DOWN the shared expert's.
   Where Mamba-2 is beside attention, MAT_Z and MAT_SHARED_DOWN are its first and last matrix. */
struct tft_linear *layers_linear(struct tft_layer *b, int which);

/* The f32 weights of a loaded layer's matrix. The caller may change them. */
float *layers_weights(const struct tft_linear *l);

enum { LAYER_READERS = 4 };

/* The linear layers that read the norm's output `which`, TFT_IN_ATTN or TFT_IN_FFN. Returns their
   number. */
size_t layers_readers(struct tft_layer *b, uint32_t which, struct tft_linear *l[LAYER_READERS]);

/* From now on, loaded layer l leaves out the products of matrices that read inputs `end` and later
   ones (TFT_IN_ATTN ..): zeros are their results. With TFT_INPUT_KINDS it computes all. Not for
   layers with experts, or with a mixer beside attention: their inputs have another order. */
void layers_compute_until(struct layers *y, uint32_t l, uint32_t end);

/* Makes the loaded layer use the weights at *other, [n_weights]; *other gets its own. */
void layers_swap(struct layers *y, uint32_t l, float **other);

/* Expands layer l into `weights` and makes the model use them; unload restores the layer. */
void layers_load(struct layers *y, uint32_t l);
void layers_unload(struct layers *y, uint32_t l);

/* Makes loaded layer l compute in int8: weights with a scale for each row, inputs with a range for
   each token. False, and the layer stays float, if a matrix does not fit panels: a weight is NaN or
   infinity, or rows are too long. */
bool layers_pack(struct layers *y, uint32_t l);

/* If the residual stream is rotated: makes loaded layer l read and write the rotated stream. The
   weights must be free of NaN. */
void layers_rotate(struct layers *y, uint32_t l);

/* Copies rows first .. first + n - 1 of a matrix as floats; to: [n, cols]. If the residual stream
   is rotated, this function rotates the rows of embedding and head, as these matrices are never
   loaded. */
void layers_rows(const struct layers *y, const struct tft_mat *w, uint32_t first, uint32_t n,
                 float *to);

/* n tokens through one part of the model: the embedding; that and the per-layer embeddings of all
   layers; a loaded layer; or the last norm, whose output the tap sees. See struct tft_pass. */
struct layers_pass {
    enum { LAYERS_EMBED, LAYERS_EMBED_LAYERS, LAYERS_LAYER, LAYERS_HEAD } part;
    float *x;              /* [n, stride] the residual stream, updated in place */
    const int32_t *tokens; /* [n], for the embeddings; also for layers, if the model has per-layer
                              embeddings */
    uint32_t n, pos;       /* pos: position of the first token of a sequence */
    uint32_t n_seq;        /* 0: the tokens are one sequence. Otherwise they are n_seq sequences of
                              n / n_seq tokens, whose caches are those of y->seq */
    uint32_t layer;
};
void layers_run_pass(const struct layers *y, const struct layers_pass *pass);

/* Runs layer l over the prefix and the text; the tap sees the inputs of the text only. With `dry`,
   `prefix` and `text` stay unchanged. */
void layers_run(struct layers *y, uint32_t l, bool dry);

/* The two halves of layers_run. Text attends to the last keys and values of the prefix, or to
   o->rows_k and o->rows_v. */
void layers_run_prefix(struct layers *y, uint32_t l, bool dry);
void layers_run_text(struct layers *y, uint32_t l, bool dry);

/* Runs the last norm over each window, for the tap. */
void layers_run_head(struct layers *y);

/* Copies the keys and values of layer l at the positions first .. first + n - 1, or the prefix's;
   k, v: [n, G, E] f16, infinite if a number of a cache of f32 exceeds f16. */
void layers_kv(const struct layers *y, uint32_t l, uint32_t first, uint32_t n, uint16_t *k,
               uint16_t *v);
void layers_prefix_kv(const struct layers *y, uint32_t l, uint16_t *k, uint16_t *v);

/* Stores keys and values of layer l at position pos; k, v: [G, E] f16. */
void layers_put_kv(const struct layers *y, uint32_t l, uint32_t pos, const uint16_t *k,
                   const uint16_t *v);

/* [D] the residual stream of the prefix's last token, after the layers so far. */
const float *layers_prefix_x(const struct layers *y);

#endif
