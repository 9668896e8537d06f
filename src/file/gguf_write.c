#include "gguf_write.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/crc32.h"
#include "base/error.h"
#include "base/new_file.h"
#include "gguf_read.h"
#include "port/port.h"

struct tft_gguf_writer {
    struct tft_new_file *f;
    struct tft_error error; /* the first error */
    enum { VALUES, TENSORS, DATA } stage;
    uint32_t alignment;
    uint64_t pos; /* bytes written */
    uint64_t n_value;
    uint64_t *tensor_bytes; /* [capacity], the size of each tensor */
    size_t n_tensor, capacity;
    uint64_t data_offset;  /* of the next tensor to describe */
    size_t data_tensor;    /* the tensor that receives data, */
    uint64_t data_done;    /* and the number of its bytes so far */
    uint64_t checksum_pos; /* position of the checksum in the file; 0: none */
    uint32_t checksum;     /* of the data so far */
};

enum { HEADER = 24 }; /* magic, version and two counts */

static bool failed(const struct tft_gguf_writer *w)
{
    return w->error.code != TFT_OK;
}

#define MISUSE(w, ...) ((void)(failed(w) || tft_fail(&(w)->error, TFT_ERR_ARG, __VA_ARGS__)))

static void fail_os(struct tft_gguf_writer *w, int os, const char *what)
{
    if (!failed(w))
        tft_fail_os(&w->error, os ? os : EIO, w->f->path, what);
}

/* ---- bytes */

static void put(struct tft_gguf_writer *w, const void *p, size_t n)
{
    if (failed(w))
        return;
    errno = 0;
    if (fwrite(p, 1, n, w->f->file) != n)
        fail_os(w, errno, "cannot be written");
    w->pos += n;
    if (w->stage == DATA && w->checksum_pos)
        w->checksum = tft_crc32(w->checksum, p, n);
}

static void seek(struct tft_gguf_writer *w, uint64_t pos)
{
    int os = failed(w) ? 0 : tft_port_seek(w->f->file, pos);
    if (os)
        fail_os(w, os, "cannot be written");
}

static void put_u32(struct tft_gguf_writer *w, uint32_t v)
{
    unsigned char b[4];
    tft_store_u32(b, v);
    put(w, b, sizeof b);
}

static void put_u64(struct tft_gguf_writer *w, uint64_t v)
{
    unsigned char b[8];
    tft_store_u64(b, v);
    put(w, b, sizeof b);
}

static void put_str(struct tft_gguf_writer *w, struct tft_str s)
{
    put_u64(w, s.n);
    put(w, s.p, s.n);
}

static void pad(struct tft_gguf_writer *w)
{
    static const char zeros[64];
    uint64_t n = (w->alignment - w->pos % w->alignment) % w->alignment;
    for (size_t piece; n && !failed(w); n -= piece) {
        piece = n < sizeof zeros ? (size_t)n : sizeof zeros;
        put(w, zeros, piece);
    }
}

/* ---- values */

static struct tft_str str(const char *s)
{
    return (struct tft_str){s, strlen(s)};
}

static void begin_value(struct tft_gguf_writer *w, struct tft_str key, enum tft_value_type type)
{
    if (w->stage != VALUES)
        MISUSE(w, "%s: value \"%.*s\" comes after a tensor", w->f->path, TFT_STR_ARG(key));
    put_str(w, key);
    put_u32(w, type);
    w->n_value++;
}

static void begin_array(struct tft_gguf_writer *w, struct tft_str key, enum tft_value_type type,
                        uint64_t n)
{
    begin_value(w, key, TFT_VALUE_ARRAY);
    put_u32(w, type);
    put_u64(w, n);
}

/* Records the alignment if this value is general.alignment. */
static void note_alignment(struct tft_gguf_writer *w, struct tft_str key, uint32_t n)
{
    if (!tft_str_is(key, "general.alignment"))
        return;
    if (tft_gguf_alignment_ok(n))
        w->alignment = n;
    else
        MISUSE(w, "%s: general.alignment is %u, not a power of two from 8 to 65536", w->f->path, n);
}

void tft_gguf_put_u32(struct tft_gguf_writer *w, const char *key, uint32_t v)
{
    begin_value(w, str(key), TFT_VALUE_U32);
    put_u32(w, v);
    note_alignment(w, str(key), v);
}

void tft_gguf_put_checksum(struct tft_gguf_writer *w, const char *key)
{
    if (w->checksum_pos)
        MISUSE(w, "%s: a second checksum, \"%s\"", w->f->path, key);
    begin_value(w, str(key), TFT_VALUE_U32);
    w->checksum_pos = w->pos;
    put_u32(w, 0); /* finish() fills in the number */
}

void tft_gguf_put_f32(struct tft_gguf_writer *w, const char *key, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    begin_value(w, str(key), TFT_VALUE_F32);
    put_u32(w, bits);
}

void tft_gguf_put_bool(struct tft_gguf_writer *w, const char *key, bool v)
{
    begin_value(w, str(key), TFT_VALUE_BOOL);
    put(w, v ? "\1" : "", 1);
}

