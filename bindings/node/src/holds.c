/* holds.c - the tokens and logits of a session. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

static struct session *read_session(napi_env env, napi_callback_info info)
{
    napi_value argv[1];
    return arguments(env, info, 1, argv) ? session_get(env, argv[0], READ) : NULL;
}

/* sessionPos(session), sessionCapacity(session), sessionGuessed(session): numbers */
napi_value session_pos(napi_env env, napi_callback_info info)
{
    const struct session *session = read_session(env, info);
    return session ? number_value(env, (double)tft_pos(session->s)) : NULL;
}

napi_value session_capacity(napi_env env, napi_callback_info info)
{
    const struct session *session = read_session(env, info);
    return session ? number_value(env, (double)tft_capacity(session->s)) : NULL;
}

napi_value session_guessed(napi_env env, napi_callback_info info)
{
    const struct session *session = read_session(env, info);
    return session ? number_value(env, (double)tft_guessed(session->s)) : NULL;
}

/* sessionTokens(session): an Int32Array */
napi_value session_tokens(napi_env env, napi_callback_info info)
{
    const struct session *session = read_session(env, info);
    return session ? tokens_value(env, tft_tokens(session->s), tft_pos(session->s)) : NULL;
}

/* sessionStopped(session): why its last text has ended, or null */
napi_value session_stopped(napi_env env, napi_callback_info info)
{
    const struct session *session = read_session(env, info);
    if (!session)
        return NULL;
    return session->stopped ? text_value(env, session->stopped, strlen(session->stopped))
                            : null_value(env);
}

static napi_value row(napi_env env, napi_callback_info info,
                      const float *(*of)(const struct tft_session *s, size_t back), bool logits)
{
    napi_value argv[2];
    double back;
    struct tft_model_info i = {.size = sizeof i};
    const struct session *session = NULL;
    if (arguments(env, info, 2, argv) && read_integer(env, argv[1], "back", 0, UINT32_MAX, &back))
        session = session_get(env, argv[0], READ);
    if (!session)
        return NULL;
    const float *x = of(session->s, (size_t)back);
    tft_model_describe(session->model->m, &i);
    return x ? floats_value(env, x, logits ? i.n_vocab : i.n_embd) : null_value(env);
}

/* sessionLogits(session, back), sessionHidden(session, back): a Float32Array, or null */
napi_value session_logits(napi_env env, napi_callback_info info)
{
    return row(env, info, tft_logits, true);
}

napi_value session_hidden(napi_env env, napi_callback_info info)
{
    return row(env, info, tft_hidden, false);
}

static napi_value choice_value(napi_env env, const struct tft_choice *c)
{
    napi_value object;
    if (!ok(env, napi_create_object(env, &object)) ||
        !put(env, object, "token", number_value(env, c->id)) ||
        !put(env, object, "logprob", number_value(env, (double)c->logprob)))
        return NULL;
    return object;
}

/* sessionLikeliest(session, k): an array of {token, logprob} */
napi_value session_likeliest(napi_env env, napi_callback_info info)
{
    napi_value argv[2], list;
    double most;
    struct tft_model_info i = {.size = sizeof i};
    struct session *session = NULL;
    if (arguments(env, info, 2, argv) && read_integer(env, argv[1], "k", 0, UINT32_MAX, &most))
        session = session_get(env, argv[0], READ);
    if (!session || !ok(env, napi_create_array(env, &list)))
        return NULL;
    tft_model_describe(session->model->m, &i);
    const size_t k = most < i.n_vocab ? (size_t)most : i.n_vocab;
    struct tft_choice *choices = malloc(k * sizeof *choices + 1);
    if (!choices)
        return throw_status(env, TFT_ERR_NOMEM, NULL);
    const size_t n = tft_likeliest(session->s, NULL, choices, k);
    for (uint32_t c = 0; c < n && list; c++) {
        napi_value choice = choice_value(env, &choices[c]);
        if (!choice || !ok(env, napi_set_element(env, list, c, choice)))
            list = NULL;
    }
    free(choices);
    return list;
}

/* sessionLogprob(session, token): a number */
napi_value session_logprob(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    double id;
    struct session *session = NULL;
    if (arguments(env, info, 2, argv) &&
        read_integer(env, argv[1], "a token", INT32_MIN, INT32_MAX, &id))
        session = session_get(env, argv[0], READ);
    return session ? number_value(env, (double)tft_logprob(session->s, NULL, (int32_t)id)) : NULL;
}
