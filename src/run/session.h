/*
 * The inside of a session: one sequence of tokens, its cache, its states and its last outputs.
 * Passes compute in a workspace (work.h), which several sessions may share. open.c opens sessions,
 * feed.c feeds them. Terms are in docs/glossary.md.
 */
#ifndef TFT_SESSION_H
#define TFT_SESSION_H

#include "kv/kv.h"
#include "lookup.h"
#include "lora.h"
#include "model/model.h"
#include "states.h"
#include "work.h"

/* The counts of a thread for tft_session_ends, on a cache line of its own. */
struct tft_thread_ends {
    struct tft_ends n;
    unsigned char unused[64 - sizeof(struct tft_ends)];
};

/* A draft model's part in a session (draft.h), or a predictor's. */
struct tft_draft_model {
    struct tft_session *s; /* the caller's; NULL: there is none */
    uint32_t costs;        /* of a draft token, as in tft_lookup_open: in the pass, and here */
    uint32_t rate;         /* how many draft tokens held, if all before them did, in 1/65536 */
    uint32_t idle;         /* tokens since the last draft token */
    bool proposed;         /* the draft tokens that the last pass computed are of the draft model */
};

/* The outputs of the last call: rows of logits and hidden vectors, the newest last. */
struct tft_outputs {
    float *logits;           /* [logit_rows, V] */
    float *hidden;           /* [n_hidden, D] */
    uint32_t n_logits;       /* as in tft_session_opts; 0 with no_logits */
    uint32_t n_hidden;       /* the same */
    uint32_t logit_rows;     /* of memory: enough for the logits of draft tokens too */
    uint32_t n_valid;        /* rows of logits that the last call left */
    uint32_t first_valid;    /* the row of the oldest of them */
    uint32_t n_valid_hidden; /* hidden vectors that the last call left */
    bool partial;            /* the valid row, which is one, has only the largest logits that were
                                asked for. All other logits are -FLT_MAX */
    double rest;             /* if partial: the sum of the weights of the other logits, with a
                                relative error below 1e-5. 0 if it was not asked for */
};

/* Which tokens stay f16 (tft_session_opts.keep). */
struct tft_filter {
    bool (*keep)(void *user, uint64_t position, int32_t token);
    void *user;
    bool *named; /* [capacity] its answers; NULL without a filter */
    uint32_t n;  /* how many of them are true */
};

/* Whether a call goes on. */
struct tft_call {
    bool (*progress)(void *user, double done);
    void *user;
    uint64_t done, tokens; /* tokens of the call that are computed, and all of them */
    struct tft_port_flag cancelled;
};

struct tft_session {
    const struct tft_model *m;
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    size_t size; /* bytes of the session's one allocation, which holds everything below */
    uint32_t capacity, n_batch; /* as in tft_session_opts */
    int n_threads, max_threads; /* of passes; that there is workspace for */

    const struct tft_named_prefix *named; /* text after the model's prefix, or NULL */

    /* The tokens. The prefix comes before them and is not counted. */
    uint32_t pos;     /* tokens held. The cache has kv.held of them: fewer after a rewind past an
                         quantization; the next call computes the rest again */
    int32_t *tokens;  /* [capacity] */
    uint32_t slide;   /* tokens that a full session drops at once; 0: it does not slide */
    struct tft_kv kv;
    const double *rope_freq;  /* the model's, or its frequencies for long sessions */
    struct tft_states states; /* after the tokens that the cache holds */
    struct tft_outputs out;

    /* Guesses of the next tokens. A pass has computed the first lookup.ahead of them: tokens[pos],
       tokens[pos + 1], .... Their keys and values are in the slots of the next tokens, which the
       cache does not count yet; their logits are the rows after first_valid. So draft tokens change
       nothing but memory that the session does not use yet. */
    struct tft_lookup lookup;
    struct tft_draft_model draft;
    float *predicted; /* [1 + lookup.most, D] the hidden vectors that the predictor reads, the first
                         of the token before its first one; NULL: there is no predictor */
    uint64_t guessed; /* tokens that were computed as draft tokens, and that the caller then fed */

