/* Tuning: the loss equals the runtime's, steps lower it, and the best prefix is kept.
   test_tune_gradient.c checks gradients. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "fed.h"
#include "layer_toys.h"
#include "model/parts.h"
#include "models/open.h"
#include "piece_toys.h"
#include "simd/half.h"
#include "tools/quantize/tune/matmul.h"
#include "tools/quantize/quantize.h"
#include "random.h"
#include "tools/quantize/tune/coded_rows.h"
#include "tools/quantize/tune/sequence_loss.h"
#include "tools/quantize/tune/tune.h"
#include "tune_toys.h"

enum {
    WINDOW = 40,
    WINDOWS = 6,
    TEXT = WINDOW * WINDOWS,
    INPUTS = 25,
    MOST_LAYERS = 6,
    MOST_EMBD = 64
};

/* The toys of both lists, one after the other, and gemma4's two without experts. */
enum { PIECES_END = N_TOYS + N_PIECE_TOYS, ALL_TOYS = PIECES_END + 2 };

static const struct toy *toy(int i)
{
    return i < N_TOYS       ? &toys[i]
           : i < PIECES_END ? &piece_toys[i - N_TOYS]
                            : &layer_toys[i - PIECES_END];
}

static const int32_t prefix[2] = {1, 7};
static int32_t text[TEXT];

/* ---- a W8A8 model, and the outputs of the float model's blocks */

static uint16_t wanted[WINDOWS * MOST_LAYERS * WINDOW * MOST_EMBD];
static const struct tft_model *of;

static void keep(void *user, uint32_t l, const float *x, size_t stride)
{
    (void)user;
    for (size_t i = 0; i < TEXT; i++)
        for (size_t j = 0; j < of->n_embd; j++)
            wanted[((i / WINDOW * of->n_layer + l) * WINDOW + i % WINDOW) * of->n_embd + j] =
                tft_f32_to_f16(x[i * stride + j]);
}

/* Text that can be learned: a few tokens, repeated. */
static void make_text(const struct toy *t)
{
    toy_tokens(3, t->n_vocab, text, TEXT);
    for (int i = 0; i < TEXT; i++)
        text[i] = i % 7 < 5 ? 2 + i % 7 : text[i];
}

static const char *default_kv; /* the default cache of models that are made; NULL: f16 */

