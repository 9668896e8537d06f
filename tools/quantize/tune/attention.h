/* Attention of one sequence over a prefix and itself, and its gradient (Vaswani et al. 2017, eq.
   1). */
#ifndef QUANTIZE_TUNE_ATTENTION_H
#define QUANTIZE_TUNE_ATTENTION_H

#include "model/model.h"
#include "tools/quantize/tune/coded_rows.h"
#include "tools/quantize/tune/real.h"

struct attention;

/* For at most n tokens after a prefix of n_prefix. NULL if memory is short. close accepts NULL. */
struct attention *attention_open(const struct tft_model *m, size_t n_prefix, size_t n,
                                 int n_threads);
void attention_close(struct attention *a);

/* Inputs. Tokens attend to the prefix first. Queries and keys have had RoPE. G, E: of `heads`. */
struct attention_rows {
    struct tft_kv_heads heads;       /* of the layer */
    const real *q;                   /* [n, H, E] */
    const real *k, *v;               /* [n, G, E] */
    const real *prefix_k, *prefix_v; /* [n_prefix, G, E] */
    const struct coded_view *coded;  /* NULL: all rows are seen unchanged */
    size_t window; /* a token sees itself and the window - 1 rows before it, including the prefix's;
                      0: all */
};

/* y: [n, H, E] */
void attention_run(struct attention *a, real *y, const struct attention_rows *x, size_t n);

/* The gradients of the inputs, with the same shapes, from dy. The prefix's are added to, the others
   overwritten. Rounding to codes counts as the identity: the straight-through estimator (Bengio et
   al. 2013, section 4). Scores are computed again, not kept from the forward run (Dao et al. 2022,
   section 3.1). */
struct attention_gradients {
    real *q, *k, *v, *prefix_k, *prefix_v;
    /* [n, G, E] the part of k and v that comes from tiles of queries that all are at least `far`
       tokens after the row; NULL: none */
    real *far_k, *far_v;
    size_t far;
};
void attention_back(struct attention *a, const struct attention_gradients *dx, const real *dy,
                    const struct attention_rows *x, size_t n);

#endif
