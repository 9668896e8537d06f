/*
 * The codec of the cache fisher: the equations of src/kv/fisher.h again, in double precision. Bits
 * by one price, gains, codes, the layout of a record, and the products of the kernels on it.
 */
#include "test.h"

#include <math.h>
#include <string.h>

#include "fisher_records.h"
#include "random.h"

enum { LAYERS = 3, HEADS = 2, MOST = 96, T = TFT_FISHER_BLOCK, QUERIES = 5 };

/* Heads of whole panels, of whole quads, and of fewer channels than a panel. */
static const uint32_t dims[] = {64, 40, 12, MOST};
enum { N_DIMS = sizeof dims / sizeof *dims };

static float tables[TFT_KV_SIDES][LAYERS * HEADS * TFT_FISHER_ROWS * MOST];

/* By bits: the error of the best uniform quantizer of a Gaussian, and its step (Max 1960, table
   II). */
static const double error[] = {1, 0.3634, 0.1188, 0.03744, 0.01154};
static const float gauss[] = {0, 1.596f, 0.9957f, 0.5860f, 0.3352f};

/* Steps, and losses near the losses of a Gaussian. */
static void set_levels(float *table, uint32_t dim, uint32_t d, float spread, float loss)
{
    table[TFT_FISHER_LOSS * dim + d] = loss;
    for (int bits = 1; bits <= TFT_FISHER_BITS; bits++) {
        table[(TFT_FISHER_STEP + bits - 1) * dim + d] = spread * gauss[bits];
        table[(TFT_FISHER_LOSS + bits) * dim + d] =
            loss * (float)error[bits] * (1 + 0.1f * random_even());
    }
}

static struct tft_kv_shape random_shape(uint32_t dim)
{
    for (int s = 0; s < TFT_KV_SIDES; s++)
        for (uint32_t i = 0; i < LAYERS * HEADS; i++) {
            float *table = tables[s] + i * TFT_FISHER_ROWS * dim;
            for (uint32_t d = 0; d < dim; d++) {
                float sd = expf(random_normal());
                table[TFT_FISHER_MEAN * dim + d] = 2 * random_normal();
                table[TFT_FISHER_GAIN * dim + d] = 1 / (sd * sd * (float)dim);
                set_levels(table, dim, d, sd, expf(3 * random_normal()));
            }
        }
    return (struct tft_kv_shape){.n_layer = LAYERS,
                                 .n_host = LAYERS,
                                 .n_head_kv = HEADS,
                                 .head_dim = dim,
                                 .n_rot = dim / 4 * (random_even() > 0 ? 2 : 4),
                                 .rope_halves = random_even() > 0,
                                 .fisher = {tables[0], tables[1]}};
}

/* A head with memory. */
struct head {
    struct tft_fisher_head h;
    uint16_t channel[MOST], pair[MOST / 2];
    float mean[MOST], gain[MOST], step[MOST], half[MOST], fine[MOST];
};

static void share(struct head *m, const struct tft_kv_shape *shape, enum tft_kv_which which,
                  uint32_t layer, uint32_t head, float price)
{
    m->h = (struct tft_fisher_head){.channel = m->channel,
                                    .pair = m->pair,
                                    .mean = m->mean,
                                    .gain = m->gain,
                                    .step = m->step,
                                    .half = m->half,
                                    .fine = m->fine};
    tft_fisher_share(&m->h, shape, which, tft_fisher_table(shape, which, layer, head), price);
}

/* Bytes of all records at a price, without memory for the arrays. */
static size_t all_bytes(const struct tft_kv_shape *shape, float price)
{
    size_t sum = 0;
    for (uint32_t l = 0; l < LAYERS; l++)
        for (uint32_t h = 0; h < HEADS; h++)
            for (enum tft_kv_which s = 0; s < TFT_KV_SIDES; s++) {
                struct tft_fisher_head head = {0};
                if (shape->window && shape->window[l])
                    continue;
                tft_fisher_share(&head, shape, s, tft_fisher_table(shape, s, l, h), price);
                sum += head.codes + TFT_FISHER_GAIN_BYTES;
            }
    return sum;
}

/* The price is the least within the budget, of the layers without a window alone. */
static void budgets(void **state)
{
    static const uint32_t windows[] = {0, 100, 0};
    (void)state;
    for (int i = 0; i < N_DIMS; i++)
        for (float bits = 1; bits <= 4; bits += 0.5f) {
            struct tft_kv_shape shape = random_shape(dims[i]);
            for (int w = 0; w < 2; w++) {
                shape.window = w ? windows : NULL;
                double budget = (LAYERS - w) * HEADS * 2.0 * dims[i] * (double)bits * T / 8;
                float price = tft_fisher_price(&shape, bits);
                assert_true((double)all_bytes(&shape, price) <= budget);
                if (price > 0)
                    assert_true((double)all_bytes(&shape, nextafterf(price, 0)) > budget);
            }
        }
}

