/* W8A8: the file has the same bytes wherever it is made, its logits have the same bits wherever it
   runs, and they are near the float model's. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "file/file.h"

#include "models/open.h"
#include "more_toys.h"
#include "run/pass.h"
#include "simd/half.h"
#include "tools/quantize/measure/layers.h"
#include "random.h"
#include "w8a8.h"

static uint64_t hash_file(const char *path)
{
    struct tft_map f;
    uint64_t h = 0xcbf29ce484222325;
    assert_int_equal(tft_port_map(&f, path), 0);
    for (size_t i = 0; i < f.size; i++)
        h = (h ^ f.data[i]) * 0x100000001b3;
    tft_port_unmap(&f);
    return h;
}

/* Half of the ISA levels for even i, the other half for odd i. */
static void same_file_on_isas(int i, struct quantize_opts *o)
{
    uint64_t want = hash_file(quantized(&toys[i], o));
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        if (!on_half(isa, i))
            continue;
        assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
        o->n_threads = 1 + isa % 3;
        assert_int_equal(hash_file(quantized(&toys[i], o)), want);
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
}

static void the_same_file_on_every_isa_with_any_threads(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        o.method = RANGE_MSE;
        o.rotate = i % 2 == 0 ? QUANTIZE_ROTATE_ALL : o.rotate;
        same_file_on_isas(i, &o);
    }
}

static void same_bits_however_fed(void **state)
{
    (void)state;
    static const uint32_t chunks[] = {1, 257};
    for (int i = 0; i < N_TOYS; i++)
        for (int dynamic = 0; dynamic < 2; dynamic++) {
            struct quantize_opts o = usual(&toys[i]);
            o.range = dynamic ? by_token : fixed;
            const char *path = quantized(&toys[i], &o);
            uint64_t want = fed(path, 1, TOKENS, TOKENS, "f16");
            for (int c = 0; c < 2; c++)
                assert_int_equal(fed(path, 1 + c, chunks[c], 512, "f16"), want);
            assert_int_equal(fed(path, 3, TOKENS, 33, "f16"), want);
            assert_int_equal(fed(path, 5, 100, 512, "f16"), want);
        }
}

/* These hashes are the contract: see test_session.c. */
static const uint64_t contract[N_TOYS] = {0x9ce84794e82746a6, 0xd126b35891370cd4,
                                          0x6c38e2aff1964ea2, 0x95c422bf96b1a990};
/* of the first toy, with the residual stream rotated */
static const uint64_t contract_all = 0xf44113e18c464618;
/* of the third toy, with a 4-bit prefix */
static const uint64_t contract_prefix = 0xdc7daa56f1b7a8f1;

/* turn: says which half of the ISA levels */
static void on_isas(const struct toy *t, const struct quantize_opts *o, uint64_t want, int turn)
{
    const char *path = quantized(t, o);
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        if (!on_half(isa, turn))
            continue;
        assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
        uint64_t got = fed(path, 2, 100, 512, "f16");
        if (got != want)
            fail_msg("%s on %s: 0x%016llx", t->arch, tft_cpu_name(), (unsigned long long)got);
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
}

static void same_bits_on_every_isa_and_machine(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        on_isas(&toys[i], &o, contract[i], i);
    }
    struct quantize_opts o = usual(&toys[0]);
    o.rotate = QUANTIZE_ROTATE_ALL;
    on_isas(&toys[0], &o, contract_all, 1);
    o = usual(&toys[2]);
    o.prefix_type = TFT_Q4_1;
    on_isas(&toys[2], &o, contract_prefix, 0);
}

static void near(const struct toy *t, const struct quantize_opts *o, const char *what)
{
    static const uint32_t at[] = {1, 40};
    const char *path = quantized(t, o);
    for (int i = 0; i < 2; i++) {
        double d = float_distance(t, path, at[i]);
        /* random layers amplify errors: 7 bits instead of 8 in one place give 0.2 */
        if (!(d > 0 && d < 0.15))
            fail_msg("%s, %s: off by %.3f of the logits of floats after %u tokens", t->arch, what,
                     d, at[i]);
    }
}

