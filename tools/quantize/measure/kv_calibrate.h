/* Calibrates the file's KV cache from text (SKVQ, section 3.1): the order of channels
   (channel_order.h) and the clip of groups (kv_clip.h). Does nothing for a cache that needs
   neither. */
#ifndef QUANTIZE_MEASURE_KV_CALIBRATE_H
#define QUANTIZE_MEASURE_KV_CALIBRATE_H

#include "run/session.h"
#include "tools/quantize/measure/kv_clip.h"
#include "tools/quantize/round/channel_order.h"

struct kv_calibration {
    const struct tft_model *m;
    const struct quantize_opts *o;
    struct tft_kv_policy policy;
    struct channel_ranges ranges[2]; /* of the current layer: of keys as stored, of values as the
                                        rotated weights make them */
    struct kv_clip clip;
    int32_t *key_order;   /* [n_kv_layer, G, E]; NULL without reorder=calibrated */
    int32_t *value_order; /* [G, E] of the current layer, for the rows of v and the columns of o;
                             likewise */
    float *alpha[2];      /* [n_kv_layer, G, groups] of keys and values, each layer with its own;
                             NULL unless the policy has clip=calibrated */
    float *v;             /* [window, G E] scratch; NULL if nothing is calibrated */
};

/* o->kv must be a valid policy or NULL. False if memory is short. close accepts all zeros. */
bool kv_calibrate_open(struct kv_calibration *c, const struct tft_model *m,
                       const struct quantize_opts *o, int n_threads);
void kv_calibrate_close(struct kv_calibration *c);

/* Adds the window of text that layer l of the cache has just computed. */
void kv_calibrate_add(struct kv_calibration *c, const struct tft_session *s, uint32_t l);

/* Fills in order and alpha of layer l, after all its windows of text have been added. A layer with
   a sliding window is f16 in every cache. It has an order too, since the file orders the values of
   all layers, and its alpha is 1. prefix_k, prefix_v: [n_prefix, G, E]; values are as the rotated
   weights make them. */
void kv_calibrate_finish(struct kv_calibration *c, uint32_t l, const uint16_t *prefix_k,
                         const uint16_t *prefix_v);

/* Groups of channels in a head of `dim`; of all heads in the layers of the cache before layer l. */
uint32_t kv_calibrate_groups(const struct kv_calibration *c, uint32_t dim);
size_t kv_calibrate_groups_before(const struct kv_calibration *c, uint32_t l);

#endif
