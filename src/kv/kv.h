/*
 * The KV cache of a session: everything that the rest of tuffet needs of it. docs/kv-cache.md has
 * the policies, docs/glossary.md the terms.
 *
 * Keys and values of a token are stored in a slot, as floats or as bytes, or together with the
 * tokens of their block as codes. policy.h says which, retain.h where each token is. Both are
 * functions of positions alone, so the result of a token does not depend on how the tokens were
 * fed.
 *
 * Keys and values are two sides, each with slots, blocks and evictions of its own. Usually both
 * sides evict the same tokens, so that slot i of the keys and slot i of the values belong to the
 * same token. Where they are *apart* (tft_kv_apart) they do not, and the plan says which token each
 * slot, and each place in a block, belongs to.
 *
 * A pass goes like this:
 *
 *      tft_kv_plan     once, on one thread: the chunks of the pass and what is evicted before each
 *      tft_kv_evict    carries out an eviction } for each layer and head, by the backend that has
 *      tft_kv_store_.. stores a new token      } the layer: the CPU here, a GPU by its own kernels
 *      tft_kv_keys ..  attention reads slots and blocks
 *      tft_kv_commit   once, when the pass has succeeded
 *
 * Letters for shapes are those of model.h: G = n_head_kv, E = head_dim.
 */
#ifndef TFT_KV_H
#define TFT_KV_H

#include "base/arena.h"
#include "policy.h"
#include "retain.h"

/*
 * Attention walks slots and blocks in spans of this many tokens and merges the spans in their
 * order: slots first, then blocks. The size is part of the numerics contract: another one gives
 * other bits.
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

/* What a cache has to know of its model. */
struct tft_kv_shape {
    uint32_t n_layer;             /* of the model */
    uint32_t n_host;              /* the first layers: their keys and values are in this cache's
                                     memory. Those of the others are on a device */
    uint32_t n_head_kv, head_dim; /* G, E; the largest of any layer, where layers differ */
    const struct tft_kv_heads *heads; /* [n_layer] G and E of each layer; NULL: layers do not
                                         differ. If they do, the cache evicts nothing */
    uint32_t n_prefix;            /* tokens of the model's prefix: the first slots */
    const uint32_t *window;       /* [n_layer] as tft_block.window; NULL: no layer has one */
    const float *key_importance;  /* [n_layer, G, E], for MIXED keys; else NULL */
    const int32_t *key_order;     /* [n_layer, G, E], for a policy with `reorder`; else NULL */
    const float *clip[2];         /* [n_layer, G, groups] of keys and of values, for CALIBRATED
                                     clips; else NULL */
};

/*
 * How the blocks of a layer lie in memory. A block of keys of a head is a record, and so is a block
 * of values:
 *
 *      codes       as codes.h has them; or f16, as slots have them, where the policy says 16 bits
 *      scales      f16: [n] scale, [n] mid. E4M3: two bytes, the exponents of the powers of two
 *                  that scale and mid are multiples of, then [n] scale, [n] mid
 *
 * The records of a layer lie side by side: [head][block].
 */
struct tft_kv_layer {
    size_t k_at, v_at;       /* byte at which the layer's records begin. The records of a device's
                                layers come behind those of the host's */
    size_t k_bytes, v_bytes; /* of a record */
    size_t k_codes, v_codes; /* bytes of the codes in it */
    unsigned k_bits, v_bits; /* enum tft_bits, or TFT_KV_BITS_F16 */
    uint32_t mixed;          /* MIXED keys: the sum of bits over the quads of a panel; else 0 */
    uint16_t (*quads)[TFT_BITS_COUNT]; /* [G] quads of the keys' channels by their bits */
    uint8_t *channel;        /* [G, E] the order in which blocks have a key's channels: by their
                                bits, or the file's. NULL: as they come */
    const float *clip[2];    /* [G, groups] of keys and of values, for CALIBRATED clips */
};

/*
 * The slots of a layer in a model whose layers differ, in their windows or their heads. Tokens
 * before a layer's window are never seen again, so the layer has slots for its window, for the
 * tokens of a pass, and for rewinds. These slots are a ring: the token at position s is in slot
 * s % slots. A ring is a number of whole spans. When a token attends, the ring still has all tokens
 * of the first span, those before the window too. So attention computes the same numbers as with a
 * slot for each token. A ring is floats under every policy, and nothing in it is evicted. A layer
 * without a window has the policy's slots and blocks.
 */
