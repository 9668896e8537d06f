/* saved.c - sessions that are saved, loaded and copied. */
#include "session.h"

#include <stdlib.h>

struct saving {
    struct work work;
    struct session *session;
    char *path;
};

static void save_compute(struct work *w)
{
    struct saving *s = (struct saving *)w;
    w->status = tft_session_save(s->session->s, NULL, s->path, &w->err);
}

static void load_compute(struct work *w)
{
    struct saving *s = (struct saving *)w;
    w->status = tft_session_load(s->session->s, NULL, s->path, &w->err);
}

static void save_end(struct work *w)
{
    struct saving *s = (struct saving *)w;
    if (s->session)
        session_done(s->session);
    free(s->path);
    free(s);
}

static napi_value start(napi_env env, napi_callback_info info, void (*compute)(struct work *w),
                        enum use use)
{
    napi_value argv[2];
    struct saving *s = calloc(1, sizeof *s);
    if (!s)
        return throw_status(env, TFT_ERR_NOMEM, NULL);
    s->work.compute = compute;
    s->work.result = work_nothing;
    s->work.end = save_end;
    if (arguments(env, info, 2, argv) && (s->path = read_text(env, argv[1], "the path", NULL)) &&
        (s->session = session_get(env, argv[0], use)))
        return session_start(env, s->session, &s->work);
    save_end(&s->work);
    return NULL;
}

/* sessionSave(session, path), sessionLoad(session, path): promises */
napi_value session_save(napi_env env, napi_callback_info info)
{
    return start(env, info, save_compute, READ);
}

napi_value session_load(napi_env env, napi_callback_info info)
{
    return start(env, info, load_compute, FEED);
}

/* sessionDump(session): a Uint8Array */
napi_value session_dump(napi_env env, napi_callback_info info)
{
    napi_value argv[1], buffer, array;
    struct tft_error err = {0};
    void *data;
    const struct session *session =
        arguments(env, info, 1, argv) ? session_get(env, argv[0], READ) : NULL;
    if (!session)
        return NULL;
    const size_t n = tft_session_save_bytes(session->s, NULL);
    if (!ok(env, napi_create_arraybuffer(env, n, &data, &buffer)))
        return NULL;
    const enum tft_status status = tft_session_save_mem(session->s, NULL, data, n, &err);
    if (status != TFT_OK)
        return throw_status(env, status, &err);
    return ok(env, napi_create_typedarray(env, napi_uint8_array, n, buffer, 0, &array)) ? array
                                                                                         : NULL;
}

/* sessionRestore(session, bytes) */
napi_value session_restore(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    struct tft_error err = {0};
    size_t n;
    const uint8_t *data = NULL;
    struct session *session = NULL;
    if (arguments(env, info, 2, argv) && (data = read_bytes(env, argv[1], "the session", &n)))
        session = session_get(env, argv[0], FEED);
    if (!session)
        return NULL;
    const enum tft_status status = tft_session_load_mem(session->s, NULL, data, n, &err);
    return status == TFT_OK ? NULL : throw_status(env, status, &err);
}

/* sessionCopy(to, from) */
napi_value session_copy(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    struct tft_error err = {0};
    struct session *to = arguments(env, info, 2, argv) ? session_get(env, argv[0], FEED) : NULL;
    const struct session *from = to ? session_get(env, argv[1], READ) : NULL;
    if (!from)
        return NULL;
    const enum tft_status status = tft_session_copy(to->s, from->s, &err);
    return status == TFT_OK ? NULL : throw_status(env, status, &err);
}
