/* A model that is quantized with given keys and values of its prefix, as after tuning: its
   measurements are of the text after them. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "base/crc32.h"
#include "ranges.h"
#include "simd/half.h"
#include "tools/quantize/fold.h"

enum { MOST = 2 * 3 * 96 }; /* layers, tokens of the prefix, numbers of a token */
static uint16_t k[MOST], v[MOST];

static size_t numbers(const struct tft_model *m)
{
    return (size_t)m->n_layer * m->n_prefix * m->n_head_kv * m->head_dim;
}

/* The prefix's rows of a file, with each number halved or doubled. */
static void take_other_rows(const struct tft_model *m)
{
    for (size_t i = 0; i < numbers(m); i++) {
        k[i] = tft_f32_to_f16(tft_f16_to_f32(m->prefix_k[i]) * (i % 3 ? 0.5f : 2));
        v[i] = tft_f32_to_f16(tft_f16_to_f32(m->prefix_v[i]) * (i % 5 ? 0.5f : 2));
    }
}

static void see_behind_rows(const struct toy *t, uint32_t n_prefix, struct input_ranges *seen)
{
    struct tft_model *m = opened_as_floats(written(t));
    seen->n_layer = m->n_layer;
    seen->block = 1;
    m->prefix_k = k;
    m->prefix_v = v;
    m->n_prefix = n_prefix;
    see_text(m, 0, seen);
    m->n_prefix = 0;
    tft_model_close(m);
}

static void ranges_are_those_behind_the_rows(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        struct input_ranges seen = {0};
        struct quantize_input before[MOST_INPUTS];
        o.rotate = QUANTIZE_ROTATE_NONE;
        struct tft_model *made = opened(quantized(&toys[i], &o));
        memcpy(before, result, sizeof before);
        take_other_rows(made);
        tft_model_close(made);
        see_behind_rows(&toys[i], o.n_prefix, &seen);
        o.rows_k = k;
        o.rows_v = v;
        made = opened(quantized(&toys[i], &o));
        assert_memory_equal(made->prefix_k, k, numbers(made) * sizeof *k);
        assert_memory_equal(made->prefix_v, v, numbers(made) * sizeof *v);
        uint32_t others = 0;
        for (uint32_t l = 0; l < made->n_layer; l++)
            for (uint32_t in = 0; in < TFT_LAYER_INPUTS; in++) {
                uint32_t at = tft_input_index(made, l, in);
                has_range(made, &seen, l, in);
                others += result[at].error != before[at].error;
            }
        assert_true(others >= made->n_layer * TFT_LAYER_INPUTS - 1); /* not the first input */
        tft_model_close(made);
    }
}

static uint32_t checksum(const char *path)
{
    struct tft_map f;
    assert_int_equal(tft_port_map(&f, path), 0);
    uint32_t sum = tft_crc32(0, f.data, f.size);
    tft_port_unmap(&f);
    return sum;
}

/* Rows that the model of floats would compute change no byte of the file. Others change weights of
   few bits, and the clip of a cache in the second layer. */
static void the_text_goes_on_behind_the_rows(void **state)
{
    (void)state;
    static uint8_t bits[2 * LAYER_MATS];
    enum { CLIPS = 3 * 2 }; /* heads, groups of 16 channels */
    memset(bits, 4, sizeof bits);
    for (int few = 0; few < 2; few++) {
        struct quantize_opts o = usual(&toys[2]);
        float clip[2 * CLIPS] = {0};
        o.rotate = QUANTIZE_ROTATE_NONE;
        o.kv = few ? NULL : "skvq:group=16";
        o.bits = few ? bits : NULL;
        o.group = 32;
        const char *path = quantized(&toys[2], &o);
        uint32_t plain = checksum(path);
        struct tft_model *made = opened(path);
        uint32_t weights = tft_crc32(0, made->layer[1].down.w.data, 64);
        if (!few)
            memcpy(clip, made->kv_clip[0], sizeof clip);
        struct quantize_values values = {0};
        assert_true(quantize_values_open(&values, made));
        o.values = &values;
        quantized(&toys[2], &o);
        memcpy(k, made->prefix_k, numbers(made) * sizeof *k);
        memcpy(v, made->prefix_v, numbers(made) * sizeof *v);
        assert_true(fold_restore_rows(made, &o, v));
        o.rows_k = k;
        o.rows_v = v;
        assert_int_equal(checksum(quantized(&toys[2], &o)), plain);
        take_other_rows(made);
        tft_model_close(made);
        made = opened(quantized(&toys[2], &o));
        if (few)
            assert_int_not_equal(tft_crc32(0, made->layer[1].down.w.data, 64), weights);
        else
            assert_memory_not_equal(made->kv_clip[0] + CLIPS, clip + CLIPS, sizeof clip / 2);
        tft_model_close(made);
        quantize_values_close(&values);
    }
}

/* Values of a file, which were rotated, divided and put into another order, equal the float model's
   again; a file that is made after them equals the first one. */
static void check_restored(const struct toy *t, struct quantize_opts *o)
{
    struct quantize_values values = {0};
    struct tft_model *m = opened_as_floats(written(t));
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1, .kv = "f16"});
    assert_int_equal(tft_prefill(s, prefix, o->n_prefix), TFT_OK);
    assert_true(quantize_values_open(&values, m));
    o->values = &values;
    struct tft_model *made = opened(quantized(t, o));
    size_t n = numbers(made), at = 0;
    memcpy(k, made->prefix_k, n * sizeof *k);
    memcpy(v, made->prefix_v, n * sizeof *v);
    assert_true(fold_restore_rows(m, o, v));
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (uint32_t i = 0; i < o->n_prefix; i++)
            for (uint32_t h = 0; h < m->n_head_kv; h++)
                for (uint32_t d = 0; d < m->head_dim; d++, at++) {
                    const uint16_t *want = tft_kv_values(&s->kv, l, h, i);
                    assert_float_equal(tft_f16_to_f32(v[at]), tft_f16_to_f32(want[d]), 2e-3);
                }
    o->rows_k = k;
    o->rows_v = v;
    struct tft_model *again = opened(quantized(t, o));
    assert_memory_equal(again->prefix_k, made->prefix_k, n * sizeof *k);
    for (size_t i = 0; i < n; i++)
        assert_float_equal(tft_f16_to_f32(again->prefix_v[i]), tft_f16_to_f32(made->prefix_v[i]),
                           4e-3);
    tft_model_close(again);
    tft_model_close(made);
    tft_session_close(s);
    tft_model_close(m);
    quantize_values_close(&values);
}

static void values_of_floats_again(void **state)
{
    (void)state;
    static uint8_t bits[2 * LAYER_MATS];
    memset(bits, 4, sizeof bits);
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        check_restored(&toys[i], &o);
    }
    struct quantize_opts o = usual(&toys[2]);
    o.bits = bits;
    o.group = 32;
    o.rounding = QUANTIZE_AWQ;
    check_restored(&toys[2], &o);
    o = usual(&toys[2]);
    o.kv = "skvq:group=16";
    check_restored(&toys[2], &o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_those_behind_the_rows),
        cmocka_unit_test(the_text_goes_on_behind_the_rows),
        cmocka_unit_test(values_of_floats_again),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
