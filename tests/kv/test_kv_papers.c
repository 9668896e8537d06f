/* Compares presets of quantized caches with their papers: see papers.h. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "papers.h"

#include "fed.h"
#include "random.h"

static const struct toy toys[] = {
    {.arch = "llama",
     .n_vocab = 61,
     .n_ctx = 640,
     .n_embd = 32,
     .n_layer = 1,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_ff = 16,
     .n_rot = 16,
     .type = TFT_F32},
    {.arch = "qwen2",
     .n_vocab = 61,
     .n_ctx = 640,
     .n_embd = 32,
     .n_layer = 1,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 40,
     .n_ff = 16,
     .n_rot = 40,
     .type = TFT_F32},
    {.arch = "llama",
     .n_vocab = 61,
     .n_ctx = 640,
     .n_embd = 32,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_ff = 16,
     .n_rot = 16,
     .type = TFT_F32},
};

/* ------------------------------------------------------------------------------ keys and values */

/* row = the key or value of a slot. */
static void slot_row(const struct tft_kv *kv, int side, uint32_t layer, uint32_t head,
                     uint32_t slot, uint16_t row[MAX_DIM])
{
    uint32_t column = slot % TFT_KEY_PANEL;
    const uint16_t *panel = tft_kv_keys(kv, layer, head, slot - column),
                   *value = tft_kv_values(kv, layer, head, slot);
    for (uint32_t d = 0; d < kv->head_dim; d++)
        row[d] = side == KEYS ? panel[d * TFT_KEY_PANEL + column] : value[d];
}

static uint32_t slots_in_use(const struct tft_retained *at)
{
    return at->sinks + at->named + at->waiting + at->kept;
}

/* Records a slot's numbers as the keys, or values, of a position. */
static void record_row(const struct tft_kv *kv, int side, uint32_t layer, uint32_t slot,
                       uint32_t position)
{
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        slot_row(kv, side, layer, h, slot, paper_numbers[side][layer][h].row[position]);
}

/* A side of a session's cache. */
struct side {
    const struct paper *p;
    const struct tft_kv *kv;
    int side;
};

static void assert_slot(const struct side *a, uint32_t layer, uint32_t slot, uint32_t position)
{
    uint16_t row[MAX_DIM];
    for (uint32_t h = 0; h < a->kv->n_head_kv; h++) {
        slot_row(a->kv, a->side, layer, h, slot, row);
        if (memcmp(row, paper_numbers[a->side][layer][h].row[position],
                   a->kv->head_dim * sizeof *row) != 0)
            fail_msg("%s: slot %u does not have the %s of position %u", a->p->kv, slot,
                     a->side ? "value" : "key", position);
    }
}

static void assert_slots(const struct side *a, const struct paper_cache *c)
{
    const struct tft_retained *at = &a->kv->at[a->side];
    uint32_t slot = 0;
    if (at->sinks != c->sinks || at->named != c->named || at->waiting != c->waiting ||
        at->kept != c->kept || at->blocks != c->blocks)
        fail_msg("%s, %s: %u + %u + %u + %u slots and %u blocks, want %u + %u + %u + %u and %u",
                 a->p->kv, a->side ? "values" : "keys", at->sinks, at->named, at->waiting, at->kept,
                 at->blocks, c->sinks, c->named, c->waiting, c->kept, c->blocks);
    for (uint32_t l = 0; l < a->kv->n_layer; l++, slot = 0) {
        for (uint32_t i = 0; i < a->p->n_prefix; i++)
            assert_slot(a, l, slot++, i);
        for (uint32_t i = 0; i < c->sinks; i++)
            assert_slot(a, l, slot++, c->sink[i]);
        for (uint32_t i = 0; i < c->named; i++)
            assert_slot(a, l, slot++, c->name[i]);
        for (uint32_t i = 0; i < c->waiting; i++)
            assert_slot(a, l, slot++, c->wait[i]);
        for (uint32_t i = 0; i < c->kept; i++)
            assert_slot(a, l, slot++, c->keep[i]);
    }
}

/* --------------------------------------------------------------------- a session beside a paper */

static uint16_t prefix[2][PREFIX * HEADS * MAX_DIM];

/* Makes the model's default cache the paper's and gives it random calibration data: an order of
   keys and clip ratios from 0.4 to 1. */
