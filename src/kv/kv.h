/*
 * The interface of a session's KV cache. docs/cache.md has the policies, docs/glossary.md the
 * terms.
 *
 * Keys and values of a token are floats or bytes in a slot, or codes in a block of tokens. A
 * quantization quantizes tokens: it moves them from slots to blocks, and attention still reads
 * them. policy.h has the formats, retain.h the place of each token. Format and place depend on
 * positions alone, so results do not depend on how the tokens were split into passes.
 *
 * Keys and values are two sides, each with its own slots, blocks and quantizations. Usually both
 * sides quantize the same tokens, so slot i of the keys and slot i of the values belong to the
 * same token. If keys and values are *apart* (tft_kv_split), the slots differ, and the plan names
 * the token of each slot and of each place in a block.
 *
 * A pass:
 *
 *      tft_kv_plan      once, on one thread: the chunks of the pass, the quantizations before each
 *      tft_kv_quantize  carries out quantizations } for each layer and head, by the backend with
 *      tft_kv_store_..  stores a new token       } the layer: here the CPU, a GPU by its kernels
 *      tft_kv_keys ..   attention reads slots and blocks
 *      tft_kv_commit    once, after the pass has succeeded
 *
 * Letters for shapes are as in model.h: G = n_head_kv, E = head_dim.
 */
#ifndef TFT_KV_H
#define TFT_KV_H

#include <string.h>

#include "base/arena.h"
#include "policy.h"
#include "retain.h"
#include "turn.h"

/*
 * Attention walks slots and blocks in spans of this many tokens and merges the spans in order:
 * slots first, then blocks. The size is part of the numerics contract: another size gives other
 * bits.
 */
enum { TFT_SPAN = 256 };
_Static_assert((int)TFT_SPAN == (int)TFT_CODED_SPAN, "kernels take a span of codes at once");
_Static_assert(TFT_SPAN % TFT_KEY_PANEL == 0, "a span of slots is whole panels of keys");

