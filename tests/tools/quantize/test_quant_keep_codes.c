/* Codes of Q4_0 files: they are kept, exactly where the steps of a row are multiples of one number,
   and the file is then nearer to the floats of the lattice than one that was rounded again. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "base/bytes.h"
#include "random.h"
#include "simd/half.h"
#include "tools/quantize/round/keep_codes.h"
#include "w8a8.h"

enum { ROWS = 19, COLS = 160, BLOCKS = COLS / 32, BYTES = 18 };
static unsigned char block[ROWS * BLOCKS * BYTES];
static float w[ROWS * COLS];

/* ---- a matrix */

static void put_step(unsigned char *at, float step) { tft_store_u16(at, tft_f32_to_f16(step)); }

/* Random codes, with steps by `step`. */
static void fill(float (*step)(size_t row, size_t block))
{
    for (size_t i = 0; i < sizeof block; i++)
        block[i] = (unsigned char)random_u32();
    for (size_t i = 0; i < ROWS * BLOCKS; i++)
        put_step(block + i * BYTES, step(i / BLOCKS, i % BLOCKS));
    tft_dtype_info(TFT_Q4_0)->to_f32(w, block, ROWS * COLS);
}

static struct low_bits opened_bits(uint32_t bits, uint32_t group)
{
    struct low_bits q;
    assert_true(low_bits_open(&q, ROWS, COLS, bits, group));
    return q;
}

static bool keep(struct low_bits *q, enum tft_dtype type, int n_threads)
{
    struct tft_tensor t = {.type = type, .data = block};
    struct tft_mat from = {
        .format = &tft_format_stored, .rows = ROWS, .cols = COLS, .tensor = &t, .apart = ROWS};
    return keep_codes(q, &from, w, n_threads);
}

/* The largest error in the largest weight of its row. */
static double worst(const struct low_bits *q)
{
    double worst = 0;
    for (size_t r = 0; r < ROWS; r++) {
        int8_t row[COLS];
        double most = 0, off = 0;
        low_bits_int8(q, r, row);
        for (size_t k = 0; k < COLS; k++) {
            double want = (double)w[r * COLS + k];
            most = fmax(most, fabs(want));
            off = fmax(off, fabs(row[k] * (double)q->row_scale[r] - want));
        }
        worst = fmax(worst, most > 0 ? off / most : off);
    }
    return worst;
}

static float multiples(size_t row, size_t b)
{
    return (row % 2 ? -0.125f : 0.0078125f) * (float)(1 + (row + 3 * b) % 11);
}

static float one_step(size_t row, size_t b)
{
    (void)b;
    return 0.01f * (float)row; /* the first row is 0 */
}

static void exact_where_steps_are_multiples(void **state)
{
    (void)state;
    float (*const steps[])(size_t, size_t) = {multiples, one_step};
    for (int i = 0; i < 2; i++)
        for (int threads = 1; threads <= 3; threads += 2) {
            struct low_bits q = opened_bits(4, 32);
            fill(steps[i]);
            assert_true(keep(&q, TFT_Q4_0, threads));
            assert_true(worst(&q) < 1e-6);
            low_bits_close(&q);
        }
    struct low_bits q = opened_bits(4, 64); /* COLS is 2.5 groups */
    fill(one_step);
    assert_true(keep(&q, TFT_Q4_0, 2));
    assert_true(worst(&q) < 1e-6);
    low_bits_close(&q);
}

/* Steps of random blocks: of either sign, the largest at most 2.5 times the smallest. */
static float random_steps(size_t row, size_t b)
{
    (void)row, (void)b;
    float x = random_even();
    return x < 0 ? -0.02f + 0.03f * x : 0.02f + 0.03f * x;
}

static void codes_are_those_of_the_file(void **state)
{
    (void)state;
    struct low_bits q = opened_bits(4, 32);
    fill(random_steps);
    assert_true(keep(&q, TFT_Q4_0, 2));
    assert_true(worst(&q) < 0.08);
    for (size_t i = 0; i < ROWS * COLS; i++) {
        const unsigned char *b = block + i / 32 * BYTES;
        int c = i % 32 < 16 ? b[2 + i % 16] & 15 : b[2 + i % 16] >> 4,
            zero = q.factors[i / 32] >> 4;
        bool turned = tft_f16_to_f32(tft_load_u16(b)) < 0;
        assert_int_equal(q.code[i] - zero, turned ? 8 - c : c - 8);
    }
    struct low_bits again = opened_bits(4, 32);
    assert_true(keep(&again, TFT_Q4_0, 1));
    assert_memory_equal(again.code, q.code, ROWS * COLS);
    assert_memory_equal(again.factors, q.factors, ROWS * BLOCKS);
    assert_memory_equal(again.row_scale, q.row_scale, ROWS * sizeof(float));
    low_bits_close(&again);
    low_bits_close(&q);
}

static float far_apart(size_t row, size_t b)
{
    (void)row;
    return b % 2 ? 1 : 0.037f + 0.0003f * (float)row; /* below half of a fifteenth */
}

static void what_is_rounded_again(void **state)
{
    (void)state;
    struct low_bits q = opened_bits(4, 32);
    fill(random_steps);
    assert_false(keep(&q, TFT_Q4_1, 1));
    w[7] *= 1.5f;
    w[8] += w[7] == 0; /* 0 is also a half of itself */
    assert_false(keep(&q, TFT_Q4_0, 2));
    fill(far_apart); /* small blocks are far off, but they weigh little */
    assert_true(keep(&q, TFT_Q4_0, 1));
    low_bits_close(&q);
    q = opened_bits(3, 32);
    assert_false(keep(&q, TFT_Q4_0, 1));
    low_bits_close(&q);
    q = opened_bits(4, 64);
    assert_false(keep(&q, TFT_Q4_0, 1));
    low_bits_close(&q);
}

