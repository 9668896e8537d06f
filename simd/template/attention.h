/*
 * score, softmax, softmax_u8 and mix of kernels.h, for keys and values of f32 and f16.
 *
 * Parameters, besides lanes.h:
 *
 *   ISA(name)   the name of a function of this ISA level
 *   TILE_Q      queries of a tile, at most 6
 *   TILE_V      v16 of a tile for each query: panels of keys in score, 16 channels each in mix
 */
#ifndef TFT_TEMPLATE_ATTENTION_H
#define TFT_TEMPLATE_ATTENTION_H

#include "lanes.h"

_Static_assert(TILE_Q >= 1 && TILE_Q <= 6, "SCORE_CASE and MIX_CASE have the smaller tiles");
_Static_assert(TFT_KEY_PANEL == 16, "a v16 holds one channel of a panel of keys");

/* --------------------------------------------------------------------------------------- scores */

/* nq queries by np panels; both are constants after inlining. */
FORCE_INLINE void score_tile(const struct tft_score *a, size_t nq, size_t np, enum tft_num num)
{
    v16 acc[TILE_Q][TILE_V];
    UNROLL for (size_t i = 0; i < nq; i++)
        UNROLL for (size_t j = 0; j < np; j++)
            acc[i][j] = v_set(0);

    for (size_t d = 0; d < a->head_dim; d++)
        UNROLL for (size_t p = 0; p < PARTS; p++) {
            reg k[TILE_V];
            UNROLL for (size_t j = 0; j < np; j++)
                k[j] = r_load_num(a->k, (j * a->head_dim + d) * 16 + p * LANES, num);
            UNROLL for (size_t i = 0; i < nq; i++) {
                reg q = r_set(a->q[i * a->ldq + d]);
                UNROLL for (size_t j = 0; j < np; j++)
                    acc[i][j].r[p] = r_fma(q, k[j], acc[i][j].r[p]);
            }
        }

    UNROLL for (size_t i = 0; i < nq; i++)
        UNROLL for (size_t j = 0; j < np; j++)
            v_store(a->s + i * a->lds + j * 16, v_mul(acc[i][j], v_set(a->scale)));
}

/* nq queries by all panels. */
FORCE_INLINE void score_queries(struct tft_score a, size_t nq, enum tft_num num)
{
    size_t panel_bytes = 16 * a.head_dim * tft_num_bytes(num), panels = (a.n + 15) / 16;
    const char *k = a.k;
    for (; panels >= TILE_V; panels -= TILE_V, a.s += TILE_V * 16) {
        a.k = k;
        score_tile(&a, nq, TILE_V, num);
        k += TILE_V * panel_bytes;
    }
    for (; TILE_V > 2 && panels >= 2; panels -= 2, a.s += 32) { /* blocks of 32 tokens */
        a.k = k;
        score_tile(&a, nq, 2, num);
        k += 2 * panel_bytes;
    }
    for (; panels; panels--, a.s += 16) {
        a.k = k;
        score_tile(&a, nq, 1, num);
        k += panel_bytes;
    }
}

#define SCORE_CASE(nq)                                                                             \
    case nq:                                                                                       \
        if (nq < TILE_Q)                                                                           \
            score_queries(a, nq, num);                                                             \
        break

FORCE_INLINE void score(struct tft_score a, enum tft_num num)
{
    for (; a.nq >= TILE_Q; a.nq -= TILE_Q) {
        score_queries(a, TILE_Q, num);
        a.s += TILE_Q * a.lds;
        a.q += TILE_Q * a.ldq;
    }
    switch (a.nq) {
        SCORE_CASE(5);
        SCORE_CASE(4);
        SCORE_CASE(3);
        SCORE_CASE(2);
        SCORE_CASE(1);
    }
}

static void ISA(score_f32)(const struct tft_score *a)
{
    score(*a, TFT_NUM_F32);
}

static void ISA(score_f16)(const struct tft_score *a)
{
    score(*a, TFT_NUM_F16);
}

/* -------------------------------------------------------------------------------------- softmax */

FORCE_INLINE float largest(const float *p, size_t n)
{
    /* lanes past the end hold p[0]: never above the maximum */
    v16 lanes = v_set(p[0]);
    for (size_t j = 0; j < n; j += 16)
        lanes = v_select_n(v_max(lanes, v_load_n(p + j, n - j)), lanes, n - j);
    return v_hmax(lanes) + 0; /* -0 becomes 0: which of both is found depends on the order */
}

static void ISA(softmax)(float *p, size_t n, float *max, float *sum)
{
    *max = largest(p, n);
    v16 m = v_set(*max), total = v_set(0);
    for (size_t j = 0; j < n; j += 16) {
        v16 e = v_exp(v_sub(v_load_n(p + j, n - j), m));
        v_store_n(p + j, e, n - j);
        total = v_select_n(v_add(total, e), total, n - j);
    }
    *sum = v_hsum(total);
}

/* Replaces the scores of row i of softmax_u8 by weights; sets the row's sum, and step to the sum of
   the weights. Returns the factor that turns weights into bytes. */
FORCE_INLINE float weights_of_row(const struct tft_softmax_u8 *a, size_t i)
{
    float *p = a->p + i * a->ldp;
    size_t n = a->n[i];
    v16 m = v_set(a->max[i]), total = v_set(0), weight = v_set(0), most = v_set(0);
    for (size_t j = 0; j < n; j += 16) {
        v16 e = v_exp(v_sub(v_load_n(p + j, n - j), m)),
            w = v_mul(e, v_load_n(a->scale + j, n - j));
        v_store_n(p + j, w, n - j);
        total = v_select_n(v_add(total, e), total, n - j);
        weight = v_select_n(v_add(weight, w), weight, n - j);
        most = v_select_n(v_max(w, most), most, n - j);
    }
    a->sum[i] = v_hsum(total);
    a->step[i] = v_hsum(weight);
    float r = v_hmax(most);
    return r >= TFT_FOLD_LEAST && r <= FLT_MAX ? 255 / r : 0;
}

