#include "addon.h"

#include <float.h>
#include <stdlib.h>

#define OF(member) offsetof(struct sampler, member)

static const struct option options[] = {
    {"temperature", OPTION_FLOAT, OF(z.temperature), 0, FLT_MAX},
    {"topK", OPTION_INT, OF(z.top_k), 0, INT32_MAX},
    {"topP", OPTION_FLOAT, OF(z.top_p), 0, 1},
    {"minP", OPTION_FLOAT, OF(z.min_p), 0, 1},
    {"repeatPenalty", OPTION_FLOAT, OF(z.repeat_penalty), 0, FLT_MAX},
    {"repeatLast", OPTION_INT, OF(z.repeat_last), 0, INT32_MAX},
    {"seed", OPTION_SEED, OF(z.seed), 0, 0},
    {"minTokens", OPTION_U32, OF(z.min_tokens), 0, UINT32_MAX},
    {"dryMultiplier", OPTION_FLOAT, OF(more.dry_multiplier), 0, FLT_MAX},
    {"dryBase", OPTION_FLOAT, OF(more.dry_base), 0, FLT_MAX},
    {"dryAllowedLength", OPTION_U32, OF(more.dry_allowed_length), 0, UINT32_MAX},
    {"dryLast", OPTION_U32, OF(more.dry_last), 0, UINT32_MAX},
    {"xtcProbability", OPTION_FLOAT, OF(more.xtc_probability), 0, 1},
    {"xtcThreshold", OPTION_FLOAT, OF(more.xtc_threshold), 0, 1},
    {"typicalP", OPTION_FLOAT, OF(more.typical_p), 0, 1},
    {"topNSigma", OPTION_FLOAT, OF(more.top_n_sigma), 0, FLT_MAX},
    {"mirostatTau", OPTION_FLOAT, OF(more.mirostat_tau), 0, FLT_MAX},
    {"mirostatEta", OPTION_FLOAT, OF(more.mirostat_eta), 0, FLT_MAX},
    {"dynatempRange", OPTION_FLOAT, OF(more.dynatemp_range), 0, FLT_MAX},
    {"dynatempExponent", OPTION_FLOAT, OF(more.dynatemp_exponent), 0, FLT_MAX},
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
    sampler->more.size = sizeof sampler->more;
    sampler->z.more = &sampler->more;
    if (arguments(env, info, 2, argv) && options_read(env, argv[1], options, sampler) &&
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
