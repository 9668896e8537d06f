/* Experts of a file that may not all stay in memory: the same bits, no more bytes than the bound,
   the least recently used experts go first, and bounds that make no sense are refused. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "expert_toys.h"
#include "fed.h"
#include "layer_toys.h"
#include "memory.h"
#include "model/resident.h"
#include "models/open.h"
#include "tools/pack/pack.h"
#include "w8a8.h"

enum { PROMPT = 60, MOST = 90, EXPERTS = 16, USED = 2 };

static const struct toy_number of_experts[] = {{"expert_count", TOY_U32, EXPERTS},
                                               {"expert_used_count", TOY_U32, USED},
                                               {"expert_feed_forward_length", TOY_U32, 256},
                                               {0}};

/* The matrices of an expert take several pages each. */
static struct toy toy(enum tft_dtype type)
{
    return (struct toy){.arch = "qwen3moe",
                        .n_vocab = 40,
                        .n_ctx = 640,
                        .n_embd = 256,
                        .n_layer = 3,
                        .n_head = 4,
                        .n_head_kv = 2,
                        .head_dim = 64,
                        .n_ff = 256,
                        .n_rot = 64,
                        .type = type,
                        .numbers = of_experts,
                        .seed = 5};
}

static const char *packed_toy(const struct toy *t)
{
    const char *to = in_folder("p.gguf");
    struct tft_model *m;
    struct pack_result r;
    struct tft_error err;
    assert_int_equal(tft_model_open_unexpanded(&m, written(t), NULL, &err), TFT_OK);
    if (pack(m, to, &(struct pack_opts){.n_threads = 2}, &r, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_model_close(m);
    return to;
}

static const char *packed(enum tft_dtype type)
{
    struct toy t = toy(type);
    return packed_toy(&t);
}

static struct tft_model *bounded(const char *path, uint64_t most)
{
    struct tft_model_opts o = {.size = sizeof o, .experts_bytes = most};
    struct tft_model *m;
    struct tft_error err;
    if (tft_model_open(&m, path, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return m;
}

/* The matrices of an expert have the same size. */
static uint64_t matrix_bytes(const char *path)
{
    struct tft_model *m = opened(path);
    const struct tft_mat *w = &m->layer[0].experts.down.w;
    uint64_t bytes = w->tensor->bytes / EXPERTS;
    tft_model_close(m);
    return bytes;
}

/* The logits after a prompt, and after each of some tokens. */
static uint64_t hash_of(const struct tft_model *m, int threads, uint32_t batch)
{
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = threads, .n_batch = batch});
    int32_t tokens[MOST];
    uint64_t h = 0xcbf29ce484222325;
    toy_tokens(3, m->n_vocab, tokens, MOST);
    feed(s, tokens, PROMPT, PROMPT);
    h = hash_logits(h, s);
    for (int i = PROMPT; i < MOST; i++) {
        assert_int_equal(tft_decode(s, tokens[i]), TFT_OK);
        h = hash_logits(h, s);
    }
    tft_session_close(s);
    return h;
}

/* ---- same bits */

static void same_bits(const char *path)
{
    uint64_t one = matrix_bytes(path), all = 3 * 3 * EXPERTS * one;
    struct tft_model *free = opened(path);
    assert_null(free->resident);
    uint64_t want = hash_of(free, 1, 512);
    tft_model_close(free);
    const uint64_t bounds[] = {2 * USED * 2 * one, all / 3, all - 1};
    for (int i = 0; i < 3; i++)
        for (int threads = 1; threads < 4; threads++) {
            struct tft_model *m = bounded(path, bounds[i]);
            assert_non_null(m->resident);
            if (hash_of(m, threads, threads == 2 ? 7 : 512) != want)
                fail_msg("other logits with a bound of %llu", (unsigned long long)bounds[i]);
            assert_in_range(tft_resident_bytes(m->resident), 1, bounds[i]);
            if (i < 2) /* some were evicted */
                assert_true(tft_resident_read(m->resident) > bounds[i]);
            tft_model_close(m);
        }
}

static void packed_files(void **state)
{
    (void)state;
    same_bits(packed(TFT_Q8_0));
    same_bits(packed(TFT_Q4_K));
}

static void files_of_floats(void **state)
{
    (void)state;
    struct toy t = toy(TFT_BF16);
    same_bits(written(&t));
    t.arch = "granitemoe"; /* gate and up share a tensor */
    t.fused_experts = true;
    same_bits(written(&t));
}

static void w8a8_files(void **state)
{
    (void)state;
    struct toy t = toy(TFT_F32);
    struct quantize_opts o = usual(&t);
    same_bits(quantized(&t, &o));
}

/* The least bound of a model, as the message says it. */
static uint64_t least_bound(const char *path)
{
    struct tft_model_opts o = {.size = sizeof o, .experts_bytes = 1};
    struct tft_model *m;
    struct tft_error err;
    assert_int_equal(tft_model_open(&m, path, &o, &err), TFT_ERR_ARG);
    const char *needs = strstr(err.msg, "needs ");
    assert_non_null(needs);
    return strtoull(needs + 6, NULL, 10);
}

static void with_the_least_bound(const struct toy *t)
{
    const char *path = written(t);
    struct tft_model *free = opened(path), *m = bounded(path, least_bound(path));
    assert_non_null(m->resident);
    if (hash_of(m, 2, 512) != hash_of(free, 1, 512))
        fail_msg("%s: other logits", t->arch);
    assert_true(tft_resident_read(m->resident) > tft_resident_bytes(m->resident));
    tft_model_close(m);
    tft_model_close(free);
}

/* Shared experts, leading layers without experts, other routers, and experts beside a
   feed-forward. */
static void architectures(void **state)
{
    (void)state;
    for (int i = 0; i < N_EXPERTS; i++)
        with_the_least_bound(&expert_toys[i]);
    with_the_least_bound(&layer_toys[2]);
}

struct both {
    const struct tft_model *m;
    uint64_t hash[2];
};

static void feed_own(void *arg, int tid, int n)
{
    struct both *b = arg;
    for (int i = tid; i < 2; i += n)
        b->hash[i] = hash_of(b->m, 1, 512);
}

/* The sessions of a model share the bookkeeping. */
static void two_sessions_at_once(void **state)
{
    (void)state;
    const char *path = packed(TFT_Q8_0);
    uint64_t most = matrix_bytes(path) * EXPERTS;
    struct both b = {.m = bounded(path, most)};
    struct tft_model *free = opened(path);
    tft_port_team(2, feed_own, &b);
    assert_true(b.hash[0] == hash_of(free, 2, 512));
    assert_true(b.hash[1] == b.hash[0]);
    assert_in_range(tft_resident_bytes(b.m->resident), 1, most);
    tft_model_close(free);
    tft_model_close((struct tft_model *)(uintptr_t)b.m);
}

/* ---- the bound */

/* Bytes of a mapped file that this process has in memory; 0 where the system does not say. */
static double pages_of(const char *path)
{
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[4096];
    double kib, sum = 0;
    bool is_path = false;
    while (f && fgets(line, sizeof line, f)) {
        if (strcspn(line, "-") < strcspn(line, " ")) /* "from-to access ... path" */
            is_path = strstr(line, path);
        else if (is_path && sscanf(line, "Rss: %lf", &kib) == 1)
            sum += kib * 1024;
    }
    if (f)
        fclose(f);
    return sum;
}

/* The system maps up to 64 KB around each page that is read, also of experts that are not in memory
   by the bookkeeping: twice the bound is allowed. The unbounded model has more. */
static void pages_are_given_back(void **state)
{
    (void)state;
    static const struct toy_number numbers[] = {{"expert_count", TOY_U32, EXPERTS},
                                                {"expert_used_count", TOY_U32, USED},
                                                {"expert_feed_forward_length", TOY_U32, 2048},
                                                {0}};
    struct toy t = toy(TFT_Q8_0);
    t.n_layer = 1;
    t.numbers = numbers;
    const char *path = packed_toy(&t);
    uint64_t all = 3 * EXPERTS * matrix_bytes(path), most = all / 6;
    double pages[2], rest = 0;
    for (int i = 0; i < 2; i++) {
        struct tft_model *m = i ? bounded(path, most) : opened(path);
        rest = (double)(tft_source_bytes(&m->source) - all);
        hash_of(m, 2, 512);
        pages[i] = pages_of(path);
        tft_model_close(m);
    }
    if (pages[0] == 0)
        skip_because("the system does not count pages");
    assert_true(pages[0] > 2 * (double)most + rest);
    if (!(pages[1] < 2 * (double)most + rest))
        fail_msg("%.0f bytes are in memory; the bound is %.0f, the rest of the file %.0f", pages[1],
                 (double)most, rest);
}

static void the_least_recently_used_go_first(void **state)
{
    (void)state;
    const char *path = packed(TFT_Q8_0);
    uint64_t unit = 2 * matrix_bytes(path); /* gate and up */
    struct tft_model *m = bounded(path, 4 * unit);
    struct tft_resident *r = m->resident;
    static const struct {
        uint32_t expert, reads;
    } uses[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {0, 4}, {4, 5}, {0, 5}, {3, 5}, {1, 6}, {2, 7},
                {0, 7}, {4, 8}};
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
        tft_resident_use(r, tft_expert_unit(m, 1, TFT_EXPERT_HIDDEN, uses[i].expert), false);
        assert_int_equal(tft_resident_read(r), uses[i].reads * unit);
        assert_in_range(tft_resident_bytes(r), unit, 4 * unit);
    }
    /* down is half as large: another half has to go */
    tft_resident_use(r, tft_expert_unit(m, 2, TFT_EXPERT_DOWN, EXPERTS - 1), false);
    assert_int_equal(tft_resident_bytes(r), 3 * unit + unit / 2);
    tft_model_close(m);
}

/* Likely experts are not read while most turn out wrong; later they are tried again. */
static void wrong_guesses_end(void **state)
{
    (void)state;
    const char *path = packed(TFT_Q8_0);
    struct tft_model *m = bounded(path, 8 * matrix_bytes(path));
    struct tft_resident *r = m->resident;
    int wrong = 0, refused = 0;
    for (; tft_resident_guesses(r) && wrong < 10000; wrong++)
        tft_resident_use(r, tft_expert_unit(m, 0, TFT_EXPERT_HIDDEN, (uint32_t)wrong % EXPERTS),
                         true);
    assert_in_range(wrong, 100, 1000);
    for (int i = 0; i < 50; i++) /* of a layer's guesses several may turn out wrong at once */
        tft_resident_use(
            r, tft_expert_unit(m, 0, TFT_EXPERT_HIDDEN, (uint32_t)(wrong + i) % EXPERTS), true);
    while (!tft_resident_guesses(r) && refused < 10000)
        refused++;
    assert_in_range(refused, 1, 1000);
    for (int i = 0; i < 10000; i++) { /* right ones go on */
        uint32_t unit = tft_expert_unit(m, 1, TFT_EXPERT_HIDDEN, (uint32_t)i % EXPERTS);
        tft_resident_use(r, unit, true);
        tft_resident_use(r, unit, false);
    }
    assert_true(tft_resident_guesses(r));
    tft_model_close(m);
}

static void room_for_experts(void **state)
{
    (void)state;
    const uint64_t gb = 1000000000;
    assert_int_equal(tft_resident_room(0, 17 * gb, 15 * gb), 0);
    assert_int_equal(tft_resident_room(16 * gb, 14 * gb, 12 * gb), 0);
    assert_int_equal(tft_resident_room(16 * gb, 15 * gb, 12 * gb), 11 * gb);
    assert_int_equal(tft_resident_room(8 * gb, 17 * gb, 15 * gb), 5 * gb);
    assert_int_equal(tft_resident_room(2 * gb, 17 * gb, 15 * gb), 1);
    assert_int_equal(tft_resident_room(8 * gb, 10 * gb, 11 * gb), 7 * gb);
}

/* ---- bounds that are refused */

static void refused(const char *path, uint64_t most, enum tft_status want, const char *why)
{
    struct tft_model_opts o = {.size = sizeof o, .experts_bytes = most};
    struct tft_model *m;
    struct tft_error err;
    assert_int_equal(tft_model_open(&m, path, &o, &err), want);
    assert_null(m);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

static void senseless_bounds(void **state)
{
    (void)state;
    const char *path = packed(TFT_Q8_0);
    uint64_t least = 2 * USED * 2 * matrix_bytes(path);
    refused(path, 1, TFT_ERR_ARG, "one layer of one token needs");
    refused(path, least - 1, TFT_ERR_ARG, "one layer of one token needs");
    struct tft_model *m = bounded(path, UINT64_MAX);
    assert_null(m->resident); /* all of them may stay */
    tft_model_close(m);

    struct toy t = toy(TFT_Q8_0);
    refused(written(&t), UINT64_MAX, TFT_ERR_UNSUPPORTED, "make one with tuffet pack");
    t.arch = "qwen3";
    t.numbers = NULL;
    refused(written(&t), UINT64_MAX, TFT_ERR_UNSUPPORTED, "the model has no experts");
}

static void a_file_in_memory(void **state)
{
    (void)state;
    struct toy t = toy(TFT_F32);
    struct tft_map map;
    struct tft_model *m;
    assert_int_equal(tft_port_map(&map, written(&t)), 0);
    struct tft_model_opts o = {.size = sizeof o, .experts_bytes = 1 << 30};
    struct tft_error err;
    assert_int_equal(tft_model_open_mem(&m, map.data, map.size, &o, &err), TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "needs a mapped file"));
    tft_port_unmap(&map);
}

static void out_of_memory(void **state)
{
    (void)state;
    const char *path = packed(TFT_Q8_0);
    enum tft_status status = TFT_ERR_NOMEM;
    unsigned calls = 0;
    for (; status != TFT_OK && calls < 100; calls++) {
        struct memory memory = {.fail_at = calls + 1};
        struct tft_allocator a = memory_allocator(&memory);
        struct tft_model_opts o = {.size = sizeof o,
                                   .allocator = &a,
                                   .experts_bytes = EXPERTS * matrix_bytes(path)};
        struct tft_model *m;
        status = tft_model_open(&m, path, &o, NULL);
        if (status != TFT_OK)
            assert_int_equal(status, TFT_ERR_NOMEM);
        tft_model_close(m);
        assert_int_equal(memory.in_use, 0);
    }
    assert_in_range(calls, 3, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_files),
        cmocka_unit_test(files_of_floats),
        cmocka_unit_test(w8a8_files),
        cmocka_unit_test(architectures),
        cmocka_unit_test(two_sessions_at_once),
        cmocka_unit_test(pages_are_given_back),
        cmocka_unit_test(the_least_recently_used_go_first),
        cmocka_unit_test(wrong_guesses_end),
        cmocka_unit_test(room_for_experts),
        cmocka_unit_test(senseless_bounds),
        cmocka_unit_test(a_file_in_memory),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
