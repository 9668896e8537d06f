/*
 * Measures the tables of the cache fisher (kv/fisher.h): mean, gain and steps of each channel of
 * keys and values (kv_fisher_table.h), and the loss with each number of bits (kv_loss.h).
 *
 * The weight of a channel in the gains is its Fisher information F: the model reads windows of text
 * and draws a next token at each position. -log p of these tokens is backpropagated to the keys and
 * values, from the queries that would read their codes, of all layers that share them. F is the sum
 * of the squared gradients. Keys and their gradients are turned back by RoPE's angles of their
 * positions, as codes have them.
 *
 * The first tokens of a window are left out, since they stay in slots, and with them special tokens
 * and tokens whose value is less than 0.45 of the median norm: such a token takes attention as a
 * sink does, and its gradient would outweigh all others.
 */
#ifndef QUANTIZE_TUNE_KV_FISHER_H
#define QUANTIZE_TUNE_KV_FISHER_H

#include "model/model.h"

struct kv_fisher_opts {
    const int32_t *text;        /* [n_windows, window] */
    uint32_t n_windows, window; /* about 4,096 tokens of it are read, in whole windows */
    uint32_t far;               /* tokens between a key and the first query that reads its code */
    uint32_t sinks;             /* first tokens of a window that are left out */
    int n_threads;              /* 0: all CPUs */
    bool (*progress)(void *user, double done); /* false: stop */
    void *user;
};

/* [n_kv_layer, G, rows, E] of keys and of values, zeros in layers with a window; kv_fisher_free
   frees them. */
struct kv_fisher {
    float *table[TFT_KV_SIDES];
};

/* Whether a cache is fisher; kv may be NULL, or invalid. */
bool kv_fisher_wanted(const char *kv);

/* m: an open model whose formula tune_check takes. If *stopped: TFT_OK, and *r is all
   zeros. */
enum tft_status kv_fisher_measure(const struct tft_model *m, const struct kv_fisher_opts *o,
                                  struct kv_fisher *r, bool *stopped, struct tft_error *err);

/* About the bytes of memory that kv_fisher_measure takes. */
uint64_t kv_fisher_bytes(const struct tft_model *m);

/* Accepts all zeros. */
void kv_fisher_free(struct kv_fisher *r);

#endif
