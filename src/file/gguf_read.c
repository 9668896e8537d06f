/*
 * Reads GGUF (ggml docs/gguf.md) from untrusted bytes.
 *
 *      "GGUF"  u32 version  u64 number of tensors  u64 number of values
 *      values:   string key, u32 type, value
 *                an array is u32 type, u64 n, elements; a string is u64 n, bytes
 *      tensors:  string name, u32 n_dims, u64 dims[n_dims], u32 type, u64 offset from the start of
 *                the data
 *      zeros up to a multiple of general.alignment, then the data
 *
 * The same code reads the header twice: first to check the whole header and to count its records,
 * then, after one allocation, to store them. So a wrong file is refused before it costs memory.
 *
 * Choices, where the format leaves room or other readers differ:
 *   - Versions 2 and 3 are read. The only difference is that version 3 allows big-endian files, and
 *     only little-endian files are read.
 *   - Keys and names are UTF-8 without NUL, unique, keys at most 65535 bytes, names at most 63
 *     (ggml stores 64 with the NUL). Bools are 0 or 1. Arrays of arrays are refused: the format
 *     allows them, but nothing writes them.
 *   - Every dimension is at least 1. Nothing can be computed with an empty tensor, and zeros break
 *     divisions.
 *   - Each tensor's data starts at the padded end of the previous tensor's data. Every writer does
 *     this, llama.cpp requires it, and so no two tensors overlap. The padding after the last tensor
 *     may be missing; later bytes are ignored.
 */
#include "gguf_read.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"
#include "cursor.h"

enum {
    MIN_VALUE = 8 + 1 + 4 + 1,          /* bytes of the smallest value: a key of 1 byte, a u8 */
    MIN_TENSOR = 8 + 1 + 4 + 8 + 4 + 8, /* the smallest tensor: a name of 1 byte, 1 dimension */
    MAX_KEY = 65535,
    MAX_NAME = 63,
    DEFAULT_ALIGNMENT = 32,
};

struct reader {
    struct tft_source *s;
    struct tft_error *err;
    struct tft_cursor c;
    uint64_t n_value, n_tensor; /* the counts in the file */
    uint64_t data_used;         /* bytes of the tensors' data so far, including padding */
};

#define BAD(r, pos, ...) tft_fail_at((r)->err, TFT_ERR_FORMAT, (r)->s->name, pos, __VA_ARGS__)
#define UNSUPPORTED(r, pos, ...)                                                                   \
    tft_fail_at((r)->err, TFT_ERR_UNSUPPORTED, (r)->s->name, pos, __VA_ARGS__)

static enum tft_status ended(const struct reader *r, const char *in, uint64_t i)
{
    return BAD(r, r->c.pos, "the file ends inside %s %llu", in, (unsigned long long)i);
}

/* Whether s is UTF-8 without NUL. */
static bool is_text(struct tft_str s)
{
    for (size_t i = 0; i < s.n;) {
        uint32_t c;
        i += tft_utf8_next(s.p + i, s.n - i, &c);
        if (!c || c >= TFT_UTF8_BAD)
            return false;
    }
    return true;
}

/* The key of value i, or the name of tensor i. */
static enum tft_status read_name(struct reader *r, const char *of, uint64_t i, size_t max,
                                 struct tft_str *out)
{
    size_t pos = r->c.pos;
    uint64_t n = tft_cursor_u64(&r->c);
    if (r->c.past_end)
        return ended(r, of, i);
    if (!n)
        return BAD(r, pos, "%s %llu has an empty name", of, (unsigned long long)i);
    if (n > max)
        return BAD(r, pos, "the name of %s %llu has %llu bytes; at most %zu are allowed", of,
                   (unsigned long long)i, (unsigned long long)n, max);
    const unsigned char *p = tft_cursor_bytes(&r->c, n);
    if (!p)
        return ended(r, of, i);
    *out = (struct tft_str){(const char *)p, (size_t)n};
    if (!is_text(*out))
        return BAD(r, pos + 8, "the name of %s %llu is not UTF-8 text", of, (unsigned long long)i);
    return TFT_OK;
}

/* ---- values */

static enum tft_status check_elements(struct reader *r, const struct tft_value *v)
{
    size_t bytes = tft_value_type_bytes(v->type);
    uint64_t all;
    if (bytes) {
        tft_cursor_bytes(&r->c, __builtin_mul_overflow(v->n, bytes, &all) ? UINT64_MAX : all);
    } else {
        for (uint64_t i = 0; i < v->n && !r->c.past_end; i++)
            tft_cursor_bytes(&r->c, tft_cursor_u64(&r->c));
    }
    if (r->c.past_end)
        return BAD(r, r->c.pos, "the file ends inside \"%.*s\", %llu x %s", TFT_STR_ARG(v->key),
                   (unsigned long long)v->n, tft_value_type_name(v->type));

