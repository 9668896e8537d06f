#include "value.h"

#include <string.h>

#include "base/bytes.h"

static const struct {
    const char *name;
    size_t bytes; /* of one number */
} types[] = {
    [TFT_VALUE_U8] = {"u8", 1},         [TFT_VALUE_I8] = {"i8", 1},
    [TFT_VALUE_U16] = {"u16", 2},       [TFT_VALUE_I16] = {"i16", 2},
    [TFT_VALUE_U32] = {"u32", 4},       [TFT_VALUE_I32] = {"i32", 4},
    [TFT_VALUE_F32] = {"f32", 4},       [TFT_VALUE_BOOL] = {"bool", 1},
    [TFT_VALUE_STRING] = {"string", 0}, [TFT_VALUE_ARRAY] = {"array", 0},
    [TFT_VALUE_U64] = {"u64", 8},       [TFT_VALUE_I64] = {"i64", 8},
    [TFT_VALUE_F64] = {"f64", 8},
};
enum { N_TYPES = sizeof types / sizeof *types };
_Static_assert(N_TYPES == TFT_VALUE_F64 + 1, "every enum tft_value_type has a row");

const char *tft_value_type_name(enum tft_value_type type)
{
    return (unsigned)type < N_TYPES ? types[type].name : "unknown";
}

size_t tft_value_type_bytes(enum tft_value_type type)
{
    return (unsigned)type < N_TYPES ? types[type].bytes : 0;
}

/* *bits = element i in 64-bit two's complement; false if element i is not an integer or a bool. */
static bool integer(const struct tft_value *v, uint64_t i, uint64_t *bits, bool *negative)
{
    if (i >= v->n)
        return false;
    const unsigned char *p = v->data + i * tft_value_type_bytes(v->type);
    int64_t s = 0;
    switch (v->type) {
    case TFT_VALUE_U8:
    case TFT_VALUE_BOOL: *bits = *p; break;
    case TFT_VALUE_U16: *bits = tft_load_u16(p); break;
    case TFT_VALUE_U32: *bits = tft_load_u32(p); break;
    case TFT_VALUE_U64: *bits = tft_load_u64(p); break;
    case TFT_VALUE_I8: *bits = (uint64_t)(s = (int8_t)*p); break;
    case TFT_VALUE_I16: *bits = (uint64_t)(s = (int16_t)tft_load_u16(p)); break;
    case TFT_VALUE_I32: *bits = (uint64_t)(s = (int32_t)tft_load_u32(p)); break;
    case TFT_VALUE_I64: *bits = (uint64_t)(s = (int64_t)tft_load_u64(p)); break;
    default: return false;
    }
    *negative = s < 0;
    return true;
}

bool tft_value_uint(const struct tft_value *v, uint64_t i, uint64_t *out)
{
    uint64_t bits;
    bool negative;
    if (!integer(v, i, &bits, &negative) || negative)
        return false;
    *out = bits;
    return true;
}

bool tft_value_int(const struct tft_value *v, uint64_t i, int64_t *out)
{
    uint64_t bits;
    bool negative;
    if (!integer(v, i, &bits, &negative) || (!negative && bits > INT64_MAX))
        return false;
    *out = (int64_t)bits;
    return true;
}

bool tft_value_real(const struct tft_value *v, uint64_t i, double *out)
{
    uint64_t bits;
    bool negative;
    if (integer(v, i, &bits, &negative)) {
        *out = negative ? (double)(int64_t)bits : (double)bits;
    } else if (v->type == TFT_VALUE_F32 && i < v->n) {
        uint32_t u = tft_load_u32(v->data + i * 4);
        float f;
        memcpy(&f, &u, sizeof f);
        *out = f;
    } else if (v->type == TFT_VALUE_F64 && i < v->n) {
        uint64_t u = tft_load_u64(v->data + i * 8);
        memcpy(out, &u, sizeof *out);
    } else {
        return false;
    }
    return true;
}

bool tft_value_str(const struct tft_value *v, struct tft_str *out)
{
    if (v->type != TFT_VALUE_STRING || v->is_array)
        return false;
    const unsigned char *p = v->data;
    *out = tft_value_next_str(&p);
    return true;
}

struct tft_str tft_value_next_str(const unsigned char **p)
{
    struct tft_str s = {(const char *)*p + 8, (size_t)tft_load_u64(*p)};
    *p += 8 + s.n;
    return s;
}

bool tft_str_is(struct tft_str s, const char *text)
{
    return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}