struct tft_kv_ring {
    struct tft_kv_heads heads;
    uint32_t window;              /* 0: the layer has none */
    uint32_t slots[TFT_KV_SIDES]; /* slots of a head: a multiple of 16, and of TFT_SPAN if it is
                                     less than max_tokens */
    size_t at[TFT_KV_SIDES]; /* the layer's first byte in kv.k and in kv.v */
};

/* Tokens that can be taken back in place, at least, where a layer has a window. */
enum { TFT_KV_BACK = 256 };

/* What one eviction does to the keys, or to the values, of a head. It is the same for all heads and
   layers. */
struct tft_kv_eviction {
    const uint32_t *order;    /* [n_blocks * block + stay] slots: first those that leave, block by
                                 block, then those that stay */
    uint32_t first, n_blocks; /* blocks first .. first + n_blocks - 1 are filled */
    uint32_t base, stay;      /* those that stay move to slots base .. base + stay - 1 */
};

/* Where the keys, or the values, of a chunk are. */
struct tft_kv_place {
    uint32_t slot;   /* of the chunk's first token; the slots of the prefix are counted too */
    uint32_t blocks; /* that the chunk's tokens see */
    bool evicts;     /* before the tokens are stored `eviction` is carried out */
    struct tft_kv_eviction eviction;
    const uint32_t *owner; /* [slot + tokens of the chunk] apart: the token that each slot belongs
                              to; else NULL */
};

/* Tokens from .. to - 1 of a pass, which all see the same blocks. */
struct tft_kv_chunk {
    uint32_t from, to;
    uint32_t position; /* position of token `from`, counted from the start of the prefix: its slot
                          in a ring */
    struct tft_kv_place side[TFT_KV_SIDES]; /* the same, unless apart */
};

static inline bool tft_kv_chunk_evicts(const struct tft_kv_chunk *c)
{
    return c->side[TFT_KV_K].evicts || c->side[TFT_KV_V].evicts;
}

struct tft_kv_plan {
    uint32_t n_chunk, n_token;
    const struct tft_kv_chunk *chunk;        /* [n_chunk] */
    uint32_t n_order;                        /* slots in all evictions' orders, which lie in
                                                kv->order one after the other */
    struct tft_retained after[TFT_KV_SIDES]; /* where the tokens are when the pass is done */
    const uint32_t *owner[TFT_KV_SIDES];     /* and whose the slots are: as kv->slot_owner */
};

/* A thread's workspace for evictions. */
struct tft_kv_scratch {
    float *x;                  /* a block of floats, [E, block] or [block, E padded to 16] */
    uint8_t *code;             /* and its codes */
    float *half, *scale, *mid; /* and their scales */
    uint16_t *rows;            /* [slots that stay, E] */
};

struct tft_kv {
    struct tft_kv_policy policy;
    enum tft_num num; /* of slots that are floats: F16 or F32 */
    uint32_t n_layer, n_host, n_head_kv, head_dim, n_prefix;
    uint32_t block;    /* tokens of a block */
    uint32_t capacity[TFT_KV_SIDES]; /* slots, those of the prefix included; a multiple of 16 */
    uint32_t most_slots;             /* the most slots of a head in any layer, of keys or of
                                        values */
    uint32_t stay[TFT_KV_SIDES];     /* most slots in use, but for the prefix, once tokens have
                                        been evicted */
    uint32_t n_blocks;               /* blocks that there is room for */
    uint32_t max_tokens;             /* that there is room for, those of the prefix too */

    /* State: a function of the tokens' positions. */
    struct tft_retained at[TFT_KV_SIDES]; /* where the tokens are */
    uint32_t held;    /* tokens that the cache has, behind the prefix */
    uint32_t dropped; /* tokens that slides have dropped: they were behind the sinks */
    uint32_t written; /* slots that were ever written since the cache was empty, in whole panels: in
                         a ring, those a ring's length before are gone */
    uint32_t frozen;  /* tokens held at the last eviction. The cache cannot go back to as few or
                         fewer */

    /* tft_kv_notes_owners: the token that each slot, and each place in a block, belongs to. Tokens
       are counted from 0: those of the prefix first, then those held. Behind the slots and blocks
       in use there may be anything. The values' are NULL unless keys and values are apart. */
    uint32_t *slot_owner[TFT_KV_SIDES];  /* [capacity] */
    uint32_t *block_owner[TFT_KV_SIDES]; /* [n_blocks, block] */

