/* Hidden vectors: the numbers of the double-precision oracle, and the same bits however the tokens
   are fed. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "expert_toys.h"
#include "layer_toys.h"
#include "more_toys.h"
#include "oracle/oracle.h"
#include "w8a8.h"

enum { SHORT = 40, N = 120, SESSIONS = 4 };

static int32_t words[N];

/* ---- the numbers */

/* The largest difference over SHORT tokens, relative to the largest number. */
static double difference(const char *path)
{
    struct tft_model *m = opened_as_floats(path);
    struct tft_session *s = session(
        m,
        (struct tft_session_opts){
            .kv = "f32", .n_hidden = SHORT, .capacity = SHORT, .no_logits = true, .n_threads = 2});
    struct tft_source src;
    assert_int_equal(tft_source_open(&src, path, NULL, NULL, NULL), TFT_OK);
    struct oracle *o = oracle_open(&src, SHORT);
    double worst = 0, largest = 0;
    toy_tokens(7, m->n_vocab, words, SHORT);
    assert_int_equal(tft_prefill(s, words, SHORT), TFT_OK);
    for (uint32_t t = 0; t < SHORT; t++) {
        oracle_step(o, words[t]);
        const float *got = tft_hidden(s, SHORT - 1 - t);
        for (uint32_t i = 0; i < m->n_embd; i++) {
            double want = oracle_hidden(o)[i], off = fabs(want - (double)got[i]);
            assert_true(off < 1e9); /* no NaN */
            worst = fmax(worst, off);
            largest = fmax(largest, fabs(want));
        }
    }
    assert_null(tft_logits(s, 0));
    oracle_close(o);
    tft_source_close(&src);
    tft_session_close(s);
    tft_model_close(m);
    return worst / largest;
}

static void near(const struct toy *t)
{
    double off = difference(written(t));
    if (!(off < 2e-5))
        fail_msg("%s: off by %g", t->arch, off);
}

static void agree_with_the_oracle(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++)
        near(&toys[i]);
    for (int i = 0; i < N_MORE; i++)
        near(&more_toys[i]);
    for (int i = 0; i < N_LAYER_TOYS; i++)
        near(&layer_toys[i]);
    for (int i = 0; i < N_EXPERTS; i++)
        near(&expert_toys[i]);
}

/* How far the logits are from the product of the head and the hidden vector. */
static double from_the_head(const struct tft_session *s)
{
    const struct tft_model *m = s->m;
    const struct tft_mat *w = &m->output.w;
    const float *h = tft_hidden(s, 0), *logits = tft_logits(s, 0);
    float row[256];
    double off = 0, size = 0;
    assert_true(m->n_embd <= 256);
    for (uint32_t id = 0; id < m->n_vocab; id++) {
        double want = 0;
        tft_mat_row(m, w, id, row);
        for (uint32_t i = 0; i < m->n_embd; i++)
            want += (double)row[i] * (double)h[i];
        off += (want - (double)logits[id]) * (want - (double)logits[id]);
        size += want * want;
    }
    return sqrt(off / size);
}

/* The head makes the logits of it: with rounded activations nearly so. */
static void feed_the_head(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++)
        for (int quantizes = 0; quantizes < 2; quantizes++) {
            struct quantize_opts o = usual(&toys[i]);
            o.rotate = rotatable(&toys[i]) ? QUANTIZE_ROTATE_ALL : o.rotate;
            struct tft_model *m = opened(quantizes ? quantized(&toys[i], &o) : written(&toys[i]));
            struct tft_session *s = session(m, (struct tft_session_opts){.n_hidden = 1});
            toy_tokens(5, m->n_vocab, words, N);
            if (quantizes) { /* after the prefix */
                assert_int_equal(tft_prefill(s, NULL, 0), TFT_OK);
                assert_true(from_the_head(s) < 0.05);
            }
            assert_int_equal(tft_prefill(s, words, N), TFT_OK);
            double off = from_the_head(s);
            if (!(off < (m->byte_inputs ? 0.05 : m->group_inputs ? 0.02 : 1e-5)))
                fail_msg("%s: off by %g", toys[i].arch, off);
            tft_session_close(s);
            tft_model_close(m);
        }
}

/* ---- the same bits */

static struct tft_session *short_session(const struct tft_model *m, struct tft_session_opts o)
{
    o.capacity = N; /* all the same: in some models RoPE depends on it */
    return session(m, o);
}

/* The hidden vectors of words[N], in one pass. */
static float *all_of(const struct tft_model *m)
{
    size_t width = m->n_embd;
    float *all = malloc(N * width * sizeof *all);
    struct tft_session *s =
        short_session(m, (struct tft_session_opts){.n_hidden = N, .n_threads = 1});
    assert_int_equal(tft_prefill(s, words, N), TFT_OK);
    for (size_t t = 0; t < N; t++)
        memcpy(all + t * width, tft_hidden(s, N - 1 - t), width * sizeof *all);
    assert_null(tft_hidden(s, N));
    tft_session_close(s);
    return all;
}