    if (v->type == TFT_VALUE_BOOL)
        for (uint64_t i = 0; i < v->n; i++)
            if (v->data[i] > 1)
                return BAD(r, (uint64_t)(v->data - r->c.data) + i,
                           "\"%.*s\" is a bool, but its value is %d", TFT_STR_ARG(v->key),
                           v->data[i]);
    return TFT_OK;
}

static enum tft_status set_alignment(struct reader *r, const struct tft_value *v)
{
    uint64_t n = 0;
    if (v->is_array || v->type != TFT_VALUE_U32)
        return BAD(r, v->offset, "general.alignment is not a u32");
    tft_value_uint(v, 0, &n);
    if (!tft_gguf_alignment_ok(n))
        return BAD(r, v->offset, "general.alignment is %llu, not a power of two from 8 to 65536",
                   (unsigned long long)n);
    r->s->alignment = (uint32_t)n;
    return TFT_OK;
}

static enum tft_status read_value(struct reader *r, uint64_t i, struct tft_value *v)
{
    *v = (struct tft_value){.offset = r->c.pos, .n = 1};
    enum tft_status status = read_name(r, "value", i, MAX_KEY, &v->key);
    if (status)
        return status;

    size_t pos = r->c.pos;
    uint32_t type = tft_cursor_u32(&r->c);
    if (type == TFT_VALUE_ARRAY) {
        v->is_array = true;
        pos = r->c.pos;
        type = tft_cursor_u32(&r->c);
        v->n = tft_cursor_u64(&r->c);
    }
    if (r->c.past_end)
        return ended(r, "value", i);
    if (type == TFT_VALUE_ARRAY)
        return UNSUPPORTED(r, pos, "\"%.*s\" is an array of arrays, which is not supported",
                           TFT_STR_ARG(v->key));
    if (type > TFT_VALUE_F64)
        return BAD(r, pos, "\"%.*s\" has the unknown type %u", TFT_STR_ARG(v->key), type);
    v->type = (enum tft_value_type)type;
    v->data = r->c.data + r->c.pos;
    status = check_elements(r, v);
    return !status && tft_str_is(v->key, "general.alignment") ? set_alignment(r, v) : status;
}

/* ---- tensors */

static enum tft_status read_shape(struct reader *r, uint64_t i, struct tft_tensor *t)
{
    size_t pos = r->c.pos;
    t->n_dims = tft_cursor_u32(&r->c);
    if (!r->c.past_end && (t->n_dims < 1 || t->n_dims > 4))
        return BAD(r, pos, "tensor \"%.*s\" has %u dimensions; 1 to 4 are allowed",
                   TFT_STR_ARG(t->name), t->n_dims);

    uint64_t numbers = 1;
    for (uint32_t d = 0; d < 4; d++) {
        pos = r->c.pos;
        t->ne[d] = d < t->n_dims ? tft_cursor_u64(&r->c) : 1;
        if (r->c.past_end)
            return ended(r, "tensor", i);
        if (!t->ne[d])
            return BAD(r, pos, "dimension %u of tensor \"%.*s\" is 0", d, TFT_STR_ARG(t->name));
        if (__builtin_mul_overflow(numbers, t->ne[d], &numbers) || numbers > INT64_MAX)
            return BAD(r, pos, "tensor \"%.*s\" has 2^63 numbers or more", TFT_STR_ARG(t->name));
    }
    return TFT_OK;
}

static enum tft_status read_type(struct reader *r, uint64_t i, struct tft_tensor *t)
{
    size_t pos = r->c.pos;
    uint32_t type = tft_cursor_u32(&r->c);
    if (r->c.past_end)
        return ended(r, "tensor", i);
    const struct tft_dtype_info *info = tft_dtype_info(type);
    if (!info)
        return UNSUPPORTED(r, pos, "tensor \"%.*s\" is of type %s (%d), which is not supported",
                           TFT_STR_ARG(t->name), tft_dtype_name(type), (int)type);
    t->type = (enum tft_dtype)type;
    if (t->ne[0] % info->block)
        return BAD(r, pos,
                   "tensor \"%.*s\" has rows of %llu numbers, not a multiple of %u as %s needs",
                   TFT_STR_ARG(t->name), (unsigned long long)t->ne[0], info->block, info->name);
    if (!tft_dtype_bytes(type, t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3], &t->bytes) ||
        t->bytes > r->s->size)
        return BAD(r, pos, "tensor \"%.*s\" is larger than the file", TFT_STR_ARG(t->name));
    return TFT_OK;
}

