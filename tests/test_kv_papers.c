/* Presets of quantized caches beside their papers: papers.h. */
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

static void slot_row(const struct tft_kv *kv, int side, uint32_t layer, uint32_t head,
                     uint32_t slot, uint16_t row[WIDE])
{
    uint32_t column = slot % TFT_KEY_PANEL;
    const uint16_t *panel = tft_kv_keys(kv, layer, head, slot - column),
                   *value = tft_kv_values(kv, layer, head, slot);
    for (uint32_t d = 0; d < kv->head_dim; d++)
        row[d] = side == KEYS ? panel[d * TFT_KEY_PANEL + column] : value[d];
}

/* What a slot has is what came at a position. */
static void note_row(const struct tft_kv *kv, uint32_t layer, uint32_t slot, uint32_t position)
{
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        for (int side = 0; side < 2; side++)
            slot_row(kv, side, layer, h, slot, paper_numbers[side][layer][h].row[position]);
}

static void assert_slot(const struct paper *p, const struct tft_kv *kv, uint32_t layer,
                        uint32_t slot, uint32_t position)
{
    uint16_t row[WIDE];
    for (uint32_t h = 0; h < kv->n_head_kv; h++)
        for (int side = 0; side < 2; side++) {
            slot_row(kv, side, layer, h, slot, row);
            if (memcmp(row, paper_numbers[side][layer][h].row[position],
                       kv->head_dim * sizeof *row) != 0)
                fail_msg("%s: slot %u has not the %s of position %u", p->kv, slot,
                         side ? "value" : "key", position);
        }
}

static void assert_slots(const struct paper *p, const struct tft_session *s,
                         const struct paper_cache *c)
{
    const struct tft_kv *kv = &s->kv;
    uint32_t slot = 0;
    if (kv->at.sinks != c->sinks || kv->at.named != c->named || kv->at.waiting != c->waiting ||
        kv->at.kept != c->kept || kv->at.blocks != c->blocks)
        fail_msg("%s: %u + %u + %u + %u and %u blocks, not %u + %u + %u + %u and %u", p->kv,
                 kv->at.sinks, kv->at.named, kv->at.waiting, kv->at.kept, kv->at.blocks, c->sinks,
                 c->named, c->waiting, c->kept, c->blocks);
    for (uint32_t l = 0; l < s->m->n_layer; l++, slot = 0) {
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

/* --------------------------------------------------------------------- a session beside a paper */

static uint16_t prefix[2][PREFIX * HEADS * WIDE];

/* The file names the cache, and has what it wants: an order by chance, and parts of ranges from .4
   to 1. */
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
    for (int i = 0; i < LAYERS * HEADS * WIDE; i++)
        paper_importance[i] = expf(3 * random_even());
    m->key_importance = paper_importance;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < PREFIX * HEADS * WIDE; i++)
            prefix[side][i] = tft_f32_to_f16(2 * random_even());
    calibrate(p, m);
    m->n_prefix = p->n_prefix;
    m->prefix_k = prefix[KEYS];
    m->prefix_v = prefix[VALUES];
    return m;
}

/* Of a model of one layer: what it stores depends on no cache, so that of an f16 cache is what any
   other begins with. */
static void note_rows(const struct paper *p, struct tft_model *m)
{
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = 1, .n_batch = p->n, .kv = "f16"});
    assert_int_equal(tft_prefill(s, paper_tokens, p->n), TFT_OK);
    for (uint32_t i = 0; i < p->n_prefix + p->n; i++)
        note_row(&s->kv, 0, i, i);
    tft_session_close(s);
}

/* After tokens from .. to - 1 have come in one call. */
static void assert_as(const struct paper *p, const struct tft_session *s, struct paper_cache *c,
                      uint32_t from, uint32_t to)
{
    uint32_t blocks = c->blocks;
    for (uint32_t t = from; t < to; t++)
        paper_come(p, c, p->n_prefix + t);
    assert_slots(p, s, c);
    for (; blocks < c->blocks; blocks++)
        paper_assert_block(p, s, c, blocks);
    for (uint32_t t = from; t < to; t++)
        paper_assert_attention(p, s, c, p->n_prefix + t, t - from);
}

