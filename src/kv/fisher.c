#include "fisher.h"

#include <math.h>
#include <string.h>

#include "simd/half.h"

/* ----------------------------------------------------------------------------- bits of channels */

const uint8_t tft_fisher_choices[TFT_FISHER_CHOICES] = {0, 1, 2, 3, 4, 8};

/* The code width of 1 to 8 bits. */
static const enum tft_bits width_of[] = {
    [1] = TFT_BITS_1, [2] = TFT_BITS_2, [3] = TFT_BITS_3, [4] = TFT_BITS_4, [8] = TFT_BITS_8};

/* Channels that have the same bits. */
static uint32_t unit_of(enum tft_kv_which which)
{
    return which == TFT_KV_K ? TFT_QUAD : TFT_PANEL;
}

uint32_t tft_fisher_places(enum tft_kv_which which, uint32_t dim)
{
    uint32_t unit = unit_of(which);
    return (dim + unit - 1) / unit * unit;
}

static bool is_coded(const struct tft_kv_shape *shape, uint32_t layer)
{
    return !(shape->window && shape->window[layer]);
}

static struct tft_kv_heads heads_of(const struct tft_kv_shape *shape, uint32_t layer)
{
    return shape->heads ? shape->heads[layer]
                        : (struct tft_kv_heads){shape->n_head_kv, shape->head_dim};
}

struct tft_kv_heads tft_fisher_heads(const struct tft_kv_shape *shape)
{
    uint32_t l = 0;
    while (l + 1 < shape->n_layer && !is_coded(shape, l))
        l++;
    return heads_of(shape, l);
}

bool tft_fisher_fits(const struct tft_kv_shape *shape)
{
    struct tft_kv_heads all = tft_fisher_heads(shape);
    for (uint32_t l = 0; l < shape->n_layer; l++) {
        struct tft_kv_heads own = heads_of(shape, l);
        if (is_coded(shape, l) && (own.n != all.n || own.dim != all.dim))
            return false;
    }
    return all.dim % TFT_QUAD == 0 && all.dim <= TFT_CODED_DIM;
}

/* The order of n numbers, least first: by insertion. */
static void sort(uint16_t *order, const float *x, uint32_t n)
{
    for (uint32_t d = 0; d < n; d++) {
        uint32_t i = d;
        for (; i && x[order[i - 1]] > x[d]; i--)
            order[i] = order[i - 1];
        order[i] = (uint16_t)d;
    }
}

/* The channels of pair i of a key. RoPE turns the first n_rot / 2 pairs. */
static void channels_of(const struct tft_kv_shape *shape, uint32_t i, uint16_t channel[2])
{
    bool apart = shape->rope_halves && i < shape->n_rot / 2;
    channel[0] = (uint16_t)(apart ? i : 2 * i);
    channel[1] = (uint16_t)(apart ? i + shape->n_rot / 2 : 2 * i + 1);
}

/* The order of a head's channels: by their losses with 1 bit, or those of pairs. table: [rows, E];
   pair: [E / 2] of keys */
static void order_channels(uint16_t *channel, uint16_t *pair, const struct tft_kv_shape *shape,
                           enum tft_kv_which which, const float *table)
{
    uint32_t dim = tft_fisher_heads(shape).dim;
    const float *loss = table + (size_t)(TFT_FISHER_LOSS + 1) * dim;
    float sum[TFT_CODED_DIM / 2];
    uint16_t two[2];
    if (which == TFT_KV_V) {
        sort(channel, loss, dim);
        return;
    }
    for (uint32_t i = 0; i < dim / 2; i++) {
        channels_of(shape, i, two);
        sum[i] = loss[two[0]] + loss[two[1]];
    }
    sort(pair, sum, dim / 2);
    for (uint32_t i = 0; i < dim / 2; i++)
        channels_of(shape, pair[i], channel + (size_t)2 * i);
}

/* The bits of a unit, by its losses with each choice and the price of a bit. */
static unsigned cheapest(const double loss[TFT_FISHER_CHOICES], enum tft_kv_which which,
                         double price)
{
    unsigned best = 0, n = which == TFT_KV_K ? TFT_FISHER_CHOICES : TFT_FISHER_CHOICES - 1;
    for (unsigned i = 1; i < n; i++)
        if (loss[best] - loss[i] > price * (tft_fisher_choices[i] - tft_fisher_choices[best]))
            best = i;
    return tft_fisher_choices[best];
}

