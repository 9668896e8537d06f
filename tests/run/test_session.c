/* Sessions: the same bits on every ISA level, with any number of threads, however the tokens were
   fed; and the promises of the calls. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <pthread.h>

#include "fed.h"
#include "memory.h"
#include "model/open.h"
#include "models/registry.h"
#include "more_toys.h"

static const struct toy toys[] = {
    {.arch = "llama",
     .n_vocab = 47,
     .n_ctx = 640,
     .n_embd = 28,
     .n_layer = 2,
     .n_head = 3,
     .n_head_kv = 1,
     .head_dim = 8,
     .n_ff = 50,
     .n_rot = 8,
     .type = TFT_F16},
    {.arch = "qwen3",
     .n_vocab = 32,
     .n_ctx = 640,
     .n_embd = 32,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_ff = 48,
     .n_rot = 16,
     .type = TFT_BF16,
     .tied = true},
    {.arch = "gpt2",
     .n_vocab = 32,
     .n_ctx = 640,
     .n_embd = 20,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 10,
     .n_ff = 40,
     .type = TFT_F32,
     .tied = true},
};
enum { N_TOYS = sizeof toys / sizeof *toys };

static void same_bits_however_fed(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {1, 257};
    for (int i = 0; i < N_TOYS; i++) {
        const char *path = written(&toys[i]);
        uint64_t want = fed(path, 1, TOKENS, TOKENS, "f16");
        for (int c = 0; c < 2; c++)
            assert_int_equal(fed(path, 1, chunks[c], 512, "f16"), want);
        assert_int_equal(fed(path, 1, TOKENS, 33, "f16"), want);
    }
    const char *path = written(&toys[0]);
    assert_int_equal(fed(path, 1, 5, 512, "f32"), fed(path, 1, TOKENS, 40, "f32"));
}

static void same_bits_on_any_threads(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        const char *path = written(&toys[i]);
        uint64_t want = fed(path, 1, 100, 512, "f16");
        for (int threads = 2; threads <= 5; threads += threads - 1)
            assert_int_equal(fed(path, threads, 100, 512, "f16"), want);
        assert_int_equal(fed(path, 3, 1, 512, "f16"), want);
    }
}

/* These numbers are the contract: every CPU, compiler, operating system and build of tuffet gives
   them. */
static const uint64_t contract[N_TOYS] = {0x215cfa41f04a20ea, 0xd5a60d8327c70786,
                                          0x151a932168717505};

static void same_bits_on_every_isa_and_machine(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        const char *path = written(&toys[i]);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            assert_string_equal(tft_cpu_name(), tft_kernels_name(isa));
            uint64_t got = fed(path, 2, 100, 512, "f16");
            if (got != contract[i])
                fail_msg("%s on %s: 0x%016llx", toys[i].arch, tft_cpu_name(),
                         (unsigned long long)got);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    }
    assert_int_equal(tft_cpu_limit("quantum"), TFT_ERR_ARG);
}

/* The same of the other architectures. */
static const uint64_t more_contracts[N_MORE] = {
    0x3299147159087258, /* gemma */
    0xb0bc37ffb73129fc, /* granite */
    0xb877fb8b9f9fdad8, /* minicpm */
    0x4963a36fc4590327, /* olmo2 */
    0x751b16acdc15fd4e, /* exaone4 */
    0xf7fdbb8536fee19e, /* smollm3 */
    0x08183cbe8e7dbb60, /* ernie4_5 */
    0x283e7cff8af82745, /* hunyuan-dense */
    0x84d23c5ec1b91ef6, /* phi3 */
    0xccf34ed999f27c4f, /* stablelm */
    0x4e21660f22cefe49, /* its large form */
    0x356c9a8f4709ba2d, /* gptneox */
    0x88bf63bf03a75461, /* one half after the other */
    0x0b70c6d7d157b77f, /* falcon */
    0x0959985bf80fd426, /* its large form */
    0x1ab036338d358f81, /* starcoder2 */
    0x81546d247c2474ba, /* gemma2 */
    0xcd0d76aa9296688d, /* gemma3 */
    0x7c61abd160f950a2, /* olmo2 with windows */
    0xcd93d910e9b5db8a, /* exaone4 with windows */
    0xd0ec3c7730c69326, /* mistral3 */
    0x5e622da5328c54ce, /* bitnet */
    0xb7e8a3830524f909, /* with SiLU */
    0x9aa6e3595fa4c2df, /* lfm2 */
    0x6b6a72732505d4bf, /* lfm2 with windows */
    0xf6abd94fc20c07e9, /* qwen35 */
    0x7c5b910a2b0c221b, /* qwen35, every other layer */
    0x6e47cd50e374f455, /* granitehybrid */
    0x55c78fa6bd37ad8b, /* granitehybrid with groups */
    0xfef6dc7c6f914a5d, /* falcon-h1 */
};

