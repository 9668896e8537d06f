/* fma and fmaf of sums and products only, correctly rounded. meson.build uses them instead of a C
   library's functions that round wrongly: MinGW's (both), and emscripten's fmaf, which is musl's of
   2021 and needs a rounding mode that WebAssembly does not have. */
#ifndef TFT_FMA_H
#define TFT_FMA_H

float tft_fmaf(float x, float y, float z);

/* x, y, z and the result must be 0, or have magnitudes between 2^-400 and 2^400: then no part of
   the product overflows, or loses bits near 0. */
double tft_fma(double x, double y, double z);

#endif
