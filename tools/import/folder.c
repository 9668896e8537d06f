#include "folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "matrix.h"

enum { MOST_SHARDS = 10000 };

static enum tft_status no_memory(const char *name, struct tft_error *err)
{
    return import_error(err, TFT_ERR_NOMEM, "%s: out of memory", name);
}

/* ----------------------------------------------------------------------------------- the shards */

/* Whether an index may name this file: a file in the folder itself. */
static bool is_plain(const char *file)
{
    return *file && file[0] != '.' && !strpbrk(file, "/\\:");
}

static enum tft_status open_shard(struct import_folder *f, const char *file, struct tft_error *err)
{
    char *path = import_path(f->path, file);
    struct safetensors *more = realloc(f->shard, (f->n_shard + 1) * sizeof *more);
    if (more)
        f->shard = more;
    enum tft_status status = path && more ? safetensors_open(&f->shard[f->n_shard++], path, err)
                                          : no_memory(f->path, err);
    free(path);
    return status;
}

/* Whether a shard's path ends with the file that an index names. */
static bool is_file(const struct safetensors *s, const char *file)
{
    size_t n = strlen(s->name), m = strlen(file);
    return n > m && strcmp(s->name + n - m, file) == 0 && s->name[n - m - 1] == '/';
}

static bool has_shard(const struct import_folder *f, const char *file)
{
    for (size_t i = 0; i < f->n_shard; i++)
        if (is_file(&f->shard[i], file))
            return true;
    return false;
}

static enum tft_status open_shards(struct import_folder *f, const char *index, json_t *map,
                                   struct tft_error *err)
{
    const char *tensor;
    json_t *v;
    json_object_foreach(map, tensor, v)
    {
        const char *file = json_string_value(v);
        if (!file || !is_plain(file))
            return import_error(err, TFT_ERR_FORMAT,
                            "%s: the file of tensor \"%s\" is not a file of this folder", index,
                            tensor);
        if (f->n_shard && (is_file(&f->shard[f->n_shard - 1], file) || has_shard(f, file)))
            continue;
        if (f->n_shard == MOST_SHARDS)
            return import_error(err, TFT_ERR_UNSUPPORTED, "%s: more than %d files", index,
                                MOST_SHARDS);
        enum tft_status status = open_shard(f, file, err);
        if (status != TFT_OK)
            return status;
    }
    return TFT_OK;
}

/* -------------------------------------------------------------------------------------- tensors */

static int compare(const void *a, const void *b)
{
    const struct by_name *x = a, *y = b;
    return strcmp(x->tensor->name, y->tensor->name);
}

void import_folder_sort(struct import_folder *f)
{
    if (f->n_tensor)
        qsort(f->by_name, f->n_tensor, sizeof *f->by_name, compare);
}

static enum tft_status sort_tensors(struct import_folder *f, struct tft_error *err)
{
    for (size_t i = 0; i < f->n_shard; i++)
        f->n_tensor += f->shard[i].n;
    f->by_name = calloc(f->n_tensor ? f->n_tensor : 1, sizeof *f->by_name);
    if (!f->by_name)
        return no_memory(f->path, err);
    struct by_name *at = f->by_name;
    for (size_t i = 0; i < f->n_shard; i++)
        for (size_t k = 0; k < f->shard[i].n; k++)
            *at++ = (struct by_name){&f->shard[i].tensor[k], &f->shard[i]};
    import_folder_sort(f);
    for (size_t i = 1; i < f->n_tensor; i++)
        if (compare(&f->by_name[i - 1], &f->by_name[i]) == 0)
            return import_error(err, TFT_ERR_FORMAT, "%s: tensor \"%s\" is in %s too",
                            f->by_name[i].shard->name, f->by_name[i].tensor->name,
                            f->by_name[i - 1].shard->name);
    return TFT_OK;
}

const struct by_name *import_folder_entry(const struct import_folder *f, const char *name)
{
    struct safetensor wanted = {.name = name};
    struct by_name key = {&wanted, NULL};
    return f->n_tensor ? bsearch(&key, f->by_name, f->n_tensor, sizeof key, compare) : NULL;
}

/* Every tensor is in the file that the index names, and no file has further tensors. */
static enum tft_status check_index(const struct import_folder *f, const char *index, json_t *map,
                                   struct tft_error *err)
{
    const char *name;
    json_t *v;
    json_object_foreach(map, name, v)
    {
        const struct by_name *t = import_folder_entry(f, name);
        if (!t || !is_file(t->shard, json_string_value(v)))
            return import_error(err, TFT_ERR_FORMAT, "%s: tensor \"%s\" is not in %s", index, name,
                            json_string_value(v));
    }
    for (size_t i = 0; i < f->n_tensor; i++)
        if (!json_object_get(map, f->by_name[i].tensor->name))
            return import_error(err, TFT_ERR_FORMAT, "%s: tensor \"%s\" of %s is not in the list",
                            index, f->by_name[i].tensor->name, f->by_name[i].shard->name);
    return TFT_OK;
}