static void more_architectures_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < N_MORE; i++) {
        const char *path = written(&more_toys[i]);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            if (!in_turn(isa, i, tft_kernels_isas()))
                continue;
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            uint64_t got = fed(path, 1 + isa % 2 * 2, 257, 512, "f16");
            if (got != more_contracts[i])
                fail_msg("%s on %s: 0x%016llx", more_toys[i].arch, tft_cpu_name(),
                         (unsigned long long)got);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        assert_int_equal(fed(path, 2 + i % 4, 1, 512, "f16"), more_contracts[i]);
        assert_int_equal(fed(path, 2, TOKENS, 33, "f16"), more_contracts[i]);
    }
}

static void sync_and_rewind(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct tft_session *s = session(m, (struct tft_session_opts){.capacity = 400});
    int32_t a[400], b[400];
    toy_tokens(1, m->n_vocab, a, 400);
    toy_tokens(1, m->n_vocab, b, 400);
    b[300] = (a[300] + 1) % (int32_t)m->n_vocab;

    assert_int_equal(tft_prefill(s, a, 400), TFT_OK);
    uint64_t ha = hash_logits(1, s);
    assert_int_equal(tft_sync(s, b, 350), TFT_OK);
    assert_int_equal(tft_pos(s), 350);
    assert_memory_equal(tft_tokens(s), b, 350 * sizeof *b);
    uint64_t hb = hash_logits(1, s);
    assert_int_not_equal(ha, hb);

    assert_int_equal(tft_sync(s, a, 400), TFT_OK);
    assert_int_equal(hash_logits(1, s), ha);
    assert_int_equal(tft_sync(s, a, 400), TFT_OK); /* nothing new: the last token again */
    assert_int_equal(hash_logits(1, s), ha);
    assert_int_equal(tft_sync(s, tft_tokens(s), 350), TFT_OK); /* its own tokens */
    assert_memory_equal(tft_tokens(s), a, 350 * sizeof *a);

    assert_int_equal(tft_rewind(s, 300), TFT_OK);
    assert_null(tft_logits(s, 0));
    assert_int_equal(tft_prefill(s, b + 300, 50), TFT_OK);
    assert_int_equal(hash_logits(1, s), hb);
    assert_int_equal(tft_rewind(s, 351), TFT_ERR_ARG);
    assert_int_equal(tft_pos(s), 350);
    tft_session_close(s);
    tft_model_close(m);
}

static void logits_of_several_tokens(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[1]));
    int32_t tokens[100];
    toy_tokens(1, m->n_vocab, tokens, 100);
    float want[100][32];
    struct tft_session *one = session(m, (struct tft_session_opts){0});
    assert_null(tft_logits(one, 0));
    for (int i = 0; i < 100; i++) {
        assert_int_equal(tft_decode(one, tokens[i]), TFT_OK);
        memcpy(want[i], tft_logits(one, 0), sizeof want[i]);
        assert_null(tft_logits(one, 1));
    }
    tft_session_close(one);

    static const uint32_t batches[] = {10, 13, 99, 512};
    for (int b = 0; b < 4; b++) {
        struct tft_session *s =
            session(m, (struct tft_session_opts){.n_batch = batches[b], .n_logits = 10});
        assert_int_equal(tft_prefill(s, tokens, 100), TFT_OK);
        for (size_t back = 0; back < 10; back++)
            assert_memory_equal(tft_logits(s, back), want[99 - back], sizeof want[0]);
        assert_null(tft_logits(s, 10));
        tft_session_close(s);
    }
    tft_model_close(m);
}

