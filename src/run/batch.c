/* Several sessions in one pass: a workspace, and the sequences of the next pass, which joins their
   tokens (pass.h). */
#include "batch.h"

#include "backend.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/options.h"
#include "feed.h"

#include <string.h>

enum { DEFAULT_SESSIONS = 16, DEFAULT_TOKENS = 512, MOST = 65536 };

struct tft_batch {
    const struct tft_model *m;
    struct tft_work *work;
    bool joins;      /* passes of this model can be shared */
    uint32_t n_rows; /* of logits, which a shared pass computes */
    float *logits;   /* [n_rows, V], if passes can be shared */
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    size_t size;

    /* The next pass. */
    uint32_t n_seq, n_token, n_logits, n_hidden, max_seqs;
    struct tft_seq *seq;  /* [max_seqs] */
    struct tft_step **step; /* [max_seqs] theirs */
    int32_t *tokens;        /* [work->n_batch] */
};

struct tft_work *tft_batch_work(const struct tft_batch *b)
{
    return b->work;
}

/* -------------------------------------------------------------------------------------- opening */

static struct tft_batch *layout(struct tft_arena *a, const struct tft_model *m,
                                const struct tft_batch_opts *o)
{
    struct tft_batch discarded, *place = tft_arena_take(a, 1, sizeof *place),
                                *b = place ? place : &discarded;
    *b = (struct tft_batch){.m = m,
                            .joins = m->n_host == m->n_layer,
                            .n_rows = o->n_sessions,
                            .max_seqs = o->n_sessions};
    b->seq = tft_arena_take(a, o->n_sessions, sizeof *b->seq);
    b->step = tft_arena_take(a, o->n_sessions, sizeof(struct tft_step *));
    b->tokens = tft_arena_take(a, o->n_tokens, sizeof *b->tokens);
    b->logits = tft_arena_take(a, b->joins ? b->n_rows : 0, m->n_vocab * sizeof(float));
    b->work = tft_work_layout(a, m, o->n_tokens, o->n_threads);
    return place;
}

static enum tft_status resolve(struct tft_batch_opts *o, const struct tft_model *m,
                               const struct tft_batch_opts *given, struct tft_error *err)
{
    enum tft_status status = tft_options_take(o, sizeof *o, given, "tft_batch_opts", err);
    if (status != TFT_OK)
        return status;
    if (!m->arch)
        return tft_fail(err, TFT_ERR_ARG, "%s: opened with vocab_only: there is no model to run",
                        m->source.name);
    if (m->encoder)
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: %s", m->source.name, tft_encoder_text);
    if (o->n_threads < 0 || o->n_threads > TFT_PORT_THREADS)
        return tft_fail(err, TFT_ERR_ARG, "%d threads: not within 0 .. %d", o->n_threads,
                        TFT_PORT_THREADS);
    if (o->n_sessions > MOST || o->n_tokens > MOST)
        return tft_fail(err, TFT_ERR_ARG, "a batch of %u sessions and %u tokens: at most %d each",
                        o->n_sessions, o->n_tokens, MOST);
    if (!o->n_sessions)
        o->n_sessions = DEFAULT_SESSIONS;
    if (!o->n_tokens)
        o->n_tokens = DEFAULT_TOKENS;
    if (o->n_tokens < o->n_sessions)
        o->n_tokens = o->n_sessions;
    if (!o->n_threads)
        o->n_threads = tft_port_cpus();
    if (!tft_port_threaded())
        o->n_threads = 1;
    return TFT_OK;
}

static enum tft_status too_large(const struct tft_model *m, const struct tft_batch_opts *o,
                                 struct tft_error *err)
{
    return tft_fail(err, TFT_ERR_NOMEM,
                    "%s: out of memory for a batch of %u sessions and %u tokens", m->source.name,
                    o->n_sessions, o->n_tokens);
}

enum tft_status tft_batch_open(struct tft_batch **out, const struct tft_model *m,
                               const struct tft_batch_opts *opts, struct tft_error *err)
{
    *out = NULL;
    struct tft_batch_opts o;
    enum tft_status status = resolve(&o, m, opts, err);
    if (status != TFT_OK)
        return status;
    struct tft_arena a = {0};
    layout(&a, m, &o);
    void *memory = a.failed ? NULL : tft_alloc(o.allocator, a.used);
    if (!memory)
        return too_large(m, &o, err);
    size_t bytes = a.used;
    a = (struct tft_arena){.base = memory};
    struct tft_batch *b = layout(&a, m, &o);
    b->size = bytes;
    if (o.allocator) {
        b->allocator_copy = *o.allocator;
        b->allocator = &b->allocator_copy;
    }
    tft_work_open(b->work);
    *out = b;
    return TFT_OK;
}

void tft_batch_close(struct tft_batch *b)
{
    if (!b)
        return;
    struct tft_allocator copy = b->allocator_copy;
    tft_free(b->allocator ? &copy : NULL, b, b->size);
}

/* --------------------------------------------------------------------------------------- a pass */

/* The rows of logits that a step leaves. */
static uint32_t logits_of(const struct tft_step *step)
{
    uint32_t most = step->session->out.n_logits;
    return step->n < most ? (uint32_t)step->n : most;
}

static uint32_t hidden_of(const struct tft_step *step)
{
    uint32_t most = step->session->out.n_hidden;
    return step->n < most ? (uint32_t)step->n : most;
}

