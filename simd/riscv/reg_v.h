/*
 * The registers of lanes.h, for RISC-V's V: a v16 is one vector of clang's fixed vectors, which lie
 * in one register or in a group of up to four, whatever the length of the machine's registers (at
 * least 128 bits).
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef float reg __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef double f64x16 __attribute__((vector_size(128)));
typedef int16_t i16x16 __attribute__((vector_size(32)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));
typedef int8_t i8x16 __attribute__((vector_size(16)));
typedef uint8_t u8x16 __attribute__((vector_size(16)));
enum { LANES = 16 };

static inline u32x16 i_set(uint32_t x) { return (u32x16){0} + x; }

/* The lanes of c where m is -1, of d where it is 0. */
static inline u32x16 i_pick(i32x16 m, u32x16 c, u32x16 d)
{
    return (c & (u32x16)m) | (d & ~(u32x16)m);
}

static inline reg r_set(float x) { return (reg){0} + x; }
static inline reg r_add(reg a, reg b) { return a + b; }
static inline reg r_sub(reg a, reg b) { return a - b; }
static inline reg r_mul(reg a, reg b) { return a * b; }
static inline reg r_div(reg a, reg b) { return a / b; }
static inline reg r_fma(reg a, reg b, reg c) { return __builtin_elementwise_fma(a, b, c); }
static inline reg r_pick(reg a, reg b, reg c, reg d)
{
    return (reg)i_pick(a < b, (u32x16)c, (u32x16)d);
}
static inline reg r_max(reg a, reg b) { return r_pick(b, a, a, b); }
static inline reg r_min(reg a, reg b) { return r_pick(a, b, a, b); }
static inline reg r_mask(reg a, uint32_t m) { return (reg)((u32x16)a & m); }

static inline reg r_swap(reg a, int h)
{
    switch (h) {
    case 1:
        return __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    case 2:
        return __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
    case 4:
        return __builtin_shufflevector(a, a, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
    default:
        return __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
    }
}

static inline reg r_load(const float *p)
{
    reg a;
    memcpy(&a, p, sizeof a);
    return a;
}
static inline void r_store(float *p, reg a) { memcpy(p, &a, sizeof a); }

static inline u32x16 i_load16(const uint16_t *p)
{
    u16x16 a;
    memcpy(&a, p, sizeof a);
    return __builtin_convertvector(a, u32x16);
}

static inline i32x16 i_load32(const int32_t *p)
{
    i32x16 a;
    memcpy(&a, p, sizeof a);
    return a;
}

/* tft_f16_to_f32 (half.h) in every lane. */
static inline reg r_load_f16(const uint16_t *p)
{
    u32x16 h = i_load16(p), rest = h & 0x7fff, sign = (h ^ rest) << 16, digits = rest << 13;
    u32x16 special = digits | 0x7f800000 | ((u32x16)(rest > 0x7c00) & 1u << 22),
           subnormal = (u32x16)((reg)(rest | 0x3f000000) - 0.5f);
    u32x16 a = i_pick(rest >= 0x400, digits + ((127 - 15) << 23), subnormal);
    return (reg)(i_pick(rest >= 0x7c00, special, a) | sign);
}

/* tft_f32_to_f16 in every lane. */
static inline void r_store_f16(uint16_t *p, reg a)
{
    u32x16 bits = (u32x16)a, u = bits & 0x7fffffff, sign = bits >> 16 & 0x8000, digits = u >> 13;
    u32x16 nan = (digits & 0x3ff) | 0x7e00, tiny = (u32x16)((reg)u + 0.5f) - 0x3f000000;
    u32x16 h = (u + (digits & 1) + (0xfffu - ((127u - 15) << 23))) >> 13;
    h = i_pick(u < 0x38800000, tiny, h);
    h = i_pick(u >= 0x477ff000, i_set(0x7c00), h);
    h = i_pick(u > 0x7f800000, nan, h);
    u16x16 to = __builtin_convertvector(h | sign, u16x16);
    memcpy(p, &to, sizeof to);
}

static inline reg r_load_bf16(const uint16_t *p) { return (reg)(i_load16(p) << 16); }

static inline reg r_load_f8(const uint8_t *p)
{
    u8x16 bytes;
    memcpy(&bytes, p, sizeof bytes);
    u32x16 b = __builtin_convertvector(bytes, u32x16), rest = b & 0x7f;
    u32x16 sign = b >> 7 << 31, nan = (u32x16)(rest == 0x7f) & 0x7fc00000;
    return (reg)((u32x16)((reg)(rest << 20) * 0x1p120f) | nan | sign);
}

static inline reg r_rint(reg a) { return __builtin_elementwise_roundeven(a); }

static inline void r_store_bytes(uint8_t *p, reg a, int32_t zero)
{
    u8x16 b = __builtin_convertvector(__builtin_convertvector(r_rint(a), i32x16) + zero, u8x16);
    memcpy(p, &b, sizeof b);
}

static inline reg r_doubled(const int32_t *p, int32_t shift)
{
    return __builtin_convertvector(i_load32(p) * 2 - shift, reg);
}

static inline reg r_difference(const int32_t *p, const int32_t *q)
{
    return __builtin_convertvector((i32x16)((u32x16)i_load32(p) - (u32x16)i_load32(q)), reg);
}

static inline float r_hsum(reg a)
{
    a = r_add(a, r_swap(a, 8));
    a = r_add(a, r_swap(a, 4));
    a = r_add(a, r_swap(a, 2));
    return a[0] + a[1];
}

static inline float r_hmax(reg a)
{
    a = r_max(a, r_swap(a, 8));
    a = r_max(a, r_swap(a, 4));
    a = r_max(a, r_swap(a, 2));
    return r_max(a, r_swap(a, 1))[0];
}

static inline void r_add_doubles(double *p, reg a)
{
    f64x16 sum;
    memcpy(&sum, p, sizeof sum);
    sum += __builtin_convertvector(a, f64x16);
    memcpy(p, &sum, sizeof sum);
}

/* 2^e for integers -126 <= e <= 127 */
static inline reg r_pow2(i32x16 e) { return (reg)((e + 127) << 23); }

/* 2^q may exceed the floats; its two factors do not. Only the second product rounds. */
static inline reg r_scale(reg a, reg q)
{
    i32x16 e = __builtin_convertvector(q, i32x16), half = e >> 1;
    return r_mul(r_mul(a, r_pow2(half)), r_pow2(e - half));
}

static inline reg r_or_nan(reg a, reg x) { return (reg)i_pick(x == x, (u32x16)a, (u32x16)x); }
