#include "session.h"

#include <stdlib.h>
#include <string.h>

static const struct option options[] = {
    {"capacity", OPTION_U32, offsetof(struct tft_session_opts, capacity), 0, UINT32_MAX},
    {"nBatch", OPTION_U32, offsetof(struct tft_session_opts, n_batch), 0, UINT32_MAX},
    {"nLogits", OPTION_U32, offsetof(struct tft_session_opts, n_logits), 0, UINT32_MAX},
    {"threads", OPTION_INT, offsetof(struct tft_session_opts, n_threads), 0, 1024},
    {"slide", OPTION_BOOL, offsetof(struct tft_session_opts, slide), 0, 0},
    {"kv", OPTION_TEXT, offsetof(struct tft_session_opts, kv), 0, 0},
    {"prefix", OPTION_TEXT, offsetof(struct tft_session_opts, prefix), 0, 0},
    {"checkpoints", OPTION_U32, offsetof(struct tft_session_opts, checkpoints), 0, UINT32_MAX},
    {"nHidden", OPTION_U32, offsetof(struct tft_session_opts, n_hidden), 0, UINT32_MAX},
    {"noLogits", OPTION_BOOL, offsetof(struct tft_session_opts, no_logits), 0, 0},
    {"lookup", OPTION_U32, offsetof(struct tft_session_opts, lookup), 0, UINT32_MAX},
    {NULL, OPTION_INT, 0, 0, 0}};

static bool goes_on(void *user, double done)
{
    const struct session *session = user;
    (void)done;
    return !atomic_load(&session->handle.stop);
}

static void end(struct handle *h)
{
    struct session *session = (struct session *)h;
    int64_t total;
    session_forget(session);
    tft_session_close(session->s);
    free(session->prefix);
    napi_adjust_external_memory(session->env, -session->bytes, &total);
}

/* Opens the session of a struct with all other members set. */
static enum tft_status open_raw(struct session *session, struct tft_session_opts *opts,
                                struct tft_error *err)
{
    const size_t n = opts->prefix ? strlen(opts->prefix) + 1 : 0;
    if (n && !(session->prefix = malloc(n)))
        return TFT_ERR_NOMEM;
    if (n)
        memcpy(session->prefix, opts->prefix, n);
    opts->progress = goes_on;
    opts->progress_user = session;
    return tft_session_open(&session->s, session->model->m, opts, err);
}

/* sessionOpen(model, options): a handle */
napi_value session_open(napi_env env, napi_callback_info info)
{
    napi_value argv[2], result = NULL;
    struct tft_session_opts opts = {.size = sizeof opts};
    struct tft_error err = {0};
    struct session *session = calloc(1, sizeof *session);
    if (!session)
        return throw_status(env, TFT_ERR_NOMEM, NULL);
    if (!arguments(env, info, 2, argv) || !options_read(env, argv[1], options, &opts) ||
        !(session->model = handle_get(env, argv[0], MODEL)))
        goto out;
    session->handle.kind = SESSION;
    session->handle.end = end;
    session->env = env;
    const enum tft_status status = open_raw(session, &opts, &err);
    if (status != TFT_OK) {
        free(session->prefix);
        throw_status(env, status, &err);
        goto out;
    }
    session->bytes = (int64_t)tft_session_bytes(session->model->m, &opts, NULL);
    napi_adjust_external_memory(env, session->bytes, &(int64_t){0});
    result = handle_new(env, &session->handle, &session->model->handle);
    session = NULL;
out:
    options_free(options, &opts);
    free(session);
    return result;
}

struct session *session_get(napi_env env, napi_value v, enum use use)
{
    struct session *session = handle_get(env, v, SESSION);
    const char *line = NULL;
    if (session && session->computing)
        line = "the session is busy: it computes";
    else if (session && session->sampler && use == FEED)
        line = "the session is busy: it generates a text";
    if (!line)
        return session;
    napi_throw(env, own_error(env, "BUSY", line));
    return NULL;
}

napi_value session_start(napi_env env, struct session *session, struct work *w)
{
    w->handle = &session->handle;
    session->computing = true;
    atomic_store(&session->handle.stop, false);
    return work_start(env, w);
}

