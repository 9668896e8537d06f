/*
 * What an error in a channel of the keys costs, for KV caches that give channels bits of their own
 * (DESIGN section 5, coded.h). A score is a sum over the channels d of q_d k_d, so an error e of
 * k_d adds E[q_d^2] e^2 to its square error; and e^2 goes with the square of what k_d's range has
 * to hold, its variance among the tokens that share a scale:
 *
 *      importance_d = E[q_d^2] var(k_d in a group of KEY_IMPORTANCE_GROUP tokens)
 *
 * over the calibration text, q those of all heads that read the key, both after RoPE.
 */
#ifndef QUANTIZE_MEASURE_KEY_IMPORTANCE_H
#define QUANTIZE_MEASURE_KEY_IMPORTANCE_H

#include "tools/quantize/measure/layers.h"

enum { KEY_IMPORTANCE_GROUP = 64 };

struct key_importance {
    const struct tft_model *m;
    double *query, *key; /* [n_layer, G, E] sums of squares, of q and of what k is off its group's
                            mean */
    float *importance;   /* [n_layer, G, E] */
};

/* False without memory. All zero is fine to close. */
bool key_importance_open(struct key_importance *k, const struct tft_model *m);
void key_importance_close(struct key_importance *k);

/* Adds the n tokens that layer l of s has just computed. */
void key_importance_add(struct key_importance *k, const struct tft_session *s, uint32_t l,
                        uint32_t n);

/* Fills k->importance, to a common factor. */
void key_importance_finish(struct key_importance *k);

#endif
