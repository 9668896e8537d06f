/* Sessions of models with recurrent states: the same bits however they are fed, stopped or slid,
   and the memory of a session. test_checkpoints.c rewinds them. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "states.h"

static void the_same_bits_however_fed(void **state)
{
    (void)state;
    static const char *const caches[] = {"f16", "kivi:window=32,group=16",
                                         "kivi:kr=fill:32,vr=window:16,group=16"};
    for (int i = 0; i < N_STATE; i++)
        for (int c = 0; c < 3; c++) {
            const char *path = written(&state_toys[i]);
            uint64_t want = fed(path, 1, TOKENS, 512, caches[c]);
            assert_int_equal(fed(path, 1, 1, 512, caches[c]), want);
            assert_int_equal(fed(path, 3, 97, 33, caches[c]), want);
            for (int isa = 0; c == 0 && isa < tft_kernels_isas(); isa++) {
                if (!on_half(isa, i))
                    continue;
                assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
                assert_int_equal(fed(path, 1, 300, 512, caches[c]), want);
            }
            assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        }
}

/* The cache has only layers with attention, and the session's size includes the states. */
static void memory(void **state)
{
    (void)state;
    struct tft_model *m = toy_model(0);
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(m, &info);
    assert_int_equal(info.kv_width, 2 * 2 * 2 * 12); /* two layers of two KV heads */
    assert_int_equal(tft_kv_bytes(m, "f16", NULL), info.kv_width * 2);
    assert_int_equal(info.state_bytes, 3 * 2 * 48 * sizeof(float));
    size_t bytes[3];
    for (uint32_t i = 0; i < 3; i++)
        bytes[i] = tft_session_bytes(
            m, &(struct tft_session_opts){.size = sizeof(struct tft_session_opts),
                                          .capacity = 100, .checkpoints = 1 + i}, NULL);
    assert_int_equal(bytes[2] - bytes[1], bytes[1] - bytes[0]);
    assert_in_range(bytes[1] - bytes[0], info.state_bytes, info.state_bytes + 128);
    tft_model_close(m);
}

/* A draft token takes a copy of the states and a row of logits. All copies take an eighth of the
   weights' bytes at most, so there may be fewer draft tokens than asked for, or none. */
static void memory_of_draft_tokens(void **state)
{
    (void)state;
    struct tft_model *m = toy_model(0);
    struct tft_session_opts o = {.size = sizeof o, .capacity = 100};
    size_t bytes[5], each = (m->state_size + m->n_vocab) * sizeof(float);
    m->weight_bytes = 3 * 8 * m->state_size * sizeof(float);
    for (o.lookup = 0; o.lookup < 5; o.lookup++)
        bytes[o.lookup] = tft_session_bytes(m, &o, NULL);
    for (int i = 0; i < 3; i++)
        assert_in_range(bytes[i + 1] - bytes[i], each - 128, each + 128);
    assert_int_equal(bytes[4], bytes[3]);
    m->weight_bytes = 8 * m->state_size * sizeof(float) - 1;
    o.lookup = 4;
    assert_int_equal(tft_session_bytes(m, &o, NULL), bytes[0]);
    tft_model_close(m);
}

/* ---- stopped */

struct caller {
    int calls, stop_at;
};

static bool go_on(void *user, double done)
{
    struct caller *c = user;
    (void)done;
    return c->calls++ != c->stop_at;
}

/* A pass that is stopped anywhere leaves the states as they were before it. */
static void stopped(void **state)
{
    (void)state;
    for (int i = 0; i < N_STATE; i++) {
        struct tft_model *m = toy_model(i);
        struct caller c;
        struct tft_session_opts o = {.n_batch = 60, .progress = go_on, .progress_user = &c,
                                     .n_threads = 1 + i % 2};
        struct tft_session *s = session(m, o);
        c = (struct caller){0, -1};
        prefill(s, 0, 150);
        uint64_t want = hash(s);
        for (int stop = 0, calls = c.calls; stop < calls; stop++) {
            c = (struct caller){0, -1};
            assert_int_equal(tft_rewind(s, 0), TFT_OK);
            prefill(s, 0, 10);
            c = (struct caller){0, stop};
            if (tft_prefill(s, tokens + 10, 140) == TFT_OK)
                break; /* fewer calls than for all 150 */
            c.stop_at = -1;
            uint32_t at = (uint32_t)tft_pos(s);
            assert_true(at < 150);
            struct tft_session *fresh = session(m, o);
            prefill(fresh, 0, at);
            assert_memory_equal(s->states.now, fresh->states.now,
                                s->states.size * sizeof *s->states.now);
            tft_session_close(fresh);
            prefill(s, at, 150);
            assert_int_equal(hash(s), want);
        }
        tft_session_close(s);
        tft_model_close(m);
    }
}