static void near_the_floats(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        near(&toys[i], &o, "as usual");
        o.rotate = QUANTIZE_ROTATE_ALL;
        if (rotatable(&toys[i]))
            near(&toys[i], &o, "all rotated");
        if (i % 2) /* only half of the toys, as this takes long under emulation */
            continue;
        for (int r = QUANTIZE_ROTATE_NONE; r < QUANTIZE_ROTATE_O_DOWN; r++) {
            o.rotate = (enum quantize_rotate)r;
            near(&toys[i], &o, r == QUANTIZE_ROTATE_NONE ? "not rotated" : "o rotated");
        }
        o.prefix_type = TFT_Q8_0;
        if (i == 2) /* its keys are whole blocks */
            near(&toys[i], &o, "prefix of eight bits");
        o.n_prefix = 0;
        near(&toys[i], &o, "without a prefix");
        o = usual(&toys[i]);
        o.smooth = 0.5f;
        near(&toys[i], &o, "smoothed");
        o.rotate = QUANTIZE_ROTATE_ALL;
        near(&toys[i], &o, "all rotated, smoothed");
        o.rotate = QUANTIZE_ROTATE_O_DOWN;
        o.smooth = 0;
        o.per_tensor = true;
        near(&toys[i], &o, "one scale per matrix");
        o.per_tensor = false;
        o.method = RANGE_MSE;
        near(&toys[i], &o, "mse");
        o.method = RANGE_PERCENTILE;
        o.param = 99.9;
        near(&toys[i], &o, "percentile");
        o.range = by_token;
        near(&toys[i], &o, "dynamic per token");
    }
}

static void what_follows_the_prefix(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        o.rotate = i == 0 ? QUANTIZE_ROTATE_ALL : o.rotate;
        assert_true(float_distance(&toys[i], quantized(&toys[i], &o), 0) < 0.15);
        struct tft_model *m = opened(in_folder("q.gguf"));
        struct tft_session *s = session(m, (struct tft_session_opts){0});
        assert_int_equal(tft_capacity(s), toys[i].n_ctx - 3);
        assert_int_equal(tft_prefill(s, text, 2), TFT_OK);
        assert_int_equal(tft_prefill(s, NULL, 0), TFT_ERR_ARG); /* allowed at the beginning only */
        tft_session_close(s);
        tft_model_close(m);
    }
}

/* ---- rotation of the residual stream */

/* Runs all layers over prefix and text, in float. */
static void run_floats(struct layers *y, struct tft_model *m, const struct quantize_opts *o)
{
    struct tft_error err;
    if (layers_open(y, m, o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    for (uint32_t l = 0; l < m->n_layer; l++) {
        layers_load(y, l);
        layers_rotate(y, l);
        layers_run(y, l, false);
        layers_unload(y, l);
    }
}

/* Checks got: [n] = Q want. */
static void assert_rotated(const struct residual_rotation *q, const float *got, const float *want,
                           size_t n, double off)
{
    float row[64];
    assert_true(n <= 64);
    memcpy(row, want, n * sizeof *row);
    rotate_residual_rows(q, row, n, 1, NULL);
    for (size_t i = 0; i < n; i++)
        assert_float_equal(got[i], row[i], off * (1 + fabs((double)row[i])));
}

static double product(const float *a, const float *b, const float *gain, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i] * (gain ? (double)gain[i] : 1);
    return sum;
}

/* Logits of the text's last token, without the division of the last norm. */
static void assert_same_logits(const struct layers *rotated, const struct layers *plain,
                               const float *gain)
{
    const struct tft_mat *head = &plain->m->output.w;
    size_t last = (TEXT - 1) * plain->stride;
    float a[64], b[64];
    for (uint32_t i = 0; i < head->rows; i++) {
        layers_rows(rotated, head, i, 1, a);
        layers_rows(plain, head, i, 1, b);
        double got = product(a, rotated->text + last, NULL, head->cols),
               want = product(b, plain->text + last, gain, head->cols);
        assert_float_equal(got, want, 1e-2 * (1 + fabs(want)));
    }
}

/* The stream is Q times the original model's, and the head gives the same logits. Includes biases
   of the layers that write the stream, which no architecture with RMSNorm has yet. */
/* off: as keys and values are f16 */
static void check_rotated_stream(const struct toy *toy, double off)
{
    struct tft_model *m;
    struct layers plain, rotated;
    struct quantize_opts o = usual(toy), all = o;
    float bias[2][64], got[64], want[64];
    uint32_t d = toy->n_embd;
    random_fill(bias[0], 128);
    all.rotate = QUANTIZE_ROTATE_ALL;
    assert_int_equal(tft_model_open_unexpanded(&m, written(toy), NULL, NULL), TFT_OK);
    m->layer[0].o.bias = bias[0];
    m->layer[1].down.bias = bias[1];
    const float *gain = m->out_norm.w;
    run_floats(&plain, m, &o);
    run_floats(&rotated, m, &all);
    for (uint32_t t = 0; t < TEXT; t++)
        assert_rotated(&rotated.rotation, rotated.text + t * rotated.stride,
                       plain.text + t * plain.stride, d, off);
    assert_rotated(&rotated.rotation, layers_prefix_x(&rotated), layers_prefix_x(&plain), d, off);
    assert_same_logits(&rotated, &plain, gain);
    layers_rows(&plain, &m->embed, 5, 1, want);
    layers_rows(&rotated, &m->embed, 5, 1, got);
    assert_rotated(&rotated.rotation, got, want, d, off);
    layers_close(&rotated);
    layers_close(&plain);
    assert_ptr_equal(m->out_norm.w, gain);
    tft_model_close(m);
}

static void a_rotated_stream_is_that_of_an_equivalent_model(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++)
        if (rotatable(&toys[i]))
            check_rotated_stream(&toys[i], 2e-3);
    for (int i = 0; i < N_MORE; i++)
        if (rotatable(&more_toys[i]) && more_toys[i].n_embd <= 64)
            check_rotated_stream(&more_toys[i], 4e-3);
}

