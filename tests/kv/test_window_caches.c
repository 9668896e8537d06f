/* Quantized caches in models with windows: layers with a window have rings of f16, all other layers
   follow the policy of the cache. The bits do not depend on how tokens are fed, rewound or dropped.
   They do not depend on the size of rings either: sessions with a slot for each token in their
   rings give the same bits. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "fed.h"

enum { WINDOW = 30, CTX = 1600, N = 900, BATCH = 200 };

static const struct toy_number numbers[] = {{"attention.sliding_window", TOY_U32, WINDOW}, {0}};

/* Layer 0 has a window, layer 1 has none. The vocabulary is large enough for texts without equal
   tokens. */
static const struct toy toy = {.arch = "gemma2",
                               .n_vocab = 2 * N,
                               .n_ctx = CTX,
                               .n_embd = 32,
                               .n_layer = 2,
                               .n_head = 4,
                               .n_head_kv = 2,
                               .head_dim = 8,
                               .n_ff = 48,
                               .n_rot = 8,
                               .type = TFT_F32,
                               .tied = true,
                               .numbers = numbers};
enum { RINGED, CODED };

static const char *const caches[] = {
    "kivi",
    "tuffet:k=2.25@mixed,group=32",
    "logquant:window=21,group=32",
    "asymkv:lk=1,window=32",
    "skvq:group=16",
    "k=16,v=8@channel,retain=log2:2,scales=f8",
    "kivi:window=24,prefill=300",
    "kivi:kr=fill:40,vr=window:20",
    "k=8@token,v=3,kr=log2:11,vr=fill:24,group=16,sinks=3",
    "i8", /* quantizes nothing */
};
enum { N_CACHES = sizeof caches / sizeof *caches, N_QUANTIZE = N_CACHES - 1 };

static float importance[2 * 2 * 8], clip[2][2 * 2];
static int32_t key_order[2 * 2 * 8], text[N];

/* Calibrated for skvq, with numbers that are made up. */
static struct tft_model *model(void)
{
    struct tft_model *m = opened(written(&toy));
    for (uint32_t i = 0; i < 2 * 2 * 8; i++) {
        importance[i] = (float)(1 + i * 37 % 101);
        key_order[i] = (int32_t)((i % 8 * 3 + i / 8) % 8);
        clip[i % 2][i / 2 % 4] = 0.9f - 0.02f * (float)(i % 8);
    }
    m->key_importance = importance;
    m->key_order = key_order;
    m->kv_clip[0] = clip[0];
    m->kv_clip[1] = clip[1];
    m->kv_text = "skvq:group=16";
    assert_int_equal(tft_kv_parse(&m->kv_policy, m->kv_text, NULL), TFT_OK);
    for (int32_t i = 0; i < N; i++)
        text[i] = i * 7 % N * 2 + i % 2;
    return m;
}

static struct tft_session_opts with(const char *kv, int threads)
{
    return (struct tft_session_opts){.kv = kv, .n_batch = BATCH, .n_threads = threads};
}

/* A session with passes of up to all tokens: its rings then have a slot for each token. */
static struct tft_session *unwound(const struct tft_model *m, struct tft_session_opts o)
{
    o.n_batch = o.capacity ? o.capacity : CTX;
    struct tft_session *s = session(m, o);
    assert_true(s->kv.ring[RINGED].slots[TFT_KV_K] >= s->kv.max_tokens);
    return s;
}

static void same_bits_however_fed(void **state)
{
    (void)state;
    static const size_t step[] = {1, 131};
    struct tft_model *m = model();
    struct tft_session *f16 = session(m, with("f16", 2));
    feed(f16, text, N, N);
    for (int c = 0; c < N_CACHES; c++) {
        struct tft_session *whole = unwound(m, with(caches[c], 1));
        feed(whole, text, N, N);
        assert_true(memcmp(tft_logits(whole, 0), tft_logits(f16, 0),
                           toy.n_vocab * sizeof(float)) != 0);
        for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
            struct tft_session *s = session(m, with(caches[c], 1 + (int)i));
            assert_int_equal(s->kv.ring[RINGED].slots[TFT_KV_K], 768);
            feed(s, text, N, step[i]);
            same_last_logits(s, whole);
            tft_session_close(s);
        }
        tft_session_close(whole);
    }
    tft_session_close(f16);
    tft_model_close(m);
}

