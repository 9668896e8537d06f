/* The ISA level dotprod: dot products of bytes (sdot), for gemm_i8 and attention on codes. */
#include "simd/isas.h"

#include "reg_neon.h"
#include "simd/template/lanes.h"

#if !defined __ARM_FEATURE_DOTPROD
#error "build this file with -march=armv8.2-a+dotprod"
#endif

/* gemm_i8: a quad of a panel, and the sums of its rows, 4 a register. */
typedef struct {
    int8x16_t r[4];
} d_weights;
typedef struct {
    int32x4_t r[4];
} d_acc;
typedef int8x16_t d_bytes;

static inline d_acc d_zero(void)
{
    return (d_acc){{vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0), vdupq_n_s32(0)}};
}

static inline d_acc d_add(d_acc a, d_acc b)
{
    UNROLL for (int i = 0; i < 4; i++)
        a.r[i] = vaddq_s32(a.r[i], b.r[i]);
    return a;
}

static inline void d_store(int32_t *sum, size_t next, d_acc a)
{
    (void)next;
    UNROLL for (int i = 0; i < 4; i++)
        vst1q_s32(sum + 4 * i, a.r[i]);
}

static inline d_weights d_load(const int8_t *p)
{
    return (d_weights){{vld1q_s8(p), vld1q_s8(p + 16), vld1q_s8(p + 32), vld1q_s8(p + 48)}};
}

static inline d_bytes d_token(const uint8_t *x, size_t next)
{
    (void)next;
    return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(x), vdupq_n_u8(0x80)));
}

/* sdot by lane s. vdotq_laneq_s32 requires a literal. */
static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    UNROLL for (int i = 0; i < 4; i++)
        acc.r[i] = s == 0   ? vdotq_laneq_s32(acc.r[i], w.r[i], x, 0)
                   : s == 1 ? vdotq_laneq_s32(acc.r[i], w.r[i], x, 1)
                   : s == 2 ? vdotq_laneq_s32(acc.r[i], w.r[i], x, 2)
                            : vdotq_laneq_s32(acc.r[i], w.r[i], x, 3);
    TOGETHER(acc.r);
    return acc;
}

#define ISA(name) name##_dotprod
#define DOT_ROWS 1
#define DOT_QUADS 1
#define DOT_FLIP 128
/* 20 registers of sums, 4 of weights, 5 of tokens: 29 of 32 */
#define DOT_TOKENS 5
#define DOT_PANELS 1
#include "simd/template/gemm_i8.h"

/* Attention on codes. An i16 factor is 128 * high + low, high in -127 .. 127 and low of 7 bits.
   c_put_x stores 16 bytes of high and of low, and c_acc has the sums of both. */
#include "coded_neon.h"

typedef d_weights c_codes;
typedef struct {
    int8x16_t high, low; /* `high` has an i8 factor */
} c_x;
typedef struct {
    d_acc high, low;
} c_acc;

static inline c_acc c_zero(void)
{
    return (c_acc){d_zero(), d_zero()};
}

static inline void c_put(uint8_t *to, const breg *a)
{
    UNROLL for (int i = 0; i < 4; i++)
        vst1q_u8(to + 16 * i, a[i]);
}

static inline c_codes c_take(const breg *a)
{
    c_codes c;
    UNROLL for (int i = 0; i < 4; i++)
        c.r[i] = vreinterpretq_s8_u8(a[i]);
    return c;
}

static inline int8x16_t c_bytes(const int16x8_t *v)
{
    return vcombine_s8(vmovn_s16(v[0]), vmovn_s16(v[1]));
}

static inline void c_put_x(uint8_t *to, v16 a, bool i16)
{
    int16x8_t v[2], low[2];
    UNROLL for (int i = 0; i < 2; i++) {
        v[i] = vcombine_s16(vmovn_s32(vcvtnq_s32_f32(a.r[2 * i])),
                            vmovn_s32(vcvtnq_s32_f32(a.r[2 * i + 1])));
        low[i] = vandq_s16(v[i], vdupq_n_s16(127));
        v[i] = i16 ? vshrq_n_s16(v[i], 7) : v[i];
    }
    vst1q_u8(to, vreinterpretq_u8_s8(c_bytes(v)));
    if (i16)
        vst1q_u8(to + 16, vreinterpretq_u8_s8(c_bytes(low)));
}

