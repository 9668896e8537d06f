#include "safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

/* All dtypes of whole bytes. Files have integers and bools beside the weights: masks, counters. */
static const struct {
    const char *name;
    uint32_t bytes;
    bool floats;
    enum tft_dtype type;
} dtypes[] = {
    {"F32", 4, true, TFT_F32}, {"F16", 2, true, TFT_F16}, {"BF16", 2, true, TFT_BF16},
    {"BOOL", 1, false, 0},     {"U8", 1, false, 0},       {"I8", 1, false, 0},
    {"F8_E5M2", 1, false, 0},  {"F8_E4M3", 1, false, 0},  {"F8_E8M0", 1, false, 0},
    {"I16", 2, false, 0},      {"U16", 2, false, 0},      {"I32", 4, false, 0},
    {"U32", 4, false, 0},      {"F64", 8, false, 0},      {"I64", 8, false, 0},
    {"U64", 8, false, 0},
};

static enum tft_status wrong(const struct safetensors *s, const char *tensor, const char *what,
                             struct tft_error *err)
{
    return import_error(err, TFT_ERR_FORMAT, "%s: tensor \"%s\": %s", s->name, tensor, what);
}

/* Sets the dtype, and *size: the bytes of one number. */
static enum tft_status take_dtype(const struct safetensors *s, struct safetensor *t,
                                  const json_t *v, uint64_t *size, struct tft_error *err)
{
    t->dtype = json_string_value(v);
    if (!t->dtype)
        return wrong(s, t->name, "it has no dtype", err);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(dtypes[i].name, t->dtype) == 0) {
            t->floats = dtypes[i].floats;
            t->type = dtypes[i].type;
            *size = dtypes[i].bytes;
            return TFT_OK;
        }
    return import_error(err, TFT_ERR_UNSUPPORTED, "%s: tensor \"%s\": dtype %s is not supported",
                    s->name, t->name, t->dtype);
}

/* Sets the shape, and multiplies *size by its numbers. */
static enum tft_status take_shape(const struct safetensors *s, struct safetensor *t,
                                  const json_t *v, uint64_t *size, struct tft_error *err)
{
    size_t n = json_array_size(v);
    if (!json_is_array(v))
        return wrong(s, t->name, "it has no shape", err);
    if (n > SAFETENSORS_DIMS)
        return wrong(s, t->name, "its shape has more than 8 dimensions", err);
    t->n_dims = (uint32_t)n;
    for (size_t i = 0; i < SAFETENSORS_DIMS; i++) {
        t->ne[i] = 1;
        if (i < n && !import_json_whole(json_array_get(v, n - 1 - i), INT64_MAX, &t->ne[i]))
            return wrong(s, t->name, "its shape is not made of whole numbers", err);
        if (t->ne[i] && *size > INT64_MAX / t->ne[i])
            return wrong(s, t->name, "its shape is too large", err);
        *size *= t->ne[i];
    }
    return TFT_OK;
}

static enum tft_status take_offsets(const struct safetensors *s, struct safetensor *t,
                                    const json_t *v, uint64_t size, struct tft_error *err)
{
    uint64_t end;
    if (json_array_size(v) != 2 ||
        !import_json_whole(json_array_get(v, 0), INT64_MAX, &t->offset) ||
        !import_json_whole(json_array_get(v, 1), INT64_MAX, &end))
        return wrong(s, t->name, "its data_offsets are not two whole numbers", err);
    if (t->offset > end || end > s->size)
        return wrong(s, t->name, "its data_offsets lie outside the file", err);
    t->bytes = end - t->offset;
    if (t->bytes != size)
        return wrong(s, t->name, "its data_offsets do not fit its shape and dtype", err);
    return TFT_OK;
}

