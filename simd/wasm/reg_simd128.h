/* The registers of lanes.h, for WebAssembly's fixed vectors: a v16 is four registers. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <wasm_simd128.h>

typedef v128_t reg;
enum { LANES = 4 };

static inline reg r_set(float x) { return wasm_f32x4_splat(x); }
static inline reg r_add(reg a, reg b) { return wasm_f32x4_add(a, b); }
static inline reg r_sub(reg a, reg b) { return wasm_f32x4_sub(a, b); }
static inline reg r_mul(reg a, reg b) { return wasm_f32x4_mul(a, b); }
static inline reg r_div(reg a, reg b) { return wasm_f32x4_div(a, b); }
static inline reg r_max(reg a, reg b) { return wasm_f32x4_pmax(b, a); } /* b < a ? a : b */
static inline reg r_min(reg a, reg b) { return wasm_f32x4_pmin(b, a); } /* a < b ? a : b */

/* a * b + c of two doubles that are floats, as doubles that round to the right floats. The product
   is exact, as 2 * 24 bits fit into 53. The sum is rounded to odd: an inexact sum becomes the
   adjacent double with last bit 1, which is half-way between two floats only if the exact sum is
   (Boldo and Melquiond 2008, "Emulation of FMA and correctly rounded sums"). e is the rounding
   error of the sum (Knuth's TwoSum); if the sum is infinite, e is NaN and the comparisons are
   false. */
static inline reg d_fma(reg a, reg b, reg c)
{
    const reg zero = wasm_f64x2_splat(0), one = wasm_i64x2_splat(1), two = wasm_i64x2_splat(2);
    reg p = wasm_f64x2_mul(a, b), s = wasm_f64x2_add(p, c), t = wasm_f64x2_sub(s, p);
    reg e = wasm_f64x2_add(wasm_f64x2_sub(p, wasm_f64x2_sub(s, t)), wasm_f64x2_sub(c, t));
    reg above = wasm_f64x2_gt(e, zero), below = wasm_f64x2_lt(e, zero);
    reg even = wasm_i64x2_eq(wasm_v128_and(s, one), wasm_i64x2_splat(0));
    reg moves = wasm_v128_and(even, wasm_v128_or(above, below));
    /* the bits of a double grow with its magnitude: +1 away from zero, -1 towards zero */
    reg away = wasm_v128_xor(above, wasm_f64x2_lt(s, zero));
    reg step = wasm_i64x2_sub(wasm_v128_and(away, two), one);
    return wasm_i64x2_add(s, wasm_v128_and(step, moves));
}

static inline reg r_upper(reg a) { return wasm_i32x4_shuffle(a, a, 2, 3, 2, 3); }

static inline reg r_fma(reg a, reg b, reg c)
{
    reg low = d_fma(wasm_f64x2_promote_low_f32x4(a), wasm_f64x2_promote_low_f32x4(b),
                    wasm_f64x2_promote_low_f32x4(c)),
        high = d_fma(wasm_f64x2_promote_low_f32x4(r_upper(a)),
                     wasm_f64x2_promote_low_f32x4(r_upper(b)),
                     wasm_f64x2_promote_low_f32x4(r_upper(c)));
    return wasm_i32x4_shuffle(wasm_f32x4_demote_f64x2_zero(low),
                              wasm_f32x4_demote_f64x2_zero(high), 0, 1, 4, 5);
}

static inline reg r_pick(reg a, reg b, reg c, reg d)
{
    return wasm_v128_bitselect(c, d, wasm_f32x4_lt(a, b));
}
static inline reg r_mask(reg a, uint32_t m)
{
    return wasm_v128_and(a, wasm_i32x4_splat((int32_t)m));
}
static inline reg r_swap(reg a, int h)
{
    return h == 1 ? wasm_i32x4_shuffle(a, a, 1, 0, 3, 2) : wasm_i32x4_shuffle(a, a, 2, 3, 0, 1);
}

static inline reg r_load(const float *p) { return wasm_v128_load(p); }
static inline void r_store(float *p, reg a) { wasm_v128_store(p, a); }

/* tft_f16_to_f32 (half.h) in every lane. */
static inline reg r_load_f16(const uint16_t *p)
{
    reg h = wasm_u32x4_load16x4(p), rest = wasm_v128_and(h, wasm_i32x4_splat(0x7fff));
    reg sign = wasm_i32x4_shl(wasm_v128_xor(h, rest), 16), digits = wasm_i32x4_shl(rest, 13);
    reg normal = wasm_i32x4_add(digits, wasm_i32x4_splat((127 - 15) << 23));
    reg nan = wasm_i32x4_gt(rest, wasm_i32x4_splat(0x7c00));
    reg special = wasm_v128_or(wasm_v128_or(digits, wasm_i32x4_splat(0x7f800000)),
                               wasm_v128_and(nan, wasm_i32x4_splat(1 << 22)));
    reg subnormal =
        wasm_f32x4_sub(wasm_v128_or(rest, wasm_i32x4_splat(0x3f000000)), wasm_f32x4_splat(0.5f));
    reg a = wasm_v128_bitselect(normal, subnormal, wasm_i32x4_ge(rest, wasm_i32x4_splat(0x400)));
    a = wasm_v128_bitselect(special, a, wasm_i32x4_ge(rest, wasm_i32x4_splat(0x7c00)));
    return wasm_v128_or(a, sign);
}

