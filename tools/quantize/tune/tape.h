/* Shared by block.c and head.c: their buffers, rows spread over threads, norms of rows, and the
   quantizers of inputs. */
#ifndef QUANTIZE_TUNE_TAPE_H
#define QUANTIZE_TUNE_TAPE_H

#include "tools/quantize/tune/attention.h"
#include "tools/quantize/tune/heads.h"
#include "tools/quantize/tune/layer_embeds.h"
#include "tools/quantize/tune/matmul.h"
#include "tools/quantize/tune/row_ops.h"

/* Rows of logits computed at a time. */
enum { LOGITS = 128 };

struct block_watch;

/* The keys and values of a block that later blocks use, and the gradients that these have; zeros
   before the first of them. */
struct shared_rows {
    real *k, *v, *dk, *dv; /* [n, G E] */
    real *far_k, *far_v;   /* [n, G E] the parts of the gradients that a block_watch asks for */
};

/* Letters G, E and F are of the widest block; rows of a narrower block are closer together. */
struct tape {
    const struct tft_model *m;
    size_t n, n_prefix;
    real error_weight;
    int n_threads;
    struct matmul *matmul;
    struct attention *attention;
    struct coded_rows *coded_rows;
    struct heads *heads;
    struct layer_embeds *embeds; /* NULL: the model has none */
    struct shared_rows *shared;  /* [n_kv_layer]; NULL: no block shares its keys and values */
    const struct block_watch *watch; /* NULL: none */
    const uint64_t *drawn; /* the seed of next tokens that the model draws, in place of the text's;
                              NULL: the text's */
    void *memory; /* of all buffers below */

    struct tft_affine *affine; /* [n] of the current input */
    double *error; /* [n] squared errors of quantization, or losses of the head's rows */
    /* activations of the block; q0, k0: before, q, k: after their norm and RoPE */
    real *h, *x2, *h2;      /* [n, D] */
    real *x0, *x3;          /* [n, D] after a norm between rounds; what per-layer embeddings read */
    real *y, *y2;           /* [n, D] outputs of o and down, before their norm or scale */
    real *q0, *q, *a;       /* [n, H E] */
    real *k0, *k, *v;       /* [n, G E] */
    real *v0;               /* [n, G E] values before their norm */
    const real *seen_k, *seen_v; /* keys and values that the block's queries see: k and v, or those
                                    of an earlier block */
    real *g, *u, *c;        /* [n, F] */
    const struct coded_view *coded; /* k and v in the default cache */
    /* gradients */
    real *dh, *dy, *dout;   /* [n, D] */
    real *da, *dq, *dq0;    /* [n, H E] */
    real *dk, *dk0, *dv;    /* [n, G E] */
    real *dv0;              /* [n, G E] */
    real *far_k, *far_v;    /* [n, G E] */
    real *dc, *dg, *du;     /* [n, F] */
    real *logits;           /* [LOGITS, V] */
};

/* For sequences of n tokens at positions n_prefix, n_prefix + 1, ... error_weight: weight in the
   gradient of |x - q(x)|^2 / 2, with x the inputs of linear layers. NULL if memory is short. close
   accepts NULL. */
struct tape *tape_open(const struct tft_model *m, size_t n_prefix, size_t n, real error_weight,
                       int n_threads);
void tape_close(struct tape *t);

/* f for each of n rows, which the threads share. */
typedef void row_fn(const struct tape *t, const void *arg, size_t row);
void each_row(const struct tape *t, size_t n, row_fn *f, const void *arg);

/* y = norm(x): [n, D]; and dx += its gradient. */
void norm_rows(const struct tape *t, real *y, const real *x, const struct tft_norm *w);
void norm_rows_back(const struct tape *t, real *dx, const real *dy, const real *x,
                    const struct tft_norm *w);

/* Whether rows of the input become bytes of one scale. Other rows are floats, or become groups of
   bytes, which clip nothing: the error of these is not measured, and a gradient passes as it is. */
static inline bool has_affine(const struct tft_input *in)
{
    return in->range == TFT_RANGE_STATIC || in->range == TFT_RANGE_TOKEN;
}

/* Sets t->affine to the quantization of x: [n, width], if the input has one. Returns the step: 1
   for one element per row, 0 for one element that all rows share. */
size_t choose_affine(const struct tape *t, const real *x, size_t n, size_t width,
                     const struct tft_input *in);

/* Gives x: [n, width] to the linear layers that read it, as bytes or floats, and adds the error of
   bytes. */
void quantize_input(struct tape *t, const real *x, size_t width, const struct tft_linear *l);
void quantize_back(const struct tape *t, real *dx, const real *x, size_t width,
                   const struct tft_linear *l);

#endif