static inline c_codes c_load(const uint8_t *from, bool i16)
{
    (void)i16;
    return d_load((const int8_t *)from);
}

static inline c_x c_factors(const uint8_t *x, bool i16)
{
    int8x16_t high = vreinterpretq_s8_u8(vld1q_u8(x));
    return (c_x){high, i16 ? vreinterpretq_s8_u8(vld1q_u8(x + 16)) : high};
}

static inline c_acc c_dot(c_acc acc, c_codes c, c_x x, size_t s, bool i16)
{
    acc.high = d_dot(acc.high, c, x.high, s);
    if (i16)
        acc.low = d_dot(acc.low, c, x.low, s);
    return acc;
}

static inline c_acc c_add(c_acc a, c_acc b)
{
    return (c_acc){d_add(a.high, b.high), d_add(a.low, b.low)};
}

static inline void c_store(int32_t *sum, c_acc acc, bool i16, bool add)
{
    UNROLL for (int i = 0; i < 4; i++) {
        int32x4_t a = i16 ? vaddq_s32(vshlq_n_s32(acc.high.r[i], 7), acc.low.r[i]) : acc.high.r[i];
        vst1q_s32(sum + 4 * i, add ? vaddq_s32(vld1q_s32(sum + 4 * i), a) : a);
    }
}

#define CODED_I8 1
#define CODED_RUN CODED_SPANS
/* i16 factors: 16 registers of sums, 4 of codes, 4 of factors */
#define CODED_TILE 2
/* i8 factors: 16 registers of sums, 4 of codes */
#define CODED_DIRECT 4
#define CODED_WAYS 4
#include "simd/template/codes_attention.h"

/* gemm_packed */
#include "packed_neon.h"

typedef d_acc p_acc;

static inline p_acc p_start(int32_t n, bool wide)
{
    (void)wide;
    return (p_acc){{vdupq_n_s32(n), vdupq_n_s32(n), vdupq_n_s32(n), vdupq_n_s32(n)}};
}

static inline p_acc p_dot(p_acc acc, p_quads w, const uint8_t *x, bool wide)
{
    int8x8_t b = vreinterpret_s8_u8(vld1_u8(x));
    (void)wide;
    UNROLL for (int i = 0; i < 4; i++) {
        acc.r[i] = vdotq_lane_s32(acc.r[i], w.r[0][i], b, 0);
        acc.r[i] = vdotq_lane_s32(acc.r[i], w.r[1][i], b, 1);
    }
    TOGETHER(acc.r);
    return acc;
}

static inline v16 p_floats(p_acc acc, bool wide)
{
    (void)wide;
    EACH_PART(vcvtq_f32_s32(acc.r[p]));
}

typedef d_acc n_acc;

static inline n_acc n_start(void) { return d_zero(); }

/* A code of 1 is 255, which as a signed byte is -1. */
static inline n_acc n_dot(n_acc acc, const uint8_t *from, const uint8_t *x, int bits)
{
    breg code[4];
    int32_t quad;
    (void)bits;
    memcpy(&quad, x, 4);
    b_test(code, from);
    UNROLL for (int i = 0; i < 4; i++)
        acc.r[i] = vdotq_s32(acc.r[i], vreinterpretq_s8_u8(code[i]),
                             vreinterpretq_s8_s32(vdupq_n_s32(quad)));
    TOGETHER(acc.r);
    return acc;
}

static inline v16 n_floats(n_acc acc, int32_t minus, int bits)
{
    (void)bits;
    EACH_PART(vcvtq_f32_s32(vsubq_s32(vdupq_n_s32(minus), vshlq_n_s32(acc.r[p], 1))));
}

/* 12 registers of sums, 12 of floats, 3 of tokens, weights in turn: 29 of 32 */
#define PACKED_TOKENS 3
#define PACKED_PANELS 1
#include "simd/template/gemm_packed.h"

/* gemm_low */
#include "low_udot.h"

TFT_PEAK(peak_int8_dotprod, int32x4_t, vdupq_n_s32(0x01010101),
         vdotq_s32(acc[i], vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(a)), 2 * 16)

void tft_isa_dotprod(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    fill_codes(k);
    fill_packed(k);
    k->gemm_i8 = gemm_i8_dotprod;
    k->gemm_low = gemm_low_dotprod;
    k->peak_int8 = peak_int8_dotprod;
}