static void more_bits_cost_less(void **state)
{
    (void)state;
    struct tft_kv_shape shape = random_shape(64);
    float last = INFINITY;
    for (float bits = 0.5f; bits <= 4; bits += 0.25f) {
        float price = tft_fisher_price(&shape, bits);
        assert_true(price < last);
        last = price;
    }
}

/* The channels of a pair: RoPE turns the first n_rot / 2 pairs. */
static void channels_of(const struct tft_kv_shape *shape, uint32_t pair, uint32_t two[2])
{
    uint32_t half = shape->n_rot / 2;
    two[0] = shape->rope_halves && pair < half ? pair : 2 * pair;
    two[1] = shape->rope_halves && pair < half ? pair + half : 2 * pair + 1;
}

/* Pairs of keys' channels, and single channels of values, are in the order of their losses with 1
   bit. */
static void check_order(const struct head *m, const struct tft_kv_shape *shape,
                        enum tft_kv_which which, const float *loss)
{
    float last = 0;
    for (uint32_t k = 0; k < shape->head_dim; k += which == TFT_KV_K ? 2 : 1) {
        uint32_t two[2];
        float own = loss[m->channel[k]];
        if (which == TFT_KV_K) {
            channels_of(shape, m->pair[k / 2], two);
            assert_int_equal(m->channel[k], two[0]);
            assert_int_equal(m->channel[k + 1], two[1]);
            own += loss[two[1]];
        }
        assert_true(own >= last);
        last = own;
    }
}

static void check_count(const struct head *m, enum tft_kv_which which)
{
    uint32_t is[TFT_FISHER_CHOICES], want[TFT_FISHER_CHOICES] = {0};
    tft_fisher_count(&m->h, which, is);
    for (uint32_t p = m->h.pad; p < m->h.end; p++)
        for (unsigned i = 0; i < TFT_FISHER_CHOICES; i++)
            want[i] += fisher_bits(m->half[p]) == tft_fisher_choices[i];
    assert_memory_equal(is, want, sizeof is);
}

/* A unit has the bits of the least loss and price, or the bits of the unit before. */
static void prices(void **state)
{
    (void)state;
    for (int i = 0; i < N_DIMS; i++) {
        struct tft_kv_shape shape = random_shape(dims[i]);
        float price = tft_fisher_price(&shape, 1.5f);
        for (enum tft_kv_which s = 0; s < TFT_KV_SIDES; s++) {
            struct head m;
            uint32_t unit = s == TFT_KV_K ? 4 : 16, last = 0;
            share(&m, &shape, s, 1, 1, price);
            const float *table = tft_fisher_table(&shape, s, 1, 1);
            assert_int_equal(m.h.end, (dims[i] + unit - 1) / unit * unit);
            assert_int_equal(m.h.pad, m.h.end - dims[i]);
            check_order(&m, &shape, s, table + (TFT_FISHER_LOSS + 1) * dims[i]);
            check_count(&m, s);
            for (uint32_t p = 0; p < m.h.end; p += unit) {
                uint32_t best = 0;
                double least = INFINITY;
                uint32_t most = s == TFT_KV_K ? 8 : 4;
                for (uint32_t bits = 0; bits <= most; bits += bits == 4 ? 4 : 1) {
                    double cost = (double)price * unit * bits;
                    uint32_t row = TFT_FISHER_LOSS + (bits < 4 ? bits : 4);
                    for (uint32_t k = p < m.h.pad ? m.h.pad : p; k < p + unit; k++)
                        cost += (double)table[row * dims[i] + m.channel[k - m.h.pad]] /
                                (bits == 8 ? 64 : 1);
                    best = cost < least ? bits : best;
                    least = fmin(cost, least);
                }
                last = best > last ? best : last;
                assert_true((last == 0) == (p < m.h.first));
                for (uint32_t k = p; k < p + unit; k++)
                    assert_int_equal(fisher_bits(m.half[k]), last);
            }
        }
    }
}

/* Tokens of a head: of several gains, the first two at its bounds. */
static void random_tokens(uint32_t dim, const float *table, float x[T][MOST])
{
    for (uint32_t t = 0; t < T; t++) {
        float g = t == 0 ? 0 : t == 1 ? 1e4f : expf(0.7f * random_normal());
        for (uint32_t d = 0; d < dim; d++)
            x[t][d] = table[TFT_FISHER_MEAN * dim + d] +
                      g * table[TFT_FISHER_STEP * dim + d] / gauss[1] * random_normal();
    }
}

struct block {
    struct head m;
    uint8_t record[T * MOST + TFT_FISHER_GAIN_BYTES]; /* codes, then gains */
    float x[T][MOST];
};

