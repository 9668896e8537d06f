#include "reference_codes.h"

#include <math.h>
#include <string.h>

#include "fold.h"
#include "simd/codes.h"
#include "simd/fit.h"
#include "sums.h"

/* --------------------------------------------------------------------------- attention on codes */

enum {
    COLUMNS = TFT_CODED_DIM, /* the most columns of a panel */
    BATCH = 8,               /* queries that share the unpacking of a panel */
    FOLDS = COLUMNS / 16     /* the most folds of a query: groups of channels, or blocks */
};

/* The factors of one query. */
struct folded {
    int32_t x[COLUMNS];
    float step[FOLDS], base[FOLDS]; /* base: the sum to multiply by mid, or the product */
};

/* The columns of a panel, or of the same panel of several blocks. */
struct columns {
    uint8_t code[COLUMNS][TFT_PANEL];
    uint16_t levels[COLUMNS];
};

/* Reads a panel of b at `from` into c, from column `column` on. Returns its size in bytes. */
static size_t read_panel(struct columns *c, size_t column, const uint8_t *from,
                         const struct tft_coded *b)
{
    size_t bytes = 0;
    uint8_t quad[TFT_QUAD_CODES * (COLUMNS / TFT_QUAD)];
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

/* t[n] = sum of x[k] (2 c[k][n] - (L[k] - 1)) over columns k = first .. end - 1 */
static void distances(int32_t t[TFT_PANEL], const int32_t *x, const struct columns *c, size_t first,
                      size_t end)
{
    memset(t, 0, TFT_PANEL * sizeof *t);
    for (size_t k = first; k < end; k++)
        for (size_t n = 0; n < TFT_PANEL; n++)
            t[n] += x[k] * (2 * c->code[k][n] - (c->levels[k] - 1));
}

/* --------------------------------------------------------------------------------------- scores */

static void fold_query(struct folded *to, const float *q, const struct tft_coded *k)
{
    float f[COLUMNS], limit = tft_fold_limit(k);
    if (!k->group) {
        for (size_t d = 0; d < k->dim; d++)
            f[d] = q[d] * k->scale[d];
        to->step[0] = fold(to->x, f, k->dim, limit);
        to->base[0] = dot16(q, k->mid, k->dim);
        return;
    }
    for (size_t d = 0, g = 0; d < k->dim; d += k->group, g++) {
        size_t n = k->dim - d < k->group ? k->dim - d : k->group;
        to->step[g] = fold(to->x + d, q + d, n, limit);
        to->base[g] = total16(q + d, n);
    }
}

/* s: [16] of the panel in c */
static void score_by_channel(float *s, const struct folded *q, const struct tft_coded *k,
                             const struct columns *c, float factor)
{
    int32_t t[TFT_PANEL];
    distances(t, q->x, c, 0, k->dim);
    for (size_t n = 0; n < TFT_PANEL; n++)
        s[n] = fmaf((float)t[n], q->step[0] / 2, q->base[0]) * factor;
}

/* s: [16] of the panel in c, from token `token` on */
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

/* a->nq is at most BATCH. */
static void score_batch(const struct tft_score_codes *a)
{
    const struct tft_coded *k = a->k;
    struct folded folded[BATCH];
    struct columns c;
    const uint8_t *panel = k->codes;
    for (size_t i = 0; i < a->nq; i++)
        fold_query(&folded[i], a->q + i * a->ldq, k);
    for (size_t token = 0; token < k->tokens; token += TFT_PANEL) {
        panel += read_panel(&c, 0, panel, k);
        for (size_t i = 0; i < a->nq; i++) {
            float *s = a->s + i * a->lds + token;
            if (k->group)
                score_by_token(s, &folded[i], k, token, &c, a->factor);
            else
                score_by_channel(s, &folded[i], k, &c, a->factor);
        }
    }
}

void tft_ref_score_codes(const struct tft_score_codes *all)
{
    struct tft_score_codes a = *all;
    for (size_t i = 0; i < all->nq; i += BATCH) {
        a.nq = all->nq - i < BATCH ? all->nq - i : BATCH;
        a.s = all->s + i * a.lds;
        a.q = all->q + i * a.ldq;
        score_batch(&a);
    }
}

/* --------------------------------------------------------------------------------------- values */

/* p: [n_blocks * tokens] of one query. g: the group of channels, 0 if scales belong to channels. */
static void fold_probabilities(struct folded *to, const float *p, const struct tft_coded *v,
                               size_t n_blocks, size_t g)
{
    size_t tokens = v->tokens;
    float f[COLUMNS], mid[COLUMNS], limit = tft_fold_limit(v);
    if (!v->group) {
        for (size_t b = 0; b < n_blocks; b++) {
            to->step[b] = fold(to->x + b * tokens, p + b * tokens, tokens, limit);
            to->base[b] = total16(p + b * tokens, tokens);
        }
        return;
    }
    for (size_t j = 0; j < n_blocks * tokens; j++) {
        f[j] = p[j] * v[j / tokens].scale[g * tokens + j % tokens];
        mid[j] = v[j / tokens].mid[g * tokens + j % tokens];
    }
    to->step[0] = fold(to->x, f, n_blocks * tokens, limit);
    to->base[0] = dot16(p, mid, n_blocks * tokens);
}

/* o: channels d .. d + n - 1 of one query, the rows of the panel in c */
static void mix_panel(float *o, const struct folded *p, const struct tft_coded *v, size_t n_blocks,
                      const struct columns *c, size_t d, size_t n)
{
    int32_t t[TFT_PANEL];
    if (v->group) {
        distances(t, p->x, c, 0, n_blocks * v->tokens);
        for (size_t i = 0; i < n; i++)
            o[i] = o[i] + fmaf((float)t[i], p->step[0] / 2, p->base[0]);
        return;
    }
    for (size_t b = 0; b < n_blocks; b++) {
        distances(t, p->x, c, b * v->tokens, (b + 1) * v->tokens);
        for (size_t i = 0; i < n; i++) {
            o[i] = fmaf((float)t[i] * (p->step[b] / 2), v[b].scale[d + i], o[i]);
            o[i] = fmaf(p->base[b], v[b].mid[d + i], o[i]);
        }
    }
}

/* a->nq is at most BATCH. */
static void mix_batch(const struct tft_mix_codes *a)
{
    const struct tft_coded *v = a->v;
    struct folded folded[BATCH];
    struct columns c;
    size_t bytes = 0;
    for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++)
        bytes += tft_codes_bytes(bits, v->quads[bits]);
    for (size_t d = 0; d < v->dim; d += TFT_PANEL) {
        size_t n = v->dim - d < TFT_PANEL ? v->dim - d : TFT_PANEL;
        bool new_group = v->group ? d % v->group == 0 : d == 0;
        for (size_t i = 0; i < a->nq && new_group; i++)
            fold_probabilities(&folded[i], a->p + i * a->ldp, v, a->n_blocks,
                               v->group ? d / v->group : 0);
        for (size_t b = 0; b < a->n_blocks; b++)
            read_panel(&c, b * v->tokens, v[b].codes + d / TFT_PANEL * bytes, &v[b]);
        for (size_t i = 0; i < a->nq; i++)
            mix_panel(a->o + i * a->ldo + d, &folded[i], v, a->n_blocks, &c, d, n);
    }
}

