/*
 * Embeddings that each layer has of its own: Gemma 3n and Gemma 4 call them per-layer embeddings
 * (Google 2025, https://ai.google.dev/gemma/docs/gemma-3n#ple-caching).
 *
 *      p = rms(Wp x / sqrt(D)) g_p                     x: the token's embedding, as layer 0 has it;
 *                                                      RMSNorm over the n numbers of each layer
 *      p = (p + sqrt(n) table[token]) / sqrt(2)        n numbers for each layer
 *      in layer l, behind feed-forward:
 *          x = x + rms(Wout (gelu(Wgate x) * p_l)) g
 *
 * The table has more numbers than all else. Its rows are read in the file's map, one for each
 * token.
 */
#ifndef TFT_LAYER_EMBED_H
#define TFT_LAYER_EMBED_H

#include "model/model.h"

/* ARCH.embedding_length_per_layer_input, after tft_load_shape; the tensors of the model, after its
   embedding; those of layer `layer`. The last two do nothing in a model without such embeddings. */
void tft_layer_embed_shape(struct tft_load *ld);
void tft_layer_embed_load(struct tft_load *ld);
void tft_layer_embed_load_block(struct tft_load *ld, unsigned layer);

/* Before layer 0: p of all layers. */
void tft_layer_embed_begin(struct tft_pass *p);

/* X = scale (X + rms(Wout (gelu(Wgate X) * p_l)) g) */
void tft_layer_embed_add(struct tft_pass *p, uint32_t layer, const float *scale);

#endif
