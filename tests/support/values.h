/* Builds a struct tft_source value by value, in a buffer that stands for the file. */
#ifndef TFT_TEST_VALUES_H
#define TFT_TEST_VALUES_H

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "file/file.h"

struct values {
    struct tft_source s;
    struct tft_value value[32];
    uint32_t by_key[32];
    size_t used;
    unsigned char data[1 << 20];
};

static inline void values_start(struct values *v)
{
    v->s = (struct tft_source){.name = "v.gguf",
                               .data = v->data,
                               .size = sizeof v->data,
                               .value = v->value,
                               .value_by_key = v->by_key};
    v->used = 0;
}

/* Begins a value, and replaces one of the same key. The caller appends its elements. */
static inline void values_key(struct values *v, const char *key, enum tft_value_type type,
                              bool is_array, uint64_t n)
{
    size_t i = 0;
    while (i < v->s.n_value && !tft_str_is(v->value[i].key, key))
        i++;
    assert(i < 32);
    v->s.n_value += i == v->s.n_value;
    v->value[i] = (struct tft_value){.key = {key, strlen(key)},
                                     .offset = v->used,
                                     .type = type,
                                     .is_array = is_array,
                                     .n = n,
                                     .data = v->data + v->used};
}

static inline void values_remove(struct values *v, const char *key)
{
    for (size_t i = 0; i < v->s.n_value; i++)
        if (tft_str_is(v->value[i].key, key))
            v->value[i] = v->value[--v->s.n_value];
}

static inline void values_bytes(struct values *v, const void *p, size_t n)
{
    assert(n <= sizeof v->data - v->used);
    if (n)
        memcpy(v->data + v->used, p, n);
    v->used += n;
}

static inline void values_put_u32(struct values *v, uint32_t x)
{
    unsigned char b[4];
    tft_store_u32(b, x);
    values_bytes(v, b, 4);
}

static inline void values_put_str(struct values *v, const char *p, size_t n)
{
    unsigned char b[8];
    tft_store_u64(b, n);
    values_bytes(v, b, 8);
    values_bytes(v, p, n);
}

static inline void values_str(struct values *v, const char *key, const char *text)
{
    values_key(v, key, TFT_VALUE_STRING, false, 1);
    values_put_str(v, text, strlen(text));
}

static inline void values_u32(struct values *v, const char *key, uint32_t x)
{
    values_key(v, key, TFT_VALUE_U32, false, 1);
    values_put_u32(v, x);
}

static inline void values_bool(struct values *v, const char *key, bool x)
{
    values_key(v, key, TFT_VALUE_BOOL, false, 1);
    values_bytes(v, x ? "\1" : "\0", 1);
}

static inline void values_strs(struct values *v, const char *key, const char *const *text, size_t n)
{
    values_key(v, key, TFT_VALUE_STRING, true, n);
    for (size_t i = 0; i < n; i++)
        values_put_str(v, text[i], strlen(text[i]));
}

static inline void values_i32s(struct values *v, const char *key, const int32_t *x, size_t n)
{
    values_key(v, key, TFT_VALUE_I32, true, n);
    for (size_t i = 0; i < n; i++)
        values_put_u32(v, (uint32_t)x[i]);
}

static inline void values_u8s(struct values *v, const char *key, const unsigned char *x, size_t n)
{
    values_key(v, key, TFT_VALUE_U8, true, n);
    values_bytes(v, x, n);
}

static inline void values_f32s(struct values *v, const char *key, const float *x, size_t n)
{
    values_key(v, key, TFT_VALUE_F32, true, n);
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], 4);
        values_put_u32(v, bits);
    }
}

/* The source, after all values are added. */
static inline const struct tft_source *values_source(struct values *v)
{
    enum tft_status status = tft_source_index(&v->s, NULL);
    assert(!status);
    (void)status;
    return &v->s;
}

#endif