/* Slots in whole panels of keys. */
static inline uint32_t tft_kv_panels(uint32_t slots)
{
    return (slots + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL * TFT_KEY_PANEL;
}

static inline uint32_t tft_spans(uint32_t tokens)
{
    return (tokens + TFT_SPAN - 1) / TFT_SPAN;
}

/* The KV heads of a layer: G and E. */
struct tft_kv_heads {
    uint32_t n, dim;
};

/* The model, as far as the cache needs it. */
struct tft_kv_shape {
    uint32_t n_layer;             /* of the model */
    uint32_t n_host;              /* the first layers: their keys and values are in this cache's
                                     memory. Other layers' are on a device */
    uint32_t n_head_kv, head_dim; /* G, E; the largest of any layer, if layers differ */
    const struct tft_kv_heads *heads; /* [n_layer] G and E of each layer; NULL: the same in all
                                         layers */
    uint32_t n_prefix;            /* tokens of the model's prefix: the first slots */
    const uint32_t *window;       /* [n_layer] as tft_layer.window; NULL: no windows */
    /* One layer after the other, each with its own G and E: */
    const float *key_importance;  /* [n_layer, G, E], for MIXED keys; else NULL */
    const int32_t *key_order;     /* [n_layer, G, E], for a policy with `reorder`; else NULL */
    const float *clip[2];         /* [n_layer, G, groups] of keys and of values, for CALIBRATED
                                     clips; else NULL */
    const float *fisher[TFT_KV_SIDES]; /* [n_layer, G, rows, E] tables of fisher.h, for FISHER keys
                                          and values; else NULL */
    const float *fisher_all[TFT_KV_SIDES]; /* those of all heads of the model, if a process has a
                                              part of them; else NULL */
    uint32_t n_head_all;                   /* G of these */
    uint32_t n_rot;                    /* numbers of a key that RoPE turns, for FISHER keys */
    bool rope_halves;                  /* as in struct tft_turns, as is: */
    const double *rope_freq;           /* [n_rot / 2] */
};

/*
 * The memory layout of a layer's blocks. A block of a head's keys is a record; a block of values
 * is another:
 *
 *      codes       as in codes.h; or, with 16 bits in the policy, f16 as in slots
 *      scales      f16: [n] scale, [n] mid. E4M3: two bytes, the exponents e with scales, and mids,
 *                  multiples of 2^e, then [n] scale, [n] mid
 *
 * The records of a layer are contiguous: [head][block].
 */
struct tft_kv_layer {
    size_t k_at, v_at;       /* the first byte of the layer's records. A device's records come
                                after the host's */
    size_t k_bytes, v_bytes; /* of a record */
    size_t k_codes, v_codes; /* bytes of the codes in a record */
    unsigned k_bits, v_bits; /* enum tft_bits, or TFT_KV_BITS_F16 */
    uint32_t mixed;          /* MIXED keys: the sum of the bits of a panel's quads; else 0 */
    uint16_t (*quads)[TFT_BITS_COUNT]; /* [G] quads of the keys' channels by their bits */
    uint16_t *channel;       /* [G, E] the order of a key's channels in blocks: by bits, or the
                                file's order. NULL: unchanged */
    const float *clip[2];    /* [G, groups] of keys and of values, for CALIBRATED clips */
    struct tft_fisher_head *fisher[TFT_KV_SIDES]; /* [G] for FISHER keys and values, with the places
                                                     and sizes of records; else NULL */
    bool still; /* RoPE does not turn the keys of this layer */
};

/*
 * The slots of a layer, in a model with different windows or heads by layer. No token attends to
 * tokens before its layer's window, so the layer has slots for its window, for the tokens of a
 * pass, and for rewinds. The slots form a ring of whole spans: the token at position s is in slot
 * s % slots. When a token attends, the ring still has all tokens of the window's first span, even
 * tokens before the window. So attention computes the same numbers as with a slot for each token.
 * A ring is floats under every policy, and quantizes nothing. A layer without a window has the
 * policy's slots and blocks.
 */
struct tft_kv_ring {
    struct tft_kv_heads heads;
    uint32_t window;              /* 0: no window */
    uint32_t slots[TFT_KV_SIDES]; /* slots of a head: a multiple of 16, and of TFT_SPAN if less
                                     than max_tokens */
    size_t at[TFT_KV_SIDES]; /* the layer's first byte in kv.k and in kv.v */
};

/* The least number of tokens that a rewind can take back, if a layer has a window. */
enum { TFT_KV_BACK = 256 };

/* One quantization of the keys, or of the values: the same for all heads and layers. */
struct tft_kv_quantization {
    const uint32_t *order;    /* [n_blocks * block + stay] slots: first the leaving ones, block by
                                 block, then the staying ones */
    uint32_t first, n_blocks; /* fills blocks first .. first + n_blocks - 1 */
    uint32_t base, stay;      /* staying slots move to base .. base + stay - 1 */
};

/* The place of a chunk's keys, or values. */
struct tft_kv_place {
    uint32_t slot;   /* of the chunk's first token; counts the prefix's slots */
    uint32_t blocks; /* visible to the chunk's tokens */
    bool quantizes;     /* carry out `quantization` before storing the tokens */
    struct tft_kv_quantization quantization;
    const uint32_t *owner; /* [slot + tokens of the chunk] the token of each slot, if keys and
                              values are apart; else NULL */
};

/* Tokens from .. to - 1 of a pass, which see the same blocks. */
struct tft_kv_chunk {
    uint32_t from, to;
    uint32_t position; /* of token `from`, counted from the start of the prefix; also the token's
                          slot in a ring */
    struct tft_kv_place side[TFT_KV_SIDES]; /* the same, unless apart */
};

static inline bool tft_kv_chunk_quantizes(const struct tft_kv_chunk *c)
{
    return c->side[TFT_KV_K].quantizes || c->side[TFT_KV_V].quantizes;
}

struct tft_kv_plan {
    uint32_t n_chunk, n_token;
    const struct tft_kv_chunk *chunk;        /* [n_chunk] */
    uint32_t n_order;                        /* slots in all quantizations' orders, consecutive in
                                                kv->order */
    struct tft_retained after[TFT_KV_SIDES]; /* the places of tokens after the pass */
    const uint32_t *owner[TFT_KV_SIDES];     /* the slots' tokens then: as kv->slot_owner */
};

/* A thread's workspace for quantizations. */
struct tft_kv_scratch {
    float *x;                  /* a block of floats, [E, block] or [block, E padded to 16] */
    uint8_t *code;             /* the block's codes */
    float *half, *scale, *mid; /* the codes' scales */
    char *rows;                /* [staying slots, tft_kv_row_bytes] */
};

struct tft_kv {
    struct tft_kv_policy policy;
    enum tft_num num; /* of slots that are floats: F16 or F32 */
    uint32_t n_layer, n_host, n_head_kv, head_dim, n_prefix;
    uint32_t block;    /* tokens of a block */
    uint32_t capacity[TFT_KV_SIDES]; /* slots, including the prefix; a multiple of 16 */
    uint32_t most_slots;             /* the most slots of a head in any layer and side */
    uint32_t stay[TFT_KV_SIDES];     /* the most slots in use after a quantization, without the
                                        prefix */
    uint32_t n_blocks;               /* the capacity in blocks */
    uint32_t max_tokens;             /* the capacity in tokens, including the prefix */

    /* State: a function of the tokens' positions. */
    struct tft_retained at[TFT_KV_SIDES]; /* the places of tokens */
    uint32_t held;    /* tokens in the cache, without the prefix */
    uint32_t dropped; /* tokens that slides have dropped, after the sinks */
    uint32_t written; /* the most slots ever written since the cache was empty, in whole panels; a
                         ring has lost the tokens a ring's length earlier */
    uint32_t frozen;  /* tokens held at the last quantization. The cache can rewind only to more
                         tokens */

    /* If tft_kv_notes_owners: the token of each slot, and of each place in a block. Token numbers
       start at 0 with the prefix. Entries after the slots and blocks in use are undefined. The
       values' arrays are NULL unless keys and values are apart. */
    uint32_t *slot_owner[TFT_KV_SIDES];  /* [capacity] */
    uint32_t *block_owner[TFT_KV_SIDES]; /* [n_blocks, block] */

    uint8_t *seen; /* [max_tokens bits] workspace for checking the owners of a saved cache; NULL
                      without owners */

    /* Memory of the host's layers, all in the arena. */
    char *k;     /* [n_host, G, K capacity / 16, E, 16] slots: keys in panels, see kernels.h */
    char *v;     /* [n_host, G, V capacity, E] slots: values. Slots of bytes: struct tft_kv_int8 */
    struct tft_kv_ring *ring; /* [n_layer] the slots of each layer, instead of `capacity`; NULL if
                                 all layers are alike */
    float *key_offset; /* [n_layer, G, E] subtracted from keys before they become bytes, on a
                          device too; NULL: nothing is */
    char *codes; /* records of blocks */
    struct tft_kv_layer *layer; /* [n_layer] NULL if the policy quantizes nothing; zeros for a layer
                                   with a ring */
    struct tft_turns turns;         /* of FISHER keys in blocks */
    struct tft_kv_scratch *scratch; /* [n_threads] NULL if the policy quantizes nothing */

    struct tft_kv_plan plan;
    struct tft_kv_chunk *chunk; /* [max_chunks] */
    uint32_t max_chunks;        /* of a pass */
    uint32_t *order;            /* [n_order] of all quantizations of a pass */
    uint32_t n_order;
    uint32_t *owner;            /* [n_owner] the slots' owners after each quantization; NULL: no
                                   owners */
    uint32_t n_owner;
    uint32_t *other;            /* [2, slots of the larger side] workspace of tft_retain_quantize */
};

/* Whether a layer has a window, and so a ring of slots. */
static inline bool tft_kv_has_ring(const struct tft_kv *kv, uint32_t layer)
{
    return kv->ring && kv->ring[layer].window;
}

/* Whether the keys of a layer's blocks are coded before RoPE, and turned when read. */
static inline bool tft_kv_turns(const struct tft_kv *kv, uint32_t layer)
{
    return tft_kv_is_fisher(&kv->policy) && kv->turns.n_rot && !kv->layer[layer].still;
}

/* Whether the slots of a layer are bytes. */
static inline bool tft_kv_in_bytes(const struct tft_kv *kv, uint32_t layer)
{
    return kv->policy.i8 && !tft_kv_has_ring(kv, layer);
}

/* The place of a chunk's keys, or values, in a layer. */
static inline struct tft_kv_place tft_kv_place_in(const struct tft_kv *kv, uint32_t layer,
                                                  const struct tft_kv_chunk *c,
                                                  enum tft_kv_which which)
{
    return tft_kv_has_ring(kv, layer) ? (struct tft_kv_place){.slot = c->position}
                                      : c->side[which];
}

/* --------------------------------------------------------------------------------------- memory */

/* The number and size of a layer's KV heads. */
static inline struct tft_kv_heads tft_kv_heads(const struct tft_kv *kv, uint32_t layer)
{
    return kv->ring ? kv->ring[layer].heads : (struct tft_kv_heads){kv->n_head_kv, kv->head_dim};
}

/* Takes the memory of a cache for `capacity` tokens from the arena, or counts the bytes. A pass has
   at most n_batch tokens; a slide drops `slide` tokens. */
void tft_kv_layout(struct tft_kv *kv, struct tft_arena *a, const struct tft_kv_shape *shape,
                   const struct tft_kv_policy *policy, uint32_t capacity, uint32_t n_batch,
                   uint32_t slide, int n_threads);

/* Call once, after kv has memory: distributes the bits of mixed keys, and reads the file's order of
   channels and clips. */
void tft_kv_open(struct tft_kv *kv, const struct tft_kv_shape *shape);

/* Bytes in the layers without a window; layers with a window have rings under any policy.
   tft_kv_token_bytes: of a quantized token, rounded up, or of a slot if the policy quantizes
   nothing. tft_kv_block_bytes: of a block, over all heads. */
uint64_t tft_kv_token_bytes(const struct tft_kv_shape *shape, const struct tft_kv_policy *policy);

/* Bytes of the `dim` numbers of a key or value in a slot; and of a head's slots, including the
   scales and sums of int8. floats: as in a layer with a window. */
static inline size_t tft_kv_number_bytes(const struct tft_kv_policy *policy, bool floats,
                                         uint32_t dim)
{
    return policy->i8 && !floats ? tft_panel_cols(dim) : dim * tft_num_bytes(policy->num);
}

size_t tft_kv_slots_bytes(const struct tft_kv_policy *policy, bool floats, uint32_t dim,
                          enum tft_kv_which which, uint32_t slots);
uint64_t tft_kv_block_bytes(const struct tft_kv_shape *shape, const struct tft_kv_policy *policy);

/* Bytes of the slots, blocks and exact tokens of a session of `capacity` tokens, with block_bytes
   for each block, without the prefix. */
uint64_t tft_kv_held_bytes(const struct tft_kv_shape *shape, const struct tft_kv_policy *policy,
                           uint32_t capacity, uint64_t block_bytes);

/* Whether a cache can slide. The first blocks must have the same tokens on both sides, so keys and
   values that are apart cannot slide if a side is LOG2. */
bool tft_kv_slides(const struct tft_kv_policy *policy);

/* The number of tokens that a slide of a full cache drops: an eighth of the capacity, in whole
   blocks or panels; 0 if the capacity is too small to slide. */
uint32_t tft_kv_slide_step(const struct tft_kv_policy *policy, uint32_t capacity);

/* --------------------------------------------------------------------------------------- a pass */

/* Plans a pass of n <= n_batch tokens in kv->plan. The state does not change. */
void tft_kv_plan(struct tft_kv *kv, uint32_t n);

/* The most tokens of a pass that all see the same blocks: its plan has one chunk. */
uint32_t tft_kv_room(const struct tft_kv *kv);

/* A plan for n tokens that quantizes nothing and stores the first token in `slot`, for tools that
   run single layers. The plan refers to *chunk. */
struct tft_kv_plan tft_kv_plain_plan(struct tft_kv_chunk *chunk, uint32_t slot, uint32_t n);

/* Ends the planned pass: its tokens are in the cache. */
void tft_kv_commit(struct tft_kv *kv);

/* Whether the cache can rewind to the first `pos` tokens. If false, the same holds for every
   smaller `pos` except 0. */
bool tft_kv_keeps(const struct tft_kv *kv, uint32_t pos);

/* Rewinds to the first `pos` tokens, or to none if that is impossible: read kv->held. With rings, a
   rewind to none also requires storing the prefix again. */
void tft_kv_rewind(struct tft_kv *kv, uint32_t pos);

/* --------------------------------------------------------------------------------------- slides */

/* The n tokens that a slide drops from every head: the first `blocks` blocks, or the slots
   [slot, slot + n). The later slots, up to `used`, move down. */
struct tft_kv_drop {
    uint32_t n, blocks;
    uint32_t slot, used;
};

/* tft_kv_drop_of: the drop of n tokens. tft_kv_drop drops them from the host's layers, and then
   tft_kv_commit_drop from the state. */
struct tft_kv_drop tft_kv_drop_of(const struct tft_kv *kv, uint32_t n);
void tft_kv_drop(struct tft_kv *kv, const struct tft_kv_drop *d);

/* The tokens of that drop, for a caller that commits the drop next: [n] owners, in the order of
   positions. NULL: the oldest tokens after the sinks, except named tokens. */
const uint32_t *tft_kv_dropped(struct tft_kv *kv, uint32_t n);

/* Whether the drop takes `token`, an owner after the sinks. gone: the number of dropped tokens
   before `token`, fewer than the drop has. dropped: from tft_kv_dropped. */
static inline bool tft_kv_drops(const struct tft_kv *kv, const uint32_t *dropped, uint32_t gone,
                                uint32_t token)
{
    const bool *is_named = kv->at[TFT_KV_K].is_named;
    return dropped ? dropped[gone] == token : !(is_named && is_named[token - kv->n_prefix]);
}

void tft_kv_commit_drop(struct tft_kv *kv, uint32_t n);

/* Drops from one head: n slots from `from` on, n a multiple of 16; the first n of `blocks`. */
void tft_kv_drop_slots(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from,
                       uint32_t n, uint32_t used);
void tft_kv_drop_blocks(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t n);

/* Drops the n tokens of tft_kv_dropped from a head's ring, in a layer with a window. The other
   tokens move down. */
void tft_kv_drop_from_ring(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                           const uint32_t *dropped, uint32_t n);

/* ---------------------------------------------------------------------------- the host's layers */

/* Stores a head's key, or value, [E], in a slot. The first slot of a panel of keys clears the
   panel, so no kernel reads unwritten memory. */
void tft_kv_store_key(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                      uint32_t head, uint32_t slot, const float *k);
void tft_kv_store_value(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                        uint32_t head, uint32_t slot, const float *v);

/* Carries out a quantization of keys or values in a head, by thread tid. */
void tft_kv_quantize(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                     uint32_t head, enum tft_kv_which which, const struct tft_kv_quantization *e,
                     int tid);

/* Reads a key, or value, of a slot as floats, x: [E], in a cache with blocks. */
void tft_kv_read(const struct tft_kv *kv, uint32_t layer, uint32_t head, enum tft_kv_which which,
                 uint32_t slot, float *x);

/* Takes keys, or values, of n slots of a head, and gives them to the slots from `to` on. rows:
   [n, tft_kv_row_bytes], a workspace */
void tft_kv_move(const struct tft_kv *kv, uint32_t layer, uint32_t head, enum tft_kv_which which,
                 uint32_t to, const uint32_t *slot, uint32_t n, char *rows);

/* Bytes of a row of tft_kv_move, of a head of `dim` channels. */
static inline size_t tft_kv_row_bytes(const struct tft_kv *kv, uint32_t dim)
{
    return kv->policy.i8 ? sizeof(float) + tft_panel_cols(dim) : dim * sizeof(uint16_t);
}

/* The keys of a head from slot `from` on, a multiple of 16; the head's values from any slot on. */
void *tft_kv_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from);
void *tft_kv_values(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from);

