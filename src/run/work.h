/*
 * A workspace: the memory that passes compute in. Nothing of a sequence of tokens stays in it from
 * one pass to the next, so sessions that are fed one at a time can share one (batch.h). session.h
 * has the state that a session keeps between passes.
 */
#ifndef TFT_WORK_H
#define TFT_WORK_H

#include "base/arena.h"
#include "buffers.h"
#include "kv/kv.h"
#include "likely.h"
#include "routes.h"

/* A thread's tile of the hidden activations before they become bytes: as many tokens and rows, or
   fewer tokens and more rows. It takes 192 KiB of an L2 cache. */
enum { TFT_HIDDEN_TOKENS = 96, TFT_HIDDEN_ROWS = 256 };
struct tft_hidden_scratch {
    float *gate, *up; /* [TFT_HIDDEN_TOKENS * TFT_HIDDEN_ROWS] */
};

/* A tap sees the float inputs of linear layers: `rows` of tokens first .. first + n - 1 of the
   pass, `stride` floats apart. Thread tid of the team calls it for its own tokens. For tools, and
   models of floats. */
typedef void tft_tap_fn(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                        const float *rows, size_t stride);
struct tft_tap {
    tft_tap_fn *see; /* NULL: there is none */
    void *user;
};

/* Queries that attention takes through a span together: their scores fill 32 KiB. */
enum { TFT_TILE = 32 };
_Static_assert((int)TFT_TILE >= (int)TFT_MAX_GROUP, "heads that share a KV head are in one tile");

/* Keys and values of the whole texts of a pass. A text begins with a panel of its own, and the
   last panel of keys is padded with zeros. */
struct tft_texts_work {
    uint32_t n_panels;
    float *keys;   /* [G, n_panels, E, 16] */
    float *values; /* [G, n_panels * 16, E] */
    struct tft_attend_scratch *scratch; /* [n_threads] q, o, part and scores */
};

struct tft_work {
    const struct tft_model *m;
    uint32_t n_batch; /* tokens of a pass, at most */
    int n_threads;    /* threads of a pass, at most */

    float *buf[TFT_N_BUF];     /* [n_batch, stride]. NULL for buffers that are only bytes, for
                                  buffers of a device alone, and for TFT_LOGITS, which are
                                  p->logits */
    uint8_t *bytes[TFT_N_BUF]; /* [rows, byte stride] of XN, A and G, if linear layers take bytes;
                                  rows: n_batch, and at least n_threads */
    struct tft_affine *affine[TFT_N_BUF]; /* [n_batch] scale and zero of a token's bytes, if ranges
                                             are dynamic */
    struct tft_hidden_scratch *hidden;    /* [n_threads] */
    float *embed_row;                     /* [n_threads, stride of TFT_P] a token's row of the table
                                             of per-layer embeddings */
    struct tft_routes routes;             /* of the tokens of a pass, if the model has experts */
    struct tft_expert_inputs *expert_inputs; /* [n_threads] likewise */
    /* [n_batch, n_rot], then [n_batch, n_rot_window] if layers with a window have frequencies of
       their own */
    float *rope_cos, *rope_sin;

    struct tft_texts_work texts; /* of an encoder; all NULL: sessions attend */

    struct tft_tap tap;

    /* for sampling; an encoder has none of it */
    struct tft_candidate *candidates; /* [V] */
    float *tops;                      /* [tft_likely_layers(V)] */
    float *penalized;                 /* [V] logits with the repetition penalty */
};

/* Counts, or places, a workspace and its memory. NULL while counting. A pass of an encoder has
   tft_text_panels(n_batch) panels of keys, one for each 16 tokens of a text. */
struct tft_work *tft_work_layout(struct tft_arena *a, const struct tft_model *m, uint32_t n_batch,
                                 int n_threads);

/* Twice as many as one text of n_batch tokens has: short texts do not fill their panels. */
static inline uint32_t tft_text_panels(uint32_t n_batch)
{
    return n_batch / 8 + 1;
}

/* Clears the padding of rows of bytes, which meets weights of zero: no kernel should read memory
   that was never written. Call it once when the workspace is placed. */
void tft_work_open(struct tft_work *w);

/* A thread's workspace in attention. */
struct tft_attend_scratch {
    float *q, *o, *part; /* [TFT_TILE, E] */
    float *scores;       /* [TFT_TILE, TFT_SPAN] */
    float *all_scores;   /* [TFT_TILE, kv.max_tokens] with split retention; else NULL */
    uint8_t *bytes;      /* [TFT_TILE, E padded to 16] queries of int8 slots; else NULL, as are: */
    uint8_t *weights;    /* [TFT_TILE, TFT_SPAN] */
    struct tft_affine *affine; /* [2, TFT_TILE] of these queries, of these weights */
    float *lacking;      /* [TFT_TILE] what the scores of a query with slots lack: int8.c */
    float *ordered_q;    /* [TFT_TILE, E] queries with the channels in the blocks' order */
    float *key_scales;   /* [2 tft_kv_scales] of a block of keys */
    float *value_scales; /* [blocks of a span, 2 tft_kv_scales] */
    float *turned_q;     /* [TFT_TILE, E] queries turned back, of FISHER keys; else NULL, as are: */
    float *turned_means; /* [block, E] means of the head's keys, turned by the places */
    float *turned_keys;  /* [block, E] rebuilt keys: channels without codes stay */
    uint16_t *exact_keys; /* [E, 16] a panel of the keys of the head's exact tokens */
    float *exact_scores;  /* [TFT_TILE, 16] of them */
    float *coded_o;      /* [TFT_TILE, E padded to 16] a mix of values in the order of the places */
};

/* The workspace of attention. Its size follows from the cache, so each session has its own. */
struct tft_attend_work {
    struct tft_attend_scratch *scratch; /* [n_threads] */
    float *part_o;             /* [H, spans, E] attention of one token, span by span */
    float *part_max, *part_sum; /* [H, spans] */
    float *all_scores;         /* [H, kv.max_tokens] of one token, with split retention; else
                                  NULL */
};

/* Counts, or places, its memory. */
void tft_attend_work_layout(struct tft_attend_work *w, struct tft_arena *a,
                            const struct tft_model *m, const struct tft_kv *kv, int n_threads);

#endif
