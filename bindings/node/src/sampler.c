#include "addon.h"

#include <float.h>
#include <stdlib.h>

static const struct option options[] = {
    {"temperature", OPTION_FLOAT, offsetof(struct tft_sampler, temperature), 0, FLT_MAX},
    {"topK", OPTION_INT, offsetof(struct tft_sampler, top_k), 0, INT32_MAX},
    {"topP", OPTION_FLOAT, offsetof(struct tft_sampler, top_p), 0, 1},
    {"minP", OPTION_FLOAT, offsetof(struct tft_sampler, min_p), 0, 1},
    {"repeatPenalty", OPTION_FLOAT, offsetof(struct tft_sampler, repeat_penalty), 0, FLT_MAX},
    {"repeatLast", OPTION_INT, offsetof(struct tft_sampler, repeat_last), 0, INT32_MAX},
    {"seed", OPTION_SEED, offsetof(struct tft_sampler, seed), 0, 0},
    {NULL, OPTION_INT, 0, 0, 0}};

static void end(struct handle *h)
{
    struct sampler *sampler = (struct sampler *)h;
    tft_grammar_end(sampler->z.grammar);
}

/* samplerOpen(grammar or undefined, options): a handle */
napi_value sampler_open(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    napi_valuetype type;
    struct grammar *grammar = NULL;
    struct tft_error err = {0};
    enum tft_status status = TFT_OK;
    struct sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return throw_status(env, TFT_ERR_NOMEM, NULL);
    sampler->handle.kind = SAMPLER;
    sampler->handle.end = end;
    if (arguments(env, info, 2, argv) && options_read(env, argv[1], options, &sampler->z) &&
        ok(env, napi_typeof(env, argv[0], &type)) &&
        (type == napi_undefined || (grammar = handle_get(env, argv[0], GRAMMAR)))) {
        if (grammar)
            status = tft_grammar_begin(&sampler->z.grammar, grammar->g, &err);
        if (status == TFT_OK)
            return handle_new(env, &sampler->handle, grammar ? &grammar->handle : NULL);
        throw_status(env, status, &err);
    }
    free(sampler);
    return NULL;
}
