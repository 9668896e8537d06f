#include "addon.h"

#include <stdlib.h>
#include <string.h>

static bool read_seed(napi_env env, napi_value v, const char *what, uint64_t *out)
{
    bool lossless = false;
    double x;
    if (napi_get_value_bigint_uint64(env, v, out, &lossless) == napi_ok) {
        if (!lossless)
            throw_argument(env, "%s must be below 2^64 and not negative", what);
        return lossless;
    }
    if (!read_integer(env, v, what, 0, 9007199254740991, &x)) /* Number.MAX_SAFE_INTEGER */
        return false;
    *out = (uint64_t)x;
    return true;
}

static bool read_weights(napi_env env, napi_value v, const char *what, enum tft_weights *out)
{
    static const char *const names[] = {[TFT_WEIGHTS_STORED] = "stored", [TFT_WEIGHTS_F32] = "f32",
                                        [TFT_WEIGHTS_F16] = "f16", [TFT_WEIGHTS_BF16] = "bf16"};
    char *text = read_text(env, v, what, NULL);
    size_t i = 0;
    if (!text)
        return false;
    while (i < sizeof names / sizeof *names && strcmp(text, names[i]) != 0)
        i++;
    free(text);
    *out = (enum tft_weights)i;
    if (i == sizeof names / sizeof *names)
        throw_argument(env, "%s must be stored, f32, f16 or bf16", what);
    return i < sizeof names / sizeof *names;
}

static bool read_option(napi_env env, napi_value v, const struct option *o, void *to)
{
    double x = 0;
    const bool integer = o->type == OPTION_INT || o->type == OPTION_U32;
    if (integer && !read_integer(env, v, o->name, o->least, o->most, &x))
        return false;
    switch (o->type) {
    case OPTION_INT:
        *(int *)to = (int)x;
        return true;
    case OPTION_U32:
        *(uint32_t *)to = (uint32_t)x;
        return true;
    case OPTION_FLOAT:
        if (!read_number(env, v, o->name, o->least, o->most, &x))
            return false;
        *(float *)to = (float)x;
        return true;
    case OPTION_SEED:
        return read_seed(env, v, o->name, to);
    case OPTION_BOOL:
        return read_bool(env, v, o->name, to);
    case OPTION_TEXT:
        return (*(const char **)to = read_text(env, v, o->name, NULL)) != NULL;
    case OPTION_WEIGHTS:
        return read_weights(env, v, o->name, to);
    }
    return false;
}

static bool read_property(napi_env env, napi_value v, napi_value key, const struct option *list,
                          void *to)
{
    napi_value value;
    napi_valuetype type;
    char *name = read_text(env, key, "the name of an option", NULL);
    const struct option *o = list;
    if (!name)
        return false;
    while (o->name && strcmp(o->name, name) != 0)
        o++;
    if (!o->name)
        throw_argument(env, "there is no option %.64s", name);
    free(name);
    return o->name && ok(env, napi_get_property(env, v, key, &value)) &&
           ok(env, napi_typeof(env, value, &type)) &&
           (type == napi_undefined || read_option(env, value, o, (char *)to + o->at));
}

bool options_read(napi_env env, napi_value v, const struct option *list, void *to)
{
    napi_valuetype type;
    napi_value keys, key;
    uint32_t n;
    if (!ok(env, napi_typeof(env, v, &type)))
        return false;
    if (type == napi_undefined)
        return true;
    if (type != napi_object) {
        throw_argument(env, "options must be an object");
        return false;
    }
    if (!ok(env, napi_get_property_names(env, v, &keys)) ||
        !ok(env, napi_get_array_length(env, keys, &n)))
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!ok(env, napi_get_element(env, keys, i, &key)) ||
            !read_property(env, v, key, list, to))
            return false;
    return true;
}

void options_free(const struct option *list, void *of)
{
    for (const struct option *o = list; o->name; o++)
        if (o->type == OPTION_TEXT)
            free(*(void **)((char *)of + o->at));
}
