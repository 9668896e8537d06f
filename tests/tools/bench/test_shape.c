/* Models of random weights: that they are as asked for. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include "folder.h"
#include "model/model.h"
#include "tools/bench/shape.h"
#include "unsynced.h"

static bool stop(double done) { return done < 0.5; }

static bool go_on(double done)
{
    assert_true(done >= 0 && done <= 1);
    return true;
}

/* All inputs have the range that was asked for, and a token can be computed. */
static void test_ranges(void **state)
{
    static const enum tft_range range[] = {TFT_RANGE_STATIC, TFT_RANGE_TOKEN, TFT_RANGE_TOKEN};
    static const enum shape_range asked[] = {SHAPE_STATIC, SHAPE_TOKEN, SHAPE_TOKEN};
    static const unsigned bits[] = {8, 4, 3};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct shape_opts o = {
            .name = "smollm2-135m", .bits = bits[i], .range = asked[i], .progress = go_on};
        const char *path = in_folder("shape.gguf");
        struct tft_session_opts so = {.size = sizeof so, .capacity = 8};
        struct tft_model *m;
        struct tft_session *s;
        assert_int_equal(shape_write(&o, path, NULL), TFT_OK);
        assert_int_equal(tft_model_open(&m, path, NULL, NULL), TFT_OK);
        assert_int_equal(m->n_layer, 30);
        for (uint32_t l = 0; l < m->n_layer; l++)
            for (int in = 0; in < TFT_LAYER_INPUTS; in++)
                assert_int_equal(m->layer[l].in[in].range, range[i]);
        assert_int_equal(m->output.in->range, range[i]);
        assert_int_equal(tft_session_open(&s, m, &so, NULL), TFT_OK);
        assert_int_equal(tft_decode(s, 1), TFT_OK);
        tft_session_close(s);
        tft_model_close(m);
    }
}

/* Tensors that architectures need beyond llama's are there: weights of 2 bits, as the files are
   smaller. The first one takes 2 GB; the two after it need nothing that the others do not need. */
static void test_formulas(void **state)
{
    static const struct {
        const char *name;
        uint32_t layers, ff;
        uint64_t parts;
        uint32_t attention; /* the first layer that has it */
        uint32_t n_attention;
    } want[] = {
        {"gemma-4-e2b", 35, 12288,
         TFT_BIT(TFT_PART_GEGLU) | TFT_BIT(TFT_PART_EMBED_SCALE) | TFT_BIT(TFT_PART_ATTN_SCALE) |
             TFT_BIT(TFT_PART_POST_NORM) | TFT_BIT(TFT_PART_WINDOW) | TFT_BIT(TFT_PART_VALUE_NORM) |
             TFT_BIT(TFT_PART_SHARED_KV) | TFT_BIT(TFT_PART_LAYER_SIZES) |
             TFT_BIT(TFT_PART_LAYER_EMBED),
         0, 15},
        {"qwen3-0.6b", 28, 3072, 0, 0, 28},
        {"qwen3.5-2b", 24, 6144,
         TFT_BIT(TFT_PART_DELTA_NET) | TFT_BIT(TFT_PART_OUTPUT_GATE), 3, 6},
        {"gemma-3-1b", 26, 6912,
         TFT_BIT(TFT_PART_GEGLU) | TFT_BIT(TFT_PART_EMBED_SCALE) | TFT_BIT(TFT_PART_POST_NORM) |
             TFT_BIT(TFT_PART_WINDOW),
         0, 26},
        {"lfm2-1.2b", 16, 8192, TFT_BIT(TFT_PART_SHORT_CONV), 2, 6},
        {"granite-4-h-1b", 40, 4096, TFT_BIT(TFT_PART_MAMBA), 5, 4},
        {"qwen3.5-0.8b", 24, 3584,
         TFT_BIT(TFT_PART_DELTA_NET) | TFT_BIT(TFT_PART_OUTPUT_GATE), 3, 6},
    };
    (void)state;
    for (size_t i = thorough() ? 0 : 3; i < sizeof want / sizeof *want; i++) {
        struct shape_opts o = {.name = want[i].name, .bits = 2, .range = SHAPE_STATIC};
        struct tft_session_opts so = {.size = sizeof so, .capacity = 8};
        struct tft_model *m;
        struct tft_session *s;
        assert_int_equal(shape_write(&o, in_folder("shape.gguf"), NULL), TFT_OK);
        assert_int_equal(tft_model_open(&m, in_folder("shape.gguf"), NULL, NULL), TFT_OK);
        assert_int_equal(m->n_layer, want[i].layers);
        assert_int_equal(m->n_ff, want[i].ff);
        assert_int_equal(m->parts, want[i].parts);
        assert_int_equal(m->layer[want[i].attention].mixer, TFT_MIX_ATTENTION);
        assert_true(strcmp(want[i].name, "granite-4-h-1b") == 0 ||
                    m->layer[want[i].attention].q_norm.w);
        assert_int_equal(m->n_kv_layer, want[i].n_attention);
        assert_int_equal(tft_session_open(&s, m, &so, NULL), TFT_OK);
        assert_int_equal(tft_decode(s, 1), TFT_OK);
        tft_session_close(s);
        tft_model_close(m);
    }
}

