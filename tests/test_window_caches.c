/* Quantized caches in models with windows: layers with a window have rings of f16, all others what
   the cache's policy says. The bits do not depend on how tokens are fed, taken back or dropped, nor
   on the rings: sessions whose rings have a slot for each token give the same. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "fed.h"

enum { WINDOW = 30, CTX = 1600, N = 900, BATCH = 200 };

static const struct toy_number numbers[] = {{"attention.sliding_window", TOY_U32, WINDOW}, {0}};

/* Layer 0 has a window, layer 1 has none. Tokens enough that no two of a text are the same. */
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
    "asymkv:lk=1,residual=32",
    "skvq:group=16",
    "k=16,v=8@channel,retain=log2:2,scales=f8",
    "kivi:residual=24,prefill=300",
    "kivi:kr=fill:40,vr=window:20",
    "k=8@token,v=3,kr=log2:11,vr=fill:24,group=16,sinks=3",
};
enum { N_CACHES = sizeof caches / sizeof *caches };

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

/* A session whose passes may have all tokens, so that its rings have a slot for each. */
static struct tft_session *unwound(const struct tft_model *m, struct tft_session_opts o)
{
    o.n_batch = o.capacity ? o.capacity : CTX;
    struct tft_session *s = session(m, o);
    assert_true(s->kv.ring[RINGED].slots[TFT_KV_K] >= s->kv.max_tokens);
    return s;
}

static void feed(struct tft_session *s, const int32_t *tokens, size_t n, size_t step)
{
    for (size_t at = 0; at < n; at += step)
        assert_int_equal(tft_prefill(s, tokens + at, n - at < step ? n - at : step), TFT_OK);
}

static void same(const struct tft_session *a, const struct tft_session *b)
{
    assert_int_equal(tft_pos(a), tft_pos(b));
    assert_memory_equal(tft_logits(a, 0), tft_logits(b, 0), toy.n_vocab * sizeof(float));
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
            same(s, whole);
            tft_session_close(s);
        }
        tft_session_close(whole);
    }
    tft_session_close(f16);
    tft_model_close(m);
}

static void same_bits_on_every_rung(void **state)
{
    (void)state;
    for (int c = 0; c < N_CACHES; c++) {
        uint64_t want = 0;
        for (int rung = 0; rung < tft_kernels_rungs(); rung++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(rung)), TFT_OK);
            struct tft_model *m = model();
            struct tft_session *s = session(m, with(caches[c], 2));
            feed(s, text, 700, 350);
            uint64_t h = hash_logits(1, s);
            assert_true(rung == 0 || h == want);
            want = h;
            tft_session_close(s);
            tft_model_close(m);
        }
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_however_fed),
        cmocka_unit_test(same_bits_on_every_rung),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
