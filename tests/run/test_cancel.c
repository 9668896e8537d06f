/* A call that the caller stops: the session has whole passes, and goes on from there with the bits
   of one that was never stopped. Threads for a session. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <pthread.h>

#include "fed.h"

static const struct toy toy = {.arch = "llama",
                               .n_vocab = 47,
                               .n_ctx = 640,
                               .n_embd = 32,
                               .n_layer = 3,
                               .n_head = 2,
                               .n_head_kv = 1,
                               .head_dim = 16,
                               .n_ff = 50,
                               .n_rot = 16,
                               .type = TFT_F32};
enum { N = 150, CAPACITY = 160 };

/* The callback's behaviour, and its calls. */
struct caller {
    int stop_at; /* this call returns false; below 0: none */
    int calls;
    double done; /* of the last call */
};

static bool go_on(void *user, double done)
{
    struct caller *c = user;
    assert_true(done >= (c->calls ? c->done : 0) && done < 1);
    c->done = done;
    return c->calls++ != c->stop_at;
}

static bool every_fifth(void *user, uint64_t position, int32_t token)
{
    (void)user;
    return (position * 31 + (uint64_t)token) % 5 == 0;
}

static struct tft_session *stoppable(const struct tft_model *m, struct tft_session_opts o,
                                     struct caller *c)
{
    o.progress = go_on;
    o.progress_user = c;
    *c = (struct caller){.stop_at = -1};
    return session(m, o);
}

static uint64_t hash(const struct tft_session *s)
{
    assert_non_null(tft_logits(s, 0));
    return hash_logits(0, s);
}

/* How many tokens a session was fed, with the tokens that slides have dropped. */
static uint32_t fed_to(const struct tft_session *s)
{
    return s->kv.dropped + (uint32_t)tft_pos(s);
}

/* Stops the feeding of tokens[n] at every call of the callback, one after the other. */
static void stop_everywhere(const struct tft_model *m, struct tft_session_opts o,
                            const int32_t *tokens, uint32_t n)
{
    struct caller c;
    struct tft_session *whole = stoppable(m, o, &c);
    assert_int_equal(tft_prefill(whole, tokens, n), TFT_OK);
    uint64_t want = hash(whole);
    int calls = c.calls;
    assert_true(calls > 0);
    for (int stop = 0; stop < calls; stop++) {
        struct tft_session *s = stoppable(m, o, &c);
        c.stop_at = stop;
        assert_int_equal(tft_prefill(s, tokens, n), TFT_ERR_CANCELLED);
        uint32_t at = fed_to(s);
        assert_int_equal(c.calls, stop + 1);
        assert_true(at < n);
        assert_true((uint32_t)(c.done * n) >= at && c.done * n < at + o.n_batch);
        assert_null(tft_logits(s, 0));
        assert_int_equal(tft_session_error(s)->code, TFT_ERR_CANCELLED);
        assert_non_null(strstr(tft_session_error(s)->msg, "cancelled: "));
        for (size_t i = tft_pos(s); s->kv.dropped == 0 && i-- > 0;)
            assert_int_equal(tft_tokens(s)[i], tokens[i]);
        c = (struct caller){.stop_at = -1};
        assert_int_equal(tft_prefill(s, tokens + at, n - at), TFT_OK);
        assert_int_equal(tft_session_error(s)->code, TFT_OK);
        if (hash(s) != want)
            fail_msg("%s, stopped at %d of %d: other logits", o.kv, stop, calls);
        tft_session_close(s);
    }
    tft_session_close(whole);
}

static void goes_on_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const caches[] = {"f16", "f32", "i8", "kivi:window=32,group=16",
                                         "k=3@token,v=1@channel,retain=window:16,group=16,sinks=2",
                                         "kivi:window=32,group=16,bits=1,prefill=60,keep=6",
                                         "logquant:retain=log2:16,group=16",
                                         "kivi:kr=fill:32,vr=window:16,group=16"};
    struct tft_model *m = opened(written(&toy));
    int32_t tokens[N];
    toy_tokens(7, toy.n_vocab, tokens, N);
    for (size_t k = 0; k < sizeof caches / sizeof *caches; k++) {
        struct tft_session_opts o = {.size = sizeof o, .kv = caches[k], .capacity = CAPACITY};
        o.keep = strstr(o.kv, "keep=") ? every_fifth : NULL;
        for (o.n_threads = 1; o.n_threads <= 3; o.n_threads += 2)
            for (o.n_batch = 40; o.n_batch <= 2 * CAPACITY; o.n_batch *= 4)
                stop_everywhere(m, o, tokens, N);
    }
    tft_model_close(m);
}

/* A session that slides has dropped tokens before it is stopped. */
static void in_a_session_that_slides(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toy));
    int32_t tokens[2 * N];
    toy_tokens(8, toy.n_vocab, tokens, 2 * N);
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 2, .n_batch = 32, .capacity = 96};
    o.slide = true;
    static const char *const caches[] = {"f16", "kivi:window=32,group=16"};
    for (int k = 0; k < 2; k++) {
        o.kv = caches[k];
        stop_everywhere(m, o, tokens, 2 * N);
    }
    tft_model_close(m);
}

/* Tokens that a rewind has taken from the cache are computed again; stopped there, the session
   keeps all of its tokens. */
