/* Sessions of models whose layers have a state: the same bits however they are fed, rewound,
   stopped or slid, and what their checkpoints take. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "fed.h"
#include "more_toys.h"

enum { N = 1150 };

static int32_t tokens[N];

static struct tft_model *toy_model(int i)
{
    toy_tokens(7, state_toys[i].n_vocab, tokens, N);
    return opened(written(&state_toys[i]));
}

static uint64_t hash(const struct tft_session *s)
{
    return hash_logits(0, s);
}

static void prefill(struct tft_session *s, uint32_t from, uint32_t end)
{
    assert_int_equal(tft_prefill(s, tokens + from, end - from), TFT_OK);
}

static void the_same_bits_however_fed(void **state)
{
    (void)state;
    static const char *const caches[] = {"f16", "kivi:residual=32,group=16",
                                         "kivi:kr=fill:32,vr=window:16,group=16"};
    for (int i = 0; i < N_STATE; i++)
        for (int c = 0; c < 3; c++) {
            const char *path = written(&state_toys[i]);
            uint64_t want = fed(path, 1, TOKENS, 512, caches[c]);
            assert_int_equal(fed(path, 1, 1, 512, caches[c]), want);
            assert_int_equal(fed(path, 3, 97, 33, caches[c]), want);
            for (int rung = 0; c == 0 && rung < tft_kernels_rungs(); rung++) {
                assert_int_equal(tft_cpu_limit(tft_kernels_name(rung)), TFT_OK);
                assert_int_equal(fed(path, 1, 300, 512, caches[c]), want);
            }
            assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        }
}

/* The cache has layers with attention alone, and the session's size says what the states take. */
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

/* After prompts of 100 and 57 tokens, and then 15 at a time, which is no prompt; held: where the
   cache is after the rewind. */
static void rewinds_to_checkpoints(void **state)
{
    (void)state;
    static const struct {
        uint32_t to, held;
    } rewinds[] = {{1150, 1150}, {1149, 682}, {682, 682}, {681, 157}, {157, 157},
                   {156, 100},   {100, 100},  {99, 0},    {0, 0}};
    for (int i = 0; i < N_STATE; i++) {
        struct tft_model *m = toy_model(i);
        struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
        for (size_t r = 0; r < sizeof rewinds / sizeof *rewinds; r++) {
            assert_int_equal(tft_rewind(s, 0), TFT_OK);
            prefill(s, 0, 100);
            prefill(s, 100, 157);
            for (uint32_t t = 157; t < N; t += 15)
                prefill(s, t, t + 15 < N ? t + 15 : N);
            uint64_t want = hash(s);
            assert_int_equal(tft_rewind(s, rewinds[r].to), TFT_OK);
            assert_int_equal(tft_pos(s), rewinds[r].to);
            if (!s->kv.ring || s->kv.held) /* windows may have lost what is before a checkpoint */
                assert_int_equal(s->kv.held, rewinds[r].held);
            if (rewinds[r].to == N)
                continue;
            prefill(s, rewinds[r].to, N);
            assert_int_equal(hash(s), want);
        }
        tft_session_close(s);
        tft_model_close(m);
    }
}

/* A rewind after a rewind, before the tokens between were computed again; and one in a cache that
   cannot go back as far as the checkpoint. */
static void rewinds_twice(void **state)
{
    (void)state;
    static const char *const caches[] = {"f16", "kivi:residual=32,group=16"};
    struct tft_model *m = toy_model(0);
    for (int c = 0; c < 2; c++) {
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = caches[c]});
        prefill(s, 0, 300);
        uint64_t want = hash(s);
        prefill(s, 300, 620);
        assert_int_equal(tft_rewind(s, 500), TFT_OK);
        assert_int_equal(s->kv.held, c ? 0 : 300);
        assert_int_equal(tft_rewind(s, 400), TFT_OK);
        assert_int_equal(s->kv.held, c ? 0 : 300);
        assert_int_equal(tft_rewind(s, 299), TFT_OK);
        assert_int_equal(s->kv.held, 0);
        prefill(s, 299, 300);
        assert_int_equal(hash(s), want);
        assert_int_equal(tft_sync(s, tokens, 300), TFT_OK);
        assert_int_equal(hash(s), want);
        tft_session_close(s);
    }
    tft_model_close(m);
}

