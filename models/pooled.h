/*
 * What models for embeddings and rerankers compute of a pooled vector s of a text, which is the
 * mean of its hidden vectors, or the first or the last one.
 *
 *      embedding:  s = W3 (W2 s)             dense_2, dense_3, where the file has them:
 *                                            EmbeddingGemma (Schechter Vera et al. 2025, arXiv
 *                                            2509.20354)
 *      reranker:   s = a(Wcls s + bcls)      where the file has it; a is tanh, or GELU
 *                  s = layernorm(s)          where the file has it
 *                  scores = Wout s + bout    where the file has it; or its softmax
 *
 * Tensors: dense_2, dense_3, cls, cls.norm, cls.output. A file names the scores in
 * classifier.output_labels.
 */
#ifndef TFT_POOLED_H
#define TFT_POOLED_H

#include "model/model.h"

/* Loads what the file has of it. how: `from`, `gelu` and `softmax` of the architecture. Comes after
   the tensors of the model. */
void tft_pooled_load(struct tft_load *ld, struct tft_pooled how);

#endif