static void while_tokens_are_computed_again(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toy));
    int32_t tokens[N];
    toy_tokens(9, toy.n_vocab, tokens, N);
    struct caller c;
    struct tft_session_opts o = {.size = sizeof o,
                                 .kv = "kivi:window=32,group=16,keep=5",
                                 .keep = every_fifth,
                                 .n_batch = 20,
                                 .n_threads = 1};
    struct tft_session *s = stoppable(m, o, &c);
    assert_int_equal(tft_prefill(s, tokens, N), TFT_OK);
    uint64_t want = hash(s);
    for (int stop = 0; stop < 8; stop++) {
        assert_int_equal(tft_rewind(s, 90), TFT_OK);
        assert_int_equal(s->kv.held, 0);
        c = (struct caller){.stop_at = stop};
        assert_int_equal(tft_prefill(s, tokens + 90, N - 90), TFT_ERR_CANCELLED);
        assert_int_equal(tft_pos(s), 90);
        c = (struct caller){.stop_at = -1};
        assert_int_equal(tft_sync(s, tokens, N), TFT_OK);
        assert_int_equal(hash(s), want);
    }
    tft_session_close(s);
    tft_model_close(m);
}

/* The callback is asked before each layer of a long pass on the CPU, and before each pass. */
static void how_often(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toy));
    int32_t tokens[N];
    toy_tokens(10, toy.n_vocab, tokens, N);
    struct caller c;
    struct tft_session_opts o = {.size = sizeof o, .n_batch = 50, .n_threads = 2, .kv = "f16"};
    struct tft_session *s = stoppable(m, o, &c);
    assert_int_equal(tft_prefill(s, tokens, N), TFT_OK);
    assert_int_equal(c.calls, 3 * 3);
    assert_true(c.done > 8. / 9 - 1e-9 && c.done < 8. / 9 + 1e-9);
    c = (struct caller){.stop_at = 0};
    assert_int_equal(tft_prefill(s, tokens, 15), TFT_OK); /* it is short */
    assert_int_equal(tft_decode(s, 1), TFT_OK);
    assert_int_equal(c.calls, 0);
    assert_int_equal(tft_prefill(s, tokens, 16), TFT_ERR_CANCELLED);
    tft_session_close(s);
    tft_model_close(m);
}

static void by_tft_cancel(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toy));
    int32_t tokens[N];
    toy_tokens(11, toy.n_vocab, tokens, N);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 2});
    tft_cancel(s); /* it waits for the next call, whatever that is */
    assert_int_equal(tft_rewind(s, 0), TFT_OK);
    assert_int_equal(tft_decode(s, 1), TFT_ERR_CANCELLED);
    assert_int_equal(tft_pos(s), 0);
    assert_int_equal(tft_prefill(s, tokens, N), TFT_OK); /* and for no other */
    tft_cancel(s);
    assert_int_equal(tft_sync(s, tokens, 20), TFT_ERR_CANCELLED);
    assert_int_equal(tft_sync(s, tokens, 20), TFT_OK);
    tft_session_close(s);
    tft_model_close(m);
}

static void *cancel(void *s)
{
    tft_cancel(s);
    return NULL;
}

static void from_another_thread(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toy));
    int32_t tokens[N];
    toy_tokens(12, toy.n_vocab, tokens, N);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 2, .n_batch = 16});
    assert_int_equal(tft_prefill(s, tokens, N), TFT_OK);
    uint64_t want = hash(s);
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        enum tft_status status = TFT_OK;
        assert_int_equal(pthread_create(&thread, NULL, cancel, s), 0);
        while (status == TFT_OK) { /* until the cancel arrives, wherever that is */
            tft_rewind(s, 0);
            status = tft_prefill(s, tokens, N);
        }
        pthread_join(thread, NULL);
        assert_int_equal(status, TFT_ERR_CANCELLED);
        assert_int_equal(tft_pos(s) % 16, 0);
        assert_int_equal(tft_sync(s, tokens, N), TFT_OK);
        assert_int_equal(hash(s), want);
    }
    tft_session_close(s);
    tft_model_close(m);
}

static void another_number_of_threads(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toy));
    int32_t tokens[N];
    toy_tokens(13, toy.n_vocab, tokens, N);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 3, .n_batch = 33});
    assert_int_equal(tft_prefill(s, tokens, N), TFT_OK);
    uint64_t want = hash(s);
    int most = s->n_threads; /* 1 in a build without threads */
    for (int n = 1; n <= most; n++) {
        assert_int_equal(tft_session_threads(s, n), TFT_OK);
        assert_int_equal(s->n_threads, n);
        tft_rewind(s, 0);
        assert_int_equal(tft_prefill(s, tokens, N), TFT_OK);
        assert_int_equal(hash(s), want);
    }
    assert_int_equal(tft_session_threads(s, 0), TFT_ERR_ARG);
    assert_int_equal(tft_session_threads(s, 4), TFT_ERR_ARG);
    assert_non_null(strstr(tft_session_error(s)->msg, "4 threads: not within 1 .. "));
    assert_int_equal(s->n_threads, most);
    tft_session_close(s);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_with_the_same_bits),
        cmocka_unit_test(in_a_session_that_slides),
        cmocka_unit_test(while_tokens_are_computed_again),
        cmocka_unit_test(how_often),
        cmocka_unit_test(by_tft_cancel),
        cmocka_unit_test(from_another_thread),
        cmocka_unit_test(another_number_of_threads),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
