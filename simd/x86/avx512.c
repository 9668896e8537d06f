#include "rungs.h"

#include "reg_avx512.h"

#define ISA(name) name##_avx512
#define TILE_M 6 /* 24 accumulators, 4 rows of w, one of x: 29 of 32 registers */
#define TILE_N 4
#define TILE_Q 4
#define TILE_V 4
#include "wide.h"

void tft_rung_avx512(struct tft_kernels *k)
{
    wide_rung(k);
}
