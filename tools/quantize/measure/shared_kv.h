/* Keys and values that several layers share, over the windows of the text, or over sequences: a
   layer runs over all windows before the next layer, and the cache has room for one window. */
#ifndef QUANTIZE_MEASURE_SHARED_KV_H
#define QUANTIZE_MEASURE_SHARED_KV_H

#include "model/model.h"

enum { SHARED_KV_MOST = 2 }; /* layers with shared rows: one with a window and one without */

/* All zero: no layer uses keys and values of another. */
struct shared_kv {
    uint32_t n;
    struct shared_kv_layer {
        uint32_t layer; /* of the cache */
        size_t bytes[TFT_KV_SIDES];
        char *rows; /* [n_windows] the slots of a window: keys, then values */
    } of[SHARED_KV_MOST];
};

/* kv: the cache that the layers run with. False if memory is short. close accepts all zeros, and a
   failed open. */
bool shared_kv_open(struct shared_kv *k, const struct tft_model *m, const struct tft_kv *kv,
                    size_t n_windows);
void shared_kv_close(struct shared_kv *k);

/* After block b has run over a window: saves its rows of the cache, if other layers use them. */
void shared_kv_keep(const struct shared_kv *k, const struct tft_kv *kv, const struct tft_layer *b,
                    size_t window);

/* Before block b runs over a window: restores the rows of another layer that it uses. */
void shared_kv_restore(const struct shared_kv *k, const struct tft_kv *kv,
                       const struct tft_layer *b, size_t window);

#endif
