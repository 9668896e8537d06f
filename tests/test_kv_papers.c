/*
 * The presets of quantized caches against their papers, restated here in double precision, plainly, a token at a time. The restatement
 * takes the keys and values of a session with an f16 cache and says which tokens stay f16 and in which order, which tokens each block has,
 * its codes and scales, and what attention is to return.
 *
 *   KIVI       Liu et al. 2024, as LogQuant (section 3.4) and AsymKV (section 5.1) describe it: the newest R tokens at most are in full
 *              precision
 *   LogQuant   section 3.4: which tokens stay; section 3.3: their order does not matter
 *   AsymKV     Equ. 4 and 5: round to nearest; section 4: bits by layer
 *   SKVQ       section 3.1, eq. 1: the order of channels, eq. 2 and 3: clipping; section 3.2 and algorithm 1: the window, the sinks, the
 *              filter, and prompts in full precision; section 4.1: E4M3
 *   IntactKV   section 4.3: the prefix stays FP16
 *
 * Where they are and we are not token by token: tuffet.h quantizes `block` tokens together. What RTN would quantize as it comes waits for
 * its block to be full, up to a block of what has left SKVQ's window is still there, and what KIVI and LogQuant give up waits until it
 * fills blocks. Papers attend first and then quantize; here what is due is quantized when the next token comes, which no token can tell.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "fed.h"
#include "half.h"
#include "random.h"

enum { MOST = 330, WIDE = 40, HEADS = 2, LAYERS = 2, PREFIX = 3, NEVER = MOST };
enum rule { KIVI, LOGQUANT, SKVQ };
enum axis { CHANNEL, TOKEN, MIXED };
enum clip { WHOLE, CENTRE, ZERO, CALIBRATED };
enum { KEYS, VALUES };

static const struct toy toys[] = {
    {.arch = "llama", .n_vocab = 61, .n_ctx = 640, .n_embd = 32, .n_layer = 1, .n_head = 2, .n_head_kv = 1, .head_dim = 16, .n_ff = 16, .n_rot = 16, .type = TFT_F32},
    {.arch = "qwen2", .n_vocab = 61, .n_ctx = 640, .n_embd = 32, .n_layer = 1, .n_head = 2, .n_head_kv = 2, .head_dim = 40, .n_ff = 16, .n_rot = 40, .type = TFT_F32},
    {.arch = "llama", .n_vocab = 61, .n_ctx = 640, .n_embd = 32, .n_layer = 2, .n_head = 2, .n_head_kv = 2, .head_dim = 16, .n_ff = 16, .n_rot = 16, .type = TFT_F32},
};

/* A cache, said in the words of the papers. */
struct paper {
    const char *kv;
    int toy;
    uint32_t n, n_prefix;
    enum rule rule;
    uint32_t window, sinks; /* R of KIVI, W of LogQuant and SKVQ */
    enum axis axis[2];      /* of keys, values */
    uint32_t levels[2][LAYERS]; /* 0: f16 */
    uint32_t group, block;
    enum clip clip;
    bool f8;
    double average[LAYERS]; /* bits of MIXED keys; 0: f16 */
    bool reorder;
    uint32_t prefill, keep;
};

/* ------------------------------------------------------------------------------------------------ which tokens */

/* Positions, those of the prefix among them. */
struct cache {
    uint32_t sinks, named, waiting, kept, blocks;
    uint32_t sink[MOST], name[MOST], wait[MOST], keep[MOST], block[MOST / 16][256];
    uint32_t since[MOST]; /* a token is coded for queries from this position on */
};

static uint32_t limit(const struct paper *p)
{
    switch (p->rule) {
    case KIVI: return p->window;         /* LogQuant 3.4: "the length fluctuates between 0 and R" */
    case LOGQUANT: return 3 * p->window; /* "retain up to 3W tokens at original precision" */
    default: return p->window + p->block; /* SKVQ, algorithm 1: W; and what has left it until it fills a block */
    }
}

static bool leaves(const struct paper *p, uint32_t i)
{
    switch (p->rule) {
    case KIVI: return true;
    case LOGQUANT:
        return i < 2 * p->window && i % 2 == 1; /* "the first two windows ... at regular intervals, effectively halving the density" */
    default: return i < p->block;
    }
}

/* What the filter of these tests wants to keep. */
static bool wanted(void *user, uint64_t position, int32_t token)
{
    (void)user;
    return position % 11 == 3 || token == 5;
}

static int32_t tokens[MOST]; /* that are fed */

/* SKVQ, algorithm 1: what has left the window and passes a filter is not quantized. Here only so many may: the first ones of a sequence. */
static bool passes(const struct paper *p, uint32_t position)
{
    uint32_t before = 0;
    for (uint32_t i = p->n_prefix + p->sinks; i < position; i++)
        before += wanted(NULL, i - p->n_prefix, tokens[i - p->n_prefix]);
    return before < p->keep && wanted(NULL, position - p->n_prefix, tokens[position - p->n_prefix]);
}

static void give_up(const struct paper *p, struct cache *c, uint32_t now)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->kept; i++)
        if (leaves(p, i) && passes(p, c->keep[i]))
            c->name[c->named++] = c->keep[i];
        else if (leaves(p, i))
            c->wait[c->waiting++] = c->keep[i];
        else
            c->keep[kept++] = c->keep[i];
    c->kept = kept;
    for (; c->waiting >= p->block; c->blocks++) {
        for (uint32_t i = 0; i < p->block; i++) {
            c->block[c->blocks][i] = c->wait[i];
            c->since[c->wait[i]] = now;
        }
        c->waiting -= p->block;
        memmove(c->wait, c->wait + p->block, c->waiting * sizeof *c->wait);
    }
}

static void come_at_once(const struct paper *p, struct cache *c, uint32_t position)
{
    c->since[position] = NEVER;
    if (position < p->n_prefix)
        return; /* IntactKV: intact for ever */
    if (c->kept == limit(p))
        give_up(p, c, position);
    if (c->sinks < p->sinks)
        c->sink[c->sinks++] = position; /* SKVQ 3.2: "the first few tokens are reserved to high precision" */
    else
        c->keep[c->kept++] = position;
}

/* SKVQ 3.2: "we first compute attention with full precision KV cache, then quantize the KV cache": what would have been quantized by then
   is, when the first token comes that is not the prompt's. */