static void calibrate(const struct paper *p, struct tft_model *m)
{
    uint32_t dim = m->head_dim, heads = m->n_head_kv, groups = (dim + p->group - 1) / p->group;
    assert_int_equal(tft_kv_parse(&m->kv_policy, p->kv, NULL), TFT_OK);
    m->key_order = p->reorder ? paper_key_order : NULL;
    for (uint32_t i = 0; i < heads * dim; i++) {
        uint32_t other = i - random_u32() % (i % dim + 1);
        paper_key_order[i] = paper_key_order[other];
        paper_key_order[other] = (int32_t)(i % dim);
    }
    for (int side = 0; side < 2; side++) {
        m->kv_clip[side] = p->clip == CALIBRATED ? paper_alpha[side] : NULL;
        for (uint32_t i = 0; i < heads * groups; i++)
            paper_alpha[side][i] = 0.7f + 0.3f * random_even();
    }
}

static struct tft_model *model(const struct paper *p)
{
    struct tft_model *m = opened(written(&toys[p->toy]));
    for (int i = 0; i < LAYERS * HEADS * MAX_DIM; i++)
        paper_importance[i] = expf(3 * random_even());
    m->key_importance = paper_importance;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < PREFIX * HEADS * MAX_DIM; i++)
            prefix[side][i] = tft_f32_to_f16(2 * random_even());
    calibrate(p, m);
    m->n_prefix = p->n_prefix;
    m->prefix_k = prefix[KEYS];
    m->prefix_v = prefix[VALUES];
    return m;
}

/* Records the keys and values of all positions from a session with an f16 cache. In a model of one
   layer, keys and values do not depend on the cache. */
static void record_rows(const struct paper *p, struct tft_model *m)
{
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = 1, .n_batch = p->n, .kv = "f16"});
    assert_int_equal(tft_prefill(s, paper_tokens, p->n), TFT_OK);
    for (uint32_t i = 0; i < p->n_prefix + p->n; i++)
        for (int side = 0; side < 2; side++)
            record_row(&s->kv, side, 0, i, i);
    tft_session_close(s);
}

/* Asserts that the cache is as the paper says after tokens from .. to - 1 were fed in one call. */
static void assert_same_cache(const struct paper *p, const struct tft_session *s,
                              struct paper_cache c[2], uint32_t from, uint32_t to)
{
    for (int side = 0; side < 2; side++) {
        uint32_t blocks = c[side].blocks;
        for (uint32_t t = from; t < to; t++)
            paper_append(p, side, &c[side], p->n_prefix + t);
        assert_slots(&(struct side){p, &s->kv, side}, &c[side]);
        for (; blocks < c[side].blocks; blocks++)
            paper_assert_block(p, s, side, &c[side], blocks);
    }
    for (uint32_t t = from; t < to; t++)
        paper_assert_attention(p, s, c, p->n_prefix + t, t - from);
}

static void assert_paper(const struct paper *p)
{
    static struct paper_cache c[2];
    struct tft_model *m = model(p);
    toy_tokens(7, m->n_vocab, paper_tokens, p->n);
    record_rows(p, m);
    for (int side = 0; side < 2; side++) {
        c[side] = (struct paper_cache){0};
        for (uint32_t i = 0; i < p->n_prefix; i++)
            paper_append(p, side, &c[side], i);
    }
    struct tft_session *s = session(
        m,
        (struct tft_session_opts){
            .n_threads = 1, .n_batch = p->n, .n_logits = p->n, .kv = p->kv, .keep = paper_filter});
    for (uint32_t from = 0, to; from < p->n; from = to) {
        to = from + 61 < p->n ? from + 61 : p->n;
        assert_int_equal(tft_prefill(s, paper_tokens + from, to - from), TFT_OK);
        assert_same_cache(p, s, c, from, to);
    }
    assert_true(c[KEYS].blocks >= 2 && c[VALUES].blocks >= 2);
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
        {.kv = "rtn", .toy = 1, .n = 130, .rule = KIVI, .window = 32, .axis = {TOKEN, TOKEN},
         .levels = {{4}, {4}}, .group = 32, .block = 32},
        {.kv = "rtn:bits=4,group=16", .n = 100, .rule = KIVI, .window = 32,
         .axis = {TOKEN, TOKEN}, .levels = {{16}, {16}}, .group = 16, .block = 32},
    };
    ALL(cases);
}

