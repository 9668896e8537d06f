/* Embedders: whole texts in passes of an encoder, or one after the other through a session. */
#include <string.h>

#include "backend.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/options.h"
#include "pooled.h"
#include "session.h"
#include "simd/expf.h"

const char tft_encoder_text[] =
    "an encoder: it has no sessions, and writes no text; it makes embeddings";

enum { MAX_TEXT = 2048, ENCODER_TOKENS = 2048, SESSION_TOKENS = 512, MOST_TOKENS = 1 << 20 };

struct tft_embedder {
    const struct tft_model *m;
    struct tft_allocator allocator_copy;
    const struct tft_allocator *allocator; /* NULL or &allocator_copy */
    size_t size;
    uint32_t max_text, n_tokens;
    int n_threads, max_threads;
    struct tft_pool pool;
    struct tft_call call;
    struct tft_error error;

    struct tft_session *s; /* NULL: an encoder. It reports to the call: */
    uint32_t step;         /* tokens of its pass in hand */

    /* The next pass of an encoder. */
    struct tft_work *work;
    uint32_t n_seq, n_token, n_panel;
    struct tft_seq *seq; /* [panels] */
    int32_t *tokens;     /* [n_tokens] */
    uint8_t *types;      /* [n_tokens] */
};

/* -------------------------------------------------------------------------------------- opening */

static enum tft_status resolve_pooling(struct tft_embedder_opts *o, const struct tft_model *m,
                                       struct tft_error *err)
{
    if ((unsigned)o->pooling > TFT_POOLING_TOKENS || o->pooling == TFT_POOLING_OTHER)
        return tft_fail(err, TFT_ERR_ARG, "%d is no pooling", (int)o->pooling);
    if (o->pooling == TFT_POOLING_NONE)
        o->pooling = tft_model_pooling(m);
    if (o->pooling == TFT_POOLING_OTHER)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: its pooling_type is not known: mean, cls, last, rank or none can be "
                        "asked for",
                        m->source.name);
    if (o->pooling == TFT_POOLING_NONE)
        o->pooling = TFT_POOLING_MEAN;
    if (o->pooling == TFT_POOLING_RANK && !m->pooled.n_labels)
        return tft_fail(err, TFT_ERR_ARG, "%s: has no classifier: it is no reranker",
                        m->source.name);
    uint32_t width = tft_pool_width(m, o->pooling);
    if (o->n_dims > width || (o->n_dims && o->pooling == TFT_POOLING_RANK))
        return tft_fail(err, TFT_ERR_ARG, "%s: %u numbers of a result of %u cannot be kept",
                        m->source.name, o->n_dims, width);
    return TFT_OK;
}

static enum tft_status resolve_sizes(struct tft_embedder_opts *o, const struct tft_model *m,
                                     struct tft_error *err)
{
    uint32_t n_ctx = m->n_ctx - m->n_prefix, usual = n_ctx < MAX_TEXT ? n_ctx : MAX_TEXT;
    if (o->n_tokens > MOST_TOKENS || o->max_text > MOST_TOKENS)
        return tft_fail(err, TFT_ERR_ARG, "texts of %u tokens, passes of %u: at most %d each",
                        o->max_text, o->n_tokens, MOST_TOKENS);
    if (o->max_text > n_ctx)
        return tft_fail(err, TFT_ERR_ARG, "%s: texts of %u tokens are beyond its context of %u",
                        m->source.name, o->max_text, n_ctx);
    if (m->encoder && o->n_tokens && o->n_tokens < o->max_text)
        return tft_fail(err, TFT_ERR_ARG, "a pass of %u tokens has no room for a text of %u",
                        o->n_tokens, o->max_text);
    if (!o->max_text)
        o->max_text = m->encoder && o->n_tokens && o->n_tokens < usual ? o->n_tokens : usual;
    if (!o->n_tokens)
        o->n_tokens = m->encoder ? ENCODER_TOKENS : SESSION_TOKENS;
    if (m->encoder && o->n_tokens < o->max_text)
        o->n_tokens = o->max_text;
    if (!m->encoder && o->n_tokens > o->max_text)
        o->n_tokens = o->max_text;
    return TFT_OK;
}