static void same_bits_on_every_isa(void **state)
{
    (void)state;
    int best = tft_kernels_isas() - 1;
    for (int c = 0; c < N_CACHES; c++) {
        uint64_t want = 0;
        for (int isa = best; isa >= 0; isa--) {
            if (isa < best && !in_turn(isa, c, best))
                continue;
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            struct tft_model *m = model();
            struct tft_session *s = session(m, with(caches[c], 2));
            feed(s, text, 700, 350);
            uint64_t h = hash_logits(1, s);
            assert_true(isa == best || h == want);
            want = h;
            tft_session_close(s);
            tft_model_close(m);
        }
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
}

/* ---- contents of the layers */

/* A cache of this policy without windows. It gets the keys and values of a layer of s, a session in
   f16 with all slots in its rings. */
static void *plain_cache(struct tft_kv *kv, const struct tft_session *s, const char *text_of_kv,
                         uint32_t layer, uint32_t n)
{
    struct tft_kv_shape shape = tft_model_kv_shape(s->m);
    struct tft_kv_policy policy;
    struct tft_arena a = {0};
    float k[8], v[8];
    shape.window = NULL;
    assert_int_equal(tft_kv_parse(&policy, text_of_kv, NULL), TFT_OK);
    tft_kv_layout(kv, &a, &shape, &policy, CTX, N, 0, 1);
    void *memory = tft_port_alloc(a.used, TFT_ALIGN);
    assert_non_null(memory);
    a = (struct tft_arena){.base = memory};
    tft_kv_layout(kv, &a, &shape, &policy, CTX, N, 0, 1);
    tft_kv_open(kv, &shape);
    tft_kv_plan(kv, n);
    for (const struct tft_kv_chunk *c = kv->chunk; c < kv->chunk + kv->plan.n_chunk; c++)
        for (uint32_t h = 0; h < kv->n_head_kv; h++) {
            for (enum tft_kv_which i = 0; i < TFT_KV_SIDES; i++)
                if (c->side[i].quantizes)
                    tft_kv_quantize(kv, &s->m->kern, layer, h, i, &c->side[i].quantization, 0);
            for (uint32_t t = c->from; t < c->to; t++) {
                const char *panel = tft_kv_keys(&s->kv, layer, h, t / 16 * 16),
                           *row = tft_kv_values(&s->kv, layer, h, t);
                for (uint32_t d = 0; d < 8; d++) {
                    s->m->kern.widen[TFT_NUM_F16](k + d, panel + (d * 16 + t % 16) * 2, 1);
                    s->m->kern.widen[TFT_NUM_F16](v + d, row + d * 2, 1);
                }
                tft_kv_store_key(kv, &s->m->kern, layer, h,
                                 c->side[TFT_KV_K].slot + t - c->from, k);
                tft_kv_store_value(kv, &s->m->kern, layer, h,
                                   c->side[TFT_KV_V].slot + t - c->from, v);
            }
        }
    tft_kv_commit(kv);
    return memory;
}

static size_t scale_bytes(const struct tft_kv *kv, const struct tft_kv_side *side, unsigned bits)
{
    size_t n = 2 * tft_kv_scales(kv, side, kv->head_dim);
    return bits == TFT_KV_BITS_F16 ? 0 : kv->policy.f8 ? 2 + n : 2 * n;
}

/* The layer without a window has the codes of a cache without rings. Its keys and values depend on
   the layer before it alone, which is in f16 here and there. */
static void codes_of_a_cache_without_rings(void **state)
{
    (void)state;
    struct tft_model *m = model();
    struct tft_session *f16 = unwound(m, with("f16", 1));
    feed(f16, text, N, N);
    for (int c = 0; c < N_QUANTIZE; c++) {
        struct tft_session *s = session(m, with(caches[c], 2));
        struct tft_kv plain, *kv = &s->kv;
        feed(s, text, N, 131);
        void *memory = plain_cache(&plain, f16, caches[c], CODED, N);
        const struct tft_kv_layer *y = &kv->layer[CODED];
        assert_int_equal(kv->layer[RINGED].k_bytes + kv->layer[RINGED].v_bytes, 0);
        assert_true(kv->at[TFT_KV_K].blocks > 0 && kv->at[TFT_KV_V].blocks > 0);
        assert_int_equal(kv->at[TFT_KV_K].blocks, plain.at[TFT_KV_K].blocks);
        assert_int_equal(kv->at[TFT_KV_V].blocks, plain.at[TFT_KV_V].blocks);
        size_t k = y->k_bits == TFT_KV_BITS_F16 ? y->k_bytes : y->k_codes,
               v = y->v_bits == TFT_KV_BITS_F16 ? y->v_bytes : y->v_codes;
        k += scale_bytes(kv, &kv->policy.k, y->k_bits);
        v += scale_bytes(kv, &kv->policy.v, y->v_bits);
        for (uint32_t h = 0; h < 2; h++) {
            for (uint32_t b = 0; b < kv->at[TFT_KV_K].blocks; b++)
                assert_memory_equal(tft_kv_key_record(kv, CODED, h, b),
                                    tft_kv_key_record(&plain, CODED, h, b), k);
            for (uint32_t b = 0; b < kv->at[TFT_KV_V].blocks; b++)
                assert_memory_equal(tft_kv_value_record(kv, CODED, h, b),
                                    tft_kv_value_record(&plain, CODED, h, b), v);
        }
        tft_port_free(memory);
        tft_session_close(s);
    }
    tft_session_close(f16);
    tft_model_close(m);
}

/* ---- there and back */

static void rewinds(void **state)
{
    (void)state;
    static const uint32_t back[] = {1, 100, 300};
    struct tft_model *m = model();
    for (int c = 0; c < N_QUANTIZE; c++) {
        struct tft_session *s = session(m, with(caches[c], 2));
        for (int i = 0; i < 3; i++) {
            if (i && !in_turn(i, c, 2)) /* of the longer ways back one */
                continue;
            struct tft_session *whole = unwound(m, with(caches[c], 2));
            assert_int_equal(tft_sync(s, text, N), TFT_OK);
            bool in_place = s->kv.frozen < N - back[i] && back[i] <= TFT_KV_BACK;
            assert_int_equal(tft_rewind(s, N - back[i]), TFT_OK);
            assert_int_equal(s->kv.held, in_place ? N - back[i] : 0);
            feed(s, text + 5, 40, 3);
            feed(whole, text, N - back[i], N);
            feed(whole, text + 5, 40, 40);
            same_last_logits(s, whole);
            tft_session_close(whole);
        }
        tft_session_close(s);
    }
    tft_model_close(m);
}

static bool stop(void *user, double done)
{
    (void)done;
    return (*(int *)user)-- != 0;
}

static void stopped_passes(void **state)
{
    (void)state;
    struct tft_model *m = model();
    struct tft_session *whole = unwound(m, with("kivi:window=150", 1));
    feed(whole, text, N, N);
    struct tft_session_opts o = with("kivi:window=150", 2);
    int left;
    o.n_batch = 60;
    o.progress = stop;
    o.progress_user = &left;
    for (int calls = 0; calls < 20; calls += 3) {
        struct tft_session *s = session(m, o);
        left = calls;
        assert_int_equal(tft_prefill(s, text, N), TFT_ERR_CANCELLED);
        left = -1;
        size_t pos = tft_pos(s);
        assert_int_equal(tft_prefill(s, text + pos, N - pos), TFT_OK);
        same_last_logits(s, whole);
        tft_session_close(s);
    }
    tft_session_close(whole);
    tft_model_close(m);
}

/* ---- slides */

static bool wanted(void *user, uint64_t position, int32_t token)
{
    (void)user, (void)token;
    return position % 45 == 20;
}

/* Keys and values of layer 0 by token, as they were when the token came. */
static uint16_t row_of[2 * N][2][2][8]; /* [token][keys and values][head][E] */

static void read_rows(const struct tft_session *s, uint32_t i, uint16_t row[2][2][8])
{
    for (uint32_t h = 0; h < 2; h++) {
        const uint16_t *k = tft_kv_keys(&s->kv, RINGED, h, i / 16 * 16);
        for (uint32_t d = 0; d < 8; d++)
            row[TFT_KV_K][h][d] = k[d * 16 + i % 16];
        memcpy(row[TFT_KV_V][h], tft_kv_values(&s->kv, RINGED, h, i), sizeof row[TFT_KV_V][h]);
    }
}

/* Which tokens a slide drops is the policy's choice: the ring drops the same ones. In the shorter
   session it has all others; in the longer one the tokens that a window may still see. */
static void rings_slide_with_the_blocks(void **state)
{
    (void)state;
    static const char *const slid[] = {
        "kivi:window=32,group=16", "logquant:window=11,group=16",
        "tuffet:group=32,window=20,sinks=2,keep=0", "kivi:kr=window:14,vr=fill:24,group=16,keep=4",
        "kivi:window=32,group=16,sinks=2,keep=7,prefill=70"};
    static const uint32_t capacity[] = {128, 800};
    struct tft_model *m = model();
    for (size_t c = 0; c < 2 * sizeof slid / sizeof *slid; c++) {
        struct tft_session_opts o = with(slid[c / 2], 1);
        o.capacity = capacity[c % 2];
        o.n_batch = 8;
        o.slide = true;
        o.keep = strstr(o.kv, "keep") ? wanted : NULL;
        struct tft_session *s = session(m, o), *whole = unwound(m, o);
        for (uint32_t n = 0; n < N; n++) {
            assert_int_equal(tft_decode(s, text[n]), TFT_OK);
            uint32_t held = (uint32_t)tft_pos(s), back = c % 2 ? WINDOW + 9 : held;
            read_rows(s, held - 1, row_of[text[n]]);
            for (uint32_t i = held > back ? held - back : 0; i < held; i++) {
                uint16_t row[2][2][8];
                read_rows(s, i, row);
                assert_memory_equal(row, row_of[tft_tokens(s)[i]], sizeof row);
            }
        }
        assert_true(s->kv.dropped > 100);
        feed(whole, text, N, N);
        same_last_logits(s, whole);
        assert_int_equal(tft_rewind(s, tft_pos(s) - 3), TFT_OK);
        assert_int_equal(tft_rewind(whole, tft_pos(whole) - 3), TFT_OK);
        feed(s, text, 300, 300);
        feed(whole, text, 300, 1);
        same_last_logits(s, whole);
        tft_session_close(s);
        tft_session_close(whole);
    }
    tft_model_close(m);
}

/* ---- the prefix */

/* Windows move past the prefix, and tokens take its slots in the ring. The layer without a window
   keeps it before the codes. When all is computed again, the prefix is in the ring again. */
static void prefix_is_held(void **state)
{
    (void)state;
    static uint16_t rows[2][2 * 3 * 2 * 8]; /* of keys and of values, [layers, n, G, E] */
    struct tft_model *m = model();
    for (uint32_t i = 0; i < sizeof rows / sizeof **rows; i++)
        rows[i % 2][i / 2] = (uint16_t)(0x3400 + i * 37 % 0x800); /* 0.25 to 1 */
    const uint32_t *windows = m->kv_window;
    m->n_prefix = 3;
    m->prefix_k = rows[0];
    m->prefix_v = rows[1];
    m->kv_window = NULL;
    struct tft_session *plain = session(m, with("f16", 1));
    m->kv_window = windows;
    assert_null(plain->kv.ring);
    feed(plain, text, 12, 12);
    for (int c = 0; c < N_CACHES; c++) {
        struct tft_session *s = session(m, with(caches[c], 2)),
                           *whole = unwound(m, (struct tft_session_opts){
                                                   .kv = caches[c], .capacity = CTX - 3});
        feed(s, text, N, 100);
        feed(whole, text, N, N);
        same_last_logits(s, whole);
        assert_int_equal(tft_rewind(s, 9), TFT_OK);
        assert_int_equal(s->kv.held, 0);
        assert_int_equal(tft_rewind(whole, 0), TFT_OK);
        feed(s, text + 9, 3, 1);
        feed(whole, text, 12, 12);
        same_last_logits(s, whole);
        if (c == 0) /* until tokens are quantized the bits equal f16 without rings */
            same_last_logits(s, plain);
        tft_session_close(s);
        tft_session_close(whole);
    }
    tft_session_close(plain);
    tft_model_close(m);
}

/* tft_kv_bytes counts the layer without a window: the memory of a session for one more token,
   beside other memory that depends on the number of tokens. */
static void bytes(void **state)
{
    (void)state;
    struct tft_model *m = model();
    const uint32_t *windows = m->kv_window;
    for (int c = -1; c < N_CACHES; c++) {
        struct tft_session_opts o = with(c < 0 ? "f16" : caches[c], 1);
        size_t token = tft_kv_bytes(m, o.kv, NULL), parts = 4 * (8 + 2) * sizeof(float),
               own = (sizeof *text + token) * TFT_SPAN;
        o.size = sizeof o;
        o.capacity = 1280;
        size_t less = tft_session_bytes(m, &o, NULL);
        o.capacity = 1280 + TFT_SPAN;
        size_t more = tft_session_bytes(m, &o, NULL) - less;
        if (!strstr(o.kv, "vr=")) /* apart, scores and owners go by tokens too */
            assert_in_range(more, own, own + TFT_SPAN * 8 + 2 * parts + 512);
        if (c >= 0 && !strstr(o.kv, "lk=")) { /* both layers are alike */
            m->kv_window = NULL;
            assert_in_range(tft_kv_bytes(m, o.kv, NULL), 2 * token - 1, 2 * token);
            m->kv_window = windows;
        }
    }
    tft_model_close(m);
}

/* A model with windows in all its layers has nothing to quantize: its session is that of f16. */
static void nothing_but_windows(void **state)
{
    (void)state;
    struct toy one = toy;
    one.n_layer = 1;
    struct tft_model *m = opened(written(&one));
    struct tft_session *s = session(m, with("kivi", 2)), *f16 = session(m, with("f16", 2));
    assert_false(tft_kv_quantizes(&s->kv.policy));
    assert_int_equal(tft_kv_bytes(m, "kivi", NULL), 0);
    assert_int_equal(s->size, f16->size);
    for (int32_t i = 0; i < N; i++)
        text[i] = i * 7 % N;
    feed(s, text, N, 100);
    feed(f16, text, N, N);
    same_last_logits(s, f16);
    tft_session_close(s);
    tft_session_close(f16);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_however_fed),
        cmocka_unit_test(same_bits_on_every_isa),
        cmocka_unit_test(codes_of_a_cache_without_rings),
        cmocka_unit_test(rewinds),
        cmocka_unit_test(stopped_passes),
        cmocka_unit_test(rings_slide_with_the_blocks),
        cmocka_unit_test(prefix_is_held),
        cmocka_unit_test(bytes),
        cmocka_unit_test(nothing_but_windows),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