static void assert_paper(const struct paper *p)
{
    static struct paper_cache c;
    struct tft_model *m = model(p);
    toy_tokens(7, m->n_vocab, paper_tokens, p->n);
    note_rows(p, m);
    c = (struct paper_cache){0};
    for (uint32_t i = 0; i < p->n_prefix; i++)
        paper_come(p, &c, i);
    struct tft_session *s = session(
        m,
        (struct tft_session_opts){
            .n_threads = 1, .n_batch = p->n, .n_logits = p->n, .kv = p->kv, .keep = paper_wanted});
    for (uint32_t from = 0, to; from < p->n; from = to) {
        to = from + 61 < p->n ? from + 61 : p->n;
        assert_int_equal(tft_prefill(s, paper_tokens + from, to - from), TFT_OK);
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
        {"rtn",
         1,
         130,
         0,
         KIVI,
         32,
         0,
         {TOKEN, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"rtn:bits=4,group=16",
         0,
         100,
         0,
         KIVI,
         32,
         0,
         {TOKEN, TOKEN},
         {{16}, {16}},
         16,
         32,
         WHOLE,
         false,
         .average = {0}},
    };
    ALL(cases);
}

static void kivi(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"kivi",
         0,
         290,
         0,
         KIVI,
         128,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"kivi:residual=64,bits=4",
         1,
         140,
         0,
         KIVI,
         64,
         0,
         {CHANNEL, TOKEN},
         {{16}, {16}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"kivi:residual=128,bits=4,group=64",
         0,
         270,
         0,
         KIVI,
         128,
         0,
         {CHANNEL, TOKEN},
         {{16}, {16}},
         64,
         64,
         WHOLE,
         false,
         .average = {0}},
        {"kivi:residual=64,group=64",
         1,
         140,
         0,
         KIVI,
         64,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         64,
         64,
         WHOLE,
         false,
         .average = {0}},
        {"kivi:residual=40",
         0,
         130,
         0,
         KIVI,
         40,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}}, /* 8 wait, then 16, 24, none */
    };
    ALL(cases);
}

static void logquant(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        /* seven compactions */
        {"logquant",
         0,
         300,
         0,
         LOGQUANT,
         32,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"logquant:window=20",
         1,
         190,
         0,
         LOGQUANT,
         20,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"logquant:window=21",
         0,
         230,
         0,
         LOGQUANT,
         21,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"logquant:window=42,bits=4",
         0,
         300,
         0,
         LOGQUANT,
         42,
         0,
         {CHANNEL, TOKEN},
         {{16}, {16}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}}, /* 3W = 126: section 4.2.3 */
        {"logquant:window=5,group=64",
         0,
         160,
         0,
         LOGQUANT,
         5,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         64,
         64,
         WHOLE,
         false,
         .average = {0}},
        {"logquant:window=16,group=16",
         0,
         150,
         0,
         LOGQUANT,
         16,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         16,
         16,
         WHOLE,
         false,
         .average = {0}},
    };
    ALL(cases);
}

static void skvq(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"skvq:reorder=none,clip=zero,group=64",
         1,
         240,
         0,
         SKVQ,
         128,
         5,
         {TOKEN, TOKEN},
         {{4}, {4}},
         64,
         32,
         ZERO,
         true,
         .average = {0}},
        {"skvq:reorder=none,clip=zero,v=1.5,window=33,group=16",
         1,
         140,
         0,
         SKVQ,
         33,
         5,
         {TOKEN, TOKEN},
         {{4}, {3}},
         16,
         32,
         ZERO,
         true,
         .average = {0}},
        {"skvq:reorder=none,clip=zero,k=3,v=4,window=0,sinks=1,group=32",
         0,
         100,
         0,
         SKVQ,
         0,
         1,
         {TOKEN, TOKEN},
         {{8}, {16}},
         32,
         32,
         ZERO,
         true,
         .average = {0}},
        {"skvq:reorder=none,clip=zero,group=64,scales=f16,window=16",
         0,
         120,
         0,
         SKVQ,
         16,
         5,
         {TOKEN, TOKEN},
         {{4}, {4}},
         64,
         32,
         ZERO,
         false,
         .average = {0}},
    };
    ALL(cases);
}

