/*
 * Importance of each channel of the keys, for KV caches that choose bits per channel
 * (docs/cache.md). A score is a sum over channels d of q_d k_d, so an error e of k_d adds
 * E[q_d^2] e^2 to its squared error. e^2 grows with the square of the range of k_d's codes; the
 * variance of k_d among the tokens that share a scale stands for this square:
 *
 *      importance_d = E[q_d^2] var(k_d in a group of KEY_IMPORTANCE_GROUP tokens)
 *
 * over the calibration text. q: of all heads that read the key, in all layers that share it. Both
 * are taken after RoPE.
 */
#ifndef QUANTIZE_MEASURE_KEY_IMPORTANCE_H
#define QUANTIZE_MEASURE_KEY_IMPORTANCE_H

#include "tools/quantize/measure/layers.h"

enum { KEY_IMPORTANCE_GROUP = 64 };

struct key_importance {
    const struct tft_model *m;
    double *query;     /* [n_kv_layer, G, E], each layer with its own G and E: sums of q^2 */
    double *key;       /* [n_kv_layer, G, E] sums of (k - mean of its group)^2 */
    float *importance; /* [n_kv_layer, G, E] */
};

/* False if memory is short. close accepts all zeros. */
bool key_importance_open(struct key_importance *ki, const struct tft_model *m);
void key_importance_close(struct key_importance *ki);

/* Adds the n tokens that layer l of the model, which has attention, has just computed with s. */
void key_importance_add(struct key_importance *ki, const struct tft_session *s, uint32_t l,
                        uint32_t n);

/* Fills `importance`, up to a factor that all channels share. */
void key_importance_finish(struct key_importance *ki);

#endif
