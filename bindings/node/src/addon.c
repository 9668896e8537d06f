/* addon.c - the functions that index.js calls. */
#include "addon.h"

static void never_called(napi_env env, napi_value function, void *context, void *data)
{
    (void)env;
    (void)function;
    (void)context;
    (void)data;
}

/* Keeps `env` alive until Node closes the handles of its event loop. Without, Node (seen with 20)
   may use it after it was freed: if objects are collected while Node ends, the second pass of
   EnqueueFinalizer (Node's src/node_api.cc) first lets go of `env`, maybe as the last that holds
   it, and then drains its queue. That is before handles are closed. A thread-safe function is a
   handle that holds `env`; unreferenced, it does not keep the process from ending. */
static bool hold(napi_env env)
{
    napi_threadsafe_function f;
    napi_value name = text_value(env, "tuffet", 6);
    return name &&
           ok(env, napi_create_threadsafe_function(env, NULL, NULL, name, 0, 1, NULL, NULL, NULL,
                                                   never_called, &f)) &&
           ok(env, napi_unref_threadsafe_function(env, f));
}

NAPI_MODULE_INIT()
{
    static const struct {
        const char *name;
        napi_callback call;
    } functions[] = {
#define ENTRY(name, function) {#name, function},
        FUNCTIONS(ENTRY)
#undef ENTRY
    };
    if (!hold(env))
        return NULL;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        napi_value f;
        if (!ok(env, napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH,
                                          functions[i].call, NULL, &f)) ||
            !put(env, exports, functions[i].name, f))
            return NULL;
    }
    return exports;
}
