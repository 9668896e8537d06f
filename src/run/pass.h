/*
 * One pass of tokens through a model: the data that its operations share, and the barriers between
 * them.
 *
 * An architecture's layer is written in the operations of ops.h. On the CPU every thread of the
 * team runs the whole layer with a tft_pass of its own. An operation does this thread's share of
 * the work - rows of a matrix, tokens, or heads - and waits for the other threads only where it
 * must: it names the buffers that it reads and writes (tft_pass_touch), and a barrier comes where
 * one of them was touched in a conflicting way since the last barrier. All threads see the same
 * sequence of operations, so they agree on the barriers without talking to each other.
 */
#ifndef TFT_PASS_H
#define TFT_PASS_H

#include "work.h"

struct tft_call;
struct tft_ops;
struct tft_session;

/* The tokens of one session in a pass that several sessions share, or in an encoder those of one
   whole text: tokens at .. at + n - 1 of the pass. */
struct tft_seq {
    struct tft_session *s; /* NULL: a whole text */
    const struct tft_kv_plan *plan; /* where the tokens go in its cache */
    uint32_t at, n;
    uint32_t pos;      /* position of the first */
    uint32_t n_logits; /* the logits of the last n_logits of them are wanted */
    uint32_t n_hidden; /* the hidden vectors of the last n_hidden */
    uint32_t panel;    /* of a whole text: its first panel of keys in the workspace */
};

struct tft_pass {
    const struct tft_ops *ops; /* of the backend that runs this part of the pass */
    const struct tft_model *m;
    struct tft_session *s;    /* its cache and states take the tokens. NULL with sequences */
    struct tft_call *call;    /* who may stop the pass; NULL: s->call */
    struct tft_work *work;    /* the pass computes in its rows and tables */
    uint32_t row;             /* the first token's row there */
    float *logits;            /* [n_logits, V] of the last tokens */
    float *hidden;            /* [n_hidden, D] of the last tokens. With sequences, each session has
                                 its own */
    const struct tft_seq *seq; /* [n_seq] in the order of their tokens, without gaps; NULL: all
                                    tokens belong to s */
    uint32_t n_seq;
    void *state;                    /* the backend's part of the session; NULL for the CPU */
    const struct tft_kv_plan *plan; /* where the tokens go in the cache; see kv.h */
    int tid, n_threads; /* of the team that runs the pass */
    const int32_t *tokens; /* [n] */
    const uint8_t *types;  /* [n] types of tokens, where the model has such; NULL: all 0 */
    uint32_t n;            /* tokens in the pass */
    uint32_t pos;          /* position of the first */
    uint32_t n_logits;     /* the logits of the last n_logits tokens are wanted */
    uint32_t n_hidden;     /* the hidden vectors of the last n_hidden; with sequences: of all */
    uint32_t n_draft;      /* the last tokens that are draft tokens: layers with a state keep the
                              states before them (tft_pass_by_state) */
    uint32_t draft;        /* in a pass of one draft token alone: which one, from 1 on */
    const float *before;   /* [n, D] a pass through the predictor alone: the hidden vector of the
                              token before each; NULL: a pass through the model */
    uint32_t first;        /* operations work on tokens first .. n - 1 */
    unsigned read, written; /* buffers touched since the last barrier, a bit each */
    unsigned by_head;       /* of the written ones: by the heads that tft_pass_share gives each
                               thread. A thread need not wait for heads that it wrote itself */
    bool stops;             /* the pass may end between two layers: it is long, and other code does
                               not see its results before its end */
    const struct tft_input *tapped; /* the last one that the workspace's tap has seen */
    bool counts_ends; /* some session counts bytes at the ends of ranges (tft_session_ends) */
    const struct tft_input *counted; /* the last input with counted bytes */
};

/* A barrier, if this thread's next reads and writes (bit masks of tft_buf) conflict with any
   thread's since the last barrier. */
void tft_pass_touch(struct tft_pass *p, unsigned reads, unsigned writes);

