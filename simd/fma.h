/* fma and fmaf in sums and products alone, correctly rounded. meson.build puts them in the place of
   those of a C library that rounds some to the wrong number: MinGW's (both), and emscripten's fmaf,
   which is musl's of 2021 and needs a rounding mode that WebAssembly does not have. */
#ifndef TFT_FMA_H
#define TFT_FMA_H

float tft_fmaf(float x, float y, float z);

/* x, y, z and the result are 0, or their magnitudes are between 2^-400 and 2^400: no part of the
   product overflows, or loses bits near 0. */
double tft_fma(double x, double y, double z);

#endif