/* After a call of n tokens: the newest `most` of them have vectors, and no others. */
static void has(const struct tft_session *s, const float *all, size_t n, size_t most)
{
    size_t width = s->m->n_embd, pos = tft_pos(s);
    most = n < most ? n : most;
    assert_null(tft_hidden(s, most));
    for (size_t back = 0; back < most; back++)
        if (memcmp(tft_hidden(s, back), all + (pos - 1 - back) * width, width * sizeof *all) != 0)
            fail_msg("%s: other numbers at token %zu", s->m->arch->name, pos - 1 - back);
}

static void fed_in_pieces(const struct tft_model *m, const float *all, uint32_t piece,
                          struct tft_session_opts o)
{
    struct tft_session *s = short_session(m, o);
    for (size_t at = 0; at < N; at += piece) {
        size_t n = N - at < piece ? N - at : piece;
        assert_int_equal(tft_prefill(s, words + at, n), TFT_OK);
        has(s, all, n, o.n_hidden);
        assert_int_equal(!tft_logits(s, 0), o.no_logits);
    }
    assert_int_equal(tft_rewind(s, N / 2), TFT_OK);
    assert_null(tft_hidden(s, 0));
    assert_int_equal(tft_prefill(s, words + N / 2, 3), TFT_OK);
    has(s, all, 3, o.n_hidden);
    tft_session_close(s);
}

/* Sessions side by side, with and without vectors and logits, as alone. */
static void fed_in_batches(const struct tft_model *m, const float *all)
{
    struct tft_session_opts o[SESSIONS] = {{.n_hidden = 32, .no_logits = true},
                                           {.n_logits = 2},
                                           {.n_hidden = 2},
                                           {.n_hidden = 1, .n_logits = 3}};
    struct tft_session *s[SESSIONS], *alone = short_session(m, o[1]);
    struct tft_batch_opts b = {.size = sizeof b, .n_sessions = 6, .n_tokens = 40, .n_threads = 2};
    struct tft_batch *batch;
    assert_int_equal(tft_batch_open(&batch, m, &b, NULL), TFT_OK);
    for (int i = 0; i < SESSIONS; i++) {
        o[i].n_threads = 2;
        s[i] = short_session(m, o[i]);
    }
    for (size_t turn = 0; turn < 3; turn++) {
        struct tft_step steps[SESSIONS];
        size_t n = 0;
        for (size_t i = 0; i < SESSIONS; i++)
            if (turn < 2 || i == 0 || i == 2) /* the last ones have few logits */
                steps[n++] = (struct tft_step){
                    .session = s[i], .tokens = words + tft_pos(s[i]), .n = i ? i : 20};
        assert_int_equal(tft_step(batch, steps, n), TFT_OK);
        for (size_t i = 0; i < n; i++)
            has(steps[i].session, all, steps[i].n, steps[i].session->out.n_hidden);
    }
    assert_int_equal(tft_prefill(alone, words, tft_pos(s[1])), TFT_OK);
    same_last_logits(s[1], alone);
    assert_null(tft_logits(s[0], 0));
    for (int i = 0; i < SESSIONS; i++)
        tft_session_close(s[i]);
    tft_session_close(alone);
    tft_batch_close(batch);
}

/* full: on all ISA levels, and single tokens with several threads */
static void same_however_fed(const char *path, bool full)
{
    struct tft_model *m = opened(path);
    toy_tokens(5, m->n_vocab, words, N);
    float *all = all_of(m);
    fed_in_pieces(m, all, 1, (struct tft_session_opts){.n_hidden = 1, .n_threads = 1 + full});
    fed_in_pieces(
        m, all, 50,
        (struct tft_session_opts){.n_hidden = 7, .n_batch = 16, .no_logits = true, .n_threads = 3});
    fed_in_pieces(
        m, all, 37,
        (struct tft_session_opts){.n_hidden = 40, .n_batch = 64, .n_logits = 2, .n_threads = 1});
    fed_in_batches(m, all);
    for (int isa = 0; full && isa < tft_kernels_isas(); isa++) {
        assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
        struct tft_model *other = opened(path);
        fed_in_pieces(other, all, 100, (struct tft_session_opts){.n_hidden = 100, .n_threads = 2});
        tft_model_close(other);
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    free(all);
    tft_model_close(m);
}

static void floats(void **state)
{
    (void)state;
    for (int i = 0; i < N_MORE; i++)
        same_however_fed(written(&more_toys[i]), in_turn(0, i, 8));
    for (int i = 0; i < N_LAYER_TOYS; i++)
        same_however_fed(written(&layer_toys[i]), i == 0);
    for (int i = 0; i < N_EXPERTS; i++)
        same_however_fed(written(&expert_toys[i]), i == 0);
}

static void bytes_and_codes(void **state)
{
    (void)state;
    struct toy codes = toys[0];
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        same_however_fed(quantized(&toys[i], &o), true);
        o.range = by_token;
        same_however_fed(quantized(&toys[i], &o), i == 0);
    }
    codes.n_embd = codes.n_ff = 96;
    codes.head_dim = 24;
    codes.type = TFT_Q4_0;
    same_however_fed(written(&codes), true);
}