    uint8_t *seen; /* [max_tokens bits] workspace for checking the owners of a saved cache; NULL if
                      they are not noted */

    /* Memory of the host's layers, all of it in the arena. */
    char *k;     /* [n_host, G, K capacity / 16, E, 16] slots: keys in panels, see kernels.h */
    char *v;     /* [n_host, G, V capacity, E] slots: values. Slots of bytes: struct tft_kv_int8 */
    struct tft_kv_ring *ring; /* [n_layer] the slots of each layer, instead of `capacity`; NULL in a
                                 model whose layers do not differ */
    char *codes; /* records of blocks */
    struct tft_kv_layer *layer; /* [n_layer] NULL if the policy evicts nothing; zeros for a layer
                                   with a ring */
    struct tft_kv_scratch *scratch; /* [n_threads] likewise */

    struct tft_kv_plan plan;
    struct tft_kv_chunk *chunk; /* [max_chunks] */
    uint32_t max_chunks;        /* of a pass */
    uint32_t *order;            /* [n_order] of all evictions of a pass */
    uint32_t n_order;
    uint32_t *owner;            /* [n_owner] the slots' owners after each eviction; NULL: they are
                                   not noted */
    uint32_t n_owner;
    uint32_t *other;            /* [2, slots of the larger side] workspace of tft_retain_evict */
};

/* Whether a layer has a window. Its slots are then a ring. */
static inline bool tft_kv_has_ring(const struct tft_kv *kv, uint32_t layer)
{
    return kv->ring && kv->ring[layer].window;
}

/* Whether the slots of a layer are bytes. */
static inline bool tft_kv_in_bytes(const struct tft_kv *kv, uint32_t layer)
{
    return kv->policy.i8 && !tft_kv_has_ring(kv, layer);
}

/* Where the keys, or the values, of a chunk are in a layer. */
static inline struct tft_kv_place tft_kv_place_in(const struct tft_kv *kv, uint32_t layer,
                                                  const struct tft_kv_chunk *c,
                                                  enum tft_kv_which which)
{
    return tft_kv_has_ring(kv, layer) ? (struct tft_kv_place){.slot = c->position}
                                      : c->side[which];
}

/* --------------------------------------------------------------------------------------- memory */

/* KV heads of a layer of the cache, and their size. */
static inline struct tft_kv_heads tft_kv_heads(const struct tft_kv *kv, uint32_t layer)
{
    return kv->ring ? kv->ring[layer].heads : (struct tft_kv_heads){kv->n_head_kv, kv->head_dim};
}

/* Takes all memory of a cache for `capacity` tokens from the arena, or counts it. No pass may have
   more than n_batch tokens; a slide drops `slide` tokens at once. */
void tft_kv_layout(struct tft_kv *kv, struct tft_arena *a, const struct tft_kv_shape *shape,
                   const struct tft_kv_policy *policy, uint32_t capacity, uint32_t n_batch,
                   uint32_t slide, int n_threads);

/* Once, when kv lies in memory: shares out the bits of mixed keys and takes in the file's order of
   channels and its clips. */
void tft_kv_open(struct tft_kv *kv, const struct tft_kv_shape *shape);

/* Bytes in the layers without a window; layers with one have rings, whatever the policy.
   tft_kv_token_bytes: of a token that has been quantized, rounded up, or of a slot if the policy
   evicts nothing. tft_kv_block_bytes: of a block, over all heads. */
uint64_t tft_kv_token_bytes(const struct tft_kv_shape *shape, const struct tft_kv_policy *policy);

/* Bytes of the numbers of a key or value of `dim` numbers in a slot; and of the slot, with what
   int8 needs besides. `floats`: as in a layer with a window. */
static inline size_t tft_kv_number_bytes(const struct tft_kv_policy *policy, bool floats,
                                         uint32_t dim)
{
    return policy->i8 && !floats ? tft_panel_cols(dim) : dim * tft_num_bytes(policy->num);
}

size_t tft_kv_slot_bytes(const struct tft_kv_policy *policy, bool floats, uint32_t dim,
                         enum tft_kv_which which);
uint64_t tft_kv_block_bytes(const struct tft_kv_shape *shape, const struct tft_kv_policy *policy);

/* Bytes of the slots and the blocks of a session of `capacity` tokens whose blocks take block_bytes
   each, without those of the prefix. */
