#include "addon.h"

#include <stdlib.h>
#include <string.h>

/* modelTokenize(model, text, bos, special, goesOn): an Int32Array */
napi_value model_tokenize(napi_env env, napi_callback_info info)
{
    napi_value argv[5], result = NULL;
    bool bos, special, goes_on;
    char *text = NULL;
    size_t size, n = 0;
    int32_t *ids = NULL;
    const struct model *model;
    if (!arguments(env, info, 5, argv) || !read_bool(env, argv[2], "bos", &bos) ||
        !read_bool(env, argv[3], "special", &special) ||
        !read_bool(env, argv[4], "goesOn", &goes_on) ||
        !(text = read_text(env, argv[1], "the text", &size)) ||
        !(model = handle_get(env, argv[0], MODEL))) {
        free(text);
        return NULL;
    }
    const unsigned flags = (bos ? (unsigned)TFT_ADD_BOS : 0) |
                           (special ? (unsigned)TFT_PARSE_SPECIAL : 0) |
                           (goes_on ? (unsigned)TFT_CONTINUE : 0);
    enum tft_status status = TFT_ERR_FULL;
    for (size_t cap = size / 2 + 16; status == TFT_ERR_FULL; cap = n) { /* n once it is known */
        free(ids);
        status = TFT_ERR_NOMEM;
        if ((ids = malloc(cap * sizeof *ids)))
            status = tft_tokenize(model->m, text, size, flags, ids, cap, &n);
    }
    result = status == TFT_OK ? tokens_value(env, ids, n) : throw_status(env, status, NULL);
    free(ids);
    free(text);
    return result;
}

/* The token that an argument is, of a model. */
static const struct model *model_and_token(napi_env env, napi_value model, napi_value v,
                                           int32_t *id)
{
    double x;
    if (!read_integer(env, v, "a token", 0, INT32_MAX, &x))
        return NULL;
    *id = (int32_t)x;
    return handle_get(env, model, MODEL);
}

/* tokenBytes(model, token, special): a Uint8Array */
napi_value token_bytes(napi_env env, napi_callback_info info)
{
    napi_value argv[3];
    bool special;
    int32_t id;
    size_t n;
    const struct model *model = NULL;
    if (arguments(env, info, 3, argv) && read_bool(env, argv[2], "special", &special))
        model = model_and_token(env, argv[0], argv[1], &id);
    if (!model)
        return NULL;
    const char *text = tft_token_text(model->m, id, special, &n);
    return text ? bytes_value(env, text, n) : throw_argument(env, "%d is not a token", (int)id);
}

/* tokenEnds(model, token): a boolean */
napi_value token_ends(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    int32_t id;
    const struct model *model =
        arguments(env, info, 2, argv) ? model_and_token(env, argv[0], argv[1], &id) : NULL;
    return model ? bool_value(env, tft_token_ends(model->m, id)) : NULL;
}

/* tokenBos(model), tokenEos(model): a number, or null */
static napi_value special_token(napi_env env, napi_callback_info info,
                                int32_t (*of)(const struct tft_model *m))
{
    napi_value argv[1];
    const struct model *model =
        arguments(env, info, 1, argv) ? handle_get(env, argv[0], MODEL) : NULL;
    if (!model)
        return NULL;
    const int32_t id = of(model->m);
    return id < 0 ? null_value(env) : number_value(env, id);
}

napi_value token_bos(napi_env env, napi_callback_info info)
{
    return special_token(env, info, tft_token_bos);
}

napi_value token_eos(napi_env env, napi_callback_info info)
{
    return special_token(env, info, tft_token_eos);
}

/* textBegin(goesOn): the state of decoding, the bytes of a struct tft_text */
napi_value text_begin(napi_env env, napi_callback_info info)
{
    napi_value argv[1];
    struct tft_text state = {0};
    if (!arguments(env, info, 1, argv) || !read_bool(env, argv[0], "goesOn", &state.started))
        return NULL;
    return bytes_value(env, &state, sizeof state);
}

/* Text of a token or, with -1, the bytes that still wait. */
static napi_value push(napi_env env, napi_value m, napi_value state_bytes, int32_t id)
{
    struct tft_text state;
    char out[TFT_TEXT_MAX];
    size_t n;
    uint8_t *bytes = read_bytes(env, state_bytes, "the state", &n);
    const struct model *model = bytes ? handle_get(env, m, MODEL) : NULL;
    if (!model)
        return NULL;
    if (n != sizeof state || bytes[0] > 1 || bytes[offsetof(struct tft_text, held)] > 3)
        return throw_argument(env, "this is not the state of a text");
    memcpy(&state, bytes, sizeof state);
    n = tft_text_push(&state, model->m, id, out);
    memcpy(bytes, &state, sizeof state);
    return text_value(env, out, n);
}

/* textPush(model, state, token), textEnd(model, state): strings, perhaps empty */
napi_value text_push(napi_env env, napi_callback_info info)
{
    napi_value argv[3];
    double id;
    return arguments(env, info, 3, argv) &&
                   read_integer(env, argv[2], "a token", 0, INT32_MAX, &id)
               ? push(env, argv[0], argv[1], (int32_t)id)
               : NULL;
}

napi_value text_end(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    return arguments(env, info, 2, argv) ? push(env, argv[0], argv[1], -1) : NULL;
}
