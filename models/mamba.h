/*
 * Mamba-2 instead of attention: Dao & Gu 2024 (arXiv 2405.21060, section 7). Each head has a matrix
 * S, of `state` numbers for each of its own. Heads share b and c with the other heads of their
 * group, which are neighbours.
 *
 *      z, m, s = Win h                         [width], [channels], [heads]
 *      x, b, c = silu(conv(m) + bias)          over the last tokens, channel by channel
 *      step = softplus(s + bias)               per head
 *      S = exp(a step) S + b (step x); y = S c + d x       per head; a < 0
 *      Wout (rms(y * silu(z)) g)               the norm per group; falcon-h1 may lack it
 *
 * The state is the input of conv for the last tokens, then for all heads a matrix each, then a
 * factor each: S is the matrix times the factor (simd/decay.h).
 */
#ifndef TFT_MAMBA_H
#define TFT_MAMBA_H

#include "model/model.h"

/* The numbers of heads. Comes before the layers. */
void tft_mamba_shape(struct tft_load *ld);

/* Loads the mixer of layer `layer`, or returns false if the layer has KV heads. */
bool tft_mamba_load(struct tft_load *ld, unsigned layer);

/* Loads the mixer of layer `layer`, and returns true. */
bool tft_mamba_load_alone(struct tft_load *ld, unsigned layer);

/* Loads Mamba-2 beside the layer's attention, and returns false. */
bool tft_mamba_load_beside(struct tft_load *ld, unsigned layer);

/* A, from XN. After the mixer of the last layer, only tokens that need logits go on. */
void tft_mamba_mix(struct tft_pass *p, uint32_t layer);

#endif