/* loss = that of the n channels with each choice. */
static void sum_losses(double loss[TFT_FISHER_CHOICES], const float *table, uint32_t dim,
                       const uint16_t *channel, uint32_t n)
{
    for (unsigned bits = 0; bits <= TFT_FISHER_BITS; bits++) {
        loss[bits] = 0;
        for (uint32_t i = 0; i < n; i++)
            loss[bits] += (double)table[(TFT_FISHER_LOSS + bits) * dim + channel[i]];
    }
    loss[TFT_FISHER_CHOICES - 1] = loss[TFT_FISHER_BITS] / 64;
}

/* bits: [units] of a head, ascending. Returns the units. channel: [E] as order_channels() */
static uint32_t bits_of_units(uint8_t *bits, enum tft_kv_which which, uint32_t dim,
                              const float *table, const uint16_t *channel, float price)
{
    uint32_t unit = unit_of(which), places = tft_fisher_places(which, dim), pad = places - dim;
    double loss[TFT_FISHER_CHOICES];
    for (uint32_t u = 0; u < places / unit; u++) {
        uint32_t from = u ? u * unit - pad : 0, n = u ? unit : unit - pad;
        sum_losses(loss, table, dim, channel + from, n);
        bits[u] = (uint8_t)cheapest(loss, which, (double)price * unit);
        if (u && bits[u] < bits[u - 1])
            bits[u] = bits[u - 1];
    }
    return places / unit;
}

/* With the heads of the whole model: one price for all processes. */
static struct tft_kv_shape whole(const struct tft_kv_shape *shape)
{
    struct tft_kv_shape all = *shape;
    for (int i = 0; i < TFT_KV_SIDES && shape->n_head_all; i++)
        all.fisher[i] = shape->fisher_all[i];
    all.n_head_kv = shape->n_head_all ? shape->n_head_all : shape->n_head_kv;
    return all;
}

/* Bits of all codes of a token at a price. */
static uint64_t code_bits(const struct tft_kv_shape *shape, float price)
{
    struct tft_kv_heads own = tft_fisher_heads(shape);
    uint32_t dim = own.dim;
    uint16_t channel[TFT_CODED_DIM], pair[TFT_CODED_DIM / 2];
    uint8_t bits[TFT_CODED_DIM / TFT_QUAD];
    uint64_t all = 0;
    for (uint32_t i = 0; i < TFT_KV_SIDES * shape->n_layer * own.n; i++) {
        enum tft_kv_which which = i % TFT_KV_SIDES ? TFT_KV_V : TFT_KV_K;
        uint32_t l = i / TFT_KV_SIDES / own.n, h = i / TFT_KV_SIDES % own.n;
        if (!is_coded(shape, l))
            continue;
        const float *table = tft_fisher_table(shape, which, l, h);
        order_channels(channel, pair, shape, which, table);
        uint32_t units = bits_of_units(bits, which, dim, table, channel, price);
        for (uint32_t u = 0; u < units; u++)
            all += bits[u] * unit_of(which);
    }
    return all;
}

static uint32_t coded_layers(const struct tft_kv_shape *shape)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < shape->n_layer; l++)
        n += is_coded(shape, l);
    return n;
}

/* The budget without the gains. */
static double budget(const struct tft_kv_shape *shape, float bits)
{
    struct tft_kv_heads own = tft_fisher_heads(shape);
    double heads = (double)coded_layers(shape) * own.n * TFT_KV_SIDES,
           gain = 8.0 * TFT_FISHER_GAIN_BYTES / TFT_FISHER_BLOCK;
    return heads * ((double)bits * own.dim - gain);
}

/* Floats that are not negative have the order of their bits, so the price is found by halving a
   range of integers. */
float tft_fisher_price(const struct tft_kv_shape *shape, float bits)
{
    struct tft_kv_shape all = whole(shape);
    double most = budget(&all, bits);
    uint32_t low = 0, high = tft_f32_bits(INFINITY);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if ((double)code_bits(&all, tft_f32_of_bits(middle)) > most)
            low = middle + 1;
        else
            high = middle;
    }
    return tft_f32_of_bits(high);
}

/* The step of a channel with these bits. */
static float step_of(const float *table, uint32_t dim, uint32_t d, unsigned bits)
{
    if (!bits)
        return 0;
    return bits == 8 ? table[(TFT_FISHER_STEP + TFT_FISHER_BITS - 1) * dim + d] / 8
                     : table[(TFT_FISHER_STEP + bits - 1) * dim + d];
}

