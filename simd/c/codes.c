/* Codes of a cache, and attention on them: kernels.h in plain C. */
#include "simd/codes.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "simd/fit.h"
#include "simd/half.h"
#include "reference.h"

static void pack_1(uint8_t to[8], const uint8_t c[64], unsigned bit)
{
    for (int b = 0; b < 8; b++) {
        unsigned byte = 0;
        for (int l = 0; l < 8; l++)
            byte |= (c[8 * l + b] >> bit & 1u) << l;
        to[b] = (uint8_t)byte;
    }
}

static void pack_2(uint8_t to[16], const uint8_t c[64])
{
    for (int b = 0; b < 16; b++)
        to[b] = (uint8_t)((c[b] & 3u) | (c[16 + b] & 3u) << 2 | (c[32 + b] & 3u) << 4 |
                          (c[48 + b] & 3u) << 6);
}

static void pack_4(uint8_t to[32], const uint8_t c[64])
{
    for (int b = 0; b < 32; b++)
        to[b] = (uint8_t)(c[b] | c[32 + b] << 4);
}

/* c: [5, 64] */
static void pack_five(uint8_t to[64], const uint8_t *c)
{
    for (int b = 0; b < 64; b++) {
        unsigned v = 0;
        for (int i = 0; i < TFT_TRIT_QUADS; i++)
            v = v * 3 + c[64 * i + b];
        to[b] = (uint8_t)((v * 256 + 242) / 243);
    }
}

void tft_codes_pack(uint8_t *to, const uint8_t *codes, enum tft_bits b, size_t quads)
{
    for (; b == TFT_BITS_3_LEVELS && quads >= TFT_TRIT_QUADS;
         quads -= TFT_TRIT_QUADS, to += 64, codes += 64 * TFT_TRIT_QUADS)
        pack_five(to, codes);
    for (size_t size = tft_codes_bytes(b, 1); quads; quads--, to += size, codes += 64)
        switch (b) {
        case TFT_BITS_1: pack_1(to, codes, 0); break;
        case TFT_BITS_4: pack_4(to, codes); break;
        case TFT_BITS_8: memcpy(to, codes, 64); break;
        case TFT_BITS_3: pack_1(to + 16, codes, 2); /* fall through */
        default: pack_2(to, codes);
        }
}

static void unpack_1(uint8_t c[64], const uint8_t from[8], unsigned bit)
{
    for (int i = 0; i < 64; i++)
        c[i] = (uint8_t)(c[i] | (from[i % 8] >> i / 8 & 1) << bit);
}

static void unpack_2(uint8_t c[64], const uint8_t from[16])
{
    for (int i = 0; i < 64; i++)
        c[i] = from[i % 16] >> 2 * (i / 16) & 3;
}

static void unpack_4(uint8_t c[64], const uint8_t from[32])
{
    for (int i = 0; i < 64; i++)
        c[i] = from[i % 32] >> 4 * (i / 32) & 15;
}

static void unpack_five(uint8_t *c, const uint8_t from[64])
{
    for (int b = 0; b < 64; b++)
        for (unsigned i = 0, v = from[b]; i < TFT_TRIT_QUADS; i++) {
            c[64 * i + b] = (uint8_t)(v * 3 >> 8);
            v = v * 3 & 255;
        }
}

void tft_codes_unpack(uint8_t *codes, const uint8_t *from, enum tft_bits b, size_t quads)
{
    for (; b == TFT_BITS_3_LEVELS && quads >= TFT_TRIT_QUADS;
         quads -= TFT_TRIT_QUADS, from += 64, codes += 64 * TFT_TRIT_QUADS)
        unpack_five(codes, from);
    for (size_t size = tft_codes_bytes(b, 1); quads; quads--, from += size, codes += 64)
        switch (b) {
        case TFT_BITS_1: memset(codes, 0, 64), unpack_1(codes, from, 0); break;
        case TFT_BITS_4: unpack_4(codes, from); break;
        case TFT_BITS_8: memcpy(codes, from, 64); break;
        case TFT_BITS_3: unpack_2(codes, from), unpack_1(codes, from + 16, 2); break;
        default: unpack_2(codes, from);
        }
}

/* ------------------------------------------------------------------------------------ attention */

/* Columns of a panel at most; queries whose factors are folded before a panel is unpacked for all
   of them; spans of columns that are folded by themselves, of 16 at least. */
enum { MOST = TFT_CODED_SPAN, BATCH = 8, SPANS = MOST / 16 };

struct folded {
    int32_t x[MOST];
    float step[SPANS], base[SPANS]; /* base: the sum of what is not folded */
};

/* f: [n] */
static float fold(int32_t *x, const float *f, size_t n, float limit)
{
    float r = 0;
    for (size_t k = 0; k < n; k++)
        r = fabsf(f[k]) > r ? fabsf(f[k]) : r;
    bool sound = r >= TFT_FOLD_LEAST && r <= FLT_MAX;
    float inverse = sound ? limit / r : 0;
    for (size_t k = 0; k < n; k++) {
        float t = f[k] * inverse;
        t = t > -limit ? t : -limit;
        x[k] = (int32_t)rintf(t < limit ? t : limit);
    }
    return sound ? r / limit : 0;
}

