/*
 * The products of simd/x86/amx.h with the tile registers written in C, on every x86-64 with AVX2:
 * which tokens, rows and columns they multiply, by the cases of the kernel harness. The harness
 * itself checks the instructions, on a CPU that has them. Returns 77, which meson takes as skipped,
 * without AVX2.
 */
#include <stdio.h>

#include "simd/isas.h"

/* The library has these, too. A compiler drops what only a static function uses: most of avx2.c. */
static void unused_isa_avx2(struct tft_kernels *k) __attribute__((unused));
static void unused_isa_amx(struct tft_kernels *k) __attribute__((unused));
#define tft_isa_avx2 unused_isa_avx2
#define tft_isa_amx unused_isa_amx
#define LOW_TILE 0 /* amx.h unpacks weights as gemm_low.h does */
#include "simd/x86/avx2.c"

/* tiles.h in C. The sums of the ISA level avx2 are of x - DOT_FLIP. */
#define TFT_X86_TILES_H

static union tile {
    uint8_t x[16][64];
    int8_t w[16][64];
    int32_t sum[16][16];
} registers[8];
static unsigned configured;

static void tiles_begin(void) { configured++; }
static void tiles_end(void) { configured--; }

#define TILE(name) (&registers[(name)[3] - '0'])

static void tile_move(void *to, size_t to_step, const void *from, size_t from_step)
{
    for (size_t i = 0; i < 16; i++)
        memcpy((uint8_t *)to + i * to_step, (const uint8_t *)from + i * from_step, 64);
}

/* Intel's manual, volume 2, TDPBUSD, without the flip */
static void tile_dot(union tile *sum, const union tile *x, const union tile *w)
{
    for (size_t m = 0; m < 16; m++)
        for (size_t k = 0; k < 16; k++)
            for (size_t n = 0; n < 16; n++)
                for (size_t i = 0; i < 4; i++)
                    sum->sum[m][n] += (x->x[m][4 * k + i] - DOT_FLIP) * w->w[k][4 * n + i];
}

#define TILE_LOAD(name, p, step) tile_move(TILE(name), 64, p, step)
#define TILE_STORE(name, p, step) tile_move(p, step, TILE(name), 64)
#define TILE_ZERO(name) memset(TILE(name), 0, sizeof *registers)
#define TILE_DOT(sums, tokens, panel) tile_dot(TILE(sums), TILE(tokens), TILE(panel))

#include "simd/x86/amx.h"

#include "kernels/data.h"

int main(int argc, char **argv)
{
    struct check c = check_start(argc, argv);
    struct tft_kernels ref, now;
    if (!tft_kernels_limit("avx2"))
        return 77;
    memset(&ref, 0, sizeof ref);
    tft_kernels_fill(&ref, 0);
    now = ref;
    now.name = "amx";
    now.gemm_i8 = gemm_i8_amx;
    now.gemm_low = gemm_low_amx;
    c.ref = c.below = &ref;
    c.now = &now;
    check_int8(&c);
    check_low(&c);
    check_free();
    printf("%u kernels checked, %u failures\n", c.checked, c.failed);
    if (configured)
        puts("the tiles were not released");
    return c.failed || c.checked != 2 || configured;
}