static void come(const struct paper *p, struct cache *c, uint32_t position)
{
    static struct cache then;
    uint32_t n = position - p->n_prefix;
    if (position < p->n_prefix || n > p->prefill || !p->prefill) {
        come_at_once(p, c, position);
        return;
    }
    then = n ? then : *c;
    come_at_once(p, &then, position);
    if (n < p->prefill) {
        if (c->sinks < p->sinks)
            c->sink[c->sinks++] = position;
        else
            c->keep[c->kept++] = position;
        c->since[position] = NEVER;
        return;
    }
    *c = then;
    for (uint32_t i = 0; i < position; i++)
        c->since[i] = c->since[i] == NEVER ? NEVER : position;
}

/* ------------------------------------------------------------------------------------------------ keys and values */

/* Of each position: what it had as it came; once it is coded, what that stands for, with the scale and c - (L - 1) / 2 of each number. */
static struct numbers {
    uint16_t row[MOST][WIDE];
    double x[MOST][WIDE], scale[MOST][WIDE], c[MOST][WIDE];
} numbers[2][LAYERS][HEADS];

static void slot_row(const struct tft_kv *kv, int side, uint32_t layer, uint32_t head, uint32_t slot, uint16_t row[WIDE])
{
    uint32_t column = slot % TFT_KEY_PANEL;
    const uint16_t *panel = tft_kv_keys(kv, layer, head, slot - column), *value = tft_kv_values(kv, layer, head, slot);
    for (uint32_t d = 0; d < kv->head_dim; d++)
        row[d] = side == KEYS ? panel[d * TFT_KEY_PANEL + column] : value[d];
}

/* What a slot has is what came at a position. */
static void note_row(const struct tft_kv *kv, uint32_t layer, uint32_t slot, uint32_t position)
{
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        for (int side = 0; side < 2; side++)
            slot_row(kv, side, layer, h, slot, numbers[side][layer][h].row[position]);
}

static void assert_slot(const struct paper *p, const struct tft_kv *kv, uint32_t layer, uint32_t slot, uint32_t position)
{
    uint16_t row[WIDE];
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        for (int side = 0; side < 2; side++) {
            slot_row(kv, side, layer, h, slot, row);
            if (memcmp(row, numbers[side][layer][h].row[position], kv->head_dim * sizeof *row) != 0)
                fail_msg("%s: slot %u has not the %s of position %u", p->kv, slot, side ? "value" : "key", position);
        }
}

static void assert_slots(const struct paper *p, const struct tft_kv *kv, const struct cache *c)
{
    uint32_t slot = 0;
    if (kv->at.sinks != c->sinks || kv->at.named != c->named || kv->at.waiting != c->waiting || kv->at.kept != c->kept ||
        kv->at.blocks != c->blocks)
        fail_msg("%s: %u + %u + %u + %u and %u blocks, not %u + %u + %u + %u and %u", p->kv, kv->at.sinks, kv->at.named, kv->at.waiting,
                 kv->at.kept, kv->at.blocks, c->sinks, c->named, c->waiting, c->kept, c->blocks);
    for (uint32_t l = 0; l < toys[p->toy].n_layer; l++, slot = 0) {
        for (uint32_t i = 0; i < p->n_prefix; i++)
            assert_slot(p, kv, l, slot++, i);
        for (uint32_t i = 0; i < c->sinks; i++)
            assert_slot(p, kv, l, slot++, c->sink[i]);
        for (uint32_t i = 0; i < c->named; i++)
            assert_slot(p, kv, l, slot++, c->name[i]);
        for (uint32_t i = 0; i < c->waiting; i++)
            assert_slot(p, kv, l, slot++, c->wait[i]);
        for (uint32_t i = 0; i < c->kept; i++)
            assert_slot(p, kv, l, slot++, c->keep[i]);
    }
}

/* ------------------------------------------------------------------------------------------------ a group */

/* The nearest number with so many bits of fraction, normal from 2^least on; ties to even. */
static double nearest(double x, int fraction, int least)
{
    int e;
    frexp(x, &e);
    double unit = ldexp(1, (e - 1 > least ? e - 1 : least) - fraction);
    return rint(x / unit) * unit;
}

/* As scales and middles are kept: f16, or E4M3 times `unit`. */
static double kept_as(double x, bool f8, double unit)
{
    return f8 ? fmax(fmin(nearest(x / unit, 3, -6), 448), -448) * unit : nearest(x, 10, -14);
}

/* Whether `got` is what a number within `slack` of x is kept as. */
static bool is_kept(double got, double x, double slack, bool f8, double unit)
{
    return got >= kept_as(x - slack, f8, unit) && got <= kept_as(x + slack, f8, unit);
}