static enum tft_status open_indexed(struct import_folder *f, struct tft_error *err)
{
    json_t *index = NULL;
    char *path = import_path(f->path, "model.safetensors.index.json");
    if (!path)
        return no_memory(f->path, err);
    enum tft_status status = import_json_read(&index, path, true, err);
    json_t *map = json_object_get(index, "weight_map");
    if (status == TFT_OK && !index)
        status = import_error(err, TFT_ERR_IO,
                          "%s: neither model.safetensors nor model.safetensors.index.json is there",
                          f->path);
    else if (status == TFT_OK && !json_is_object(map))
        status = import_error(err, TFT_ERR_FORMAT, "%s: it has no weight_map", path);
    if (status == TFT_OK)
        status = open_shards(f, path, map, err);
    if (status == TFT_OK)
        status = sort_tensors(f, err);
    if (status == TFT_OK)
        status = check_index(f, path, map, err);
    json_decref(index);
    free(path);
    return status;
}

/* Like transformers, prefers model.safetensors to an index. */
static enum tft_status open_weights(struct import_folder *f, struct tft_error *err)
{
    char *path = import_path(f->path, "model.safetensors");
    struct tft_map map;
    if (!path)
        return no_memory(f->path, err);
    int os = tft_port_map(&map, path);
    if (os == 0)
        tft_port_unmap(&map);
    free(path);
    if (os == ENOENT)
        return open_indexed(f, err);
    enum tft_status status = open_shard(f, "model.safetensors", err);
    return status == TFT_OK ? sort_tensors(f, err) : status;
}

/* ----------------------------------------------------------------------------------- the folder */

static enum tft_status read_json(const struct import_folder *f, const char *name, bool optional,
                                 json_t **out, struct tft_error *err)
{
    char *path = import_path(f->path, name);
    if (!path)
        return no_memory(f->path, err);
    enum tft_status status = import_json_read(out, path, optional, err);
    free(path);
    return status;
}

enum tft_status import_folder_open(struct import_folder *f, const char *path,
                                   struct tft_error *err)
{
    *f = (struct import_folder){.path = path};
    enum tft_status status = read_json(f, "config.json", false, &f->config, err);
    if (status == TFT_OK)
        status = read_json(f, "generation_config.json", true, &f->generation, err);
    return status == TFT_OK ? open_weights(f, err) : status;
}

/* The list of tensors points to the shards, which have moved: it is made anew. */
static void drop_list(struct import_folder *f)
{
    free(f->by_name);
    f->by_name = NULL;
    f->n_tensor = 0;
}

enum tft_status import_folder_add_made(struct import_folder *f, const char *name,
                                       const unsigned char *bytes, size_t n, struct tft_error *err)
{
    struct safetensors *more = realloc(f->shard, (f->n_shard + 1) * sizeof *more);
    drop_list(f);
    if (!more)
        return no_memory(f->path, err);
    f->shard = more;
    enum tft_status status = safetensors_parse(&f->shard[f->n_shard++], name, bytes, n, err);
    return status == TFT_OK ? sort_tensors(f, err) : status;
}

enum tft_status import_folder_add(struct import_folder *f, const char *file, const char *tensor,
                                  const char *name, struct tft_error *err)
{
    enum tft_status status = open_shard(f, file, err);
    drop_list(f);
    if (status != TFT_OK)
        return status;
    struct safetensors *s = &f->shard[f->n_shard - 1];
    if (s->n != 1 || strcmp(s->tensor[0].name, tensor) != 0)
        return import_error(err, TFT_ERR_UNSUPPORTED,
                            "%s: tensors other than \"%s\" are not supported",
                            s->name, tensor);
    s->tensor[0].name = name;
    return sort_tensors(f, err);
}

void import_folder_close(struct import_folder *f)
{
    for (size_t i = 0; i < f->n_shard; i++)
        safetensors_close(&f->shard[i]);
    free(f->shard);
    free(f->by_name);
    free(f->matrix);
    json_decref(f->config);
    json_decref(f->generation);
    *f = (struct import_folder){0};
}

struct safetensor *import_folder_find(const struct import_folder *f, const char *name,
                                      const unsigned char **data)
{
    const struct by_name *t = import_folder_entry(f, name);
    if (t)
        *data = t->shard ? t->shard->data + t->tensor->offset : NULL;
    return t ? t->tensor : NULL;
}

void import_folder_forget(const struct import_folder *f, const char *name)
{
    const struct by_name *t = import_folder_entry(f, name);
    if (t && t->tensor->matrix)
        import_matrix_forget(t->tensor->matrix);
    if (!t || !t->shard || !t->shard->map.data)
        return;
    size_t begin = (size_t)(t->shard->data - t->shard->map.data) + (size_t)t->tensor->offset;
    tft_port_forget(&t->shard->map, begin, begin + (size_t)t->tensor->bytes);
}

const struct safetensor *import_folder_unused(const struct import_folder *f,
                                              bool (*known)(const void *user, const char *name),
                                              const void *user)
{
    for (size_t i = 0; i < f->n_tensor; i++)
        if (!f->by_name[i].tensor->used && !known(user, f->by_name[i].tensor->name))
            return f->by_name[i].tensor;
    return NULL;
}
