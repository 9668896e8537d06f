/* The ISA level neon: armv8.0, every 64-bit ARM. Replaces all kernels with a template. */
#include "simd/isas.h"

#include "reg_neon.h"
#include "simd/template/lanes.h"

#define ISA(name) name##_neon
/* 6 sums of four registers, 3 operands: 27 of 32 registers */
#define TILE_M 3
#define TILE_N 2
/* One v16 per query, so many queries share a conversion, which takes as long as two fma. */
#define TILE_Q 6
#define TILE_V 1
#include "simd/template/floats.h"

/* gemm_i8: two quads of a panel, 4 rows a register. */
typedef struct {
    int8x16_t quad[2][4];
} d_weights;

/* Two sums per row, two rows per register. */
typedef struct {
    int32x4_t r[8];
} d_acc;
typedef int8x16_t d_bytes;

static inline d_acc d_zero(void)
{
    d_acc a;
    UNROLL for (int i = 0; i < 8; i++)
        a.r[i] = vdupq_n_s32(0);
    return a;
}

static inline d_acc d_add(d_acc a, d_acc b)
{
    UNROLL for (int i = 0; i < 8; i++)
        a.r[i] = vaddq_s32(a.r[i], b.r[i]);
    return a;
}

static inline void d_store(int32_t *sum, size_t next, d_acc a)
{
    (void)next;
    UNROLL for (int i = 0; i < 4; i++)
        vst1q_s32(sum + 4 * i, vpaddq_s32(a.r[2 * i], a.r[2 * i + 1]));
}

static inline d_weights d_load(const int8_t *p)
{
    d_weights w;
    UNROLL for (int i = 0; i < 8; i++)
        w.quad[i / 4][i % 4] = vld1q_s8(p + 16 * i);
    return w;
}

static inline d_bytes d_token(const uint8_t *x, size_t next)
{
    (void)next;
    return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(x), vdupq_n_u8(0x80)));
}

/* The sum of two products is at most 2 * 128 * 127, and fits an int16. */
static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    int32x4_t q = vreinterpretq_s32_s8(x);
    int8x16_t a = vreinterpretq_s8_s32(s ? vdupq_laneq_s32(q, 2) : vdupq_laneq_s32(q, 0));
    int8x16_t b = vreinterpretq_s8_s32(s ? vdupq_laneq_s32(q, 3) : vdupq_laneq_s32(q, 1));
    UNROLL for (int i = 0; i < 4; i++) {
        int16x8_t low = vmull_s8(vget_low_s8(w.quad[0][i]), vget_low_s8(a)),
                  high = vmull_high_s8(w.quad[0][i], a);
        low = vmlal_s8(low, vget_low_s8(w.quad[1][i]), vget_low_s8(b));
        high = vmlal_high_s8(high, w.quad[1][i], b);
        acc.r[2 * i] = vpadalq_s16(acc.r[2 * i], low);
        acc.r[2 * i + 1] = vpadalq_s16(acc.r[2 * i + 1], high);
    }
    return acc;
}

#define DOT_ROWS 1
#define DOT_QUADS 2
#define DOT_FLIP 128
/* 16 registers of sums, 8 of weights, 4 of tokens, products: all 32 */
#define DOT_TOKENS 2
#define DOT_PANELS 1
#include "simd/template/gemm_i8.h"

/*
 * Attention on codes: the 16 rows of a column, as int16, are multiplied by a factor in a lane of a
 * register. So c_put stores a quad by columns. There are no i8 factors: i8 would double the
 * products of an instruction, but no instruction on bytes takes its factor from a lane.
 */
#include "coded_neon.h"

typedef struct {
    int16x8_t r[4][2];
} c_codes;
typedef struct {
    int16x8_t half[2];
} c_x;
typedef struct {
    int32x4_t r[4];
} c_acc;

static inline c_acc c_zero(void)
{
    return (c_acc){{vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)}};
}

static inline void c_put(uint8_t *to, const breg *a)
{
    breg even[2] = {vuzp1q_u8(a[0], a[1]), vuzp1q_u8(a[2], a[3])},
         odd[2] = {vuzp2q_u8(a[0], a[1]), vuzp2q_u8(a[2], a[3])};
    vst1q_u8(to, vuzp1q_u8(even[0], even[1]));
    vst1q_u8(to + 16, vuzp1q_u8(odd[0], odd[1]));
    vst1q_u8(to + 32, vuzp2q_u8(even[0], even[1]));
    vst1q_u8(to + 48, vuzp2q_u8(odd[0], odd[1]));
}

