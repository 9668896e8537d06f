#include "turn.h"

#include <assert.h>

#include "base/rope.h"

void tft_turns_layout(struct tft_turns *t, struct tft_arena *a, uint32_t n_blocks, uint32_t keep)
{
    size_t places = (size_t)t->n_rot * t->block, angles = 0;
    t->most = n_blocks + keep; /* each token in between divides one stretch at most */
    if (!tft_mul(t->most, t->n_rot, &angles))
        a->failed = true;
    t->cos = tft_arena_take(a, (size_t)t->dim / 2 * t->block, sizeof *t->cos);
    t->sin = tft_arena_take(a, (size_t)t->dim / 2 * t->block, sizeof *t->sin);
    t->place_cos = tft_arena_take(a, places, sizeof *t->place_cos);
    t->place_sin = tft_arena_take(a, places, sizeof *t->place_sin);
    t->stretch = tft_arena_take(a, t->most, sizeof *t->stretch);
    t->base_cos = tft_arena_take(a, angles, sizeof *t->base_cos);
    t->base_sin = tft_arena_take(a, angles, sizeof *t->base_sin);
    t->first = tft_arena_take(a, (size_t)n_blocks + 1, sizeof *t->first);
}

/* c, s: [n_rot] of the angles of `position`, to turn back. */
static void angles_back(const struct tft_turns *t, float *c, float *s, uint32_t position)
{
    tft_rope_angles(c, s, t->freq, t->n_rot, t->halves, position);
    for (uint32_t i = 0; i < t->n_rot; i++)
        s[i] = -s[i];
}

void tft_turns_open(struct tft_turns *t)
{
    t->first[0] = 0;
    for (uint32_t j = 0; j < t->block; j++) {
        float *c = t->place_cos + (size_t)j * t->n_rot, *s = t->place_sin + (size_t)j * t->n_rot;
        angles_back(t, c, s, j);
        for (uint32_t i = 0; i < t->dim / 2; i++) { /* back, the first of a pair has +sin */
            uint32_t at = t->halves ? i : 2 * i;
            t->cos[(size_t)i * t->block + j] = i < t->n_rot / 2 ? c[at] : 1;
            t->sin[(size_t)i * t->block + j] = i < t->n_rot / 2 ? s[at] : 0;
        }
    }
}

/* Finds the stretches of block b. at: the first position after the blocks before */
static void add_block(struct tft_turns *t, uint32_t b, uint32_t at, uint32_t first,
                      const bool *stays)
{
    uint32_t n = t->first[b];
    for (uint32_t j = 0; j < t->block; j++, at++) {
        while (stays && stays[at - first])
            at++;
        if (j && at - j == t->stretch[n - 1].base)
            continue;
        assert(n < t->most);
        t->stretch[n] = (struct tft_stretch){j, at - j};
        angles_back(t, t->base_cos + (size_t)n * t->n_rot, t->base_sin + (size_t)n * t->n_rot,
                    at - j);
        n++;
    }
    t->first[b + 1] = n;
}

void tft_turns_plan(struct tft_turns *t, uint32_t held, uint32_t n, uint32_t first,
                    const bool *stays)
{
    /* a discarded plan may have left stretches after those of `held` */
    for (uint32_t b = t->blocks < held ? t->blocks : held; b < n; b++)
        add_block(t, b, b ? t->stretch[t->first[b] - 1].base + t->block : first, first, stays);
    t->blocks = n;
}

static void turn_rows(const struct tft_turns *t, const struct tft_kernels *kern, const float *cos,
                      const float *sin, float *x, uint32_t n, uint32_t dim)
{
    (t->halves ? kern->rope_halves : kern->rope_pairs)(x, cos, sin, n, dim, t->n_rot);
}

void tft_turn_back(const struct tft_turns *t, const struct tft_kernels *kern, uint32_t stretch,
                   float *x, uint32_t n, uint32_t dim)
{
    size_t at = (size_t)stretch * t->n_rot;
    turn_rows(t, kern, t->base_cos + at, t->base_sin + at, x, n, dim);
}

void tft_turn_block_back(const struct tft_turns *t, const struct tft_kernels *kern, uint32_t b,
                         float *x, size_t ldx, uint32_t dim)
{
    uint32_t end, s = tft_turns_of(t, b, &end);
    for (uint32_t j = 0; j < t->block; j++, x += ldx) {
        size_t at = (size_t)j * t->n_rot;
        if (s + 1 < end && t->stretch[s + 1].from == j)
            s++;
        tft_turn_back(t, kern, s, x, 1, dim);
        turn_rows(t, kern, t->place_cos + at, t->place_sin + at, x, 1, dim);
    }
}
