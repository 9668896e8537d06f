/*
 * The rungs that a kind of CPU may have. x86/ladder.c, arm/ladder.c, wasm/ladder.c or c/ladder.c
 * defines tft_ladder; the build picks one of them.
 */
#ifndef TFT_RUNGS_H
#define TFT_RUNGS_H

#include <stdbool.h>
#include <stddef.h>

struct tft_kernels;

struct tft_rung {
    const char *name;
    bool (*present)(void);               /* whether this machine has it; NULL: every machine does */
    void (*fill)(struct tft_kernels *k); /* replaces the kernels that this rung does better */
};

/* Lowest rung first; ends with a NULL name. A rung may be absent below one that is present, so fill
   must not rely on the kernels of the rungs below, except those of the reference. */
extern const struct tft_rung tft_ladder[];

void tft_rung_c(struct tft_kernels *k);       /* the reference: fills the whole table */
void tft_rung_avx2(struct tft_kernels *k);    /* AVX2, FMA, F16C */
void tft_rung_avxvnni(struct tft_kernels *k); /* 256-bit dot products of bytes, without AVX-512 */
void tft_rung_avx512(struct tft_kernels *k);  /* AVX-512 F, BW, DQ, VL */
void tft_rung_avx512vnni(struct tft_kernels *k);
void tft_rung_neon(struct tft_kernels *k); /* armv8.0 */
void tft_rung_dotprod(struct tft_kernels *k);
void tft_rung_i8mm(struct tft_kernels *k);
void tft_rung_simd128(struct tft_kernels *k); /* WebAssembly */

#endif