/* The importance is the same for all conversions. */
/* E[q^2] var(k) in double precision, up to a common factor, for the last layer: its queries and
   keys are still in memory after a pass. */
static double importance(const struct toy *t, const struct tft_model *m, uint32_t head,
                         uint32_t channel)
{
    double query = 0, key = 0;
    for (uint32_t w = 0; w < TEXT / WINDOW; w++) {
        struct tft_session *s =
            session(m, (struct tft_session_opts){.n_threads = 1, .n_batch = WINDOW, .kv = "f16"});
        struct tft_pass p = {.m = m, .work = s->work};
        assert_int_equal(tft_prefill(s, prefix, 3), TFT_OK);
        assert_int_equal(tft_prefill(s, text + w * WINDOW, WINDOW), TFT_OK);
        /* groups of 64 tokens; the last is shorter */
        for (uint32_t first = 0; first < WINDOW; first += 64) {
            double sum = 0, squares = 0, n = fmin(64, WINDOW - first);
            for (uint32_t i = first; i < first + (uint32_t)n; i++) {
                double k = (double)tft_pass_row(&p, TFT_K, i)[head * t->head_dim + channel];
                sum += k, squares += k * k;
            }
            key += squares - sum * sum / n;
        }
        for (uint32_t i = 0; i < WINDOW; i++)
            for (uint32_t h = head * t->n_head / t->n_head_kv;
                 h < (head + 1) * t->n_head / t->n_head_kv; h++)
                query += pow((double)tft_pass_row(&p, TFT_Q, i)[h * t->head_dim + channel], 2);
        tft_session_close(s);
    }
    return query * key;
}

static void the_importance_of_channels(void **state)
{
    (void)state;
    const struct toy *t = &toys[0];
    struct quantize_opts o = usual(t);
    o.rotate = QUANTIZE_ROTATE_ALL; /* queries and keys are the same */
    o.smooth = 0.5f;
    struct tft_model *q = opened(quantized(t, &o)), *m = opened(written(t));
    assert_non_null(q->key_importance);
    assert_null(m->key_importance);
    for (uint32_t h = 0; h < t->n_head_kv; h++)
        for (uint32_t d = 0; d < t->head_dim; d++) {
            double want = importance(t, m, h, d),
                   got = (double)
                             q->key_importance[((t->n_layer - 1) * t->n_head_kv + h) * t->head_dim +
                                               d];
            if (fabs(got - want) > 2e-3 * want)
                fail_msg("head %u, channel %u: %g, not %g", h, d, got, want);
        }
    tft_model_close(q);
    tft_model_close(m);
}

static void the_model_is_as_it_was(void **state)
{
    (void)state;
    struct tft_model *m;
    struct quantize_opts o = usual(&toys[0]);
    assert_int_equal(tft_model_open_unexpanded(&m, written(&toys[0]), NULL, NULL), TFT_OK);
    struct tft_model before = *m;
    struct tft_layer block[2] = {m->layer[0], m->layer[1]};
    for (int r = QUANTIZE_ROTATE_NONE; r <= QUANTIZE_ROTATE_ALL; r++) {
        bool stopped;
        o.rotate = (enum quantize_rotate)r;
        assert_int_equal(quantize(m, in_folder("q.gguf"), &o, result, &stopped, NULL), TFT_OK);
        assert_memory_equal(m, &before, sizeof before);
        assert_memory_equal(m->layer, block, sizeof block);
    }
    tft_model_close(m);
}