static enum tft_status resolve(struct tft_embedder_opts *o, const struct tft_model *m,
                               const struct tft_embedder_opts *given, struct tft_error *err)
{
    enum tft_status status = tft_options_take(o, sizeof *o, given, "tft_embedder_opts", err);
    if (status != TFT_OK)
        return status;
    if (!m->arch)
        return tft_fail(err, TFT_ERR_ARG, "%s: opened with vocab_only: there is no model to run",
                        m->source.name);
    if (m->n_host < m->n_layer)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: embeddings are not computed on a device: open the model on the CPU",
                        m->source.name);
    if (o->n_threads < 0 || o->n_threads > TFT_PORT_THREADS)
        return tft_fail(err, TFT_ERR_ARG, "%d threads: not within 0 .. %d", o->n_threads,
                        TFT_PORT_THREADS);
    if (!o->n_threads)
        o->n_threads = tft_port_cpus();
    if (!tft_port_threaded())
        o->n_threads = 1;
    status = resolve_pooling(o, m, err);
    return status == TFT_OK ? resolve_sizes(o, m, err) : status;
}

/* Floats in the cache: there is one text in it at a time. */
static struct tft_session_opts session_opts(const struct tft_model *m,
                                            const struct tft_embedder_opts *o)
{
    bool rank = o->pooling == TFT_POOLING_RANK,
         last = (rank ? m->pooled.from : o->pooling) == TFT_POOLING_LAST;
    return (struct tft_session_opts){.size = sizeof(struct tft_session_opts),
                                     .allocator = o->allocator,
                                     .capacity = o->max_text,
                                     .n_batch = o->n_tokens,
                                     .n_threads = o->n_threads,
                                     .kv = "f32",
                                     .n_hidden = last ? 1 : o->n_tokens,
                                     .no_logits = true};
}

static struct tft_embedder *layout(struct tft_arena *a, const struct tft_model *m,
                                   const struct tft_embedder_opts *o)
{
    struct tft_embedder discarded, *place = tft_arena_take(a, 1, sizeof *place),
                                   *e = place ? place : &discarded;
    *e = (struct tft_embedder){.m = m,
                               .max_text = o->max_text,
                               .n_tokens = o->n_tokens,
                               .n_threads = o->n_threads,
                               .max_threads = o->n_threads};
    e->call.progress = o->progress;
    e->call.user = o->progress_user;
    tft_pool_layout(&e->pool, a, m, o->pooling, o->n_dims, o->raw);
    if (!m->encoder)
        return place;
    e->seq = tft_arena_take(a, tft_text_panels(o->n_tokens), sizeof *e->seq);
    e->tokens = tft_arena_take(a, o->n_tokens, sizeof *e->tokens);
    e->types = tft_arena_take(a, o->n_tokens, sizeof *e->types);
    e->work = tft_work_layout(a, m, o->n_tokens, o->n_threads);
    return place;
}

size_t tft_embedder_bytes(const struct tft_model *m, const struct tft_embedder_opts *opts,
                          struct tft_error *err)
{
    struct tft_embedder_opts o;
    if (resolve(&o, m, opts, err) != TFT_OK)
        return 0;
    struct tft_arena count = {0};
    layout(&count, m, &o);
    struct tft_session_opts so = session_opts(m, &o);
    size_t session = m->encoder ? 0 : tft_session_bytes(m, &so, err), all;
    if (!m->encoder && !session)
        return 0;
    if (!count.failed && tft_add(count.used, session, &all))
        return all;
    tft_fail(err, TFT_ERR_NOMEM, "%s: an embedder for texts of %u tokens is too large",
             m->source.name, o.max_text);
    return 0;
}

/* The session's pass is a part of the call. */
static bool session_progress(void *user, double done)
{
    const struct tft_embedder *e = user;
    const struct tft_call *call = &e->call;
    return call->progress(call->user, ((double)call->done + done * e->step) / (double)call->tokens);
}

