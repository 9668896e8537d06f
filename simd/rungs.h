/* The rungs of the ladder. x86/ladder.c, arm/ladder.c or c/ladder.c says which this kind of CPU
   has, lowest first; the build picks one. */
#ifndef TFT_RUNGS_H
#define TFT_RUNGS_H

#include "kernels.h"

struct tft_rung {
    const char *name;
    bool (*present)(void);               /* on this machine */
    void (*fill)(struct tft_kernels *k); /* overwrites the slots it does better */
};

/* Ends with a NULL name. A rung may be absent below one that is there: fill must do without its
   slots. */
extern const struct tft_rung tft_ladder[];

bool tft_always(void);
void tft_rung_c(struct tft_kernels *k);      /* all slots */
void tft_rung_avx2(struct tft_kernels *k);   /* AVX2, FMA, F16C */
void tft_rung_avxvnni(struct tft_kernels *k); /* 256-bit dot products, without AVX-512 */
void tft_rung_avx512(struct tft_kernels *k); /* AVX-512 F, BW, DQ, VL */
void tft_rung_avx512vnni(struct tft_kernels *k);
void tft_rung_neon(struct tft_kernels *k); /* armv8.0 */
void tft_rung_dotprod(struct tft_kernels *k);
void tft_rung_i8mm(struct tft_kernels *k);

#endif
