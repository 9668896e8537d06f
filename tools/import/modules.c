#include "modules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "names.h"

enum { MOST_DENSE = 2 };

/* The last part of a type such as "sentence_transformers.models.Pooling". */
static const char *short_type(const json_t *module)
{
    const char *type = json_string_value(json_object_get(module, "type"));
    const char *dot = type ? strrchr(type, '.') : NULL;
    return dot ? dot + 1 : type ? type : "";
}

/* FOLDER/MODULE/FILE; the module's folder is one in the model's. NULL: no memory, or no such
   name. */
static char *path_in(const struct import_folder *f, const char *module, const char *file)
{
    if (!*module || *module == '.' || strpbrk(module, "/\\:"))
        return NULL;
    char *dir = import_path(f->path, module), *path = dir ? import_path(dir, file) : NULL;
    free(dir);
    return path;
}

static enum tft_status bad(const struct import_folder *f, const char *what, struct tft_error *err)
{
    return import_error(err, TFT_ERR_FORMAT, "%s/modules.json: %s", f->path, what);
}

static enum tft_status read_config(const struct import_folder *f, const char *module, json_t **out,
                                   struct tft_error *err)
{
    char *path = path_in(f, module, "config.json");
    enum tft_status status = path ? import_json_read(out, path, false, err)
                                  : bad(f, "a module has no folder within the model's", err);
    free(path);
    return status;
}

/* ---- Dense */

/* A product, and nothing else. */
static enum tft_status check_dense(const struct import_folder *f, const char *module,
                                   struct tft_error *err)
{
    json_t *config = NULL;
    enum tft_status status = read_config(f, module, &config, err);
    const char *act = json_string_value(json_object_get(config, "activation_function"));
    if (status == TFT_OK && act && !import_ends(act, ".Identity"))
        status = import_error(err, TFT_ERR_UNSUPPORTED,
                              "%s/%s/config.json: an \"activation_function\" of %.80s is not "
                              "supported",
                              f->path, module, act);
    if (status == TFT_OK && !act)
        status =
            import_error(err, TFT_ERR_FORMAT,
                         "%s/%s/config.json: there is no \"activation_function\"", f->path, module);
    json_decref(config);
    return status;
}

/* Opens the module's file as one more of the folder's. */
static enum tft_status open_dense(struct import_folder *f, const char *module, size_t index,
                                  struct tft_error *err)
{
    static const char *const names[MOST_DENSE] = {"dense.0.weight", "dense.1.weight"};
    char *file = import_path(module, "model.safetensors");
    enum tft_status status = file ? import_folder_add(f, file, "linear.weight", names[index], err)
                                  : import_error(err, TFT_ERR_NOMEM, "%s: out of memory", f->path);
    free(file);
    return status;
}

static enum tft_status add_dense(struct import_modules *m, struct import_folder *f,
                                 const char *module, struct tft_error *err)
{
    if (m->n_dense == MOST_DENSE)
        return import_error(err, TFT_ERR_UNSUPPORTED,
                            "%s/modules.json: more than %d modules Dense are not supported",
                            f->path, MOST_DENSE);
    enum tft_status status = check_dense(f, module, err);
    if (status == TFT_OK)
        status = open_dense(f, module, m->n_dense++, err);
    return status;
}

/* ---- all modules */

static enum tft_status read_module(struct import_modules *m, struct import_folder *f, size_t i,
                                   struct tft_error *err)
{
    const json_t *one = json_array_get(m->list, i);
    const char *type = short_type(one), *path = json_string_value(json_object_get(one, "path"));
    if (!path)
        return bad(f, "a module has no path", err);
    if (i == 0)
        return strcmp(type, "Transformer") == 0 && !*path
                   ? TFT_OK
                   : import_error(err, TFT_ERR_UNSUPPORTED,
                                  "%s/modules.json: the first module must be a Transformer in the "
                                  "folder itself, not %.40s",
                                  f->path, type);
    if (strcmp(type, "Pooling") == 0 && !m->pooling && !m->n_dense)
        return read_config(f, path, &m->pooling, err);
    if (strcmp(type, "Dense") == 0 && m->pooling)
        return add_dense(m, f, path, err);
    if (strcmp(type, "Normalize") == 0 && i + 1 == json_array_size(m->list))
        return TFT_OK;
    return import_error(err, TFT_ERR_UNSUPPORTED,
                        "%s/modules.json: the module %.40s is not supported at its place", f->path,
                        type);
}

