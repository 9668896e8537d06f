#include "addon.h"

#include <stdlib.h>
#include <string.h>

/* The model's chat template, opened when it is first needed. */
static enum tft_status open_template(struct model *model, struct tft_error *err)
{
    const char *source = tft_model_chat_template(model->m);
    if (model->chat)
        return TFT_OK;
    if (source)
        return tft_chat_open(&model->chat, source, strlen(source), err);
    strcpy(err->msg, "the model has no chat template");
    return TFT_ERR_UNSUPPORTED;
}

static enum tft_status tokenize(const struct tft_chat_text *text, const struct tft_model *m,
                                int32_t **ids, size_t *n, bool *goes_on)
{
    const enum tft_status status = tft_chat_tokenize(text, m, NULL, 0, n, NULL);
    if (status != TFT_OK)
        return status;
    if (!(*ids = malloc(*n * sizeof **ids + 1)))
        return TFT_ERR_NOMEM;
    return tft_chat_tokenize(text, m, *ids, *n, n, goes_on);
}

static napi_value prompt_value(napi_env env, const struct tft_chat_text *text, const int32_t *ids,
                               size_t n, bool goes_on)
{
    napi_value object;
    if (!ok(env, napi_create_object(env, &object)) ||
        !put(env, object, "text", text_value(env, text->p, text->n)) ||
        !put(env, object, "tokens", tokens_value(env, ids, n)) ||
        !put(env, object, "goesOn", bool_value(env, goes_on)))
        return NULL;
    return object;
}

/* modelPrompt(model, json, seconds of local time): {text, tokens, goesOn} */
napi_value model_prompt(napi_env env, napi_callback_info info)
{
    napi_value argv[3], result = NULL;
    struct tft_chat_input in = {.size = sizeof in, .has_time = true, .read_arguments = true};
    struct tft_chat_text text = {0};
    struct tft_error err = {0};
    struct model *model;
    double time;
    char *json = NULL;
    int32_t *ids = NULL;
    size_t n = 0;
    bool goes_on = false;
    if (arguments(env, info, 3, argv) &&
        read_integer(env, argv[2], "the time", -8.64e12, 8.64e12, &time) &&
        (json = read_text(env, argv[1], "the conversation", &in.n_json)) &&
        (model = handle_get(env, argv[0], MODEL))) {
        in.json = json;
        in.time = (int64_t)time;
        enum tft_status status = open_template(model, &err);
        if (status == TFT_OK)
            status = tft_chat_render_for(&text, model->chat, model->m, &in, &err);
        if (status == TFT_OK)
            status = tokenize(&text, model->m, &ids, &n, &goes_on);
        result = status == TFT_OK ? prompt_value(env, &text, ids, n, goes_on)
                                  : throw_status(env, status, &err);
    }
    tft_chat_text_free(&text);
    free(ids);
    free(json);
    return result;
}
