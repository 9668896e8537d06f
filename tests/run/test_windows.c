/* Layers with a window have a ring of slots: the bits equal a mask over a slot for each token,
   however tokens are fed, taken back, stopped or dropped. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "fed.h"

enum { WINDOW = 30, N = 1500, RING = 768, BATCH = 200 };

static const struct toy_number numbers[] = {{"attention.sliding_window", TOY_U32, WINDOW}, {0}};

static const struct toy toy = {.arch = "gemma2",
                               .n_vocab = 47,
                               .n_ctx = 2048,
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

static struct tft_session_opts with(const char *kv)
{
    return (struct tft_session_opts){.kv = kv, .n_batch = BATCH, .n_threads = 2};
}

/* A session that has a slot for each token in all layers. */
static struct tft_session *masked(struct tft_model *m, struct tft_session_opts o)
{
    const uint32_t *windows = m->kv_window;
    assert_non_null(windows);
    m->kv_window = NULL;
    struct tft_session *s = session(m, o);
    m->kv_window = windows;
    assert_null(s->kv.ring);
    return s;
}

static void same_bits_however_fed(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16", "f32"};
    static const size_t step[] = {N, 1, 7, 131};
    int32_t tokens[N];
    struct tft_model *m = opened(written(&toy));
    toy_tokens(3, toy.n_vocab, tokens, N);
    for (int k = 0; k < 2; k++) {
        struct tft_session *whole = masked(m, with(kv[k]));
        feed(whole, tokens, N, N);
        for (size_t i = 0; i < sizeof step / sizeof *step; i++) {
            struct tft_session *s = session(m, with(kv[k]));
            assert_int_equal(s->kv.ring[0].slots[TFT_KV_K], RING);
            assert_int_equal(s->kv.ring[1].slots[TFT_KV_K], 2048);
            feed(s, tokens, N, step[i]);
            same_last_logits(s, whole);
            tft_session_close(s);
        }
        tft_session_close(whole);
    }
    tft_model_close(m);
}

/* Up to TFT_KV_BACK tokens are taken back in place. Further back all is computed again. */
static void rewinds(void **state)
{
    (void)state;
    int32_t tokens[N];
    struct tft_model *m = opened(written(&toy));
    struct tft_session *s = session(m, with("f16")), *whole = masked(m, with("f16"));
    toy_tokens(4, toy.n_vocab, tokens, N);
    static const uint32_t back[] = {1, 16, 100, TFT_KV_BACK, 500, 1200, N - 1};
    for (size_t i = 0; i < sizeof back / sizeof *back; i++) {
        assert_int_equal(tft_sync(s, tokens, N), TFT_OK);
        assert_int_equal(tft_sync(whole, tokens, N), TFT_OK);
        same_last_logits(s, whole);
        assert_int_equal(tft_rewind(s, N - back[i]), TFT_OK);
        assert_int_equal(tft_rewind(whole, N - back[i]), TFT_OK);
        assert_int_equal(s->kv.held, back[i] <= TFT_KV_BACK ? N - back[i] : 0);
        feed(s, tokens + 5, 40, 3);
        feed(whole, tokens + 5, 40, 40);
        same_last_logits(s, whole);
    }
    tft_session_close(s);
    tft_session_close(whole);
    tft_model_close(m);
}

/* A short session's rings have all tokens, so any rewind is in place. */
static void short_sessions_have_all_slots(void **state)
{
    (void)state;
    int32_t tokens[400];
    struct tft_session_opts o = with("f16");
    struct tft_model *m = opened(written(&toy));
    o.capacity = 400;
    struct tft_session *s = session(m, o);
    toy_tokens(5, toy.n_vocab, tokens, 400);
    feed(s, tokens, 400, 400);
    assert_int_equal(tft_rewind(s, 1), TFT_OK);
    assert_int_equal(s->kv.held, 1);
    tft_session_close(s);
    tft_model_close(m);
}

static bool stop(void *user, double done)
{
    (void)done;
    return (*(int *)user)-- != 0;
}

