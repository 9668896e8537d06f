#include "papers.h"

#include <stdio.h>

struct paper_numbers paper_numbers[2][LAYERS][HEADS];
int32_t paper_key_order[HEADS * MAX_DIM];
float paper_alpha[2][HEADS * ((MAX_DIM + 15) / 16)];
float paper_importance[LAYERS * HEADS * MAX_DIM];

/* -------------------------------------------------------------------------------------- a group */

/* x rounded to `fraction` bits of fraction, ties to even; numbers below 2^least are subnormal. */
static double nearest(double x, int fraction, int least)
{
    int e;
    frexp(x, &e);
    double unit = ldexp(1, (e - 1 > least ? e - 1 : least) - fraction);
    return rint(x / unit) * unit;
}

/* x as scales and middles are stored: f16, or E4M3 times `unit`. */
static double stored_as(double x, bool f8, double unit)
{
    return f8 ? fmax(fmin(nearest(x / unit, 3, -6), 448), -448) * unit : nearest(x, 10, -14);
}

/* Whether `got` is how some number within `slack` of x is stored. */
static bool is_stored(double got, double x, double slack, bool f8, double unit)
{
    return got >= stored_as(x - slack, f8, unit) && got <= stored_as(x + slack, f8, unit);
}

/* Numbers that share a scale. */
struct group {
    uint32_t n, levels;
    double x[256];
    double scale, mid; /* that the cache has */
    uint32_t code[256];
};

static void range(const struct group *g, double *low, double *high)
{
    *low = *high = g->x[0];
    for (uint32_t i = 1; i < g->n; i++) {
        *low = fmin(*low, g->x[i]);
        *high = fmax(*high, g->x[i]);
    }
}

/* AsymKV Equ. 4 and 5, SKVQ eq. 2: code 0 is the low end of the range, code L - 1 the high end. The
   papers store the step and the low end ("zero-point"); tuffet stores the step and the middle,
   which is (L - 1) / 2 steps higher. alpha scales both ends if clip is ZERO or CALIBRATED, else the
   width about the middle. */
static void ends(const struct group *g, double alpha, enum clip clip, double *scale, double *mid)
{
    double low, high;
    range(g, &low, &high);
    *scale = alpha * (high - low) / (g->levels - 1);
    *mid = (high + low) / 2 * (clip >= ZERO ? alpha : 1);
}

/* The code before it is rounded: (X - z) / h */
static double level(const struct group *g, uint32_t i, double scale, double mid)
{
    double half = (g->levels - 1) / 2.0, c = scale > 0 ? (g->x[i] - mid) / scale + half : half;
    return fmax(0, fmin(c, g->levels - 1));
}

/* SKVQ eq. 3, for a group. */
static double squared_error(const struct group *g, double scale, double mid)
{
    double sum = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        double e = g->x[i] -
                   ((rint(level(g, i, scale, mid)) - (g->levels - 1) / 2.0) * scale + mid);
        sum += e * e;
    }
    return sum;
}

/* The exponent of the unit of a record's E4M3 scales, or of its middles: the least with which all
   of them, before clipping, are in range. */
static int exponent(double largest)
{
    int e = -100;
    while (largest > ldexp(448, e))
        e++;
    return e;
}

/* Asserts that scale and middle are right for the clip ratio with the least squared error, or for
   alpha if it is calibrated. Any ratio may be chosen if errors differ by less than the rounding of
   float sums, and of two numbers at the same distance from a scale, either may be stored. */
static void assert_scale(const struct paper *p, const struct group *g, const int e[2], double alpha,
                         const char *where)
{
    static const float lists[3][6] = {{1, 0.55f, 0.44f, 0.36f, 0.28f, 0.2f},
                                      {1, 0.8f, 0.68f, 0.56f, 0.46f, 0.36f},
                                      {1, 0.92f, 0.84f, 0.76f, 0.68f, 0.6f}};
    const float *clips = lists[g->levels < 4 ? g->levels - 2 : 2];
    double least = INFINITY, low, high, scale, mid, unit[2] = {ldexp(1, e[0]), ldexp(1, e[1])};
    bool is_candidate = false;
    range(g, &low, &high);
    double slack = FLOAT_SLACK * (fabs(low) + fabs(high));
    for (int i = 0; i < (p->clip == WHOLE || p->clip == CALIBRATED ? 1 : 6); i++) {
        ends(g, p->clip == CALIBRATED ? alpha : (double)clips[i], p->clip, &scale, &mid);
        is_candidate |= is_stored(g->scale, scale, slack, p->f8, unit[0]) &&
                        is_stored(g->mid, mid, slack, p->f8, unit[1]);
        double worst = 0; /* of the ways to store them that are as near */
        for (int way = 0; way < 4; way++)
            worst = fmax(worst, squared_error(g, stored_as(scale + (way & 1 ? slack : -slack),
                                                           p->f8, unit[0]),
                                              stored_as(mid + (way & 2 ? slack : -slack), p->f8,
                                                        unit[1])));
        least = fmin(least, worst);
    }
    ends(g, 1, p->clip, &scale, &mid);
    if (!is_candidate)
        fail_msg(
            "%s: %s: scale %.9g, middle %.9g: no clip ratio of scale %.9g, middle %.9g gives them",
            p->kv, where, g->scale, g->mid, scale, mid);
    if (p->clip != WHOLE && squared_error(g, g->scale, g->mid) > least * 1.0001)
        fail_msg("%s: %s: squared error %.9g, but %.9g is possible", p->kv, where,
                 squared_error(g, g->scale, g->mid), least);
}