/* ---- options, memory, errors */

static void memory_and_options(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct tft_session_opts o = {.size = sizeof o, .n_batch = 64, .capacity = 64};
    struct tft_session *s;
    struct tft_error err;
    size_t bytes = tft_session_bytes(m, &o, NULL), vector = 64 * m->n_embd * sizeof(float);
    o.n_hidden = 64;
    size_t with = tft_session_bytes(m, &o, NULL);
    assert_in_range(with, bytes + vector, bytes + vector + 64);
    o.no_logits = true;
    assert_true(tft_session_bytes(m, &o, NULL) <= with - m->n_vocab * sizeof(float));

    o.n_logits = 1;
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    assert_string_equal(err.msg, "n_logits is 1, although no_logits is set");
    o = (struct tft_session_opts){.size = sizeof o, .n_batch = 64, .n_hidden = 65};
    assert_int_equal(tft_session_open(&s, m, &o, &err), TFT_ERR_ARG);
    assert_string_equal(err.msg,
                        "n_hidden, 65, is above n_batch, 64: hidden vectors are kept of one pass");
    o.n_hidden = 64;
    o.capacity = 5; /* no more tokens than that will have a vector */
    s = session(m, o);
    assert_int_equal(tft_prefill(s, words, 6), TFT_ERR_FULL);
    assert_null(tft_hidden(s, 0));
    tft_session_close(s);
    tft_model_close(m);
}

/* A saved or copied session has no vectors, and where no logits are wanted, none are loaded. */
static void saved(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct tft_session *s = session(m, (struct tft_session_opts){.n_hidden = 2}),
                       *bare =
                           session(m, (struct tft_session_opts){.n_hidden = 2, .no_logits = true}),
                       *other = session(m, (struct tft_session_opts){0});
    struct tft_sampler z = {0};
    toy_tokens(5, m->n_vocab, words, N);
    float *all = all_of(m);
    assert_int_equal(tft_prefill(s, words, 50), TFT_OK);
    size_t size = tft_session_save_bytes(s, NULL);
    char *image = malloc(size);
    assert_int_equal(tft_session_save_mem(s, NULL, image, size, NULL), TFT_OK);
    for (int copies = 0; copies < 2; copies++) {
        assert_int_equal(tft_prefill(bare, words, 3), TFT_OK);
        assert_int_equal(copies ? tft_session_copy(bare, s, NULL)
                                : tft_session_load_mem(bare, NULL, image, size, NULL),
                         TFT_OK);
        assert_int_equal(tft_pos(bare), 50);
        assert_null(tft_hidden(bare, 0));
        assert_null(tft_logits(bare, 0));
        assert_int_equal(tft_sample(&z, bare), -1);
        assert_int_equal(tft_prefill(bare, words + 50, 2), TFT_OK);
        has(bare, all, 2, 2);
    }
    assert_true(tft_session_save_bytes(bare, NULL) < size + 2 * 1024);
    assert_int_equal(tft_session_copy(other, bare, NULL), TFT_OK); /* the other way round */
    assert_int_equal(tft_pos(other), 52);
    assert_null(tft_logits(other, 0));
    assert_int_equal(tft_prefill(other, words + 52, 1), TFT_OK);
    assert_int_equal(tft_prefill(s, words + 50, 3), TFT_OK);
    same_last_logits(other, s);
    free(image);
    free(all);
    tft_session_close(s);
    tft_session_close(bare);
    tft_session_close(other);
    tft_model_close(m);
}

/* Without logits too, a model that computes NaN says so, and a cancelled call has none. */
static void errors(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct tft_session *s = session(m, (struct tft_session_opts){.n_hidden = 2, .no_logits = true});
    toy_tokens(5, m->n_vocab, words, N);
    assert_int_equal(tft_prefill(s, words, 2), TFT_OK);
    tft_cancel(s);
    assert_int_equal(tft_prefill(s, words, 20), TFT_ERR_CANCELLED);
    assert_null(tft_hidden(s, 0));

    float gains[40], *own = (float *)(uintptr_t)m->out_norm.w;
    memcpy(gains, own, sizeof gains);
    gains[7] = INFINITY;
    m->out_norm.w = gains;
    assert_int_equal(tft_prefill(s, words, 3), TFT_ERR_NUMBERS);
    assert_null(tft_hidden(s, 0));
    assert_non_null(strstr(tft_session_error(s)->msg,
                           "m.gguf: the hidden vectors after token 5 have NaN or infinity"));
    m->out_norm.w = own;
    tft_session_close(s);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agree_with_the_oracle),
        cmocka_unit_test(feed_the_head),
        cmocka_unit_test(floats),
        cmocka_unit_test(bytes_and_codes),
        cmocka_unit_test(memory_and_options),
        cmocka_unit_test(saved),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