/* Numbers that share a scale. */
struct group {
    uint32_t n, levels;
    double x[256];
    double scale, mid; /* what the cache has for them */
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

/* AsymKV Equ. 4 and 5, SKVQ eq. 2: code 0 is the low end and code L - 1 the high one. They keep the low end ("zero-point") beside the step,
   we the middle, which is half of L - 1 steps higher. clip is alpha: of both ends, or, about the middle, of the width alone. */
static void ends(const struct group *g, double alpha, enum clip clip, double *scale, double *mid)
{
    double low, high;
    range(g, &low, &high);
    *scale = alpha * (high - low) / (g->levels - 1);
    *mid = (high + low) / 2 * (clip >= ZERO ? alpha : 1);
}

/* (X - z) / h, before it is rounded */
static double level(const struct group *g, uint32_t i, double scale, double mid)
{
    double half = (g->levels - 1) / 2.0, c = scale > 0 ? (g->x[i] - mid) / scale + half : half;
    return fmax(0, fmin(c, g->levels - 1));
}

/* SKVQ eq. 3, of the group itself. */
static double squared_error(const struct group *g, double scale, double mid)
{
    double sum = 0;
    for (uint32_t i = 0; i < g->n; i++) {
        double e = g->x[i] - ((rint(level(g, i, scale, mid)) - (g->levels - 1) / 2.0) * scale + mid);
        sum += e * e;
    }
    return sum;
}

/* The E4M3 numbers of a block's scales, or of its middles, are multiples of a power of two: the least with which all of them, before
   clipping, are in range. */
static int exponent(double most)
{
    int e = -100;
    while (most > ldexp(448, e))
        e++;
    return e;
}

/* The cache works in floats: what it rounds may be this much beside what is rounded here. Relative to the ends of the range: three
   roundings. */
static const double FLOAT = 4 * 0x1p-24;

/* Scale and middle are those of the clip that loses least, or of alpha where that is calibrated. Two clips that lose as much, but for what
   the floats' sum is off, are as good. */
static void assert_scale(const struct paper *p, const struct group *g, const int e[2], double alpha, const char *where)
{
    double clips[] = {p->clip == CALIBRATED ? alpha : 1, (double)0.92f, (double)0.84f, (double)0.76f, (double)0.68f, (double)0.6f};
    double least = INFINITY, low, high, scale, mid, unit[2] = {ldexp(1, e[0]), ldexp(1, e[1])};
    bool there = false;
    range(g, &low, &high);
    double slack = FLOAT * (fabs(low) + fabs(high));
    for (int i = 0; i < (p->clip == WHOLE || p->clip == CALIBRATED ? 1 : 6); i++) {
        ends(g, clips[i], p->clip, &scale, &mid);
        there |= is_kept(g->scale, scale, slack, p->f8, unit[0]) && is_kept(g->mid, mid, slack, p->f8, unit[1]);
        least = fmin(least, squared_error(g, kept_as(scale, p->f8, unit[0]), kept_as(mid, p->f8, unit[1])));
    }
    ends(g, 1, p->clip, &scale, &mid);
    if (!there)
        fail_msg("%s: %s: %.9g about %.9g is no part of %.9g about %.9g", p->kv, where, g->scale, g->mid, scale, mid);
    if (p->clip != WHOLE && squared_error(g, g->scale, g->mid) > least * 1.0001)
        fail_msg("%s: %s: loses %.9g, not %.9g", p->kv, where, squared_error(g, g->scale, g->mid), least);
}

/* Codes, but where two are as near. The product of a distance and an inverse is off by two roundings of up to L. */
static void assert_codes(const struct paper *p, const struct group *g, const char *where)
{
    double slack = FLOAT * g->levels;
    for (uint32_t i = 0; i < g->n; i++) {
        double c = level(g, i, g->scale, g->mid);
        if (g->code[i] < rint(c - slack) || g->code[i] > rint(c + slack))
            fail_msg("%s: %s: number %u is %.9g and has code %u, not %.9g", p->kv, where, i, g->x[i], g->code[i], c);
    }
}

/* ------------------------------------------------------------------------------------------------ blocks */

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

/* Code i of quad `quad` of n, as codes.h says. */
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
    case 8: return code_of(at + 24 * quad, 4, 1, 0, i) + 4 * code_of(at + 24 * quad + 16, 2, 1, 0, i);
    case 16: return at[32 * quad + i % 32] >> 4 * (i / 32) & 15u;
    default: return at[64 * quad + i];
    }
}

/* Which channel is stored where, and its levels. */
struct order {
    uint32_t channel[WIDE], levels[WIDE];
};

/* Quads of columns that have so many levels. */
static uint32_t quads_of(const uint32_t *column_levels, uint32_t columns, uint32_t levels)
{
    uint32_t n = 0;
    for (uint32_t c = 0; c < columns; c += 4)
        n += column_levels[c] == levels;
    return n;
}

/* Bytes of a panel's quads with fewer levels than `below`: they come first. */
static size_t panel_bytes(const uint32_t *column_levels, uint32_t columns, uint32_t below)
{
    static const uint32_t all[] = {2, 3, 4, 8, 16, 256};
    size_t bytes = 0;
    for (int b = 0; b < 6 && all[b] < below; b++)
        bytes += quads_bytes(all[b], quads_of(column_levels, columns, all[b]));
    return bytes;
}

static uint32_t panel_code(const uint8_t *codes, const uint32_t *column_levels, uint32_t columns, uint32_t row, uint32_t column)
{
    uint32_t levels = column_levels[column], quad = quads_of(column_levels, column / 4 * 4, levels);
    codes += row / 16 * panel_bytes(column_levels, columns, UINT32_MAX) + panel_bytes(column_levels, columns, levels);
    return code_of(codes, levels, quads_of(column_levels, columns, levels), quad, row % 16 * 4 + column % 4);
}

