#include "magnitudes.h"

#include <string.h>

/* The bits of |x|. As integers they have the same order as the magnitudes. */
static uint32_t magnitude(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff;
}

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Row i as floats, dequantized to `scratch` if it is bytes. */
static const float *get_row(const struct magnitudes_rows *r, size_t i, float *scratch)
{
    if (r->x)
        return r->x + i * r->stride;
    const uint8_t *bytes = r->bytes + i * r->stride;
    if (!r->q) {
        const float *step = tft_groups_step(bytes, r->width);
        for (size_t k = 0; k < r->width; k++)
            scratch[k] = (float)(int8_t)bytes[k] * step[k / TFT_STEP_GROUP];
        return scratch;
    }
    const struct tft_affine *q = &r->q[i * r->step];
    for (size_t k = 0; k < r->width; k++)
        scratch[k] = (float)(bytes[k] - q->zero) * q->scale;
    return scratch;
}

/* ---- the largest */

/* Inserts a number that is larger than the last of the top. */
static void insert(struct magnitudes *m, uint32_t top[MAGNITUDES_TOP], uint32_t bits, size_t row,
                   size_t column)
{
    size_t at = MAGNITUDES_TOP - 1;
    for (; at > 0 && bits > top[at - 1]; at--) {
        top[at] = top[at - 1];
        m->row[at] = m->row[at - 1];
        m->column[at] = m->column[at - 1];
    }
    top[at] = bits;
    m->row[at] = row;
    m->column[at] = column;
}

static void find_top(struct magnitudes *m, const struct magnitudes_rows *r, float *scratch,
                     float *row_top)
{
    uint32_t top[MAGNITUDES_TOP] = {0};
    for (size_t i = 0; i < r->n; i++) {
        const float *x = get_row(r, i, scratch);
        uint32_t most = 0;
        for (size_t k = 0; k < r->width; k++) {
            uint32_t bits = magnitude(x[k]);
            most = bits > most ? bits : most;
            if (bits > top[MAGNITUDES_TOP - 1])
                insert(m, top, bits, i, k);
        }
        if (row_top)
            row_top[i] = of_bits(most);
    }
    for (size_t i = 0; i < MAGNITUDES_TOP; i++)
        m->top[i] = of_bits(top[i]);
}

/* ---- order statistics: a radix search. Each sweep over the numbers finds one more digit of the
   wanted number's bits, from the top down, by counting digits. */

enum { RANKS = 2, DIGIT = 11, DIGITS = 1 << DIGIT };

struct rank {
    size_t k;      /* the wanted number is the k-th largest that begins with `bits` */
    uint32_t bits; /* the digits found so far */
};

/* Finds the next digit of each rank: `bits` bits from bit `shift` on. */
static void find_digit(struct rank rank[RANKS], const struct magnitudes_rows *r, float *scratch,
                       int shift, int bits)
{
    size_t count[RANKS][DIGITS] = {{0}};
    uint32_t mask = (1u << bits) - 1;
    for (size_t i = 0; i < r->n; i++) {
        const float *x = get_row(r, i, scratch);
        for (size_t k = 0; k < r->width; k++) {
            uint32_t upper = magnitude(x[k]) >> shift;
            for (int j = 0; j < RANKS; j++)
                count[j][upper & mask] += upper >> bits == rank[j].bits;
        }
    }
    for (int j = 0; j < RANKS; j++) {
        uint32_t digit = mask;
        for (; digit > 0 && count[j][digit] < rank[j].k; digit--)
            rank[j].k -= count[j][digit];
        rank[j].bits = rank[j].bits << bits | digit;
    }
}

struct magnitudes magnitudes_of(const struct magnitudes_rows *r, float *row, float *row_top)
{
    struct magnitudes m = {0};
    size_t n = r->n * r->width;
    struct rank rank[RANKS] = {{.k = n / 10 + (n % 10 > 0)}, {.k = n - n / 2}};
    if (!n)
        return m;
    find_top(&m, r, row, row_top);
    find_digit(rank, r, row, 20, 11); /* 31 bits in all */
    find_digit(rank, r, row, 10, 10);
    find_digit(rank, r, row, 0, 10);
    m.tenth = of_bits(rank[0].bits);
    m.median = of_bits(rank[1].bits);
    return m;
}