void session_done(struct session *session)
{
    session->computing = false;
}

void session_status(struct session *session, struct work *w, enum tft_status status)
{
    if ((w->status = status) != TFT_OK)
        w->err = *tft_session_error(session->s);
}

/* sessionStop(session): ends its computation, if there is one; also of a closed session */
napi_value session_stop(napi_env env, napi_callback_info info)
{
    napi_value argv[1];
    struct session *session =
        arguments(env, info, 1, argv) ? handle_peek(env, argv[0], SESSION) : NULL;
    if (session)
        atomic_store(&session->handle.stop, true);
    return NULL;
}

/* Feeding */

struct feeding {
    struct work work;
    struct session *session;
    bool sync; /* the session is to hold these tokens alone */
    int32_t *ids;
    size_t n;
};

static void feed_compute(struct work *w)
{
    struct feeding *f = (struct feeding *)w;
    struct tft_session *s = f->session->s;
    session_status(f->session, w,
                   f->sync ? tft_sync(s, f->ids, f->n) : tft_prefill(s, f->ids, f->n));
}

static void feed_end(struct work *w)
{
    struct feeding *f = (struct feeding *)w;
    if (f->session)
        session_done(f->session);
    free(f->ids);
    free(f);
}

/* sessionFeed(session, tokens, sync): a promise */
napi_value session_feed(napi_env env, napi_callback_info info)
{
    napi_value argv[3];
    struct feeding *f = calloc(1, sizeof *f);
    if (!f)
        return throw_status(env, TFT_ERR_NOMEM, NULL);
    f->work.compute = feed_compute;
    f->work.result = work_nothing;
    f->work.end = feed_end;
    if (arguments(env, info, 3, argv) && (f->ids = read_tokens(env, argv[1], &f->n)) &&
        read_bool(env, argv[2], "sync", &f->sync) &&
        (f->session = session_get(env, argv[0], FEED)))
        return session_start(env, f->session, &f->work);
    feed_end(&f->work);
    return NULL;
}

/* Calls that take little time. */

static napi_value done(napi_env env, const struct session *session, enum tft_status status)
{
    return status == TFT_OK ? NULL : throw_status(env, status, tft_session_error(session->s));
}

/* sessionRewind(session, pos) */
napi_value session_rewind(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    double pos;
    struct session *session = NULL;
    if (arguments(env, info, 2, argv) && read_integer(env, argv[1], "pos", 0, UINT32_MAX, &pos))
        session = session_get(env, argv[0], FEED);
    return session ? done(env, session, tft_rewind(session->s, (size_t)pos)) : NULL;
}

/* sessionUseThreads(session, n) */
napi_value session_use_threads(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    double n;
    struct session *session = NULL;
    if (arguments(env, info, 2, argv) && read_integer(env, argv[1], "threads", 1, 1024, &n))
        session = session_get(env, argv[0], READ);
    return session ? done(env, session, tft_session_threads(session->s, (int)n)) : NULL;
}

/* sessionPromptEnd(session) */
napi_value session_prompt_end(napi_env env, napi_callback_info info)
{
    napi_value argv[1];
    struct session *session =
        arguments(env, info, 1, argv) ? session_get(env, argv[0], FEED) : NULL;
    if (session)
        tft_prompt_end(session->s);
    return NULL;
}

struct sampler *sampler_for(napi_env env, napi_value v, const struct session *session)
{
    struct sampler *sampler = handle_get(env, v, SAMPLER);
    const struct handle *grammar = sampler ? sampler->handle.parent : NULL;
    if (!grammar || grammar->parent == &session->model->handle)
        return sampler;
    return (void *)throw_argument(env, "the grammar is of another model");
}

/* sessionSample(session, sampler): a token, or null */
napi_value session_sample(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    struct session *session =
        arguments(env, info, 2, argv) ? session_get(env, argv[0], READ) : NULL;
    struct sampler *sampler = session ? sampler_for(env, argv[1], session) : NULL;
    if (!sampler)
        return NULL;
    const int32_t id = tft_sample(&sampler->z, session->s);
    return id < 0 ? null_value(env) : number_value(env, id);
}