/* A block of one head's keys or values: what there is to look at. */
struct block {
    const struct paper *p;
    int side;
    uint32_t layer, head, dim;
    const uint32_t *list; /* its positions */
    struct order order;
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

/* The groups of a block, one after another: number i of group g is channel *at (as it is stored) of token *token. False behind the last. */
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
    const struct numbers *from = &numbers[b->side][b->layer][b->head];
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

/* What attention is to be judged by. */
static void note_group(const struct block *b, uint32_t g, const struct group *from)
{
    struct numbers *to = &numbers[b->side][b->layer][b->head];
    uint32_t token, at;
    for (uint32_t i = 0; member(b, g, i, &token, &at); i++) {
        uint32_t t = b->list[token], d = b->order.channel[at];
        double c = from->code[i] - (from->levels - 1) / 2.0;
        to->x[t][d] = c * from->scale + from->mid;
        to->scale[t][d] = from->scale;
        to->c[t][d] = c;
    }
}

/* What E4M3 numbers are multiples of, as it is to be and as it is. */
static void exponents(const struct block *b, int e[2])
{
    double most[2] = {0, 0}, scale, mid;
    struct group g;
    for (uint32_t i = 0; group_of(b, i, &g); i++) {
        ends(&g, 1, WHOLE, &scale, &mid);
        most[0] = fmax(most[0], kept_as(scale, false, 1));
        most[1] = fmax(most[1], fabs(kept_as(mid, false, 1)));
    }
    const int8_t *is = (const int8_t *)b->is.codes + code_bytes(b);
    for (int i = 0; i < 2; i++) {
        e[i] = exponent(most[i]);
        assert_int_equal(is[i], e[i]);
    }
}

/* What a file may have been calibrated for, models of one layer: eq. 1's order of keys, and eq. 2's alpha of each head's groups. */
static int32_t key_order[HEADS * WIDE];
static float alpha[2][HEADS * ((WIDE + 15) / 16)];

static double alpha_of(const struct block *b, uint32_t g)
{
    uint32_t groups = (b->dim + b->p->group - 1) / b->p->group;
    return b->p->clip == CALIBRATED ? (double)alpha[b->side][b->head * groups + g / b->p->block] : 1;
}

static void assert_coded(const struct block *b, uint32_t number)
{
    struct group g;
    char where[80];
    int e[2] = {0, 0};
    if (b->p->f8)
        exponents(b, e);
    for (uint32_t i = 0; group_of(b, i, &g); i++) {
        snprintf(where, sizeof where, "%s of layer %u, head %u, block %u, group %u", b->side ? "values" : "keys", b->layer, b->head, number,
                 i);
        assert_scale(b->p, &g, e, alpha_of(b, i), where);
        assert_codes(b->p, &g, where);
        note_group(b, i, &g);
    }
}

/* 16 bits are no codes: keys in panels, values in rows. */
static void assert_f16(const struct block *b, const uint16_t *is)
{
    struct numbers *n = &numbers[b->side][b->layer][b->head];
    for (uint32_t j = 0; j < b->p->block; j++)
        for (uint32_t d = 0; d < b->dim; d++) {
            uint32_t t = b->list[j];
            size_t at = b->side == KEYS ? ((size_t)j / 16 * b->dim + d) * 16 + j % 16 : (size_t)j * b->dim + d;
            assert_int_equal(is[at], n->row[t][d]);
            n->x[t][d] = (double)tft_f16_to_f32(n->row[t][d]);
            n->scale[t][d] = n->c[t][d] = 0;
        }
}

/* ------------------------------------------------------------------------------------------------ bits by channel */

static float importance[LAYERS * HEADS * WIDE]; /* no two alike */

/* The least sum of loss[i] / 4^(bits - 1) with so many bits in all, 1 to 4 each, and the bits it takes: by trying all. Reverse
   water-filling is the shortcut to it: Cover & Thomas 2006, theorem 10.3.3. */
static double least_loss(const double *loss, uint32_t n, uint32_t bits, uint32_t *best)
{
    double least = INFINITY;
    uint32_t rest[WIDE / 4];
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

/* Channels in the order of their importance, four at a time with the bits that lose least. */
static void mixed_order(double average, const float *of, uint32_t dim, struct order *o)
{
    double loss[WIDE / 4] = {0};
    uint32_t bits[WIDE / 4];
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

/* ---- */

static struct order order_of(const struct paper *p, int side, uint32_t layer, uint32_t head, uint32_t dim)
{
    struct order o;
    if (p->axis[side] == MIXED && p->average[layer] > 0) {
        mixed_order(p->average[layer], importance + (layer * HEADS + head) * dim, dim, &o);
        return o;
    }
    for (uint32_t d = 0; d < dim; d++) {
        o.channel[d] = p->reorder && side == KEYS ? (uint32_t)key_order[head * dim + d] : d;
        o.levels[d] = p->levels[side][layer];
    }
    return o;
}

/* How long a record is: what a token costs. */
static void assert_record(const struct block *b, size_t is)
{
    size_t groups = b->p->axis[b->side] == TOKEN ? (b->dim + b->p->group - 1) / b->p->group * b->p->block : b->dim;
    size_t scales = b->p->f8 ? 2 + 2 * groups : 4 * groups;
    if (b->order.levels[0] == 0)
        assert_int_equal(is, b->p->block * b->dim * 2);
    else
        assert_int_equal(is, code_bytes(b) + (scales + 7) / 8 * 8);
}

static void assert_block(const struct paper *p, const struct tft_session *s, const struct cache *c, uint32_t number)
{
    static float room[4 * 256 * WIDE];
    const struct tft_kv *kv = &s->kv;
    const struct tft_kernels *kern = &s->m->kern;
    assert_int_equal(kv->block, p->block);
    for (uint32_t l = 0; l < s->m->n_layer; l++)
        for (uint32_t h = 0; h < kv->n_head_kv; h++)
            for (int side = 0; side < 2; side++) {
                struct block b = {.p = p, .side = side, .layer = l, .head = h, .dim = kv->head_dim, .list = c->block[number]};
                b.order = order_of(p, side, l, h, b.dim);
                assert_record(&b, side == KEYS ? kv->layer[l].k_bytes : kv->layer[l].v_bytes);
                if (b.order.levels[0] == 0) {
                    assert_f16(&b, side == KEYS ? tft_coded_f16_keys(kv, l, h, number) : tft_coded_f16_values(kv, l, h, number));
                    continue;
                }
                b.is = side == KEYS ? tft_coded_keys(kv, kern, l, h, number, room) : tft_coded_values(kv, kern, l, h, number, room);
                assert_coded(&b, number);
            }
}

/* ------------------------------------------------------------------------------------------------ attention */

/* A query of the last layer and what it sees: positions up to its own. */
struct query {
    const struct paper *p;
    const struct cache *c;
    const struct numbers *k, *v;
    uint32_t position, dim, head;
    const float *q;
    bool folded;
    double p_of[MOST];   /* probabilities */
    double factor[MOST]; /* which are off by this at most, or by one over it */
};

static bool coded(const struct query *a, uint32_t j)
{
    return a->c->since[j] <= a->position;
}

static double number(const struct query *a, const struct numbers *n, uint32_t j, uint32_t d)
{
    return coded(a, j) ? n->x[j][d] : (double)tft_f16_to_f32(n->row[j][d]);
}

/* What is added up in floats, at most: q or p times the distance from the middle, and times the middle. */
static double size(const struct query *a, const struct numbers *n, uint32_t j, uint32_t d)
{
    return fabs(number(a, n, j, d)) + (coded(a, j) ? 2 * n->scale[j][d] * fabs(n->c[j][d]) : 0);
}

/*
 * kernels.h, fold: what multiplies the distances c of codes from the middle is rounded to 127 steps of its largest on each side, to 16256
 * where codes have 8 bits. By channel that is the query times the scale, by token the query in each group. A paper's score is off by half a
 * step times c and, where the query is what is rounded, the scale: *error. Or it is moved by what the rounding comes to, *moved, and then
 * is off only where a number is as near to two steps.
 */
static void fold(const struct query *a, uint32_t j, double *moved, double *error)
{
    enum axis axis = a->p->axis[KEYS];
    uint32_t layer = toys[a->p->toy].n_layer - 1, group = axis == TOKEN ? a->p->group : a->dim;
    uint32_t channel[WIDE];
    for (uint32_t i = 0; i < a->dim; i++)
        channel[i] = a->p->reorder ? (uint32_t)key_order[a->head * a->dim + i] : i;
    double steps = axis != MIXED && a->p->levels[KEYS][layer] == 256 ? 16256 : 127;
    *moved = *error = 0;
    for (uint32_t first = 0; first < a->dim; first += group) {
        double most = 0;
        uint32_t end = first + group < a->dim ? first + group : a->dim;
        for (uint32_t i = first; i < end; i++)
            most = fmax(most, fabs((double)a->q[channel[i]]) * (axis == TOKEN ? 1 : a->k->scale[j][channel[i]]));
        for (uint32_t i = first; i < end && most > 0; i++) {
            uint32_t d = channel[i];
            double by = axis == TOKEN ? 1 : a->k->scale[j][d], f = (double)a->q[d] * by / most * steps;
            double c = a->k->c[j][d] * (axis == TOKEN ? a->k->scale[j][d] : 1) * most / steps;
            bool tie = fabs(fabs(f - trunc(f)) - 0.5) < FLOAT * steps;
            *moved += (rint(f) - f) * c;
            *error += fabs(c) * (!a->folded ? 0.5 : tie ? 1 : 0);
        }
    }
}

/* If scores are off by at most e_j, p_j is off by a factor of at most exp(e_j) times the sum of p_i exp(e_i): above, since the sum that p_j
   is divided by is at least that of p_i exp(-e_i), which is no less than one over it (Cauchy and Schwarz); below likewise. */
static void score(struct query *a)
{
    double s[MOST], most = -INFINITY, sum = 0, by = 0;
    for (uint32_t j = 0; j <= a->position; j++) {
        double dot = 0, sizes = 0, moved = 0, error = 0;
        if (coded(a, j))
            fold(a, j, &moved, &error);
        for (uint32_t d = 0; d < a->dim; d++) {
            dot += (double)a->q[d] * number(a, a->k, j, d);
            sizes += fabs((double)a->q[d]) * size(a, a->k, j, d);
        }
        error += (a->dim + 8) * 0x1p-24 * sizes;
        s[j] = (dot + (a->folded ? moved : 0)) / sqrt(a->dim);
        most = fmax(most, s[j]);
        a->factor[j] = exp(error / sqrt(a->dim) + 0x1p-20); /* and exponentials of floats, of scores and of the maxima of spans */
    }
    for (uint32_t j = 0; j <= a->position; j++)
        sum += a->p_of[j] = exp(s[j] - most);
    for (uint32_t j = 0; j <= a->position; j++)
        by += a->factor[j] * (a->p_of[j] /= sum);
    for (uint32_t j = 0; j <= a->position; j++)
        a->factor[j] *= by;
}

/* The fold of probabilities, steps as above: of p by channel, of p times the scale by token. A span's largest is at most that of all. Half
   a step each, or, as they have nothing to do with each other, five standard deviations of what is even between the halves. */
static double mix_error(const struct query *a, uint32_t d)
{
    double most = 0, far = 0, squares = 0, steps = a->p->levels[VALUES][toys[a->p->toy].n_layer - 1] == 256 ? 16256 : 127;
    bool by_token = a->p->axis[VALUES] == TOKEN;
    for (uint32_t j = 0; j <= a->position; j++)
        if (coded(a, j)) {
            most = fmax(most, a->p_of[j] * a->factor[j] * (by_token ? a->v->scale[j][d] : 1));
            double c = fabs(a->v->c[j][d]) * (by_token ? 1 : a->v->scale[j][d]);
            far += c;
            squares += c * c;
        }
    return most / steps * fmin(far / 2, 5 * sqrt(squares / 12));
}

/* o = sum p_j v_j, and what it may be off. Since the sum of p_j (v_j - o) is 0, o is off by p_j's errors times v_j - o. To that come the
   fold of p and the roundings of a sum of floats. */
static double mixed(const struct query *a, uint32_t d, double *allowed)
{
    double o = 0, spread = 0, sizes = 0;
    for (uint32_t j = 0; j <= a->position; j++) {
        o += a->p_of[j] * number(a, a->v, j, d);
        sizes += a->p_of[j] * a->factor[j] * size(a, a->v, j, d);
    }
    for (uint32_t j = 0; j <= a->position; j++)
        spread += a->p_of[j] * (a->factor[j] - 1) * fabs(number(a, a->v, j, d) - o);
    *allowed = spread + mix_error(a, d) + (a->position + 16) * 0x1p-24 * sizes;
    return o;
}

static void assert_head(struct query *a, uint32_t head, const float *got)
{
    double allowed;
    score(a);
    for (uint32_t d = 0; d < a->dim; d++) {
        double want = mixed(a, d, &allowed);
        if (!(fabs((double)got[d] - want) <= allowed))
            fail_msg("%s: attention at %u%s, head %u, channel %u: %.9g, not %.9g +- %.2g", a->p->kv, a->position,
                     a->folded ? ", folded" : "", head, d, (double)got[d], want, allowed);
    }
}

/* Of the query in a row of the pass: as the paper has it, and as kernels.h rounds it. What is allowed is, in the mean and where codes have
   up to 4 bits, 10 to 90 % of attention's output for the former: a worst case that never comes (seen: 0.4 to 1.4 %). For the latter it is 1
   to 8 %, and 0.1 to 0.7 % are seen. */
static void assert_attention(const struct paper *p, const struct tft_session *s, const struct cache *c, uint32_t position, uint32_t row)
{
    static struct query a;
    const struct tft_model *m = s->m;
    struct tft_pass shape = {.m = m, .s = (struct tft_session *)s};
    uint32_t layer = m->n_layer - 1;
    for (uint32_t h = 0; h < m->n_head; h++) {
        uint32_t g = h / (m->n_head / m->n_head_kv);
        a = (struct query){.p = p, .c = c, .k = &numbers[KEYS][layer][g], .v = &numbers[VALUES][layer][g], .position = position,
                           .dim = m->head_dim, .head = g, .q = tft_pass_row(&shape, TFT_Q, row) + h * m->head_dim};
        assert_head(&a, h, tft_pass_row(&shape, TFT_A, row) + h * a.dim);
        a.folded = true;
        assert_head(&a, h, tft_pass_row(&shape, TFT_A, row) + h * a.dim);
    }
}

/* ------------------------------------------------------------------------------------------------ a session beside a paper */

static uint16_t prefix[2][PREFIX * HEADS * WIDE];

/* The file names the cache, and has what it wants: an order by chance, and parts of ranges from .4 to 1. */
static void calibrate(const struct paper *p, struct tft_model *m)
{
    uint32_t dim = m->head_dim, heads = m->n_head_kv, groups = (dim + p->group - 1) / p->group;
    assert_int_equal(tft_kv_parse(&m->kv_policy, p->kv, NULL), TFT_OK);
    m->key_order = p->reorder ? key_order : NULL;
    for (uint32_t i = 0; i < heads * dim; i++) {
        uint32_t other = i - random_u32() % (i % dim + 1);
        key_order[i] = key_order[other];
        key_order[other] = (int32_t)(i % dim);
    }
    for (int side = 0; side < 2; side++) {
        m->kv_clip[side] = p->clip == CALIBRATED ? alpha[side] : NULL;
        for (uint32_t i = 0; i < heads * groups; i++)
            alpha[side][i] = 0.7f + 0.3f * random_even();
    }
}

static struct tft_model *model(const struct paper *p)
{
    struct tft_model *m = opened(written(&toys[p->toy]));
    for (int i = 0; i < LAYERS * HEADS * WIDE; i++)
        importance[i] = expf(3 * random_even());
    m->key_importance = importance;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < PREFIX * HEADS * WIDE; i++)
            prefix[side][i] = tft_f32_to_f16(2 * random_even());
    calibrate(p, m);
    m->n_prefix = p->n_prefix;
    m->prefix_k = prefix[KEYS];
    m->prefix_v = prefix[VALUES];
    return m;
}

/* Of a model of one layer: what it stores depends on no cache, so that of an f16 cache is what any other begins with. */
static void note_rows(const struct paper *p, struct tft_model *m)
{
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1, .n_batch = p->n, .kv = "f16"});
    assert_int_equal(tft_prefill(s, tokens, p->n), TFT_OK);
    for (uint32_t i = 0; i < p->n_prefix + p->n; i++)
        note_row(&s->kv, 0, i, i);
    tft_session_close(s);
}

