/* The ISA level simd128: WebAssembly's fixed vectors. Replaces the kernels of floats and gemm_i8.
   The compiler vectorizes the reference of the other kernels. */
#include "simd/isas.h"

#include "reg_simd128.h"
#include "simd/template/lanes.h"

#define ISA(name) name##_simd128
/* An engine may compile for x86 without AVX: 16 registers, and an fma takes five. */
#define TILE_M 2
#define TILE_N 1
#define TILE_Q 2
#define TILE_V 1
#include "simd/template/floats.h"

/* gemm_i8: bytes are widened to 16 bits, even columns and odd columns of a quad separately. The
   product of vectors of 16 bits adds two products in 32 bits. */
typedef struct {
    v128_t r[4];
} d_acc;
typedef struct {
    v128_t even[4], odd[4];
} d_weights;
typedef const uint8_t *d_bytes;

static inline d_acc d_zero(void)
{
    d_acc a;
    UNROLL for (int i = 0; i < 4; i++)
        a.r[i] = wasm_i32x4_splat(0);
    return a;
}

static inline d_acc d_add(d_acc a, d_acc b)
{
    UNROLL for (int i = 0; i < 4; i++)
        a.r[i] = wasm_i32x4_add(a.r[i], b.r[i]);
    return a;
}

static inline void d_store(int32_t *sum, size_t next, d_acc a)
{
    (void)next;
    UNROLL for (int i = 0; i < 4; i++)
        wasm_v128_store(sum + 4 * i, a.r[i]);
}

static inline d_weights d_load(const int8_t *p)
{
    d_weights w;
    UNROLL for (int i = 0; i < 4; i++) {
        v128_t a = wasm_v128_load(p + 16 * i);
        w.even[i] = wasm_i16x8_shr(wasm_i16x8_shl(a, 8), 8);
        w.odd[i] = wasm_i16x8_shr(a, 8);
    }
    return w;
}

static inline d_bytes d_token(const uint8_t *x, size_t next)
{
    (void)next;
    return x;
}

static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    v128_t b = wasm_v128_load32_splat(x + 4 * s), odd = wasm_u16x8_shr(b, 8),
           even = wasm_v128_and(b, wasm_i16x8_splat(0xff));
    UNROLL for (int i = 0; i < 4; i++)
        acc.r[i] = wasm_i32x4_add(acc.r[i],
                                  wasm_i32x4_add(wasm_i32x4_dot_i16x8(w.even[i], even),
                                                 wasm_i32x4_dot_i16x8(w.odd[i], odd)));
    return acc;
}

#define DOT_ROWS 1
#define DOT_QUADS 1
#define DOT_FLIP 0
/* per token 4 registers of sums and 2 of bytes; 8 of weights: some wait in memory */
#define DOT_TOKENS 2
#define DOT_PANELS 1
#include "simd/template/gemm_i8.h"

TFT_PEAK(peak_int8_simd128, v128_t, wasm_i16x8_splat(1),
         wasm_i32x4_add(acc[i], wasm_i32x4_dot_i16x8(a, acc[i])), 2 * 8)

void tft_isa_simd128(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    fill_floats(k);
    k->gemm_i8 = gemm_i8_simd128;
    k->peak_int8 = peak_int8_simd128;
}
