/* A module with vectors runs only on an engine with vectors. */
#include "simd/isas.h"

const struct tft_isa tft_ladder[] = {
    {"c", NULL, tft_isa_c}, {"simd128", NULL, tft_isa_simd128}, {0}};
