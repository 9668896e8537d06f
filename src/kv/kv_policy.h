/*
 * How a session holds keys and values: the knobs that the papers' caches are made of (DESIGN
 * section 5), as a value. tuffet.h says how they are written.
 */
#ifndef TFT_KV_POLICY_H
#define TFT_KV_POLICY_H

#include "simd/codes.h"
#include "simd/kernels.h"
#include "tuffet.h"

/* How a number of a full block is held: with an enum tft_bits, or as f16. */
enum { TFT_KV_BITS_F16 = TFT_BITS_COUNT };

enum tft_kv_axis {
    TFT_KV_CHANNEL, /* a scale for each channel, shared by the tokens of a block: KIVI's keys */
    TFT_KV_TOKEN,   /* a scale for each token, shared by a group of channels: KIVI's values, SKVQ */
    TFT_KV_MIXED,   /* as CHANNEL, and the channels have 1 to 4 bits each, by their importance */
};

/* Layers that follow each other. */
struct tft_kv_run {
    uint32_t layers; /* TFT_KV_REST: all others */
    float bits;      /* of a number: 1, 1.5 (three levels), 2, 3, 4 or 8; MIXED: on average, 1 to 4;
                        16: f16 */
};
#define TFT_KV_REST UINT32_MAX
enum { TFT_KV_RUNS = 128 };

/* Keys, or values. */
struct tft_kv_side {
    enum tft_kv_axis axis;
    struct tft_kv_run run[TFT_KV_RUNS]; /* up to one of TFT_KV_REST. AsymKV, section 4: two of
                                           them */
};

/* Which of a sequence's tokens stay f16, apart from the prefix and the first `sinks`. */
enum tft_kv_retain {
    TFT_KV_FILL,   /* up to `window` of the newest; then all of them are given up: KIVI */
    TFT_KV_WINDOW, /* the newest `window`, and up to a block more: SKVQ */
    TFT_KV_LOG2,   /* 2 to 3 times `window`, the older the sparser: LogQuant, algorithm 1 */
};

enum tft_kv_clip {
    TFT_KV_WHOLE,  /* a group's range is that of its numbers, */
    TFT_KV_CENTRE, /* or the part of it that loses least, towards its middle, */
    TFT_KV_ZERO,   /* or towards zero: SKVQ, eq. 2; */
    TFT_KV_CALIBRATED, /* or the same by a part that the file has for each layer, head and group:
                          eq. 3 */
};

struct tft_kv_policy {
    enum tft_num num; /* of tokens that have no codes: F16, or F32 if no token ever has */
    bool coded;
    enum tft_kv_retain retain;
    bool partial; /* LOG2: values of kept tokens older than the newest `window` are rounded as if
                     they had not been kept: LogQuant, 3.4 */
    uint32_t window, sinks;
    uint32_t prefill; /* nothing is given up of so many first tokens until another one comes: SKVQ,
                         3.2 */
    uint32_t keep;    /* tokens that a session's filter may name, which stay f16 too: SKVQ, 3.2 and
                         algorithm 1 */
    uint32_t group; /* tokens or channels that share a scale */
    bool f8;        /* scales are E4M3; else f16 */
    enum tft_kv_clip clip;
    bool reorder; /* keys' channels are in the order that the file has for them: SKVQ, eq. 1. Those
                     of values are in the weights. */
    struct tft_kv_side k, v;
};

enum { TFT_KV_TEXT = 2048 }; /* bytes of a text that is a cache, with its NUL: any longer one is
                                refused */

/* text: as in tft_session_opts; NULL is "f16". TFT_ERR_ARG with a line that names what is wrong. */
enum tft_status tft_kv_parse(struct tft_kv_policy *p, const char *text, struct tft_error *err);

/* Whether what a file was calibrated for serves a cache with p->reorder or p->clip CALIBRATED. */
bool tft_kv_calibrated_for(const struct tft_kv_policy *file, const struct tft_kv_policy *p,
                           uint32_t n_layer);

/* Tokens that are quantized together: a multiple of 16 that divides TFT_CODED_SPAN. */
uint32_t tft_kv_block(const struct tft_kv_policy *p);

static inline float tft_kv_bits(const struct tft_kv_side *s, uint32_t layer)
{
    const struct tft_kv_run *r = s->run;
    for (; layer >= r->layers; r++)
        layer -= r->layers;
    return r->bits;
}

/* How that many bits are held: an enum tft_bits, of mixed channels the most that one has, or
   TFT_KV_BITS_F16. */
unsigned tft_kv_held(const struct tft_kv_side *s, uint32_t layer);

#endif