void tft_gguf_put_str(struct tft_gguf_writer *w, const char *key, struct tft_str v)
{
    begin_value(w, str(key), TFT_VALUE_STRING);
    put_str(w, v);
}

void tft_gguf_put_strs(struct tft_gguf_writer *w, const char *key, const struct tft_str *v,
                       size_t n)
{
    begin_array(w, str(key), TFT_VALUE_STRING, n);
    for (size_t i = 0; i < n; i++)
        put_str(w, v[i]);
}

/* Writes a number of 1, 2, 4 or 8 bytes in the machine's byte order. */
static void put_number(struct tft_gguf_writer *w, const unsigned char *p, size_t bytes)
{
    union {
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } v;
    memcpy(&v, p, bytes);
    uint64_t number = bytes == 1 ? v.u8 : bytes == 2 ? v.u16 : bytes == 4 ? v.u32 : v.u64;
    unsigned char b[8];
    tft_store_u64(b, number);
    put(w, b, bytes);
}

void tft_gguf_put_array(struct tft_gguf_writer *w, const char *key, enum tft_value_type type,
                        const void *v, size_t n)
{
    size_t bytes = tft_value_type_bytes(type);
    if (!bytes)
        MISUSE(w, "%s: \"%s\" is not an array of numbers", w->f->path, key);
    begin_array(w, str(key), type, n);
    for (size_t i = 0; i < n && !failed(w); i++)
        put_number(w, (const unsigned char *)v + i * bytes, bytes);
}

uint64_t tft_gguf_put_array_later(struct tft_gguf_writer *w, const char *key,
                                  enum tft_value_type type, size_t n)
{
    static const char zeros[8];
    begin_array(w, str(key), type, n);
    uint64_t pos = w->pos;
    for (size_t i = 0; i < n; i++)
        put(w, zeros, tft_value_type_bytes(type));
    return pos;
}

void tft_gguf_fill_array(struct tft_gguf_writer *w, uint64_t pos, enum tft_value_type type,
                         const void *v, size_t n)
{
    struct tft_gguf_writer saved = *w; /* to continue from here afterwards */
    seek(w, pos);
    for (size_t i = 0; i < n && !failed(w); i++)
        put_number(w, (const unsigned char *)v + i * tft_value_type_bytes(type),
                   tft_value_type_bytes(type));
    w->pos = saved.pos;
    w->checksum = saved.checksum;
    seek(w, saved.pos);
}

static size_t value_bytes(const struct tft_value *v)
{
    if (v->type != TFT_VALUE_STRING)
        return (size_t)v->n * tft_value_type_bytes(v->type);
    const unsigned char *end = v->data;
    for (uint64_t i = 0; i < v->n; i++)
        tft_value_next_str(&end);
    return (size_t)(end - v->data);
}

void tft_gguf_put_value(struct tft_gguf_writer *w, const struct tft_value *v)
{
    uint64_t n;
    if (v->is_array)
        begin_array(w, v->key, v->type, v->n);
    else
        begin_value(w, v->key, v->type);
    put(w, v->data, value_bytes(v));
    if (v->type == TFT_VALUE_U32 && !v->is_array && tft_value_uint(v, 0, &n))
        note_alignment(w, v->key, (uint32_t)n);
}

/* ---- tensors */

static bool size_of_tensor(enum tft_dtype type, uint32_t n_dims, const uint64_t *ne,
                           uint64_t *bytes)
{
    if (n_dims < 1 || n_dims > 4 || !tft_dtype_bytes(type, ne[0], bytes))
        return false;
    for (uint32_t d = 1; d < n_dims; d++)
        if (__builtin_mul_overflow(*bytes, ne[d], bytes))
            return false;
    return *bytes > 0 && *bytes <= INT64_MAX;
}

static bool add_tensor_bytes(struct tft_gguf_writer *w, uint64_t bytes)
{
    if (w->n_tensor == w->capacity) {
        size_t capacity = w->capacity ? 2 * w->capacity : 64;
        uint64_t *grown = tft_alloc(NULL, capacity * sizeof *grown);
        if (!grown)
            return false;
        if (w->n_tensor)
            memcpy(grown, w->tensor_bytes, w->n_tensor * sizeof *grown);
        tft_free(NULL, w->tensor_bytes, w->capacity * sizeof *grown);
        w->tensor_bytes = grown;
        w->capacity = capacity;
    }
    w->tensor_bytes[w->n_tensor++] = bytes;
    return true;
}

