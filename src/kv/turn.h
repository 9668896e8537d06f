/*
 * The turns of keys in blocks. A FISHER block has keys before RoPE (fisher.h). Attention rebuilds
 * them, and turns each by the angles of its position.
 *
 * The tokens of a block are in the order of their positions, and mostly consecutive; a token that
 * stays in its slot, as special tokens do, leaves a gap. A *stretch* is a part of a block without a
 * gap. Its base is a position: the token at place j of the block has the position base + j. So keys
 * are turned by the angles of their places, the same for all blocks, heads and layers, and queries
 * are turned back by the base of the stretch:
 *
 *      q . R(base + j) k = (R(-base) q) . (R(j) k)
 *
 * Bases follow from the places of tokens, so they are computed anew after a slide, a copy or a
 * load.
 */
#ifndef TFT_TURN_H
#define TFT_TURN_H

#include "base/arena.h"
#include "simd/kernels.h"

/* Tokens of a block from place `from` on, up to the next stretch of the block. */
struct tft_stretch {
    uint32_t from, base;
};

struct tft_turns {
    uint32_t block;     /* tokens of a block */
    uint32_t dim;       /* E */
    uint32_t n_rot;     /* numbers of a key that RoPE turns; 0: none */
    bool halves;        /* partners are n_rot / 2 apart, else neighbours */
    const double *freq; /* [n_rot / 2] radians per position */
    float *cos, *sin;   /* [E / 2, block] of the places, for turn_keys: 1 and 0 from pair n_rot / 2
                           on */
    float *place_cos, *place_sin; /* [block, n_rot] the same, to turn back: for rope_.. */
    struct tft_stretch *stretch;  /* [most] of all blocks */
    float *base_cos, *base_sin;   /* [most, n_rot] of the bases, to turn back */
    uint32_t *first; /* [n_blocks + 1] the first stretch of each block, and the end of the last */
    uint32_t most;
    uint32_t blocks; /* with stretches */
};

/* Takes memory for n_blocks blocks, once t has the numbers up to freq. keep: the most tokens that
   stay in slots between others. */
void tft_turns_layout(struct tft_turns *t, struct tft_arena *a, uint32_t n_blocks, uint32_t keep);

/* Call once, after t has memory: the angles of the places. */
void tft_turns_open(struct tft_turns *t);

/* Finds the stretches of the first n blocks. The first `held` of them have tokens, the others are
   planned. The tokens of blocks have the positions from `first` on, except those that `stays`
   names, counted from `first`; NULL: none. */
void tft_turns_plan(struct tft_turns *t, uint32_t held, uint32_t n, uint32_t first,
                    const bool *stays);

/* The stretches of block b: first to *end - 1. */
static inline uint32_t tft_turns_of(const struct tft_turns *t, uint32_t b, uint32_t *end)
{
    *end = t->first[b + 1];
    return t->first[b];
}

/* Turns rows of x, [n, dim], back by the base of a stretch. */
void tft_turn_back(const struct tft_turns *t, const struct tft_kernels *kern, uint32_t stretch,
                   float *x, uint32_t n, uint32_t dim);

/* Turns the keys of block b back by their positions. x: [block, dim], rows ldx apart */
void tft_turn_block_back(const struct tft_turns *t, const struct tft_kernels *kern, uint32_t b,
                         float *x, size_t ldx, uint32_t dim);

#endif
