/*
 * The coded half of a quantized KV cache: full blocks of keys and values. A block of a layer and
 * head has, for its keys and for its values,
 *
 *      codes       codes.h; or f16 as in kv.h, where the policy says 16 bits
 *      scales      f16: [n] scale, [n] mid; E4M3: two exponents of the powers of two that they are
 *                  multiples of, then the same
 *
 * in records side by side: [layer][head][block].
 */
#ifndef TFT_CODED_H
#define TFT_CODED_H

#include "kv.h"

struct tft_coded_layer {
    size_t k_at, v_at;       /* where the layer's records begin, a device's after those of the
                                CPU, */
    size_t k_bytes, v_bytes; /* and how long one is, */
    size_t k_codes, v_codes; /* and the codes in it */
    unsigned k_bits, v_bits; /* enum tft_bits, or TFT_KV_BITS_F16 */
    uint32_t mixed;          /* bits of a panel's quads of keys in all; 0: all quads have the
                                same */
    uint16_t (*quads)[TFT_BITS_COUNT]; /* [G], of the keys' channels */
    uint8_t *channel; /* [G, E]: keys are stored in the order of their bits, or of the file, this
                         channel first; NULL: as they come */
    const float *clip[2]; /* [G, groups], of keys and values: CALIBRATED */
};

/* One thread's workspace. */
struct tft_coded_scratch {
    float *scales[2];   /* of a span of keys, of values */
    float *q;           /* [TFT_TILE, E]: queries, their channels in the order of the keys' */
    float *x;           /* a block of floats, by token or by channel, padded to 16 */
    uint8_t *code;      /* and its codes */
    float *half, *scale, *mid;
    uint32_t *order;    /* [3 slots] as tft_retain_evict wants it */
    uint16_t *rows;     /* [slots that stay, E] */
};

/* Bytes of a block, all in, over all layers and heads, of a policy that is coded. And of a token:
   of its part of one, rounded up, or as floats. */
size_t tft_kv_block_bytes(const struct tft_model *m, const struct tft_kv_policy *policy);
size_t tft_kv_token_bytes(const struct tft_model *m, const struct tft_kv_policy *policy);

/* Takes blocks for `capacity` tokens, and workspaces for n_threads, from the arena. */
void tft_coded_layout(struct tft_kv *kv, struct tft_arena *a, const struct tft_model *m,
                      uint32_t capacity, int n_threads);

/* Decides the bits of mixed keys. */
void tft_coded_open(struct tft_kv *kv, const struct tft_model *m);

/* What the policy gives up of a head's slots becomes blocks, and the slots close up. at: where
   tokens are before that. */
void tft_coded_evict(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                     uint32_t head, struct tft_retained at, int tid);

/* Takes out the first n blocks of a head. */
void tft_coded_drop(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t n);

/* Block b as kernels want it, its scales in room: [tft_coded_scales]. */
struct tft_coded tft_coded_keys(const struct tft_kv *kv, const struct tft_kernels *kern,
                                uint32_t layer, uint32_t head, uint32_t b, float *room);
struct tft_coded tft_coded_values(const struct tft_kv *kv, const struct tft_kernels *kern,
                                  uint32_t layer, uint32_t head, uint32_t b, float *room);
size_t tft_coded_scales(const struct tft_kv *kv, const struct tft_kv_side *side);

/* A block of 16 bits: keys [block / 16, E, 16], values [block, E]. */
const uint16_t *tft_coded_f16_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                                   uint32_t b);
const uint16_t *tft_coded_f16_values(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                                     uint32_t b);

/* Where block b's record begins. */
char *tft_coded_key_record(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b);
char *tft_coded_value_record(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b);

/* Channels of a head, rounded up to whole panels; and groups of them that share a scale. */
static inline size_t tft_coded_width(const struct tft_kv *kv)
{
    return (kv->head_dim + TFT_PANEL - 1) / TFT_PANEL * TFT_PANEL;
}

static inline uint32_t tft_coded_groups(const struct tft_kv *kv)
{
    return (kv->head_dim + kv->policy.group - 1) / kv->policy.group;
}

/* Parts of a group's range to choose from. Of 2 bits' four levels over 32 numbers 0.7 is about the
   best for a Gaussian. */
#define TFT_CODED_CLIPS 1, 0.92f, 0.84f, 0.76f, 0.68f, 0.6f
enum { TFT_CODED_N_CLIPS = 6 };

/* From so many of them a group chooses: from one if the range is whole, or the part calibrated. */
static inline size_t tft_coded_clips(const struct tft_kv_policy *p)
{
    return p->clip == TFT_KV_CENTRE || p->clip == TFT_KV_ZERO ? TFT_CODED_N_CLIPS : 1;
}

static inline bool tft_coded_to_zero(const struct tft_kv_policy *p)
{
    return p->clip >= TFT_KV_ZERO;
}

/* Scales of a block. */
static inline size_t tft_coded_n_scales(const struct tft_kv *kv, const struct tft_kv_side *side)
{
    return side->axis == TFT_KV_TOKEN ? (size_t)tft_coded_groups(kv) * kv->block : kv->head_dim;
}

#endif
