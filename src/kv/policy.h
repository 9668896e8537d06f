/*
 * A cache policy: how a session holds keys and values. The knobs are those that the papers' caches
 * are made of; a preset is a row of knobs. tuffet.h says how a policy is written, docs/kv-cache.md
 * explains presets and knobs, docs/glossary.md the terms.
 */
#ifndef TFT_KV_POLICY_H
#define TFT_KV_POLICY_H

#include "simd/codes.h"
#include "simd/kernels.h"
#include "tuffet.h"

/* The first tokens of a sequence that slides stay, because attention rests on them: StreamingLLM
   (Xiao et al. 2023), section 3.2. */
enum { TFT_KV_SLIDE_SINKS = 4 };

/* How a number of a full block is held: an enum tft_bits, or this for f16. */
enum { TFT_KV_BITS_F16 = TFT_BITS_COUNT };

enum tft_kv_axis {
    TFT_KV_CHANNEL, /* a scale for each channel, shared by the tokens of a block: KIVI's keys */
    TFT_KV_TOKEN,   /* a scale for each token, shared by a group of channels: KIVI's values, SKVQ */
    TFT_KV_MIXED,   /* as CHANNEL, with 1 to 4 bits for each channel, by the channel's importance */
};

/* A run of consecutive layers with the same bits. */
struct tft_kv_run {
    uint32_t layers; /* TFT_KV_REST: all layers that are left */
    float bits;      /* 1, 1.5 (three levels), 2, 3, 4, 8 or 16 (f16); MIXED: the average, 1 to 4 */
};
#define TFT_KV_REST UINT32_MAX
enum { TFT_KV_RUNS = 128 };

/* Which tokens stay in slots, as floats, besides the prefix and the first `sinks`. */
enum tft_kv_retain {
    TFT_KV_FILL,   /* up to `window` tokens; then all of them are evicted: KIVI */
    TFT_KV_WINDOW, /* the newest `window` tokens, and up to a block more: SKVQ */
    TFT_KV_LOG2,   /* 2 to 3 times `window` tokens, the older the sparser: LogQuant, algorithm 1 */
    TFT_KV_ALL,    /* all tokens: f16, f32 and i8, which evict nothing */
};

#define TFT_KV_PROMPT UINT32_MAX

/* The knobs of the keys, or of the values. */
struct tft_kv_side {
    enum tft_kv_axis axis;
    enum tft_kv_retain retain; /* TFT_KV_ALL on both sides, or on neither */
    uint32_t window;
    struct tft_kv_run run[TFT_KV_RUNS]; /* the last one in use has TFT_KV_REST layers. AsymKV,
                                           section 4, has two runs */
};

/* Keys and values, where a function or an array is about one of them. */
enum tft_kv_which { TFT_KV_K, TFT_KV_V, TFT_KV_SIDES };

/* Which part of a group's range the codes cover. Numbers outside are clipped. */
enum tft_kv_clip {
    TFT_KV_WHOLE,      /* all of it */
    TFT_KV_CENTRE,     /* the part with the least squared error, cut towards the middle */
    TFT_KV_ZERO,       /* the part with the least squared error, cut towards 0: SKVQ, eq. 2 */
    TFT_KV_CALIBRATED, /* cut towards 0 by a factor from the file for each layer, head and group of
                          channels: SKVQ, eq. 3 */
};

struct tft_kv_policy {
    enum tft_num num; /* of slots: F16; or F32, for the policy "f32" alone */
    bool i8;          /* slots are bytes, but for those of layers with a window: "i8" alone */
    uint32_t sinks;   /* first tokens that are never evicted, nor dropped when a session slides */
    bool names_sinks; /* the text has `sinks`; without it a session that slides may keep some */
    uint32_t prefill; /* nothing is evicted before more than N tokens have come: SKVQ, 3.2; or
                         TFT_KV_PROMPT, until the program says where the prompt ends */
    uint32_t keep;    /* the most tokens that a session's filter may name, which then stay in slots:
                         SKVQ, section 3.2 and algorithm 1 */
    uint32_t group;   /* tokens, or channels, that share a scale */
    bool f8;          /* scales are E4M3; else f16 */
    enum tft_kv_clip clip;
    bool reorder;     /* keys' channels are in the order that the file has for them: SKVQ, eq. 1.
                         The order of the values' channels is in the weights */
    struct tft_kv_side k, v;
};

static inline const struct tft_kv_side *tft_kv_side(const struct tft_kv_policy *p,
                                                    enum tft_kv_which which)
{
    return which == TFT_KV_K ? &p->k : &p->v;
}

/* Bytes of the longest text of a policy, with its NUL. A longer one is refused. */
enum { TFT_KV_TEXT = 2048 };

/* Reads a policy as tft_session_opts describes it; NULL is "f16". TFT_ERR_ARG with a line that
   names what is wrong. */
enum tft_status tft_kv_parse(struct tft_kv_policy *p, const char *text, struct tft_error *err);

/* The same for the text of a model file: `residual` is `window`, and AsymKV's knobs go with every
   preset, as they did when older files were made. */
enum tft_status tft_kv_parse_stored(struct tft_kv_policy *p, const char *text,
                                    struct tft_error *err);

/* Whether tokens ever leave the slots for blocks of codes. */
static inline bool tft_kv_evicts(const struct tft_kv_policy *p)
{
    return p->k.retain != TFT_KV_ALL;
}

/* Whether keys and values are *apart*: they retain by different rules, so that the key of a token
   may be in a slot while its value is in a block, or the other way round. */
static inline bool tft_kv_apart(const struct tft_kv_policy *p)
{
    return p->k.retain != p->v.retain || p->k.window != p->v.window;
}

/* Whether the cache notes which token each place belongs to: where keys and values are apart, and
   where tokens are not evicted in the order in which they came. */
static inline bool tft_kv_notes_owners(const struct tft_kv_policy *p)
{
    return tft_kv_apart(p) || p->k.retain == TFT_KV_LOG2;
}

/* Sides that have evictions of their own: both, or the keys alone, which the values follow. */
static inline uint32_t tft_kv_planned_sides(const struct tft_kv_policy *p)
{
    return tft_kv_apart(p) ? TFT_KV_SIDES : 1;
}

/* Whether a file that was calibrated for the policy `file` serves a cache of policy `p` whose
   reorder or clip is calibrated. */
bool tft_kv_calibrated_for(const struct tft_kv_policy *file, const struct tft_kv_policy *p,
                           uint32_t n_layer);

/* Tokens that leave the cache's slots together, to be quantized or, where a session slides, to be
   dropped: a multiple of 16 that divides TFT_CODED_SPAN. */
uint32_t tft_kv_block(const struct tft_kv_policy *p);

/* Bits of a layer's keys or values. */
static inline float tft_kv_bits(const struct tft_kv_side *s, uint32_t layer)
{
    const struct tft_kv_run *r = s->run;
    for (; layer >= r->layers; r++)
        layer -= r->layers;
    return r->bits;
}

/* How these bits are held: an enum tft_bits, where channels are mixed the widest that a channel can
   have; or TFT_KV_BITS_F16. */
unsigned tft_kv_held(const struct tft_kv_side *s, uint32_t layer);

#endif
