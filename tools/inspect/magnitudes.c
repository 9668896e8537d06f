#include "magnitudes.h"

#include <string.h>

/* The bits of |x|, whose order is that of the numbers. */
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

static const float *get_row(const struct magnitudes_rows *r, size_t i, float *room)
{
    if (r->x)
        return r->x + i * r->stride;
    const uint8_t *bytes = r->bytes + i * r->stride;
    const struct tft_affine *q = &r->q[i * r->step];
    for (size_t k = 0; k < r->width; k++)
        room[k] = (float)(bytes[k] - q->zero) * q->scale;
    return room;
}

/* ---- the largest */

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

static void find_top(struct magnitudes *m, const struct magnitudes_rows *r, float *room,
                     float *row_top)
{
    uint32_t top[MAGNITUDES_TOP] = {0};
    for (size_t i = 0; i < r->n; i++) {
        const float *x = get_row(r, i, room);
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

/* ---- order statistics: the wanted one's bits are found from the top down, a digit a sweep, by
   counting */

enum { RANKS = 2, DIGIT = 11, DIGITS = 1 << DIGIT };

struct rank {
    size_t k;      /* how many numbers with these upper bits it is from the top, itself included */
    uint32_t bits; /* above the digits that are still to come */
};

/* The digit of `bits` bits from `shift` up, of each rank. */
static void find_digit(struct rank rank[RANKS], const struct magnitudes_rows *r, float *room,
                       int shift, int bits)
{
    size_t count[RANKS][DIGITS] = {{0}};
    uint32_t mask = (1u << bits) - 1;
    for (size_t i = 0; i < r->n; i++) {
        const float *x = get_row(r, i, room);
        for (size_t k = 0; k < r->width; k++) {
            uint32_t at = magnitude(x[k]) >> shift;
            for (int j = 0; j < RANKS; j++)
                count[j][at & mask] += at >> bits == rank[j].bits;
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