/* Sets the places of a unit. */
static void set_unit(struct tft_fisher_head *h, uint32_t dim, const float *table, uint32_t from,
                     uint32_t n, unsigned bits)
{
    for (uint32_t p = from; p < from + n; p++) {
        bool empty = p < h->pad;
        uint32_t d = empty ? 0 : h->channel[p - h->pad];
        h->mean[p] = empty ? 0 : table[TFT_FISHER_MEAN * dim + d];
        h->gain[p] = empty ? 0 : table[TFT_FISHER_GAIN * dim + d];
        h->fine[p] = empty ? 0 : table[(TFT_FISHER_STEP + TFT_FISHER_BITS - 1) * dim + d];
        h->step[p] = empty ? 0 : step_of(table, dim, d, bits);
        h->half[p] = bits ? (float)((1u << bits) - 1) / 2 : 0;
    }
}

void tft_fisher_share(struct tft_fisher_head *h, const struct tft_kv_shape *shape,
                      enum tft_kv_which which, const float *table, float price)
{
    uint16_t channel[TFT_CODED_DIM], pair[TFT_CODED_DIM / 2];
    uint8_t bits[TFT_CODED_DIM / TFT_QUAD];
    uint32_t unit = unit_of(which), dim = tft_fisher_heads(shape).dim;
    order_channels(channel, pair, shape, which, table);
    uint32_t units = bits_of_units(bits, which, dim, table, channel, price);
    h->end = units * unit;
    h->pad = h->end - dim;
    h->first = 0;
    memset(h->units, 0, sizeof h->units);
    if (h->channel)
        memcpy(h->channel, channel, dim * sizeof *channel);
    if (h->channel && which == TFT_KV_K)
        memcpy(h->pair, pair, dim / 2 * sizeof *pair);
    for (uint32_t u = 0; u < units; u++) {
        if (bits[u])
            h->units[width_of[bits[u]]]++;
        else
            h->first += unit;
        if (h->channel)
            set_unit(h, dim, table, u * unit, unit, bits[u]);
    }
    h->codes = 0;
    for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++)
        h->codes += which == TFT_KV_K
                        ? TFT_FISHER_BLOCK / TFT_PANEL * tft_codes_bytes(b, h->units[b])
                        : h->units[b] * tft_codes_bytes(b, TFT_FISHER_BLOCK / TFT_QUAD);
}

void tft_fisher_count(const struct tft_fisher_head *h, enum tft_kv_which which,
                      uint32_t channels[TFT_FISHER_CHOICES])
{
    uint32_t place = 0;
    for (unsigned i = 0; i < TFT_FISHER_CHOICES; i++) {
        unsigned bits = tft_fisher_choices[i];
        uint32_t end = bits ? place + h->units[width_of[bits]] * unit_of(which) : h->first;
        uint32_t from = place > h->pad ? place : h->pad;
        channels[i] = end > from ? end - from : 0;
        place = end;
    }
}

struct tft_fisher_block tft_fisher_block(const struct tft_kv *kv, const struct tft_fisher_head *h,
                                         uint32_t b)
{
    return (struct tft_fisher_block){
        .codes = kv->codes + h->codes_at + b * h->codes,
        .gains = kv->codes + h->gains_at + (size_t)b * TFT_FISHER_GAIN_BYTES,
    };
}

struct tft_fisher_head *tft_fisher_layout(struct tft_arena *a, const struct tft_kv_shape *shape,
                                          enum tft_kv_which which, uint32_t layer, float price,
                                          uint32_t n_blocks, size_t *used)
{
    struct tft_kv_heads own = tft_fisher_heads(shape);
    uint32_t dim = own.dim, places = tft_fisher_places(which, dim);
    struct tft_fisher_head *heads = tft_arena_take(a, own.n, sizeof *heads);
    for (uint32_t i = 0; i < own.n; i++) {
        struct tft_fisher_head h = {.codes_at = *used};
        size_t codes, gains;
        h.channel = tft_arena_take(a, dim, sizeof *h.channel);
        h.pair = tft_arena_take(a, which == TFT_KV_K ? dim / 2 : 0, sizeof *h.pair);
        h.mean = tft_arena_take(a, places, sizeof *h.mean);
        h.gain = tft_arena_take(a, places, sizeof *h.gain);
        h.step = tft_arena_take(a, places, sizeof *h.step);
        h.half = tft_arena_take(a, places, sizeof *h.half);
        h.fine = tft_arena_take(a, places, sizeof *h.fine);
        tft_fisher_share(&h, shape, which, tft_fisher_table(shape, which, layer, i), price);
        if (!tft_mul(n_blocks, h.codes, &codes) || !tft_add(*used, codes, &h.gains_at) ||
            !tft_mul(n_blocks, TFT_FISHER_GAIN_BYTES, &gains) || !tft_add(h.gains_at, gains, used))
            a->failed = true;
        h.exact_at = *used;
        if (which == TFT_KV_K && !tft_add(*used, tft_fisher_exact_bytes(dim), used))
            a->failed = true;
        if (heads)
            heads[i] = h;
    }
    return heads;
}

