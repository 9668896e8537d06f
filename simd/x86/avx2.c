#include "rungs.h"

#include "reg_avx2.h"

#define ISA(name) name##_avx2
#define TILE_M 3 /* 6 outputs of two registers, and room for the operands of one half: 16 registers */
#define TILE_N 2
#define TILE_Q 3
#define TILE_V 2
#include "wide.h"

void tft_rung_avx2(struct tft_kernels *k)
{
    wide_rung(k);
}
