/*
 * Short convolutions with gates instead of attention: the layers of LFM2 that have no attention
 * (Liquid AI 2025, arXiv 2511.23404, section 2). A token is mixed with the few before it:
 *
 *      b, c, u = Win h
 *      v = b * u
 *      y = c * sum over k of w[k] * v of the token k before    a row of w is each token's gains
 *      Wout y
 *
 * The state is v of the last tokens.
 */
#ifndef TFT_SHORT_CONV_H
#define TFT_SHORT_CONV_H

#include "model/model.h"

/* Loads the mixer of layer `layer`, or returns false if the layer has KV heads. */
bool tft_short_conv_load(struct tft_load *ld, unsigned layer);

/* A, from XN. After the mixer of the last layer, only tokens that need logits go on. */
void tft_short_conv_mix(struct tft_pass *p, uint32_t layer);

#endif