static struct tft_model *quantized_to(uint8_t bits, const struct toy *t, enum tft_range kind,
                                      uint32_t n_prefix)
{
    static struct quantize_input result[INPUTS];
    enum tft_range range[INPUTS];
    struct tft_model *m;
    struct tft_error err;
    bool stopped;
    for (int i = 0; i < INPUTS; i++)
        range[i] = kind;
    make_text(t);
    struct quantize_opts o = {.text = text,
                              .n_text = TEXT,
                              .window = WINDOW,
                              .rotate = QUANTIZE_ROTATE_O_DOWN,
                              .prefix = prefix,
                              .n_prefix = n_prefix,
                              .range = range,
                              .n_threads = 1,
                              .method = RANGE_PERCENTILE,
                              .param = 99.9,
                              .group = 32,
                              .kv = default_kv,
                              .outputs = keep};
    static uint8_t matrix_bits[8 * LAYER_MATS];
    memset(matrix_bits, bits, sizeof matrix_bits);
    o.bits = matrix_bits;
    assert_int_equal(tft_model_open_unexpanded(&m, written(t), NULL, &err), TFT_OK);
    of = m;
    if (quantize(m, in_folder("q.gguf"), &o, result, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_model_close(m);
    return opened(in_folder("q.gguf"));
}

static struct tft_model *quantized(const struct toy *t, enum tft_range kind, uint32_t n_prefix)
{
    return quantized_to(8, t, kind, n_prefix);
}

static struct tune_opts usual(void)
{
    return (struct tune_opts){.text = text,
                              .n_windows = WINDOWS,
                              .window = WINDOW,
                              .epochs = 2,
                              .rate = 0.05f,
                              .lambda = 0.01f,
                              .n_threads = 1};
}

/* ---- the loss */

/* Mean of -log p(next token), computed by the runtime. kv: NULL for the file's default cache. */
static double runtime_loss(const struct tft_model *m, const int32_t *token, const char *kv)
{
    struct tft_session *s = session(
        m, (struct tft_session_opts){.n_logits = WINDOW, .kv = kv, .n_threads = 1});
    double loss = 0;
    assert_int_equal(tft_prefill(s, token, WINDOW), TFT_OK);
    for (int i = 0; i + 1 < WINDOW; i++) {
        const float *x = tft_logits(s, (size_t)(WINDOW - 1 - i)); /* newest first */
        double sum = 0;
        for (uint32_t j = 0; j < m->n_vocab; j++)
            sum += exp((double)x[j]);
        loss += log(sum) - (double)x[token[i + 1]];
    }
    tft_session_close(s);
    return loss / (WINDOW - 1);
}

static float *prefix_params(const struct tft_model *m)
{
    size_t n = sequence_params(m);
    float *p = malloc(n * sizeof *p);
    m->kern.widen[TFT_NUM_F16](p, m->prefix_k, n / 2);
    m->kern.widen[TFT_NUM_F16](p + n / 2, m->prefix_v, n / 2);
    return p;
}

/* Other rounding errors change a byte here and there. Toys for pieces have one kind of range in
   turn. */
static void the_loss_of_the_runtime(void **state)
{
    (void)state;
    static const enum tft_range kinds[] = {TFT_RANGE_STATIC, TFT_RANGE_TOKEN};
    for (int i = 0; i < ALL_TOYS; i++)
        for (int k = 0; k < 2; k++) {
            if (i >= N_TOYS && !in_turn(k, i, 2))
                continue;
            struct tft_model *m = quantized(toy(i), kinds[k], 2);
            struct sequence *s = sequence_open(m, WINDOW, 0, i < N_TOYS ? 2 : 1);
            float *params = prefix_params(m);
            double want = runtime_loss(m, text, "f32"),
                   got = sequence_run(s, text, NULL, params, NULL).judged;
            if (!(fabs(got - want) < 2e-3 * want))
                fail_msg("%s, ranges %d: %.6f, the runtime has %.6f", toy(i)->arch, k, got, want);
            params[0] += 1; /* the loss depends on params */
            assert_true(fabs(sequence_run(s, text, NULL, params, NULL).judged - got) > 1e-6 * want);
            free(params);
            sequence_close(s);
            tft_model_close(m);
        }
}

/* Models that are not W8A8: matrices of floats, and of blocks that compute with groups of bytes. */
static struct tft_model *plain(enum tft_dtype type)
{
    const struct toy t = {.arch = "llama",
                          .n_vocab = 50,
                          .n_ctx = 64,
                          .n_embd = 256,
                          .n_layer = 3,
                          .n_head = 4,
                          .n_head_kv = 2,
                          .head_dim = 64,
                          .n_ff = 768,
                          .n_rot = 64,
                          .floats = 2, /* layer 1 */
                          .type = type};
    make_text(&t);
    return opened(written(&t));
}

static const enum tft_dtype plain_types[] = {TFT_F32,  TFT_F16,  TFT_BF16, TFT_Q8_0,
                                             TFT_Q4_0, TFT_Q4_K, TFT_Q6_K, TFT_IQ2_XXS};
enum { PLAIN_TYPES = sizeof plain_types / sizeof *plain_types };

static void the_loss_of_the_runtime_in_plain_models(void **state)
{
    (void)state;
    for (int i = 0; i < PLAIN_TYPES; i++) {
        struct tft_model *m = plain(plain_types[i]);
        struct sequence *s = sequence_open(m, WINDOW, 0, 2);
        float *params = calloc(sequence_params(m) + 1, sizeof *params);
        double want = runtime_loss(m, text, "f32"),
               got = sequence_run(s, text, NULL, params, NULL).judged;
        if (!(fabs(got - want) < 2e-3 * want))
            fail_msg("%s: %.6f, the runtime has %.6f", tft_dtype_name(plain_types[i]), got, want);
        free(params);
        sequence_close(s);
        tft_model_close(m);
    }
}

static struct tft_model *quantized_for(const struct toy *t, const char *kv)
{
    default_kv = kv;
    struct tft_model *m = quantized(t, TFT_RANGE_STATIC, 2);
    default_kv = NULL;
    return m;
}

/* Through the file's default cache, as a session that is fed the window has it: nearer to that loss
   than the loss with floats, by far. Single losses differ by rounding. */
static void the_loss_through_a_cache(void **state)
{
    (void)state;
    static const char *const caches[] = {
        "kivi:retain=fill:16,group=16",
        "k=3@token,v=1@channel,retain=window:16,group=16,sinks=2",
        "logquant:retain=log2:5,group=16,bits=1.5",
        "k=1@channel,v=16,kr=log2:4,vr=window:16,group=16,clip=zero",
        "tuffet:k=1.5@mixed,v=8,retain=fill:16,group=16",
        "skvq:retain=fill:16,group=16,bits=1,sinks=0",
        "k=16,v=1,group=16,retain=fill:16",
    };
    for (size_t k = 0; k < sizeof caches / sizeof *caches; k++) {
        double miss = 0, lost = 0;
        for (int i = 0; i < (k < 2 ? ALL_TOYS : N_TOYS); i++) {
            struct tft_model *m = quantized_for(toy(i), caches[k]);
            struct sequence *s = sequence_open(m, WINDOW, 0, i < N_TOYS ? 2 : 1);
            float *params = prefix_params(m);
            double floats = runtime_loss(m, text, "f32"), want = runtime_loss(m, text, NULL);
            miss += fabs(sequence_run(s, text, NULL, params, NULL).judged - want);
            lost += fabs(floats - want);
            free(params);
            sequence_close(s);
            tft_model_close(m);
        }
        if (!(miss < 0.25 * lost))
            fail_msg("%s: %.5f from the runtime, which is %.5f from floats, in all", caches[k],
                     miss, lost);
    }
}

/* Each number of a quantized token is near its old value, and no other number changes: 8 bits lose
   1 / 255 of the range of a group, half of it to each side, and f16 next to nothing. Random numbers
   are all within 6. */
static void codes_are_near_their_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *kv;
        double within;
        uint32_t since[WINDOW];
    } caches[] = {
        {"kivi:bits=8,retain=fill:16,group=16", 12. / 255, {[0] = 16, [15] = 16, [16] = 32}},
        {"k=8@token,v=8@channel,retain=fill:16,group=16", 12. / 255, {[0] = 16, [31] = 32}},
        {"skvq:bits=8,sinks=2,retain=window:4,group=16,clip=none,scales=f16", 12. / 255,
         {[1] = UINT32_MAX, [2] = 38, [33] = 38, [34] = UINT32_MAX}},
        {"tuffet:k=4@mixed,v=8,retain=fill:16,group=16,clip=none,sinks=0", 12. / 15, {[0] = 16}},
        {"bits=16,retain=fill:16,group=16", 6. / 1024, {[0] = 16, [39] = UINT32_MAX}},
    };
    static float k[WINDOW * MOST_EMBD * 2], v[WINDOW * MOST_EMBD * 2];
    for (size_t c = 0; c < sizeof caches / sizeof *caches; c++)
        for (int i = 0; i < N_TOYS; i++) {
            struct tft_model *m = quantized_for(&toys[i], caches[c].kv);
            struct coded_rows *r = coded_rows_open(m, WINDOW, 2);
            size_t width = (size_t)m->n_head_kv * m->head_dim;
            assert_true(width <= (size_t)MOST_EMBD * 2);
            for (size_t j = 0; j < WINDOW * width; j++) {
                k[j] = random_normal();
                v[j] = random_normal();
            }
            const struct coded_view *seen = coded_rows_run(r, m->n_layer - 1, k, v);
            assert_non_null(seen);
            for (int side = 0; side < TFT_KV_SIDES; side++)
                for (size_t t = 0; t < WINDOW; t++) {
                    uint32_t since = seen->since[side][t];
                    if (caches[c].since[t])
                        assert_int_equal(since, caches[c].since[t]);
                    for (size_t d = 0; d < width && since < UINT32_MAX; d++) {
                        size_t at = t * width + d;
                        float x = side == TFT_KV_K ? k[at] : v[at];
                        assert_true(fabs((double)(seen->row[side][at] - x)) <= caches[c].within);
                    }
                }
            coded_rows_close(r);
            tft_model_close(m);
        }
}