void tft_ref_mix_codes(const struct tft_mix_codes *all)
{
    struct tft_mix_codes a = *all;
    for (size_t i = 0; i < all->nq; i += BATCH) {
        a.nq = all->nq - i < BATCH ? all->nq - i : BATCH;
        a.o = all->o + i * a.ldo;
        a.p = all->p + i * a.ldp;
        mix_batch(&a);
    }
}

/* --------------------------------------------------------------------- values of several widths */

/* o: [16] channels of a query: a panel of `bits` from `codes` on. p: the folded probabilities */
static void mix_width(float *o, const struct folded *p, const struct tft_mix_widths *a,
                      const uint8_t *codes, enum tft_bits bits, size_t d)
{
    struct columns c;
    int32_t t[TFT_PANEL];
    struct tft_coded block = {0};
    block.quads[bits] = TFT_WIDTHS_TOKENS / TFT_QUAD;
    for (size_t b = 0; b < a->n_blocks; b++)
        read_panel(&c, b * TFT_WIDTHS_TOKENS, codes + b * a->next, &block);
    distances(t, p->x, &c, 0, a->n_blocks * TFT_WIDTHS_TOKENS);
    for (size_t i = 0; i < TFT_PANEL; i++)
        o[i] = fmaf((float)t[i] * (p->step[0] / 2), a->steps[d + i], o[i]);
}

static void mix_widths_of(const struct tft_mix_widths *a, const float *p, float *o)
{
    float f[TFT_CODED_SPAN];
    struct folded folded;
    size_t n = a->n_blocks * TFT_WIDTHS_TOKENS, d = tft_widths_empty(a);
    const uint8_t *codes = a->codes;
    for (size_t j = 0; j < n; j++)
        f[j] = p[j] * a->gain[j];
    folded.step[0] = fold(folded.x, f, n, TFT_FOLD_I8);
    folded.base[0] = total16(p, n);
    for (size_t i = 0; i < a->dim; i++)
        o[i] = a->mean[i] * folded.base[0];
    for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++)
        for (size_t k = 0; k < a->panels[b]; k++, d += TFT_PANEL) {
            mix_width(o + d, &folded, a, codes, b, d);
            codes += tft_codes_bytes(b, TFT_WIDTHS_TOKENS / TFT_QUAD);
        }
}