/* The number at place p of a token. */
static double number(const struct block *b, uint32_t t, uint32_t p)
{
    return (double)b->x[t][b->m.channel[p - b->m.h.pad]];
}

static struct tft_fisher_block bytes_of(const struct block *b)
{
    char *record = (char *)(uintptr_t)b->record;
    return (struct tft_fisher_block){record, record + b->m.h.codes};
}

static void random_block(struct block *b, const struct tft_kv_shape *shape, enum tft_kv_which which,
                         float bits)
{
    uint8_t code[T * MOST];
    memset(b->record, 0xff, sizeof b->record);
    share(&b->m, shape, which, 2, 1, tft_fisher_price(shape, bits));
    random_tokens(shape->head_dim, tft_fisher_table(shape, which, 2, 1), b->x);
    tft_fisher_put(&b->m.h, which, b->x[0], MOST, code, bytes_of(b));
    for (size_t i = b->m.h.codes + TFT_FISHER_GAIN_BYTES; i < sizeof b->record; i++)
        assert_int_equal(b->record[i], 0xff);
}

/* The gain of a token is the nearest of 64, and its codes the nearest of the levels. */
static void check_token(const struct block *b, enum tft_kv_which which, uint32_t t)
{
    const struct head *m = &b->m;
    double square = 0, most = 0;
    for (uint32_t p = m->h.pad; p < m->h.end; p++) {
        double y = number(b, t, p) - (double)m->mean[p];
        square += (double)m->gain[p] * y * y;
    }
    double g = fisher_gain(b->record + m->h.codes, t), exact = square > 0 ? 4 * log2(square) : -32;
    exact = fmax(-32, fmin(31, exact));
    assert_true(fabs(8 * log2(g) - exact) <= 0.5001);
    for (uint32_t p = m->h.first < m->h.pad ? m->h.pad : m->h.first; p < m->h.end; p++) {
        double step = g * (double)m->step[p], half = (double)m->half[p],
               y = (number(b, t, p) - (double)m->mean[p]) / step,
               c = fisher_code(&m->h, which, b->record, t, p) - half,
               near = fmax(-half, fmin(half, y));
        most = fmax(most, fabs(c - near));
    }
    assert_true(most <= 0.5001);
}

static void codes(void **state)
{
    (void)state;
    for (int i = 0; i < N_DIMS; i++)
        for (float bits = 1; bits <= 4; bits += 1.5f)
            for (enum tft_kv_which s = 0; s < TFT_KV_SIDES; s++) {
                struct tft_kv_shape shape = random_shape(dims[i]);
                struct block b;
                float gain[T];
                random_block(&b, &shape, s, bits);
                tft_fisher_gains(bytes_of(&b).gains, 1, gain);
                for (uint32_t t = 0; t < T; t++) {
                    check_token(&b, s, t);
                    assert_true(fabs((double)gain[t] / fisher_gain(b.record + b.m.h.codes, t) - 1) <
                                1e-6);
                }
            }
}

/* Codes of a token do not depend on the other tokens of its block. */
static void tokens_alone(void **state)
{
    (void)state;
    struct tft_kv_shape shape = random_shape(64);
    for (enum tft_kv_which s = 0; s < TFT_KV_SIDES; s++) {
        struct block b, other;
        uint8_t code[T * MOST];
        random_block(&b, &shape, s, 2);
        other = b;
        for (uint32_t t = 0; t < T; t++)
            for (uint32_t i = 0; t != 7 && i < 64; i++)
                other.x[t][i] += random_normal();
        tft_fisher_put(&other.m.h, s, other.x[0], MOST, code, bytes_of(&other));
        assert_true(fisher_gain(b.record + b.m.h.codes, 7) ==
                    fisher_gain(other.record + b.m.h.codes, 7));
        for (uint32_t p = b.m.h.first; p < b.m.h.end; p++)
            assert_int_equal(fisher_code(&b.m.h, s, b.record, 7, p),
                             fisher_code(&b.m.h, s, other.record, 7, p));
    }
}

/* A Gaussian loses as much as the table in fisher.c says: Max 1960, table II. */
static void errors(void **state)
{
    (void)state;
    double lost[9] = {0}, all[9] = {0};
    struct tft_kv_shape shape = random_shape(64);
    for (int i = 0; i < 200; i++) {
        struct block b;
        random_block(&b, &shape, TFT_KV_K, 2);
        for (uint32_t t = 2; t < T; t++)
            for (uint32_t p = b.m.h.first; p < b.m.h.end; p++) {
                unsigned bits = fisher_bits(b.m.half[p]);
                double e = number(&b, t, p) - fisher_decoded(&b.m.h, TFT_KV_K, bytes_of(&b), t, p),
                       y = number(&b, t, p) - (double)b.m.mean[p];
                double g = fisher_gain(b.record + b.m.h.codes, t) * (double)b.m.step[p];
                lost[bits] += e * e / (g * g);
                all[bits] += y * y / (g * g);
            }
    }
    for (unsigned bits = 1; bits <= 4; bits++) /* the gain adapts: some less, some more */
        assert_true(all[bits] > 0 && fabs(lost[bits] / all[bits] / error[bits] - 1) < 0.25);
}