static inline void c_put_x(uint8_t *to, v16 a, bool i16)
{
    (void)i16;
    UNROLL for (int p = 0; p < PARTS; p++)
        vst1_u8(to + 8 * p, vreinterpret_u8_s16(vmovn_s32(vcvtnq_s32_f32(a.r[p]))));
}

static inline c_codes c_load(const uint8_t *from, bool i16)
{
    c_codes c;
    (void)i16;
    UNROLL for (int i = 0; i < 4; i++) {
        int8x16_t a = vreinterpretq_s8_u8(vld1q_u8(from + 16 * i));
        c.r[i][0] = vmovl_s8(vget_low_s8(a));
        c.r[i][1] = vmovl_high_s8(a);
    }
    return c;
}

static inline c_x c_factors(const uint8_t *x, bool i16)
{
    (void)i16;
    return (c_x){{vreinterpretq_s16_u8(vld1q_u8(x)), vreinterpretq_s16_u8(vld1q_u8(x + 16))}};
}

#define COLUMN(i, lane)                                                                            \
    UNROLL for (int h = 0; h < 2; h++)                                                             \
    {                                                                                              \
        acc.r[2 * h] = vmlal_laneq_s16(acc.r[2 * h], vget_low_s16(c.r[i][h]), f, lane);            \
        acc.r[2 * h + 1] = vmlal_high_laneq_s16(acc.r[2 * h + 1], c.r[i][h], f, lane);             \
    }

static inline c_acc c_dot(c_acc acc, c_codes c, c_x x, size_t s, bool i16)
{
    int16x8_t f = x.half[s / 2];
    (void)i16;
    if (s % 2 == 0) {
        COLUMN(0, 0)
        COLUMN(1, 1)
        COLUMN(2, 2)
        COLUMN(3, 3)
    } else {
        COLUMN(0, 4)
        COLUMN(1, 5)
        COLUMN(2, 6)
        COLUMN(3, 7)
    }
    return acc;
}

static inline void c_store(int32_t *sum, c_acc acc, bool i16, bool add)
{
    (void)i16;
    UNROLL for (int i = 0; i < 4; i++)
        vst1q_s32(sum + 4 * i, add ? vaddq_s32(vld1q_s32(sum + 4 * i), acc.r[i]) : acc.r[i]);
}

#define CODED_I8 0
#define CODED_RUN CODED_SPANS
/* 12 registers of sums, 8 of codes, 6 of factors: 26 of 32 */
#define CODED_TILE 3
#define CODED_DIRECT 0
#define CODED_WAYS 4
#include "simd/template/codes_attention.h"

/*
 * gemm_packed. A product of a narrow number, at most 63, and a byte of a token, at most 127, is at
 * most 8001, and an int16 holds the sum of four. A wide number is at most 128: an int16 holds the
 * sum of two products.
 */
#include "packed_neon.h"

/* Narrow numbers: r[0 .. 3], a sum for each row. Wide numbers: r[0 .. 7], two sums for each row;
   p_floats adds the two. */
typedef struct {
    int32x4_t r[8];
} p_acc;

/* With wide numbers, n is 0. */
static inline p_acc p_start(int32_t n, bool wide)
{
    p_acc a;
    UNROLL for (int i = 0; i < 8; i++)
        a.r[i] = vdupq_n_s32(wide || i >= 4 ? 0 : n);
    return a;
}

static inline int8x16_t p_repeat(const uint8_t *x)
{
    int32_t quad;
    memcpy(&quad, x, 4);
    return vreinterpretq_s8_s32(vdupq_n_s32(quad));
}

static inline p_acc p_dot(p_acc acc, p_quads w, const uint8_t *x, bool wide)
{
    int8x16_t a = p_repeat(x), b = p_repeat(x + 4);
    UNROLL for (int i = 0; i < 4; i++) {
        int16x8_t low = vmull_s8(vget_low_s8(w.r[0][i]), vget_low_s8(a)),
                  high = vmull_high_s8(w.r[0][i], a);
        low = vmlal_s8(low, vget_low_s8(w.r[1][i]), vget_low_s8(b));
        high = vmlal_high_s8(high, w.r[1][i], b);
        if (wide) {
            acc.r[2 * i] = vpadalq_s16(acc.r[2 * i], low);
            acc.r[2 * i + 1] = vpadalq_s16(acc.r[2 * i + 1], high);
        } else {
            acc.r[i] = vpadalq_s16(acc.r[i], vpaddq_s16(low, high));
        }
    }
    TOGETHER(acc.r);
    if (wide)
        TOGETHER(acc.r + 4);
    return acc;
}

