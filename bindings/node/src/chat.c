#include "addon.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The model's chat template *t, opened when it is first needed. tools: for tools. */
static enum tft_status open_template(struct tft_chat_template **t, struct model *model, bool tools,
                                     struct tft_error *err)
{
    const char *plain = tft_model_chat_template(model->m),
               *source = tools ? tft_model_tool_template(model->m) : plain;
    struct tft_chat_template **at = source == plain ? &model->chat : &model->tool_chat;
    enum tft_status status = TFT_OK;
    if (!source) {
        strcpy(err->msg, "the model has no chat template");
        return TFT_ERR_UNSUPPORTED;
    }
    if (!*at)
        status = tft_chat_open(at, source, strlen(source), err);
    *t = *at;
    return status;
}

/* Fails if the text lacks a message of the system or a user. *result: as tft_chat_dropped. */
static enum tft_status check_dropped(size_t *result, const struct tft_chat_text *text,
                                     const struct tft_chat_input *in, struct tft_error *err)
{
    size_t said;
    const enum tft_status status = tft_chat_dropped(&said, result, text, in, err);
    if (status != TFT_OK || said == SIZE_MAX)
        return status;
    snprintf(err->msg, sizeof err->msg, "messages[%zu]: the chat template drops this message",
             said);
    return TFT_ERR_ARG;
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
                               size_t n, bool goes_on, size_t dropped)
{
    napi_value object;
    if (!ok(env, napi_create_object(env, &object)) ||
        !put(env, object, "text", text_value(env, text->p, text->n)) ||
        !put(env, object, "tokens", tokens_value(env, ids, n)) ||
        !put(env, object, "goesOn", bool_value(env, goes_on)) ||
        !put(env, object, "dropped",
             dropped == SIZE_MAX ? null_value(env) : number_value(env, (double)dropped)))
        return NULL;
    return object;
}

/* modelPrompt(model, json, seconds of local time, whether there are tools): {text, tokens, goesOn,
   dropped: the first result of a tool that the template drops, or null} */
napi_value model_prompt(napi_env env, napi_callback_info info)
{
    napi_value argv[4], result = NULL;
    struct tft_chat_input in = {.size = sizeof in, .has_time = true, .read_arguments = true};
    struct tft_chat_text text = {0};
    struct tft_error err = {0};
    struct tft_chat_template *t;
    struct model *model;
    double time;
    char *json = NULL;
    int32_t *ids = NULL;
    size_t n = 0, dropped = SIZE_MAX;
    bool goes_on = false, tools = false;
    if (arguments(env, info, 4, argv) && read_bool(env, argv[3], "tools", &tools) &&
        read_integer(env, argv[2], "the time", -8.64e12, 8.64e12, &time) &&
        (json = read_text(env, argv[1], "the conversation", &in.n_json)) &&
        (model = handle_get(env, argv[0], MODEL))) {
        in.json = json;
        in.time = (int64_t)time;
        enum tft_status status = open_template(&t, model, tools, &err);
        if (status == TFT_OK)
            status = tft_chat_render_for(&text, t, model->m, &in, &err);
        if (status == TFT_OK)
            status = check_dropped(&dropped, &text, &in, &err);
        if (status == TFT_OK)
            status = tokenize(&text, model->m, &ids, &n, &goes_on);
        result = status == TFT_OK ? prompt_value(env, &text, ids, n, goes_on, dropped)
                                  : throw_status(env, status, &err);
    }
    tft_chat_text_free(&text);
    free(ids);
    free(json);
    return result;
}
