/*
 * What part of their range the groups of a KV cache are to cover: SKVQ's alpha (section 3.1, eq.
 * 2), fixed from text so that attention's output changes least when keys and values become codes
 * (eq. 3). For one layer at a time, over the first KV_CLIP_WINDOWS windows of the calibration text and
 * KV_CLIP_QUERIES queries in each, every KV head by itself:
 *
 *      O = softmax(Q K^T / sqrt(E)) V          alpha = argmin |O^q - O|^2,  O^q of codes
 *
 * keys' groups in turn, the others as they are by then, the values exact; then the values' groups,
 * each of which changes channels of its own, with the keys' codes. O is attention's output before
 * attn_output, which mixes heads. Prefix and sinks stay as they are; all other tokens are codes, as
 * the paper has no window here. Scales are not yet E4M3.
 */
#ifndef QUANTIZE_MEASURE_KV_CLIP_H
#define QUANTIZE_MEASURE_KV_CLIP_H

#include "kv/kv_policy.h"
#include "tools/quantize/options.h"

enum { KV_CLIP_WINDOWS = 4, KV_CLIP_QUERIES = 16 };

struct kv_clip {
    const struct tft_model *m;
    const struct tft_kv_policy *policy;
    uint32_t window, n_prefix, windows; /* so many windows are there */
    int n_threads;
    float *k, *v;   /* [KV_CLIP_WINDOWS, window, G, E] as the cache gets them */
    float *q;       /* [KV_CLIP_WINDOWS, KV_CLIP_QUERIES, H, E] */
    float *work;    /* of each thread */
};

/* False without memory. All zero is fine to close. */
bool kv_clip_open(struct kv_clip *c, const struct tft_model *m, const struct tft_kv_policy *policy,
               const struct quantize_opts *o, int n_threads);
void kv_clip_close(struct kv_clip *c);

/* Before the next layer. */
void kv_clip_clear(struct kv_clip *c);

/* Rows of a window's tokens: [window, H E], [window, G E], [window, G E], `stride`s apart. More
   than KV_CLIP_WINDOWS count for nothing. */
void kv_clip_add(struct kv_clip *c, const float *q, size_t q_stride, const float *k,
                 size_t k_stride, const float *v, size_t v_stride);

/* What there is of a layer and what is found out. order: [G, E] of the keys' and of the values'
   channels, or NULL: as they come. */
struct kv_clip_layer {
    uint32_t layer;
    const uint16_t *prefix_k, *prefix_v; /* [n_prefix, G, E], in no other order than k and v
                                            above */
    const int32_t *order[2];
    float *part[2]; /* [G, groups] of keys, of values: 1 where there are no codes */
};
void kv_clip_finish(const struct kv_clip *c, const struct kv_clip_layer *y);

#endif