/* The columns of a panel. */
struct columns {
    uint8_t code[MOST][TFT_PANEL];
    uint16_t levels[MOST];
};

/* Returns how many bytes of codes there were. */
static size_t read_panel(struct columns *c, size_t column, const uint8_t *from,
                         const struct tft_coded *b)
{
    size_t bytes = 0;
    uint8_t quad[TFT_QUAD_CODES * (MOST / TFT_QUAD)];
    for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++) {
        tft_codes_unpack(quad, from + bytes, bits, b->quads[bits]);
        bytes += tft_codes_bytes(bits, b->quads[bits]);
        for (size_t k = 0; k < (size_t)b->quads[bits] * TFT_QUAD; k++, column++) {
            c->levels[column] = (uint16_t)tft_bits_levels(bits);
            for (size_t n = 0; n < TFT_PANEL; n++)
                c->code[column][n] =
                    quad[k / TFT_QUAD * TFT_QUAD_CODES + n * TFT_QUAD + k % TFT_QUAD];
        }
    }
    return bytes;
}

/* t: the rows' sums of x[k] (2 c - (L - 1)) over the columns from `first` to `end` */
static void distances(int32_t t[TFT_PANEL], const int32_t *x, const struct columns *c, size_t first,
                      size_t end)
{
    memset(t, 0, TFT_PANEL * sizeof *t);
    for (size_t k = first; k < end; k++)
        for (size_t n = 0; n < TFT_PANEL; n++)
            t[n] += x[k] * (2 * c->code[k][n] - (c->levels[k] - 1));
}

static void fold_query(struct folded *to, const float *q, const struct tft_coded *k)
{
    float f[MOST], limit = tft_fold_limit(k);
    if (!k->group) {
        for (size_t d = 0; d < k->dim; d++)
            f[d] = q[d] * k->scale[d];
        to->step[0] = fold(to->x, f, k->dim, limit);
        to->base[0] = tft_ref_dot16(q, k->mid, k->dim);
        return;
    }
    for (size_t d = 0, g = 0; d < k->dim; d += k->group, g++) {
        size_t n = k->dim - d < k->group ? k->dim - d : k->group;
        to->step[g] = fold(to->x + d, q + d, n, limit);
        to->base[g] = tft_ref_total16(q + d, n);
    }
}

static void score_by_channel(float *s, const struct folded *q, const struct tft_coded *k,
                             const struct columns *c, float factor)
{
    int32_t t[TFT_PANEL];
    distances(t, q->x, c, 0, k->dim);
    for (size_t n = 0; n < TFT_PANEL; n++)
        s[n] = fmaf((float)t[n], q->step[0] / 2, q->base[0]) * factor;
}

/* token: the first of the panel */
static void score_by_token(float *s, const struct folded *q, const struct tft_coded *k,
                           size_t token, const struct columns *c, float factor)
{
    float acc[TFT_PANEL] = {0};
    for (size_t d = 0, g = 0; d < k->dim; d += k->group, g++) {
        int32_t t[TFT_PANEL];
        const float *scale = k->scale + g * k->tokens + token,
                    *mid = k->mid + g * k->tokens + token;
        distances(t, q->x, c, d, k->dim - d < k->group ? k->dim : d + k->group);
        for (size_t n = 0; n < TFT_PANEL; n++) {
            acc[n] = fmaf((float)t[n] * (q->step[g] / 2), scale[n], acc[n]);
            acc[n] = fmaf(q->base[g], mid[n], acc[n]);
        }
    }
    for (size_t n = 0; n < TFT_PANEL; n++)
        s[n] = acc[n] * factor;
}

/* nq is at most BATCH. */
static void score_batch(float *s, size_t ns, const float *q, size_t ldq, const struct tft_coded *k,
                        size_t nq, float factor)
{
    struct folded folded[BATCH];
    struct columns c;
    const uint8_t *at = k->codes;
    for (size_t i = 0; i < nq; i++)
        fold_query(&folded[i], q + i * ldq, k);
    for (size_t token = 0; token < k->tokens; token += TFT_PANEL) {
        at += read_panel(&c, 0, at, k);
        for (size_t i = 0; i < nq; i++)
            if (k->group)
                score_by_token(s + i * ns + token, &folded[i], k, token, &c, factor);
            else
                score_by_channel(s + i * ns + token, &folded[i], k, &c, factor);
    }
}

void tft_ref_score_codes(float *s, size_t ns, const float *q, size_t ldq, const struct tft_coded *k,
                         size_t nq, float factor)
{
    for (size_t i = 0; i < nq; i += BATCH)
        score_batch(s + i * ns, ns, q + i * ldq, ldq, k, nq - i < BATCH ? nq - i : BATCH, factor);
}

