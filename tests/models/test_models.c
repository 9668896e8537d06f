/* Every architecture against the double-precision oracle, on small random models. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "altup_toys.h"
#include "dense_toys.h"
#include "expert_toys.h"
#include "folder.h"
#include "half_toys.h"
#include "latent_toys.h"
#include "layer_toys.h"
#include "model/model.h"
#include "more_toys.h"
#include "oracle/oracle.h"
#include "rwkv_toys.h"
#include "toy.h"
#include "tuffet.h"

/* Tokens: LONG reaches into attention's second span, which begins at 256. Both are small because
   these tests also run under emulation. */
enum { SHORT = 40, LONG = 260, WINDOWED = 300 };

/* The largest difference of logits over n tokens, relative to the largest logit. */
static double difference(const char *path, uint32_t n, const char *kv, enum tft_weights weights)
{
    struct tft_error err;
    struct tft_model *m;
    struct tft_session *s = NULL;
    struct tft_model_opts mo = {.size = sizeof mo, .weights = weights};
    struct tft_session_opts so = {.size = sizeof so, .kv = kv, .n_logits = n, .n_threads = 2};
    if (tft_model_open(&m, path, &mo, &err) != TFT_OK ||
        tft_session_open(&s, m, &so, &err) != TFT_OK)
        fail_msg("%s", err.msg);

    struct tft_source src;
    assert_int_equal(tft_source_open(&src, path, NULL, NULL, NULL), TFT_OK);
    struct oracle *o = oracle_open(&src, n);
    assert_non_null(o);

    int32_t tokens[WINDOWED];
    toy_tokens(7, oracle_vocab(o), tokens, n);
    assert_int_equal(tft_prefill(s, tokens, n), TFT_OK);
    double worst = 0, largest = 0;
    for (uint32_t t = 0; t < n; t++) {
        const double *want = oracle_step(o, tokens[t]);
        const float *got = tft_logits(s, n - 1 - t);
        assert_non_null(got);
        for (uint32_t i = 0; i < oracle_vocab(o); i++) {
            double off = fabs(want[i] - (double)got[i]);
            assert_true(off < 1e9); /* no NaN */
            worst = fmax(worst, off);
            largest = fmax(largest, fabs(want[i]));
        }
    }
    oracle_close(o);
    tft_source_close(&src);
    tft_session_close(s);
    tft_model_close(m);
    return worst / largest;
}

/* Head sizes, ratios and widths that are multiples of a CPU's vectors, and some that are not. */
static const struct {
    const char *what;
    struct toy toy;
} models[] = {
    {"llama, grouped queries",
     {.arch = "llama",
      .n_vocab = 97,
      .n_ctx = 320,
      .n_embd = 48,
      .n_layer = 3,
      .n_head = 6,
      .n_head_kv = 2,
      .head_dim = 8,
      .n_ff = 72,
      .n_rot = 8}},
    {"llama, tied head",
     {.arch = "llama",
      .n_vocab = 64,
      .n_ctx = 320,
      .n_embd = 64,
      .n_layer = 2,
      .n_head = 4,
      .n_head_kv = 4,
      .head_dim = 16,
      .n_ff = 96,
      .n_rot = 16,
      .tied = true}},
    {"llama, linear RoPE scaling",
     {.arch = "llama",
      .n_vocab = 64,
      .n_ctx = 320,
      .n_embd = 64,
      .n_layer = 2,
      .n_head = 2,
      .n_head_kv = 1,
      .head_dim = 32,
      .n_ff = 96,
      .n_rot = 32,
      .linear_scaling = 3.5f}},
    {"llama, llama3 RoPE scaling",
     {.arch = "llama",
      .n_vocab = 64,
      .n_ctx = 320,
      .n_embd = 64,
      .n_layer = 2,
      .n_head = 2,
      .n_head_kv = 1,
      .head_dim = 32,
      .n_ff = 96,
      .n_rot = 32,
      .llama3_scaling = true}},
    {"llama, part of a head rotated, odd sizes",
     {.arch = "llama",
      .n_vocab = 31,
      .n_ctx = 301,
      .n_embd = 37,
      .n_layer = 2,
      .n_head = 3,
      .n_head_kv = 1,
      .head_dim = 19,
      .n_ff = 41,
      .n_rot = 14}},
    {"qwen2",
     {.arch = "qwen2",
      .n_vocab = 80,
      .n_ctx = 320,
      .n_embd = 56,
      .n_layer = 3,
      .n_head = 7,
      .n_head_kv = 1,
      .head_dim = 8,
      .n_ff = 64,
      .n_rot = 8,
      .tied = true}},
    {"qwen3, heads of their own size",
     {.arch = "qwen3",
      .n_vocab = 80,
      .n_ctx = 320,
      .n_embd = 48,
      .n_layer = 3,
      .n_head = 4,
      .n_head_kv = 2,
      .head_dim = 32,
      .n_ff = 80,
      .n_rot = 32}},
    {"gpt2",
     {.arch = "gpt2",
      .n_vocab = 90,
      .n_ctx = 310,
      .n_embd = 48,
      .n_layer = 3,
      .n_head = 4,
      .n_head_kv = 4,
      .head_dim = 12,
      .n_ff = 192,
      .tied = true}},
};
enum { N_MODELS = sizeof models / sizeof *models };