static void kivi(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "kivi", .n = 290, .rule = KIVI, .window = 128, .axis = {CHANNEL, TOKEN},
         .levels = {{4}, {4}}, .group = 32, .block = 32},
        {.kv = "kivi:window=64,bits=4", .toy = 1, .n = 140, .rule = KIVI, .window = 64,
         .axis = {CHANNEL, TOKEN}, .levels = {{16}, {16}}, .group = 32, .block = 32},
        {.kv = "kivi:window=128,bits=4,group=64", .n = 270, .rule = KIVI, .window = 128,
         .axis = {CHANNEL, TOKEN}, .levels = {{16}, {16}}, .group = 64, .block = 64},
        {.kv = "kivi:window=64,group=64", .toy = 1, .n = 140, .rule = KIVI, .window = 64,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 64, .block = 64},
        /* after a quantization 8 tokens wait, then 16, 24, none */
        {.kv = "kivi:window=40", .n = 130, .rule = KIVI, .window = 40, .axis = {CHANNEL, TOKEN},
         .levels = {{4}, {4}}, .group = 32, .block = 32},
    };
    ALL(cases);
}

static void logquant(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        /* section 4: R = 128, so W = 42; groups of 64 */
        {.kv = "logquant", .n = 300, .rule = LOGQUANT, .window = 42, .axis = {CHANNEL, TOKEN},
         .levels = {{4}, {4}}, .group = 64, .block = 64},
        /* seven compactions */
        {.kv = "logquant:window=32,group=32", .n = 300, .rule = LOGQUANT, .window = 32,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32},
        {.kv = "logquant:window=20,group=32", .toy = 1, .n = 190, .rule = LOGQUANT, .window = 20,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32},
        {.kv = "logquant:window=21,group=32", .n = 230, .rule = LOGQUANT, .window = 21,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32},
        /* 3W = 126: section 4.2.3 */
        {.kv = "logquant:bits=4,group=32", .n = 300, .rule = LOGQUANT, .window = 42,
         .axis = {CHANNEL, TOKEN}, .levels = {{16}, {16}}, .group = 32, .block = 32},
        {.kv = "logquant:window=5", .n = 160, .rule = LOGQUANT, .window = 5,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 64, .block = 64},
        {.kv = "logquant:window=16,group=16", .n = 150, .rule = LOGQUANT, .window = 16,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 16, .block = 16},
    };
    ALL(cases);
}

static void skvq(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "skvq:reorder=none,clip=zero,group=64", .toy = 1, .n = 240, .rule = SKVQ,
         .window = 128, .sinks = 5, .axis = {TOKEN, TOKEN}, .levels = {{4}, {4}}, .group = 64,
         .block = 32, .clip = ZERO, .f8 = true},
        {.kv = "skvq:reorder=none,clip=zero,v=1.5,window=33,group=16", .toy = 1, .n = 140,
         .rule = SKVQ, .window = 33, .sinks = 5, .axis = {TOKEN, TOKEN}, .levels = {{4}, {3}},
         .group = 16, .block = 32, .clip = ZERO, .f8 = true},
        {.kv = "skvq:reorder=none,clip=zero,k=3,v=4,window=0,sinks=1,group=32", .n = 100,
         .rule = SKVQ, .sinks = 1, .axis = {TOKEN, TOKEN}, .levels = {{8}, {16}}, .group = 32,
         .block = 32, .clip = ZERO, .f8 = true},
        {.kv = "skvq:reorder=none,clip=zero,group=64,scales=f16,window=16", .n = 120,
         .rule = SKVQ, .window = 16, .sinks = 5, .axis = {TOKEN, TOKEN}, .levels = {{4}, {4}},
         .group = 64, .block = 32, .clip = ZERO},
    };
    ALL(cases);
}

/* Section 3.1: the order of keys, eq. 1 (the order of values is in the weights: test_quantize.c),
   and an alpha for each group, eq. 2. */