uint64_t tft_kv_held_bytes(const struct tft_kv_shape *shape, const struct tft_kv_policy *policy,
                           uint32_t capacity, uint64_t block_bytes);

/* Whether a cache can slide. The first blocks must have the same tokens on both sides. So keys and
   values that are apart cannot slide if one of them is LOG2. */
bool tft_kv_slides(const struct tft_kv_policy *policy);

/* How many tokens a slide of a full cache drops, an eighth of the capacity in whole blocks or
   panels; 0 if the capacity is too small to slide. */
uint32_t tft_kv_slide_step(const struct tft_kv_policy *policy, uint32_t capacity);

/* --------------------------------------------------------------------------------------- a pass */

/* Plans a pass of n tokens, n <= n_batch: kv->plan. The state does not change. */
void tft_kv_plan(struct tft_kv *kv, uint32_t n);

/* The plan of a pass of n tokens that evicts nothing and whose first token goes to `slot`: for
   tools that run layers by themselves. The plan refers to *chunk. */
struct tft_kv_plan tft_kv_plain_plan(struct tft_kv_chunk *chunk, uint32_t slot, uint32_t n);

/* The planned pass is done: its tokens are in the cache. */
void tft_kv_commit(struct tft_kv *kv);

/* Whether the cache can go back to the first `pos` tokens. If it cannot, it cannot go back to fewer
   tokens either, until it is empty. */
bool tft_kv_keeps(const struct tft_kv *kv, uint32_t pos);

/* Goes back to the first `pos` tokens, or to none where that is not possible: kv->held tells. With
   rings, the prefix is to be stored again when there are none. */
void tft_kv_rewind(struct tft_kv *kv, uint32_t pos);

/* --------------------------------------------------------------------------------------- slides */

/* What a slide drops from every head: n tokens, which are the first `blocks` blocks, or the slots
   [slot, slot + n). The slots behind those, up to `used`, move down. */
struct tft_kv_drop {
    uint32_t n, blocks;
    uint32_t slot, used;
};

/* The drop of n tokens; carrying it out in the host's layers; and noting it in the state, when all
   layers have done so. */
struct tft_kv_drop tft_kv_drop_of(const struct tft_kv *kv, uint32_t n);
void tft_kv_drop(struct tft_kv *kv, const struct tft_kv_drop *d);

/* Which tokens that drop takes, for a caller that commits it next: [n] in the order of their
   positions, counted as owners are. NULL: the oldest ones behind the sinks, but for those named. */
const uint32_t *tft_kv_dropped(struct tft_kv *kv, uint32_t n);

/* Whether the drop takes `token`, an owner behind the sinks. gone: how many dropped tokens come
   before it, fewer than the drop has. dropped: as tft_kv_dropped returns it. */
static inline bool tft_kv_drops(const struct tft_kv *kv, const uint32_t *dropped, uint32_t gone,
                                uint32_t token)
{
    const bool *is_named = kv->at[TFT_KV_K].is_named;
    return dropped ? dropped[gone] == token : !(is_named && is_named[token - kv->n_prefix]);
}

void tft_kv_commit_drop(struct tft_kv *kv, uint32_t n);

/* The same for one head: n slots from `from` on, n a multiple of 16; the first n of `blocks`. */
void tft_kv_drop_slots(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from,
                       uint32_t n, uint32_t used);
void tft_kv_drop_blocks(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t n);

/* The same in a layer with a window: drops the n tokens of tft_kv_dropped from a head's ring. The
   tokens that stay move down. */
void tft_kv_drop_from_ring(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                           const uint32_t *dropped, uint32_t n);

/* ---------------------------------------------------------------------------- the host's layers */

/* Stores a head's key, or its value, [E], in a slot. The first slot of a panel of keys clears the
   panel, so that no kernel ever reads memory that was not written. */
void tft_kv_store_key(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                      uint32_t head, uint32_t slot, const float *k);
void tft_kv_store_value(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                        uint32_t head, uint32_t slot, const float *v);

/* Carries out an eviction of keys or values in a head, by thread tid. */
void tft_kv_evict(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                  uint32_t head, enum tft_kv_which which, const struct tft_kv_eviction *e, int tid);

/* The keys of a head from slot `from` on, a multiple of 16; its values from any slot on. */
void *tft_kv_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from);
void *tft_kv_values(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t from);