/* ---- a model */

/* Gives all blocks of a file's Q4_0 matrices steps that training on one lattice would leave:
   multiples of one number in each row. */
static void train(const char *path)
{
    struct tft_model *m;
    struct tft_error err;
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(tft_model_open_unexpanded(&m, path, NULL, &err), TFT_OK);
    for (size_t i = 0; i < m->source.n_tensor; i++) {
        const struct tft_tensor *t = &m->source.tensor[i];
        size_t blocks = t->type == TFT_Q4_0 ? (size_t)(t->ne[0] / 32 * t->ne[1]) : 0;
        for (size_t b = 0; b < blocks; b++) {
            unsigned char step[2];
            put_step(step, (b % 3 ? 1 : -1) * 0x1p-6f * (float)(3 + b * 5 % 4));
            long at = (long)tft_source_offset(&m->source, t->data + b * BYTES);
            assert_int_equal(fseek(f, at, SEEK_SET), 0);
            assert_int_equal(fwrite(step, 1, 2, f), 2);
        }
    }
    tft_model_close(m);
    assert_int_equal(fclose(f), 0);
}

/* The mean divergence of a file's predictions from the floats'. */
static double divergence(const char *path, const struct tft_model *floats)
{
    enum { N = 120 };
    struct tft_model *m[2] = {opened(path), NULL};
    struct tft_session *s[2];
    struct tft_session_opts o = {.n_threads = 1, .n_logits = N};
    uint32_t n_vocab = m[0]->n_vocab;
    double sum = 0;
    s[0] = session(m[0], o);
    s[1] = session(floats, o);
    for (int i = 0; i < 2; i++)
        assert_int_equal(tft_prefill(s[i], text, N), TFT_OK);
    for (size_t t = 0; t < N; t++) {
        const float *x[2] = {tft_logits(s[0], t), tft_logits(s[1], t)};
        double all[2] = {0, 0};
        for (int i = 0; i < 2; i++)
            for (uint32_t k = 0; k < n_vocab; k++)
                all[i] += exp((double)x[i][k]);
        for (uint32_t k = 0; k < n_vocab; k++) {
            double p = exp((double)x[1][k]) / all[1], q = exp((double)x[0][k]) / all[0];
            sum += p * log(p / q);
        }
    }
    for (int i = 0; i < 2; i++)
        tft_session_close(s[i]);
    tft_model_close(m[0]);
    return sum / N;
}

static void same_weights(const char *path, const struct tft_model *floats)
{
    struct tft_model *m = opened(path);
    for (uint32_t l = 0; l < m->n_layer; l++) {
        const struct tft_layer *a = &m->layer[l], *b = &floats->layer[l];
        const struct tft_mat *got[] = {&a->q.w,    &a->k.w,  &a->v.w,   &a->o.w,
                                       &a->gate.w, &a->up.w, &a->down.w},
                             *want[] = {&b->q.w,    &b->k.w,  &b->v.w,   &b->o.w,
                                        &b->gate.w, &b->up.w, &b->down.w};
        for (int i = 0; i < 7; i++)
            for (uint32_t row = 0; row < got[i]->rows; row++) {
                float x[128], y[128];
                assert_true(got[i]->cols == want[i]->cols && got[i]->cols <= 128);
                tft_mat_row(m, got[i], row, x);
                tft_mat_row(floats, want[i], row, y);
                for (uint32_t k = 0; k < got[i]->cols; k++)
                    if (!(fabsf(x[k] - y[k]) < 1e-6f))
                        fail_msg("layer %u, matrix %d, row %u: %g is not %g", l, i, row,
                                 (double)x[k], (double)y[k]);
            }
    }
    tft_model_close(m);
}

static void a_model_on_a_lattice(void **state)
{
    (void)state;
    static uint8_t bits[4 * LAYER_MATS];
    struct toy t = toys[1];
    t.type = TFT_Q4_0;
    t.n_embd = 96; /* rows of several blocks */
    t.n_head = 6;
    t.n_head_kv = 3;
    t.n_ff = 128;
    struct quantize_opts o = usual(&t);
    struct tft_error err;
    const char *path = written(&t), *kept = in_folder("kept.gguf"),
               *again = in_folder("again.gguf");
    train(path);
    memset(bits, 4, sizeof bits);
    o.bits = bits;
    o.group = 32;
    o.rotate = QUANTIZE_ROTATE_NONE;
    o.n_prefix = 0;
    assert_int_equal(convert(path, kept, &o, &err), TFT_OK);
    o.group = 64; /* of two blocks, which differ: rounded again */
    assert_int_equal(convert(path, again, &o, &err), TFT_OK);
    struct tft_model *floats = opened_as_floats(path);
    same_weights(kept, floats);
    double with = divergence(kept, floats), without = divergence(again, floats);
    if (!(with < without / 2))
        fail_msg("divergence %g where codes are kept, %g where they are not", with, without);
    tft_model_close(floats);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_where_steps_are_multiples),
        cmocka_unit_test(codes_are_those_of_the_file),
        cmocka_unit_test(what_is_rounded_again),
        cmocka_unit_test(a_model_on_a_lattice),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
