/*
 * The vocabulary in which an architecture loads itself.
 *
 * The first error sticks: every later call does nothing and returns something harmless, so load()
 * reads straight down, without a branch per line.
 *
 * load() runs twice over the same source: first to check everything and to count the memory that it
 * takes, then to place it. Both runs must make the same calls, so load() may depend on the source
 * alone.
 */
#ifndef TFT_LOAD_H
#define TFT_LOAD_H

#include "base/arena.h"
#include "base/error.h"
#include "model/convert.h"
#include "model/model.h"

struct tft_load {
    struct tft_model *m;
    const struct tft_source *s;
    struct tft_error *err;
    enum tft_status status; /* sticky */
    enum tft_weights weights; /* the form of tensors that cannot be used in place */
    bool unexpanded;          /* nothing: tft_format_stored */
    bool predictor;           /* tft_model_opts.predictor */
    bool w8a8;                      /* a file of `tuffet quantize`: see w8a8.h */
    const struct tft_value *codes;  /* [s->n_tensor] TFT_KEY_WEIGHT_CODES of such a file, checked;
                                       NULL: no matrix is held as codes */
    const struct tft_value *packed; /* [s->n_tensor] the types of packed tensors; NULL if the file
                                       is not one of `tuffet pack`: see packed.h */
    struct tft_arena arena;
    struct tft_layer block;          /* in the counting run: one block for all layers, */
    struct tft_layer *blocks;        /* or, if not NULL, [n_block] all of them */
    uint32_t *windows;               /* room for m->kv_window in the counting run; or NULL */
    struct tft_kv_heads *heads;      /* the same for m->kv_heads */
    float *tables;                   /* the same for m->kv_fisher */
    struct tft_conversion *conversion; /* [n_conversion], NULL in the counting run */
    size_t n_conversion;
    uint32_t n_block;    /* blocks of the file: blocks from m->n_layer on are ignored */
    const char *ignore;  /* keys that count as absent, separated by commas; or NULL */
    unsigned char *read; /* [s->n_value] the value has been read, and: */
    unsigned char *used; /* [s->n_tensor] the tensor has a place in the model; NULL in the counting
                            run of opening */
};

/* ---- values of the file */

/* "ARCH.key" as an integer in [1, max]. If the file has no such key: `def`, or an error if def
   is 0 or above max. */
uint32_t tft_load_dim(struct tft_load *ld, const char *key, uint32_t def, uint32_t max);

/* "ARCH.key" as an integer in [0, max]; `def` if the file has no such key. */
uint32_t tft_load_count(struct tft_load *ld, const char *key, uint32_t def, uint32_t max);

/* "ARCH.key" as a positive finite number, likewise. */
float tft_load_real(struct tft_load *ld, const char *key, float def);

/* Likewise, for a factor that is not applied where it is 0: then `def`. */
float tft_load_factor(struct tft_load *ld, const char *key, float def);

bool tft_load_flag(struct tft_load *ld, const char *key, bool def);

/* Whether a key of the file counts as absent. */
bool tft_load_ignores(const struct tft_load *ld, struct tft_str key);

bool tft_load_has(const struct tft_load *ld, const char *key);

/* The value "ARCH.key"; `full` gets the whole name. NULL: the file has no such key. */
const struct tft_value *tft_load_value(const struct tft_load *ld, const char *key, char full[96]);

/* Whether the file has a matrix of this name, its bias, a norm's gain or bias: fmt as below. */
bool tft_load_has_linear(const struct tft_load *ld, const char *fmt, unsigned layer);
bool tft_load_has_bias(const struct tft_load *ld, const char *fmt, unsigned layer);
bool tft_load_has_norm(const struct tft_load *ld, const char *fmt, unsigned layer);

/* The value "ARCH.key" if it is an array, else NULL. An array must have an element for each
   block. */
const struct tft_value *tft_load_by_layer(struct tft_load *ld, const char *key);

/* The message about a model that looks at later tokens, although its architecture does not. */
extern const char tft_load_not_causal[];

/* The keys that all architectures share: context length, widths, numbers of layers and heads.
   Allocates the blocks. differ: layers may differ in their KV heads and in the width of
   feed-forward; m->n_head_kv and m->n_ff are then the largest of any layer. */
void tft_load_shape(struct tft_load *ld, bool differ);

/* The blocks run in n rounds: m->n_round. Comes after tft_load_shape. */
void tft_load_rounds(struct tft_load *ld, uint32_t n);

/* Number of KV heads of a layer, 0 without attention; width of its feed-forward. */
uint32_t tft_load_kv_heads(const struct tft_load *ld, unsigned layer);
uint32_t tft_load_ff(const struct tft_load *ld, unsigned layer);

/* A further layer of the cache, with these heads. Returns its number. */
uint32_t tft_load_kv_layer(struct tft_load *ld, struct tft_kv_heads heads);

/* Sets the size of the model's heads, at most TFT_MAX_HEAD_DIM. */
enum { TFT_MAX_HEAD_DIM = 1 << 16 };
void tft_load_head_dim(struct tft_load *ld, uint32_t dim);

/* RoPE: base, n_rot, scaling, and divisors of the frequencies in tensors. load_rope.c has the
   formulas. Other scalings are refused. whole_factor: rope.scaling.attn_factor is all that YaRN
   multiplies cosines and sines by. */
void tft_load_rope(struct tft_load *ld, bool halves, bool whole_factor);

/* RoPE of layers with a window and heads of `dim` numbers, without scaling. The base is
   rope.freq_base_swa, or else `def`, or rope.freq_base if def is 0. rope.dimension_count_swa says
   how many numbers are rotated; without it, as many as in other layers. */