uint64_t tft_fisher_exact_all(const struct tft_kv_shape *shape)
{
    struct tft_kv_heads own = tft_fisher_heads(shape);
    return (uint64_t)coded_layers(shape) * own.n * tft_fisher_exact_bytes(own.dim);
}

uint64_t tft_fisher_block_bytes(const struct tft_kv_shape *shape, float price)
{
    uint32_t n = tft_fisher_heads(shape).n;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < TFT_KV_SIDES * shape->n_layer * n; i++) {
        enum tft_kv_which which = i % TFT_KV_SIDES ? TFT_KV_V : TFT_KV_K;
        uint32_t l = i / TFT_KV_SIDES / n;
        struct tft_fisher_head h = {0};
        if (!is_coded(shape, l))
            continue;
        tft_fisher_share(&h, shape, which,
                         tft_fisher_table(shape, which, l, i / TFT_KV_SIDES % n), price);
        bytes += h.codes + TFT_FISHER_GAIN_BYTES;
    }
    return bytes;
}

/* ---------------------------------------------------------------------------------------- gains */

static_assert(TFT_FISHER_BLOCK == (int)TFT_WIDTHS_TOKENS, "mix_widths and turn_keys take blocks");

/* A gain's code is n + 32, n = -32 .. 31: the gain is 2^(n / 8). */
enum { GAIN_CODES = 64, GAIN_ZERO = 32 };

/* The code of the gain whose square this is: 8 log2 of the gain is 4 log2 of the square. */
static unsigned gain_code(float square)
{
    static const float least[] = {0.545253866f, 0.648419777f, 0.771105413f, 0.917004043f};
    int e, n;
    if (!(square > 0))
        return 0;
    if (square > 0x1p20f)
        return GAIN_CODES - 1;
    float part = frexpf(square, &e); /* 0.5 <= part < 1 */
    n = 4 * e - 4;
    for (size_t i = 0; i < sizeof least / sizeof *least; i++)
        n += part > least[i];
    n = n > -GAIN_ZERO ? n : -GAIN_ZERO;
    return (unsigned)((n < GAIN_CODES - 1 - GAIN_ZERO ? n : GAIN_CODES - 1 - GAIN_ZERO) +
                      GAIN_ZERO);
}

#define OCTAVE(x)                                                                                  \
    x * 1.0f, x * 1.09050773f, x * 1.18920712f, x * 1.29683955f, x * 1.41421356f,                  \
        x * 1.54221083f, x * 1.68179283f, x * 1.83400809f

static const float gain_of[GAIN_CODES] = {OCTAVE(0.0625f), OCTAVE(0.125f), OCTAVE(0.25f),
                                          OCTAVE(0.5f),    OCTAVE(1),      OCTAVE(2),
                                          OCTAVE(4),       OCTAVE(8)};

static void pack_gains(uint8_t *to, const uint8_t *code)
{
    for (int i = 0; i < TFT_FISHER_BLOCK; i += 4, to += 3) {
        uint32_t four = code[i] | (uint32_t)code[i + 1] << 6 | (uint32_t)code[i + 2] << 12 |
                        (uint32_t)code[i + 3] << 18;
        for (int b = 0; b < 3; b++)
            to[b] = (uint8_t)(four >> 8 * b);
    }
}

void tft_fisher_gains(const char *gains, uint32_t n_blocks, float *gain)
{
    const uint8_t *from = (const uint8_t *)gains;
    for (uint32_t i = 0; i < n_blocks * TFT_FISHER_BLOCK; i += 4, from += 3) {
        uint32_t four = from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16;
        for (uint32_t k = 0; k < 4; k++)
            gain[i + k] = gain_of[four >> 6 * k & (GAIN_CODES - 1)];
    }
}

/* ---------------------------------------------------------------------------------------- codes */

/* rintf of a number in 0 .. 255, without a call. */
static float round_code(float c) { return c + 0x1p23f - 0x1p23f; }

