/* fold of kernels.h, for a batch of queries. Parameters: codes_attention.h. */
#ifndef TFT_TEMPLATE_CODES_FOLD_H
#define TFT_TEMPLATE_CODES_FOLD_H

#include "codes_batch.h"

/* Numbers to fold together: n of each query. */
struct coded_factors {
    const float *f; /* [nq, n], rows ldf apart */
    size_t ldf;
    const float *scale, *mid; /* [n], or NULL if scales do not belong to the n numbers */
    const float *weight;      /* [n]: L - 1 */
    size_t n;
    float limit;
};

/* Numbers k .. k + 15 of f, or the last n, times their scale if `scaled`. Updates base, and the
   largest magnitude in each lane. */
FORCE_INLINE v16 fold_scaled(const struct coded_factors *c, const float *f, size_t k, size_t n,
                             bool scaled, v16 *base, v16 *max)
{
    v16 a = v_load_n(f + k, n), b = scaled ? v_mul(a, v_load_n(c->scale + k, n)) : a;
    *base = v_select_n(scaled ? v_fma(a, v_load_n(c->mid + k, n), *base) : v_add(*base, a), *base,
                       n);
    *max = v_max(v_mask(b, 0x7fffffff), *max);
    return b;
}

/* The sum of 16 lanes of integers. i8 factors: floats hold every partial sum exactly. i16 factors
   with codes of 4 bits: a lane fits a float exactly, but the sum may not. */
FORCE_INLINE int32_t fold_shift(v16 lanes, bool i16)
{
    _Static_assert(TFT_CODED_DIM * TFT_FOLD_I8 * 15 < 1 << 24, "i8 factors: floats are exact");
    _Static_assert(CODED_SPANS * TFT_FOLD_I16 * 15 < 1 << 24, "i16 factors: a lane is exact");
    if (!i16)
        return (int32_t)v_hsum(lanes);
    float lane[16];
    int32_t sum = 0;
    v_store(lane, lanes);
    for (int i = 0; i < 16; i++)
        sum += (int32_t)lane[i];
    return sum;
}

/* nt queries in parallel, because each query is a chain of dependent steps. base becomes dot16 of f
   and mid if `scaled`, else total16 of f. x: [nt, 2 * TFT_CODED_DIM]: each row gets n factors,
   padded to a multiple of 16; to: [nt, CODED_SPANS] */
FORCE_INLINE void fold_queries(struct coded_fold *to, uint8_t *x, const struct coded_factors *c,
                               const float *f, size_t nt, bool scaled, bool i16)
{
    float t[CODED_FOLDS][TFT_CODED_DIM], r[CODED_FOLDS];
    v16 max[CODED_FOLDS], base[CODED_FOLDS], shift[CODED_FOLDS], inverse[CODED_FOLDS],
        low = v_set(-c->limit), high = v_set(c->limit);
    UNROLL for (size_t i = 0; i < nt; i++)
        max[i] = base[i] = shift[i] = v_set(0);
    size_t k = 0;
    for (; k + 16 <= c->n; k += 16)
        UNROLL for (size_t i = 0; i < nt; i++)
            v_store(t[i] + k, fold_scaled(c, f + i * c->ldf, k, 16, scaled, &base[i], &max[i]));
    UNROLL for (size_t i = 0; i < nt; i++)
        if (k < c->n)
            v_store(t[i] + k,
                    fold_scaled(c, f + i * c->ldf, k, c->n - k, scaled, &base[i], &max[i]));

    UNROLL for (size_t i = 0; i < nt; i++) {
        r[i] = v_hmax(max[i]);
        r[i] = r[i] >= TFT_FOLD_LEAST && r[i] <= FLT_MAX ? r[i] : 0;
        inverse[i] = v_set(r[i] > 0 ? c->limit / r[i] : 0);
    }
    for (k = 0; k < c->n; k += 16)
        UNROLL for (size_t i = 0; i < nt; i++) {
            v16 a = v_rint(v_min(v_max(v_mul(v_load(t[i] + k), inverse[i]), low), high));
            shift[i] = v_fma(a, v_load(c->weight + k), shift[i]);
            c_put_x(x + i * 2 * TFT_CODED_DIM + k * (i16 ? 2 : 1), a, i16);
        }
    UNROLL for (size_t i = 0; i < nt; i++)
        to[i * CODED_SPANS] = (struct coded_fold){r[i] / c->limit / 2, v_hsum(base[i]),
                                                  fold_shift(shift[i], i16)};
}

FORCE_INLINE void fold_n_queries(struct coded_fold *to, uint8_t *x, const struct coded_factors *c,
                                 const float *f, size_t nt, bool scaled)
{
    switch (nt) {
    case 4: fold_queries(to, x, c, f, 4, scaled, false); break;
    case 3: fold_queries(to, x, c, f, 3, scaled, false); break;
    case 2: fold_queries(to, x, c, f, 2, scaled, false); break;
    default: fold_queries(to, x, c, f, 1, scaled, false);
    }
}

/* All nq queries of a batch: into their g-th fold, and into the factors of the columns from `first`
   on. */
FORCE_INLINE void fold_batch(struct coded_batch *b, size_t g, size_t first,
                             const struct coded_factors *c, size_t nq, bool scaled, bool i16)
{
    for (size_t i = 0, n; i < nq; i += n) {
        n = min_size(i16 ? 1 : CODED_FOLDS, nq - i);
        if (i16)
            fold_queries(&b->fold[i][g], b->x[i] + 2 * first, c, c->f + i * c->ldf, 1, scaled,
                         true);
        else
            fold_n_queries(&b->fold[i][g], b->x[i] + first, c, c->f + i * c->ldf, n, scaled);
    }
}

static void ISA(fold_batch_scaled)(struct coded_batch *b, const struct coded_factors *c, size_t nq,
                                   bool i16)
{
    if (i16)
        fold_batch(b, 0, 0, c, nq, true, true);
    else
        fold_batch(b, 0, 0, c, nq, true, false);
}

static void ISA(fold_batch_plain)(struct coded_batch *b, size_t g, size_t first,
                                  const struct coded_factors *c, size_t nq, bool i16)
{
    if (i16)
        fold_batch(b, g, first, c, nq, false, true);
    else
        fold_batch(b, g, first, c, nq, false, false);
}

#endif
