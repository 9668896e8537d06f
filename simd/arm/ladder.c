/* Every 64-bit ARM has NEON with fma. */
#include "rungs.h"

const struct tft_rung tft_ladder[] = {
    {"c", tft_always, tft_rung_c},
    {"neon", tft_always, tft_rung_neon},
    {0},
};