/* Section 3.1: eq. 1 is the order of the keys (that of values is in the weights: test_quantize.c),
   eq. 2 with an alpha of each group's. */
static void skvq_calibrated(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"skvq",
         1,
         240,
         0,
         SKVQ,
         128,
         5,
         {TOKEN, TOKEN},
         {{4}, {4}},
         32,
         32,
         CALIBRATED,
         true,
         .reorder = true},
        {"skvq:v=1.5,window=33,group=16",
         1,
         140,
         PREFIX,
         SKVQ,
         33,
         5,
         {TOKEN, TOKEN},
         {{4}, {3}},
         16,
         32,
         CALIBRATED,
         true,
         .reorder = true},
        {"skvq:reorder=none,scales=f16,window=0,k=3",
         0,
         100,
         0,
         SKVQ,
         0,
         5,
         {TOKEN, TOKEN},
         {{8}, {4}},
         32,
         32,
         CALIBRATED,
         false,
         .average = {0}},
        {"skvq:clip=none,window=16,group=16,k=8",
         1,
         100,
         0,
         SKVQ,
         16,
         5,
         {TOKEN, TOKEN},
         {{256}, {4}},
         16,
         32,
         WHOLE,
         true,
         .reorder = true},
        {"skvq:k=16,window=16,group=16",
         1,
         100,
         0,
         SKVQ,
         16,
         5,
         {TOKEN, TOKEN},
         {{0}, {4}},
         16,
         32,
         CALIBRATED,
         true,
         .average = {0}},
    };
    ALL(cases);
}

/* Section 3.2. */
static void whole_prompts(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"skvq:window=16,prefill=150",
         1,
         230,
         0,
         SKVQ,
         16,
         5,
         {TOKEN, TOKEN},
         {{4}, {4}},
         32,
         32,
         CALIBRATED,
         true,
         {0},
         true,
         150,
         0},
        {"kivi:residual=40,prefill=130",
         0,
         210,
         PREFIX,
         KIVI,
         40,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         {0},
         false,
         130,
         0},
        {"kivi:residual=40,prefill=120",
         0,
         170,
         0,
         KIVI,
         40,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         {0},
         false,
         120,
         0},
        {"logquant:window=11,prefill=140",
         0,
         200,
         0,
         LOGQUANT,
         11,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         {0},
         false,
         140,
         0},
        {"kivi:residual=64,prefill=64",
         0,
         140,
         0,
         KIVI,
         64,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         {0},
         false,
         64,
         0},
    };
    ALL(cases);
}

static void filters(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"skvq:window=16,keep=10",
         1,
         230,
         0,
         SKVQ,
         16,
         5,
         {TOKEN, TOKEN},
         {{4}, {4}},
         32,
         32,
         CALIBRATED,
         true,
         {0},
         true,
         0,
         10},
        {"skvq:window=16,keep=1",
         1,
         130,
         PREFIX,
         SKVQ,
         16,
         5,
         {TOKEN, TOKEN},
         {{4}, {4}},
         32,
         32,
         CALIBRATED,
         true,
         {0},
         true,
         0,
         1},
        {"kivi:residual=40,keep=100",
         0,
         210,
         0,
         KIVI,
         40,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         {0},
         false,
         0,
         100},
        {"kivi:residual=40,prefill=130,keep=7",
         0,
         190,
         PREFIX,
         KIVI,
         40,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         {0},
         false,
         130,
         7},
    };
    ALL(cases);
}

