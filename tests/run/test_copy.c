/* Copied sessions: two that go on from the same tokens do not change each other, whichever is
   closed first, and a copy that is refused changes nothing. (test_save.c copies with every kind of
   cache, window and state.) */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "caches.h"
#include "fed.h"
#include "more_toys.h"

enum { TEXT = 400, BEGIN = 90, MORE = 60 };

static int32_t text[TEXT], others[TEXT];

static struct tft_model *toy_model(const struct toy *t)
{
    struct tft_model *m = opened(written(t));
    toy_tokens(5, m->n_vocab, text, TEXT);
    toy_tokens(6, m->n_vocab, others, TEXT);
    return m;
}

/* A session that got the beginning, then tokens of its own, without a copy. */
static struct tft_session *alone(const struct tft_model *m, struct tft_session_opts o,
                                 const int32_t *own)
{
    struct tft_session *s = session(m, o);
    feed(s, text, BEGIN, BEGIN);
    feed(s, own, MORE, 7);
    return s;
}

/* The two take turns, then both go back and come again. Every second time the copied one is closed
   before the copy goes on. */
static void apart(const struct tft_model *m, struct tft_session_opts o, bool closes)
{
    struct tft_session *want[2] = {alone(m, o, text + BEGIN), alone(m, o, others)},
                       *s[2] = {session(m, o), session(m, o)};
    const int32_t *own[2] = {text + BEGIN, others};
    feed(s[1], others, 30, 30); /* a copy replaces the old contents */
    feed(s[0], text, BEGIN, BEGIN);
    assert_int_equal(tft_session_copy(s[1], s[0], NULL), TFT_OK);
    same_last_logits(s[0], s[1]);
    if (closes) {
        tft_session_close(s[0]);
        s[0] = NULL;
    }
    for (int round = 0; round < 2; round++) {
        for (size_t at = 0; at < MORE; at += 15)
            for (int i = 0; i < 2; i++)
                if (s[i])
                    feed(s[i], own[i] + at, 15, 15);
        for (int i = 0; i < 2; i++) {
            if (s[i])
                same_last_logits(want[i], s[i]);
            if (s[i] && !round)
                assert_int_equal(tft_rewind(s[i], BEGIN), TFT_OK);
        }
    }
    for (int i = 0; i < 2; i++) {
        tft_session_close(s[i]);
        tft_session_close(want[i]);
    }
}

static void two_go_on(void **state)
{
    (void)state;
    static const char *const kv[] = {"f16", "kivi:window=24,group=16",
                                     "logquant:window=11,group=16"};
    struct tft_model *m = toy_model(&small);
    for (int c = 0; c < 6; c++)
        apart(m, (struct tft_session_opts){.kv = kv[c / 2], .n_threads = 1}, c % 2);
    tft_model_close(m);
    m = toy_model(&state_toys[0]);
    for (int c = 0; c < 2; c++)
        apart(m, (struct tft_session_opts){.n_threads = 1}, c);
    tft_model_close(m);
}

/* An empty session, a part of another by a rewind, and a session itself. */
static void parts(void **state)
{
    (void)state;
    struct tft_model *m = toy_model(&small);
    struct tft_session_opts o = {.n_threads = 1};
    struct tft_session *s = session(m, o), *t = session(m, o), *want = session(m, o);
    feed(t, others, 30, 30);
    assert_int_equal(tft_session_copy(t, s, NULL), TFT_OK);
    assert_int_equal(tft_pos(t), 0);
    assert_null(tft_logits(t, 0));
    feed(s, text, BEGIN, BEGIN);
    assert_int_equal(tft_session_copy(s, s, NULL), TFT_OK);
    assert_int_equal(tft_session_copy(t, s, NULL), TFT_OK);
    assert_int_equal(tft_rewind(t, 41), TFT_OK);
    feed(t, others, 20, 20);
    feed(want, text, 41, 41);
    feed(want, others, 20, 20);
    same_last_logits(want, t);
    tft_session_close(s);
    tft_session_close(t);
    tft_session_close(want);
    tft_model_close(m);
}

static void refused(struct tft_session *to, const struct tft_session *from, enum tft_status status,
                    const char *says)
{
    struct tft_error err;
    size_t n = tft_session_save_bytes(to, NULL);
    unsigned char *before = malloc(n), *after = malloc(n);
    assert_true(before && after);
    bool saves = tft_session_save_mem(to, NULL, before, n, NULL) == TFT_OK;
    assert_int_equal(tft_session_copy(to, from, &err), status);
    if (!strstr(err.msg, says))
        fail_msg("%s", err.msg);
    assert_int_equal(tft_session_save_bytes(to, NULL), n);
    if (saves) {
        assert_int_equal(tft_session_save_mem(to, NULL, after, n, NULL), TFT_OK);
        assert_memory_equal(before, after, n);
    }
    free(before);
    free(after);
}

static void refusals(void **state)
{
    (void)state;
    struct tft_model *m = toy_model(&small), *again = opened(in_folder("m.gguf"));
    struct tft_session_opts o = {.n_threads = 1};
    struct tft_session *s = session(m, o), *other_model = session(again, o), *other_cache, *few;
    o.capacity = BEGIN - 1;
    few = session(m, o);
    o.kv = "kivi:window=24,group=16";
    other_cache = session(m, o);
    struct tft_session *all[] = {s, other_model, other_cache, few};
    for (int i = 0; i < 4; i++)
        feed(all[i], others, 20, 20);
    feed(s, text, BEGIN - 20, BEGIN);
    refused(other_model, s, TFT_ERR_ARG, "cannot copy a session with another model");
    refused(other_cache, s, TFT_ERR_ARG, "cannot copy a session with another KV cache");
    refused(few, s, TFT_ERR_FULL,
            "the session to copy has 90 tokens, and the other has room for "
            "89");
    uint32_t n_host = m->n_host;
    m->n_host = 1; /* as if a device had the last layer */
    refused(few, few, TFT_ERR_UNSUPPORTED, "cache is on a device");
    m->n_host = n_host;
    for (int i = 0; i < 4; i++)
        tft_session_close(all[i]);
    tft_model_close(m);
    tft_model_close(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_go_on),
        cmocka_unit_test(parts),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
