#include "reference_packed.h"

#include <math.h>
#include <string.h>

#include "fold.h"
#include "simd/half.h"

/* ------------------------------------------------------------------------ the parts of a record */

static uint16_t u16_at(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static float factor(const struct tft_packing *p, const uint8_t *record, size_t row)
{
    if (p->scales == TFT_SCALES_F8)
        return 1;
    return p->exponent ? ldexpf(1, record[row] - 128) : tft_f16_to_f32(u16_at(record + 2 * row));
}

static float minimum(const struct tft_packing *p, const uint8_t *record, size_t row)
{
    return tft_f16_to_f32(u16_at(record + TFT_PANEL * (p->exponent ? 1 : 2) + 2 * row));
}

/* s and t of group g of a record. */
static void scales(const struct tft_packing *p, const uint8_t *record, size_t row, size_t g,
                   float *s, int *t)
{
    const uint8_t *at = record + tft_packed_factor_bytes(p);
    size_t groups = p->block / p->group;
    *s = 1, *t = -1;
    switch (p->scales) {
    case TFT_SCALES_BYTES:
        *s = (float)(int8_t)at[g * TFT_PANEL + row];
        if (p->has_min)
            *t = (int8_t)at[(groups + g) * TFT_PANEL + row];
        break;
    case TFT_SCALES_NIBBLES:
        *s = (float)(at[g * TFT_PANEL + row] & 15);
        *t = at[g * TFT_PANEL + row] >> 4;
        break;
    case TFT_SCALES_ODD:
        *s = (float)(2 * (at[g / 2 * TFT_PANEL + row] >> g % 2 * 4 & 15) + 1);
        break;
    case TFT_SCALES_F8: *s = tft_f8_to_f32(at[g * TFT_PANEL + row]); break;
    default: break;
    }
}

/* The codes of a record, [quads, 64] as in codes.h. */
struct planes {
    uint8_t low[TFT_PACKED_BLOCK * TFT_PANEL], high[TFT_PACKED_BLOCK * TFT_PANEL];
};

/* Without a book: low code + 2^(bits of the low code) * high code. */
static unsigned number(const struct tft_packing *p, const struct planes *c, size_t i)
{
    unsigned code = c->low[i];
    if (p->high != TFT_BITS_COUNT)
        code += tft_bits_levels(p->low) * c->high[i];
    return p->levels ? p->levels[code] : code;
}

/* Number i of a record with a book. c->low has the signs. */
static unsigned number_of_book(const struct tft_packing *p, const struct planes *c,
                               const uint8_t *codes, size_t i)
{
    size_t row = i % TFT_QUAD_CODES / TFT_QUAD,
           k = i / TFT_QUAD_CODES * TFT_QUAD + i % TFT_QUAD, n = p->block / p->book;
    const uint8_t *high = codes + n * TFT_PANEL;
    unsigned index = codes[k / p->book * TFT_PANEL + row];
    for (unsigned b = 0; b < p->index_high; b++)
        index |= (u16_at(high + 2 * (b * n + k / p->book)) >> row & 1u) << (8 + b);
    uint64_t entry = p->book == 4 ? p->book4[index] : p->book8[index];
    unsigned level = entry >> 8 * (k % p->book) & 255;
    return c->low[i] ? p->zero - level : p->zero + level;
}

/* Number i of a record with a book and a shift. */
static unsigned number_with_shift(const struct tft_packing *p, const uint8_t *codes, size_t i)
{
    size_t row = i % TFT_QUAD_CODES / TFT_QUAD,
           k = i / TFT_QUAD_CODES * TFT_QUAD + i % TFT_QUAD, n = p->block / p->book,
           at = k / p->book;
    unsigned high = codes[(n + at / 2) * TFT_PANEL + row] >> at % 2 * 4 & 15,
             index = codes[at * TFT_PANEL + row] | high << 8;
    unsigned level = p->book8[index % TFT_SHIFT_BOOK] >> 8 * (k % p->book) & 255;
    return level + index / TFT_SHIFT_BOOK * p->shift;
}

static void numbers(uint8_t *to, const struct tft_packing *p, const uint8_t *record)
{
    size_t quads = p->block / TFT_QUAD, n = (size_t)p->block * TFT_PANEL;
    const uint8_t *codes = record + tft_packed_factor_bytes(p) + tft_packed_scale_bytes(p);
    struct planes c;
    if (p->shift) {
        for (size_t i = 0; i < n; i++)
            to[i] = (uint8_t)number_with_shift(p, codes, i);
        return;
    }
    if (p->book) {
        tft_codes_unpack(c.low, codes + n / TFT_PANEL / p->book * (TFT_PANEL + 2u * p->index_high),
                         TFT_BITS_1, quads);
        for (size_t i = 0; i < n; i++)
            to[i] = (uint8_t)number_of_book(p, &c, codes, i);
        return;
    }
    tft_codes_unpack(c.low, codes, p->low, quads);
    if (p->high != TFT_BITS_COUNT)
        tft_codes_unpack(c.high, codes + tft_codes_bytes(p->low, quads), p->high, quads);
    for (size_t i = 0; i < n; i++)
        to[i] = (uint8_t)number(p, &c, i);
}

/* -------------------------------------------------------------------------------------- kernels */

void tft_ref_unpack(const struct tft_unpack *u)
{
    const struct tft_packing *p = u->how;
    const uint8_t *record = u->w;
    for (size_t k = 0; k < u->K; k += p->block, record += tft_packed_record(p)) {
        numbers(u->number + k * TFT_PANEL, p, record);
        for (size_t g = 0; g < p->block / p->group; g++)
            for (size_t row = 0; row < TFT_PANEL; row++) {
                size_t i = (k / p->group + g) * TFT_PANEL + row;
                float s;
                int t;
                scales(p, record, row, g, &s, &t);
                u->scale[i] = factor(p, record, row) * p->unit * s;
                if (p->has_min)
                    u->min[i] = minimum(p, record, row) * (float)t;
            }
    }
}

/* The product of one token and the rows of one record. */
static void add_record(float v[TFT_PANEL], const struct tft_gemm_packed *g, const uint8_t *x,
                       size_t first, const struct tft_unpack *u)
{
    const int8_t *q = (const int8_t *)x;
    for (size_t k = 0; k < u->K; k += u->how->group)
        for (size_t row = 0; row < TFT_PANEL; row++) {
            size_t i = k / u->how->group * TFT_PANEL + row;
            float step = tft_groups_step(x, g->K)[(first + k) / TFT_STEP_GROUP];
            int32_t acc = 0;
            for (size_t j = k; j < k + u->how->group; j++) {
                int w = u->number[j / TFT_QUAD * TFT_QUAD_CODES + TFT_QUAD * row + j % TFT_QUAD];
                acc += q[first + j] * (w - u->how->zero);
            }
            if (u->how->has_min) {
                float fall = tft_groups_fall(x, g->K, u->how->group)[(first + k) / u->how->group];
                v[row] = fmaf(u->min[i], fall, v[row]);
            }
            v[row] = fmaf((float)acc * u->scale[i], step, v[row]);
        }
}

/* At most TOKENS of M tokens at a time share the unpacking of a record. */
enum { TOKENS = 16 };

static void panel(const struct tft_gemm_packed *g, size_t m, size_t tokens, size_t n)
{
    const struct tft_packing *p = g->how;
    uint8_t numbers[TFT_PACKED_BLOCK * TFT_PANEL];
    float scale[TFT_PACKED_BLOCK / TFT_PACKED_GROUP * TFT_PANEL],
        min[TFT_PACKED_BLOCK / TFT_PACKED_GROUP * TFT_PANEL], v[TOKENS][TFT_PANEL] = {{0}};
    size_t rows = g->N - n < TFT_PANEL ? g->N - n : TFT_PANEL;
    for (size_t i = 0; i < tokens; i++)
        for (size_t r = 0; r < rows; r++) {
            v[i][r] = g->add ? g->y[(m + i) * g->ldy + n + r] : 0;
            if (g->bias)
                v[i][r] += g->bias[n + r];
        }
    for (size_t k = 0; k < g->K; k += p->block) {
        const uint8_t *record =
            g->w + n / TFT_PANEL * tft_packed_panel(p, g->K) + k / p->block * tft_packed_record(p);
        struct tft_unpack u = {numbers, scale, min, p, record, p->block};
        tft_ref_unpack(&u);
        for (size_t i = 0; i < tokens; i++)
            add_record(v[i], g, g->x + (m + i) * g->ldx, k, &u);
    }
    for (size_t i = 0; i < tokens; i++)
        memcpy(g->y + (m + i) * g->ldy + n, v[i], rows * sizeof(float));
}

void tft_ref_gemm_packed(const struct tft_gemm_packed *g)
{
    for (size_t n = 0; n < g->N; n += TFT_PANEL)
        for (size_t m = 0; m < g->M; m += TOKENS)
            panel(g, m, g->M - m < TOKENS ? g->M - m : TOKENS, n);
}

void tft_ref_quantize_groups(uint8_t *y, size_t K, size_t first, const float *x, size_t n)
{
    float *step = (float *)(void *)(y + K);
    int32_t *minus32 = (int32_t *)(void *)(step + K / TFT_STEP_GROUP),
            *minus16 = minus32 + K / TFT_STEP_GROUP;
    float *fall32 = (float *)(void *)(minus16 + K / 16), *fall16 = fall32 + K / TFT_STEP_GROUP;
    for (size_t k = first; k < first + n; k += TFT_STEP_GROUP) {
        int32_t q[TFT_STEP_GROUP], sum[2] = {0, 0};
        step[k / TFT_STEP_GROUP] = fold(q, x + k - first, TFT_STEP_GROUP, 127);
        for (size_t i = 0; i < TFT_STEP_GROUP; i++) {
            ((int8_t *)y)[k + i] = (int8_t)q[i];
            sum[i / 16] += q[i];
        }
        minus32[k / 32] = -(sum[0] + sum[1]);
        fall32[k / 32] = (float)minus32[k / 32] * step[k / 32];
        for (size_t i = 0; i < 2; i++) {
            minus16[k / 16 + i] = -sum[i];
            fall16[k / 16 + i] = (float)-sum[i] * step[k / 32];
        }
    }
}
