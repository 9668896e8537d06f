/* A CPU with only the reference. */
#include "simd/isas.h"

const struct tft_isa tft_ladder[] = {{"c", NULL, tft_isa_c}, {0}};
