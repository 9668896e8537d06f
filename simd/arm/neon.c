#include "rungs.h"

#include "reg_neon.h"

#define ISA(name) name##_neon
#define TILE_M 3 /* 6 outputs of four registers, and room for the operands of one quarter: 32 registers */
#define TILE_N 2
#define TILE_Q 3
#define TILE_V 2
#include "wide.h"

void tft_rung_neon(struct tft_kernels *k)
{
    wide_rung(k);
}
