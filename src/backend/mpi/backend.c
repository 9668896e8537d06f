/*
 * The MPI backend (run/backend.h). Process 0 runs the program: the functions of its table call the
 * other processes, and every process does the same work on its part. In the other processes,
 * tft_model_open computes for process 0 until process 0 closes the model.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "inside.h"
#include "kv/kv.h"
#include "model/identity.h"

enum { SHORT_PASS = 16 };

/* A request of process 0. */
struct call {
    enum { OPEN, CLOSE, RUN, LOGITS, DROP, QUIT } what;
    uint32_t member; /* the index of the session */

    struct tft_session_opts opts; /* OPEN: the numbers in opts; the named prefix, from 1 on */
    uint32_t prefix;

    /* RUN and DROP: the places of tokens in the cache, before the call */
    struct tft_retained at[TFT_KV_SIDES];
    uint32_t held, dropped, prefill;

    struct tft_kv_drop drop;               /* DROP */
    uint32_t n, pos, n_logits, first, end; /* RUN; LOGITS: n_logits */
    struct tft_asked asked;                /* RUN: the logits to send; k = 0: all */
    int32_t token[SHORT_PASS];             /* a longer pass sends tokens after the call, */
    bool named[SHORT_PASS];                /* and after them the filter's answers */
};

struct device {
    struct part part;
    const struct tft_model *m;
    pthread_mutex_t lock; /* sessions may belong to different threads; calls come one by one */
    struct member **member;
    uint32_t n_member; /* the capacity; free places are NULL */
};

/* The state of a session in process 0. */
struct own {
    struct device *device;
    struct tft_session *s;
    uint32_t member;
    float *logits;   /* [n_logits, V] */
    uint32_t n_left; /* rows of logits of the last pass with logits */
    struct tft_asked there; /* the logits of these rows in process 0; k = 0: all */
    struct tft_asked asked; /* the most logits requested since that pass; k = 0: none */
};

/* MPI has one set of processes. Processes that wait for calls of one model cannot open another. */
static atomic_bool is_open;

/* The device of process 0: the process may end without closing it. */
static struct device *current;

static enum tft_status no_memory(struct tft_error *err)
{
    return tft_fail(err, TFT_ERR_NOMEM, "mpi: out of memory");
}

/* ------------------------------------------------------------------------------------- sessions */

static void close_member(struct member *member)
{
    if (!member)
        return;
    tft_session_close(member->s);
    free(member->tokens);
    free(member->words);
    free(member->sums);
    free(member->ends);
    free(member);
}

/* Finds a place for a member: the same in all processes. */
static enum tft_status find_place(struct device *d, uint32_t *place, struct tft_error *err)
{
    for (*place = 0; *place < d->n_member; ++*place)
        if (!d->member[*place])
            return TFT_OK;
    struct member **more = realloc(d->member, (d->n_member + 1) * sizeof(struct member *));
    if (!more)
        return no_memory(err);
    d->member = more;
    d->member[d->n_member++] = NULL;
    return TFT_OK;
}

static enum tft_status open_member(struct device *d, const struct call *c,
                                   const struct tft_kv_policy *kv, struct tft_error *err)
{
    struct tft_session_opts o = c->opts;
    o.prefix = c->prefix ? d->m->named[c->prefix - 1].name : NULL;
    size_t block = o.n_batch < TFT_MPI_BLOCK ? o.n_batch : TFT_MPI_BLOCK;
    uint32_t place = 0;
    struct member *member = calloc(1, sizeof *member);
    enum tft_status status = member ? find_place(d, &place, err) : no_memory(err);
    if (status == TFT_OK)
        status = tft_session_open_resolved(&member->s, &d->part.m, &o, kv, err);
    if (status == TFT_OK) {
        member->part = &d->part;
        member->tokens = calloc(o.n_batch, sizeof *member->tokens);
        member->words = calloc((size_t)o.n_batch * d->m->n_embd, sizeof *member->words);
        member->sums = calloc(block * d->m->n_embd, sizeof *member->sums);
        member->ends = calloc(o.n_batch, 2 * sizeof *member->ends);
        if (!member->tokens || !member->words || !member->sums || !member->ends)
            status = no_memory(err);
    }
    if (status == TFT_OK)
        d->member[place] = member;
    else
        close_member(member);
    return status;
}