void tft_gguf_put_tensor(struct tft_gguf_writer *w, struct tft_str name, enum tft_dtype type,
                         uint32_t n_dims, const uint64_t *ne)
{
    uint64_t bytes;
    if (failed(w))
        return;
    if (w->stage == DATA)
        MISUSE(w, "%s: tensor \"%.*s\" comes after data", w->f->path, TFT_STR_ARG(name));
    else if (!size_of_tensor(type, n_dims, ne, &bytes) ||
             bytes > INT64_MAX - w->data_offset - w->alignment)
        MISUSE(w, "%s: tensor \"%.*s\" has an impossible shape or type", w->f->path,
               TFT_STR_ARG(name));
    else if (!add_tensor_bytes(w, bytes))
        tft_fail(&w->error, TFT_ERR_NOMEM, "%s: out of memory for the sizes of the tensors",
                 w->f->path);
    if (failed(w))
        return;

    w->stage = TENSORS;
    put_str(w, name);
    put_u32(w, n_dims);
    for (uint32_t d = 0; d < n_dims; d++)
        put_u64(w, ne[d]);
    put_u32(w, type);
    put_u64(w, w->data_offset);
    w->data_offset = (w->data_offset + bytes + w->alignment - 1) / w->alignment * w->alignment;
}

static void begin_data(struct tft_gguf_writer *w)
{
    if (w->stage != DATA)
        pad(w);
    w->stage = DATA;
}

void tft_gguf_put_data(struct tft_gguf_writer *w, const void *data, size_t bytes)
{
    begin_data(w);
    if (!bytes)
        return;
    if (w->data_tensor == w->n_tensor || bytes > w->tensor_bytes[w->data_tensor] - w->data_done) {
        MISUSE(w, "%s: more data than the size of tensor %zu of %zu", w->f->path, w->data_tensor,
               w->n_tensor);
        return;
    }
    put(w, data, bytes);
    w->data_done += bytes;
    if (w->data_done == w->tensor_bytes[w->data_tensor]) {
        pad(w);
        w->data_tensor++;
        w->data_done = 0;
    }
}

/* ---- the file */

enum tft_status tft_gguf_create(struct tft_gguf_writer **out, const char *path,
                                struct tft_error *err)
{
    *out = NULL;
    struct tft_new_file *f;
    enum tft_status status = tft_new_file_create(&f, path, err);
    if (status != TFT_OK)
        return status;
    struct tft_gguf_writer *w = tft_alloc(NULL, sizeof *w);
    if (!w) {
        tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", path);
        tft_new_file_end(f, false, NULL);
        return TFT_ERR_NOMEM;
    }
    *w = (struct tft_gguf_writer){.f = f, .alignment = 32};
    put(w, (const char[HEADER]){0}, HEADER); /* finish() fills in the header */
    *out = w;
    return TFT_OK;
}

static void finish(struct tft_gguf_writer *w)
{
    begin_data(w);
    if (w->data_tensor < w->n_tensor)
        MISUSE(w, "%s: tensor %zu of %zu received %llu of its %llu bytes", w->f->path,
               w->data_tensor, w->n_tensor, (unsigned long long)w->data_done,
               (unsigned long long)w->tensor_bytes[w->data_tensor]);
    uint32_t checksum = w->checksum; /* without the bytes written from here on */
    if (w->checksum_pos) {
        seek(w, w->checksum_pos);
        put_u32(w, checksum);
    }
    seek(w, 0);
    put(w, "GGUF\3\0\0\0", 8);
    put_u64(w, w->n_tensor);
    put_u64(w, w->n_value);
}

/* Reads the file back. A key that occurs twice or is not text is the caller's error (TFT_ERR_ARG):
   better reported here than to readers of the file. */
static void verify(struct tft_gguf_writer *w)
{
    struct tft_source s = {.name = w->f->path};
    int os = tft_port_map(&s.map[0], w->f->temp.name);
    if (os) {
        fail_os(w, os, "cannot be read back");
        return;
    }
    s.data = s.map[0].data;
    s.size = s.map[0].size;
    if (tft_gguf_read(&s, &w->error) == TFT_ERR_FORMAT)
        w->error.code = TFT_ERR_ARG;
    tft_source_close(&s);
}

bool tft_gguf_failed(const struct tft_gguf_writer *w)
{
    return failed(w);
}

/* Frees w, but for w->f. */
static enum tft_status end(struct tft_gguf_writer *w, struct tft_error *err)
{
    enum tft_status status = w->error.code;
    if (status && err)
        *err = w->error;
    tft_free(NULL, w->tensor_bytes, w->capacity * sizeof *w->tensor_bytes);
    tft_free(NULL, w, sizeof *w);
    return status;
}

enum tft_status tft_gguf_complete(struct tft_gguf_writer *w, struct tft_new_file **file,
                                  struct tft_error *err)
{
    struct tft_new_file *f = w->f;
    finish(w);
    errno = 0;
    if (fclose(f->file) != 0)
        fail_os(w, errno, "cannot be written");
    f->file = NULL;
    if (!failed(w))
        verify(w);
    *file = failed(w) ? NULL : f;
    if (failed(w))
        tft_new_file_end(f, false, NULL);
    return end(w, err);
}

enum tft_status tft_gguf_close(struct tft_gguf_writer *w, bool keep, struct tft_error *err)
{
    struct tft_new_file *f;
    if (!w)
        return TFT_OK;
    if (!keep) {
        tft_new_file_end(w->f, false, NULL);
        return end(w, err);
    }
    enum tft_status status = tft_gguf_complete(w, &f, err);
    return status == TFT_OK ? tft_new_file_end(f, true, err) : status;
}