/* The second loss is small, as the outputs of the quantized model's blocks are near the float
   model's, which quantize() shows. */
static void outputs_are_those_of_floats(void **state)
{
    (void)state;
    for (int i = 0; i < ALL_TOYS; i++) {
        struct tft_model *m = quantized(toy(i), TFT_RANGE_TOKEN, 2);
        struct sequence *s = sequence_open(m, WINDOW, 0, 1);
        float *params = prefix_params(m);
        double size = 0, miss = sequence_run(s, text, wanted, params, NULL).judged;
        for (size_t j = 0; j < (size_t)m->n_layer * WINDOW * m->n_embd; j++)
            size += (double)tft_f16_to_f32(wanted[j]) * (double)tft_f16_to_f32(wanted[j]) / 2 /
                    WINDOW;
        if (!(miss > 0 && miss < 0.02 * size))
            fail_msg("%s: off by %.3g of %.3g", toy(i)->arch, miss, size);
        free(params);
        sequence_close(s);
        tft_model_close(m);
    }
}

/* ---- matrix products */

static void columns_of(struct tft_model *m)
{
    const struct tft_linear *all[] = {&m->layer[0].q, &m->layer[1].k, &m->layer[2].gate,
                                      &m->layer[0].down, &m->output};
    for (int threads = 1; threads <= 3; threads += 2)
        for (size_t a = 0; a < sizeof all / sizeof *all; a++) {
            const struct tft_mat *w = &all[a]->w;
            enum { N = 5 };
            struct matmul *p = matmul_open(m, N, threads);
            float *dy = malloc(N * w->rows * sizeof *dy), *dx = malloc(N * w->cols * sizeof *dx),
                  *row = malloc(w->cols * sizeof *row);
            double *want = malloc(N * w->cols * sizeof *want);
            random_fill(dy, N * w->rows);
            for (int add = 0; add < 2; add++) {
                random_fill(dx, N * w->cols);
                for (size_t i = 0; i < N * w->cols; i++)
                    want[i] = add ? (double)dx[i] : 0;
                for (uint32_t r = 0; r < w->rows; r++) {
                    tft_mat_row(m, w, r, row);
                    for (size_t i = 0; i < N * w->cols; i++)
                        want[i] += (double)dy[i / w->cols * w->rows + r] * (double)row[i % w->cols];
                }
                matmul_back(p, dx, dy, N, all[a], add);
                for (size_t i = 0; i < N * w->cols; i++)
                    assert_true(fabs((double)dx[i] - want[i]) < 1e-4);
            }
            free(dy);
            free(dx);
            free(row);
            free(want);
            matmul_close(p);
        }
}