/* Asserts the codes of a group. Where two codes are as near, either may be chosen: the product of a
   distance and an inverse has two roundings, of numbers up to L. */
static void assert_codes(const struct paper *p, const struct group *g, const char *where)
{
    double slack = FLOAT_SLACK * g->levels;
    for (uint32_t i = 0; i < g->n; i++) {
        double c = level(g, i, g->scale, g->mid);
        if (g->code[i] < rint(c - slack) || g->code[i] > rint(c + slack))
            fail_msg("%s: %s: number %u is %.9g and has code %u, not %.9g", p->kv, where, i,
                     g->x[i], g->code[i], c);
    }
}

/* --------------------------------------------------------------------------------------- blocks */

static size_t quads_bytes(uint32_t levels, size_t n)
{
    switch (levels) {
    case 2: return 8 * n;
    case 3: return n / 5 * 64 + n % 5 * 16;
    case 4: return 16 * n;
    case 8: return 24 * n;
    case 16: return 32 * n;
    default: return 64 * n;
    }
}

/* Code i of quad `quad` of n quads, as simd/codes.h says. */
static uint32_t code_of(const uint8_t *at, uint32_t levels, uint32_t n, uint32_t quad, uint32_t i)
{
    static const uint32_t power[] = {81, 27, 9, 3, 1};
    switch (levels) {
    case 2: return at[8 * quad + i % 8] >> (i / 8) & 1u;
    case 3:
        if (quad < n / 5 * 5)
            return at[quad / 5 * 64 + i] * 243u / 256 / power[quad % 5] % 3;
        at += n / 5 * 64;
        quad -= n / 5 * 5; /* fall through */
    case 4: return at[16 * quad + i % 16] >> 2 * (i / 16) & 3u;
    case 8:
        return code_of(at + 24 * quad, 4, 1, 0, i) + 4 * code_of(at + 24 * quad + 16, 2, 1, 0, i);
    case 16: return at[32 * quad + i % 32] >> 4 * (i / 32) & 15u;
    default: return at[64 * quad + i];
    }
}

/* How many quads of columns have this number of levels. */
static uint32_t quads_of(const uint32_t *column_levels, uint32_t columns, uint32_t levels)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < columns; c += 4)
        n += column_levels[c] == levels;
    return n;
}

/* Bytes of the quads of a panel that have fewer levels than `below`. They come first. */
static size_t panel_bytes(const uint32_t *column_levels, uint32_t columns, uint32_t below)
{
    static const uint32_t all[] = {2, 3, 4, 8, 16, 256};
    size_t bytes = 0;
    for (int b = 0; b < 6 && all[b] < below; b++)
        bytes += quads_bytes(all[b], quads_of(column_levels, columns, all[b]));
    return bytes;
}

static uint32_t panel_code(const uint8_t *codes, const uint32_t *column_levels, uint32_t columns,
                           uint32_t row, uint32_t column)
{
    uint32_t levels = column_levels[column], quad = quads_of(column_levels, column / 4 * 4, levels);
    codes += row / 16 * panel_bytes(column_levels, columns, UINT32_MAX) +
             panel_bytes(column_levels, columns, levels);
    return code_of(codes, levels, quads_of(column_levels, columns, levels), quad,
                   row % 16 * 4 + column % 4);
}

/* The keys or values of a head in a block. */
struct block {
    const struct paper *p;
    int side;
    uint32_t layer, head, dim;
    const uint32_t *list; /* positions of its tokens */
    struct paper_order order;
    struct tft_coded is;
};

