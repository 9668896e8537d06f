/*
 * The inside of a session: one sequence of tokens, its cache, and the memory that passes compute
 * in. open.c opens sessions, feed.c feeds them. Terms are in docs/glossary.md.
 */
#ifndef TFT_SESSION_H
#define TFT_SESSION_H

#include "buffers.h"
#include "kv/kv.h"
#include "likely.h"
#include "lookup.h"
#include "model/model.h"
#include "routes.h"
#include "states.h"

/* Queries that attention takes through a span together: their scores fill 32 KiB. */
enum { TFT_TILE = 32 };
_Static_assert((int)TFT_TILE >= (int)TFT_MAX_GROUP, "heads that share a KV head are in one tile");

/* A thread's workspace in attention. */
struct tft_attend_scratch {
    float *q, *o, *part; /* [TFT_TILE, E] */
    float *scores;       /* [TFT_TILE, TFT_SPAN] */
    float *all_scores;   /* [TFT_TILE, kv.max_tokens] where keys and values are apart; else NULL */
    uint8_t *bytes;      /* [TFT_TILE, E padded to 16] queries of int8 slots; else NULL, as are: */
    uint8_t *weights;    /* [TFT_TILE, TFT_SPAN] */
    struct tft_affine *affine; /* [2, TFT_TILE] of those queries, of those weights */
    float *ordered_q;    /* [TFT_TILE, E] queries with the channels in the blocks' order */
    float *key_scales;   /* [2 tft_kv_scales] of a block of keys */
    float *value_scales; /* [blocks of a span, 2 tft_kv_scales] */
};

/* A thread's tile of the hidden activations before they become bytes: as many tokens and rows, or
   fewer tokens and more rows. It takes 192 KiB of an L2 cache. */
enum { TFT_HIDDEN_TOKENS = 96, TFT_HIDDEN_ROWS = 256 };
struct tft_hidden_scratch {
    float *gate, *up; /* [TFT_HIDDEN_TOKENS * TFT_HIDDEN_ROWS] */
};

/* What a thread has counted for tft_session_ends, on a cache line of its own. */
struct tft_thread_ends {
    struct tft_ends n;
    unsigned char unused[64 - sizeof(struct tft_ends)];
};

/* A tap sees the float inputs of linear layers: `rows` of tokens first .. first + n - 1 of the
   pass, `stride` floats apart. Thread tid of the team calls it for its own tokens. */
typedef void tft_tap_fn(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                        const float *rows, size_t stride);

/* What makes guesses by a draft model (draft.h). */
struct tft_draft_model {
    struct tft_session *s; /* the caller's; NULL: there is none */
    uint32_t costs;        /* of a guess, as those of struct tft_lookup: in the pass, and here */
    uint32_t rate;         /* how many guesses held, if all before them did, in 1/65536 */
    uint32_t idle;         /* tokens since the last guess */
    bool guessed;          /* the guesses that the last pass computed are of the draft model */
};

struct tft_session {
    const struct tft_model *m;
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    size_t size; /* bytes of the session's one allocation, which holds everything below */
    uint32_t capacity, n_batch, n_hidden; /* as in tft_session_opts */
    uint32_t n_logits;                    /* the same; 0 with no_logits */
    uint32_t logit_rows;                  /* of memory: enough for those of guesses too */
    int n_threads, max_threads; /* of passes; that there is workspace for */

    const struct tft_named_prefix *named; /* text behind the model's prefix, or NULL */

    /* The tokens. The prefix comes before them and is not counted. */
    uint32_t pos;     /* tokens held. The cache has kv.held of them: fewer after a rewind past an
                         eviction; the next call computes the rest again */
    int32_t *tokens;  /* [capacity] */
    uint32_t slide;   /* tokens that a full session drops at once; 0: it does not slide */
    uint32_t n_valid; /* rows of logits that the last call left, newest last */
    uint32_t first_valid; /* the row where the oldest of them is */
    uint32_t n_valid_hidden; /* the same for hidden vectors */
    bool partial; /* the valid row, which is one, has only the largest logits, those that were asked
                     for. -FLT_MAX is in the place of each other logit */
    double rest;  /* if partial: the sum of the weights of the other logits. Its relative error is
                     below 1e-5. 0 if it was not asked for */
    struct tft_kv kv;
    struct tft_states states; /* behind the tokens that the cache holds */

    /* Guesses of the next tokens. A pass has computed the first lookup.ahead of them: tokens[pos],
       tokens[pos + 1], .... Their keys and values are in the slots where those of the next tokens
       go, behind what the cache holds; their logits are the rows behind first_valid. So a session
       is the same with guesses and without them, but for memory that it does not use yet. */
    struct tft_lookup lookup;
    struct tft_draft_model draft;
    uint64_t guessed; /* tokens that were computed as guesses, and that the caller then fed */

    bool whole_prompt; /* the cache has prefill=prompt: once the prompt has ended,
                          kv.policy.prefill is its length */

    /* The filter: which tokens stay f16. */
    bool (*keep)(void *user, uint64_t position, int32_t token);
    void *keep_user;
    bool *is_named;   /* [capacity] its answers; NULL without a filter */
    uint32_t n_named; /* how many of them are true */