static enum tft_status open_session(struct tft_embedder *e, const struct tft_embedder_opts *o,
                                    struct tft_error *err)
{
    struct tft_session_opts so = session_opts(e->m, o);
    so.progress = e->call.progress ? session_progress : NULL;
    so.progress_user = e;
    return tft_session_open(&e->s, e->m, &so, err);
}

enum tft_status tft_embedder_open(struct tft_embedder **out, const struct tft_model *m,
                                  const struct tft_embedder_opts *opts, struct tft_error *err)
{
    *out = NULL;
    struct tft_embedder_opts o;
    enum tft_status status = resolve(&o, m, opts, err);
    if (status != TFT_OK)
        return status;
    struct tft_arena a = {0};
    layout(&a, m, &o);
    void *memory = a.failed ? NULL : tft_alloc(o.allocator, a.used);
    if (!memory)
        return tft_fail(err, TFT_ERR_NOMEM,
                        "%s: out of memory for an embedder of %u tokens in a pass (%zu MB)",
                        m->source.name, o.n_tokens, a.used >> 20);
    size_t bytes = a.used;
    a = (struct tft_arena){.base = memory};
    struct tft_embedder *e = layout(&a, m, &o);
    e->size = bytes;
    if (o.allocator) {
        e->allocator_copy = *o.allocator;
        e->allocator = &e->allocator_copy;
    }
    if (m->encoder)
        tft_work_open(e->work);
    else
        status = open_session(e, &o, err);
    if (status != TFT_OK)
        tft_embedder_close(e);
    else
        *out = e;
    return status;
}

void tft_embedder_close(struct tft_embedder *e)
{
    if (!e)
        return;
    tft_session_close(e->s);
    struct tft_allocator copy = e->allocator_copy;
    tft_free(e->allocator ? &copy : NULL, e, e->size);
}

void tft_embedder_describe(const struct tft_embedder *e, struct tft_embedder_info *info)
{
    struct tft_embedder_info all = {.size = info->size,
                                    .pooling = e->pool.pooling,
                                    .width = e->pool.width,
                                    .n_types = e->m->type_embed.rows,
                                    .max_text = e->max_text,
                                    .n_tokens = e->n_tokens};
    tft_options_give(info, &all, sizeof all);
}

/* --------------------------------------------------------------------------------------- checks */

static enum tft_status check_text(struct tft_embedder *e, const struct tft_text_tokens *text,
                                  size_t i)
{
    const struct tft_model *m = e->m;
    if (tft_options_reserved(text->reserved, sizeof text->reserved, "tft_text_tokens",
                             &e->error) != TFT_OK)
        return TFT_ERR_ARG;
    if (!text->n)
        return tft_fail(&e->error, TFT_ERR_ARG, "text %zu has no tokens", i);
    if (text->n > e->max_text)
        return tft_fail(&e->error, TFT_ERR_FULL, "text %zu has %zu tokens: at most %u fit", i,
                        text->n, e->max_text);
    for (size_t t = 0; t < text->n; t++)
        if (text->ids[t] < 0 || (uint32_t)text->ids[t] >= m->n_vocab)
            return tft_fail(&e->error, TFT_ERR_ARG,
                            "token %d of text %zu is not within the vocabulary, 0 .. %u",
                            text->ids[t], i, m->n_vocab - 1);
    for (size_t t = 0; text->types && m->type_embed.rows && t < text->n; t++)
        if (text->types[t] >= m->type_embed.rows)
            return tft_fail(&e->error, TFT_ERR_ARG, "type %u of text %zu is not within 0 .. %u",
                            text->types[t], i, m->type_embed.rows - 1);
    return TFT_OK;
}

static enum tft_status begin(struct tft_embedder *e, const struct tft_text_tokens *texts, size_t n)
{
    e->error = (struct tft_error){0};
    e->call.done = e->call.tokens = 0;
    enum tft_status status = TFT_OK;
    for (size_t i = 0; i < n && status == TFT_OK; i++) {
        status = check_text(e, &texts[i], i);
        e->call.tokens += texts[i].n;
    }
    return status;
}