/*
 * Slots of bytes. A number is an int8 of -127 .. 127 times the scale of its slot, a float: the
 * largest magnitude of the head's key, or value, is 127. A scale of 0 stands for zeros. Keys and
 * values are matrices of int8 in panels (panel.h), so that attention is the product of bytes:
 *
 *      keys      a row for each slot, a column for each channel, E padded to 16
 *      values    for each span of slots: a row for each channel, a column for each slot
 *
 * A head has its bytes, the scales of its slots, and the sums of the rows. The first slot of a
 * panel of keys, or of a span of values, clears all of it.
 */
struct tft_kv_int8 {
    int8_t *data;
    float *scale; /* [slots] */
    int32_t *sum; /* of the rows of `data`: keys [slots]; values [spans, E padded to 16] */
};

/* The slots of a head from `from` on: a multiple of 16 for keys, of TFT_SPAN for values. */
struct tft_kv_int8 tft_kv_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                               enum tft_kv_which which, uint32_t from);

/* What makes bytes of the numbers x, [n], with the zero 128: the largest magnitude becomes 127. The
   scale is 0 if that is less than TFT_FOLD_LEAST, or infinite. */
struct tft_affine tft_kv_affine(const struct tft_kernels *kern, const float *x, size_t n);

/* For tft_kv_store_key and _value: stores x, [E]. */
void tft_kv_store_int8(const struct tft_kv *kv, const struct tft_kernels *kern, uint32_t layer,
                       uint32_t head, enum tft_kv_which which, uint32_t slot, const float *x);

/* Copies a token of a head from one slot to another one that was written before. */
void tft_kv_move_int8(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t to,
                      uint32_t from);

/* Block b as kernels take it. Its scales are widened into room: [2 tft_kv_scales]. */
struct tft_coded tft_kv_key_codes(const struct tft_kv *kv, const struct tft_kernels *kern,
                                  uint32_t layer, uint32_t head, uint32_t b, float *room);
struct tft_coded tft_kv_value_codes(const struct tft_kv *kv, const struct tft_kernels *kern,
                                    uint32_t layer, uint32_t head, uint32_t b, float *room);

/* A block of 16 bits: keys [block / 16, E, 16], values [block, E]. */
const uint16_t *tft_kv_f16_keys(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b);
const uint16_t *tft_kv_f16_values(const struct tft_kv *kv, uint32_t layer, uint32_t head,
                                  uint32_t b);

/* Where the record of block b begins. */
char *tft_kv_key_record(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b);
char *tft_kv_value_record(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t b);

/* Scales of a block of keys or values; there are as many mids. */
size_t tft_kv_scales(const struct tft_kv *kv, const struct tft_kv_side *side);

/* Channels of a head rounded up to whole panels; groups of channels that share a scale. */
static inline size_t tft_kv_padded_dim(const struct tft_kv *kv)
{
    return (kv->head_dim + TFT_PANEL - 1) / TFT_PANEL * TFT_PANEL;
}

static inline uint32_t tft_kv_groups(const struct tft_kv *kv)
{
    return (kv->head_dim + kv->policy.group - 1) / kv->policy.group;
}

/* The parts of its range that a group of 2 levels, of 3, and of more chooses from when it is
   quantized. The best for all groups of 32 numbers of a Gaussian is 0.4 with 2 levels, 0.62 with 3
   and 0.74 with 4; of 128 numbers, 0.32, 0.48 and 0.6. The lists are equally long, since the groups
   that a kernel fits together may differ in levels. */
enum { TFT_KV_N_CLIPS = 6 };
#define TFT_KV_CLIPS {1, 0.55f, 0.44f, 0.36f, 0.28f, 0.2f}, \
                     {1, 0.8f, 0.68f, 0.56f, 0.46f, 0.36f}, \
                     {1, 0.92f, 0.84f, 0.76f, 0.68f, 0.6f}

/* How many of the parts a group chooses from: one where the range is whole, or calibrated. */
static inline size_t tft_kv_clips(const struct tft_kv_policy *p)
{
    return p->clip == TFT_KV_CENTRE || p->clip == TFT_KV_ZERO ? TFT_KV_N_CLIPS : 1;
}

static inline bool tft_kv_clips_to_zero(const struct tft_kv_policy *p)
{
    return p->clip == TFT_KV_ZERO || p->clip == TFT_KV_CALIBRATED;
}

#endif
