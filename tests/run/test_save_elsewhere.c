/* Saved sessions that are loaded elsewhere: where kernels are others, where RoPE has other
   frequencies, and from a disk that became full. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "caches.h"
#include "fed.h"

enum { TEXT = 100, BEGIN = 70 };

static int32_t text[TEXT];

static void must(enum tft_status status, const struct tft_error *err)
{
    if (status != TFT_OK)
        fail_msg("%s", err->msg);
}

/* The toy on the lowest ISA level and on the highest that the machine has. */
static void two_isas(const struct toy *t, const char *kv)
{
    const char *path = written(t), *file = in_folder("a.session");
    struct tft_session_opts o = {.kv = kv, .n_threads = 1};
    struct tft_model *m[2];
    struct tft_session *s[2];
    struct tft_error err;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tft_cpu_limit(i ? NULL : "c"), TFT_OK);
        m[i] = opened(path);
        s[i] = session(m[i], o);
    }
    toy_tokens(5, m[0]->n_vocab, text, TEXT);
    for (int from = 0; from < 2; from++) {
        assert_int_equal(tft_rewind(s[from], 0), TFT_OK);
        feed(s[from], text, BEGIN, BEGIN);
        must(tft_session_save(s[from], NULL, file, &err), &err);
        must(tft_session_load(s[1 - from], NULL, file, &err), &err);
        same_last_logits(s[0], s[1]);
        for (int i = 0; i < 2; i++)
            feed(s[i], text + BEGIN, TEXT - BEGIN, 9);
        same_last_logits(s[0], s[1]);
    }
    for (int i = 0; i < 2; i++) {
        tft_session_close(s[i]);
        tft_model_close(m[i]);
    }
}

static void isas(void **state)
{
    (void)state;
    static const enum tft_dtype types[] = {TFT_F32, TFT_Q8_0, TFT_IQ2_XXS};
    struct toy t = small;
    t.n_embd = t.n_ff = 256; /* whole blocks of every type */
    t.n_layer = 1;
    t.n_head = 4;
    t.head_dim = t.n_rot = 64;
    for (int i = 0; i < 3; i++) {
        t.type = types[i];
        two_isas(&t, "f16");
        two_isas(&t, "i8");
        two_isas(&t, "kivi:window=24,group=16");
    }
}

/* A session with the byte -128, which nobody stores. */
static void a_forged_byte(void **state)
{
    (void)state;
    const char *path = written(&small), *file = in_folder("a.session");
    struct tft_model *m = opened(path);
    struct tft_error err;
    toy_tokens(5, m->n_vocab, text, TEXT);
    for (enum tft_kv_which side = 0; side < TFT_KV_SIDES; side++) {
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = "i8"}),
                           *t = session(m, (struct tft_session_opts){.kv = "i8"});
        feed(s, text, BEGIN, BEGIN);
        int8_t *forged = tft_kv_int8(&s->kv, 0, 0, side, 0).data;
        *forged = -128;
        must(tft_session_save(s, NULL, file, &err), &err);
        must(tft_session_load(t, NULL, file, &err), &err);
        assert_int_equal(*tft_kv_int8(&t->kv, 0, 0, side, 0).data, -127);
        *forged = -127;
        must(tft_session_save(s, NULL, file, &err), &err);
        must(tft_session_load(s, NULL, file, &err), &err);
        feed(s, text + BEGIN, TEXT - BEGIN, 9);
        feed(t, text + BEGIN, TEXT - BEGIN, 9);
        same_last_logits(s, t);
        tft_session_close(s);
        tft_session_close(t);
    }
    tft_model_close(m);
}

/* LongRoPE: the capacity decides which frequencies a session has. */
static void two_sides(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    struct tft_error err;
    static double frequencies[10];
    for (uint32_t i = 0; i < m->n_rot / 2; i++)
        frequencies[i] = m->rope_freq[i] / 2;
    m->rope_freq_long = frequencies;
    m->rope_original_ctx = 200;
    uint32_t capacity[] = {150, 200, 201, 400};
    toy_tokens(5, m->n_vocab, text, TEXT);
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            struct tft_session_opts o = {.n_threads = 1, .capacity = capacity[from]};
            struct tft_session *s = session(m, o), *t;
            o.capacity = capacity[to];
            t = session(m, o);
            feed(s, text, BEGIN, BEGIN);
            must(tft_session_save(s, NULL, in_folder("a.session"), &err), &err);
            bool same = from / 2 == to / 2;
            for (int copies = 0; copies < 2; copies++) {
                assert_int_equal(copies ? tft_session_copy(t, s, &err)
                                        : tft_session_load(t, NULL, in_folder("a.session"), &err),
                                 same ? TFT_OK : TFT_ERR_ARG);
                if (same)
                    same_last_logits(s, t);
                else
                    assert_non_null(strstr(err.msg, "RoPE has other frequencies"));
            }
            tft_session_close(s);
            tft_session_close(t);
        }
    m->rope_freq_long = NULL;
    tft_model_close(m);
}

/* The old file stays, and no other. */
static void a_full_disk(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1}),
                       *t = session(m, (struct tft_session_opts){.n_threads = 1});
    struct tft_error err;
    const char *file = in_folder("a.session");
    toy_tokens(5, m->n_vocab, text, TEXT);
    feed(s, text, 30, 30);
    must(tft_session_save(s, NULL, file, &err), &err);
    feed(t, text, BEGIN, BEGIN);
    struct rlimit limit, small_limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    small_limit = limit;
    signal(SIGXFSZ, SIG_IGN);
    for (rlim_t bytes = 0; bytes < tft_session_save_bytes(t, NULL); bytes += 3000) {
        small_limit.rlim_cur = bytes;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small_limit), 0);
        enum tft_status status = tft_session_save(t, NULL, file, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        assert_int_equal(status, TFT_ERR_IO);
        assert_non_null(strstr(err.msg, "a.session: cannot be written: "));
        assert_non_null(strstr(err.msg, strerror(EFBIG)));
    }
    signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(files_in_folder(false), 2); /* with the model */
    tft_session_close(t);
    t = session(m, (struct tft_session_opts){.n_threads = 1});
    must(tft_session_load(t, NULL, file, &err), &err);
    same_last_logits(s, t);
    tft_session_close(s);
    tft_session_close(t);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(isas),
        cmocka_unit_test(a_forged_byte),
        cmocka_unit_test(two_sides),
        cmocka_unit_test(a_full_disk),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