static void says(const struct tft_session *s, enum tft_status code, const char *line)
{
    assert_int_equal(tft_session_error(s)->code, code);
    assert_string_equal(tft_session_error(s)->msg, line);
}

static void what_does_not_fit_changes_nothing(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct tft_session *s = session(m, (struct tft_session_opts){.capacity = 10});
    int32_t tokens[11];
    toy_tokens(1, m->n_vocab, tokens, 11);
    assert_int_equal(tft_prefill(s, tokens, 8), TFT_OK);
    uint64_t h = hash_logits(1, s);

    assert_int_equal(tft_session_error(s)->code, TFT_OK);
    assert_int_equal(tft_prefill(s, tokens, 3), TFT_ERR_FULL);
    says(s, TFT_ERR_FULL, "the context of 10 tokens is full: 3 more do not fit in the 2 left");
    assert_int_equal(tft_sync(s, tokens, 11), TFT_ERR_FULL);
    says(s, TFT_ERR_FULL, "the context of 10 tokens is full: 11 more do not fit in the 10 left");
    assert_int_equal(tft_prefill(s, tokens, 0), TFT_ERR_ARG);
    says(s, TFT_ERR_ARG, "there are no tokens to compute");
    assert_int_equal(tft_sync(s, tokens, 0), TFT_ERR_ARG);
    assert_int_equal(tft_decode(s, -1), TFT_ERR_ARG);
    says(s, TFT_ERR_ARG, "token -1 is not within the vocabulary, 0 .. 46");
    assert_int_equal(tft_decode(s, (int32_t)m->n_vocab), TFT_ERR_ARG);
    assert_int_equal(tft_rewind(s, 9), TFT_ERR_ARG);
    says(s, TFT_ERR_ARG, "cannot rewind to 9: there are 8 tokens");
    tokens[9] = INT32_MAX;
    assert_int_equal(tft_sync(s, tokens, 10), TFT_ERR_ARG);
    assert_int_equal(tft_pos(s), 8);
    assert_int_equal(hash_logits(1, s), h);
    assert_int_equal(tft_prefill(s, tokens, 2), TFT_OK);
    says(s, TFT_OK, "");
    assert_int_equal(tft_pos(s), tft_capacity(s));
    assert_int_equal(tft_decode(s, 1), TFT_ERR_FULL);
    tft_session_close(s);
    tft_model_close(m);
}