/* A shape of an ordinary GGUF file. */
static void test_a_type(void **state)
{
    struct shape_opts o = {.name = "bonsai-1.7b", .bits = 8};
    struct tft_session_opts so = {.size = sizeof so, .capacity = 8};
    struct tft_model *m;
    struct tft_session *s;
    (void)state;
    assert_int_equal(shape_write(&o, in_folder("shape.gguf"), NULL), TFT_OK);
    assert_int_equal(tft_model_open(&m, in_folder("shape.gguf"), NULL, NULL), TFT_OK);
    assert_int_equal(m->n_layer, 28);
    assert_non_null(m->layer[0].q_norm.w);
    assert_ptr_equal(m->output.w.format, tft_format_packed(TFT_Q1_0));
    assert_int_equal(tft_session_open(&s, m, &so, NULL), TFT_OK);
    assert_int_equal(tft_decode(s, 1), TFT_OK);
    tft_session_close(s);
    tft_model_close(m);
}

/* The first layers of a mixture of experts. */
static void test_few_layers(void **state)
{
    struct shape_opts o = {.name = "granite-3-1b-a400m", .layers = 2, .bits = 2};
    struct tft_model *m;
    (void)state;
    assert_int_equal(shape_write(&o, in_folder("shape.gguf"), NULL), TFT_OK);
    assert_int_equal(tft_model_open(&m, in_folder("shape.gguf"), NULL, NULL), TFT_OK);
    assert_int_equal(m->n_layer, 2);
    assert_int_equal(m->n_expert, 32);
    tft_model_close(m);
}

static void test_what_there_is_not(void **state)
{
    static const struct shape_opts o[] = {
        {.name = "smollm2", .bits = 8}, {.name = "smollm2-135m", .bits = 5},
        {.name = "smollm2-135m", .bits = 16}, {.name = "bonsai-1.7b", .bits = 4},
        {.name = "bonsai-1.7b", .bits = 8, .range = SHAPE_TOKEN}};
    (void)state;
    files_in_folder(true);
    for (size_t i = 0; i < sizeof o / sizeof *o; i++)
        assert_int_equal(shape_write(&o[i], in_folder("none.gguf"), NULL), TFT_ERR_ARG);
    struct shape_opts stopped = {
        .name = "smollm2-135m", .bits = 4, .range = SHAPE_STATIC, .progress = stop};
    assert_int_equal(shape_write(&stopped, in_folder("none.gguf"), NULL), TFT_OK);
    assert_int_equal(files_in_folder(false), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges),
                                       cmocka_unit_test(test_formulas),
                                       cmocka_unit_test(test_a_type),
                                       cmocka_unit_test(test_few_layers),
                                       cmocka_unit_test(test_what_there_is_not)};
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