static void the_error_is_that_of_the_ranges(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    quantized(&toys[0], &o);
    double least = 0, all = 0;
    for (int i = 0; i < 9; i++) {
        assert_true(result[i].error > 0 && result[i].error < 1e-3);
        all += result[i].error;
    }
    o.method = RANGE_MSE;
    quantized(&toys[0], &o);
    for (int i = 0; i < 9; i++)
        least += result[i].error;
    assert_true(least < all);
}

/* ---- weights of few bits */

enum { MOST_LAYERS = 4 };
static uint8_t matrix_bits[MOST_LAYERS * LAYER_MATS];

static void give(int matrix, uint8_t bits)
{
    for (int l = 0; l < MOST_LAYERS; l++)
        matrix_bits[l * LAYER_MATS + matrix] = bits;
}

static struct quantize_opts few_bits(const struct toy *t, uint8_t bits)
{
    struct quantize_opts o = usual(t);
    memset(matrix_bits, bits, sizeof matrix_bits);
    o.bits = matrix_bits;
    o.group = 32;
    return o;
}

static void few_bits_on_every_isa_with_any_threads(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = few_bits(&toys[i], 4);
        o.rotate = i % 2 == 0 ? QUANTIZE_ROTATE_ALL : o.rotate;
        o.rounding = (enum quantize_rounding)(i % 3);
        if (!thorough()) { /* less text; the second layer has 8 bits, after a layer of 4 */
            o.n_text = WINDOW;
            memset(matrix_bits + LAYER_MATS, 8, sizeof matrix_bits - LAYER_MATS);
        }
        same_file_on_isas(i, &o);
    }
}

/* A weight as the int8 number that it stands for. */
static int weight_at(const struct tft_mat *w, size_t row, size_t col)
{
    size_t cols = tft_panel_cols(w->cols);
    const int8_t *data = w->data;
    return w->format->low ? tft_low_at(w->data, w->format->low, row, col, cols)
                          : data[tft_panel_at(row, col, cols)];
}

/* The most different numbers among 32 inputs of a row. */
static int most_levels(const struct tft_mat *w)
{
    int most = 0;
    for (size_t r = 0; r < w->rows; r++)
        for (size_t first = 0; first < w->cols; first += 32) {
            bool seen[256] = {false};
            int levels = 0;
            for (size_t k = first; k < w->cols && k < first + 32; k++) {
                int v = weight_at(w, r, k) + 128;
                levels += !seen[v];
                seen[v] = true;
            }
            most = levels > most ? levels : most;
        }
    return most;
}

static void matrices_have_their_bits(void **state)
{
    (void)state;
    for (uint8_t bits = 2; bits <= 4; bits++) {
        struct quantize_opts o = few_bits(&toys[0], bits);
        give(MAT_DOWN, 8);
        give(MAT_K, 2);
        matrix_bits[LAYER_MATS + MAT_K] = 3; /* of layer 1 */
        struct tft_model *m = opened(quantized(&toys[0], &o));
        for (uint32_t l = 0; l < m->n_layer; l++)
            for (int i = 0; i < LAYER_MATS; i++) {
                if (!layers_linear(&m->layer[l], i))
                    continue;
                const struct tft_mat *w = &layers_linear(&m->layer[l], i)->w;
                int levels = most_levels(w);
                assert_int_equal(w->format->low != NULL, i != MAT_DOWN);
                if (i == MAT_DOWN)
                    assert_true(levels > 16);
                else if (i == MAT_K)
                    assert_true(levels > (l == 1 ? 4 : 2) && levels <= (l == 1 ? 8 : 4));
                else
                    assert_true(levels > 1 << (bits - 1) && levels <= 1 << bits);
            }
        assert_true(most_levels(&m->embed) > 16 && most_levels(&m->output.w) > 16);
        tft_model_close(m);
    }
}

/* The inputs after rounded layers are near the float model's, however weights are folded and
   unfolded; feedback brings logits nearer. */