/* Codes of a token, [end], from its numbers, [E]. Returns the code of the gain. */
static uint8_t put_token(const struct tft_fisher_head *h, const float *from, uint8_t *code)
{
    float x[TFT_CODED_DIM]; /* in the order of the places */
    const float *mean = h->mean + h->pad, *weight = h->gain + h->pad, *step = h->step + h->pad,
                *half = h->half + h->pad;
    uint32_t dim = h->end - h->pad;
    float square = 0;
    for (uint32_t d = 0; d < dim; d++)
        x[d] = from[h->channel[d]];
    for (uint32_t d = 0; d < dim; d++)
        square += weight[d] * (x[d] - mean[d]) * (x[d] - mean[d]);
    unsigned g = gain_code(square);
    float gain = gain_of[g];
    memset(code, 0, h->pad);
    code += h->pad;
    for (uint32_t d = 0; d < dim; d++) { /* half and step are 0 where there is no code */
        float unit = gain * step[d], inverse = unit >= 0x1p-100f ? 1 / unit : 0;
        float c = (x[d] - mean[d]) * inverse + half[d], top = 2 * half[d];
        c = c > 0 ? c : 0;
        code[d] = (uint8_t)(int)round_code(c < top ? c : top);
    }
    return (uint8_t)g;
}

static void pack_keys(const struct tft_fisher_head *h, const uint8_t *code, uint8_t *to)
{
    uint8_t quads[TFT_CODED_DIM / TFT_QUAD * TFT_QUAD_CODES];
    for (uint32_t t = 0; t < TFT_FISHER_BLOCK; t += TFT_PANEL) {
        const uint8_t *from = quads;
        for (uint32_t p = h->first, i = 0; p < h->end; p++)
            for (uint32_t r = 0; r < TFT_PANEL; r++, i++)
                quads[i] = code[(size_t)(t + r) * h->end + p];
        for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++) {
            tft_codes_pack(to, from, b, h->units[b]);
            to += tft_codes_bytes(b, h->units[b]);
            from += (size_t)h->units[b] * TFT_QUAD_CODES;
        }
    }
}

static void pack_values(const struct tft_fisher_head *h, const uint8_t *code, uint8_t *to)
{
    uint8_t quads[TFT_FISHER_BLOCK / TFT_QUAD * TFT_QUAD_CODES];
    uint32_t p = h->first;
    for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++)
        for (uint32_t u = 0; u < h->units[b]; u++, p += TFT_PANEL) {
            for (uint32_t t = 0; t < TFT_FISHER_BLOCK; t++)
                for (uint32_t r = 0; r < TFT_PANEL; r++)
                    quads[t / TFT_QUAD * TFT_QUAD_CODES + r * TFT_QUAD + t % TFT_QUAD] =
                        code[(size_t)t * h->end + p + r];
            tft_codes_pack(to, quads, b, TFT_FISHER_BLOCK / TFT_QUAD);
            to += tft_codes_bytes(b, TFT_FISHER_BLOCK / TFT_QUAD);
        }
}

void tft_fisher_put(const struct tft_fisher_head *h, enum tft_kv_which which, const float *x,
                    size_t ldx, uint8_t *code, struct tft_fisher_block to)
{
    uint8_t gain[TFT_FISHER_BLOCK];
    for (uint32_t t = 0; t < TFT_FISHER_BLOCK; t++)
        gain[t] = put_token(h, x + t * ldx, code + (size_t)t * h->end);
    if (which == TFT_KV_K)
        pack_keys(h, code, (uint8_t *)to.codes);
    else
        pack_values(h, code, (uint8_t *)to.codes);
    pack_gains((uint8_t *)to.gains, gain);
}

/* ---------------------------------------------------------------------------------- for kernels */

struct tft_turn_keys tft_fisher_keys(const struct tft_fisher_head *h, const char *codes)
{
    struct tft_turn_keys k = {
        .codes = (const uint8_t *)codes,
        .channel = h->channel,
        .pair = h->pair,
        .step = h->step,
        .first = h->first,
        .dim = h->end,
    };
    memcpy(k.quads, h->units, sizeof k.quads);
    return k;
}

struct tft_mix_widths tft_fisher_values(const struct tft_fisher_head *h, const char *codes,
                                        uint32_t n_blocks, const float *gain)
{
    struct tft_mix_widths m = {
        .codes = (const uint8_t *)codes,
        .next = h->codes,
        .gain = gain,
        .steps = h->step,
        .mean = h->mean,
        .dim = h->end,
        .n_blocks = n_blocks,
    };
    memcpy(m.panels, h->units, sizeof m.panels);
    return m;
}
