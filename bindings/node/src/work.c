#include "addon.h"

/* `env` is not used here: this may be any thread. */
static void execute(napi_env env, void *data)
{
    struct work *w = data;
    (void)env;
    w->compute(w);
}

static void end(napi_env env, struct work *w)
{
    struct handle *h = w->handle;
    if (w->work)
        napi_delete_async_work(env, w->work);
    w->end(w);
    if (h)
        handle_leave(h);
}

/* While Node ends, JavaScript can no longer run: calls fail, and there is nobody to tell. */
static void complete(napi_env env, napi_status status, void *data)
{
    struct work *w = data;
    napi_value value = NULL, error = NULL;
    (void)status; /* works are never cancelled in the pool's queue */
    if (w->handle && !w->handle->open)
        error = closed_error(env, w->handle);
    else if (w->status != TFT_OK)
        error = error_of(env, w->status, &w->err);
    else
        value = w->result(env, w);
    if (!value && !error)
        napi_get_and_clear_last_exception(env, &error);
    if (value)
        napi_resolve_deferred(env, w->deferred, value);
    else
        napi_reject_deferred(env, w->deferred, error);
    end(env, w);
}

napi_value work_nothing(napi_env env, struct work *w)
{
    napi_value undefined;
    (void)w;
    return ok(env, napi_get_undefined(env, &undefined)) ? undefined : NULL;
}

napi_value work_start(napi_env env, struct work *w)
{
    napi_value promise = NULL, name = text_value(env, "tuffet", 6);
    if (w->handle)
        w->handle->users++;
    if (name && ok(env, napi_create_promise(env, &w->deferred, &promise)) &&
        ok(env, napi_create_async_work(env, NULL, name, execute, complete, w, &w->work)) &&
        ok(env, napi_queue_async_work(env, w->work)))
        return promise;
    end(env, w);
    return NULL;
}