static const char *written(const struct toy *t, enum tft_dtype type)
{
    struct toy copy = *t;
    copy.type = type;
    const char *path = in_folder("m.gguf");
    assert_true(toy_write(&copy, path));
    return path;
}

/* The other architectures. WINDOWED is so long that windows leave the first span. */
static void more_architectures(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MORE; i++)
        for (int kind = 0; kind < 3; kind++) {
            enum tft_dtype type = kind == 0 ? TFT_F32 : kind == 1 ? TFT_F16 : TFT_BF16;
            bool window = more_toys[i].numbers || strncmp(more_toys[i].arch, "gemma", 5) == 0;
            double off = difference(written(&more_toys[i], type),
                                    kind ? SHORT : window ? WINDOWED : LONG, "f32",
                                    TFT_WEIGHTS_F32);
            if (!(off < 2e-5))
                fail_msg("%s, type %d: off by %g", more_toys[i].arch, kind, off);
        }
}

/* YaRN with a factor of cosines and sines in the file. Files of OLMo 3 have the whole factor there,
   as in its configuration; in other files it multiplies YaRN's own. */
static void factors_of_yarn(void **state)
{
    (void)state;
    static const struct toy_number factor[] = {{"rope.scaling.attn_factor", TOY_F32, 1.5}, {0}};
    static const char *const archs[] = {"olmo2", "smollm3"};
    for (size_t i = 0; i < N_MORE; i++)
        for (size_t j = 0; j < sizeof archs / sizeof *archs; j++) {
            struct toy t = more_toys[i];
            struct tft_model *m;
            if (strcmp(t.arch, archs[j]) != 0)
                continue;
            t.yarn = 4;
            t.numbers = factor;
            const char *path = written(&t, TFT_F32);
            double off = difference(path, SHORT, "f32", TFT_WEIGHTS_F32),
                   usual = j ? 0.1 * log(4) + 1 : 1;
            if (!(off < 2e-5))
                fail_msg("%s: off by %g", t.arch, off);
            assert_int_equal(tft_model_open(&m, path, NULL, NULL), TFT_OK);
            assert_true(fabs((double)m->rope_amplitude - 1.5 * usual) < 1e-6);
            tft_model_close(m);
        }
}

/* Layers that differ. Types come in turns, and texts that leave the windows. */
static void layers_that_differ(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LAYER_TOYS; i++)
        for (int kind = 0; kind < 3; kind++) {
            enum tft_dtype type = kind == 0 ? TFT_F32 : kind == 1 ? TFT_F16 : TFT_BF16;
            double off = difference(written(&layer_toys[i], type), kind ? SHORT : WINDOWED, "f32",
                                    TFT_WEIGHTS_F32);
            if (!(off < 2e-5))
                fail_msg("toy %zu, type %d: off by %g", i, kind, off);
        }
}

/* The last blocks of a file may predict further tokens, and are not computed. */
static void blocks_that_predict_more(void **state)
{
    (void)state;
    struct toy t = state_toys[3];
    const struct toy_number numbers[] = {
        {"ssm.group_count", TOY_U32, 3}, {"ssm.time_step_rank", TOY_U32, 3},
        {"ssm.state_size", TOY_U32, 32}, {"ssm.inner_size", TOY_U32, 96},
        {"ssm.conv_kernel", TOY_U32, 2}, {"full_attention_interval", TOY_U32, 2},
        {"nextn_predict_layers", TOY_U32, 2}, {0}};
    t.numbers = numbers;
    assert_true(difference(written(&t, TFT_F32), SHORT, "f32", TFT_WEIGHTS_F32) < 2e-5);
}

static void experts(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_EXPERTS; i++)
        for (int half = 0; half < 2; half++) {
            double off = difference(written(&expert_toys[i], half ? TFT_F16 : TFT_F32),
                                    half ? SHORT : LONG, "f32", TFT_WEIGHTS_F32);
            if (!(off < 2e-5))
                fail_msg("%s, toy %zu: off by %g", expert_toys[i].arch, i, off);
        }
}

/* Texts of half of them leave the windows. */
static void dense_architectures(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_DENSE; i++)
        for (int kind = 0; kind < 3; kind++) {
            struct toy t = dense_toys[i];
            enum tft_dtype type = kind == 0 ? TFT_F32 : kind == 1 ? TFT_F16 : TFT_BF16;
            t.seed = 17 + i;
            double off =
                difference(written(&t, type), kind ? SHORT : WINDOWED, "f32", TFT_WEIGHTS_F32);
            if (!(off < 2e-5))
                fail_msg("%s, toy %zu, type %d: off by %g", t.arch, i, kind, off);
        }
}