/* After tokens from .. to - 1 have come in one call. */
static void assert_as(const struct paper *p, const struct tft_session *s, struct cache *c, uint32_t from, uint32_t to)
{
    uint32_t blocks = c->blocks;
    for (uint32_t t = from; t < to; t++)
        come(p, c, p->n_prefix + t);
    assert_slots(p, &s->kv, c);
    for (; blocks < c->blocks; blocks++)
        assert_block(p, s, c, blocks);
    for (uint32_t t = from; t < to; t++)
        assert_attention(p, s, c, p->n_prefix + t, t - from);
}

static void assert_paper(const struct paper *p)
{
    static struct cache c;
    struct tft_model *m = model(p);
    toy_tokens(7, m->n_vocab, tokens, p->n);
    note_rows(p, m);
    c = (struct cache){0};
    for (uint32_t i = 0; i < p->n_prefix; i++)
        come(p, &c, i);
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = 1, .n_batch = p->n, .n_logits = p->n, .kv = p->kv, .keep = wanted});
    for (uint32_t from = 0, to; from < p->n; from = to) {
        to = from + 61 < p->n ? from + 61 : p->n;
        assert_int_equal(tft_prefill(s, tokens + from, to - from), TFT_OK);
        assert_as(p, s, &c, from, to);
    }
    assert_true(c.blocks >= 2);
    tft_session_close(s);
    tft_model_close(m);
}

