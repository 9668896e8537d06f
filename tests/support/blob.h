/* Builds files in memory, byte by byte. */
#ifndef TFT_TEST_BLOB_H
#define TFT_TEST_BLOB_H

#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "port/port.h"
#include "file/file.h"

struct blob {
    size_t n;
    unsigned char p[4096];
};

static inline void blob_bytes(struct blob *b, const void *p, size_t n)
{
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static inline void blob_u32(struct blob *b, uint32_t v)
{
    tft_store_u32(b->p + b->n, v);
    b->n += 4;
}

static inline void blob_u64(struct blob *b, uint64_t v)
{
    tft_store_u64(b->p + b->n, v);
    b->n += 8;
}

static inline void blob_f32(struct blob *b, float v)
{
    uint32_t u;
    memcpy(&u, &v, 4);
    blob_u32(b, u);
}

static inline void blob_str(struct blob *b, const char *s)
{
    blob_u64(b, strlen(s));
    blob_bytes(b, s, strlen(s));
}

static inline void blob_pad(struct blob *b, size_t align)
{
    while (b->n % align)
        b->p[b->n++] = 0;
}

static inline void blob_header(struct blob *b, uint64_t n_tensor, uint64_t n_value)
{
    blob_bytes(b, "GGUF", 4);
    blob_u32(b, 3);
    blob_u64(b, n_tensor);
    blob_u64(b, n_value);
}

/* The key and the type of a value. */
static inline void blob_key(struct blob *b, const char *key, uint32_t type)
{
    blob_str(b, key);
    blob_u32(b, type);
}

static inline void blob_array(struct blob *b, const char *key, uint32_t type, uint64_t n)
{
    blob_key(b, key, TFT_VALUE_ARRAY);
    blob_u32(b, type);
    blob_u64(b, n);
}

/* A copy of p[n] in memory of that size, so that memory tools see a read past the end. */
static inline unsigned char *exact_copy(const void *p, size_t n)
{
    unsigned char *copy = tft_port_alloc(n ? n : 1, 64);
    memcpy(copy, p, n);
    return copy;
}

#endif
