/* Shared by the fuzz targets of file readers. A broken promise calls abort(), which a fuzzer
   notices. */
#ifndef TFT_FUZZ_H
#define TFT_FUZZ_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "file/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(x) ((x) ? (void)0 : abort())

/* The memory that a file may cost, by its size. */
static inline void fuzz_check_memory(const struct memory *m, size_t size)
{
    MUST(m->peak <= 4 * size + 4096);
}

/* A message is one line that starts with the file's name. */
static inline void fuzz_check_error(const struct tft_error *err, enum tft_status status,
                                    const char *name)
{
    MUST(err->code == status);
    MUST(strncmp(err->msg, name, strlen(name)) == 0 && !strchr(err->msg, '\n'));
    MUST(status == TFT_ERR_FORMAT || status == TFT_ERR_UNSUPPORTED);
    MUST(strstr(err->msg, ": byte "));
}

static inline void touch(const void *p, size_t n)
{
    static volatile unsigned char sum;
    for (size_t i = 0; i < n; i++)
        sum = sum ^ ((const unsigned char *)p)[i];
}

/* The name as a C string; the caller frees it. */
static inline char *fuzz_c_string(struct tft_str s)
{
    char *c = malloc(s.n + 1);
    MUST(c && !memchr(s.p, 0, s.n));
    memcpy(c, s.p, s.n);
    c[s.n] = 0;
    return c;
}

static inline void fuzz_walk_value(const struct tft_source *s, const struct tft_value *v)
{
    char *key = fuzz_c_string(v->key);
    MUST(tft_source_value(s, key) == v);
    free(key);

    const unsigned char *at = v->data;
    struct tft_str str;
    uint64_t u;
    int64_t i;
    double d;
    for (uint64_t k = 0; k < v->n; k++) {
        if (v->type == TFT_VALUE_STRING) {
            str = tft_value_next_str(&at);
            touch(str.p, str.n);
        } else {
            MUST(tft_value_real(v, k, &d));
            tft_value_int(v, k, &i);
            MUST(tft_value_uint(v, k, &u) || v->type != TFT_VALUE_BOOL);
            MUST(v->type != TFT_VALUE_BOOL || u < 2);
        }
    }
    MUST(!tft_value_real(v, v->n, &d));
    MUST(tft_value_str(v, &str) == (v->type == TFT_VALUE_STRING && !v->is_array));
}

static inline void fuzz_walk_tensor(const struct tft_source *s, const struct tft_tensor *t)
{
    char *name = fuzz_c_string(t->name);
    MUST(tft_source_tensor(s, name) == t);
    free(name);

    const struct tft_dtype_info *info = tft_dtype_info(t->type);
    uint64_t row;
    MUST(info && tft_dtype_bytes(t->type, t->ne[0], &row));
    MUST(row * t->ne[1] * t->ne[2] * t->ne[3] == t->bytes && t->bytes > 0);
    MUST(t->n_dims >= 1 && t->n_dims <= 4 && (uintptr_t)t->data % 4 == 0);
    touch(t->data, 1);
    touch(t->data + t->bytes - 1, 1);
    if (!info->to_f32)
        return;
    float *y = malloc((size_t)t->ne[0] * sizeof *y);
    MUST(y);
    info->to_f32(y, t->data, (size_t)t->ne[0]);
    free(y);
}

/* Uses every function of a source. */
static inline void fuzz_walk(const struct tft_source *s)
{
    for (size_t i = 0; i < s->n_value; i++)
        fuzz_walk_value(s, &s->value[i]);
    for (size_t i = 0; i < s->n_tensor; i++)
        fuzz_walk_tensor(s, &s->tensor[i]);
}

#endif