/* tft_f32_to_f16 in every lane. */
static inline void r_store_f16(uint16_t *p, reg a)
{
    reg u = wasm_v128_and(a, wasm_i32x4_splat(0x7fffffff)),
        sign = wasm_v128_and(wasm_u32x4_shr(a, 16), wasm_i32x4_splat(0x8000)),
        digits = wasm_u32x4_shr(u, 13), last = wasm_v128_and(digits, wasm_i32x4_splat(1));
    reg nan = wasm_v128_or(wasm_v128_and(digits, wasm_i32x4_splat(0x3ff)),
                           wasm_i32x4_splat(0x7e00));
    reg tiny = wasm_i32x4_sub(wasm_f32x4_add(u, wasm_f32x4_splat(0.5f)),
                              wasm_i32x4_splat(0x3f000000));
    reg h = wasm_i32x4_add(wasm_i32x4_add(u, last),
                           wasm_i32x4_splat(0xfff - ((127 - 15) << 23)));
    h = wasm_u32x4_shr(h, 13);
    h = wasm_v128_bitselect(tiny, h, wasm_i32x4_lt(u, wasm_i32x4_splat(0x38800000)));
    h = wasm_v128_bitselect(wasm_i32x4_splat(0x7c00), h,
                            wasm_i32x4_ge(u, wasm_i32x4_splat(0x477ff000)));
    h = wasm_v128_bitselect(nan, h, wasm_i32x4_gt(u, wasm_i32x4_splat(0x7f800000)));
    h = wasm_v128_or(h, sign);
    wasm_v128_store64_lane(p, wasm_u16x8_narrow_i32x4(h, h), 0);
}

static inline reg r_load_bf16(const uint16_t *p)
{
    return wasm_i32x4_shl(wasm_u32x4_load16x4(p), 16);
}

static inline reg r_load_f8(const uint8_t *p)
{
    reg b = wasm_u32x4_extend_low_u16x8(wasm_u16x8_extend_low_u8x16(wasm_v128_load32_zero(p))),
        rest = wasm_v128_and(b, wasm_i32x4_splat(0x7f));
    reg sign = wasm_i32x4_shl(wasm_u32x4_shr(b, 7), 31),
        nan = wasm_v128_and(wasm_i32x4_eq(rest, wasm_i32x4_splat(0x7f)),
                            wasm_i32x4_splat(0x7fc00000));
    reg a = wasm_f32x4_mul(wasm_i32x4_shl(rest, 20), wasm_f32x4_splat(0x1p120f));
    return wasm_v128_or(wasm_v128_or(a, nan), sign);
}

static inline reg r_integers(reg a) { return wasm_i32x4_trunc_sat_f32x4(wasm_f32x4_nearest(a)); }

static inline void r_store_bytes(uint8_t *p, reg a, int32_t zero)
{
    reg h = wasm_i32x4_add(r_integers(a), wasm_i32x4_splat(zero));
    h = wasm_i16x8_narrow_i32x4(h, h);
    wasm_v128_store32_lane(p, wasm_u8x16_narrow_i16x8(h, h), 0);
}

static inline reg r_doubled(const int32_t *p, int32_t shift)
{
    reg a = wasm_i32x4_shl(wasm_v128_load(p), 1);
    return wasm_f32x4_convert_i32x4(wasm_i32x4_sub(a, wasm_i32x4_splat(shift)));
}

static inline reg r_difference(const int32_t *p, const int32_t *q)
{
    return wasm_f32x4_convert_i32x4(wasm_i32x4_sub(wasm_v128_load(p), wasm_v128_load(q)));
}

static inline float r_hsum(reg a)
{
    reg c = r_add(a, r_swap(a, 2));
    return wasm_f32x4_extract_lane(c, 0) + wasm_f32x4_extract_lane(c, 1);
}

static inline float r_hmax(reg a)
{
    reg c = r_max(a, r_swap(a, 2));
    return wasm_f32x4_extract_lane(r_max(c, r_swap(c, 1)), 0);
}

static inline void r_add_doubles(double *p, reg a)
{
    reg low = wasm_f64x2_promote_low_f32x4(a), high = wasm_f64x2_promote_low_f32x4(r_upper(a));
    wasm_v128_store(p, wasm_f64x2_add(wasm_v128_load(p), low));
    wasm_v128_store(p + 2, wasm_f64x2_add(wasm_v128_load(p + 2), high));
}

static inline reg r_rint(reg a) { return wasm_f32x4_nearest(a); }

/* 2^e for integers -126 <= e <= 127 */
static inline reg r_pow2(reg e)
{
    return wasm_i32x4_shl(wasm_i32x4_add(e, wasm_i32x4_splat(127)), 23);
}

/* 2^q may exceed the floats; its two factors do not. Only the second product rounds. */
static inline reg r_scale(reg a, reg q)
{
    reg e = wasm_i32x4_trunc_sat_f32x4(q), half = wasm_i32x4_shr(e, 1);
    return r_mul(r_mul(a, r_pow2(half)), r_pow2(wasm_i32x4_sub(e, half)));
}

static inline reg r_or_nan(reg a, reg x)
{
    return wasm_v128_bitselect(a, x, wasm_f32x4_eq(x, x));
}