/*
 * Slots of bytes. A number is an int8 of -127 .. 127 times the scale of its slot, a float: the
 * largest magnitude of the head's key, or value, becomes 127. With a scale of 0 all numbers are 0.
 * Keys and values are matrices of int8 in panels (panel.h), so attention multiplies bytes:
 *
 *      keys      a row for each slot, a column for each channel, E padded to 16
 *      values    for each span of slots: a row for each channel, a column for each slot. The last
 *                span has as many columns as there are slots left
 *
 * A head has its bytes, the scales of its slots, and the sums of its rows. The first slot of a
 * panel of keys, or of a span of values, clears the whole panel or span.
 *
 * With key offsets, a key is rounded after the subtraction of a vector, the same for all keys of a
 * head. All scores of a query move by one number then, which leaves the probabilities alone. Blocks
 * have whole keys, so with blocks that number is added again.
 */
struct tft_kv_int8 {
    int8_t *data;
    float *scale; /* [slots] */
    int32_t *sum; /* of the rows of `data`: keys [slots]; values [spans, E padded to 16] */
};

/* The slots of the span of slot `slot`. */
static inline uint32_t tft_kv_span_slots(const struct tft_kv *kv, uint32_t slot)
{
    uint32_t left = kv->capacity[TFT_KV_V] - slot / TFT_SPAN * TFT_SPAN;
    return left < TFT_SPAN ? left : TFT_SPAN;
}