/* ---- sliding */

/* The state has seen the tokens that a slide drops, as the other tokens' keys and values have. */
static void slides(void **state)
{
    (void)state;
    for (int i = 0; i < N_STATE; i++) {
        struct tft_model *m = toy_model(i);
        struct tft_session_opts o = {.capacity = 96, .slide = true, .n_threads = 1};
        struct tft_session *a = session(m, o), *b = session(m, o);
        prefill(a, 0, 400);
        for (uint32_t t = 0; t < 400; t++)
            assert_int_equal(tft_decode(b, tokens[t]), TFT_OK);
        assert_int_equal(hash(a), hash(b));
        assert_true(a->kv.dropped > 0);
        uint32_t n = (uint32_t)tft_pos(a), slid = 96 - a->slide;
        int32_t held[96];
        uint64_t want = hash(a);
        memcpy(held, tft_tokens(a), n * sizeof *held);
        assert_int_equal(tft_rewind(a, n - 1), TFT_OK);
        assert_int_equal(a->kv.held, slid); /* a checkpoint is where the last slide was */
        assert_int_equal(tft_prefill(a, held + n - 1, 1), TFT_OK);
        assert_int_equal(hash(a), want);
        assert_int_equal(tft_rewind(a, slid - 1), TFT_OK); /* before it: all are computed anew */
        assert_int_equal(a->kv.held, 0);
        assert_int_equal(tft_prefill(a, held + slid - 1, n - slid + 1), TFT_OK);
        assert_int_equal(tft_rewind(b, 0), TFT_OK);
        assert_int_equal(tft_prefill(b, held, n), TFT_OK);
        assert_int_equal(hash(a), hash(b));
        tft_session_close(a);
        tft_session_close(b);
        tft_model_close(m);
    }
}

/* ---- refusals */

static void refuses(const struct toy *t, enum tft_status status, const char *why)
{
    struct tft_model *m;
    struct tft_error err;
    assert_int_equal(tft_model_open(&m, written(t), NULL, &err), status);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

/* The toy of qwen35 with other numbers. */
static void refuses_sizes(uint32_t k_heads, uint32_t v_heads, uint32_t dim, uint32_t inner,
                          uint32_t taps, enum tft_status status, const char *why)
{
    const struct toy_number n[] = {
        {"ssm.group_count", TOY_U32, k_heads}, {"ssm.time_step_rank", TOY_U32, v_heads},
        {"ssm.state_size", TOY_U32, dim},      {"ssm.inner_size", TOY_U32, inner},
        {"ssm.conv_kernel", TOY_U32, taps},    {"full_attention_interval", TOY_U32, 4},
        {0}};
    struct toy t = state_toys[2];
    t.numbers = n;
    refuses(&t, status, why);
}

static void sizes(void **state)
{
    (void)state;
    struct toy t = state_toys[0];
    t.numbers = (const struct toy_number[]){{"shortconv.l_cache", TOY_U32, 9}, {0}};
    refuses(&t, TFT_ERR_FORMAT, "lfm2.shortconv.l_cache is not an integer of a possible size");
    t = state_toys[0];
    t.head_dim = 16;
    refuses(&t, TFT_ERR_UNSUPPORTED, "4 heads of 16 numbers, but layers without attention have 48");
    refuses_sizes(2, 4, 16, 65, 4, TFT_ERR_FORMAT, "ssm.inner_size is not 4 heads of 16");
    refuses_sizes(2, 8, 8, 64, 4, TFT_ERR_UNSUPPORTED, "sizes are multiples of 16");
    refuses_sizes(3, 4, 16, 64, 4, TFT_ERR_UNSUPPORTED, "a state of 4 heads of 16, with 3 of keys");
    refuses_sizes(2, 2, 16, 32, 4, TFT_ERR_UNSUPPORTED, "layers without attention have 32");
    refuses_sizes(2, 4, 16, 64, 9, TFT_ERR_FORMAT, "ssm.conv_kernel is not an integer of a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_however_fed),
        cmocka_unit_test(memory),
        cmocka_unit_test(memory_of_draft_tokens),
        cmocka_unit_test(stopped),
        cmocka_unit_test(slides),
        cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
