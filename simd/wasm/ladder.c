/* A module with vectors runs only where the engine has them. */
#include "simd/rungs.h"

const struct tft_rung tft_ladder[] = {
    {"c", NULL, tft_rung_c}, {"simd128", NULL, tft_rung_simd128}, {0}};