/* The slots of a head from `from` on: a multiple of 16 for keys, of TFT_SPAN for values. */
struct tft_kv_int8 tft_kv_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                               enum tft_kv_which which, uint32_t from);

/* The offset of a head's keys, [E]; NULL: none. */
static inline float *tft_kv_key_offset(const struct tft_kv *kv, uint32_t layer, uint32_t head)
{
    return kv->key_offset ? kv->key_offset + ((size_t)layer * kv->n_head_kv + head) * kv->head_dim
                          : NULL;
}

/* The most channels of a head that can have an offset. */
enum { TFT_KV_OFFSET_DIM = 256 };

/* The quantization of the numbers x, [n], to bytes with zero point 128: the largest magnitude
   becomes 127. If the magnitude is infinite or less than TFT_FOLD_LEAST, the scale is 0. */
struct tft_affine tft_kv_affine(const struct tft_kernels *kern, const float *x, size_t n);

/* Whether the bytes of such a quantization are of a NaN, or of an infinity: no number has the byte
   0. */
static inline bool tft_kv_has_nan(const uint8_t *bytes, size_t n) { return memchr(bytes, 0, n); }

/* For tft_kv_store_key and _value: stores x, [E]. If x has a NaN or an infinity, the scale of the
   slot's key becomes NaN, so that attention has no numbers either: a value comes after its key. */
