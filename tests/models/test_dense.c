/* The architectures of dense_toys.h through the whole chain: caches, codes of GGUF files, W8A8
   files, saved sessions; and parts of their formulas that are easy to get wrong. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "caches.h"
#include "dense_toys.h"
#include "model/open.h"
#include "models/registry.h"
#include "tools/quantize/tune/tune.h"
#include "w8a8.h"

static bool is(const struct toy *t, const char *arch) { return strcmp(t->arch, arch) == 0; }

static const struct toy *toy_of(const char *arch)
{
    for (int i = 0; i < N_DENSE; i++)
        if (is(&dense_toys[i], arch))
            return &dense_toys[i];
    fail_msg("no toy of %s", arch);
    return NULL;
}

/* Delta nets have states as wide as their heads. */
static bool has_delta(const struct toy *t) { return is(t, "qwen35moe") || is(t, "qwen3next"); }

/* Experts are chosen, and gates multiply numbers with each other: errors grow. */
static bool is_rough(const struct toy *t) { return toy_has_experts(t) || has_delta(t); }

/* ---- caches */

static void every_cache_has_the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_DENSE; i++) {
        const char *path = written(&dense_toys[i]);
        for (int c = 0; c < N_CACHES; c++)
            if (!caches[c].file && !strstr(caches[c].kv, "mixed") && in_turn(c, i, 5)) {
                uint64_t want = fed(path, 2, TOKENS, 512, caches[c].kv);
                if (fed(path, 1, 97, 60, caches[c].kv) != want)
                    fail_msg("%s with --kv %s: other logits", dense_toys[i].arch, caches[c].kv);
            }
    }
}