static enum tft_status cancelled(struct tft_embedder *e)
{
    return tft_fail(&e->error, TFT_ERR_CANCELLED, "cancelled: %llu of %llu tokens are computed",
                    (unsigned long long)e->call.done, (unsigned long long)e->call.tokens);
}

/* -------------------------------------------------------------------------------------- results */

/* Where results go: the first `keep` numbers of each. */
struct results {
    float *out;
    uint32_t keep;
};

static enum tft_status put(struct tft_embedder *e, struct results *r, const float *result)
{
    if (!tft_are_numbers(result, r->keep))
        return tft_fail(&e->error, TFT_ERR_NUMBERS,
                        "%s: a result has NaN or infinity: the file is damaged, or its "
                        "activations overflow",
                        e->m->source.name);
    memcpy(r->out, result, r->keep * sizeof *result);
    r->out += r->keep;
    return TFT_OK;
}

/* A text's next hidden vector. */
static enum tft_status take(struct tft_embedder *e, struct results *r, const float *hidden)
{
    if (e->pool.pooling == TFT_POOLING_TOKENS)
        return put(e, r, tft_pool_token(&e->pool, hidden));
    tft_pool_add(&e->pool, hidden);
    return TFT_OK;
}

static enum tft_status end_text(struct tft_embedder *e, struct results *r)
{
    return e->pool.pooling == TFT_POOLING_TOKENS ? TFT_OK : put(e, r, tft_pool_end(&e->pool));
}

/* ------------------------------------------------------------------------------------- encoders */

static void forget_pass(struct tft_embedder *e) { e->n_seq = e->n_token = e->n_panel = 0; }

