/*
 * The halves of a block that architectures share. A layer() is written in them and in the
 * operations of run/ops.h, and reads as the formula on top of its file. Capitals are the rows that
 * operations work on (run/buffers.h): X is the residual stream, XN the input of a half, A and G are
 * the inputs of the last products of attention and of feed-forward.
 */
#ifndef TFT_LAYERS_H
#define TFT_LAYERS_H

#include "run/ops.h"

/* A = softmax(Q K^T) V over the cache, which gets K and V of this pass. Of the last layer that adds
   to the cache, only tokens that need logits go on. In an encoder it is over whole texts. */
void tft_attention(struct tft_pass *p, uint32_t layer);

/* X += r W from. r is the model's residual_scale, 1 in most. */
void tft_residual(struct tft_pass *p, const struct tft_linear *w, enum tft_buf from);

/* X += rms(W from) g */
void tft_residual_normed(struct tft_pass *p, const struct tft_linear *w, enum tft_buf from,
                         const struct tft_norm *g);

/* X = norm(X + W from); X = norm(X + y), of the mixture of experts of models/mixture.h */
void tft_residual_then_norm(struct tft_pass *p, const struct tft_linear *w, enum tft_buf from,
                            const struct tft_norm *g);
void tft_mixture_then_norm(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a,
                           const struct tft_norm *g);

/* Between the halves of a block: X += Wo A, XN = norm(X). Where the model's halves are parallel
   (Wang & Komatsuzaki 2021, GPT-J), the norm reads X as it was before. */
void tft_add_attention(struct tft_pass *p, const struct tft_layer *b);

/* X += r Wdown G, where XN = norm(X) and G = silu(Wgate XN) * Wup XN */
void tft_feed_forward(struct tft_pass *p, const struct tft_layer *b);

/* X += r y, the mixture of experts of models/mixture.h; or X += rms(y) g. The experts may have
   another function of their hidden activations than SiLU. */
void tft_mixture(struct tft_pass *p, const struct tft_layer *b);
void tft_mixture_normed(struct tft_pass *p, const struct tft_layer *b, const struct tft_norm *g);
void tft_mixture_of(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a);

/* The same of experts with latent_down. The shared expert is added by itself. */
void tft_latent_mixture(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a);

/* X += r (the sum of the experts of XN), for tokens that tft_route has given to experts */
void tft_add_experts(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a);

/* ---- of several architectures, each in the file of its name */

void tft_cohere_load(struct tft_load *ld);
void tft_granite_load(struct tft_load *ld);

/* gemma4's; its attention is for tft_transformer.mixer. */
void tft_gemma4_load(struct tft_load *ld);
bool tft_gemma4_attention(struct tft_load *ld, unsigned layer);
void tft_nemotron_h_load(struct tft_load *ld);
void tft_qwen35_load(struct tft_load *ld);
bool tft_qwen35_mixer(struct tft_load *ld, unsigned layer);

void tft_arcee_layer(struct tft_pass *p, uint32_t l);
void tft_cohere_layer(struct tft_pass *p, uint32_t l);
void tft_granite_layer(struct tft_pass *p, uint32_t l);
void tft_hunyuan_layer(struct tft_pass *p, uint32_t l);
void tft_lfm2_layer(struct tft_pass *p, uint32_t l);
void tft_llama_layer(struct tft_pass *p, uint32_t l);
void tft_nemotron_h_layer(struct tft_pass *p, uint32_t l);
void tft_qwen3_layer(struct tft_pass *p, uint32_t l);
void tft_qwen35_layer(struct tft_pass *p, uint32_t l);
void tft_qwen35_predict(struct tft_pass *p);

#endif