void tft_ref_mix_widths(const struct tft_mix_widths *a)
{
    for (size_t i = 0; i < a->nq; i++)
        mix_widths_of(a, a->p + i * a->ldp, a->o + i * a->ldo);
}

/* ------------------------------------------------------------------- keys of several widths */

/* Places p and p + 1 of a token; x, y: their numbers without gain. */
static void turn_pair(const struct tft_turn_keys *a, size_t p, size_t token, float x, float y)
{
    size_t at = token / TFT_PANEL * a->dim * TFT_PANEL + token % TFT_PANEL,
           one = at + (size_t)a->channel[p] * TFT_PANEL,
           other = at + (size_t)a->channel[p + 1] * TFT_PANEL;
    float first = x, second = y;
    if (a->cos) {
        float c = a->cos[(size_t)a->pair[p / 2] * TFT_WIDTHS_TOKENS + token],
              s = a->sin[(size_t)a->pair[p / 2] * TFT_WIDTHS_TOKENS + token];
        first = x * c - y * s;
        second = y * c + x * s;
    }
    a->k[one] = fmaf(a->gain[token], first, a->mean[one]);
    a->k[other] = fmaf(a->gain[token], second, a->mean[other]);
}

/* The quads of one width of a panel, from place `place` on; of the tokens from `token` on. */
static void turn_width(const struct tft_turn_keys *a, const uint8_t *codes, enum tft_bits bits,
                       size_t place, size_t token)
{
    uint8_t quad[TFT_QUAD_CODES * (COLUMNS / TFT_QUAD)];
    float half = (float)(tft_bits_levels(bits) - 1) / 2;
    tft_codes_unpack(quad, codes, bits, a->quads[bits]);
    for (size_t i = 0; i < (size_t)a->quads[bits] * TFT_QUAD; i += 2)
        for (size_t t = 0; t < TFT_PANEL; t++)
            turn_pair(a, place + i, token + t,
                      a->step[place + i] * ((float)quad[i * TFT_PANEL + t] - half),
                      a->step[place + i + 1] * ((float)quad[(i + 1) * TFT_PANEL + t] - half));
}

void tft_ref_turn_keys(const struct tft_turn_keys *a)
{
    const uint8_t *codes = a->codes;
    for (size_t token = 0; token < TFT_WIDTHS_TOKENS; token += TFT_PANEL) {
        size_t place = a->first;
        for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++) {
            turn_width(a, codes, b, place, token);
            codes += tft_codes_bytes(b, a->quads[b]);
            place += (size_t)a->quads[b] * TFT_QUAD;
        }
    }
}

/* --------------------------------------------------------------------------------- quantization */

/* The squared error of group i. */
static float fit_error(const struct tft_fit_groups *g, size_t i, const struct tft_fitted *f)
{
    float error = 0;
    for (size_t k = 0; k < g->n; k++) {
        float x = g->x[k * g->ldx + i];
        float e = x - fmaf(tft_fitted_code(x, f) - f->half, f->scale, f->mid);
        error = fmaf(e, e, error);
    }
    return error;
}

static struct tft_fitted fit_group(const struct tft_fit_groups *g, size_t i,
                                   const struct tft_fit *how)
{
    float low = INFINITY, high = -INFINITY, least_error = 0;
    struct tft_fitted best = {0};
    for (size_t k = 0; k < g->n; k++) {
        float x = g->x[k * g->ldx + i];
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    for (size_t c = 0; c < how->n_clip; c++) {
        struct tft_fitted f = tft_fitted_of(low, high, g->half[i], c, how);
        float error = how->n_clip > 1 ? fit_error(g, i, &f) : 0;
        if (c == 0 || error < least_error) {
            best = f;
            least_error = error;
        }
    }
    return best;
}

void tft_ref_fit(const struct tft_fit_groups *g, const struct tft_fit *how)
{
    for (size_t i = 0; i < TFT_PANEL; i++) {
        struct tft_fitted f = fit_group(g, i, how);
        g->scale[i] = f.scale;
        g->mid[i] = f.mid;
        for (size_t k = 0; k < g->n; k++)
            g->code[k * g->ldc + i] = (uint8_t)tft_fitted_code(g->x[k * g->ldx + i], &f);
    }
}
