#include "addon.h"

#include <stdlib.h>

static void end(struct handle *h)
{
    tft_grammar_close(((struct grammar *)h)->g);
}

/* The model's lexicon, made when it is first needed. */
static enum tft_status lexicon(struct model *model, struct tft_error *err)
{
    return model->lexicon ? TFT_OK : tft_lexicon_open(&model->lexicon, model->m, err);
}

/* Ends with a pending exception, or a handle. */
static napi_value open_grammar(napi_env env, struct model *model, enum tft_grammar_kind kind,
                               const char *text, size_t n)
{
    struct tft_error err = {0};
    struct grammar *grammar = calloc(1, sizeof *grammar);
    enum tft_status status = grammar ? lexicon(model, &err) : TFT_ERR_NOMEM;
    if (status == TFT_OK)
        status = tft_grammar_open(&grammar->g, model->lexicon, kind, text, n, &err);
    if (status != TFT_OK) {
        free(grammar);
        return throw_status(env, status, &err);
    }
    grammar->handle.kind = GRAMMAR;
    grammar->handle.end = end;
    return handle_new(env, &grammar->handle, &model->handle);
}

static napi_value of_text(napi_env env, napi_callback_info info, enum tft_grammar_kind kind)
{
    napi_value argv[2], result = NULL;
    struct model *model;
    char *text = NULL;
    size_t n;
    if (arguments(env, info, 2, argv) && (text = read_text(env, argv[1], "the grammar", &n)) &&
        (model = handle_get(env, argv[0], MODEL)))
        result = open_grammar(env, model, kind, text, n);
    free(text);
    return result;
}

/* grammarGbnf(model, text), grammarRegex(model, text), grammarSchema(model, json): handles */
napi_value grammar_gbnf(napi_env env, napi_callback_info info)
{
    return of_text(env, info, TFT_GBNF);
}

napi_value grammar_regex(napi_env env, napi_callback_info info)
{
    return of_text(env, info, TFT_REGEX);
}

napi_value grammar_schema(napi_env env, napi_callback_info info)
{
    napi_value argv[2], result = NULL;
    struct tft_chat_text gbnf = {0};
    struct tft_error err = {0};
    struct model *model;
    char *json = NULL;
    size_t n;
    if (arguments(env, info, 2, argv) && (json = read_text(env, argv[1], "the schema", &n)) &&
        (model = handle_get(env, argv[0], MODEL))) {
        const enum tft_status status = tft_chat_schema(&gbnf, json, n, 0, &err);
        result = status == TFT_OK ? open_grammar(env, model, TFT_GBNF, gbnf.p, gbnf.n)
                                  : throw_status(env, status, &err);
    }
    tft_chat_text_free(&gbnf);
    free(json);
    return result;
}