void tft_kv_store_int8(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                       uint32_t head, enum tft_kv_which which, uint32_t slot, const float *x);

/* Takes the key, or value, of a slot to a row, [tft_kv_row_bytes], and gives a row to a slot, which
   must be written already. */
void tft_kv_take_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                      enum tft_kv_which which, uint32_t slot, char *row);
void tft_kv_give_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                      enum tft_kv_which which, uint32_t slot, const char *row);

/* x: [E] the key, or value, of a slot of bytes as floats, with the key's offset. */
void tft_kv_read_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                      enum tft_kv_which which, uint32_t slot, float *x);

/* Copies a token of a head from one slot to another slot, which must be written already. */
void tft_kv_move_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t to,
                      uint32_t from);

/* Block b as kernels take it. room: [2 tft_kv_scales] gets the block's scales as floats. */
struct tft_coded tft_kv_key_codes(const struct tft_kv *kv, const struct tft_kernels *kern,
                                  uint32_t layer, uint32_t head, uint32_t b, float *room);
struct tft_coded tft_kv_value_codes(const struct tft_kv *kv, const struct tft_kernels *kern,
                                    uint32_t layer, uint32_t head, uint32_t b, float *room);

/* A block of 16 bits: keys [block / 16, E, 16], values [block, E]. */
const uint16_t *tft_kv_f16_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b);
const uint16_t *tft_kv_f16_values(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                                  uint32_t b);