static enum tft_status open_together(struct device *d, const struct call *c,
                                     struct tft_kv_policy *kv, struct tft_error *err)
{
    tft_mpi_spread(&d->part.link, kv, sizeof *kv);
    enum tft_status status = open_member(d, c, kv, err), all;
    all = tft_mpi_agree(&d->part.link, status, err);
    if (status == TFT_OK && all != TFT_OK) {
        close_member(d->member[c->member]);
        d->member[c->member] = NULL;
    }
    return all;
}

/* --------------------------------------------------------------------------------------- passes */

/* Copies the state of process 0's cache to the member's, except the state that only a rewind reads:
   process 0 decides on rewinds. */
static void set_state(struct tft_session *s, const struct call *c)
{
    struct tft_kv *kv = &s->kv;
    for (int i = 0; i < TFT_KV_SIDES; i++) {
        kv->at[i] = c->at[i];
        kv->at[i].is_named = s->filter.named;
    }
    kv->held = c->held;
    kv->dropped = c->dropped;
    kv->policy.prefill = c->prefill;
}

static void get_state(struct call *c, const struct tft_kv *kv)
{
    for (int i = 0; i < TFT_KV_SIDES; i++)
        c->at[i] = kv->at[i];
    c->held = kv->held;
    c->dropped = kv->dropped;
    c->prefill = kv->policy.prefill;
}

/* Gives all members the filter's answers for the tokens of a pass. named: [c->n] in process 0, NULL
   in the other processes. */
static void share_names(struct device *d, const struct call *c, const bool *named)
{
    bool *own = d->member[c->member]->s->filter.named;
    if (!own)
        return;
    own += c->held;
    if (named || c->n <= SHORT_PASS)
        memcpy(own, named ? named : c->named, c->n * sizeof *own);
    if (c->n > SHORT_PASS)
        tft_mpi_spread(&d->part.link, own, c->n * sizeof *own);
}

/* tokens: [c->n]. x: in process 0 the rows of TFT_X, if the pass does not begin with tokens. */
static void run_together(struct device *d, const struct call *c, const int32_t *tokens,
                         const float *x)
{
    struct member *member = d->member[c->member];
    struct tft_session *s = member->s;
    struct tft_kv_chunk chunk;
    struct tft_kv_plan plain = tft_kv_plain_plan(&chunk, 0, c->n);
    struct tft_pass p = {.ops = &tft_mpi_ops,
                         .m = &d->part.m,
                         .s = s,
                         .work = s->work,
                         .logits = s->out.logits,
                         .state = member,
                         .plan = &plain,
                         .n_threads = s->n_threads,
                         .tokens = tokens,
                         .n = c->n,
                         .pos = c->pos,
                         .n_logits = c->n_logits};
    set_state(s, c);
    if (s->kv.ring && !c->held)
        tft_session_put_prefix(s);
    if (c->first < c->end) {
        tft_kv_plan(&s->kv, c->n);
        p.plan = &s->kv.plan;
    }
    for (uint32_t t = 0; t < c->n && c->first; t++) {
        float *row = tft_pass_row(&p, TFT_X, t);
        if (x)
            memcpy(row, x + t * tft_pass_stride(&p, TFT_X), d->m->n_embd * sizeof *row);
        tft_mpi_spread(&d->part.link, row, d->m->n_embd * sizeof *row);
    }
    tft_mpi_pass(&p, c->first, c->end);
    if (c->first < c->end)
        tft_kv_commit(&s->kv);
}

static void drop_together(struct device *d, const struct call *c)
{
    struct tft_session *s = d->member[c->member]->s;
    set_state(s, c);
    s->pos = c->pos;
    tft_kv_drop(&s->kv, &c->drop);
    tft_session_drop_tokens(s, c->drop.n);
    tft_kv_commit_drop(&s->kv, c->drop.n);
}

/* --------------------------------------------------------------------------------------- logits */

/* Sends the logits of the last pass to process 0. In process 0, `to` [c->n_logits, V] is the memory
   of the caller's session; in the other processes, `caller` and `to` are NULL. */
static void gather(struct device *d, const struct call *c, struct tft_session *caller, float *to)
{
    struct tft_session *s = d->member[c->member]->s;
    if (!c->asked.k)
        tft_mpi_gather(&d->part.link, to, d->m->n_vocab, s->out.logits, c->n_logits,
                       d->part.vocab_ends);
    else if (d->part.link.rank)
        tft_mpi_send_likeliest(&d->part, s, &c->asked);
    else
        tft_mpi_take_likeliest(&d->part, s, &c->asked, caller, to);
}

/* ------------------------------------------------------------------------------------ process 0 */