FORCE_INLINE void bytes_of_row(const struct tft_softmax_u8 *a, size_t i, float inverse)
{
    const float *w = a->p + i * a->ldp;
    uint8_t *y = a->y + i * a->ldy;
    size_t n = a->n[i];
    v16 by = v_set(inverse), bytes = v_set(0);
    for (size_t j = 0; j < n; j += 16) {
        v16 t = v_mul(v_load_n(w + j, n - j), by);
        t = v_rint(v_min(v_max(t, v_set(0)), v_set(255)));
        UNROLL for (int p = 0; p < PARTS; p++)
            r_store_bytes(y + j + p * LANES, t.r[p], 0);
        bytes = v_add(bytes, t);
    }
    float all = v_hsum(bytes); /* of integers: exact in any order */
    a->step[i] = all > 0 ? a->step[i] / all : 0;
}

/* Does each step for several rows before the next step, because a row alone waits for the latency
   of its maximum, of exp, and of its sums. */
static void ISA(softmax_u8)(const struct tft_softmax_u8 *a)
{
    enum { ROWS = 8 };
    for (size_t first = 0; first < a->rows; first += ROWS) {
        size_t end = min_size(a->rows, first + ROWS);
        float inverse[ROWS];
        for (size_t i = first; i < end; i++)
            a->max[i] = largest(a->p + i * a->ldp, a->n[i]);
        for (size_t i = first; i < end; i++)
            inverse[i - first] = weights_of_row(a, i);
        for (size_t i = first; i < end; i++)
            bytes_of_row(a, i, inverse[i - first]);
    }
}

/* ------------------------------------------------------------------------------------------ mix */

/* Channels d .. d + 16 nd - 1 of nq rows of o; nq and nd are constants after inlining. */
FORCE_INLINE void mix_tile(const struct tft_mix *a, size_t d, size_t nq, size_t nd,
                           enum tft_num num)
{
    const char *v = (const char *)a->v + d * tft_num_bytes(num);
    float *o = a->o + d;
    v16 acc[TILE_Q][TILE_V];
    UNROLL for (size_t i = 0; i < nq; i++)
        UNROLL for (size_t c = 0; c < nd; c++)
            acc[i][c] = v_load(o + i * a->ldo + c * 16);

    for (size_t j = 0; j < a->n; j++)
        UNROLL for (size_t p = 0; p < PARTS; p++) {
            reg b[TILE_V];
            UNROLL for (size_t c = 0; c < nd; c++)
                b[c] = r_load_num(v, j * a->head_dim + c * 16 + p * LANES, num);
            UNROLL for (size_t i = 0; i < nq; i++) {
                reg w = r_set(a->p[i * a->ldp + j]);
                UNROLL for (size_t c = 0; c < nd; c++)
                    acc[i][c].r[p] = r_fma(w, b[c], acc[i][c].r[p]);
            }
        }

    UNROLL for (size_t i = 0; i < nq; i++)
        UNROLL for (size_t c = 0; c < nd; c++)
            v_store(o + i * a->ldo + c * 16, acc[i][c]);
}

/* The last channels, from d on, if the head's size is not a multiple of 16. */
FORCE_INLINE void mix_last(const struct tft_mix *a, size_t d, size_t nq, enum tft_num num)
{
    const char *v = (const char *)a->v + d * tft_num_bytes(num);
    size_t channels = a->head_dim - d;
    for (size_t i = 0; i < nq; i++) {
        float *o = a->o + i * a->ldo + d;
        v16 acc = v_load_part(o, channels);
        for (size_t j = 0; j < a->n; j++)
            acc = v_fma(v_set(a->p[i * a->ldp + j]),
                        v_load_buffer(v, j * a->head_dim, channels, num), acc);
        v_store_part(o, acc, channels);
    }
}

/* All channels of nq rows of o. */
FORCE_INLINE void mix_queries(const struct tft_mix *a, size_t nq, enum tft_num num)
{
    size_t d = 0;
    for (; d + TILE_V * 16 <= a->head_dim; d += TILE_V * 16)
        mix_tile(a, d, nq, TILE_V, num);
    for (; d + 16 <= a->head_dim; d += 16)
        mix_tile(a, d, nq, 1, num);
    if (d < a->head_dim)
        mix_last(a, d, nq, num);
}

#define MIX_CASE(nq)                                                                               \
    case nq:                                                                                       \
        if (nq < TILE_Q)                                                                           \
            mix_queries(&a, nq, num);                                                              \
        break

FORCE_INLINE void mix(struct tft_mix a, enum tft_num num)
{
    for (; a.nq >= TILE_Q; a.nq -= TILE_Q) {
        mix_queries(&a, TILE_Q, num);
        a.o += TILE_Q * a.ldo;
        a.p += TILE_Q * a.ldp;
    }
    switch (a.nq) {
        MIX_CASE(5);
        MIX_CASE(4);
        MIX_CASE(3);
        MIX_CASE(2);
        MIX_CASE(1);
    }
}

static void ISA(mix_f32)(const struct tft_mix *a)
{
    mix(*a, TFT_NUM_F32);
}

static void ISA(mix_f16)(const struct tft_mix *a)
{
    mix(*a, TFT_NUM_F16);
}

#endif
