/* A module with vectors runs only on an engine with vectors. */
#include "simd/rungs.h"

const struct tft_rung tft_ladder[] = {
    {"c", NULL, tft_rung_c}, {"simd128", NULL, tft_rung_simd128}, {0}};