/* Probabilities for group g of the channels, or of no group. */
static void fold_probabilities(struct folded *to, const float *p, const struct tft_coded *v,
                               size_t nb, size_t g)
{
    size_t tokens = v->tokens;
    float f[MOST], mid[MOST], limit = tft_fold_limit(v);
    if (!v->group) {
        for (size_t b = 0; b < nb; b++) {
            to->step[b] = fold(to->x + b * tokens, p + b * tokens, tokens, limit);
            to->base[b] = tft_ref_total16(p + b * tokens, tokens);
        }
        return;
    }
    for (size_t j = 0; j < nb * tokens; j++) {
        f[j] = p[j] * v[j / tokens].scale[g * tokens + j % tokens];
        mid[j] = v[j / tokens].mid[g * tokens + j % tokens];
    }
    to->step[0] = fold(to->x, f, nb * tokens, limit);
    to->base[0] = tft_ref_dot16(p, mid, nb * tokens);
}

/* o: [n] channels from d on, those of one panel */
static void mix_panel(float *o, const struct folded *p, const struct tft_coded *v, size_t nb,
                      const struct columns *c, size_t d, size_t n)
{
    int32_t t[TFT_PANEL];
    if (v->group) {
        distances(t, p->x, c, 0, nb * v->tokens);
        for (size_t i = 0; i < n; i++)
            o[i] = o[i] + fmaf((float)t[i], p->step[0] / 2, p->base[0]);
        return;
    }
    for (size_t b = 0; b < nb; b++) {
        distances(t, p->x, c, b * v->tokens, (b + 1) * v->tokens);
        for (size_t i = 0; i < n; i++) {
            o[i] = fmaf((float)t[i] * (p->step[b] / 2), v[b].scale[d + i], o[i]);
            o[i] = fmaf(p->base[b], v[b].mid[d + i], o[i]);
        }
    }
}

/* nq is at most BATCH. */
static void mix_batch(float *o, size_t ldo, const float *p, size_t ldp, const struct tft_coded *v,
                      size_t nb, size_t nq)
{
    struct folded folded[BATCH];
    struct columns c;
    size_t bytes = 0;
    for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++)
        bytes += tft_codes_bytes(bits, v->quads[bits]);
    for (size_t d = 0; d < v->dim; d += TFT_PANEL) {
        for (size_t i = 0; i < nq && (v->group ? d % v->group == 0 : d == 0); i++)
            fold_probabilities(&folded[i], p + i * ldp, v, nb, v->group ? d / v->group : 0);
        for (size_t b = 0; b < nb; b++)
            read_panel(&c, b * v->tokens, v[b].codes + d / TFT_PANEL * bytes, &v[b]);
        for (size_t i = 0; i < nq; i++)
            mix_panel(o + i * ldo + d, &folded[i], v, nb, &c, d,
                      v->dim - d < TFT_PANEL ? v->dim - d : TFT_PANEL);
    }
}

void tft_ref_mix_codes(float *o, size_t ldo, const float *p, size_t ldp, const struct tft_coded *v,
                       size_t nb, size_t nq)
{
    for (size_t i = 0; i < nq; i += BATCH)
        mix_batch(o + i * ldo, ldo, p + i * ldp, ldp, v, nb, nq - i < BATCH ? nq - i : BATCH);
}

/* ----------------------------------------------------------------------------------- quantizing */

static float error_of(const float *x, size_t ldx, size_t n, const struct tft_fitted *f)
{
    float error = 0;
    for (size_t k = 0; k < n; k++) {
        float e = x[k * ldx] - fmaf(tft_fitted_code(x[k * ldx], f) - f->half, f->scale, f->mid);
        error = fmaf(e, e, error);
    }
    return error;
}

static struct tft_fitted fit_one(const float *x, size_t ldx, size_t n, float half,
                                 const struct tft_fit *how)
{
    float low = INFINITY, high = -INFINITY, least = 0;
    struct tft_fitted best = {0};
    for (size_t k = 0; k < n; k++) {
        low = x[k * ldx] < low ? x[k * ldx] : low;
        high = x[k * ldx] > high ? x[k * ldx] : high;
    }
    for (size_t i = 0; i < how->n_clip; i++) {
        struct tft_fitted f = tft_fitted_of(low, high, half, how->clip[i], how);
        float error = how->n_clip > 1 ? error_of(x, ldx, n, &f) : 0;
        if (i == 0 || error < least) {
            best = f;
            least = error;
        }
    }
    return best;
}

void tft_ref_fit(uint8_t *code, size_t ldc, float *scale, float *mid, const float *x, size_t ldx,
                 size_t n, const float *half, const struct tft_fit *how)
{
    for (size_t i = 0; i < TFT_PANEL; i++) {
        struct tft_fitted f = fit_one(x + i, ldx, n, half[i], how);
        scale[i] = f.scale;
        mid[i] = f.mid;
        for (size_t k = 0; k < n; k++)
            code[k * ldc + i] = (uint8_t)tft_fitted_code(x[k * ldx + i], &f);
    }
}

void tft_ref_widen_f8(float *y, const uint8_t *x, size_t n, float unit)
{
    for (size_t k = 0; k < n; k++)
        y[k] = tft_f8_to_f32(x[k]) * unit;
}