/* What tft_prompt_end names is a checkpoint, whatever its length. */
static void where_a_prompt_ends(void **state)
{
    (void)state;
    struct tft_model *m = toy_model(0);
    struct tft_session *s = session(m, (struct tft_session_opts){0});
    prefill(s, 0, 5);
    tft_prompt_end(s);
    prefill(s, 5, 12);
    assert_int_equal(tft_rewind(s, 7), TFT_OK);
    assert_int_equal(s->kv.held, 5);
    tft_prompt_end(s); /* what is not computed is not at a checkpoint */
    assert_int_equal(s->states.n, 1);
    tft_session_close(s);
    tft_model_close(m);
}

/* Never more than the caller allows; what goes lies between neighbours that are close. */
static void bounded(void **state)
{
    (void)state;
    struct tft_model *m = toy_model(0);
    for (uint32_t most = 1; most <= 3; most++) {
        struct tft_session *s = session(m, (struct tft_session_opts){.checkpoints = most});
        static const uint32_t ends[] = {20, 40, 400, 420, 600};
        for (uint32_t i = 0, at = 0; i < 5; at = ends[i++])
            prefill(s, at, ends[i]);
        assert_int_equal(s->states.n, most);
        assert_int_equal(s->states.checkpoint[most - 1].pos, 600);
        if (most == 3) {
            assert_int_equal(s->states.checkpoint[0].pos, 40);
            assert_int_equal(s->states.checkpoint[1].pos, 420);
        }
        uint64_t want = hash(s);
        assert_int_equal(tft_rewind(s, 500), TFT_OK);
        prefill(s, 500, 600);
        assert_int_equal(hash(s), want);
        tft_session_close(s);
    }
    tft_model_close(m);
}

/* A checkpoint is dropped, and makes room for others, if the cache cannot go back to it: its rings
   have lost tokens, or it has quantized some. */
static void those_that_serve_nothing_go(void **state)
{
    (void)state;
    static const struct {
        const char *kv;
        uint32_t n[2], oldest[2]; /* without windows, with windows: in all layers, so f16 */
    } caches[] = {{"f16", {11, 6}, {100, 600}},
                  {"kivi:residual=400", {3, 6}, {900, 600}},
                  {"kivi:residual=32,group=16", {1, 6}, {1100, 600}}};
    for (int i = 0; i < N_STATE; i++) {
        struct tft_model *m = toy_model(i);
        for (size_t c = 0; c < sizeof caches / sizeof *caches; c++) {
            struct tft_session *s =
                session(m, (struct tft_session_opts){
                               .kv = caches[c].kv, .n_batch = 100, .checkpoints = 20});
            int w = s->kv.ring != NULL;
            for (uint32_t t = 0; t < 1100; t += 100)
                prefill(s, t, t + 100);
            uint64_t want = hash(s);
            uint32_t oldest = s->states.checkpoint[0].pos;
            if (s->states.n != caches[c].n[w] || oldest != caches[c].oldest[w])
                fail_msg("toy %d, %s: %u, the first at %u", i, caches[c].kv, s->states.n, oldest);
            assert_int_equal(tft_rewind(s, oldest), TFT_OK);
            assert_int_equal(s->kv.held, oldest);
            if (oldest < 1100)
                prefill(s, oldest, 1100);
            assert_true(oldest == 1100 || hash(s) == want);
            tft_session_close(s);
        }
        tft_model_close(m);
    }
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

/* ---- what is refused */

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
        cmocka_unit_test(rewinds_to_checkpoints),
        cmocka_unit_test(rewinds_twice),
        cmocka_unit_test(where_a_prompt_ends),
        cmocka_unit_test(bounded),
        cmocka_unit_test(those_that_serve_nothing_go),
        cmocka_unit_test(stopped),
        cmocka_unit_test(slides),
        cmocka_unit_test(sizes),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
