/*
 * What the codes of one channel cost, measured in attention: the losses in the tables of the cache
 * fisher (kv/fisher.h).
 *
 * Query t gives token j the probability p_j. With dy the gradient of the loss with respect to the
 * output of the query's head (kv_fisher.h has the loss), errors e_j of keys and values change the
 * loss, to first order, by
 *
 *      keys     r = sum over j of  scale p_j (v_j - sum_i p_i v_i) . dy  q . e_j
 *      values   r = sum over j of  p_j e_j . dy
 *
 * and a channel with b bits costs half the sum over the queries of r^2, where r has the errors of
 * this channel in all tokens that the query reads as codes, and in all query heads of the KV head,
 * of all layers that share its keys and values.
 *
 * So errors of tokens that are read together add up before they are squared. The mean square of
 * each token's own gradient, the diagonal of the Fisher information, leaves that out, and is
 * governed by the few tokens with large gradients: in tinyllama-1.1b it is a 16th of this in the
 * first layers, and 5 times as much in the last ones.
 */
#ifndef QUANTIZE_TUNE_KV_LOSS_H
#define QUANTIZE_TUNE_KV_LOSS_H

#include "kv/fisher.h"
#include "model/model.h"
#include "tools/quantize/tune/real.h"

enum { KV_LOSS_CHOICES = TFT_FISHER_BITS + 1 }; /* 0 bits, 1 bit, and so on */

struct kv_loss;

/* The buffers of one thread, for sequences of n tokens after a prefix, in layers without a window:
   G heads of E channels, as in tft_model_coded_heads. NULL if memory is short. close accepts
   NULL. */
struct kv_loss *kv_loss_open(const struct tft_model *m, size_t n);
void kv_loss_close(struct kv_loss *z);

/* The queries of a layer. */
struct kv_loss_reader {
    const real *q, *dy; /* [n_query, H, E] queries after RoPE */
};

/* A KV head of a layer in one sequence. */
struct kv_loss_rows {
    const struct tft_layer *layer;
    size_t head;
    const float *cos, *sin;          /* [n, n_rot] RoPE of the tokens' positions */
    const real *k, *v;               /* [n, G, E] keys before RoPE */
    const real *prefix_k, *prefix_v; /* [n_prefix, G, E] keys after RoPE */
    const bool *exact;               /* [n] tokens that have no errors */
    const struct kv_loss_reader *reader; /* [n_reader] layers that read these keys and values */
    size_t n_reader;
    const uint32_t *at; /* [n_query] the tokens of queries, ascending */
    size_t n_query;
    size_t far;                       /* a query reads the codes of tokens at least so far back */
    const float *table[TFT_KV_SIDES]; /* [rows, E] of the head */
};

/* Adds to loss: [choices, E] of keys and of values. */
void kv_loss_add(struct kv_loss *z, const struct kv_loss_rows *x, double *loss[TFT_KV_SIDES]);

#endif