static void skvq_calibrated(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "skvq", .toy = 1, .n = 240, .rule = SKVQ, .window = 128, .sinks = 5,
         .axis = {TOKEN, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32,
         .clip = CALIBRATED, .f8 = true, .reorder = true},
        {.kv = "skvq:v=1.5,window=33,group=16", .toy = 1, .n = 140, .n_prefix = PREFIX,
         .rule = SKVQ, .window = 33, .sinks = 5, .axis = {TOKEN, TOKEN}, .levels = {{4}, {3}},
         .group = 16, .block = 32, .clip = CALIBRATED, .f8 = true, .reorder = true},
        {.kv = "skvq:reorder=none,scales=f16,window=0,k=3", .n = 100, .rule = SKVQ, .sinks = 5,
         .axis = {TOKEN, TOKEN}, .levels = {{8}, {4}}, .group = 32, .block = 32,
         .clip = CALIBRATED},
        {.kv = "skvq:clip=none,window=16,group=16,k=8", .toy = 1, .n = 100, .rule = SKVQ,
         .window = 16, .sinks = 5, .axis = {TOKEN, TOKEN}, .levels = {{256}, {4}}, .group = 16,
         .block = 32, .f8 = true, .reorder = true},
        {.kv = "skvq:k=16,window=16,group=16", .toy = 1, .n = 100, .rule = SKVQ, .window = 16,
         .sinks = 5, .axis = {TOKEN, TOKEN}, .levels = {{0}, {4}}, .group = 16, .block = 32,
         .clip = CALIBRATED, .f8 = true},
    };
    ALL(cases);
}

/* SKVQ, section 3.2: a prompt stays in full precision until its last token has come. */
static void whole_prompts(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "skvq:window=16,prefill=150", .toy = 1, .n = 230, .rule = SKVQ, .window = 16,
         .sinks = 5, .axis = {TOKEN, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32,
         .clip = CALIBRATED, .f8 = true, .reorder = true, .prefill = 150},
        {.kv = "kivi:window=40,prefill=130", .n = 210, .n_prefix = PREFIX, .rule = KIVI,
         .window = 40, .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32,
         .prefill = 130},
        {.kv = "kivi:window=40,prefill=120", .n = 170, .rule = KIVI, .window = 40,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32,
         .prefill = 120},
        {.kv = "logquant:window=11,group=32,prefill=140", .n = 200, .rule = LOGQUANT, .window = 11,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32,
         .prefill = 140},
        {.kv = "kivi:window=64,prefill=64", .n = 140, .rule = KIVI, .window = 64,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32, .prefill = 64},
    };
    ALL(cases);
}

static void filters(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "skvq:window=16,keep=10", .toy = 1, .n = 230, .rule = SKVQ, .window = 16,
         .sinks = 5, .axis = {TOKEN, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32,
         .clip = CALIBRATED, .f8 = true, .reorder = true, .keep = 10},
        {.kv = "skvq:window=16,keep=1", .toy = 1, .n = 130, .n_prefix = PREFIX, .rule = SKVQ,
         .window = 16, .sinks = 5, .axis = {TOKEN, TOKEN}, .levels = {{4}, {4}}, .group = 32,
         .block = 32, .clip = CALIBRATED, .f8 = true, .reorder = true, .keep = 1},
        {.kv = "kivi:window=40,keep=100", .n = 210, .rule = KIVI, .window = 40,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32, .keep = 100},
        {.kv = "kivi:window=40,prefill=130,keep=7", .n = 190, .n_prefix = PREFIX, .rule = KIVI,
         .window = 40, .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32,
         .prefill = 130, .keep = 7},
    };
    ALL(cases);
}