/* The start of the record of block b, and the size of a record; FISHER: of its codes. */
char *tft_kv_key_record(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b);
char *tft_kv_value_record(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b);
size_t tft_kv_record_bytes(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                           enum tft_kv_which which);

/* The number of scales, and of mids, of a block of keys or values of a head of `dim` channels;
   FISHER: of gains. */
size_t tft_kv_scales(const struct tft_kv *kv, const struct tft_kv_side *side, uint32_t dim);

/* `dim` channels of a head rounded up to whole panels; their groups that share a scale. */
static inline size_t tft_kv_padded_dim(uint32_t dim)
{
    return (dim + TFT_PANEL - 1) / TFT_PANEL * TFT_PANEL;
}

static inline uint32_t tft_kv_groups(const struct tft_kv *kv, uint32_t dim)
{
    return (dim + kv->policy.group - 1) / kv->policy.group;
}

/* The candidate clips of a group with 2 levels, 3 levels, and more: parts of the group's range. For
   32 numbers of a Gaussian the best is 0.4 with 2 levels, 0.62 with 3 and 0.74 with 4; for 128
   numbers, 0.32, 0.48 and 0.6. The lists are equally long, since a kernel may fit groups with
   different levels together. */
enum { TFT_KV_N_CLIPS = 6 };
#define TFT_KV_CLIPS {1, 0.55f, 0.44f, 0.36f, 0.28f, 0.2f}, \
                     {1, 0.8f, 0.68f, 0.56f, 0.46f, 0.36f}, \
                     {1, 0.92f, 0.84f, 0.76f, 0.68f, 0.6f}

/* The number of candidate clips of a group: one if the range is whole, or calibrated. */
static inline size_t tft_kv_clips(const struct tft_kv_policy *p)
{
    return p->clip == TFT_KV_CENTRE || p->clip == TFT_KV_ZERO ? TFT_KV_N_CLIPS : 1;
}

static inline bool tft_kv_clips_to_zero(const struct tft_kv_policy *p)
{
    return p->clip == TFT_KV_ZERO || p->clip == TFT_KV_CALIBRATED;
}

#endif
