/*
 * A caller of the library may have numbers in ZA, and ask by TPIDR2_EL0 that they be saved before
 * ZA is used (AAPCS64, "The ZA lazy saving scheme"), as compilers do around a call. Returns 77,
 * which meson takes as skipped, without kernels of SME.
 */
#include <stdio.h>
#include <string.h>

#include "simd/isas.h"
#include "simd/kernels.h"

#if TFT_SME

enum { TOKENS = 32, COLS = 64, MOST = 256 /* bytes of the longest vector */ };

/* TPIDR2_EL0 points to this. */
struct block {
    void *to;
    uint16_t rows;
    uint8_t reserved[6];
};

static void fill_za(const uint8_t *from, size_t bytes, const struct block *block)
{
    __asm__ volatile(".arch_extension sme\n"
                     "smstart za\n"
                     "mov w12, wzr\n"
                     "1: ldr za[w12, 0], [%[from]]\n"
                     "add %[from], %[from], %[bytes]\n"
                     "add w12, w12, #1\n"
                     "cmp x12, %[bytes]\n"
                     "b.lo 1b\n"
                     "msr S3_3_C13_C0_5, %[block]\n" /* TPIDR2_EL0 */
                     : [from] "+&r"(from)
                     : [bytes] "r"(bytes), [block] "r"(block)
                     : "x12", "cc", "memory");
}

static void multiply(const struct tft_kernels *k)
{
    static uint8_t x[TOKENS * COLS];
    static int8_t w[TFT_PANEL * COLS];
    static float y[TOKENS * TFT_PANEL], scale[TFT_PANEL];
    static int32_t rowsum[TFT_PANEL];
    struct tft_affine q = {1, 1, 0};
    struct tft_panels panels = {w, scale, rowsum, COLS};
    k->gemm_i8(&(struct tft_gemm_i8){
        .y = y, .ldy = TFT_PANEL, .x = x, .ldx = COLS, .xq = &q, .w = &panels, .M = TOKENS,
        .N = TFT_PANEL});
}

static int check(const struct tft_kernels *k)
{
    static uint8_t want[MOST * MOST], saved[MOST * MOST];
    static struct block block = {.to = saved};
    size_t bytes;
    uint64_t asked, mode;
    __asm__(".arch_extension sme\nrdsvl %0, #1" : "=r"(bytes));
    block.rows = (uint16_t)bytes;
    for (size_t i = 0; i < sizeof want; i++)
        want[i] = (uint8_t)(7 * i + i / 256 + 1);
    fill_za(want, bytes, &block);
    multiply(k);
    __asm__ volatile("mrs %0, S3_3_C13_C0_5\nmrs %1, S3_3_C4_C2_2" : "=r"(asked), "=r"(mode));
    if (memcmp(want, saved, bytes * bytes) != 0)
        puts("ZA was not saved");
    if (asked || mode)
        printf("after the product, TPIDR2_EL0 is %#llx and SVCR %llu\n", (unsigned long long)asked,
               (unsigned long long)mode);
    return memcmp(want, saved, bytes * bytes) != 0 || asked || mode;
}

int main(void)
{
    struct tft_kernels k;
    memset(&k, 0, sizeof k);
    if (!tft_kernels_limit("sme"))
        return 77;
    tft_kernels_fill(&k, tft_kernels_best());
    return check(&k);
}

#else

int main(void)
{
    return 77;
}

#endif