static void any_bits_and_axes(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "k=1@token,v=3@channel,retain=fill:64", .toy = 1, .n = 140, .rule = KIVI,
         .window = 64, .axis = {TOKEN, CHANNEL}, .levels = {{2}, {8}}, .group = 32, .block = 32},
        {.kv = "k=3@channel,v=1@token,scales=f8,retain=window:7", .n = 110, .rule = SKVQ,
         .window = 7, .axis = {CHANNEL, TOKEN}, .levels = {{8}, {2}}, .group = 32, .block = 32,
         .f8 = true},
        {.kv = "k=8@channel,v=4@channel,group=16,retain=fill:20,sinks=2", .n = 110, .rule = KIVI,
         .window = 20, .sinks = 2, .axis = {CHANNEL, CHANNEL}, .levels = {{256}, {16}},
         .group = 16, .block = 16},
        {.kv = "k=16,v=1.5@channel,retain=log2:11", .toy = 1, .n = 120, .rule = LOGQUANT,
         .window = 11, .axis = {CHANNEL, CHANNEL}, .levels = {{0}, {3}}, .group = 32,
         .block = 32},
        {.kv = "k=4@token,v=16,clip=centre,retain=fill:32,group=16", .toy = 1, .n = 100,
         .rule = KIVI, .window = 32, .axis = {TOKEN, TOKEN}, .levels = {{16}, {0}}, .group = 16,
         .block = 32, .clip = CENTRE},
        {.kv = "k=1.5@channel,v=8@token,retain=window:10,group=64", .n = 150, .rule = SKVQ,
         .window = 10, .axis = {CHANNEL, TOKEN}, .levels = {{3}, {256}}, .group = 64,
         .block = 64},
        {.kv = "k=8@token,v=1@channel,sinks=7,retain=log2:16,clip=zero", .n = 140,
         .rule = LOGQUANT, .window = 16, .sinks = 7, .axis = {TOKEN, CHANNEL},
         .levels = {{256}, {2}}, .group = 32, .block = 32, .clip = ZERO},
        {.kv = "k=1.5@token,v=2@channel,clip=centre,scales=f8,group=128,retain=fill:2", .toy = 1,
         .n = 270, .rule = KIVI, .window = 2, .axis = {TOKEN, CHANNEL}, .levels = {{3}, {4}},
         .group = 128, .block = 128, .clip = CENTRE, .f8 = true},
        {.kv = "bits=8,retain=fill:32", .toy = 1, .n = 100, .rule = KIVI, .window = 32,
         .axis = {CHANNEL, TOKEN}, .levels = {{256}, {256}}, .group = 32, .block = 32},
        {.kv = "bits=16,retain=fill:32", .toy = 1, .n = 100, .rule = KIVI, .window = 32,
         .axis = {CHANNEL, TOKEN}, .levels = {{0}, {0}}, .group = 32, .block = 32},
        {.kv = "bits=1,retain=log2:2,group=16", .n = 60, .rule = LOGQUANT, .window = 2,
         .axis = {CHANNEL, TOKEN}, .levels = {{2}, {2}}, .group = 16, .block = 16},
        /* more than a span of codes */
        {.kv = "rtn", .n = 330, .rule = KIVI, .window = 32, .axis = {TOKEN, TOKEN},
         .levels = {{4}, {4}}, .group = 32, .block = 32},
    };
    ALL(cases);
}

static void an_intact_prefix(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "kivi:window=32", .toy = 1, .n = 100, .n_prefix = PREFIX, .rule = KIVI,
         .window = 32, .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32},
        {.kv = "skvq:reorder=none,clip=zero,group=64,window=16", .n = 110, .n_prefix = PREFIX,
         .rule = SKVQ, .window = 16, .sinks = 5, .axis = {TOKEN, TOKEN}, .levels = {{4}, {4}},
         .group = 64, .block = 32, .clip = ZERO, .f8 = true},
        {.kv = "logquant:window=21,group=32", .n = 160, .n_prefix = 1, .rule = LOGQUANT,
         .window = 21, .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32},
    };
    ALL(cases);
}

static unsigned bits_of(uint32_t levels)
{
    return levels == 2   ? TFT_BITS_1
           : levels == 4 ? TFT_BITS_2
           : levels == 8 ? TFT_BITS_3
                         : TFT_BITS_4;
}