static bool has_room(const struct tft_batch *b, const struct tft_step *step)
{
    return b->n_seq < b->max_seqs && step->n <= b->work->n_batch - b->n_token &&
           logits_of(step) <= b->n_rows - b->n_logits;
}

static void add_seq(struct tft_batch *b, struct tft_step *step)
{
    struct tft_session *s = step->session;
    uint32_t n = (uint32_t)step->n;
    memcpy(b->tokens + b->n_token, step->tokens, n * sizeof *b->tokens);
    b->seq[b->n_seq] = (struct tft_seq){.s = s,
                                           .plan = &s->kv.plan,
                                           .at = b->n_token,
                                           .n = n,
                                           .pos = s->kv.n_prefix + s->kv.dropped + s->pos,
                                           .n_logits = logits_of(step),
                                           .n_hidden = hidden_of(step)};
    b->step[b->n_seq++] = step;
    b->n_token += n;
    b->n_logits += logits_of(step);
    b->n_hidden += hidden_of(step);
}

/* No more threads than the batch has, nor than any of the sessions. */
static int threads_of(const struct tft_batch *b)
{
    int n = b->work->n_threads;
    for (uint32_t i = 0; i < b->n_seq; i++)
        n = n < b->seq[i].s->n_threads ? n : b->seq[i].s->n_threads;
    return n;
}

/* A sequence's logits, which begin with row `from` of the pass, become its session's. */
static void take_logits(const struct tft_batch *b, const struct tft_seq *seq, uint32_t from)
{
    size_t n_vocab = b->m->n_vocab;
    if (seq->n_logits)
        memcpy(seq->s->out.logits, b->logits + from * n_vocab,
               seq->n_logits * n_vocab * sizeof(float));
}

/* Computes the sequences, if there are any. One sequence alone is computed as tft_prefill does. */
static void run_seqs(struct tft_batch *b)
{
    if (!b->n_seq)
        return;
    const struct tft_stage *stage = &b->m->stage[0];
    struct tft_session *alone = b->n_seq == 1 ? b->seq[0].s : NULL;
    struct tft_pass p = {.ops = &stage->backend->ops,
                         .m = b->m,
                         .s = alone,
                         .work = alone ? alone->work : b->work,
                         .logits = alone ? alone->out.logits : b->logits,
                         .hidden = alone ? alone->out.hidden : NULL,
                         .plan = alone ? &alone->kv.plan : NULL,
                         .seq = alone ? NULL : b->seq,
                         .n_seq = alone ? 0 : b->n_seq,
                         .n_threads = threads_of(b),
                         .tokens = b->tokens,
                         .n = b->n_token,
                         .pos = b->seq[0].pos,
                         .n_logits = b->n_logits,
                         .n_hidden = b->n_hidden};
    stage->backend->run(&p, 0, b->m->n_layer); /* cannot fail: the CPU, and nobody stops it */
    for (uint32_t i = 0, row = 0; i < b->n_seq; row += b->seq[i++].n_logits) {
        const struct tft_seq *seq = &b->seq[i];
        struct tft_session *s = seq->s;
        if (!alone)
            take_logits(b, seq, row);
        b->step[i]->status =
            tft_feed_passed(s, seq->n, s->pos + seq->n, seq->n_logits, seq->n_hidden);
        if (b->step[i]->status == TFT_OK)
            tft_feed_end(s, seq->n);
    }
    b->n_seq = b->n_token = b->n_logits = b->n_hidden = 0;
}

/* --------------------------------------------------------------------------------------- a step */

/* A step that is refused leaves its session as it was. */
static enum tft_status check_step(const struct tft_batch *b, const struct tft_step *steps,
                                  size_t n, size_t i)
{
    struct tft_error *err = &steps[i].session->error;
    if (steps[i].session->m != b->m)
        return tft_fail(err, TFT_ERR_ARG, "the session is of another model than the batch");
    for (size_t k = 0; k < n; k++)
        if (k != i && steps[k].session == steps[i].session)
            return tft_fail(err, TFT_ERR_ARG, "the session is in two steps");
    return tft_options_reserved(steps[i].reserved, sizeof steps[i].reserved, "tft_step", err);
}

/* alone: the call has no other step. */
static void take_step(struct tft_batch *b, struct tft_step *step, bool alone)
{
    struct tft_session *s = step->session;
    bool drafts = s->lookup.most && step->n == 1;
    if (!b->joins || tft_session_loras_of_head(&s->loras, b->m) || (drafts && alone) ||
        tft_feed_drafted(s, step->tokens, step->n) || !tft_feed_can_join(s, step->n) ||
        step->n > b->work->n_batch || logits_of(step) > b->n_rows) {
        step->status = tft_prefill(s, step->tokens, step->n);
        return;
    }
    if (!has_room(b, step))
        run_seqs(b);
    step->status = tft_feed_begin(s, step->tokens, (uint32_t)step->n);
    if (step->status == TFT_OK)
        add_seq(b, step);
}

enum tft_status tft_step(struct tft_batch *b, struct tft_step *steps, size_t n)
{
    enum tft_status status = TFT_OK;
    for (size_t i = 0; i < n; i++) {
        steps[i].status = check_step(b, steps, n, i);
        if (steps[i].status == TFT_OK)
            take_step(b, &steps[i], n == 1);
    }
    run_seqs(b);
    for (size_t i = n; i-- > 0;)
        status = steps[i].status == TFT_OK ? status : steps[i].status;
    return status;
}