static uint32_t block_code(const struct block *b, uint32_t token, uint32_t at)
{
    uint32_t levels[256];
    if (b->side == KEYS)
        return panel_code(b->is.codes, b->order.levels, b->dim, token, at);
    for (uint32_t i = 0; i < b->p->block; i++)
        levels[i] = b->order.levels[0];
    return panel_code(b->is.codes, levels, b->p->block, at, token);
}

static size_t code_bytes(const struct block *b)
{
    uint32_t levels[256];
    if (b->side == KEYS)
        return b->p->block / 16 * panel_bytes(b->order.levels, b->dim, UINT32_MAX);
    for (uint32_t i = 0; i < b->p->block; i++)
        levels[i] = b->order.levels[0];
    return (b->dim + 15) / 16 * panel_bytes(levels, b->p->block, UINT32_MAX);
}

/* Number i of group g of a block: place *at among the stored channels of token *token. False if
   there is no such number. */
static bool member(const struct block *b, uint32_t g, uint32_t i, uint32_t *token, uint32_t *at)
{
    const struct paper *p = b->p;
    if (p->axis[b->side] == TOKEN) {
        *token = g % p->block;
        *at = g / p->block * p->group + i;
        return i < p->group && *at < b->dim;
    }
    *token = i;
    *at = g;
    return i < p->block && g < b->dim;
}

static bool group_of(const struct block *b, uint32_t g, struct group *to)
{
    const struct paper_numbers *from = &paper_numbers[b->side][b->layer][b->head];
    uint32_t token, at;
    *to = (struct group){0};
    for (; member(b, g, to->n, &token, &at); to->n++) {
        to->x[to->n] = (double)tft_f16_to_f32(from->row[b->list[token]][b->order.channel[at]]);
        to->code[to->n] = block_code(b, token, at);
        to->levels = b->order.levels[at];
    }
    to->scale = (double)b->is.scale[g];
    to->mid = (double)b->is.mid[g];
    return to->n > 0;
}

/* Records the values of a group's codes, for paper_assert_attention. */
static void record_group(const struct block *b, uint32_t g, const struct group *from)
{
    struct paper_numbers *to = &paper_numbers[b->side][b->layer][b->head];
    uint32_t token, at;
    for (uint32_t i = 0; member(b, g, i, &token, &at); i++) {
        uint32_t t = b->list[token], d = b->order.channel[at];
        double c = from->code[i] - (from->levels - 1) / 2.0;
        to->x[t][d] = c * from->scale + from->mid;
        to->scale[t][d] = from->scale;
        to->c[t][d] = c;
    }
}

/* Asserts the exponents of the units of E4M3 scales and middles. e: scales, middles */
static void exponents(const struct block *b, int e[2])
{
    double largest[2] = {0, 0}, scale, mid;
    struct group g;
    for (uint32_t i = 0; group_of(b, i, &g); i++) {
        ends(&g, 1, WHOLE, &scale, &mid);
        largest[0] = fmax(largest[0], stored_as(scale, false, 1));
        largest[1] = fmax(largest[1], fabs(stored_as(mid, false, 1)));
    }
    const int8_t *is = (const int8_t *)b->is.codes + code_bytes(b);
    for (int i = 0; i < 2; i++) {
        e[i] = exponent(largest[i]);
        assert_int_equal(is[i], e[i]);
    }
}

static double alpha_of(const struct block *b, uint32_t g)
{
    uint32_t groups = (b->dim + b->p->group - 1) / b->p->group;
    return b->p->clip == CALIBRATED
               ? (double)paper_alpha[b->side][b->head * groups + g / b->p->block]
               : 1;
}

static void assert_coded(const struct block *b, uint32_t number)
{
    struct group g;
    char where[80];
    int e[2] = {0, 0};
    if (b->p->f8)
        exponents(b, e);
    for (uint32_t i = 0; group_of(b, i, &g); i++) {
        snprintf(where, sizeof where, "%s of layer %u, head %u, block %u, group %u",
                 b->side ? "values" : "keys", b->layer, b->head, number, i);
        assert_scale(b->p, &g, e, alpha_of(b, i), where);
        assert_codes(b->p, &g, where);
        record_group(b, i, &g);
    }
}

/* Asserts a block of 16 bits: f16 keys in panels, values in rows. */
static void assert_f16(const struct block *b, const uint16_t *is)
{
    struct paper_numbers *n = &paper_numbers[b->side][b->layer][b->head];
    for (uint32_t j = 0; j < b->p->block; j++)
        for (uint32_t d = 0; d < b->dim; d++) {
            uint32_t t = b->list[j];
            size_t at = b->side == KEYS ? ((size_t)j / 16 * b->dim + d) * 16 + j % 16
                                        : (size_t)j * b->dim + d;
            assert_int_equal(is[at], n->row[t][d]);
            n->x[t][d] = (double)tft_f16_to_f32(n->row[t][d]);
            n->scale[t][d] = n->c[t][d] = 0;
        }
}

