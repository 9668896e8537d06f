/* The inside of a session. */
#ifndef TFT_SESSION_H
#define TFT_SESSION_H

#include "kv.h"
#include "model.h"
#include "pass.h"

/*
 * Attention walks the positions in spans of this many, counted from position 0, and merges the spans of a token in the
 * order of their positions. The size is part of the numerics contract: another one gives other bits.
 */
enum { TFT_SPAN = 256 };

/* Queries that attention takes through a span together: their scores fill 32 KiB. */
enum { TFT_TILE = 32 };

/* One thread's workspace in attention. */
struct tft_attend_scratch {
    float *q, *o, *part; /* [TFT_TILE, E] */
    float *scores;       /* [TFT_TILE, TFT_SPAN] */
};

struct tft_session {
    const struct tft_model *m;
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    size_t bytes;                          /* of this allocation, which everything below is in */
    uint32_t capacity, n_batch, n_logits;
    int n_threads;

    uint32_t pos;      /* tokens held */
    uint32_t n_valid;  /* rows of logits of the last call, newest last */
    int32_t *tokens;   /* [capacity] */
    struct tft_kv kv;

    float *buf[TFT_N_BUF];      /* [n_batch, stride]; logits [n_logits, V] */
    float *rope_cos, *rope_sin; /* [n_batch, n_rot] */
    struct tft_attend_scratch *scratch; /* [n_threads] */
    float *part_o;              /* [H, spans, E]: attention of one token, split over spans */
    float *part_max, *part_sum; /* [H, spans] */
    struct tft_candidate *candidates; /* [V], for sampling */
};

struct tft_candidate {
    float logit;
    int32_t id;
};

#endif
