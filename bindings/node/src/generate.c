#include "session.h"

#include <math.h>
#include <stdlib.h>

/* generateBegin(session, sampler, tokens, maxTokens, goesOn): makes the session generate. The
   prompt is fed by the first generateNext. */
napi_value generate_begin(napi_env env, napi_callback_info info)
{
    napi_value argv[5];
    double left = 0;
    bool goes_on;
    size_t n;
    int32_t *ids = NULL;
    struct sampler *sampler;
    struct session *session;
    if (!arguments(env, info, 5, argv) ||
        !read_number(env, argv[3], "maxTokens", 0, INFINITY, &left) ||
        !read_bool(env, argv[4], "goesOn", &goes_on) || !(ids = read_tokens(env, argv[2], &n)) ||
        !(session = session_get(env, argv[0], FEED)) ||
        !(sampler = sampler_for(env, argv[1], session))) {
        free(ids);
        return NULL;
    }
    session->prompt = ids;
    session->n_prompt = n;
    session->sampler = sampler;
    session->text = (struct tft_text){.started = goes_on};
    session->next = -1;
    session->left = floor(left);
    session->stopped = NULL;
    sampler->handle.users++;
    return NULL;
}

void session_forget(struct session *session)
{
    if (!session->sampler)
        return;
    free(session->prompt);
    session->prompt = NULL;
    handle_leave(&session->sampler->handle);
    session->sampler = NULL;
}

/* generateEnd(session): it may be fed again; also of a session that is closed */
napi_value generate_end(napi_env env, napi_callback_info info)
{
    napi_value argv[1];
    const struct session *session =
        arguments(env, info, 1, argv) ? handle_peek(env, argv[0], SESSION) : NULL;
    if (session && session->handle.open) {
        struct session *mine = session_get(env, argv[0], WRITE);
        if (mine)
            session_forget(mine);
    }
    return NULL;
}

struct step {
    struct work work;
    struct session *session;
};

/* Makes the session hold the prompt. Tokens of its prefix are not fed. */
static enum tft_status feed_prompt(struct session *session)
{
    const int32_t *ids = session->prompt;
    const size_t n = session->n_prompt,
                 held = tft_prefix_held(session->model->m, session->prefix, ids, n);
    if (held < n)
        return tft_sync(session->s, ids + held, n - held);
    const enum tft_status status = tft_rewind(session->s, 0);
    return status == TFT_OK ? tft_prefill(session->s, NULL, 0) : status;
}

/* Chooses tokens until one completes a text, or the text has ended. */
static void next_compute(struct work *w)
{
    struct session *session = ((struct step *)w)->session;
    const struct tft_model *m = session->model->m;
    struct tft_sampler *z = &session->sampler->z;
    if (session->prompt) {
        session_status(session, w, feed_prompt(session));
        if (w->status != TFT_OK)
            return;
        free(session->prompt);
        session->prompt = NULL;
    }
    for (session->n_out = 0; session->n_out == 0 && !session->stopped;) {
        if (session->left < 1) {
            session->stopped = "length";
            break;
        }
        const enum tft_status status =
            session->next < 0 ? TFT_OK : tft_decode(session->s, session->next);
        if (status == TFT_ERR_FULL) {
            session->stopped = "full";
            break;
        }
        if (status != TFT_OK) {
            session_status(session, w, status);
            return;
        }
        session->next = -1;
        if (atomic_load(&session->handle.stop)) {
            w->status = TFT_ERR_CANCELLED;
            return;
        }
        const bool done = z->grammar && tft_grammar_is_done(z->grammar);
        const int32_t id = done ? -1 : tft_sample(z, session->s);
        if (done || tft_token_ends(m, id)) {
            session->stopped = "end";
            break;
        }
        if (id < 0) {
            w->status = TFT_ERR_ARG;
            w->err = (struct tft_error){.code = TFT_ERR_ARG, .msg = "no token may come next"};
            return;
        }
        session->n_out = tft_text_push(&session->text, m, id, session->out);
        session->next = id;
        session->left--;
    }
    if (session->n_out == 0)
        session->n_out = tft_text_push(&session->text, m, -1, session->out);
}

static napi_value next_result(napi_env env, struct work *w)
{
    const struct session *session = ((struct step *)w)->session;
    return session->n_out ? text_value(env, session->out, session->n_out) : null_value(env);
}

static void next_end(struct work *w)
{
    session_done(((struct step *)w)->session);
    free(w);
}

/* generateNext(session): a promise of more text, or of null at its end */
napi_value generate_next(napi_env env, napi_callback_info info)
{
    napi_value argv[1];
    struct session *session =
        arguments(env, info, 1, argv) ? session_get(env, argv[0], WRITE) : NULL;
    if (!session)
        return NULL;
    if (!session->sampler)
        return throw_argument(env, "the session generates no text");
    struct step *step = calloc(1, sizeof *step);
    if (!step)
        return throw_status(env, TFT_ERR_NOMEM, NULL);
    step->session = session;
    step->work.compute = next_compute;
    step->work.result = next_result;
    step->work.end = next_end;
    return session_start(env, session, &step->work);
}