/* ------------------------------------------------------------------------------ bits by channel */

/* The least sum of loss[i] / 4^(bits[i] - 1) if all bits[i], 1 to 4 each, sum to `bits`; best gets
   the bits. Tries all. (The library uses the shortcut, reverse water-filling: Cover & Thomas 2006,
   theorem 10.3.3.) */
static double least_loss(const double *loss, uint32_t n, uint32_t bits, uint32_t *best)
{
    double least = INFINITY;
    uint32_t rest[MAX_DIM / 4];
    if (n == 0)
        return bits ? INFINITY : 0;
    for (uint32_t b = 1; b <= 4 && b <= bits; b++) {
        if (bits - b < n - 1 || bits - b > 4 * (n - 1))
            continue;
        double sum = *loss / pow(4, b - 1) + least_loss(loss + 1, n - 1, bits - b, rest);
        if (sum < least) {
            least = sum;
            best[0] = b;
            memcpy(best + 1, rest, (n - 1) * sizeof *best);
        }
    }
    return least;
}

/* Channels in the order of their importance; quads of four get the bits with the least loss. */
static void mixed_order(double average, const float *of, uint32_t dim, struct paper_order *o)
{
    double loss[MAX_DIM / 4] = {0};
    uint32_t bits[MAX_DIM / 4];
    for (uint32_t d = 0; d < dim; d++) {
        uint32_t rank = 0;
        for (uint32_t i = 0; i < dim; i++)
            rank += of[i] < of[d];
        o->channel[rank] = d;
        loss[rank / 4] += (double)of[d];
    }
    least_loss(loss, dim / 4, (uint32_t)lrint(average * (dim / 4)), bits);
    for (uint32_t i = 0; i < dim; i++)
        o->levels[i] = 1u << bits[i / 4];
}

struct paper_order paper_order_of(const struct paper *p, int side, uint32_t layer, uint32_t head,
                                  uint32_t dim)
{
    struct paper_order o;
    if (p->axis[side] == MIXED && p->average[layer] > 0) {
        mixed_order(p->average[layer], paper_importance + (layer * HEADS + head) * dim, dim, &o);
        return o;
    }
    for (uint32_t d = 0; d < dim; d++) {
        o.channel[d] = p->reorder && side == KEYS ? (uint32_t)paper_key_order[head * dim + d] : d;
        o.levels[d] = p->levels[side][layer];
    }
    return o;
}

/* Asserts the size of a record, which decides the cost of a token. */
static void assert_record(const struct block *b, size_t is)
{
    size_t groups = b->p->axis[b->side] == TOKEN
                        ? (b->dim + b->p->group - 1) / b->p->group * b->p->block
                        : b->dim;
    size_t scales = b->p->f8 ? 2 + 2 * groups : 4 * groups;
    if (b->order.levels[0] == 0)
        assert_int_equal(is, b->p->block * b->dim * 2);
    else
        assert_int_equal(is, code_bytes(b) + (scales + 7) / 8 * 8);
}

void paper_assert_block(const struct paper *p, const struct tft_session *s, int side,
                        const struct paper_cache *c, uint32_t number)
{
    static float room[4 * 256 * MAX_DIM];
    const struct tft_kv *kv = &s->kv;
    const struct tft_kernels *kern = &s->m->kern;
    assert_int_equal(kv->block, p->block);
    for (uint32_t l = 0; l < s->m->n_layer; l++)
        for (uint32_t h = 0; h < kv->n_head_kv; h++) {
            struct block b = {.p = p,
                              .side = side,
                              .layer = l,
                              .head = h,
                              .dim = kv->head_dim,
                              .list = c->block[number]};
            b.order = paper_order_of(p, side, l, h, b.dim);
            assert_record(&b, side == KEYS ? kv->layer[l].k_bytes : kv->layer[l].v_bytes);
            if (b.order.levels[0] == 0) {
                assert_f16(&b, side == KEYS ? tft_kv_f16_keys(kv, l, h, number)
                                            : tft_kv_f16_values(kv, l, h, number));
                continue;
            }
            b.is = side == KEYS ? tft_kv_key_codes(kv, kern, l, h, number, room)
                                : tft_kv_value_codes(kv, kern, l, h, number, room);
            assert_coded(&b, number);
        }
}