void tft_load_rope_window(struct tft_load *ld, float def, uint32_t dim);

/* Block `layer`, to be filled. */
struct tft_layer *tft_load_layer(struct tft_load *ld, unsigned layer);

/* ---- tensors of the file. A name is `fmt` with the number `layer`, e.g. "blk.%u.attn_q";
   ".weight" and ".bias" are appended here. A tensor of another shape is refused. */

struct tft_norm tft_load_norm(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n,
                              bool bias);
/* RMSNorm or LayerNorm without a bias of each head by itself, with gains of its own; [heads, n] */
struct tft_norm tft_load_head_norms(struct tft_load *ld, const char *fmt, unsigned layer,
                                    uint32_t heads, uint32_t n);
struct tft_linear tft_load_linear(struct tft_load *ld, const char *fmt, unsigned layer,
                                  uint32_t rows, uint32_t cols, bool bias);

/* Of a matrix that W8A8 files have in the same types as other files, and without a bias. */
struct tft_linear tft_load_plain_linear(struct tft_load *ld, const char *fmt, unsigned layer,
                                        uint32_t rows, uint32_t cols);

/* Multiplies a layer's matrix by NAME.scale, one number, where the file has it. */
void tft_load_weight_factor(struct tft_load *ld, struct tft_linear *l, const char *fmt,
                            unsigned layer);

/* Rows [first, first + n) of a tensor of `rows` rows as a linear layer: for files that keep several
   layers in one tensor. */
struct tft_linear tft_load_linear_rows(struct tft_load *ld, const char *fmt, unsigned layer,
                                       uint32_t rows, uint32_t first, uint32_t n, uint32_t cols,
                                       bool bias);

/* For a mixer that is not attention, with an output of `width` numbers: it projects `projected`
   numbers. mixer_width: the output must be as wide as attention's. */
void tft_load_mixer_room(struct tft_load *ld, uint32_t width, uint32_t projected);
void tft_load_mixer_width(struct tft_load *ld, uint32_t width, uint32_t projected);

/* [n] floats of a tensor; fmt is its whole name. */
const float *tft_load_vector(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n);

/* NAME.weight [channels, n] as a convolution takes it, which is a copy. */
struct tft_taps tft_load_taps(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n,
                              uint32_t channels);

/* [n, cols] floats of NAME.weight, which a file has as [n, 1, 1, cols]. */
const float *tft_load_planes(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n,
                             uint32_t cols);

/* [n] equal numbers that the file does not have. */
const float *tft_load_equal(struct tft_load *ld, uint32_t n, float x);

/* Gives a block n floats of state. */
void tft_load_state(struct tft_load *ld, struct tft_layer *b, uint64_t n);

/* Rows [first, first + n) of each of the n_expert matrices [rows, cols] in one tensor. The result
   is the matrix of expert 0; tft_mat_expert finds the others. A token goes to n_expert_used. */
struct tft_linear tft_load_experts(struct tft_load *ld, const char *fmt, unsigned layer,
                                   uint32_t rows, uint32_t first, uint32_t n, uint32_t cols);

/* Biases of these matrices, NAME.bias: [n_expert, n]. */
const float *tft_load_expert_biases(struct tft_load *ld, const char *fmt, unsigned layer,
                                    uint32_t n);

/* A matrix [rows, D] of f32, expanded if need be, that each token is multiplied by. */
struct tft_mat tft_load_router(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t rows);

/* tft_load_matrices: n matrices [rows, cols] of floats in one tensor; the result is the first, as
   of experts. For latent attention, tft_load_latent_pair: k_b and v_b of a tensor
   [H (nope + v_dim), rank], which has the rows of keys and of values head by head; the matrices of
   keys are transposed. */
struct tft_mat tft_load_matrices(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n,
                                 uint32_t rows, uint32_t cols);
void tft_load_latent_pair(struct tft_load *ld, const char *fmt, unsigned layer,
                          struct tft_latent *x);

/* A matrix that is read by rows, always in place. */
struct tft_mat tft_load_rows(struct tft_load *ld, const char *name, uint32_t rows, uint32_t cols);

/* Marks a tensor that the file may have as known; nothing is computed with it. */
void tft_load_ignore(struct tft_load *ld, const char *fmt, unsigned layer);

/* token_embd.weight */
void tft_load_embedding(struct tft_load *ld);

/* Whether the architecture is an encoder's. */
bool tft_load_is_encoder(const struct tft_load *ld);

/* output.weight, or the embedding if the file has no such tensor; output.bias, if it has that. */
void tft_load_head(struct tft_load *ld);

/* A table of f32, expanded if need be. */
struct tft_mat tft_load_table(struct tft_load *ld, const char *name, uint32_t rows, uint32_t cols);

/* ---- for model/ */

/* A tensor of exactly this type and shape, in place; NULL after an error. */
const void *tft_load_exactly(struct tft_load *ld, const char *name, enum tft_dtype type,
                             const uint64_t ne[4]);

/* Converts a part of a tensor after the placing run: until then nothing is at c->to. */
void tft_load_convert_later(struct tft_load *ld, const struct tft_conversion *c);

/* After load(): refuses a file with a tensor that nothing has asked for. The architecture does not
   know it, and would compute something else than the model that was trained. */
void tft_load_check_all_used(struct tft_load *ld);

/* Records the first error: "FILE: ...". */
void tft_load_fail(struct tft_load *ld, enum tft_status status, const char *fmt, ...)
    TFT_PRINTF(3, 4);

#endif