    bool whole_prompt; /* the cache has prefill=prompt: once the prompt has ended,
                          kv.policy.prefill is its length */
    struct tft_filter filter;

    struct tft_work *work; /* its own, or that of tft_session_opts.batch */
    struct tft_attend_work attend;
    struct tft_thread_ends *ends; /* [max_threads]; NULL: the session does not count */
    void *state[TFT_STAGES];      /* each stage's backend's part of the session; NULL for the CPU */

    struct tft_call call;
    struct tft_error error; /* for tft_session_error */
    struct tft_session_loras loras;
};

/* The sizes and the calibration of the model, for a session's cache. */
static inline struct tft_kv_shape tft_model_kv_shape(const struct tft_model *m)
{
    const struct tft_model *all = m->whole;
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
        .fisher = {m->kv_fisher[TFT_KV_K], m->kv_fisher[TFT_KV_V]},
        .fisher_all = {all ? all->kv_fisher[TFT_KV_K] : NULL,
                       all ? all->kv_fisher[TFT_KV_V] : NULL},
        .n_head_all = all ? all->n_head_kv : 0,
        .n_rot = m->n_rot,
        .rope_halves = m->rope_halves,
        .rope_freq = m->rope_freq,
    };
}

/* The same for a session, with its named prefix if it has one, and its frequencies. */
static inline struct tft_kv_shape tft_session_kv_shape(const struct tft_session *s)
{
    struct tft_kv_shape shape = tft_model_kv_shape(s->m);
    shape.n_prefix += s->named ? s->named->n : 0;
    shape.rope_freq = s->rope_freq;
    return shape;
}

/* *k, *v = [G, E] f16 of position pos of the prefix in layer l of the cache. */
static inline void tft_session_prefix_row(const struct tft_session *s, uint32_t l, uint32_t pos,
                                          const uint16_t **k, const uint16_t **v)
{
    const struct tft_model *m = s->m;
    bool text = pos >= m->n_prefix;
    size_t width = tft_model_kv_width(m, l), before = tft_model_kv_before(m, l),
           at = text ? s->named->n * before + (pos - m->n_prefix) * width
                     : m->n_prefix * before + pos * width;
    *k = (text ? s->named->k : m->prefix_k) + at;
    *v = (text ? s->named->v : m->prefix_v) + at;
}

/* Fills the offsets of keys in a cache with slots of bytes (kv.h), or finds that there are none. */
void tft_session_key_offsets(struct tft_session *s);
/* The message about an encoder where a session is asked for. */
extern const char tft_encoder_text[];

/* Opens a session. o, kv: checked, with a value in the place of each default. */
enum tft_status tft_session_open_resolved(struct tft_session **out, const struct tft_model *m,
                                          const struct tft_session_opts *o,
                                          const struct tft_kv_policy *kv, struct tft_error *err);

/* The logits of the newest token; if s->partial is true afterwards, only the logits that are asked
   for. NULL if there are none, or if a process that has some has failed: see s->error. */
const float *tft_session_logits(struct tft_session *s, const struct tft_asked *a);

/* The logits that nearly always suffice to choose the next token. *n: how many ranks they decide.
   *n is smaller than the k that is asked for if a penalty may lower the logits of recent tokens, or
   if the file suppresses tokens: such tokens may lose their ranks. */
struct tft_asked tft_sampler_asks(const struct tft_sampler *z, const struct tft_session *s,
                                  size_t *n);

/* Whether x: [n] has no NaN or infinity. */
bool tft_are_numbers(const float *x, size_t n);

/* Stores the prefix's keys and values in its slots of the host's layers. */
void tft_session_put_prefix(struct tft_session *s);

/* Removes the n tokens that the cache drops next, and the filter's answers for them, from the lists
   of the session. */
void tft_session_drop_tokens(struct tft_session *s, uint32_t n);

#endif