static void begin(struct device *d, const struct call *c)
{
    pthread_mutex_lock(&d->lock);
    tft_mpi_call(&d->part.link, c, sizeof *c);
}

static enum tft_status end(struct device *d, struct tft_error *err)
{
    enum tft_status status = tft_mpi_status(&d->part.link, err);
    pthread_mutex_unlock(&d->lock);
    return status;
}

static void session_close(void *state)
{
    struct own *own = state;
    struct device *d = own->device;
    struct call c = {.what = CLOSE, .member = own->member};
    struct tft_error ignored;
    begin(d, &c);
    close_member(d->member[own->member]);
    d->member[own->member] = NULL;
    end(d, &ignored);
    free(own->logits);
    free(own);
}

static enum tft_status session_open(void **out, void *device, struct tft_session *s,
                                    struct tft_error *err)
{
    struct device *d = device;
    struct tft_kv_policy kv = s->kv.policy;
    struct call c = {.what = OPEN,
                     .opts = {.capacity = s->capacity,
                              .n_batch = s->n_batch,
                              .n_logits = s->out.n_logits,
                              .n_threads = s->n_threads,
                              .slide = s->slide != 0},
                     .prefix = s->named ? (uint32_t)(s->named - d->m->named) + 1 : 0};
    struct own *own = calloc(1, sizeof *own);
    if (own)
        own->logits = calloc((size_t)s->out.n_logits * d->m->n_vocab, sizeof *own->logits);
    if (!own || !own->logits) {
        free(own);
        return no_memory(err);
    }
    pthread_mutex_lock(&d->lock);
    enum tft_status status = find_place(d, &c.member, err);
    if (status == TFT_OK) {
        tft_mpi_call(&d->part.link, &c, sizeof c);
        status = open_together(d, &c, &kv, err);
    }
    pthread_mutex_unlock(&d->lock);
    if (status != TFT_OK) {
        free(own->logits);
        free(own);
        return status;
    }
    own->device = d;
    own->s = s;
    own->member = c.member;
    s->out.logits = own->logits;
    *out = own;
    return TFT_OK;
}

/* Predicts the logits that the caller will request of a pass: as many as of the last pass, and one
   more for each new token, since a penalty may lower its logit. k = 0: all. */
static struct tft_asked expected(const struct own *own, const struct tft_pass *p)
{
    struct tft_asked a = own->asked.k ? own->asked : own->there;
    a.k += a.k ? p->n : 0;
    return p->n_logits == 1 && a.k <= own->device->part.most ? a : (struct tft_asked){0};
}

static enum tft_status bring(void *state, struct tft_session *s, const struct tft_asked *a)
{
    struct own *own = state;
    struct device *d = own->device;
    struct call c = {.what = LOGITS, .member = own->member, .n_logits = own->n_left};
    own->asked.k = a->k > own->asked.k ? a->k : own->asked.k;
    own->asked.inverse = a->inverse > 0 ? a->inverse : own->asked.inverse;
    bool has_rest = !(a->inverse > 0) || a->inverse == own->there.inverse;
    if (!s->out.partial || (a->k <= own->there.k && has_rest))
        return TFT_OK;
    begin(d, &c);
    gather(d, &c, s, own->logits);
    enum tft_status status = end(d, &s->error);
    if (status == TFT_OK) {
        own->there.k = 0;
        s->out.partial = false;
    }
    return status;
}

static enum tft_status run(struct tft_pass *p, uint32_t first, uint32_t last)
{
    struct own *own = p->state;
    struct device *d = own->device;
    struct tft_session *s = p->s;
    struct call c = {.what = RUN,
                     .member = own->member,
                     .n = p->n,
                     .pos = p->pos,
                     .n_logits = p->n_logits,
                     .asked = p->n_logits ? expected(own, p) : (struct tft_asked){0},
                     .first = first,
                     .end = last};
    get_state(&c, &s->kv);
    if (p->n <= SHORT_PASS && p->tokens)
        memcpy(c.token, p->tokens, p->n * sizeof *p->tokens);
    const bool *named = s->filter.named ? s->filter.named + s->kv.held : NULL;
    if (named && p->n <= SHORT_PASS)
        memcpy(c.named, named, p->n * sizeof *named);
    begin(d, &c);
    if (p->n > SHORT_PASS)
        tft_mpi_spread(&d->part.link, (void *)p->tokens, p->n * sizeof *p->tokens);
    share_names(d, &c, named);
    run_together(d, &c, p->tokens, p->work->buf[TFT_X]);
    gather(d, &c, s, own->logits);
    if (c.n_logits) {
        own->n_left = c.n_logits;
        own->there = c.asked;
        own->asked = (struct tft_asked){0};
        s->out.partial = c.asked.k > 0;
    }
    return end(d, &s->error);
}