static void all(const struct paper *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_paper(&p[i]);
}
#define ALL(p) all(p, sizeof(p) / sizeof *(p))

static void round_to_nearest(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"rtn", 1, 130, 0, KIVI, 32, 0, {TOKEN, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, .average = {0}},
        {"rtn:bits=4,group=16", 0, 100, 0, KIVI, 32, 0, {TOKEN, TOKEN}, {{16}, {16}}, 16, 32, WHOLE, false, .average = {0}},
    };
    ALL(cases);
}

static void kivi(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"kivi", 0, 290, 0, KIVI, 128, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, .average = {0}},
        {"kivi:residual=64,bits=4", 1, 140, 0, KIVI, 64, 0, {CHANNEL, TOKEN}, {{16}, {16}}, 32, 32, WHOLE, false, .average = {0}},
        {"kivi:residual=128,bits=4,group=64", 0, 270, 0, KIVI, 128, 0, {CHANNEL, TOKEN}, {{16}, {16}}, 64, 64, WHOLE, false, .average = {0}},
        {"kivi:residual=64,group=64", 1, 140, 0, KIVI, 64, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 64, 64, WHOLE, false, .average = {0}},
        {"kivi:residual=40", 0, 130, 0, KIVI, 40, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, .average = {0}}, /* 8 wait, then 16, 24, none */
    };
    ALL(cases);
}

static void logquant(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"logquant", 0, 300, 0, LOGQUANT, 32, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, .average = {0}}, /* seven compactions */
        {"logquant:window=20", 1, 190, 0, LOGQUANT, 20, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, .average = {0}},
        {"logquant:window=21", 0, 230, 0, LOGQUANT, 21, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, .average = {0}},
        {"logquant:window=42,bits=4", 0, 300, 0, LOGQUANT, 42, 0, {CHANNEL, TOKEN}, {{16}, {16}}, 32, 32, WHOLE, false, .average = {0}}, /* 3W = 126: section 4.2.3 */
        {"logquant:window=5,group=64", 0, 160, 0, LOGQUANT, 5, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 64, 64, WHOLE, false, .average = {0}},
        {"logquant:window=16,group=16", 0, 150, 0, LOGQUANT, 16, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 16, 16, WHOLE, false, .average = {0}},
    };
    ALL(cases);
}

static void skvq(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"skvq:reorder=none,clip=zero,group=64", 1, 240, 0, SKVQ, 128, 5, {TOKEN, TOKEN}, {{4}, {4}}, 64, 32, ZERO, true, .average = {0}},
        {"skvq:reorder=none,clip=zero,v=1.5,window=33,group=16", 1, 140, 0, SKVQ, 33, 5, {TOKEN, TOKEN}, {{4}, {3}}, 16, 32, ZERO, true, .average = {0}},
        {"skvq:reorder=none,clip=zero,k=3,v=4,window=0,sinks=1,group=32", 0, 100, 0, SKVQ, 0, 1, {TOKEN, TOKEN}, {{8}, {16}}, 32, 32, ZERO, true, .average = {0}},
        {"skvq:reorder=none,clip=zero,group=64,scales=f16,window=16", 0, 120, 0, SKVQ, 16, 5, {TOKEN, TOKEN}, {{4}, {4}}, 64, 32, ZERO, false, .average = {0}},
    };
    ALL(cases);
}