/* The keys of a block, turned by any angles, against the decoded ones; turned: with angles.
   Channels without a code are not written. */
static void keys_are_turned(const struct tft_kernels *kern, const struct block *b,
                            const struct tft_kv_shape *shape, bool turned)
{
    float k[T * MOST], mean[T * MOST], cos[MOST / 2 * T], sin[MOST / 2 * T], gain[T];
    uint32_t dim = shape->head_dim;
    struct tft_turn_keys a = tft_fisher_keys(&b->m.h, bytes_of(b).codes);
    random_fill(cos, dim / 2 * T);
    random_fill(sin, dim / 2 * T);
    random_fill(mean, T * dim);
    memcpy(k, mean, sizeof k);
    tft_fisher_gains(bytes_of(b).gains, 1, gain);
    a.k = k;
    a.mean = mean;
    a.gain = gain;
    a.cos = turned ? cos : NULL;
    a.sin = sin;
    kern->turn_keys(&a);
    for (uint32_t t = 0; t < T; t++)
        for (uint32_t p = 0; p < dim; p += 2) {
            uint32_t two[2], pair = b->m.pair[p / 2];
            double x[2], c = turned ? (double)cos[pair * T + t] : 1,
                         s = turned ? (double)sin[pair * T + t] : 0;
            channels_of(shape, pair, two);
            for (int i = 0; i < 2; i++)
                x[i] = fisher_decoded(&b->m.h, TFT_KV_K, bytes_of(b), t, p + i) -
                       (double)b->m.mean[p + i];
            double least = 1e-5 * (fabs(x[0]) + fabs(x[1]) + 1),
                   want[2] = {x[0] * c - x[1] * s, x[1] * c + x[0] * s};
            for (int i = 0; i < 2; i++) {
                size_t at = (t / 16 * dim + two[i]) * 16 + t % 16;
                if (p < b->m.h.first)
                    assert_true(k[at] == mean[at]);
                assert_true(fabs((double)k[at] - (double)mean[at] - want[i]) <= least);
            }
        }
}

/* Keys and mixes of the kernels, against the decoded keys and values. */
static void products(void **state)
{
    struct tft_kernels k;
    (void)state;
    for (int isa = 0; isa < tft_kernels_isas(); isa++)
        for (int i = 0; i < N_DIMS; i++) {
            struct tft_kv_shape shape = random_shape(dims[i]);
            struct block b;
            float gain[T];
            tft_kernels_fill(&k, isa);
            for (float bits = 1; bits <= 4; bits += 0.5f) {
                random_block(&b, &shape, TFT_KV_K, bits);
                keys_are_turned(&k, &b, &shape, false);
                keys_are_turned(&k, &b, &shape, true);
            }

            random_block(&b, &shape, TFT_KV_V, 2);
            tft_fisher_gains(bytes_of(&b).gains, 1, gain);
            float o[QUERIES][MOST], p[QUERIES][T];
            random_fill(p[0], QUERIES * T);
            struct tft_mix_widths mix = tft_fisher_values(&b.m.h, bytes_of(&b).codes, 1, gain);
            mix.o = o[0];
            mix.ldo = MOST;
            mix.p = p[0];
            mix.ldp = T;
            mix.nq = QUERIES;
            k.mix_widths(&mix);
            for (uint32_t n = 0; n < QUERIES; n++)
                for (uint32_t at = b.m.h.pad; at < b.m.h.end; at++) {
                    double want = 0, scale = 0, folded = 0, sum = 0;
                    for (uint32_t t = 0; t < T; t++) {
                        double v = fisher_decoded(&b.m.h, TFT_KV_V, bytes_of(&b), t, at),
                               y = v - (double)b.m.mean[at];
                        want += (double)p[n][t] * v;
                        sum += fabs((double)p[n][t] * v);
                        scale += fabs(y) / fisher_gain(b.record + b.m.h.codes, t);
                        folded = fmax(folded, fabs((double)(p[n][t] * gain[t])));
                    }
                    assert_true(fabs((double)o[n][at] - want) <=
                                folded / 127 * 0.51 * scale + 1e-5 * sum);
                }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets),  cmocka_unit_test(more_bits_cost_less), cmocka_unit_test(prices),
        cmocka_unit_test(codes),    cmocka_unit_test(tokens_alone),        cmocka_unit_test(errors),
        cmocka_unit_test(products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