/* Bits per channel: docs/cache.md. */
static void bits_by_channel(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "tuffet:sinks=0,keep=0", .n = 330, .rule = SKVQ, .window = 128,
         .axis = {MIXED, TOKEN}, .levels = {{0}, {4}}, .group = 64, .block = 64, .clip = CENTRE,
         .average = {2}},
        {.kv = "tuffet:sinks=0,keep=0,k=2.25@mixed,window=17,group=32", .toy = 1, .n = 120,
         .rule = SKVQ, .window = 17, .axis = {MIXED, TOKEN}, .levels = {{0}, {4}}, .group = 32,
         .block = 32, .clip = CENTRE, .average = {2.25}},
        {.kv = "kivi:k=3.3@mixed,window=32", .toy = 1, .n = 100, .rule = KIVI, .window = 32,
         .axis = {MIXED, TOKEN}, .levels = {{0}, {4}}, .group = 32, .block = 32,
         .average = {3.3}},
        {.kv = "skvq:reorder=none,clip=zero,k=1.5@mixed,window=16,group=16", .n = 100,
         .n_prefix = PREFIX, .rule = SKVQ, .window = 16, .sinks = 5, .axis = {MIXED, TOKEN},
         .levels = {{0}, {4}}, .group = 16, .block = 16, .clip = ZERO, .f8 = true,
         .average = {1.5}},
        {.kv = "kivi:k=1@mixed,window=32", .n = 70, .rule = KIVI, .window = 32,
         .axis = {MIXED, TOKEN}, .levels = {{0}, {4}}, .group = 32, .block = 32, .average = {1}},
        {.kv = "kivi:k=4@mixed,window=32", .n = 70, .rule = KIVI, .window = 32,
         .axis = {MIXED, TOKEN}, .levels = {{0}, {4}}, .group = 32, .block = 32, .average = {4}},
    };
    ALL(cases);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct toy *t = &toys[cases[i].toy];
        struct tft_model *m = model(&cases[i]);
        struct tft_session *s =
            session(m, (struct tft_session_opts){.n_threads = 1, .kv = cases[i].kv});
        for (uint32_t h = 0; h < t->n_head_kv; h++) {
            struct paper_order o = paper_order_of(&cases[i], KEYS, 0, h, t->head_dim);
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

/* AsymKV, section 4: the keys of the first l_k layers and the values of the first l_v layers have
   more bits than the other layers. The second layer's rows depend on the cache of the first, so its
   rows are recorded token by token. */
static void assert_layers(const struct paper *p)
{
    static struct paper_cache c[2];
    struct tft_model *m = model(p);
    toy_tokens(7, m->n_vocab, paper_tokens, p->n);
    c[KEYS] = c[VALUES] = (struct paper_cache){0};
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = 1, .kv = p->kv, .keep = paper_filter});
    for (uint32_t t = 0; t < p->n; t++) {
        assert_int_equal(tft_decode(s, paper_tokens[t]), TFT_OK);
        for (uint32_t l = 0; l < m->n_layer; l++)
            for (int side = 0; side < 2; side++)
                record_row(&s->kv, side, l, slots_in_use(&s->kv.at[side]) - 1, t);
        assert_same_cache(p, s, c, t, t + 1);
    }
    assert_true(c[KEYS].blocks >= 2 && c[VALUES].blocks >= 2);
    tft_session_close(s);
    tft_model_close(m);
}

static void asymkv(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "asymkv:lk=1,lv=0,window=64", .toy = 2, .n = 140, .rule = KIVI, .window = 64,
         .axis = {CHANNEL, TOKEN}, .levels = {{4, 2}, {2, 2}}, .group = 32, .block = 32},
        {.kv = "asymkv:window=32", .toy = 2, .n = 70, .rule = KIVI, .window = 32,
         .axis = {CHANNEL, TOKEN}, .levels = {{4, 4}, {2, 2}}, .group = 32, .block = 32},
        {.kv = "asymkv:lk=2,lv=1,high=4,low=1.5,window=32", .toy = 2, .n = 70, .rule = KIVI,
         .window = 32, .axis = {CHANNEL, TOKEN}, .levels = {{16, 16}, {16, 3}}, .group = 32,
         .block = 32},
        {.kv = "asymkv:lk=0,lv=2,high=3,window=32", .toy = 2, .n = 70, .rule = KIVI,
         .window = 32, .axis = {CHANNEL, TOKEN}, .levels = {{2, 2}, {8, 8}}, .group = 32,
         .block = 32},
        {.kv = "asymkv:lk=1,lv=1,high=16,low=8,window=32", .toy = 2, .n = 70, .rule = KIVI,
         .window = 32, .axis = {CHANNEL, TOKEN}, .levels = {{0, 256}, {0, 256}}, .group = 32,
         .block = 32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_layers(&cases[i]);
}