/* Section 3.1: eq. 1 is the order of the keys (that of values is in the weights: test_quantize.c), eq. 2 with an alpha of each group's. */
static void skvq_calibrated(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"skvq", 1, 240, 0, SKVQ, 128, 5, {TOKEN, TOKEN}, {{4}, {4}}, 32, 32, CALIBRATED, true, .reorder = true},
        {"skvq:v=1.5,window=33,group=16", 1, 140, PREFIX, SKVQ, 33, 5, {TOKEN, TOKEN}, {{4}, {3}}, 16, 32, CALIBRATED, true, .reorder = true},
        {"skvq:reorder=none,scales=f16,window=0,k=3", 0, 100, 0, SKVQ, 0, 5, {TOKEN, TOKEN}, {{8}, {4}}, 32, 32, CALIBRATED, false, .average = {0}},
        {"skvq:clip=none,window=16,group=16,k=8", 1, 100, 0, SKVQ, 16, 5, {TOKEN, TOKEN}, {{256}, {4}}, 16, 32, WHOLE, true, .reorder = true},
        {"skvq:k=16,window=16,group=16", 1, 100, 0, SKVQ, 16, 5, {TOKEN, TOKEN}, {{0}, {4}}, 16, 32, CALIBRATED, true, .average = {0}},
    };
    ALL(cases);
}

/* Section 3.2. */
static void whole_prompts(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"skvq:window=16,prefill=150", 1, 230, 0, SKVQ, 16, 5, {TOKEN, TOKEN}, {{4}, {4}}, 32, 32, CALIBRATED, true, {0}, true, 150, 0},
        {"kivi:residual=40,prefill=130", 0, 210, PREFIX, KIVI, 40, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, {0}, false, 130, 0},
        {"kivi:residual=40,prefill=120", 0, 170, 0, KIVI, 40, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, {0}, false, 120, 0},
        {"logquant:window=11,prefill=140", 0, 200, 0, LOGQUANT, 11, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, {0}, false, 140, 0},
        {"kivi:residual=64,prefill=64", 0, 140, 0, KIVI, 64, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, {0}, false, 64, 0},
    };
    ALL(cases);
}

static void filters(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"skvq:window=16,keep=10", 1, 230, 0, SKVQ, 16, 5, {TOKEN, TOKEN}, {{4}, {4}}, 32, 32, CALIBRATED, true, {0}, true, 0, 10},
        {"skvq:window=16,keep=1", 1, 130, PREFIX, SKVQ, 16, 5, {TOKEN, TOKEN}, {{4}, {4}}, 32, 32, CALIBRATED, true, {0}, true, 0, 1},
        {"kivi:residual=40,keep=100", 0, 210, 0, KIVI, 40, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, {0}, false, 0, 100},
        {"kivi:residual=40,prefill=130,keep=7", 0, 190, PREFIX, KIVI, 40, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, {0}, false, 130, 7},
    };
    ALL(cases);
}

static void any_bits_and_axes(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"k=1@token,v=3@channel,retain=fill:64", 1, 140, 0, KIVI, 64, 0, {TOKEN, CHANNEL}, {{2}, {8}}, 32, 32, WHOLE, false, .average = {0}},
        {"k=3@channel,v=1@token,scales=f8,retain=window:7", 0, 110, 0, SKVQ, 7, 0, {CHANNEL, TOKEN}, {{8}, {2}}, 32, 32, WHOLE, true, .average = {0}},
        {"k=8@channel,v=4@channel,group=16,retain=fill:20,sinks=2", 0, 110, 0, KIVI, 20, 2, {CHANNEL, CHANNEL}, {{256}, {16}}, 16, 16, WHOLE, false, .average = {0}},
        {"k=16,v=1.5@channel,retain=log2:11", 1, 120, 0, LOGQUANT, 11, 0, {CHANNEL, CHANNEL}, {{0}, {3}}, 32, 32, WHOLE, false, .average = {0}},
        {"k=4@token,v=16,clip=centre,retain=fill:32,group=16", 1, 100, 0, KIVI, 32, 0, {TOKEN, TOKEN}, {{16}, {0}}, 16, 32, CENTRE, false, .average = {0}},
        {"k=1.5@channel,v=8@token,retain=window:10,group=64", 0, 150, 0, SKVQ, 10, 0, {CHANNEL, TOKEN}, {{3}, {256}}, 64, 64, WHOLE, false, .average = {0}},
        {"k=8@token,v=1@channel,sinks=7,retain=log2:16,clip=zero", 0, 140, 0, LOGQUANT, 16, 7, {TOKEN, CHANNEL}, {{256}, {2}}, 32, 32, ZERO, false, .average = {0}},
        {"k=1.5@token,v=2@channel,clip=centre,scales=f8,group=128,retain=fill:2", 1, 270, 0, KIVI, 2, 0, {TOKEN, CHANNEL}, {{3}, {4}}, 128, 128, CENTRE, true, .average = {0}},
        {"bits=8,retain=fill:32", 1, 100, 0, KIVI, 32, 0, {CHANNEL, TOKEN}, {{256}, {256}}, 32, 32, WHOLE, false, .average = {0}},
        {"bits=16,retain=fill:32", 1, 100, 0, KIVI, 32, 0, {CHANNEL, TOKEN}, {{0}, {0}}, 32, 32, WHOLE, false, .average = {0}},
        {"bits=1,retain=log2:2,group=16", 0, 60, 0, LOGQUANT, 2, 0, {CHANNEL, TOKEN}, {{2}, {2}}, 16, 16, WHOLE, false, .average = {0}},
        {"rtn", 0, 330, 0, KIVI, 32, 0, {TOKEN, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, .average = {0}}, /* more than a span of codes */
    };
    ALL(cases);
}

static void an_intact_prefix(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"kivi:residual=32", 1, 100, PREFIX, KIVI, 32, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, .average = {0}},
        {"skvq:reorder=none,clip=zero,group=64,window=16", 0, 110, PREFIX, SKVQ, 16, 5, {TOKEN, TOKEN}, {{4}, {4}}, 64, 32, ZERO, true, .average = {0}},
        {"logquant:window=21", 0, 160, 1, LOGQUANT, 21, 0, {CHANNEL, TOKEN}, {{4}, {4}}, 32, 32, WHOLE, false, .average = {0}},
    };
    ALL(cases);
}