/* Floats have the bits of the C reference on every isa. */
static void the_same_bits_on_every_isa(void **state)
{
    (void)state;
    for (int i = 0; i < N_DENSE; i++) {
        const char *path = written(&dense_toys[i]);
        assert_int_equal(tft_cpu_limit(tft_kernels_name(0)), TFT_OK);
        uint64_t want = fed_until(TWO_SPANS, path, 2, TWO_SPANS, 512, "f16");
        for (int isa = 1; isa < tft_kernels_isas(); isa++) {
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            if (fed_until(TWO_SPANS, path, 3, 97, 100, "f16") != want)
                fail_msg("%s on %s: other logits", dense_toys[i].arch, tft_cpu_name());
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
        assert_int_equal(fed_until(TWO_SPANS, path, 4, 1, 512, "f16"), want);
    }
}

/* ---- codes of GGUF files */

static void codes(void **state)
{
    (void)state;
    for (int i = 0; i < N_DENSE; i++)
        for (int four = 0; four < 2; four++) {
            struct toy t = dense_toys[i];
            bool delta = has_delta(&t);
            if (!in_turn(four, i, 2))
                continue;
            t.n_embd = 64;
            t.n_head = 4;
            t.n_head_kv = 2;
            t.head_dim = delta ? 32 : 16;
            t.n_rot = t.n_rot == dense_toys[i].head_dim ? t.head_dim : 8;
            t.n_ff = 96;
            t.type = four ? TFT_Q4_0 : TFT_Q8_0;
            const char *path = written(&t);
            double off = from_floats(path);
            if (!(off > 1e-6 && off < (is_rough(&t) ? 0.3 : 0.05)))
                fail_msg("%s: off by %g", t.arch, off);
            uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
            assert_int_equal(fed_until(TWO_SPANS, path, 3, 97, 100, "f16"), want);
        }
}

/* ---- W8A8 */

static void near(const struct toy *t, const struct quantize_opts *o, double most, const char *what)
{
    double d = float_distance(t, quantized(t, o), 40);
    if (!(d > 0 && d < most))
        fail_msg("%s, %s: off by %.3f of the logits of floats", t->arch, what, d);
}

static void near_the_floats(void **state)
{
    (void)state;
    static uint8_t bits[LAYER_MATS * 8];
    memset(bits, 4, sizeof bits);
    for (int i = 0; i < N_DENSE; i++) {
        const struct toy *t = &dense_toys[i];
        struct quantize_opts o = usual(t);
        double most = is_rough(t) ? 0.2 : 0.15;
        near(t, &o, most, "as usual");
        o.range = by_token;
        if (in_turn(0, i, 2))
            near(t, &o, most, "dynamic");
        o.range = fixed;
        o.rotate = QUANTIZE_ROTATE_NONE;
        if (in_turn(1, i, 2))
            near(t, &o, most, "not rotated");
        o.rotate = QUANTIZE_ROTATE_ALL;
        if (rotatable(t) && !toy_has_experts(t))
            near(t, &o, most, "all rotated");
        o.rotate = QUANTIZE_ROTATE_O_DOWN;
        o.smooth = 0.5f;
        if (toy_has_pre_norm(t) && !toy_has_experts(t))
            near(t, &o, most, "smoothed");
        o.smooth = 0;
        o.bits = bits;
        o.group = 32;
        o.rounding = in_turn(0, i, 2) ? QUANTIZE_GPTQ : QUANTIZE_AWQ;
        near(t, &o, 0.9, "4 bits");
    }
}

static void w8a8_has_the_same_bits_however_fed(void **state)
{
    (void)state;
    for (int i = 0; i < N_DENSE; i++) {
        const struct toy *t = &dense_toys[i];
        struct quantize_opts o = usual(t);
        o.rotate = rotatable(t) && !toy_has_experts(t) ? QUANTIZE_ROTATE_ALL : o.rotate;
        const char *path = quantized(t, &o);
        uint64_t want = fed_until(TWO_SPANS, path, 1, TOKENS, 512, "f16");
        assert_int_equal(fed_until(TWO_SPANS, path, 3, 1, 512, "f16"), want);
        assert_int_equal(fed_until(TWO_SPANS, path, 2, 97, 33, "f16"), want);
        for (int isa = 0; isa < tft_kernels_isas(); isa++) {
            if (!in_turn(isa, i, tft_kernels_isas()))
                continue;
            assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
            assert_int_equal(fed_until(TWO_SPANS, path, 2, TOKENS, 512, "f16"), want);
        }
        assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    }
}

/* ---- saved sessions */

static void saved_sessions_go_on(void **state)
{
    (void)state;
    int32_t tokens[120];
    for (int i = 0; i < N_DENSE; i++) {
        struct tft_model *m = opened(written(&dense_toys[i]));
        const char *kv =
            i % 2 && !has_delta(&dense_toys[i]) ? "kivi:window=32,group=16" : "f16";
        struct tft_session *a = session(m, (struct tft_session_opts){.kv = kv}),
                           *b = session(m, (struct tft_session_opts){.kv = kv});
        toy_tokens(3, m->n_vocab, tokens, 120);
        assert_int_equal(tft_prefill(a, tokens, 100), TFT_OK);
        assert_int_equal(tft_session_save(a, NULL, in_folder("s.tft"), NULL), TFT_OK);
        assert_int_equal(tft_session_load(b, NULL, in_folder("s.tft"), NULL), TFT_OK);
        assert_int_equal(tft_prefill(a, tokens + 100, 20), TFT_OK);
        assert_int_equal(tft_prefill(b, tokens + 100, 20), TFT_OK);
        same_last_logits(a, b);
        tft_session_close(a);
        tft_session_close(b);
        tft_model_close(m);
    }
}

/* ---- refusals */

static void refuses(const struct toy *t, const struct quantize_opts *o, const char *why)
{
    struct tft_error err;
    assert_int_equal(convert(written(t), in_folder("no.gguf"), o, &err), TFT_ERR_UNSUPPORTED);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
}

static void quantize_refuses(void **state)
{
    (void)state;
    struct quantize_opts o = usual(toy_of("olmo"));
    o.rotate = QUANTIZE_ROTATE_O;
    refuses(toy_of("olmo"), &o,
            "cannot rotate attention's output in olmo, whose layers have "
            "bounded values");
    o = usual(toy_of("afmoe"));
    o.rotate = QUANTIZE_ROTATE_O;
    refuses(toy_of("afmoe"), &o,
            "cannot rotate attention's output in afmoe, whose layers have gates");
    o = usual(toy_of("afmoe"));
    o.kv = "skvq";
    refuses(toy_of("afmoe"), &o, "cannot be reordered, since its attention has a gate");
    o = usual(toy_of("mimo2"));
    o.rotate = QUANTIZE_ROTATE_O;
    refuses(toy_of("mimo2"), &o,
            "cannot rotate attention's output in mimo2, whose layers have values shorter than "
            "keys");
    o = usual(toy_of("mimo2"));
    o.kv = "skvq";
    refuses(toy_of("mimo2"), &o,
            "cannot be reordered, since its attention has a key longer than its value");
    o = usual(toy_of("cohere2"));
    o.rotate = QUANTIZE_ROTATE_ALL;
    refuses(toy_of("cohere2"), &o, "its norms are not RMSNorm");
}

static void tuning_refuses(void **state)
{
    (void)state;
    static const struct {
        const char *arch, *why;
    } refused[] = {{"arcee", "squared ReLU without a gate"},
                   {"nemotron", "squared ReLU without a gate"},
                   {"phi2", "a bias of logits"},
                   {"olmo", "bounded queries, keys and values"},
                   {"apertus", "xIELU"},
                   {"granite_swa", "attention with sinks"},
                   {"spark2_5", "a gate for each head of attention's output"},
                   {"gpt-oss", "mixtures of experts"},
                   {"dots1", "mixtures of experts"}};
    static const char *const known[] = {"cohere2",   "command-r", "exaone",  "glm4",    "internlm2",
                                        "maincoder", "plamo3",    "qwen2vl", "qwen3vl", "seed_oss"};
    struct tft_error err;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct tft_model *m = opened(written(toy_of(refused[i].arch)));
        assert_int_equal(tune_check(m, &err), TFT_ERR_UNSUPPORTED);
        if (!strstr(err.msg, refused[i].why))
            fail_msg("%s: \"%s\" is not \"%s\"", refused[i].arch, err.msg, refused[i].why);
        tft_model_close(m);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct tft_model *m = opened(written(toy_of(known[i])));
        if (tune_check(m, &err) != TFT_OK)
            fail_msg("%s: %s", known[i], err.msg);
        tft_model_close(m);
    }
}