static void half_blocks(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_HALF; i++)
        for (int half = 0; half < 2; half++) {
            double off = difference(written(&half_toys[i], half ? TFT_F16 : TFT_F32),
                                    half ? SHORT : LONG, "f32", TFT_WEIGHTS_F32);
            if (!(off < 2e-5))
                fail_msg("%s, toy %zu: off by %g", half_toys[i].arch, i, off);
        }
    assert_true(difference(written(&latent_toy, TFT_F32), LONG, "f32", TFT_WEIGHTS_F32) < 2e-5);
    assert_true(difference(written(&hybrid_toy, TFT_F32), LONG, "f32", TFT_WEIGHTS_F32) < 2e-5);
    for (int i = 0; i < N_ROUND; i++)
        assert_true(difference(written(&round_toys[i], TFT_F32), LONG, "f32", TFT_WEIGHTS_F32) <
                    2e-5);
}

static void latent_attention(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LATENT; i++)
        for (int kind = 0; kind < 3; kind++) {
            struct toy t = latent_toys[i];
            enum tft_dtype type = kind == 0 ? TFT_F32 : kind == 1 ? TFT_F16 : TFT_BF16;
            t.seed = 23 + i;
            double off =
                difference(written(&t, type), kind ? SHORT : LONG, "f32", TFT_WEIGHTS_F32);
            if (!(off < 2e-5))
                fail_msg("%s, toy %zu, type %d: off by %g", t.arch, i, kind, off);
        }
}

static void rwkv(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_RWKV; i++)
        for (int half = 0; half < 2; half++) {
            struct toy t = rwkv_toys[i];
            t.seed = 31 + i;
            double off = difference(written(&t, half ? TFT_F16 : TFT_F32), half ? SHORT : WINDOWED,
                                    "f32", TFT_WEIGHTS_F32);
            if (!(off < 2e-5))
                fail_msg("rwkv7, toy %zu: off by %g", i, off);
        }
}

static void several_streams(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_ALTUP; i++)
        for (int half = 0; half < 2; half++) {
            struct toy t = altup_toys[i];
            t.seed = 29 + i;
            double off = difference(written(&t, half ? TFT_F16 : TFT_F32), half ? SHORT : WINDOWED,
                                    "f32", TFT_WEIGHTS_F32);
            if (!(off < 2e-5))
                fail_msg("%s, toy %zu: off by %g", t.arch, i, off);
        }
}

static void f32_weights_f32_cache(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        double off = difference(written(&models[i].toy, TFT_F32), i % 7 ? SHORT : LONG, "f32",
                                TFT_WEIGHTS_F32);
        if (!(off < 2e-5))
            fail_msg("%s: off by %g", models[i].what, off);
    }
}

/* Keys and values rounded to 11 bits change the logits, but little. */
static void f16_cache(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++) {
        double off = difference(written(&models[i].toy, TFT_F32), SHORT, "f16", TFT_WEIGHTS_F32);
        if (!(off > 1e-6 && off < 1e-2))
            fail_msg("%s: off by %g", models[i].what, off);
    }
}

/* Products with 16-bit weights are exact: no weight is rounded again. */
static void half_weights(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_MODELS; i++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            double off = difference(written(&models[i].toy, bf16 ? TFT_BF16 : TFT_F16), SHORT,
                                    "f32", TFT_WEIGHTS_F32);
            if (!(off < 2e-5))
                fail_msg("%s, %s: off by %g", models[i].what, bf16 ? "bf16" : "f16", off);
        }
}

/* Quantized weights are expanded to f32 exactly, and rounded to f16 and bf16. */
static void quantized_weights(void **state)
{
    (void)state;
    struct toy t = {.arch = "llama",
                    .n_vocab = 96,
                    .n_ctx = 320,
                    .n_embd = 64,
                    .n_layer = 2,
                    .n_head = 2,
                    .n_head_kv = 1,
                    .head_dim = 32,
                    .n_ff = 96,
                    .n_rot = 32};
    const char *path = written(&t, TFT_Q8_0);
    double f32 = difference(path, SHORT, "f32", TFT_WEIGHTS_F32);
    double f16 = difference(path, SHORT, "f32", TFT_WEIGHTS_F16);
    double bf16 = difference(path, SHORT, "f32", TFT_WEIGHTS_BF16);
    assert_true(f32 < 2e-5);
    assert_true(f16 > f32 && f16 < 1e-2);
    assert_true(bf16 > f16 && bf16 < 1e-1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_weights_f32_cache), cmocka_unit_test(f16_cache),
        cmocka_unit_test(half_weights),          cmocka_unit_test(quantized_weights),
        cmocka_unit_test(more_architectures),    cmocka_unit_test(experts),
        cmocka_unit_test(half_blocks),           cmocka_unit_test(dense_architectures),
        cmocka_unit_test(factors_of_yarn),       cmocka_unit_test(latent_attention),
        cmocka_unit_test(several_streams),
        cmocka_unit_test(rwkv),
        cmocka_unit_test(layers_that_differ),    cmocka_unit_test(blocks_that_predict_more),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