static void few_bits_near_the_floats(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++)
        for (int how = 0; how < 4; how++) {
            if (rotatable(&toys[i]) ? !in_turn(how / 2 + how, i, 2) : how & 2)
                continue;
            struct quantize_opts o = few_bits(&toys[i], 4), eight = usual(&toys[i]);
            struct quantize_input ranges[MOST_INPUTS];
            o.smooth = how & 1 ? 0.5f : 0;
            o.rotate = how & 2 ? QUANTIZE_ROTATE_ALL : o.rotate;
            o.kv = toys[i].head_dim % 4 == 0 ? "skvq:group=16" : NULL;
            eight.smooth = o.smooth;
            eight.rotate = o.rotate;
            eight.kv = o.kv;
            quantized(&toys[i], &eight);
            memcpy(ranges, result, sizeof ranges);
            double d = float_distance(&toys[i], quantized(&toys[i], &o), 40);
            if (!(d < 0.6))
                fail_msg("%s, %d: off by %.3f of the logits of floats", toys[i].arch, how, d);
            for (uint32_t j = 0; j < tft_model_inputs(&(struct tft_model){.n_layer = 2}); j++) {
                float was = ranges[j].max - ranges[j].min, is = result[j].max - result[j].min;
                if (fabsf(is - was) > 0.3f * was)
                    fail_msg("%s, %d: input %u has a range of %g, not %g", toys[i].arch, how, j,
                             (double)is, (double)was);
            }
        }
}

/* Matrices that keep their 8 bits are folded, written, unfolded, and run again: the inputs of the
   first layer up to the first rounded matrix stay the same. */
static void unfolding_undoes_folding(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        struct quantize_input ranges[3];
        o.smooth = 0.5f;
        o.kv = toys[i].head_dim % 16 == 0 ? "skvq:group=16" : NULL;
        quantized(&toys[i], &o);
        memcpy(ranges, result, sizeof ranges);
        struct quantize_opts few = few_bits(&toys[i], 8);
        give(MAT_UP, 2);
        few.smooth = o.smooth;
        few.kv = o.kv;
        quantized(&toys[i], &few);
        for (int j = TFT_IN_ATTN; j <= TFT_IN_FFN; j++) {
            assert_float_equal(result[j].min, ranges[j].min, 1e-4 * fabsf(ranges[j].min));
            assert_float_equal(result[j].max, ranges[j].max, 1e-4 * fabsf(ranges[j].max));
            assert_float_equal(result[j].error, ranges[j].error, 1e-2 * ranges[j].error);
        }
    }
}

static void awq_near_the_floats(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++)
        for (int r = QUANTIZE_ROTATE_NONE; r <= QUANTIZE_ROTATE_ALL; r++) {
            if (rotatable(&toys[i]) ? !in_turn(r, i, 2) : r != QUANTIZE_ROTATE_O_DOWN)
                continue;
            struct quantize_opts o = few_bits(&toys[i], 4);
            o.rotate = (enum quantize_rotate)r;
            o.rounding = QUANTIZE_AWQ;
            double d = float_distance(&toys[i], quantized(&toys[i], &o), 40);
            if (!(d < 0.6))
                fail_msg("%s, %d: off by %.3f of the logits of floats", toys[i].arch, r, d);
        }
}

/* The length of a column, as it is in the file. */
static double column_size(const struct tft_mat *w, size_t col)
{
    double sum = 0;
    for (size_t row = 0; row < w->rows; row++)
        sum += pow(weight_at(w, row, col) * (double)w->scale[row], 2);
    return sqrt(sum);
}

/* The matrix's column is f times that of the other. Rounding to few bits changes lengths a bit. */
static void assert_columns(const struct tft_mat *scaled, const struct tft_mat *plain, size_t col,
                           double f)
{
    double slack = scaled->format->low ? 0.2 : 0.03;
    assert_float_equal(column_size(scaled, col), f * column_size(plain, col),
                       slack * f * column_size(plain, col));
}

/* A model with 4 bits for the matrices marked in `few`: by AWQ, or to nearest. */
static struct tft_model *scaled_model(const struct toy *t, enum quantize_rotate rotate,
                                      const bool few[LAYER_MATS], enum quantize_rounding rounding)
{
    struct quantize_opts o = usual(t);
    o.rotate = rotate;
    o.rounding = rounding;
    o.group = 32;
    for (int i = 0; i < LAYER_MATS; i++)
        give(i, few[i] ? 4 : 8);
    o.bits = matrix_bits;
    return opened(quantized(t, &o));
}

static double spread; /* the largest factor over the least, of the inputs that were checked */

static void note_spread(double least, double most)
{
    spread = fmax(spread, most / least);
}

