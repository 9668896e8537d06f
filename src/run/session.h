/* The inside of a session. */
#ifndef TFT_SESSION_H
#define TFT_SESSION_H

#include "kv/coded.h"
#include "kv/kv.h"
#include "model/model.h"
#include "pass.h"

/*
 * Attention walks the positions in spans of this many, counted from position 0, and merges the
 * spans of a token in the order of their positions. The size is part of the numerics contract:
 * another one gives other bits.
 */
enum { TFT_SPAN = 256 };

static inline uint32_t tft_spans(uint32_t positions)
{
    return (positions + TFT_SPAN - 1) / TFT_SPAN;
}

/* Queries that attention takes through a span together: their scores fill 32 KiB. */
enum { TFT_TILE = 32 };
_Static_assert((int)TFT_TILE >= (int)TFT_MAX_GROUP, "heads that share a KV head are in one tile");

/* One thread's workspace in attention. */
struct tft_attend_scratch {
    float *q, *o, *part; /* [TFT_TILE, E] */
    float *scores;       /* [TFT_TILE, TFT_SPAN] */
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

    uint32_t pos;      /* tokens held; the prefix comes before them */
    uint32_t slide;    /* so many tokens are forgotten at once when it is full; 0: none ever */
    uint32_t dropped;  /* tokens that have been: they were between the sinks and the next one */
    uint32_t computed; /* so many of them the cache has; fewer after a rewind to where it had not
                          the same */
    uint32_t n_valid;  /* rows of logits of the last call, newest last */
    int32_t *tokens;   /* [capacity] */
    bool *names;       /* [capacity] which of them the filter has named; NULL without one */
    uint32_t n_named;  /* how many */
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

    void *on; /* the part of it that is on the model's device */

    tft_tap_fn *tap; /* set by tools; NULL otherwise. For models of floats. */
    void *tap_user;
};

struct tft_candidate {
    float logit;
    int32_t id;
};

#endif
