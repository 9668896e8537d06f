/* fit of kernels.h: turns groups of floats into codes. A lane is a group. Parameters: ISA(name) and
   lanes.h. simd/fit.h has the same steps for one group. */
#ifndef TFT_TEMPLATE_CODES_FIT_H
#define TFT_TEMPLATE_CODES_FIT_H

#include "lanes.h"

/* a rounded to an f16, or to an E4M3 times unit. An E4M3 has 3 bits after the leading one, or is a
   multiple of 2^-9: in both cases, adding 1.5 * 2^20 times its power of two leaves these bits. */
FORCE_INLINE v16 fit_stored(v16 a, bool f8, float unit)
{
    v16 max = v_set(f8 ? TFT_F8_MAX : TFT_F16_MAX), zero = v_set(0);
    a = f8 ? v_div(a, v_set(unit)) : a;
    a = v_min(v_max(a, v_sub(zero, max)), max);
    if (f8) {
        v16 power = v_mul(v_max(v_mask(a, 0x7f800000), v_set(0x1p-6f)), v_set(0x1.8p20f));
        a = v_mul(v_sub(v_add(a, power), power), v_set(unit));
    } else {
        uint16_t h[16];
        UNROLL for (int p = 0; p < PARTS; p++)
            r_store_f16(h + p * LANES, a.r[p]);
        a = v_load_num(h, 0, TFT_NUM_F16);
    }
    return v_add(a, zero); /* never -0 */
}

/* A candidate of each group: its scale, its middle, 1 / scale and (L - 1) / 2. */
typedef struct {
    v16 scale, mid, inverse, half;
} fitted;

/* Entry i of each group's list of clips. */
FORCE_INLINE fitted fit_clipped(v16 low, v16 high, v16 half, size_t i, const struct tft_fit *how)
{
    v16 one = v_set(1), clip = v_pick(half, v_set(1.5f), v_set(how->clip[1][i]),
                                      v_set(how->clip[2][i]));
    clip = v_pick(half, one, v_set(how->clip[0][i]), clip);
    v16 part = how->to_zero ? one : clip, end = how->to_zero ? clip : one;
    low = v_mul(low, end);
    high = v_mul(high, end);
    v16 scale = v_mul(v_div(v_sub(high, low), v_add(half, half)), part),
        mid = v_mul(v_add(high, low), v_set(0.5f));
    fitted f = {fit_stored(scale, how->f8, how->scale_unit),
                fit_stored(mid, how->f8, how->mid_unit), v_set(0), half};
    f.inverse = v_pick(f.scale, v_set(FLT_MIN), v_set(0), v_div(v_set(1), f.scale));
    return f;
}

FORCE_INLINE v16 fit_code(v16 x, const fitted *f)
{
    v16 c = v_fma(v_sub(x, f->mid), f->inverse, f->half);
    return v_rint(v_min(v_max(c, v_set(0)), v_add(f->half, f->half)));
}

/* The squared error of each group. */
FORCE_INLINE v16 fit_error(const struct tft_fit_groups *g, const fitted *f)
{
    v16 error = v_set(0);
    for (size_t k = 0; k < g->n; k++) {
        v16 a = v_load(g->x + k * g->ldx);
        v16 e = v_sub(a, v_fma(v_sub(fit_code(a, f), f->half), f->scale, f->mid));
        error = v_fma(e, e, error);
    }
    return error;
}

static void ISA(fit)(const struct tft_fit_groups *groups, const struct tft_fit *how)
{
    struct tft_fit_groups g = *groups;
    v16 low = v_set(INFINITY), high = v_set(-INFINITY);
    for (size_t k = 0; k < g.n; k++) {
        low = v_min(v_load(g.x + k * g.ldx), low);
        high = v_max(v_load(g.x + k * g.ldx), high);
    }
    fitted best = fit_clipped(low, high, v_load(g.half), 0, how);
    v16 least_error = how->n_clip > 1 ? fit_error(&g, &best) : v_set(0);
    for (size_t i = 1; i < how->n_clip; i++) {
        fitted f = fit_clipped(low, high, best.half, i, how);
        v16 error = fit_error(&g, &f);
        best.scale = v_pick(error, least_error, f.scale, best.scale);
        best.mid = v_pick(error, least_error, f.mid, best.mid);
        best.inverse = v_pick(error, least_error, f.inverse, best.inverse);
        least_error = v_pick(error, least_error, error, least_error);
    }
    v_store(g.scale, best.scale);
    v_store(g.mid, best.mid);
    for (size_t k = 0; k < g.n; k++) {
        v16 c = fit_code(v_load(g.x + k * g.ldx), &best);
        UNROLL for (int p = 0; p < PARTS; p++)
            r_store_bytes(g.code + k * g.ldc + p * LANES, c.r[p], 0);
    }
}

#endif