static void any_bits_and_axes(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"k=1@token,v=3@channel,retain=fill:64",
         1,
         140,
         0,
         KIVI,
         64,
         0,
         {TOKEN, CHANNEL},
         {{2}, {8}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"k=3@channel,v=1@token,scales=f8,retain=window:7",
         0,
         110,
         0,
         SKVQ,
         7,
         0,
         {CHANNEL, TOKEN},
         {{8}, {2}},
         32,
         32,
         WHOLE,
         true,
         .average = {0}},
        {"k=8@channel,v=4@channel,group=16,retain=fill:20,sinks=2",
         0,
         110,
         0,
         KIVI,
         20,
         2,
         {CHANNEL, CHANNEL},
         {{256}, {16}},
         16,
         16,
         WHOLE,
         false,
         .average = {0}},
        {"k=16,v=1.5@channel,retain=log2:11",
         1,
         120,
         0,
         LOGQUANT,
         11,
         0,
         {CHANNEL, CHANNEL},
         {{0}, {3}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"k=4@token,v=16,clip=centre,retain=fill:32,group=16",
         1,
         100,
         0,
         KIVI,
         32,
         0,
         {TOKEN, TOKEN},
         {{16}, {0}},
         16,
         32,
         CENTRE,
         false,
         .average = {0}},
        {"k=1.5@channel,v=8@token,retain=window:10,group=64",
         0,
         150,
         0,
         SKVQ,
         10,
         0,
         {CHANNEL, TOKEN},
         {{3}, {256}},
         64,
         64,
         WHOLE,
         false,
         .average = {0}},
        {"k=8@token,v=1@channel,sinks=7,retain=log2:16,clip=zero",
         0,
         140,
         0,
         LOGQUANT,
         16,
         7,
         {TOKEN, CHANNEL},
         {{256}, {2}},
         32,
         32,
         ZERO,
         false,
         .average = {0}},
        {"k=1.5@token,v=2@channel,clip=centre,scales=f8,group=128,retain=fill:2",
         1,
         270,
         0,
         KIVI,
         2,
         0,
         {TOKEN, CHANNEL},
         {{3}, {4}},
         128,
         128,
         CENTRE,
         true,
         .average = {0}},
        {"bits=8,retain=fill:32",
         1,
         100,
         0,
         KIVI,
         32,
         0,
         {CHANNEL, TOKEN},
         {{256}, {256}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"bits=16,retain=fill:32",
         1,
         100,
         0,
         KIVI,
         32,
         0,
         {CHANNEL, TOKEN},
         {{0}, {0}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"bits=1,retain=log2:2,group=16",
         0,
         60,
         0,
         LOGQUANT,
         2,
         0,
         {CHANNEL, TOKEN},
         {{2}, {2}},
         16,
         16,
         WHOLE,
         false,
         .average = {0}},
        {"rtn",
         0,
         330,
         0,
         KIVI,
         32,
         0,
         {TOKEN, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}}, /* more than a span of codes */
    };
    ALL(cases);
}

static void an_intact_prefix(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"kivi:residual=32",
         1,
         100,
         PREFIX,
         KIVI,
         32,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"skvq:reorder=none,clip=zero,group=64,window=16",
         0,
         110,
         PREFIX,
         SKVQ,
         16,
         5,
         {TOKEN, TOKEN},
         {{4}, {4}},
         64,
         32,
         ZERO,
         true,
         .average = {0}},
        {"logquant:window=21",
         0,
         160,
         1,
         LOGQUANT,
         21,
         0,
         {CHANNEL, TOKEN},
         {{4}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
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

/* Ours: DESIGN 5, "bits per channel". */
static void bits_by_channel(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"tuffet",
         0,
         330,
         0,
         SKVQ,
         128,
         0,
         {MIXED, TOKEN},
         {{0}, {4}},
         64,
         64,
         CENTRE,
         false,
         .average = {2}},
        {"tuffet:k=2.25@mixed,window=17,group=32",
         1,
         120,
         0,
         SKVQ,
         17,
         0,
         {MIXED, TOKEN},
         {{0}, {4}},
         32,
         32,
         CENTRE,
         false,
         .average = {2.25}},
        {"kivi:k=3.3@mixed,residual=32",
         1,
         100,
         0,
         KIVI,
         32,
         0,
         {MIXED, TOKEN},
         {{0}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {3.3}},
        {"skvq:reorder=none,clip=zero,k=1.5@mixed,window=16,group=16",
         0,
         100,
         PREFIX,
         SKVQ,
         16,
         5,
         {MIXED, TOKEN},
         {{0}, {4}},
         16,
         16,
         ZERO,
         true,
         .average = {1.5}},
        {"kivi:k=1@mixed,residual=32",
         0,
         70,
         0,
         KIVI,
         32,
         0,
         {MIXED, TOKEN},
         {{0}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {1}},
        {"kivi:k=4@mixed,residual=32",
         0,
         70,
         0,
         KIVI,
         32,
         0,
         {MIXED, TOKEN},
         {{0}, {4}},
         32,
         32,
         WHOLE,
         false,
         .average = {4}},
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

/* AsymKV section 4: the first l_k layers' keys and l_v layers' values have more bits than the
   others'. What the second layer stores depends on the cache of the first: it is noted as it comes,
   a token at a time. */
static void assert_layers(const struct paper *p)
{
    static struct paper_cache c;
    struct tft_model *m = model(p);
    toy_tokens(7, m->n_vocab, paper_tokens, p->n);
    c = (struct paper_cache){0};
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = 1, .kv = p->kv, .keep = paper_wanted});
    for (uint32_t t = 0; t < p->n; t++) {
        assert_int_equal(tft_decode(s, paper_tokens[t]), TFT_OK);
        for (uint32_t l = 0; l < m->n_layer; l++)
            note_row(&s->kv, l,
                     s->kv.at.sinks + s->kv.at.named + s->kv.at.waiting + s->kv.at.kept - 1, t);
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
        {"asymkv:lk=1,lv=0,residual=64",
         2,
         140,
         0,
         KIVI,
         64,
         0,
         {CHANNEL, TOKEN},
         {{4, 2}, {2, 2}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"asymkv:residual=32",
         2,
         70,
         0,
         KIVI,
         32,
         0,
         {CHANNEL, TOKEN},
         {{4, 4}, {2, 2}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"asymkv:lk=2,lv=1,high=4,low=1.5,residual=32",
         2,
         70,
         0,
         KIVI,
         32,
         0,
         {CHANNEL, TOKEN},
         {{16, 16}, {16, 3}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"asymkv:lk=0,lv=2,high=3,residual=32",
         2,
         70,
         0,
         KIVI,
         32,
         0,
         {CHANNEL, TOKEN},
         {{2, 2}, {8, 8}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
        {"asymkv:lk=1,lv=1,high=16,low=8,residual=32",
         2,
         70,
         0,
         KIVI,
         32,
         0,
         {CHANNEL, TOKEN},
         {{0, 256}, {0, 256}},
         32,
         32,
         WHOLE,
         false,
         .average = {0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_layers(&cases[i]);
}

/* The same of mixed keys, and with layers that are f16. */
static void bits_by_layer(void **state)
{
    (void)state;
    static const struct paper cases[] = {
        {"tuffet:k=3x1/1.5,v=4x1/16,window=20,group=32",
         2,
         100,
         0,
         SKVQ,
         20,
         0,
         {MIXED, TOKEN},
         {{0, 0}, {16, 0}},
         32,
         32,
         CENTRE,
         false,
         {3, 1.5},
         .prefill = 0},
        {"tuffet:k=16x1/2.25,v=16x1/2,window=20,group=32",
         2,
         100,
         0,
         SKVQ,
         20,
         0,
         {MIXED, TOKEN},
         {{0, 0}, {0, 4}},
         32,
         32,
         CENTRE,
         false,
         {0, 2.25},
         .prefill = 0},
        {"kivi:k=1.25x1/16@mixed,v=1x1/3,residual=32",
         2,
         80,
         0,
         KIVI,
         32,
         0,
         {MIXED, TOKEN},
         {{0, 0}, {2, 8}},
         32,
         32,
         WHOLE,
         false,
         {1.25, 0},
         .prefill = 0},
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
