/*
 * Gated delta nets instead of attention: Yang et al. 2024 (arXiv 2412.06464), as in Qwen3-Next.
 * Each of n_v heads has a matrix S, which maps keys to values. n_k heads of queries and keys serve
 * them in turn: head j that of number j mod n_k. In qwen3next, that of number j / (n_v / n_k), and
 * Walpha and Wbeta are one matrix.
 *
 *      m = silu(conv(Wqkv h))                  over the last tokens, channel by channel
 *      q, k, v = m                             [n_k, E], [n_k, E], [n_v, E]
 *      q, k = q / |q| / sqrt(E), k / |k|       per head; |x|^2 = sum of x^2 + eps
 *      beta = sigmoid(Wbeta h)                 [n_v]
 *      decay = exp(a softplus(Walpha h + b))   [n_v]; a < 0
 *      S = decay S; S = S + k (beta (v - k S)); y = q S    per head
 *      Wout (rms(y) g * silu(Wz h))            the norm per head
 *
 * The state is the input of conv for the last tokens, then for all heads a matrix each, then a
 * factor each: S is the matrix times the factor (simd/decay.h).
 */
#ifndef TFT_DELTA_NET_H
#define TFT_DELTA_NET_H

#include "model/model.h"

/* The numbers of heads. Comes before the layers. */
void tft_delta_net_shape(struct tft_load *ld);

/* Loads the mixer of layer `layer`, or returns false if the layer has attention:
   attention.recurrent_layers is a bool for each layer; without it each full_attention_interval-th
   has attention. A layer without KV heads has none. */
bool tft_delta_net_load(struct tft_load *ld, unsigned layer);

/* A, from XN. After the mixer of the last layer, only tokens that need logits go on. */
void tft_delta_net_mix(struct tft_pass *p, uint32_t layer);

#endif
