/*
 * The tile registers of AMX (Intel's manual, volume 1, chapter 18): tmm0 to tmm7, all with 16 rows
 * of 64 bytes. In asm statements, since compilers differ in what they take for an access to memory,
 * and so that the file needs no further flags.
 */
#ifndef TFT_X86_TILES_H
#define TFT_X86_TILES_H

#include <stddef.h>
#include <stdint.h>

#include "simd/hints.h"

/* LDTILECFG: palette 1, and the bytes of a row and the rows of each of the 8 tiles. */
struct tiles_shape {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

_Static_assert(sizeof(struct tiles_shape) == 64, "as the instruction reads it");

FORCE_INLINE void tiles_begin(void)
{
    static const struct tiles_shape shape = {
        .palette = 1,
        .bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    __asm__ volatile("ldtilecfg %0" ::"m"(shape));
}

/* Without numbers in the tiles the system has fewer registers to save. */
FORCE_INLINE void tiles_end(void) { __asm__ volatile("tilerelease"); }

/* 16 rows of 64 bytes, `step` bytes apart. */
#define TILE_LOAD(tile, p, step)                                                                   \
    __asm__ volatile("tileloadd (%0,%1,1), %%" tile ::"r"(p), "r"(step) : "memory")
#define TILE_STORE(tile, p, step)                                                                  \
    __asm__ volatile("tilestored %%" tile ", (%0,%1,1)" ::"r"(p), "r"(step) : "memory")
#define TILE_ZERO(tile) __asm__ volatile("tilezero %%" tile :)
#define TILE_DOT(sum, tokens, panel)                                                               \
    __asm__ volatile("tdpbusd %%" panel ", %%" tokens ", %%" sum :)

#endif
