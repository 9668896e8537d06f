/*
 * The Llama block with its gradient, for models small enough to train on a CPU.
 *
 *   x = embed[token]
 *   per layer:  h = norm(x) * att_norm;   x += wo attention(rope(wq h), rope(wk h), wv h)
 *               h = norm(x) * ffn_norm;   x += down (silu(gate h) * (up h))
 *   logits = embed (norm(x) * out_norm)                            (the head is the embedding)
 *
 * norm is x / rms(x) with eps 1e-5, rope rotates neighbouring pairs with base 10000, query head i
 * uses KV head i / (heads / kv_heads).
 * T: tokens of a sequence. Matrices are [outputs, inputs], row-major.
 */
#ifndef DEMO_LLAMA_H
#define DEMO_LLAMA_H

#include "real.h"

#include <stddef.h>

struct shape { /* the header of a llama2.c checkpoint */
    int dim, ffn, layers, heads, kv_heads, vocab, context;
};

struct params { /* pointers into one array, in the order of a llama2.c checkpoint */
    real *embed;    /* [vocab, dim] */
    real *att_norm; /* [layers, dim] */
    real *wq;       /* [layers, dim, dim] */
    real *wk, *wv;  /* [layers, kv_dim, dim] */
    real *wo;       /* [layers, dim, dim] */
    real *ffn_norm; /* [layers, dim] */
    real *gate;     /* [layers, ffn, dim] */
    real *down;     /* [layers, dim, ffn] */
    real *up;       /* [layers, ffn, dim] */
    real *out_norm; /* [dim] */
};

static inline int head_dim(const struct shape *s)
{
    return s->dim / s->heads;
}
static inline int kv_dim(const struct shape *s)
{
    return head_dim(s) * s->kv_heads;
}

size_t params_count(const struct shape *s);
struct params params_at(const struct shape *s, real *flat);

/* cos and sin of position p and pair i of a head: table[(p * head_dim / 2 + i) * 2 + {0, 1}] */
real *rope_table(const struct shape *s);

/* The teacher's prediction of one token: its most likely tokens. The rest of the probability
   belongs to all other tokens together. */
enum { TARGETS = 32 };
struct target {
    uint16_t token;       /* the token that was sampled */
    uint16_t id[TARGETS]; /* most likely first */
    uint16_t p[TARGETS];  /* probabilities in 1/65535; all 0: unknown, no loss */
};

/* The activations that the gradient needs from the forward pass, of one sequence of up to
   shape.context tokens. */
struct tape;
struct tape *tape_open(const struct shape *s);

/* Runs the layers on token[t]. */
void llama_forward(struct tape *tape, const struct params *w, const uint16_t *token, int t);

/*
 * Call it after llama_forward. Returns the cross-entropy between target[i] and the prediction after
 * token i, summed over i < t. The tokens that a target does not list count as one:
 * -(sum_k p_k log q_k + p_rest log q_rest). Adds the gradient, times `scale`, to *grad unless that
 * is NULL.
 */
double llama_loss(struct tape *tape, const struct params *w, const struct params *grad, real scale,
                  const uint16_t *token, const struct target *target, int t);

#endif