static enum tft_status read_json(const struct import_folder *f, const char *name, bool array,
                                 json_t **out, struct tft_error *err)
{
    char *path = import_path(f->path, name);
    if (!path)
        return import_error(err, TFT_ERR_NOMEM, "%s: out of memory", f->path);
    enum tft_status status =
        array ? import_json_read_list(out, path, err) : import_json_read(out, path, true, err);
    free(path);
    return status;
}

enum tft_status import_modules_open(struct import_modules *m, struct import_folder *f,
                                    struct tft_error *err)
{
    *m = (struct import_modules){0};
    enum tft_status status = read_json(f, "modules.json", true, &m->list, err);
    if (status == TFT_OK)
        status = read_json(f, "config_sentence_transformers.json", false, &m->prompts, err);
    for (size_t i = 0; i < json_array_size(m->list) && status == TFT_OK; i++)
        status = read_module(m, f, i, err);
    return status;
}

void import_modules_close(struct import_modules *m)
{
    json_decref(m->list);
    json_decref(m->pooling);
    json_decref(m->prompts);
}

/* ---- values */

static void unsupported(struct import *im, const char *name)
{
    import_fail(im, TFT_ERR_UNSUPPORTED, "%s: pooling by \"%.60s\" is not supported",
                im->folder.path, name);
}

/* The number of llama.cpp's pooling_type: of the one mode that is true, or of the newer
   "pooling_mode". */
static uint32_t pooling_type(struct import *im, const json_t *pooling)
{
    static const struct {
        const char *flag, *mode;
        uint32_t type;
    } known[] = {{"pooling_mode_mean_tokens", "mean", 1},
                 {"pooling_mode_cls_token", "cls", 2},
                 {"pooling_mode_lasttoken", "lasttoken", 3}};
    const char *key, *mode = json_string_value(json_object_get(pooling, "pooling_mode"));
    json_t *v;
    uint32_t type = 0;
    for (size_t i = 0; i < sizeof known / sizeof *known && mode; i++)
        type = strcmp(mode, known[i].mode) == 0 ? known[i].type : type;
    if (mode && !type)
        unsupported(im, mode);
    json_object_foreach((json_t *)pooling, key, v)
    {
        uint32_t own = 0;
        if (strncmp(key, "pooling_mode_", 13) != 0 || !json_is_true(v))
            continue;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            own = strcmp(key, known[i].flag) == 0 ? known[i].type : own;
        if (!own || (type && type != own))
            unsupported(im, key);
        type = own;
    }
    return type;
}

static void put_pooling(struct import *im, const json_t *pooling)
{
    uint32_t type = pooling_type(im, pooling);
    if (json_is_false(json_object_get(pooling, "include_prompt")))
        unsupported(im, "include_prompt\": false, without the prompt's tokens,");
    else if (!type)
        import_fail(im, TFT_ERR_FORMAT, "%s: the module Pooling names no mode", im->folder.path);
    else
        tft_gguf_put_u32(im->gguf, import_key(im, "pooling_type"), type);
}

/* Names and texts of prompts: tuffet.prompts, and tuffet.prompt.NAME for each. */
static void put_prompts(struct import *im, const json_t *config)
{
    enum { MOST_NAME = 64 };
    json_t *all = json_object_get(config, "prompts"), *v;
    const char *name, *usual = json_string_value(json_object_get(config, "default_prompt_name"));
    size_t n = 0;
    struct tft_str *names = calloc(json_object_size(all) + 1, sizeof *names);
    if (!names)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    json_object_foreach(all, name, v)
    {
        char key[MOST_NAME + 16];
        if (!names || !json_is_string(v) || !*name || strlen(name) > MOST_NAME)
            continue;
        snprintf(key, sizeof key, "tuffet.prompt.%s", name);
        tft_gguf_put_str(im->gguf, key,
                         (struct tft_str){json_string_value(v), json_string_length(v)});
        names[n++] = (struct tft_str){name, strlen(name)};
    }
    if (n)
        tft_gguf_put_strs(im->gguf, "tuffet.prompts", names, n);
    if (n && usual)
        tft_gguf_put_str(im->gguf, "tuffet.default_prompt", (struct tft_str){usual, strlen(usual)});
    free(names);
}

void import_modules_values(struct import *im, const struct import_modules *m)
{
    if (m->pooling && !im->encoder.labels)
        put_pooling(im, m->pooling);
    if (m->prompts)
        put_prompts(im, m->prompts);
}