/* ---- parts that are easy to get wrong */

/* Experts that make no sense, or that the architecture cannot have, and what refuses them. */
static void groups_that_make_no_sense(void **state)
{
    (void)state;
    static const struct {
        const char *arch;
        uint32_t experts, groups, used, chosen;
        const char *why;
    } bad[] = {{"bailingmoe2", 10, 4, 2, 3, "10 experts in 4 groups"},
               {"bailingmoe2", 12, 12, 3, 3, "12 experts in 12 groups"},
               {"bailingmoe2", 12, 4, 1, 4, "12 experts in 4 groups, of which a token uses 1"},
               {"dots1", 12, 4, 2, 3, "experts in groups"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct toy t = *toy_of(bad[i].arch);
        struct tft_model *m;
        struct tft_error err;
        const struct toy_number numbers[] = {{"expert_count", TOY_U32, bad[i].experts},
                                             {"expert_used_count", TOY_U32, bad[i].chosen},
                                             {"expert_feed_forward_length", TOY_U32, 32},
                                             {"expert_shared_feed_forward_length", TOY_U32, 32},
                                             {"expert_gating_func", TOY_U32, 2},
                                             {"expert_group_count", TOY_U32, bad[i].groups},
                                             {"expert_group_used_count", TOY_U32, bad[i].used},
                                             {"leading_dense_block_count", TOY_U32, 1},
                                             {0}};
        t.numbers = numbers;
        assert_int_not_equal(tft_model_open(&m, written(&t), NULL, &err), TFT_OK);
        if (!strstr(err.msg, bad[i].why))
            fail_msg("\"%s\" is not \"%s\"", err.msg, bad[i].why);
    }
}

/* Of 6 experts in 3 groups, of which the best takes part: the group with the largest sum of two
   beats the group with the largest expert; a bias counts. */
static void a_group_counts_its_two_best(void **state)
{
    (void)state;
    struct tft_model m = {.n_expert = 6,
                          .n_expert_used = 2,
                          .expert_scale = 1,
                          .expert_sigmoid = true,
                          .n_expert_group = 3,
                          .n_group_used = 1};
    const float score[] = {5, -9, 2, 2, 1, 1}, bias[] = {0, 0, 0, 0, 0.5f, 0.5f};
    struct tft_route r[2];
    float copy[6];
    memcpy(copy, score, sizeof copy);
    tft_routes_choose(&m, NULL, copy, r);
    assert_int_equal(r[0].expert, 2);
    assert_int_equal(r[1].expert, 3);
    memcpy(copy, score, sizeof copy);
    tft_routes_choose(&m, bias, copy, r);
    assert_int_equal(r[0].expert, 4);
    assert_int_equal(r[1].expert, 5);
    m.n_group_used = 3;
    memcpy(copy, score, sizeof copy);
    tft_routes_choose(&m, NULL, copy, r);
    assert_int_equal(r[0].expert, 0);
    assert_int_equal(r[1].expert, 2);
}

/* gpt-oss: weights are the softmax of the chosen scores. */
/* Values that mimo2 cannot have. */
static void values_that_make_no_sense(void **state)
{
    (void)state;
    static const struct {
        double length;
        bool windows;
        uint32_t heads;
        const char *why;
    } bad[] = {{17, true, 2, "values of 17 numbers are longer than keys of 16"},
               {8, false, 2, "mimo2.attention.sliding_window_pattern is not a list of bools"},
               {8, true, 3, "layer 1 has 3 KV heads for 4 heads"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct toy t = *toy_of("mimo2");
        struct tft_model *m;
        struct tft_error err;
        const uint32_t heads[] = {4, bad[i].heads, 2, 1};
        const struct toy_number numbers[] = {{"attention.value_length", TOY_U32, bad[i].length},
                                             {"attention.sliding_window", TOY_U32, 30},
                                             {"expert_count", TOY_U32, 6},
                                             {"expert_used_count", TOY_U32, 2},
                                             {"expert_feed_forward_length", TOY_U32, 32},
                                             {0}};
        t.numbers = numbers;
        t.kv_heads = heads;
        t.windows = bad[i].windows ? t.windows : NULL;
        assert_int_not_equal(tft_model_open(&m, written(&t), NULL, &err), TFT_OK);
        if (!strstr(err.msg, bad[i].why))
            fail_msg("\"%s\" is not \"%s\"", err.msg, bad[i].why);
    }
}

/* The cache has values as long as keys, with zeros at their ends. */
static void short_values_end_in_zeros(void **state)
{
    (void)state;
    const int32_t tokens[] = {3, 1, 4};
    struct tft_model *m = opened(written(toy_of("mimo2")));
    struct tft_session *s = session(m, (struct tft_session_opts){.kv = "f32"});
    assert_int_equal(tft_prefill(s, tokens, 3), TFT_OK);
    for (uint32_t h = 0; h < 2; h++) {
        const float *v = tft_kv_values(&s->kv, 1, h, 2);
        for (uint32_t k = 0; k < 16; k++)
            assert_int_equal(v[k] == 0, k >= 8);
    }
    tft_session_close(s);
    tft_model_close(m);
}

static void weights_of_the_chosen(void **state)
{
    (void)state;
    struct tft_model m = {
        .n_expert = 4, .n_expert_used = 2, .expert_scale = 1, .expert_chosen = true};
    float score[] = {1, 3, -1, 2};
    struct tft_route r[2];
    tft_routes_choose(&m, NULL, score, r);
    assert_int_equal(r[0].expert, 1);
    assert_int_equal(r[1].expert, 3);
    assert_true(fabs((double)r[0].weight - exp(3) / (exp(3) + exp(2))) < 1e-6);
    assert_true(fabs((double)r[1].weight - exp(2) / (exp(3) + exp(2))) < 1e-6);
}

/* Sessions are sized by the parts of a model before it is opened. */
static void plans_have_the_parts_of_models(void **state)
{
    (void)state;
    for (int i = 0; i < N_DENSE; i++) {
        const char *path = written(&dense_toys[i]);
        struct tft_model *m = opened(path), plan = {0};
        assert_int_equal(tft_source_open(&plan.source, path, NULL, NULL, NULL), TFT_OK);
        assert_int_equal(tft_open_plan(&plan, tft_archs, TFT_WEIGHTS_STORED, NULL, NULL), TFT_OK);
        if (plan.parts != m->parts)
            fail_msg("%s: parts %#llx, and %#llx planned", dense_toys[i].arch,
                     (unsigned long long)m->parts, (unsigned long long)plan.parts);
        tft_source_close(&plan.source);
        tft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cache_has_the_same_bits_however_fed),
        cmocka_unit_test(the_same_bits_on_every_isa),
        cmocka_unit_test(codes),
        cmocka_unit_test(near_the_floats),
        cmocka_unit_test(w8a8_has_the_same_bits_however_fed),
        cmocka_unit_test(saved_sessions_go_on),
        cmocka_unit_test(quantize_refuses),
        cmocka_unit_test(tuning_refuses),
        cmocka_unit_test(groups_that_make_no_sense),
        cmocka_unit_test(a_group_counts_its_two_best),
        cmocka_unit_test(values_that_make_no_sense),
        cmocka_unit_test(short_values_end_in_zeros),
        cmocka_unit_test(weights_of_the_chosen),
        cmocka_unit_test(plans_have_the_parts_of_models),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