/* Columns that read a norm are multiplied by the norm's divisor. */
static void check_norm(const struct tft_norm *scaled, const struct tft_norm *plain,
                       struct tft_linear *a[3], struct tft_linear *b[3], size_t n, size_t width)
{
    double least = INFINITY, most = 0;
    for (size_t k = 0; k < width; k++) {
        double f = (double)plain->w[k] / (double)scaled->w[k];
        least = fmin(least, f);
        most = fmax(most, f);
        if (plain->b)
            assert_float_equal(plain->b[k], f * (double)scaled->b[k], 1e-4 * fabs(f));
        for (size_t i = 0; i < n; i++)
            assert_columns(&a[i]->w, &b[i]->w, k, f);
    }
    note_spread(least, most);
}

static void awq_moves_factors_from_norms_to_their_readers(void **state)
{
    (void)state;
    static const bool few[LAYER_MATS] = {[MAT_Q] = true, [MAT_UP] = true};
    spread = 1;
    for (int i = 0; i < N_TOYS; i++) {
        enum quantize_rotate rotate = i == 2 ? QUANTIZE_ROTATE_ALL : QUANTIZE_ROTATE_NONE;
        struct tft_model *a = scaled_model(&toys[i], rotate, few, QUANTIZE_AWQ),
                         *b = scaled_model(&toys[i], rotate, few, QUANTIZE_NEAREST);
        for (uint32_t l = 0; l < a->n_layer; l++) {
            struct tft_linear *of_a[LAYER_READERS], *of_b[LAYER_READERS];
            size_t n = layers_readers(&a->layer[l], TFT_IN_ATTN, of_a);
            layers_readers(&b->layer[l], TFT_IN_ATTN, of_b);
            check_norm(&a->layer[l].attn_norm, &b->layer[l].attn_norm, of_a, of_b, n, a->n_embd);
            n = layers_readers(&a->layer[l], TFT_IN_FFN, of_a);
            layers_readers(&b->layer[l], TFT_IN_FFN, of_b);
            check_norm(&a->layer[l].ffn_norm, &b->layer[l].ffn_norm, of_a, of_b, n, a->n_embd);
        }
        tft_model_close(a);
        tft_model_close(b);
    }
    assert_true(spread > 1.2);
}

/* Rows of v, its bias, and the values of the prefix are divided by the factor of the columns of o
   that read them, for all heads that share a KV head. */
static void check_values(const struct tft_model *a, const struct tft_model *b, uint32_t l)
{
    const struct tft_layer *is = &a->layer[l], *was = &b->layer[l];
    size_t dim = a->head_dim, width = a->n_head_kv * dim, shared = a->n_head / a->n_head_kv;
    double least = INFINITY, most = 0;
    for (size_t r = 0; r < width; r++) {
        double f = (double)was->v.w.scale[r] / (double)is->v.w.scale[r];
        least = fmin(least, f);
        most = fmax(most, f);
        if (is->v.bias)
            assert_float_equal(was->v.bias[r], f * (double)is->v.bias[r], 1e-5 * f);
        for (size_t t = 0; t < a->n_prefix; t++) {
            size_t at = (l * a->n_prefix + t) * width + r;
            double want = (double)tft_f16_to_f32(b->prefix_v[at]);
            assert_float_equal(f * (double)tft_f16_to_f32(a->prefix_v[at]), want,
                               2e-3 * (fabs(want) + 1e-3));
        }
        for (size_t h = r / dim * shared; h < (r / dim + 1) * shared; h++)
            assert_columns(&is->o.w, &was->o.w, h * dim + r % dim, f);
    }
    note_spread(least, most);
}

static void check_down(const struct tft_layer *is, const struct tft_layer *was, bool scaled)
{
    double least = INFINITY, most = 0;
    for (size_t r = 0; r < is->up.w.rows; r++) {
        double f = (double)was->up.w.scale[r] / (double)is->up.w.scale[r];
        least = fmin(least, f);
        most = fmax(most, f);
        assert_columns(&is->down.w, &was->down.w, r, f);
    }
    assert_true(scaled ? most > least : least == 1 && most == 1);
}

static void awq_moves_factors_from_rows_to_their_readers(void **state)
{
    (void)state;
    static const bool few[LAYER_MATS] = {[MAT_O] = true, [MAT_DOWN] = true};
    spread = 1;
    for (int i = 0; i < N_TOYS; i++) {
        enum quantize_rotate rotate = i == 0   ? QUANTIZE_ROTATE_O
                                      : i == 2 ? QUANTIZE_ROTATE_O_DOWN
                                               : QUANTIZE_ROTATE_NONE;
        struct tft_model *a = scaled_model(&toys[i], rotate, few, QUANTIZE_AWQ),
                         *b = scaled_model(&toys[i], rotate, few, QUANTIZE_NEAREST);
        for (uint32_t l = 0; l < a->n_layer; l++) {
            check_values(a, b, l);
            check_down(&a->layer[l], &b->layer[l], i < 2);
        }
        tft_model_close(a);
        tft_model_close(b);
    }
    assert_true(spread > 1.2);
}