    /* What passes compute in: see buffers.h. */
    float *buf[TFT_N_BUF];     /* [n_batch, stride]; logits [logit_rows, V]. NULL for buffers that
                                  are only bytes, and for those that only a device needs */
    uint8_t *bytes[TFT_N_BUF]; /* [rows, byte stride] of XN, A and G, if linear layers take bytes;
                                  rows: n_batch, and at least n_threads */
    struct tft_affine *affine[TFT_N_BUF]; /* [n_batch] what the bytes of a token stand for, where
                                             ranges are dynamic */
    float (*range_part)[2];               /* [n_threads] least and largest number of its tokens */
    float *last_hidden;                   /* [n_hidden, D] of the newest tokens */
    struct tft_hidden_scratch *hidden;    /* [n_threads] */
    float *embed_row;                     /* [n_threads, stride of TFT_P] a token's row of the table
                                             of per-layer embeddings */
    struct tft_routes routes;             /* of the tokens of a pass, if the model has experts */
    struct tft_expert_inputs *expert_inputs; /* [n_threads] likewise */
    const double *rope_freq;              /* the model's, or those for long sessions */
    float *rope_cos, *rope_sin;           /* [n_batch, n_rot], then [n_batch, n_rot_window] if
                                             layers with a window have frequencies of their own */
    struct tft_attend_scratch *scratch;   /* [n_threads] */
    float *part_o;                        /* [H, spans, E] attention of one token, span by span */
    float *part_max, *part_sum;           /* [H, spans] */
    float *all_scores;                    /* [H, kv.max_tokens] those of one token, where keys and
                                             values are apart; else NULL */

    struct tft_thread_ends *ends; /* [max_threads]; NULL: the session does not count */

    /* for sampling */
    struct tft_candidate *candidates; /* [V] */
    float *tops;                      /* [tft_likely_blocks(V)] */
    float *penalized;                 /* [V] logits with the repetition penalty */

    void *state[TFT_STAGES]; /* what each stage's backend has of the session; NULL for the CPU */

    struct tft_error error; /* what tft_session_error returns */

    /* Whether a call goes on. */
    bool (*progress)(void *user, double done);
    void *progress_user;
    uint64_t call_done, call_tokens; /* tokens of the call that are computed, and all of them */
    struct tft_port_flag cancelled;

    tft_tap_fn *tap; /* NULL; set by tools, for models of floats */
    void *tap_user;
};

/* What the cache of a session has to know of the model. */
static inline struct tft_kv_shape tft_model_kv_shape(const struct tft_model *m)
{
    return (struct tft_kv_shape){
        .n_layer = m->n_kv_layer,
        .n_host = m->n_host < m->n_layer ? m->n_host : m->n_kv_layer,
        .n_head_kv = m->n_head_kv,
        .head_dim = m->head_dim,
        .heads = m->kv_heads,
        .n_prefix = m->n_prefix,
        .window = m->kv_window,
        .key_importance = m->key_importance,
        .key_order = m->key_order,
        .clip = {m->kv_clip[0], m->kv_clip[1]},
    };
}

/* Likewise of a session, whose prefix may be a named one. */
static inline struct tft_kv_shape tft_session_kv_shape(const struct tft_session *s)
{
    struct tft_kv_shape shape = tft_model_kv_shape(s->m);
    shape.n_prefix += s->named ? s->named->n : 0;
    return shape;
}

/* *k, *v = [G, E] f16 of position pos of the prefix in layer l of the cache. */
static inline void tft_session_prefix_row(const struct tft_session *s, uint32_t l, uint32_t pos,
                                          const uint16_t **k, const uint16_t **v)
{
    const struct tft_model *m = s->m;
    bool text = pos >= m->n_prefix;
    size_t width = (size_t)m->n_head_kv * m->head_dim,
           row = text ? (size_t)l * s->named->n + pos - m->n_prefix : (size_t)l * m->n_prefix + pos;
    *k = (text ? s->named->k : m->prefix_k) + row * width;
    *v = (text ? s->named->v : m->prefix_v) + row * width;
}

/* Opens a session. o, kv: checked, with a value in the place of each default. */
enum tft_status tft_session_open_resolved(struct tft_session **out, const struct tft_model *m,
                                          const struct tft_session_opts *o,
                                          const struct tft_kv_policy *kv, struct tft_error *err);

/* A session whose rows the passes of others use: it never holds a token. */
struct tft_work {
    const struct tft_allocator *allocator;
    uint32_t n_rows, n_logits;
    int n_threads;
};
enum tft_status tft_session_open_work(struct tft_session **out, const struct tft_model *m,
                                      const struct tft_work *w, struct tft_error *err);

/* The logits of the newest token; if s->partial is true afterwards, only those that are asked for.
   NULL if there are none, or if the processes that have them have failed: s->error says so. */
const float *tft_session_logits(struct tft_session *s, const struct tft_asked *a);

/* The logits that nearly always suffice to choose the next token. *n: how many ranks they leave no
   doubt about. *n is smaller than the k that is asked for if a penalty may lower the logits of
   recent tokens, or if the file suppresses tokens: those may lose their ranks. */
struct tft_asked tft_sampler_asks(const struct tft_sampler *z, const struct tft_session *s,
                                  size_t *n);

/* Whether all of x: [n] are numbers, not infinite. */
bool tft_are_numbers(const float *x, size_t n);

/* Stores the prefix's keys and values in its slots of the host's layers. */
void tft_session_put_prefix(struct tft_session *s);

#endif
