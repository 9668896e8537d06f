/*
 * The ladder is the list of a CPU family's ISA levels. x86/ladder.c, arm/ladder.c, riscv/ladder.c,
 * wasm/ladder.c or c/ladder.c defines tft_ladder; the build picks one file.
 */
#ifndef TFT_ISAS_H
#define TFT_ISAS_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the assembler knows SME: the build asks it; other builds go by the compiler's age. */
#ifndef TFT_SME
#ifdef __clang__
#define TFT_SME (__clang_major__ >= 17)
#else
#define TFT_SME (__GNUC__ >= 12)
#endif
#endif

/* Whether the assembler knows AMX, in the same way. */
#ifndef TFT_AMX
#ifdef __clang__
#define TFT_AMX (__clang_major__ >= 12)
#else
#define TFT_AMX (__GNUC__ >= 11)
#endif
#endif

struct tft_kernels;

struct tft_isa {
    const char *name;
    bool (*present)(void);               /* whether this machine has the level; NULL: always */
    void (*fill)(struct tft_kernels *k); /* replaces kernels by this level's faster ones */
};

/* Lowest level first; ends with a NULL name. A level may be absent below a present level, so `fill`
   may rely only on the reference's kernels. */
extern const struct tft_isa tft_ladder[];

void tft_isa_c(struct tft_kernels *k);       /* the reference: fills the whole table */
void tft_isa_avx2(struct tft_kernels *k);    /* AVX2, FMA, F16C */
void tft_isa_avxvnni(struct tft_kernels *k); /* 256-bit dot products of bytes, without AVX-512 */
void tft_isa_avx512(struct tft_kernels *k);  /* AVX-512 F, BW, DQ, VL */
void tft_isa_avx512vnni(struct tft_kernels *k);
void tft_isa_amx(struct tft_kernels *k);  /* in the file of avx512vnni */
void tft_isa_neon(struct tft_kernels *k); /* armv8.0 */
void tft_isa_dotprod(struct tft_kernels *k);
void tft_isa_i8mm(struct tft_kernels *k);
void tft_isa_sme(struct tft_kernels *k); /* in the file of i8mm */
bool tft_sme_right(void);                /* whether the CPU, or its emulator, multiplies right */
void tft_isa_v(struct tft_kernels *k);   /* RISC-V */
void tft_isa_simd128(struct tft_kernels *k); /* WebAssembly */

#endif