static enum tft_status drop(void *state, struct tft_session *s, const struct tft_kv_drop *how)
{
    const struct own *own = state;
    struct call c = {.what = DROP, .member = own->member, .drop = *how, .pos = s->pos};
    get_state(&c, &s->kv);
    begin(own->device, &c);
    drop_together(own->device, &c);
    return end(own->device, &s->error);
}

/* -------------------------------------------------------------------------- the other processes */

/* The tokens of a pass. */
static const int32_t *tokens_of(struct device *d, const struct call *c)
{
    if (c->n <= SHORT_PASS)
        return c->token;
    int32_t *tokens = d->member[c->member]->tokens;
    tft_mpi_spread(&d->part.link, tokens, c->n * sizeof *tokens);
    return tokens;
}

/* Answers the calls of process 0. */
static enum tft_status serve(struct device *d, struct tft_error *err)
{
    struct call c;
    struct tft_kv_policy kv;
    struct tft_error unused;
    const int32_t *tokens;
    for (;;) {
        tft_mpi_await(&d->part.link, &c, sizeof c);
        if (d->part.link.error)
            return tft_mpi_status(&d->part.link, err);
        switch (c.what) {
        case OPEN: open_together(d, &c, &kv, &unused); break;
        case CLOSE:
            close_member(d->member[c.member]);
            d->member[c.member] = NULL;
            break;
        case RUN:
            tokens = tokens_of(d, &c);
            share_names(d, &c, NULL);
            run_together(d, &c, tokens, NULL);
            gather(d, &c, NULL, NULL);
            break;
        case LOGITS: gather(d, &c, NULL, NULL); break;
        case DROP: drop_together(d, &c); break;
        case QUIT:
            return tft_fail(err, TFT_ERR_CANCELLED,
                            "mpi: process %d of %d has computed for process 0, which is done",
                            d->part.link.rank, d->part.link.size);
        }
    }
}

/* --------------------------------------------------------------------------------------- models */

static void free_device(struct device *d)
{
    for (uint32_t i = 0; i < d->n_member; i++)
        close_member(d->member[i]);
    free(d->member);
    free(d->part.likeliest);
    free(d->part.memory);
    tft_mpi_leave(&d->part.link);
    pthread_mutex_destroy(&d->lock);
    free(d);
    current = NULL;
    atomic_store(&is_open, false);
}

static void dismiss(struct device *d)
{
    struct call c = {.what = QUIT};
    tft_mpi_call(&d->part.link, &c, sizeof c);
}

static void close_device(void *device)
{
    dismiss(device);
    free_device(device);
}

/* Else the other processes would wait for ever, or compute a pass that nobody finishes. */
static void at_exit(void)
{
    if (current && pthread_mutex_trylock(&current->lock) == 0)
        dismiss(current);
    else if (current)
        MPI_Abort(current->part.link.comm, 1);
}

static enum tft_status watch_exit(struct tft_error *err)
{
    static bool watched;
    if (!watched && atexit(at_exit) != 0)
        return no_memory(err);
    watched = true;
    return TFT_OK;
}

/* All processes must have the same file and the same build. */
struct same {
    char build[64];
    struct tft_identity model;
};

static enum tft_status compare(struct device *d, struct tft_error *err)
{
    struct same own = {.model = tft_identity_of(d->m)}, first;
    strncpy(own.build, tft_build_id, sizeof own.build - 1);
    first = own;
    tft_mpi_spread(&d->part.link, &first, sizeof first);
    if (strcmp(first.build, own.build) != 0)
        return tft_fail(err, TFT_ERR_DEVICE,
                        "mpi: process %d of %d has version %s of tuffet, process 0 has %s",
                        d->part.link.rank, d->part.link.size, own.build, first.build);
    if (first.model.file_bytes != own.model.file_bytes ||
        first.model.weight_bytes != own.model.weight_bytes ||
        first.model.described != own.model.described || first.model.sampled != own.model.sampled)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: in process %d of %d it is not the model that process 0 has",
                        d->m->source.name, d->part.link.rank, d->part.link.size);
    return TFT_OK;
}

