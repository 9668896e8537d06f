/* The inside of a session. */
#ifndef TFT_SESSION_H
#define TFT_SESSION_H

#include "kv/kv.h"
#include "model/model.h"
#include "buffers.h"

/* Queries that attention takes through a span together: their scores fill 32 KiB. */
enum { TFT_TILE = 32 };
_Static_assert((int)TFT_TILE >= (int)TFT_MAX_GROUP, "heads that share a KV head are in one tile");

/* A thread's workspace in attention. */
struct tft_attend_scratch {
    float *q, *o, *part; /* [TFT_TILE, E] */
    float *scores;       /* [TFT_TILE, TFT_SPAN] */
    float *ordered_q;    /* [TFT_TILE, E] queries with their channels in the order of the blocks' keys */
    float *key_scales;   /* [2 tft_kv_scales] of a block of keys */
    float *value_scales; /* [blocks of a span, 2 tft_kv_scales] */
};

/* A thread's tile of the hidden activations before they become bytes, 192 KiB of an L2 cache: as
   many tokens and rows, or fewer tokens and more rows. */
enum { TFT_HIDDEN_TOKENS = 96, TFT_HIDDEN_ROWS = 256 };
struct tft_hidden_scratch {
    float *gate, *up; /* [TFT_HIDDEN_TOKENS * TFT_HIDDEN_ROWS] */
};

/* Is shown the rows of floats that are the input of linear layers, `stride` apart, of n tokens of
   the pass from `first` on, by the thread tid of the team that has them. */
typedef void tft_tap_fn(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                        const float *rows, size_t stride);

struct tft_session {
    const struct tft_model *m;
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    size_t size;                           /* of this allocation, which everything below is in */
    uint32_t capacity, n_batch, n_logits;
    int n_threads;

    uint32_t pos;      /* tokens held, behind the prefix. kv.held of them are in the cache: fewer than
                          pos after a rewind past an eviction; the next call recomputes the rest */
    uint32_t slide;    /* tokens that a full session drops at once; 0: it does not slide */
    uint32_t n_valid;  /* rows of logits of the last call, newest last */
    int32_t *tokens;   /* [capacity] */
    bool *is_named;    /* [capacity] the filter's answers; NULL without a filter */
    uint32_t n_named;  /* tokens that the filter has named */
    bool (*keep)(void *user, uint64_t position, int32_t token); /* the filter */
    void *keep_user;
    struct tft_kv kv;

    float *buf[TFT_N_BUF];      /* [n_batch, stride]; logits [n_logits, V]. NULL where a static
                                   model has bytes only */
    uint8_t *bytes[TFT_N_BUF];  /* [n_batch, byte stride]: H, A and G of a quantized model */
    struct tft_affine *affine[TFT_N_BUF]; /* [n_batch]: how the bytes of each token are held, where
                                             that is not static */
    float (*range_part)[2];     /* [n_threads] */
    struct tft_hidden_scratch *hidden; /* [n_threads] */
    float *rope_cos, *rope_sin; /* [n_batch, n_rot] */
    struct tft_attend_scratch *scratch; /* [n_threads] */
    float *part_o;              /* [H, spans, E]: attention of one token, split over spans */
    float *part_max, *part_sum; /* [H, spans] */
    struct tft_candidate *candidates; /* [V], for sampling */

    void *state[TFT_STAGES]; /* what each stage's backend has of the session; NULL for the CPU */

    tft_tap_fn *tap; /* set by tools; NULL otherwise. For models of floats. */
    void *tap_user;
};

struct tft_candidate {
    float logit;
    int32_t id;
};

/* What the cache of a session has to know of the model. */
static inline struct tft_kv_shape tft_model_kv_shape(const struct tft_model *m)
{
    return (struct tft_kv_shape){
        .n_layer = m->n_layer,
        .n_host = m->n_host,
        .n_head_kv = m->n_head_kv,
        .head_dim = m->head_dim,
        .n_prefix = m->n_prefix,
        .key_importance = m->key_importance,
        .key_order = m->key_order,
        .clip = {m->kv_clip[0], m->kv_clip[1]},
    };
}

#endif