static uint32_t panels_of(const struct tft_text_tokens *text)
{
    return ((uint32_t)text->n + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL;
}

static bool has_room(const struct tft_embedder *e, const struct tft_text_tokens *text)
{
    return text->n <= e->n_tokens - e->n_token &&
           panels_of(text) <= tft_text_panels(e->n_tokens) - e->n_panel;
}

/* A text has a panel of keys at least, so there are no more texts than panels. */
static void add_text(struct tft_embedder *e, const struct tft_text_tokens *text)
{
    uint32_t n = (uint32_t)text->n;
    e->seq[e->n_seq++] = (struct tft_seq){.at = e->n_token, .n = n, .panel = e->n_panel};
    memcpy(e->tokens + e->n_token, text->ids, n * sizeof *e->tokens);
    if (text->types)
        memcpy(e->types + e->n_token, text->types, n);
    else
        memset(e->types + e->n_token, 0, n);
    e->n_token += n;
    e->n_panel += panels_of(text);
}

/* Computes the texts of the pass. */
static enum tft_status run_pass(struct tft_embedder *e, struct results *r)
{
    const struct tft_backend *backend = e->m->stage[0].backend;
    struct tft_pass p = {.ops = &backend->ops,
                         .m = e->m,
                         .call = &e->call,
                         .work = e->work,
                         .seq = e->seq,
                         .n_seq = e->n_seq,
                         .n_threads = e->n_threads,
                         .tokens = e->tokens,
                         .types = e->types,
                         .n = e->n_token,
                         .stops = e->n_token >= TFT_LONG_PASS};
    if (!tft_pass_goes_on(&p, 0) || backend->run(&p, 0, e->m->n_layer) != TFT_OK)
        return cancelled(e);
    enum tft_status status = TFT_OK;
    for (uint32_t i = 0; i < e->n_seq; i++) {
        const struct tft_seq *seq = &e->seq[i];
        tft_pool_begin(&e->pool);
        for (uint32_t t = seq->at; t < seq->at + seq->n && status == TFT_OK; t++)
            status = take(e, r, tft_pass_row(&p, TFT_Y, t));
        status = status == TFT_OK ? end_text(e, r) : status;
    }
    e->call.done += e->n_token;
    forget_pass(e);
    return status;
}

static enum tft_status encode(struct tft_embedder *e, const struct tft_text_tokens *texts, size_t n,
                              struct results *r)
{
    enum tft_status status = TFT_OK;
    forget_pass(e);
    for (size_t i = 0; i < n && status == TFT_OK; i++) {
        if (!has_room(e, &texts[i]))
            status = run_pass(e, r);
        if (status == TFT_OK)
            add_text(e, &texts[i]);
    }
    return status == TFT_OK && n ? run_pass(e, r) : status;
}

/* ------------------------------------------------------------------------------------- sessions */

/* Feeds the session n tokens, and takes the hidden vectors that it keeps of them. */
static enum tft_status feed(struct tft_embedder *e, const int32_t *ids, uint32_t n,
                            struct results *r)
{
    bool last = e->pool.from == TFT_POOLING_LAST;
    e->step = n;
    enum tft_status status = tft_prefill(e->s, ids, n);
    if (status != TFT_OK) {
        e->error = *tft_session_error(e->s);
        return status;
    }
    for (uint32_t back = last ? 1 : n; back-- > 0 && status == TFT_OK;)
        status = take(e, r, tft_hidden(e->s, back));
    e->call.done += n;
    return status;
}

static enum tft_status feed_text(struct tft_embedder *e, const struct tft_text_tokens *text,
                                 struct results *r)
{
    enum tft_status status = tft_rewind(e->s, 0);
    tft_pool_begin(&e->pool);
    for (size_t at = 0; at < text->n && status == TFT_OK; at += e->step) {
        size_t left = text->n - at;
        uint32_t n = left < e->n_tokens ? (uint32_t)left : e->n_tokens;
        status = feed(e, text->ids + at, n, r);
    }
    return status == TFT_OK ? end_text(e, r) : status;
}

/* ---------------------------------------------------------------------------------------- calls */

static enum tft_status compute(struct tft_embedder *e, const struct tft_text_tokens *texts,
                               size_t n, struct results r)
{
    enum tft_status status = begin(e, texts, n);
    if (status == TFT_OK && e->m->encoder)
        return encode(e, texts, n, &r);
    for (size_t i = 0; i < n && status == TFT_OK; i++)
        status = feed_text(e, &texts[i], &r);
    return status;
}

enum tft_status tft_embed(struct tft_embedder *e, const struct tft_text_tokens *texts, size_t n,
                          float *out)
{
    return compute(e, texts, n, (struct results){out, e->pool.width});
}

enum tft_status tft_rerank(struct tft_embedder *e, const struct tft_text_tokens *pairs, size_t n,
                           float *scores)
{
    bool softmax = e->m->pooled.softmax;
    if (e->pool.pooling != TFT_POOLING_RANK || (e->pool.width > 1 && !softmax)) {
        e->error = (struct tft_error){0};
        return tft_fail(&e->error, TFT_ERR_UNSUPPORTED,
                        "%s: does not give a pair of texts one score", e->m->source.name);
    }
    enum tft_status status = compute(e, pairs, n, (struct results){scores, 1});
    for (size_t i = 0; i < n && status == TFT_OK && !softmax && !e->pool.raw; i++)
        scores[i] = 1 / (1 + tft_expf(-scores[i]));
    return status;
}

void tft_embedder_cancel(struct tft_embedder *e)
{
    if (e->s)
        tft_cancel(e->s);
    else
        tft_port_raise(&e->call.cancelled);
}

enum tft_status tft_embedder_threads(struct tft_embedder *e, int n)
{
    e->error = (struct tft_error){0};
    if (n < 1 || n > e->max_threads)
        return tft_fail(&e->error, TFT_ERR_ARG,
                        "%d threads: not within 1 .. %d, with which the embedder was opened", n,
                        e->max_threads);
    e->n_threads = n;
    return e->s ? tft_session_threads(e->s, n) : TFT_OK;
}

const struct tft_error *tft_embedder_error(const struct tft_embedder *e) { return &e->error; }