static inline v16 p_floats(p_acc acc, bool wide)
{
    EACH_PART(vcvtq_f32_s32(wide ? vpaddq_s32(acc.r[2 * p], acc.r[2 * p + 1]) : acc.r[p]));
}

/* Two sums for each row. A sum of 16 bytes fits an int16. */
typedef struct {
    int16x8_t r[4];
} n_acc;

static inline n_acc n_start(void)
{
    return (n_acc){{vdupq_n_s16(0), vdupq_n_s16(0), vdupq_n_s16(0), vdupq_n_s16(0)}};
}

static inline n_acc n_dot(n_acc acc, const uint8_t *from, const uint8_t *x, int bits)
{
    breg code[4], a = vreinterpretq_u8_s8(p_repeat(x));
    (void)bits;
    b_test(code, from);
    UNROLL for (int i = 0; i < 4; i++)
        acc.r[i] = vpadalq_s8(acc.r[i], vreinterpretq_s8_u8(b_and(code[i], a)));
    TOGETHER(acc.r);
    return acc;
}

static inline v16 n_floats(n_acc acc, int32_t minus, int bits)
{
    (void)bits;
    EACH_PART(vcvtq_f32_s32(
        vaddq_s32(vshlq_n_s32(vpaddlq_s16(acc.r[p]), 1), vdupq_n_s32(minus))));
}

/* 8 registers of sums (16 with wide numbers), 8 of floats, 4 of tokens; the rest for weights and
   products */
#define PACKED_TOKENS 2
#define PACKED_PANELS 1
#include "simd/template/gemm_packed.h"

/*
 * gemm_low: products of codes and the bytes of a token, both unsigned, are at most 15 * 255, and
 * 16 bits hold the sum of 17. A part has a sum for each column of a quad, two rows per register. An
 * l_acc has two sums per row.
 */
typedef struct {
    uint16x8_t r[8];
} l_part;
typedef struct {
    uint32x4_t r[8];
} l_acc;

static inline l_part l_run(l_acc acc)
{
    l_part a;
    (void)acc;
    UNROLL for (int i = 0; i < 8; i++)
        a.r[i] = vdupq_n_u16(0);
    return a;
}

static inline l_acc l_zero(void)
{
    l_acc a;
    UNROLL for (int i = 0; i < 8; i++)
        a.r[i] = vdupq_n_u32(0);
    return a;
}

static inline l_part l_dot(l_part part, const breg *a, const uint8_t *x)
{
    uint32_t quad;
    memcpy(&quad, x, 4);
    uint8x16_t b = vreinterpretq_u8_u32(vdupq_n_u32(quad));
    UNROLL for (int i = 0; i < 4; i++) {
        part.r[2 * i] = vmlal_u8(part.r[2 * i], vget_low_u8(a[i]), vget_low_u8(b));
        part.r[2 * i + 1] = vmlal_high_u8(part.r[2 * i + 1], a[i], b);
    }
    return part;
}

static inline l_acc l_sum(l_acc acc, l_part part)
{
    UNROLL for (int i = 0; i < 8; i++)
        acc.r[i] = vpadalq_u16(acc.r[i], part.r[i]);
    return acc;
}

#define l_rows(acc)                                                                                \
    ((l_total){{vpaddq_u32((acc).r[0], (acc).r[1]), vpaddq_u32((acc).r[2], (acc).r[3]),            \
                vpaddq_u32((acc).r[4], (acc).r[5]), vpaddq_u32((acc).r[6], (acc).r[7])}})
#define LOW_RUN(bits) LOW_STEP
#include "low_neon.h"

/* smlal, 8 products. Not smull: a compiler moves smull out of the loop. */
TFT_PEAK(peak_int8_neon, int16x8_t, vdupq_n_s16(0x0101),
         vmlal_s8(acc[i], vget_low_s8(vreinterpretq_s8_s16(a)),
                  vget_low_s8(vreinterpretq_s8_s16(a))),
         2 * 8)

void tft_isa_neon(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    fill_floats(k);
    fill_codes(k);
    fill_packed(k);
    k->gemm_i8 = gemm_i8_neon;
    k->gemm_low = gemm_low_neon;
    k->peak_int8 = peak_int8_neon;
}
