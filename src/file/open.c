#include "file.h"

#include <string.h>

#include "base/error.h"
#include "gguf_read.h"
#include "llama2c.h"

static enum tft_status map(struct tft_map *out, const char *path, struct tft_error *err)
{
    int os = tft_port_map(out, path);
    return os ? tft_fail_os(err, os, path, "cannot be read") : TFT_OK;
}

/* Reads the container that the first bytes tell. */
static enum tft_status read_any(struct tft_source *s, const char *tokenizer, struct tft_error *err)
{
    if (!s->size)
        return tft_fail_at(err, TFT_ERR_FORMAT, s->name, 0, "the file is empty");
    if (s->size >= 4 && memcmp(s->data, "GGUF", 4) == 0)
        return tft_gguf_read(s, err);
    if (!tft_llama2c_probe(s->data, s->size))
        return tft_fail_at(err, TFT_ERR_FORMAT, s->name, 0,
                           "neither a GGUF file nor a complete llama2.c v0 checkpoint");
    enum tft_status status = tokenizer ? map(&s->map[1], tokenizer, err) : TFT_OK;
    return status ? status : tft_llama2c_read(s, tokenizer, err);
}

enum tft_status tft_source_open(struct tft_source *s, const char *path, const char *tokenizer,
                                const struct tft_allocator *a, struct tft_error *err)
{
    *s = (struct tft_source){.name = path, .allocator = a};
    enum tft_status status = map(&s->map[0], path, err);
    if (!status) {
        s->data = s->map[0].data;
        s->size = s->map[0].size;
        status = read_any(s, tokenizer, err);
    }
    if (status)
        tft_source_close(s);
    return status;
}

enum tft_status tft_source_open_mem(struct tft_source *s, const char *name, const void *data,
                                    size_t size, const struct tft_allocator *a,
                                    struct tft_error *err)
{
    *s = (struct tft_source){.name = name, .data = data, .size = size, .allocator = a};
    if ((uintptr_t)data % 32)
        return tft_fail(err, TFT_ERR_ARG, "%s: the data is not aligned to 32 bytes", name);
    enum tft_status status = tft_gguf_read(s, err);
    if (status)
        tft_source_close(s);
    return status;
}
