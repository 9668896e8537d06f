/*
 * SKVQ's clip alpha (section 3.1, eq. 2): the part of its range that each group of a KV cache
 * covers with codes, chosen from text so that the output of attention changes least when keys and
 * values become codes (eq. 3). Each layer and KV head is calibrated by itself, over the first
 * KV_CLIP_WINDOWS windows of the calibration text with KV_CLIP_QUERIES queries in each:
 *
 *      O = softmax(Q K^T / sqrt(E)) V          alpha = argmin |O^q - O|^2,  O^q from codes
 *
 * with the model's own scale and, if it has one, cap of scores.
 *
 * First the groups of the keys, one after another: groups before the current one have their alpha,
 * groups after it alpha 1, and the values are exact. Then the groups of the values, with the coded
 * keys; each changes only its own channels of O. O is the output before attn_output, which mixes
 * heads. Prefix and sinks stay exact. All other tokens are codes: unlike the paper, no window is
 * kept. Scales are not yet rounded to E4M3.
 */
#ifndef QUANTIZE_MEASURE_KV_CLIP_H
#define QUANTIZE_MEASURE_KV_CLIP_H

#include "kv/policy.h"
#include "tools/quantize/options.h"

enum { KV_CLIP_WINDOWS = 4, KV_CLIP_QUERIES = 16 };

struct kv_clip {
    const struct tft_model *m;
    const struct tft_kv_policy *policy;
    uint32_t window, n_prefix;
    uint32_t windows; /* added so far */
    int n_threads;
    float *k, *v; /* [KV_CLIP_WINDOWS, window, G, E] as the cache gets them; G and E: the layer's */
    float *q;     /* [KV_CLIP_WINDOWS, KV_CLIP_QUERIES, H, E] */
    float *work;  /* scratch of all threads */
};

/* False if memory is short. close accepts all zeros. */
bool kv_clip_open(struct kv_clip *c, const struct tft_model *m, const struct tft_kv_policy *policy,
                  const struct quantize_opts *o, int n_threads);
void kv_clip_close(struct kv_clip *c);

/* Forgets all windows: call before the next layer. */
void kv_clip_clear(struct kv_clip *c);

/* Adds a window of layer l of the cache; q: [window, H E], k, v: [window, G E], rows `stride`s
   apart. Does nothing once KV_CLIP_WINDOWS were added. */
void kv_clip_add(struct kv_clip *c, uint32_t l, const float *q, size_t q_stride, const float *k,
                 size_t k_stride, const float *v, size_t v_stride);

/* Input and result of a layer's calibration. */
struct kv_clip_layer {
    uint32_t layer;
    const uint16_t *prefix_k, *prefix_v; /* [n_prefix, G, E], channels as in k and v above */
    const int32_t *order[2]; /* [G, E] order of the keys' and the values' channels; NULL:
                                unchanged */
    float *alpha[2];         /* [G, groups] result for keys and values; 1 if the cache holds f16 */
};
void kv_clip_finish(const struct kv_clip *c, const struct kv_clip_layer *y);

#endif
