#include "addon.h"

#include <stdlib.h>
#include <string.h>

static const struct option options[] = {
    {"tokenizer", OPTION_TEXT, offsetof(struct tft_model_opts, tokenizer), 0, 0},
    {"weights", OPTION_WEIGHTS, offsetof(struct tft_model_opts, weights), 0, 0},
    {"vocabOnly", OPTION_BOOL, offsetof(struct tft_model_opts, vocab_only), 0, 0},
    {"threads", OPTION_INT, offsetof(struct tft_model_opts, n_threads), 0, 1024},
    {"device", OPTION_TEXT, offsetof(struct tft_model_opts, device), 0, 0},
    {"gpuLayers", OPTION_U32, offsetof(struct tft_model_opts, gpu_layers), 0, UINT32_MAX},
    {"expertsBytes", OPTION_SEED, offsetof(struct tft_model_opts, experts_bytes), 0, 0},
    {"predictor", OPTION_BOOL, offsetof(struct tft_model_opts, predictor), 0, 0},
    {NULL, OPTION_INT, 0, 0, 0}};

struct opening {
    struct work work;
    char *path;
    struct tft_model_opts opts;
    struct tft_model *m;
};

static void close_model(struct handle *h)
{
    struct model *model = (struct model *)h;
    tft_chat_close(model->chat);
    tft_chat_close(model->tool_chat);
    tft_lexicon_close(model->lexicon);
    tft_model_close(model->m);
}

static void open_compute(struct work *w)
{
    struct opening *o = (struct opening *)w;
    w->status = tft_model_open(&o->m, o->path, &o->opts, &w->err);
}

static napi_value open_result(napi_env env, struct work *w)
{
    struct opening *o = (struct opening *)w;
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        return throw_status(env, TFT_ERR_NOMEM, NULL);
    model->handle.kind = MODEL;
    model->handle.end = close_model;
    model->m = o->m;
    o->m = NULL;
    return handle_new(env, &model->handle, NULL);
}

static void open_end(struct work *w)
{
    struct opening *o = (struct opening *)w;
    tft_model_close(o->m);
    options_free(options, &o->opts);
    free(o->path);
    free(o);
}

/* modelOpen(path, options): a promise of a handle */
napi_value model_open(napi_env env, napi_callback_info info)
{
    napi_value argv[2];
    struct opening *o = calloc(1, sizeof *o);
    if (!o)
        return throw_status(env, TFT_ERR_NOMEM, NULL);
    o->work.compute = open_compute;
    o->work.result = open_result;
    o->work.end = open_end;
    o->opts.size = sizeof o->opts;
    if (arguments(env, info, 2, argv) && (o->path = read_text(env, argv[0], "the path", NULL)) &&
        options_read(env, argv[1], options, &o->opts))
        return work_start(env, &o->work);
    open_end(&o->work);
    return NULL;
}

/* modelInfo(model): an object */
napi_value model_info(napi_env env, napi_callback_info info)
{
    static const char *const weights[] = {"stored", "f32", "f16", "bf16", "i8", "packed"};
    static const char *const pooling[] = {"none",  "mean", "last",
                                          "other", "cls",  "rank"};
    napi_value argv[1], object;
    struct tft_model_info i = {.size = sizeof i};
    const struct model *model =
        arguments(env, info, 1, argv) ? handle_get(env, argv[0], MODEL) : NULL;
    if (!model)
        return NULL;
    tft_model_describe(model->m, &i);
    const struct {
        const char *name;
        double x;
    } numbers[] = {
        {"nParams", (double)i.n_params},
        {"weightBytes", (double)i.weight_bytes},
        {"matmulMacs", (double)i.matmul_macs},
        {"kvWidth", (double)i.kv_width},
        {"nVocab", i.n_vocab},
        {"nCtx", i.n_ctx},
        {"nEmbd", i.n_embd},
        {"nLayer", i.n_layer},
        {"nHead", i.n_head},
        {"nHeadKv", i.n_head_kv},
        {"headDim", i.head_dim},
        {"nFf", i.n_ff},
        {"nPrefix", i.n_prefix},
        {"stateBytes", (double)i.state_bytes},
        {"nExpert", i.n_expert},
        {"nExpertUsed", i.n_expert_used},
        {"nDevice", i.n_device},
    };
    const char *w = (size_t)i.weights < sizeof weights / sizeof *weights ? weights[i.weights] : "?",
               *p = (size_t)i.pooling < sizeof pooling / sizeof *pooling ? pooling[i.pooling] : "?";
    if (!ok(env, napi_create_object(env, &object)) ||
        !put(env, object, "arch", text_value(env, i.arch, strlen(i.arch))) ||
        !put(env, object, "name", text_value(env, i.name, strlen(i.name))) ||
        !put(env, object, "weights", text_value(env, w, strlen(w))) ||
        !put(env, object, "pooling", text_value(env, p, strlen(p))) ||
        !put(env, object, "kv", text_value(env, i.kv, strlen(i.kv))) ||
        !put(env, object, "addEos", bool_value(env, i.add_eos)) ||
        !put(env, object, "encoder", bool_value(env, i.encoder)) ||
        !put(env, object, "prefixBos", bool_value(env, i.prefix_bos)))
        return NULL;
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
        if (!put(env, object, numbers[k].name, number_value(env, numbers[k].x)))
            return NULL;
    return object;
}

/* modelTemplate(model): Jinja source, or null */
napi_value model_template(napi_env env, napi_callback_info info)
{
    napi_value argv[1];
    const struct model *model =
        arguments(env, info, 1, argv) ? handle_get(env, argv[0], MODEL) : NULL;
    if (!model)
        return NULL;
    const char *source = tft_model_chat_template(model->m);
    return source ? text_value(env, source, strlen(source)) : null_value(env);
}

static napi_value prefix_value(napi_env env, const struct tft_prefix_info *p)
{
    napi_value object;
    if (!ok(env, napi_create_object(env, &object)) ||
        !put(env, object, "name", text_value(env, p->name, strlen(p->name))) ||
        !put(env, object, "system",
             p->system ? text_value(env, p->system, strlen(p->system)) : null_value(env)) ||
        !put(env, object, "tokens", tokens_value(env, p->tokens, p->n_tokens)) ||
        !put(env, object, "positions", number_value(env, p->positions)))
        return NULL;
    return object;
}

/* modelPrefixes(model): an array of objects */
napi_value model_prefixes(napi_env env, napi_callback_info info)
{
    napi_value argv[1], list;
    struct tft_prefix_info p = {.size = sizeof p};
    const struct model *model =
        arguments(env, info, 1, argv) ? handle_get(env, argv[0], MODEL) : NULL;
    if (!model || !ok(env, napi_create_array(env, &list)))
        return NULL;
    for (uint32_t i = 0; tft_prefix_describe(model->m, i, &p) == TFT_OK; i++) {
        napi_value prefix = prefix_value(env, &p);
        if (!prefix || !ok(env, napi_set_element(env, list, i, prefix)))
            return NULL;
    }
    return list;
}