/* The same for heads of the buffers `buf`, which tft_pass_head_part shares out. */
void tft_pass_touch_heads(struct tft_pass *p, unsigned reads, unsigned writes, unsigned buf);

/* This thread's share [*begin, *end) of n units; of the tokens first .. n - 1. */
void tft_pass_share(const struct tft_pass *p, size_t n, size_t *begin, size_t *end);
void tft_pass_share_tokens(const struct tft_pass *p, uint32_t *begin, uint32_t *end);

/* This thread's part of rows of `width` numbers: numbers [from, to) of tokens [begin, end). Many
   tokens are shared out whole; few are cut into multiples of `unit` numbers. */
struct tft_part {
    uint32_t begin, end;
    size_t from, to;
};
struct tft_part tft_pass_part(const struct tft_pass *p, size_t width, size_t unit);

/* The sequence of token t; NULL in a pass of one session. */
const struct tft_seq *tft_pass_seq(const struct tft_pass *p, uint32_t t);

/* Runs an operation that looks at earlier tokens: once for the pass, or once for each of its
   sequences; tokens then count from the sequence's first. Sequences have rows, caches and states
   of their own, so no thread waits for a thread in another sequence. */
typedef void tft_seq_fn(struct tft_pass *p, const struct tft_layer *b);
void tft_pass_by_seq(struct tft_pass *p, tft_seq_fn *op, const struct tft_layer *b);

/* The same for an operation that moves the states on (tft_states_at). Draft tokens go one by one:
   each begins with a copy of the states after the token before. */
void tft_pass_by_state(struct tft_pass *p, tft_seq_fn *op, const struct tft_layer *b);

/* The same for an operation that moves n numbers of the layer's state on, from number `from` on. */
void tft_pass_by_state_part(struct tft_pass *p, tft_seq_fn *op, const struct tft_layer *b,
                            size_t from, size_t n);

/* The position of token t in its sequence. */
uint32_t tft_pass_position(const struct tft_pass *p, uint32_t t);

/* Fills the rotation tables for the positions of the pass. Call it before the first layer. */
void tft_pass_positions(struct tft_pass *p);

/* Keeps only the tokens that need logits or hidden vectors. Call it when the cache of the last
   layer has been written. With sequences, such tokens are not side by side, and a predictor takes
   all tokens: then it does nothing, and all go through the rest of the layer. */
void tft_keep_last(struct tft_pass *p);

/* With sequences: moves the rows of X that need logits to the end, sequence by sequence, and keeps
   only these rows. Call it before the head. */
void tft_pass_gather(struct tft_pass *p);

/* Passes of fewer tokens are over soon, and do not ask whether to go on. */
enum { TFT_LONG_PASS = 16 };

/* Whether the pass goes on with this layer: asks the session's callback, and tft_cancel. For the
   thread that feeds the session. */
bool tft_pass_goes_on(const struct tft_pass *p, uint32_t layer);

/* Row of token t, as floats and as bytes. */
float *tft_pass_row(const struct tft_pass *p, enum tft_buf buf, uint32_t t);
uint8_t *tft_pass_bytes(const struct tft_pass *p, enum tft_buf buf, uint32_t t);

static inline uint32_t tft_pass_width(const struct tft_pass *p, enum tft_buf buf)
{
    return tft_buf_width(p->m, buf);
}

static inline uint32_t tft_pass_stride(const struct tft_pass *p, enum tft_buf buf)
{
    return tft_buf_stride(p->m, buf);
}

static inline uint32_t tft_pass_byte_stride(const struct tft_pass *p, enum tft_buf buf)
{
    return tft_buf_byte_stride(p->m, buf);
}

/* Shows the tap n rows of `from` that are not by token. */
void tft_pass_tap_rows(struct tft_pass *p, const struct tft_input *in, enum tft_buf from, size_t n);

/* Shows the tap the input of l, unless it was the last one shown. */
void tft_pass_tap(struct tft_pass *p, const struct tft_linear *l, enum tft_buf from);

#endif
