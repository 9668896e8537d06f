/* A run of the text through a part of a layer gives the same inputs as a run through the whole
   layer, and weights are rounded to the same codes. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "file/source.h"
#include "layer_toys.h"
#include "tools/quantize/measure/layers.h"
#include "w8a8.h"

enum { MOST_WIDTH = 640, MOST_LAYERS = 4 };

/* ---- inputs */

struct seen {
    uint32_t n_layer;
    float row[TFT_INPUT_KINDS][WINDOW][MOST_WIDTH]; /* of the last window */
};

static void see(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                const float *rows, size_t stride)
{
    struct seen *s = user;
    (void)tid;
    if (in->index == TFT_NO_INDEX)
        return;
    uint32_t which = quantize_input_kind(s->n_layer, in->index);
    assert_true(first + n <= WINDOW && in->width <= MOST_WIDTH);
    for (size_t i = 0; i < n; i++)
        memcpy(s->row[which][first + i], rows + i * stride, in->width * sizeof(float));
}

/* Loaded layer l with the products of inputs before `end`. */
static void run_until(struct layers *y, uint32_t l, uint32_t end, struct seen *s)
{
    memset(s->row, 0, sizeof s->row);
    y->tap = (struct tft_tap){see, s};
    layers_compute_until(y, l, end);
    layers_run(y, l, true);
    layers_compute_until(y, l, TFT_INPUT_KINDS);
}

static bool is_zero(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

static void check_layer(struct layers *y, uint32_t l)
{
    static struct seen whole, part;
    const size_t all = sizeof whole.row[0] / sizeof(float);
    whole.n_layer = part.n_layer = y->m->n_layer;
    run_until(y, l, TFT_INPUT_KINDS, &whole);
    for (uint32_t end = TFT_IN_ATTN; end < TFT_IN_DOWN; end++) {
        run_until(y, l, end, &part);
        for (uint32_t which = TFT_IN_ATTN; which <= end; which++) {
            assert_false(is_zero(whole.row[which][0], all));
            assert_memory_equal(part.row[which], whole.row[which], sizeof whole.row[which]);
        }
        assert_false(is_zero(whole.row[TFT_IN_DOWN][0], all));
        assert_memory_not_equal(part.row[TFT_IN_DOWN], whole.row[TFT_IN_DOWN],
                                sizeof whole.row[TFT_IN_DOWN]);
    }
}

static void check_toy(const struct toy *t)
{
    struct tft_model *m;
    struct layers y;
    struct tft_error err;
    struct quantize_opts o = usual(t);
    assert_int_equal(tft_model_open_unexpanded(&m, written(t), NULL, NULL), TFT_OK);
    if (layers_open(&y, m, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    for (uint32_t l = 0; l < m->n_layer; l++) {
        layers_load(&y, l);
        if (!tft_layer_has_experts(&m->layer[l]) && !m->layer[l].side_out.w.rows)
            check_layer(&y, l);
        y.tap = (struct tft_tap){0};
        layers_run(&y, l, false);
        layers_unload(&y, l);
    }
    layers_close(&y);
    tft_model_close(m);
}

static void inputs_are_as_in_the_whole_layer(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++)
        check_toy(&toys[i]);
}

/* ---- codes */

static uint8_t bits[MOST_LAYERS * LAYER_MATS];

/* The file of this toy, with 4 bits in the matrices of the first layer that read inputs before
   `end`, and 8 in all others. */
static void make(const struct toy *t, uint32_t end, const char *to)
{
    struct quantize_opts o = usual(t);
    struct tft_model *m = opened(written(t));
    struct tft_error err;
    memset(bits, 8, sizeof bits);
    for (int i = 0; i < LAYER_MATS; i++)
        if (quantize_matrix_input(&m->layer[0], i) < end)
            bits[i] = 4;
    tft_model_close(m);
    o.bits = bits;
    o.group = 32;
    if (convert(written(t), to, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
}

/* The codes of the matrix are the same in both files. */
static void check_codes(const struct tft_source *a, const struct tft_source *b, const char *name)
{
    const struct tft_tensor *x = tft_source_tensor(a, name), *y = tft_source_tensor(b, name);
    assert_true(x && y && x->bytes == y->bytes && x->type == y->type);
    assert_memory_equal(x->data, y->data, (size_t)x->bytes);
}

/* A matrix makes up for the errors of earlier ones: what comes after it does not count. So the
   matrices of the last input with 4 bits, whose run computes all of the float layer, get the same
   codes as in a file where more have 4 bits. */
static void codes_are_as_with_the_whole_layer(void **state)
{
    (void)state;
    static const char *const names[][3] = {
        {"blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.0.attn_v.weight"},
        {"blk.0.attn_output.weight"},
        {"blk.0.ffn_gate.weight", "blk.0.ffn_up.weight"}};
    for (int i = 0; i < 3; i++) { /* gpt2 has no gate, and one matrix of queries, keys and values */
        struct tft_source all, some;
        char path[64];
        snprintf(path, sizeof path, "%s", in_folder("all.gguf"));
        make(&toys[i], TFT_INPUT_KINDS, path);
        assert_int_equal(tft_source_open(&all, path, NULL, NULL, NULL), TFT_OK);
        for (uint32_t last = TFT_IN_ATTN; last < TFT_IN_DOWN; last++) {
            make(&toys[i], last + 1, in_folder("some.gguf"));
            assert_int_equal(tft_source_open(&some, in_folder("some.gguf"), NULL, NULL, NULL),
                             TFT_OK);
            for (int k = 0; k < 3 && names[last][k]; k++)
                check_codes(&all, &some, names[last][k]);
            tft_source_close(&some);
        }
        tft_source_close(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_are_as_in_the_whole_layer),
        cmocka_unit_test(codes_are_as_with_the_whole_layer),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