static enum tft_status read_offset(struct reader *r, uint64_t i, const struct tft_tensor *t)
{
    size_t pos = r->c.pos;
    uint64_t offset = tft_cursor_u64(&r->c);
    if (r->c.past_end)
        return ended(r, "tensor", i);
    if (offset != r->data_used)
        return BAD(r, pos,
                   "the data of tensor \"%.*s\" is at offset %llu instead of %llu, where the "
                   "tensor before it ends",
                   TFT_STR_ARG(t->name), (unsigned long long)offset,
                   (unsigned long long)r->data_used);
    if (offset > r->s->size || t->bytes > r->s->size - offset)
        return BAD(r, pos, "the data of tensor \"%.*s\" ends outside the file",
                   TFT_STR_ARG(t->name));
    /* cannot wrap: the sum without padding is at most the size of the file */
    r->data_used = (offset + t->bytes + r->s->alignment - 1) / r->s->alignment * r->s->alignment;
    return TFT_OK;
}

static enum tft_status read_tensor(struct reader *r, uint64_t i, struct tft_tensor *t)
{
    *t = (struct tft_tensor){.offset = r->c.pos};
    enum tft_status status = read_name(r, "tensor", i, MAX_NAME, &t->name);
    if (!status)
        status = read_shape(r, i, t);
    if (!status)
        status = read_type(r, i, t);
    return status ? status : read_offset(r, i, t);
}

/* Sets the data of each tensor. The header ends at the cursor. */
static enum tft_status place_tensors(struct reader *r)
{
    struct tft_source *s = r->s;
    uint64_t align = s->alignment, pos = (r->c.pos + align - 1) / align * align;
    for (size_t i = 0; i < s->n_tensor; i++) {
        struct tft_tensor *t = &s->tensor[i];
        if (pos > s->size || t->bytes > s->size - pos)
            return BAD(r, t->offset,
                       "the data of tensor \"%.*s\" ends at byte %llu, but the file at %zu",
                       TFT_STR_ARG(t->name), (unsigned long long)(pos + t->bytes), s->size);
        t->data = s->data + pos;
        pos = (pos + t->bytes + align - 1) / align * align;
    }
    return TFT_OK;
}

/* ---- the file */

static enum tft_status read_version(struct reader *r)
{
    uint32_t version = tft_cursor_u32(&r->c);
    r->s->version = version;
    if (r->c.past_end)
        return BAD(r, r->c.pos, "the file ends inside the version");
    if (version == 2 || version == 3)
        return TFT_OK;
    if (version && !(version & 0xffff)) /* a small number in the other byte order */
        return UNSUPPORTED(r, 4, "a big-endian GGUF file; only little-endian files are supported");
    return UNSUPPORTED(r, 4, "GGUF version %u is not supported, only 2 and 3", version);
}

/* Reads the number of records (`of`), each of at least `least` bytes. */
static enum tft_status read_count(struct reader *r, const char *of, size_t least, uint64_t *n)
{
    size_t pos = r->c.pos;
    *n = tft_cursor_u64(&r->c);
    if (r->c.past_end)
        return BAD(r, pos, "the file ends inside the number of %s", of);
    if (*n > (r->c.size - r->c.pos) / least || *n > UINT32_MAX)
        return BAD(r, pos, "%llu %s do not fit in a file of %zu bytes", (unsigned long long)*n, of,
                   r->c.size);
    return TFT_OK;
}

/* Passes once over all records; if `store`, puts the records into s->value and s->tensor. */
static enum tft_status read_records(struct reader *r, bool store)
{
    struct tft_value v;
    struct tft_tensor t;
    enum tft_status status = TFT_OK;
    r->data_used = 0;
    for (uint64_t i = 0; !status && i < r->n_value; i++)
        status = read_value(r, i, store ? &r->s->value[i] : &v);
    for (uint64_t i = 0; !status && i < r->n_tensor; i++)
        status = read_tensor(r, i, store ? &r->s->tensor[i] : &t);
    return status;
}

static enum tft_status read_twice(struct reader *r)
{
    struct tft_cursor start = r->c;
    enum tft_status status = read_records(r, false);
    if (status)
        return status;
    if (!tft_source_reserve(r->s, (size_t)r->n_value, (size_t)r->n_tensor, 0, r->err))
        return TFT_ERR_NOMEM;
    r->c = start;
    status = read_records(r, true);
    if (!status)
        status = place_tensors(r);
    return status ? status : tft_source_index(r->s, r->err);
}

enum tft_status tft_gguf_read(struct tft_source *s, struct tft_error *err)
{
    struct reader r = {.s = s, .err = err, .c = {.data = s->data, .size = s->size}};
    s->alignment = DEFAULT_ALIGNMENT;
    tft_cursor_bytes(&r.c, 4); /* "GGUF" */
    enum tft_status status = read_version(&r);
    if (!status)
        status = read_count(&r, "tensors", MIN_TENSOR, &r.n_tensor);
    if (!status)
        status = read_count(&r, "values", MIN_VALUE, &r.n_value);
    return status ? status : read_twice(&r);
}
