/* The ISA level v: RISC-V's vectors, of any length. Replaces the kernels of floats and gemm_i8. */
#include "simd/isas.h"

#include "reg_v.h"
#include "simd/template/lanes.h"

#if !defined __riscv_vector
#error "build this file with -march=rv64gcv"
#endif

#define ISA(name) name##_v
/* Registers of 128 bits make eight v16. */
#define TILE_M 3
#define TILE_N 1
#define TILE_Q 3
#define TILE_V 1
#include "simd/template/floats.h"

/* gemm_i8: a quad by columns, each multiplied by one byte of a token. */
typedef i32x16 d_acc;
typedef struct {
    i16x16 column[TFT_QUAD];
} d_weights;
typedef const uint8_t *d_bytes;

static inline d_acc d_zero(void) { return (d_acc){0}; }
static inline d_acc d_add(d_acc a, d_acc b) { return a + b; }

static inline void d_store(int32_t *sum, size_t next, d_acc a)
{
    (void)next;
    memcpy(sum, &a, sizeof a);
}

#define COLUMN(a, i)                                                                               \
    __builtin_convertvector(                                                                       \
        __builtin_shufflevector(a, a, i, i + 4, i + 8, i + 12, i + 16, i + 20, i + 24, i + 28,     \
                                i + 32, i + 36, i + 40, i + 44, i + 48, i + 52, i + 56, i + 60),   \
        i16x16)

static inline d_weights d_load(const int8_t *p)
{
    typedef int8_t i8x64 __attribute__((vector_size(64)));
    i8x64 a;
    memcpy(&a, p, sizeof a);
    return (d_weights){{COLUMN(a, 0), COLUMN(a, 1), COLUMN(a, 2), COLUMN(a, 3)}};
}

static inline d_bytes d_token(const uint8_t *x, size_t next)
{
    (void)next;
    return x;
}

static inline d_acc d_dot(d_acc acc, d_weights w, d_bytes x, size_t s)
{
    UNROLL for (size_t i = 0; i < TFT_QUAD; i++) {
        i16x16 factor = (i16x16){0} + (int16_t)x[TFT_QUAD * s + i];
        acc += __builtin_convertvector(w.column[i], i32x16) *
               __builtin_convertvector(factor, i32x16);
    }
    return acc;
}

#define DOT_ROWS 1
#define DOT_QUADS 1
#define DOT_FLIP 0
/* Registers of 128 bits: 16 of sums and 8 of weights, of 32 */
#define DOT_TOKENS 4
#define DOT_PANELS 1
#include "simd/template/gemm_i8.h"

TFT_PEAK(peak_int8_v, i32x16, (i32x16){0} + 1,
         acc[i] + __builtin_convertvector(__builtin_convertvector(a, i16x16), i32x16) * 3, 2 * 16)

void tft_isa_v(struct tft_kernels *k)
{
    k->contracted += tft_contracts();
    fill_floats(k);
    k->gemm_i8 = gemm_i8_v;
    k->peak_int8 = peak_int8_v;
}