static enum tft_status open_part(struct device *d, struct tft_error *err)
{
    enum tft_status status = compare(d, err);
    if (status == TFT_OK)
        status = watch_exit(err);
    status = tft_mpi_agree(&d->part.link, status, err);
    if (status != TFT_OK)
        return status;
    status = tft_mpi_cut(&d->part, d->m, err);
    if (status == TFT_OK)
        status = tft_mpi_make_room(&d->part, err);
    status = tft_mpi_agree(&d->part.link, status, err);
    tft_source_forget(&d->m->source, d->m->source.data, d->m->source.size);
    return status;
}

static enum tft_status open_device(void **out, const struct tft_model *m, uint32_t which,
                                   struct tft_error *err)
{
    if (which)
        return tft_fail(err, TFT_ERR_ARG, "mpi:%u: there is no second mpi", which);
    if (atomic_exchange(&is_open, true))
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: mpi computes one model at a time",
                        m->source.name);
    struct device *d = calloc(1, sizeof *d);
    if (!d) {
        atomic_store(&is_open, false);
        return no_memory(err);
    }
    d->m = m;
    pthread_mutex_init(&d->lock, NULL);
    enum tft_status status = tft_mpi_join(&d->part.link, err);
    if (status == TFT_OK)
        status = open_part(d, err);
    if (status == TFT_OK && d->part.link.rank)
        status = serve(d, err);
    else if (status != TFT_OK && d->part.link.rank && !d->part.link.error)
        status = TFT_ERR_CANCELLED; /* process 0 reports the error */
    if (status != TFT_OK)
        free_device(d);
    else
        *out = current = d;
    return status;
}

static void limits(const void *device, double *read, double *int8, double *fma)
{
    (void)device; /* the rates of the slowest machine and of the network are unknown */
    *read = *int8 = *fma = NAN;
}

/* Bytes of the sums of the embedding, and of o and down of each layer; of the ends of ranges by
   token; and of the logits of the other processes. */
static size_t exchanged(const void *device, const struct tft_asked *a)
{
    const struct device *d = device;
    size_t sums = (2 * (size_t)d->m->n_layer + 1) * d->m->n_embd,
           logits = d->m->n_vocab - d->part.vocab_ends[0],
           others = (size_t)d->part.link.size - 1, ranges = 0;
    for (uint32_t l = 0; l < d->m->n_layer; l++)
        ranges += (size_t)(d->m->layer[l].o.in->range == TFT_RANGE_TOKEN) +
                  (size_t)(d->m->layer[l].down.in->range == TFT_RANGE_TOKEN);
    return 4 * (sums + 2 * ranges) +
           (a->k <= d->part.most ? others * tft_mpi_likeliest_bytes(a->k) : 4 * logits);
}

TFT_API tft_device_fn tft_device;

const struct tft_backend *tft_device(void)
{
    static const struct tft_backend mpi = {
        .build_id = tft_build_id,
        .name = "mpi",
        .parts = TFT_BIT(TFT_PART_GEGLU) | TFT_BIT(TFT_PART_EMBED_SCALE) |
                  TFT_BIT(TFT_PART_RESIDUAL_SCALE) | TFT_BIT(TFT_PART_LOGIT_SCALE) |
                  TFT_BIT(TFT_PART_ATTN_SCALE) | TFT_BIT(TFT_PART_NO_PRE_NORM) |
                  TFT_BIT(TFT_PART_POST_NORM) | TFT_BIT(TFT_PART_LATE_QK_NORM) |
                  TFT_BIT(TFT_PART_OWN_QK_NORM) | TFT_BIT(TFT_PART_PARALLEL) |
                  TFT_BIT(TFT_PART_ROPE_LAYERS) | TFT_BIT(TFT_PART_ROPE_AMPLITUDE) |
                  TFT_BIT(TFT_PART_ROPE_BY_CONTEXT) | TFT_BIT(TFT_PART_SCORE_CAP) |
                  TFT_BIT(TFT_PART_LOGIT_CAP) | TFT_BIT(TFT_PART_WINDOW) |
                  TFT_BIT(TFT_PART_QUERY_SCALE) | TFT_BIT(TFT_PART_RELU2),
        .has_fisher = true,
        .ops = {0}, /* the parts' passes have their own operations */
        .open = open_device,
        .close = close_device,
        .limits = limits,
        .exchanged = exchanged,
        .session_open = session_open,
        .session_close = session_close,
        .run = run,
        .bring = bring,
        .drop = drop,
    };
    return &mpi;
}
