/* What the KV cache that the file is to name wants to be known beforehand, if anything: the order
   of channels (order.h), and the part of their range that groups cover (clip.h). SKVQ, section
   3.1. */
#ifndef QUANTIZE_MEASURE_KV_CALIBRATE_H
#define QUANTIZE_MEASURE_KV_CALIBRATE_H

#include "tools/quantize/measure/kv_clip.h"
#include "tools/quantize/round/channel_order.h"
#include "run/session.h"

struct kv_calibration {
    const struct tft_model *m;
    const struct quantize_opts *o;
    struct tft_kv_policy policy;
    struct channel_ranges
        reach[2]; /* of the layer in hand: of its keys as they are stored, and of its values as its
                     rotated weights make them */
    struct kv_clip clip;
    int32_t *key_order;   /* [n_layer, G, E]; NULL without reorder=calibrated */
    int32_t *value_order; /* [G, E] of the layer in hand, for the rows of v and the columns of o;
                             likewise */
    float *part[2];       /* [n_layer, G, groups] of keys and values; NULL without
                             clip=calibrated */
    float *v;             /* [window, G E] */
};

/* False without memory. All zero is fine to close. o->kv has been found to be a cache. */
bool kv_calibrate_open(struct kv_calibration *c, const struct tft_model *m,
                       const struct quantize_opts *o, int n_threads);
void kv_calibrate_close(struct kv_calibration *c);

/* A window of the text that the layer in hand has just computed. */
void kv_calibrate_add(struct kv_calibration *c, const struct tft_session *s);

/* All windows of layer l have been added. prefix: [n_prefix, G, E] keys, and values as its rotated
   weights would make them */
void kv_calibrate_finish(struct kv_calibration *c, uint32_t l, const uint16_t *prefix_k,
                         const uint16_t *prefix_v);

/* Groups of a head. */
uint32_t kv_calibrate_groups(const struct kv_calibration *c);

#endif
