/* Per-layer embeddings (models/layer_embed.h) over the tokens of one sequence, and their gradient.
   Their matrices are not rounded in W8A8 models: products are of floats here. */
#ifndef QUANTIZE_TUNE_LAYER_EMBEDS_H
#define QUANTIZE_TUNE_LAYER_EMBEDS_H

#include "model/model.h"
#include "tools/quantize/tune/real.h"

struct layer_embeds;

/* For n tokens of a model with such embeddings. NULL if memory is short. close accepts NULL. */
struct layer_embeds *layer_embeds_open(const struct tft_model *m, size_t n, int n_threads);
void layer_embeds_close(struct layer_embeds *e);

/* Computes the tokens' embeddings for all layers. token: [n]; x: [n, D] what layer 0 reads. */
void layer_embeds_begin(struct layer_embeds *e, const int32_t *token, const real *x);

/* y: [n, D] = x + rms(Wout (gelu(Wgate x) * p)) g in layer l. y may be x. */
void layer_embeds_run(struct layer_embeds *e, uint32_t l, real *y, const real *x);

/* dx: [n, D] the gradient of y on entry, of x on return. */
void layer_embeds_back(struct layer_embeds *e, uint32_t l, real *dx, const real *x);

#endif