/* Values have the sizes and the order that the KV cache was calibrated for. */
static void awq_leaves_values_that_are_calibrated(void **state)
{
    (void)state;
    struct quantize_opts o = few_bits(&toys[2], 4);
    give(MAT_V, 8);
    o.kv = "skvq:group=16,window=20";
    o.rounding = QUANTIZE_NEAREST;
    struct tft_model *b = opened(quantized(&toys[2], &o));
    o.rounding = QUANTIZE_AWQ;
    struct tft_model *a = opened(quantized(&toys[2], &o));
    size_t n = (size_t)a->n_prefix * a->n_head_kv * a->head_dim;
    assert_memory_equal(a->prefix_v, b->prefix_v, n * sizeof *a->prefix_v);
    tft_model_close(a);
    tft_model_close(b);
}

static float streams[2][2][TEXT][64];

static void store_stream(void *user, uint32_t layer, const float *x, size_t stride)
{
    for (size_t t = 0; t < TEXT; t++)
        memcpy(streams[*(int *)user][layer][t], x + t * stride, 64 * sizeof *x);
}

/* The outputs are the float model's even where the text goes through rounded layers. */
static void outputs_are_those_of_floats(void **state)
{
    (void)state;
    const struct toy *t = &toys[2];
    for (int i = 0; i < 2; i++) {
        struct quantize_opts o = i ? few_bits(t, 2) : usual(t);
        o.outputs = store_stream;
        o.outputs_user = &i;
        quantized(t, &o);
    }
    assert_memory_equal(streams[1], streams[0], sizeof streams[0]);
}

static void fails(const char *from, const struct quantize_opts *o, const char *why)
{
    struct tft_error err;
    int files = files_in_folder(false);
    assert_int_not_equal(convert(from, in_folder("no.gguf"), o, &err), TFT_OK);
    if (!strstr(err.msg, why))
        fail_msg("\"%s\" is not \"%s\"", err.msg, why);
    assert_int_equal(files_in_folder(false), files);
}

/* A toy's file with four bytes of a tensor replaced. */
static const char *with_bits(const char *path, const char *tensor, uint32_t bits)
{
    struct tft_source s;
    const char *to = in_folder("bad.gguf");
    assert_int_equal(tft_source_open(&s, path, NULL, NULL, NULL), TFT_OK);
    unsigned char *copy = malloc(s.size);
    assert_non_null(copy);
    memcpy(copy, s.data, s.size);
    memcpy(copy + (tft_source_tensor(&s, tensor)->data - s.data) + 40, &bits, 4);
    assert_true(write_file(to, copy, s.size));
    free(copy);
    tft_source_close(&s);
    return to;
}

static void bad_input_leaves_no_file(void **state)
{
    (void)state;
    const struct toy *t = &toys[0];
    struct quantize_opts o = usual(t);
    files_in_folder(true);
    o.n_text = WINDOW - 1;
    fails(written(t), &o, "a calibration text of 99 tokens is too short for a window of 100");
    o.n_text = TEXT;
    fails(with_bits(in_folder("m.gguf"), "blk.1.ffn_up.weight", 0x7fc00000), &o,
          "NaN or infinity in the weights of blk.1.ffn_up, row 0");
    fails(with_bits(in_folder("m.gguf"), "blk.0.attn_k.weight", 0x7f800000), &o,
          "NaN or infinity in the weights of blk.0.attn_k, row 0");
    fails(with_bits(in_folder("m.gguf"), "output.weight", 0x7fc00000), &o,
          "NaN or infinity in the weights of output, row 0");
    fails(with_bits(in_folder("m.gguf"), "token_embd.weight", 0x7fc00000), &o,
          "NaN or infinity in the weights of token_embd, row 0");
    o.rotate = QUANTIZE_ROTATE_NONE;
    fails(with_bits(in_folder("m.gguf"), "blk.1.ffn_up.weight", 0x7b000000), &o, /* 6.6e35 */
          "numbers beyond 2.55e+32 at the input of blk.1.ffn_down on the calibration text: bytes "
          "have no scale for them");
    o.rotate = QUANTIZE_ROTATE_O_DOWN;
    fails(quantized(t, &o), &o, "is already quantized: give the float model");
    o.prefix_type = TFT_Q4_1;
    fails(written(t), &o,
          "a token has 2 x 12 keys, not a multiple of 32: store the prefix as F16, not Q4_1");
    o.prefix_type = TFT_Q4_0;
    fails(written(&toys[2]), &o, "a prefix cannot be stored as Q4_0: choose F16, Q8_0 or Q4_1");
    o.rotate = QUANTIZE_ROTATE_ALL;
    fails(written(&toys[3]), &o, "cannot rotate the residual stream of gpt2");
}

