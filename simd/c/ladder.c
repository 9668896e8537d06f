/* A CPU with only the reference. */
#include "simd/rungs.h"

const struct tft_rung tft_ladder[] = {{"c", NULL, tft_rung_c}, {0}};
