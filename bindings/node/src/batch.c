/* batch.c - several sessions of a model in one pass. */
#include "session.h"

#include <stdlib.h>

static const struct option options[] = {
    {"nSessions", OPTION_U32, offsetof(struct tft_batch_opts, n_sessions), 0, UINT32_MAX},
    {"nTokens", OPTION_U32, offsetof(struct tft_batch_opts, n_tokens), 0, UINT32_MAX},
    {"threads", OPTION_INT, offsetof(struct tft_batch_opts, n_threads), 0, 1024},
    {NULL, OPTION_INT, 0, 0, 0}};

struct batch { /* of a model */
    struct handle handle;
    struct tft_batch *b;
    bool computing;
};

static void end(struct handle *h)
{
    tft_batch_close(((struct batch *)h)->b);
}

/* batchOpen(model, options): a handle */
napi_value batch_open(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    struct tft_batch_opts opts = {.size = sizeof opts};
    struct tft_error err = {0};
    struct model *model;
    if (!arguments(env, info, 2, argv) || !options_read(env, argv[1], options, &opts) ||
        !(model = handle_get(env, argv[0], MODEL)))
        return NULL;
    struct batch *batch = calloc(1, sizeof *batch);
    const enum tft_status status =
        batch ? tft_batch_open(&batch->b, model->m, &opts, &err) : TFT_ERR_NOMEM;
    if (status != TFT_OK) {
        free(batch);
        return throw_status(env, status, &err);
    }
    batch->handle.kind = BATCH;
    batch->handle.end = end;
    return handle_new(env, &batch->handle, &model->handle);
}

struct stepping {
    struct work work;
    struct batch *batch; /* NULL until it is marked as computing */
    size_t n;            /* steps */
    size_t n_locked;     /* the first ones: their sessions are marked as computing */
    struct tft_step *step;
    struct session **session;
    int32_t **ids;
};

/* Each step has a status of its own. */
static void compute(struct work *w)
{
    struct stepping *s = (struct stepping *)w;
    (void)tft_step(s->batch->b, s->step, s->n);
}

/* An array: for each session null, or its error. */
static napi_value result(napi_env env, struct work *w)
{
    const struct stepping *s = (struct stepping *)w;
    napi_value list;
    if (!ok(env, napi_create_array(env, &list)))
        return NULL;
    for (uint32_t i = 0; i < s->n; i++) {
        const enum tft_status status = s->step[i].status;
        const struct session *session = s->session[i];
        napi_value error = !session->handle.open ? closed_error(env, &session->handle)
                           : status == TFT_OK
                               ? null_value(env)
                               : error_of(env, status, tft_session_error(session->s));
        if (!error || !ok(env, napi_set_element(env, list, i, error)))
            return NULL;
    }
    return list;
}

static void step_end(struct work *w)
{
    struct stepping *s = (struct stepping *)w;
    for (size_t i = 0; i < s->n_locked; i++) {
        session_done(s->session[i]);
        handle_leave(&s->session[i]->handle);
    }
    for (size_t i = 0; i < s->n && s->ids; i++)
        free(s->ids[i]);
    if (s->batch)
        s->batch->computing = false;
    free(s->step);
    free(s->session);
    free(s->ids);
    free(s);
}

/* Reads the array of arrays of tokens. */
static bool read_fed(napi_env env, napi_value v, struct stepping *s)
{
    uint32_t n;
    if (napi_get_array_length(env, v, &n) != napi_ok)
        return throw_argument(env, "tokens must be an array of arrays"), false;
    s->step = calloc((size_t)n + 1, sizeof *s->step);
    s->session = calloc((size_t)n + 1, sizeof *s->session);
    s->ids = calloc((size_t)n + 1, sizeof *s->ids);
    if (!s->step || !s->session || !s->ids)
        return throw_status(env, TFT_ERR_NOMEM, NULL), false;
    for (s->n = 0; s->n < n; s->n++) {
        napi_value tokens;
        struct tft_step *step = &s->step[s->n];
        if (!ok(env, napi_get_element(env, v, (uint32_t)s->n, &tokens)) ||
            !(s->ids[s->n] = read_tokens(env, tokens, &step->n)))
            return false;
        step->tokens = s->ids[s->n];
    }
    return true;
}

/* Marks the sessions as computing, so that one that is there twice is refused. */
static bool lock(napi_env env, napi_value sessions, struct stepping *s)
{
    for (; s->n_locked < s->n; s->n_locked++) {
        napi_value v;
        struct session *session;
        if (!ok(env, napi_get_element(env, sessions, (uint32_t)s->n_locked, &v)) ||
            !(session = session_get(env, v, FEED)))
            return false;
        session->computing = true;
        session->handle.users++;
        s->session[s->n_locked] = session;
        s->step[s->n_locked].session = session->s;
    }
    return true;
}

/* batchStep(batch, sessions, tokens): a promise of an array, for each session null or an error */
napi_value batch_step(napi_env env, napi_callback_info info)
{
    napi_value argv[3];
    struct batch *batch;
    struct stepping *s = calloc(1, sizeof *s);
    if (!s)
        return throw_status(env, TFT_ERR_NOMEM, NULL);
    s->work.compute = compute;
    s->work.result = result;
    s->work.end = step_end;
    if (arguments(env, info, 3, argv) && read_fed(env, argv[2], s) && lock(env, argv[1], s) &&
        (batch = handle_get(env, argv[0], BATCH))) {
        if (!batch->computing) {
            batch->computing = true;
            s->batch = batch;
            s->work.handle = &batch->handle;
            return work_start(env, &s->work);
        }
        napi_throw(env, own_error(env, "BUSY", "the batch is busy: it computes"));
    }
    step_end(&s->work);
    return NULL;
}
