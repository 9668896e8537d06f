/*
 * A cache policy: the formats of a session's keys and values. The knobs are the parts of the
 * papers' caches; a preset is a row of knobs. tuffet.h has the syntax of a policy, docs/cache.md
 * explains presets and knobs, docs/glossary.md the terms.
 */
#ifndef TFT_KV_POLICY_H
#define TFT_KV_POLICY_H

#include "simd/codes.h"
#include "simd/kernels.h"
#include "tuffet.h"

/* A sequence that slides keeps its first tokens, because attention rests on them: StreamingLLM
   (Xiao et al. 2023), section 3.2. */
enum { TFT_KV_SLIDE_SINKS = 4 };

/* The format of a number in a full block: an enum tft_bits, or this for f16. */
enum { TFT_KV_BITS_F16 = TFT_BITS_COUNT };

enum tft_kv_axis {
    TFT_KV_CHANNEL, /* a scale for each channel, shared by the tokens of a block: KIVI's keys */
    TFT_KV_TOKEN,   /* a scale for each token, shared by a group of channels: KIVI's values, SKVQ */
    TFT_KV_MIXED,   /* as CHANNEL, with 1 to 4 bits for each channel, by the channel's importance */
    TFT_KV_FISHER,  /* levels of the file, 0 to 8 bits for each channel by the cost of an error, and
                       a gain for each token: fisher.h. Keys and values both, or neither. FILL and
                       WINDOW alone, so blocks have tokens in the order of their positions */
};

/* A run of consecutive layers with the same bits. */
struct tft_kv_run {
    uint32_t layers; /* TFT_KV_REST: all other layers */
    float bits;      /* 1, 1.5 (three levels), 2, 3, 4, 8 or 16 (f16); MIXED: the average, 1 to 4;
                        FISHER: of all layers, keys and values, gains included, 0.25 to 4 */
};
#define TFT_KV_REST UINT32_MAX
enum { TFT_KV_RUNS = 128 };

/* The tokens that stay in slots, besides the prefix and the first `sinks`. */
enum tft_kv_retain {
    TFT_KV_FILL,   /* up to `window` tokens; then quantizes all `window`: KIVI */
    TFT_KV_WINDOW, /* the newest `window` tokens, and up to a block more: SKVQ */
    TFT_KV_LOG2,   /* 2 to 3 times `window` tokens, the older the sparser: LogQuant, algorithm 1 */
    TFT_KV_ALL,    /* all tokens: f16, f32 and i8 quantize nothing */
};

#define TFT_KV_PROMPT UINT32_MAX

/* The knobs of the keys, or of the values. */
struct tft_kv_side {
    enum tft_kv_axis axis;
    enum tft_kv_retain retain; /* TFT_KV_ALL on both sides, or on neither */
    uint32_t window;
    struct tft_kv_run run[TFT_KV_RUNS]; /* the last run in use has TFT_KV_REST layers. AsymKV,
                                           section 4, has two runs */
};

/* A side of the cache: keys or values. */
enum tft_kv_which { TFT_KV_K, TFT_KV_V, TFT_KV_SIDES };

/* The part of a group's range that the codes cover. Numbers outside are clipped. */
enum tft_kv_clip {
    TFT_KV_WHOLE,      /* all of it */
    TFT_KV_CENTRE,     /* the part with the least squared error, cut towards the middle */
    TFT_KV_ZERO,       /* the part with the least squared error, cut towards 0: SKVQ, eq. 2 */
    TFT_KV_CALIBRATED, /* cut towards 0 by a factor from the file for each layer, head and group of
                          channels: SKVQ, eq. 3 */
};

struct tft_kv_policy {
    enum tft_num num; /* of slots: F16; or F32, for the policy "f32" alone */
    bool i8;          /* slots are bytes, except in layers with a window: "i8", and slots=i8 with
                         blocks, unless keys and values are apart */
    uint32_t sinks;   /* first tokens, never quantized, and never dropped by a slide */
    bool names_sinks; /* the text has `sinks`; else a session that slides may keep some */
    uint32_t prefill; /* quantize nothing until the session exceeds N tokens: SKVQ, 3.2; or
                         TFT_KV_PROMPT, until the program sets the prompt's end */
    uint32_t keep;    /* the most tokens that a session's filter may name; named tokens stay in
                         slots: SKVQ, section 3.2 and algorithm 1 */
    uint32_t group;   /* tokens, or channels, that share a scale */
    bool f8;          /* scales are E4M3; else f16 */
    enum tft_kv_clip clip;
    bool reorder;     /* keys' channels are in the file's order: SKVQ, eq. 1. The order of the
                         values' channels is in the weights */
    struct tft_kv_side k, v;
};

static inline const struct tft_kv_side *tft_kv_side(const struct tft_kv_policy *p,
                                                    enum tft_kv_which which)
{
    return which == TFT_KV_K ? &p->k : &p->v;
}

/* Bytes of the longest text of a policy, with NUL. A longer text is refused. */
enum { TFT_KV_TEXT = 2048 };

/* Reads a policy in the syntax of tft_session_opts; NULL is "f16". TFT_ERR_ARG with a line that
   names the error. */
enum tft_status tft_kv_parse(struct tft_kv_policy *p, const char *text, struct tft_error *err);

/* The same for the text of a model file: `residual` is `window`, and AsymKV's knobs go with every
   preset, as they did when older files were made. */
enum tft_status tft_kv_parse_stored(struct tft_kv_policy *p, const char *text,
                                    struct tft_error *err);

/* Whether tokens ever leave the slots for blocks of codes. */
static inline bool tft_kv_quantizes(const struct tft_kv_policy *p)
{
    return p->k.retain != TFT_KV_ALL;
}

/* Whether keys and values are *apart*: they retain by different rules, so a token's key may be in a
   slot while its value is in a block, or the reverse. */
static inline bool tft_kv_split(const struct tft_kv_policy *p)
{
    return p->k.retain != p->v.retain || p->k.window != p->v.window;
}

/* Whether the cache records the token of each place: if keys and values are apart, or if tokens are
   not quantized in order. */
static inline bool tft_kv_notes_owners(const struct tft_kv_policy *p)
{
    return tft_kv_split(p) || p->k.retain == TFT_KV_LOG2;
}

/* The sides with their own quantizations: both; or the keys alone, and the values follow. */
static inline uint32_t tft_kv_planned_sides(const struct tft_kv_policy *p)
{
    return tft_kv_split(p) ? TFT_KV_SIDES : 1;
}

/* Whether a file calibrated for the policy `file` fits a cache of policy `p` with a calibrated
   reorder or clip. */
bool tft_kv_calibrated_for(const struct tft_kv_policy *file, const struct tft_kv_policy *p,
                           uint32_t n_layer);

/* Tokens that leave the cache's slots together, quantized or dropped by a slide: a multiple of 16
   that divides TFT_CODED_SPAN. */
uint32_t tft_kv_block(const struct tft_kv_policy *p);

/* Bits of a layer's keys or values. */
static inline float tft_kv_bits(const struct tft_kv_side *s, uint32_t layer)
{
    const struct tft_kv_run *r = s->run;
    for (; layer >= r->layers; r++)
        layer -= r->layers;
    return r->bits;
}

/* Whether keys and values are FISHER. */
static inline bool tft_kv_is_fisher(const struct tft_kv_policy *p)
{
    return p->k.axis == TFT_KV_FISHER;
}

/* The format of a layer's numbers: an enum tft_bits, with mixed channels the widest of a channel;
   or TFT_KV_BITS_F16. */
unsigned tft_kv_held(const struct tft_kv_side *s, uint32_t layer);

#endif