static void memory_is_known_before(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct memory mem = {0};
    struct tft_allocator a = memory_allocator(&mem);
    struct tft_session_opts o = {
        .size = sizeof o, .allocator = &a, .capacity = 500, .n_threads = 3};
    struct tft_session *s = session(m, o);
    assert_int_equal(mem.in_use, tft_session_bytes(m, &o, NULL));
    assert_int_equal(mem.calls, 1);

    int32_t tokens[400];
    toy_tokens(1, m->n_vocab, tokens, 400);
    struct tft_sampler z = {.temperature = 1};
    assert_int_equal(tft_prefill(s, tokens, 400), TFT_OK);
    for (int i = 0; i < 50; i++)
        assert_int_equal(tft_decode(s, tft_sample(&z, s)), TFT_OK);
    assert_int_equal(mem.calls, 1);
    tft_session_close(s);
    assert_int_equal(mem.in_use, 0);

    mem.fail_at = 2;
    assert_int_equal(tft_session_open(&s, m, &o, NULL), TFT_ERR_NOMEM);
    assert_null(s);
    o.capacity = 641;
    assert_int_equal(tft_session_open(&s, m, &o, NULL), TFT_ERR_ARG);
    assert_int_equal(tft_session_bytes(m, &o, NULL), 0);
    o.capacity = 0;
    o.n_threads = -1;
    assert_int_equal(tft_session_open(&s, m, &o, NULL), TFT_ERR_ARG);
    o.n_threads = 1;
    o.n_batch = 8;
    o.n_logits = 9;
    assert_int_equal(tft_session_open(&s, m, &o, NULL), TFT_ERR_ARG);
    assert_int_equal(tft_session_bytes(m, &o, NULL), 0);
    o.n_logits = 8;
    o.capacity = 5; /* no more tokens than that will have logits */
    assert_true(tft_session_bytes(m, &o, NULL) > 0);
    struct {
        struct tft_session_opts o;
        uint64_t newer;
    } newer = {.o = o, .newer = 7};
    newer.o.size = sizeof newer;
    assert_int_equal(tft_session_open(&s, m, &newer.o, NULL), TFT_ERR_ARG);
    o.kv = "kivi:bits=9";
    assert_int_equal(tft_session_open(&s, m, &o, NULL), TFT_ERR_ARG);
    tft_session_close(NULL);
    tft_model_close(m);
}

/* So it is before loading, where one layer needs buffers for codes and another for floats. */
static void memory_is_planned_from_all_layers(void **state)
{
    (void)state;
    struct toy t = toys[1];
    size_t codes = 0;
    t.type = TFT_Q8_0;
    t.n_ff = 64;
    for (t.floats = 0; t.floats < 4; t.floats++) {
        const char *path = written(&t);
        struct tft_session_opts o = {.size = sizeof o, .capacity = 500, .n_threads = 3};
        struct tft_model *m = opened(path), plan = {0};
        assert_int_equal(tft_source_open(&plan.source, path, NULL, NULL, NULL), TFT_OK);
        assert_int_equal(tft_open_plan(&plan, tft_archs, TFT_WEIGHTS_STORED, NULL, NULL), TFT_OK);
        size_t bytes = tft_session_bytes(m, &o, NULL);
        assert_int_equal(tft_session_bytes(&plan, &o, NULL), bytes);
        codes = t.floats ? codes : bytes;
        assert_int_equal(bytes != codes, t.floats != 0);
        tft_source_close(&plan.source);
        tft_model_close(m);
    }
}

/* Two threads of the program, each with a session of its own on one model. */
struct worker {
    struct tft_model *m;
    uint64_t hash;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    struct tft_session *s = session(w->m, (struct tft_session_opts){.n_threads = 2});
    int32_t tokens[300];
    toy_tokens(5, w->m->n_vocab, tokens, 300);
    w->hash = 1;
    for (int i = 0; i < 300; i += 20) {
        tft_prefill(s, tokens + i, 20);
        w->hash = hash_logits(w->hash, s);
    }
    tft_session_close(s);
    return NULL;
}

static void sessions_share_a_model(void **state)
{
    (void)state;
    struct worker w[3] = {{.m = opened(written(&toys[0]))}};
    w[1] = w[2] = w[0];
    work(&w[2]);
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, work, &w[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    assert_int_equal(w[0].hash, w[2].hash);
    assert_int_equal(w[1].hash, w[2].hash);
    tft_model_close(w[0].m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits_however_fed),
        cmocka_unit_test(same_bits_on_any_threads),
        cmocka_unit_test(same_bits_on_every_isa_and_machine),
        cmocka_unit_test(more_architectures_same_bits),
        cmocka_unit_test(sync_and_rewind),
        cmocka_unit_test(logits_of_several_tokens),
        cmocka_unit_test(what_does_not_fit_changes_nothing),
        cmocka_unit_test(memory_is_known_before),
        cmocka_unit_test(memory_is_planned_from_all_layers),
        cmocka_unit_test(sessions_share_a_model),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