/* A pass that was stopped has written over slots that lie a ring before its own. */
static void stopped_passes(void **state)
{
    (void)state;
    int32_t tokens[N];
    struct tft_model *m = opened(written(&toy));
    struct tft_session *whole = masked(m, with("f16"));
    toy_tokens(6, toy.n_vocab, tokens, N);
    feed(whole, tokens, N, N);
    struct tft_session_opts o = with("f16");
    int left;
    o.progress = stop;
    o.progress_user = &left;
    for (int calls = 0; calls < 24; calls++) {
        struct tft_session *s = session(m, o);
        left = calls;
        enum tft_status status = tft_prefill(s, tokens, N);
        left = -1;
        size_t pos = tft_pos(s);
        if (status == TFT_ERR_CANCELLED)
            assert_int_equal(tft_prefill(s, tokens + pos, N - pos), TFT_OK);
        same_last_logits(s, whole);
        tft_session_close(s);
    }
    tft_session_close(whole);
    tft_model_close(m);
}

/* A slide drops the same tokens from a ring: windows are counted in the tokens held. */
static void slides(void **state)
{
    (void)state;
    static const uint32_t capacity[] = {100, 800, 1000, 1203};
    int32_t tokens[2 * N];
    struct tft_model *m = opened(written(&toy));
    toy_tokens(7, toy.n_vocab, tokens, 2 * N);
    for (size_t i = 0; i < sizeof capacity / sizeof *capacity; i++) {
        struct tft_session_opts o = with("f16");
        o.capacity = capacity[i];
        o.slide = true;
        struct tft_session *s = session(m, o), *whole = masked(m, o);
        feed(s, tokens, 2 * N, 61);
        feed(whole, tokens, 2 * N, 2 * N);
        assert_true(s->kv.dropped > 0);
        same_last_logits(s, whole);
        assert_int_equal(tft_rewind(s, tft_pos(s) - 9), TFT_OK);
        assert_int_equal(tft_rewind(whole, tft_pos(whole) - 9), TFT_OK);
        feed(s, tokens, 300, 300);
        feed(whole, tokens, 300, 1);
        same_last_logits(s, whole);
        tft_session_close(s);
        tft_session_close(whole);
    }
    tft_model_close(m);
}

/* Windows leave the prefix, and tokens take its slots. When all is computed again, it is back. */
static void prefix_comes_back(void **state)
{
    (void)state;
    static uint16_t rows[2][2 * 3 * 2 * 8]; /* of keys and of values, [layers, n, G, E] */
    int32_t tokens[N];
    struct tft_model *m = opened(written(&toy));
    for (uint32_t i = 0; i < sizeof rows / sizeof **rows; i++)
        rows[i % 2][i / 2] = (uint16_t)(0x3400 + i * 37 % 0x800); /* 0.25 to 1 */
    m->n_prefix = 3;
    m->prefix_k = rows[0];
    m->prefix_v = rows[1];
    struct tft_session *s = session(m, with("f16")), *whole = masked(m, with("f16"));
    toy_tokens(8, toy.n_vocab, tokens, N);
    feed(s, tokens, N, N);
    assert_int_equal(tft_rewind(s, 9), TFT_OK);
    assert_int_equal(s->kv.held, 0);
    feed(s, tokens + 9, 3, 1);
    feed(whole, tokens, 12, 12);
    same_last_logits(s, whole);
    tft_session_close(s);
    tft_session_close(whole);
    tft_model_close(m);
}

/* A session takes a window's memory: here one layer of two has 768 of 2048 slots. */
static void bytes(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toy));
    struct tft_session *s = session(m, with("f16")), *whole = masked(m, with("f16"));
    size_t row = 2 * 2 * 8 * sizeof(uint16_t), less = (2048 - RING) * row;
    assert_true(whole->size - s->size <= less && whole->size - s->size + 256 >= less);
    tft_session_close(s);
    tft_session_close(whole);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_however_fed),
        cmocka_unit_test(rewinds),
        cmocka_unit_test(short_sessions_have_all_slots),
        cmocka_unit_test(stopped_passes),
        cmocka_unit_test(slides),
        cmocka_unit_test(prefix_comes_back),
        cmocka_unit_test(bytes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