static enum tft_status take_tensor(const struct safetensors *s, struct safetensor *t,
                                   const json_t *v, struct tft_error *err)
{
    uint64_t size = 0;
    if (!json_is_object(v))
        return wrong(s, t->name, "it is not a JSON object", err);
    enum tft_status status = take_dtype(s, t, json_object_get(v, "dtype"), &size, err);
    if (status == TFT_OK)
        status = take_shape(s, t, json_object_get(v, "shape"), &size, err);
    if (status == TFT_OK)
        status = take_offsets(s, t, json_object_get(v, "data_offsets"), size, err);
    return status;
}

static int by_offset(const void *a, const void *b)
{
    const struct safetensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

/* Sorts the tensors. Fails unless they cover all of the data, each byte once. */
static enum tft_status check_parts(struct safetensors *s, struct tft_error *err)
{
    uint64_t at = 0;
    if (s->n)
        qsort(s->tensor, s->n, sizeof *s->tensor, by_offset);
    for (size_t i = 0; i < s->n; at += s->tensor[i++].bytes)
        if (s->tensor[i].offset != at)
            return wrong(s, s->tensor[i].name,
                         s->tensor[i].offset > at ? "there is a hole in the data before it"
                                                  : "its data overlaps that of another tensor",
                         err);
    if (at != s->size)
        return import_error(err, TFT_ERR_FORMAT, "%s: the last %llu bytes belong to no tensor",
                            s->name, (unsigned long long)(s->size - at));
    return TFT_OK;
}

static enum tft_status take_header(struct safetensors *s, struct tft_error *err)
{
    const char *key;
    json_t *v;
    if (!json_is_object(s->header))
        return import_error(err, TFT_ERR_FORMAT, "%s: the header is not a JSON object", s->name);
    size_t room = json_object_size(s->header);
    s->tensor = calloc(room ? room : 1, sizeof *s->tensor);
    if (!s->tensor)
        return import_error(err, TFT_ERR_NOMEM, "%s: out of memory", s->name);
    json_object_foreach(s->header, key, v)
    {
        if (strcmp(key, "__metadata__") == 0)
            continue;
        struct safetensor *t = &s->tensor[s->n++];
        t->name = key;
        enum tft_status status = take_tensor(s, t, v, err);
        if (status != TFT_OK)
            return status;
    }
    return check_parts(s, err);
}

enum tft_status safetensors_parse(struct safetensors *s, const char *name,
                                  const unsigned char *bytes, size_t size, struct tft_error *err)
{
    *s = (struct safetensors){.name = name};
    if (size < 8)
        return import_error(err, TFT_ERR_FORMAT, "%s: a file of %zu bytes is not safetensors", name,
                        size);
    uint64_t n = tft_load_u64(bytes);
    if (n > SAFETENSORS_MOST_HEADER)
        return import_error(err, TFT_ERR_FORMAT,
                        "%s: its header would have %llu bytes, more than 100 MB: this is not "
                        "safetensors",
                        name, (unsigned long long)n);
    if (n > size - 8)
        return import_error(err, TFT_ERR_FORMAT,
                            "%s: the header of %llu bytes is longer than the file", name,
                            (unsigned long long)n);
    enum tft_status status =
        import_json_parse(&s->header, name, bytes + 8, (size_t)n, JSON_REJECT_DUPLICATES, err);
    if (status != TFT_OK)
        return status;
    s->data = bytes + 8 + n;
    s->size = size - 8 - n;
    return take_header(s, err);
}

enum tft_status safetensors_open(struct safetensors *s, const char *path, struct tft_error *err)
{
    struct tft_map map;
    *s = (struct safetensors){0};
    char *copy = import_path("", path);
    if (!copy)
        return import_error(err, TFT_ERR_NOMEM, "%s: out of memory", path);
    int os = tft_port_map(&map, path);
    if (os) {
        free(copy);
        return tft_fail_os(err, os, path, "cannot be read");
    }
    enum tft_status status = safetensors_parse(s, copy, map.data, map.size, err);
    s->path = copy;
    s->map = map;
    return status;
}

void safetensors_close(struct safetensors *s)
{
    json_decref(s->header);
    free(s->tensor);
    tft_port_unmap(&s->map);
    free(s->path);
    *s = (struct safetensors){0};
}