struct stop {
    unsigned calls, last; /* the callback stops at the last */
    double done;
};

static bool stop(void *user, double done)
{
    struct stop *s = user;
    assert_true(done >= s->done && done <= 1);
    s->done = done;
    return ++s->calls != s->last;
}

/* Stops at each call of progress: in both runs of a layer, in AWQ and in rounding. */
static void stopped_while_rounding(void **state)
{
    (void)state;
    struct tft_model *m;
    files_in_folder(true);
    assert_int_equal(tft_model_open_unexpanded(&m, written(&toys[0]), NULL, NULL), TFT_OK);
    struct quantize_opts o = few_bits(&toys[0], 3);
    o.progress = stop;
    o.rounding = QUANTIZE_AWQ;
    for (unsigned last = 1, calls = 0; last != calls + 1; last++) {
        struct stop s = {.last = last};
        bool stopped;
        o.user = &s;
        assert_int_equal(quantize(m, in_folder("q.gguf"), &o, result, &stopped, NULL), TFT_OK);
        assert_int_equal(files_in_folder(false), stopped ? 1 : 2);
        calls = stopped ? last : s.calls;
        assert_int_equal(stopped, s.calls == last && s.done < 1);
    }
    tft_model_close(m);
}

/* Stops at each call of progress: after each of the 3 windows of 2 layers (twice with smoothing)
   and of the head, and at the end. */
static void stopped_leaves_no_file(void **state)
{
    (void)state;
    struct tft_model *m;
    files_in_folder(true);
    assert_int_equal(tft_model_open_unexpanded(&m, written(&toys[0]), NULL, NULL), TFT_OK);
    for (int smooth = 0; smooth < 2; smooth++) {
        unsigned calls = smooth ? 3 * 5 + 1 : 3 * 3 + 1;
        struct quantize_opts o = usual(&toys[0]);
        o.smooth = smooth ? 0.5f : 0;
        o.progress = stop;
        for (unsigned last = 1; last <= calls + 1; last++) {
            struct stop s = {.last = last};
            bool stopped;
            o.user = &s;
            assert_int_equal(quantize(m, in_folder("q.gguf"), &o, result, &stopped, NULL), TFT_OK);
            assert_int_equal(stopped, last <= calls);
            assert_int_equal(s.calls, stopped ? last : calls);
            assert_int_equal(files_in_folder(false), stopped ? 1 : 2);
        }
        remove(in_folder("q.gguf"));
    }
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_file_on_every_isa_with_any_threads),
        cmocka_unit_test(same_bits_however_fed),
        cmocka_unit_test(same_bits_on_every_isa_and_machine),
        cmocka_unit_test(near_the_floats),
        cmocka_unit_test(what_follows_the_prefix),
        cmocka_unit_test(a_rotated_stream_is_that_of_an_equivalent_model),
        cmocka_unit_test(the_importance_of_channels),
        cmocka_unit_test(the_model_is_as_it_was),
        cmocka_unit_test(the_error_is_that_of_the_ranges),
        cmocka_unit_test(few_bits_on_every_isa_with_any_threads),
        cmocka_unit_test(matrices_have_their_bits),
        cmocka_unit_test(few_bits_near_the_floats),
        cmocka_unit_test(unfolding_undoes_folding),
        cmocka_unit_test(awq_near_the_floats),
        cmocka_unit_test(awq_moves_factors_from_norms_to_their_readers),
        cmocka_unit_test(awq_moves_factors_from_rows_to_their_readers),
        cmocka_unit_test(awq_leaves_values_that_are_calibrated),
        cmocka_unit_test(outputs_are_those_of_floats),
        cmocka_unit_test(bad_input_leaves_no_file),
        cmocka_unit_test(stopped_leaves_no_file),
        cmocka_unit_test(stopped_while_rounding),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
