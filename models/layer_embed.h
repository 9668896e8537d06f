/*
 * Per-layer embeddings: each layer has an embedding of the token, of n numbers (Gemma 3n: Google
 * 2025, https://ai.google.dev/gemma/docs/gemma-3n#ple-caching; Gemma 4).
 *
 *      p = rms(Wp x / sqrt(D)) g_p                     x: the token's embedding, as layer 0 has it;
 *                                                      RMSNorm over the n numbers of each layer
 *      p = (p + sqrt(n) table[token]) / sqrt(2)        n numbers for each layer
 *      in layer l, after feed-forward:
 *          x = x + rms(Wout (gelu(Wgate x) * p_l)) g
 *
 * The table is larger than the rest of the model. It stays in the mapped file; each token reads one
 * row of it.
 */
#ifndef TFT_LAYER_EMBED_H
#define TFT_LAYER_EMBED_H

#include "model/model.h"

/* Reads n, the key ARCH.embedding_length_per_layer_input. Comes after tft_load_shape. */
void tft_layer_embed_shape(struct tft_load *ld);

/* Load the tensors that all layers share, after the token embedding and before the tensors of a
   layer; and the tensors of layer `layer`. Do nothing if n is 0. */
void tft_layer_embed_load(struct tft_load *ld);
void tft_layer_embed_load_layer(struct tft_load *ld, unsigned layer);

/* Computes p for all layers. Comes before layer 0. */
void tft_layer_embed_begin(struct tft_pass *p);

/* X = scale (X + rms(Wout (gelu(Wgate X) * p_l)) g) */
void tft_layer_embed_add(struct tft_pass *p, uint32_t layer, const float *scale);

#endif