/* The same for mixed keys, and with layers of f16. */
static void bits_by_layer(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "tuffet:sinks=0,keep=0,k=3x1/1.5,v=4x1/16,window=20,group=32", .toy = 2, .n = 100,
         .rule = SKVQ, .window = 20, .axis = {MIXED, TOKEN}, .levels = {{0, 0}, {16, 0}},
         .group = 32, .block = 32, .clip = CENTRE, .average = {3, 1.5}},
        {.kv = "tuffet:sinks=0,keep=0,k=16x1/2.25,v=16x1/2,window=20,group=32", .toy = 2, .n = 100,
         .rule = SKVQ, .window = 20, .axis = {MIXED, TOKEN}, .levels = {{0, 0}, {0, 4}},
         .group = 32, .block = 32, .clip = CENTRE, .average = {0, 2.25}},
        {.kv = "kivi:k=1.25x1/16@mixed,v=1x1/3,window=32", .toy = 2, .n = 80, .rule = KIVI,
         .window = 32, .axis = {MIXED, TOKEN}, .levels = {{0, 0}, {2, 8}}, .group = 32,
         .block = 32, .average = {1.25, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_layers(&cases[i]);
}

/* Keys and values retain by rules of their own: KIVI's published code (keys fill up, values have a
   sliding window), PartialLogQuant (LogQuant, section 3.4), AsymKV under KIVI, and mixtures with
   sinks, a filter, a prefix, a long prompt, more than a span of codes. */
static void keys_and_values_apart(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {.kv = "kivi:kr=fill:64,vr=window:64", .toy = 1, .n = 230, .rule = KIVI, .window = 64,
         .apart = true, .v_rule = SKVQ, .v_window = 64, .axis = {CHANNEL, TOKEN},
         .levels = {{4}, {4}}, .group = 32, .block = 32},
        {.kv = "logquant:kr=log2:21,vr=window:21,group=32", .n = 250, .n_prefix = PREFIX,
         .rule = LOGQUANT, .window = 21, .apart = true, .v_rule = SKVQ, .v_window = 21,
         .axis = {CHANNEL, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32},
        {.kv = "partial-logquant:window=8,prefill=75,group=32", .n = 110, .rule = LOGQUANT,
         .window = 8, .apart = true, .v_rule = SKVQ, .v_window = 8, .axis = {CHANNEL, TOKEN},
         .levels = {{4}, {4}}, .group = 32, .block = 32, .prefill = 75},
        {.kv = "k=16,v=8@channel,kr=window:3,vr=log2:9,group=16,sinks=3", .toy = 1, .n = 180,
         .rule = SKVQ, .window = 3, .sinks = 3, .apart = true, .v_rule = LOGQUANT, .v_window = 9,
         .axis = {CHANNEL, CHANNEL}, .levels = {{0}, {256}}, .group = 16, .block = 16},
        {.kv = "skvq:window=16,kr=fill:50,keep=10", .toy = 1, .n = 230, .n_prefix = PREFIX,
         .rule = KIVI, .window = 50, .sinks = 5, .apart = true, .v_rule = SKVQ, .v_window = 16,
         .axis = {TOKEN, TOKEN}, .levels = {{4}, {4}}, .group = 32, .block = 32,
         .clip = CALIBRATED, .f8 = true, .reorder = true, .keep = 10},
        {.kv = "kivi:kr=log2:11,vr=fill:24,prefill=130", .n = 210, .rule = LOGQUANT, .window = 11,
         .apart = true, .v_rule = KIVI, .v_window = 24, .axis = {CHANNEL, TOKEN},
         .levels = {{4}, {4}}, .group = 32, .block = 32, .prefill = 130},
        /* more than a span of slots of values */
        {.kv = "kivi:kr=fill:50,vr=window:240", .n = 330, .rule = KIVI, .window = 50,
         .apart = true, .v_rule = SKVQ, .v_window = 240, .axis = {CHANNEL, TOKEN},
         .levels = {{4}, {4}}, .group = 32, .block = 32},
        {.kv = "tuffet:sinks=0,keep=0,k=2.25@mixed,group=32,kr=log2:5,vr=window:0", .toy = 1,
         .n = 330, .rule = LOGQUANT, .window = 5, .apart = true, .v_rule = SKVQ, .v_window = 0,
         .axis = {MIXED, TOKEN}, .levels = {{0}, {4}}, .group = 32, .block = 32, .clip = CENTRE,
         .average = {2.25}},
    };
    static const struct paper layers[] = {
        {.kv = "asymkv:lk=1,lv=0,kr=fill:40,vr=window:40", .toy = 2, .n = 150, .rule = KIVI,
         .window = 40, .apart = true, .v_rule = SKVQ, .v_window = 40, .axis = {CHANNEL, TOKEN},
         .levels = {{4, 2}, {2, 2}}, .group = 32, .block = 32},
    };
    ALL(cases);
    assert_layers(&layers[0]);
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
        cmocka_unit_test(keys_and_values_apart),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
