#include "file.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "gguf_read.h"
#include "llama2c.h"
#include "split.h"

/* Finds the bytes of a file. If they are not in memory, maps the file in *m. */
static enum tft_status find(struct tft_map *m, const unsigned char **data, size_t *size,
                            const struct tft_place *at, struct tft_error *err)
{
    if (at->where == TFT_IN_MEMORY) {
        *data = at->data;
        *size = (size_t)at->size;
        return (uintptr_t)at->data % 32 == 0
                   ? TFT_OK
                   : tft_fail(err, TFT_ERR_ARG, "%s: the data is not aligned to 32 bytes",
                              at->name);
    }
    if (at->offset % 32)
        return tft_fail(err, TFT_ERR_ARG, "%s: the offset %llu is not a multiple of 32", at->name,
                        (unsigned long long)at->offset);
    if (at->where == TFT_AT_PATH && !at->name)
        return tft_fail(err, TFT_ERR_ARG, "no path: the name of the file is NULL");
    int os = at->where == TFT_AT_PATH ? tft_port_map(m, at->name)
                                      : tft_port_map_part(m, at->fd, at->offset, at->size);
    if (os == ERANGE)
        return tft_fail(err, TFT_ERR_ARG, "%s: the file ends before %llu bytes from byte %llu",
                        at->name, (unsigned long long)at->size, (unsigned long long)at->offset);
    *data = m->data;
    *size = m->size;
    if (os == EINVAL)
        return tft_fail_os(err, os, at->name,
                           "is a pipe or a device, which cannot be mapped: copy it to a file");
    return os ? tft_fail_os(err, os, at->name, "cannot be read") : TFT_OK;
}

/* Reads the container, chosen by the first bytes. */
static enum tft_status read_any(struct tft_source *s, const struct tft_place *tokenizer,
                                struct tft_error *err)
{
    enum tft_status status = TFT_OK;
    if (!s->size)
        return tft_fail_at(err, TFT_ERR_FORMAT, s->name, 0, "the file is empty");
    if (s->size >= 4 && memcmp(s->data, "GGUF", 4) == 0)
        return tft_gguf_read(s, err);
    if (!tft_llama2c_probe(s->data, s->size))
        return tft_fail_at(err, TFT_ERR_FORMAT, s->name, 0,
                           "neither a GGUF file nor a complete llama2.c v0 checkpoint");
    if (tokenizer->where)
        status = find(&s->map[1], &s->tokenizer, &s->tokenizer_size, tokenizer, err);
    return status ? status : tft_llama2c_read(s, tokenizer->where ? tokenizer->name : NULL, err);
}

enum tft_status tft_source_open_at(struct tft_source *s, const struct tft_place *model,
                                   const struct tft_place *tokenizer,
                                   const struct tft_allocator *a, struct tft_error *err)
{
    *s = (struct tft_source){.name = model->name, .allocator = a};
    enum tft_status status = find(&s->map[0], &s->data, &s->size, model, err);
    if (!status)
        status = read_any(s, tokenizer, err);
    if (status)
        tft_source_close(s);
    else if (tft_split_is_part(s))
        status = tft_split_join(s, model, err);
    return status;
}

enum tft_status tft_source_open(struct tft_source *s, const char *path, const char *tokenizer,
                                const struct tft_allocator *a, struct tft_error *err)
{
    struct tft_place model = {.where = TFT_AT_PATH, .name = path},
                     vocabulary = {.where = tokenizer ? TFT_AT_PATH : TFT_NOWHERE,
                                   .name = tokenizer};
    return tft_source_open_at(s, &model, &vocabulary, a, err);
}

enum tft_status tft_source_open_mem(struct tft_source *s, const char *name, const void *data,
                                    size_t size, const struct tft_allocator *a,
                                    struct tft_error *err)
{
    struct tft_place model = {.where = TFT_IN_MEMORY, .name = name, .data = data, .size = size};
    return tft_source_open_at(s, &model, &(struct tft_place){0}, a, err);
}