static void columns_of_panels(void **state)
{
    static const uint8_t bits[] = {8, 4, 3, 2};
    (void)state;
    for (size_t i = 0; i < sizeof bits; i++) {
        struct tft_model *m = quantized_to(bits[i], &toys[0], TFT_RANGE_STATIC, 2);
        columns_of(m);
        tft_model_close(m);
    }
}

/* Matrices of blocks have more rows than become floats at a time. */
static void columns_of_plain_models(void **state)
{
    (void)state;
    for (int i = 0; i < PLAIN_TYPES; i++) {
        struct tft_model *m = plain(plain_types[i]);
        columns_of(m);
        tft_model_close(m);
    }
}

/* ---- tuning */

static struct tune_result tuned(const struct tft_model *m, const struct tune_opts *o)
{
    struct tune_result r;
    struct tft_error err;
    bool stopped;
    if (tune(m, o, &r, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_false(stopped);
    return r;
}

/* Of six windows the fifth is held out. Every other toy for pieces: all of them have their
   gradients checked. */
static void the_best_on_text_held_out(void **state)
{
    (void)state;
    for (int i = 0; i < ALL_TOYS; i++)
        for (int match = 0; match < (i < N_TOYS ? 2 : 1); match++) {
            if (i >= N_TOYS && !in_turn(0, i, 2))
                continue;
            struct tft_model *m = quantized(toy(i), TFT_RANGE_STATIC, 2);
            struct tune_opts o = usual();
            o.float_outputs = match ? wanted : NULL;
            o.epochs = 3;
            o.rate = match ? 0.002f : 0.05f;
            struct tune_result r = tuned(m, &o);
            /* five training windows: validated after three and after five of them, in three epochs
               */
            assert_int_equal(r.n_validation, 7);
            for (uint32_t j = 0; j < r.n_validation; j++)
                assert_true(r.validation[r.kept] <= r.validation[j]);
            /* few tokens of a window see the prefix in layers with a sliding one */
            float lower = m->parts & TFT_BIT(TFT_PART_WINDOW) ? 0.998f : 0.99f;
            if (!match && !(r.validation[r.kept] < lower * r.validation[0]))
                fail_msg("%s, pieces %#llx: %g, and %g before", toy(i)->arch,
                         (unsigned long long)m->parts, (double)r.validation[r.kept],
                         (double)r.validation[0]);

            struct sequence *s = sequence_open(m, WINDOW, 0, 1);
            size_t n = sequence_params(m);
            float *params = malloc(n * sizeof *params);
            m->kern.widen[TFT_NUM_F16](params, r.k, n / 2);
            m->kern.widen[TFT_NUM_F16](params + n / 2, r.v, n / 2);
            double again = sequence_run(s, text + 4 * WINDOW,
                                        match ? wanted + (size_t)4 * m->n_layer * WINDOW * m->n_embd
                                              : NULL,
                                        params, NULL)
                               .judged;
            assert_true(fabs(again - (double)r.validation[r.kept]) < 1e-6 * again);
            free(params);
            sequence_close(s);
            tune_free(&r);
            tft_model_close(m);
        }
}

static void same_bits(const struct toy *t)
{
    struct tft_model *m = quantized(t, TFT_RANGE_STATIC, 2);
    size_t n = sequence_params(m) * sizeof(uint16_t);
    struct tune_opts o = usual();
    struct tune_result want = tuned(m, &o);
    tft_model_close(m);
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
        m = opened(in_folder("q.gguf"));
        o.n_threads = 1 + isa % 3;
        struct tune_result r = tuned(m, &o);
        assert_memory_equal(r.k, want.k, n);
        tune_free(&r);
        tft_model_close(m);
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    tune_free(&want);
}

static void same_bits_on_every_isa_with_any_threads(void **state)
{
    (void)state;
    same_bits(&toys[0]);
    same_bits(&layer_toys[0]);
}

static bool stop(void *user, double done)
{
    int *left = user;
    assert_true(done >= 0 && done <= 1);
    return --*left > 0;
}

static void stopped_it_leaves_nothing(void **state)
{
    (void)state;
    struct tft_model *m = quantized(&toys[1], TFT_RANGE_STATIC, 2);
    for (int n = 1; n < 13; n += 3) { /* in a validation, in a step */
        int left = n;
        struct tune_opts o = usual();
        struct tune_result r;
        struct tft_error err;
        bool stopped;
        o.progress = stop;
        o.user = &left;
        assert_int_equal(tune(m, &o, &r, &stopped, &err), TFT_OK);
        assert_true(stopped && left == 0);
        assert_null(r.k);
    }
    tft_model_close(m);
}

static void what_cannot_be_tuned(void **state)
{
    (void)state;
    struct tune_opts o = usual();
    struct tune_result r;
    struct tft_error err;
    bool stopped;
    struct tft_model *m = quantized(&toys[1], TFT_RANGE_STATIC, 0);
    assert_int_equal(tune(m, &o, &r, &stopped, &err), TFT_ERR_ARG);
    tft_model_close(m);
    m = quantized(&toys[1], TFT_RANGE_STATIC, 2);
    o.n_windows = 1;
    assert_int_equal(tune(m, &o, &r, &stopped, &err), TFT_ERR_ARG);
    o.n_windows = 2;
    o.window = m->n_ctx - 1;
    assert_int_equal(tune(m, &o, &r, &stopped, &err), TFT_ERR_ARG);
    tft_model_close(m);
}

/* A piece is known if, and only if, a toy has it: parts that another module adds are refused until
   tuning knows them. */
static void every_known_piece_has_a_toy(void **state)
{
    (void)state;
    struct tft_error err;
    uint64_t covered = 0;
    for (int i = N_TOYS; i < ALL_TOYS; i++) {
        struct tft_model *m = opened(written(toy(i)));
        assert_int_equal(tune_check(m, &err), TFT_OK);
        covered |= m->parts;
        tft_model_close(m);
    }
    struct tft_model *m = opened(written(&toys[0])), one = *m;
    for (int piece = 0; piece < TFT_FORMULA_PARTS; piece++) {
        one.parts = TFT_BIT(piece);
        enum tft_status want = covered >> piece & 1 ? TFT_OK : TFT_ERR_UNSUPPORTED;
        if (tune_check(&one, &err) != want)
            fail_msg("%s: %d is not %d", tft_parts_unknown(&one, 0), tune_check(&one, &err),
                     want);
        if (want != TFT_OK)
            assert_non_null(strstr(err.msg, "tuning does not support "));
    }
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_of_the_runtime),
        cmocka_unit_test(the_loss_of_the_runtime_in_plain_models),
        cmocka_unit_test(the_loss_through_a_cache),
        cmocka_unit_test(codes_are_near_their_numbers),
        cmocka_unit_test(outputs_are_those_of_floats),
        cmocka_unit_test(columns_of_panels),
        cmocka_unit_test(columns_of_plain_models),
        cmocka_unit_test(the_best_on_text_held_out),
        cmocka_unit_test(same_bits_on_every_isa_with_any_threads),
        cmocka_unit_test(stopped_it_leaves_nothing),
        cmocka_unit_test(what_cannot_be_tuned),
        cmocka_unit_test(every_known_piece_has_a_toy),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