static unsigned bits_of(uint32_t levels)
{
    return levels == 2 ? TFT_BITS_1 : levels == 4 ? TFT_BITS_2 : levels == 8 ? TFT_BITS_3 : TFT_BITS_4;
}

/* Ours: DESIGN 5, "bits per channel". */
static void bits_by_channel(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"tuffet", 0, 330, 0, SKVQ, 128, 0, {MIXED, TOKEN}, {{0}, {4}}, 64, 64, CENTRE, false, .average = {2}},
        {"tuffet:k=2.25@mixed,window=17,group=32", 1, 120, 0, SKVQ, 17, 0, {MIXED, TOKEN}, {{0}, {4}}, 32, 32, CENTRE, false, .average = {2.25}},
        {"kivi:k=3.3@mixed,residual=32", 1, 100, 0, KIVI, 32, 0, {MIXED, TOKEN}, {{0}, {4}}, 32, 32, WHOLE, false, .average = {3.3}},
        {"skvq:reorder=none,clip=zero,k=1.5@mixed,window=16,group=16", 0, 100, PREFIX, SKVQ, 16, 5, {MIXED, TOKEN}, {{0}, {4}}, 16, 16, ZERO, true, .average = {1.5}},
        {"kivi:k=1@mixed,residual=32", 0, 70, 0, KIVI, 32, 0, {MIXED, TOKEN}, {{0}, {4}}, 32, 32, WHOLE, false, .average = {1}},
        {"kivi:k=4@mixed,residual=32", 0, 70, 0, KIVI, 32, 0, {MIXED, TOKEN}, {{0}, {4}}, 32, 32, WHOLE, false, .average = {4}},
    };
    ALL(cases);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct toy *t = &toys[cases[i].toy];
        struct tft_model *m = model(&cases[i]);
        struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1, .kv = cases[i].kv});
        for (uint32_t h = 0; h < t->n_head_kv; h++) {
            struct order o = order_of(&cases[i], KEYS, 0, h, t->head_dim);
            uint16_t quads[TFT_BITS_COUNT] = {0};
            for (uint32_t d = 0; d < t->head_dim; d++) {
                assert_int_equal(s->kv.layer[0].channel[h * t->head_dim + d], o.channel[d]);
                quads[bits_of(o.levels[d])] += d % 4 == 0;
            }
            assert_memory_equal(s->kv.layer[0].quads[h], quads, sizeof quads);
        }
        tft_session_close(s);
        tft_model_close(m);
    }
}

/* AsymKV section 4: the first l_k layers' keys and l_v layers' values have more bits than the others'. What the second layer stores depends
   on the cache of the first: it is noted as it comes, a token at a time. */
static void assert_layers(const struct paper *p)
{
    static struct cache c;
    struct tft_model *m = model(p);
    toy_tokens(7, m->n_vocab, tokens, p->n);
    c = (struct cache){0};
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1, .kv = p->kv, .keep = wanted});
    for (uint32_t t = 0; t < p->n; t++) {
        assert_int_equal(tft_decode(s, tokens[t]), TFT_OK);
        for (uint32_t l = 0; l < m->n_layer; l++)
            note_row(&s->kv, l, s->kv.at.sinks + s->kv.at.named + s->kv.at.waiting + s->kv.at.kept - 1, t);
        assert_as(p, s, &c, t, t + 1);
    }
    assert_true(c.blocks >= 2);
    tft_session_close(s);
    tft_model_close(m);
}

static void asymkv(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"asymkv:lk=1,lv=0,residual=64", 2, 140, 0, KIVI, 64, 0, {CHANNEL, TOKEN}, {{4, 2}, {2, 2}}, 32, 32, WHOLE, false, .average = {0}},
        {"asymkv:residual=32", 2, 70, 0, KIVI, 32, 0, {CHANNEL, TOKEN}, {{4, 4}, {2, 2}}, 32, 32, WHOLE, false, .average = {0}},
        {"asymkv:lk=2,lv=1,high=4,low=1.5,residual=32", 2, 70, 0, KIVI, 32, 0, {CHANNEL, TOKEN}, {{16, 16}, {16, 3}}, 32, 32, WHOLE, false, .average = {0}},
        {"asymkv:lk=0,lv=2,high=3,residual=32", 2, 70, 0, KIVI, 32, 0, {CHANNEL, TOKEN}, {{2, 2}, {8, 8}}, 32, 32, WHOLE, false, .average = {0}},
        {"asymkv:lk=1,lv=1,high=16,low=8,residual=32", 2, 70, 0, KIVI, 32, 0, {CHANNEL, TOKEN}, {{0, 256}, {0, 256}}, 32, 32, WHOLE, false, .average = {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_layers(&cases[i]);
}

/* The same of mixed keys, and with layers that are f16. */
static void bits_by_layer(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"tuffet:k=3x1/1.5,v=4x1/16,window=20,group=32", 2, 100, 0, SKVQ, 20, 0, {MIXED, TOKEN}, {{0, 0}, {16, 0}}, 32, 32, CENTRE, false, {3, 1.5}, .prefill = 0},
        {"tuffet:k=16x1/2.25,v=16x1/2,window=20,group=32", 2, 100, 0, SKVQ, 20, 0, {MIXED, TOKEN}, {{0, 0}, {0, 4}}, 32, 32, CENTRE, false, {0, 2.25}, .prefill = 0},
        {"kivi:k=1.25x1/16@mixed,v=1x1/3,residual=32", 2, 80, 0, KIVI, 32, 0, {MIXED, TOKEN}, {{0, 0}, {2, 8}}, 32, 32, WHOLE, false, {1.25, 0}, .prefill = 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_layers(&cases[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_to_nearest),
        cmocka_unit_test(kivi),
        cmocka_unit_test(logquant),
        cmocka_unit_test(skvq),
        cmocka_unit_test(skvq_calibrated),
        cmocka_unit_test(whole_prompts),
        cmocka_unit_test(filters),
        cmocka_unit_test(any_bits_and_axes),
        cmocka_unit_test(an_intact_prefix),
        cmocka_unit_test(bits_by_channel),
        cmocka_unit_test(asymkv),
        cmocka_unit_test(bits_by_layer),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
