/* The gradients of both tuning losses against finite differences, in double precision (built with
   TUNE_DOUBLE). Activations are really rounded: see tune_rounding.h. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "fed.h"
#include "layer_toys.h"
#include "models/open.h"
#include "piece_toys.h"
#include "tools/quantize/quantize.h"
#include "random.h"
#include "tools/quantize/tune/attention.h"
#include "tools/quantize/tune/sequence_loss.h"
#include "tune_rounding.h"
#include "tune_toys.h"

enum { N = 34, CALIBRATION = 60, INPUTS = 25 }; /* N: more than one tile of queries */

static struct tft_model *quantized(const struct toy *t)
{
    static const int32_t prefix[2] = {1, 7};
    static int32_t text[CALIBRATION];
    static struct quantize_input result[INPUTS];
    static enum tft_range range[INPUTS];
    struct tft_model *m;
    struct tft_error err;
    bool stopped;
    toy_tokens(11, t->n_vocab, text, CALIBRATION);
    for (int i = 0; i < INPUTS; i++)
        range[i] = TFT_RANGE_STATIC;
    struct quantize_opts o = {.text = text,
                              .n_text = CALIBRATION,
                              .window = CALIBRATION,
                              .rotate = QUANTIZE_ROTATE_O_DOWN,
                              .prefix = prefix,
                              .n_prefix = 2,
                              .range = range,
                              .n_threads = 1,
                              .method = RANGE_PERCENTILE,
                              .param = 95}; /* clips some numbers */
    assert_int_equal(tft_model_open_unexpanded(&m, written(t), NULL, &err), TFT_OK);
    assert_int_equal(quantize(m, in_folder("q.gguf"), &o, result, &stopped, &err), TFT_OK);
    tft_model_close(m);
    return opened(in_folder("q.gguf"));
}

struct problem {
    struct sequence *s;
    int32_t token[N];
    const uint16_t *float_outputs;
    double *params, *gradient;
    size_t n;
};

static double loss_of(struct problem *p, enum rounding mode)
{
    assert_true(rounding_begin(mode));
    return sequence_run(p->s, p->token, p->float_outputs, p->params, NULL).total;
}

/* Central difference. */
static double slope(struct problem *p, size_t i)
{
    const double h = 1e-6, at = p->params[i];
    p->params[i] = at + h;
    double up = loss_of(p, REPLAY);
    p->params[i] = at - h;
    double down = loss_of(p, REPLAY);
    p->params[i] = at;
    return (up - down) / (2 * h);
}

static void compare(struct problem *p, const char *what, unsigned long long pieces)
{
    double size = 0;
    memset(p->gradient, 0, p->n * sizeof *p->gradient);
    double base = loss_of(p, RECORD);
    assert_true(loss_of(p, REPLAY) == base);
    assert_true(rounding_begin(ROUND));
    sequence_run(p->s, p->token, p->float_outputs, p->params, p->gradient);
    for (size_t i = 0; i < p->n; i++)
        size += p->gradient[i] * p->gradient[i];
    size = sqrt(size / (double)p->n);
    assert_true(size > 1e-6);
    for (size_t i = 0; i < p->n; i += 1 + p->n / (thorough() ? 50 : 13)) {
        double want = slope(p, i);
        if (!(fabs(want - p->gradient[i]) < 1e-4 * size))
            fail_msg("%s, pieces %#llx, number %zu of %zu: %.9g, but the slope is %.9g; others are "
                     "about %.3g",
                     what, pieces, i, p->n, p->gradient[i], want, size);
    }
}

static void check(const struct toy *t, double lambda, bool match)
{
    struct tft_model *m = quantized(t);
    size_t outputs = (size_t)m->n_layer * N * t->n_embd;
    uint16_t *float_outputs = malloc(outputs * sizeof *float_outputs);
    struct problem p = {.n = sequence_params(m), .float_outputs = match ? float_outputs : NULL};
    p.s = sequence_open(m, N, lambda, 1);
    p.params = malloc(p.n * sizeof *p.params);
    p.gradient = malloc(p.n * sizeof *p.gradient);
    toy_tokens(3, t->n_vocab, p.token, N);
    for (size_t i = 0; i < p.n; i++)
        p.params[i] = (double)random_normal() / 2;
    for (size_t i = 0; i < outputs; i++)
        m->kern.narrow[TFT_NUM_F16](&float_outputs[i], &(float){random_normal()}, 1);
    compare(&p, t->arch, m->parts);
    sequence_close(p.s);
    tft_model_close(m);
    free(float_outputs);
    free(p.params);
    free(p.gradient);
}

/* Architectures with the toys' parts only, but in other combinations: LayerNorm with RoPE, with a
   gate, and with groups of heads. */
static const struct toy mixed[] = {
    {.arch = "stablelm",
     .n_vocab = 35,
     .n_ctx = 64,
     .n_embd = 32,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 64,
     .n_rot = 4},
    {.arch = "starcoder2",
     .n_vocab = 40,
     .n_ctx = 64,
     .n_embd = 40,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 20,
     .n_ff = 72,
     .n_rot = 20,
     .tied = true},
};

static void prediction(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++)
        check(&toys[i], 0, false);
    for (int i = 0; i < 2; i++)
        check(&mixed[i], 0, false);
}

static void prediction_and_quantization_error(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++)
        check(&toys[i], 0.3, false);
}

static void layer_outputs(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++)
        check(&toys[i], 0, true);
}

/* Pieces of later formulas, alone and together. */
static void pieces(void **state)
{
    (void)state;
    for (int i = 0; i < N_PIECE_TOYS; i++) {
        check(&piece_toys[i], 0.3, false);
        check(&piece_toys[i], 0, true);
    }
}

/* gemma4: shared keys and values, embeddings of layers, norms of values, heads and widths by layer;
   and keys that are values. */
static void layers_that_differ(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        check(&layer_toys[i], 0.3, false);
        check(&layer_toys[i], 0, true);
    }
}

/* Queries of the second tile alone have a gradient: rows far enough before the tile get all of
   theirs from it, later rows none. */
static void far_rows(void **state)
{
    enum { FAR = 5, FIRST = 32, WIDTH = 4 * 32 };
    static double q[N * WIDTH], k[N * WIDTH], v[N * WIDTH], dy[N * WIDTH], prefix[4][2 * WIDTH],
        d[5][N * WIDTH];
    (void)state;
    struct tft_model *m = quantized(&toys[0]);
    size_t heads = (size_t)m->n_head * m->head_dim, width = (size_t)m->n_head_kv * m->head_dim,
           zeros = 0;
    struct attention *a = attention_open(m, 2, N, 1);
    assert_true(heads <= WIDTH);
    for (size_t i = 0; i < N * WIDTH; i++) {
        q[i] = (double)random_normal();
        k[i] = (double)random_normal();
        v[i] = (double)random_normal();
        dy[i] = i < FIRST * heads ? 0 : (double)random_normal();
    }
    struct attention_rows x = {.heads = {m->n_head_kv, m->head_dim},
                               .q = q,
                               .k = k,
                               .v = v,
                               .prefix_k = prefix[0],
                               .prefix_v = prefix[1]};
    struct attention_gradients g = {.q = d[0],
                                    .k = d[1],
                                    .v = d[2],
                                    .prefix_k = prefix[2],
                                    .prefix_v = prefix[3],
                                    .far_k = d[3],
                                    .far_v = d[4],
                                    .far = FAR};
    attention_back(a, &g, dy, &x, N);
    for (size_t i = 0; i < N * width; i++) {
        bool far = i / width + FAR <= FIRST;
        assert_true(d[3][i] == (far ? d[1][i] : 0));
        assert_true(d[4][i] == (far ? d[2][i] : 0));
        zeros += far && d[1][i] == 0;
    }
    assert_int_equal(zeros, 0);
    attention_close(a);
    tft_model_close(m);
}

/* What the attention of each layer of a toy of gemma4 saw, [layer]. */
enum { LAYERS = 6, MOST = N * 4 * 20, FAR_OFF = 3 };
static struct {
    double q[MOST], dy[MOST], k[MOST], v[MOST], far_k[MOST], far_v[MOST];
} seen_rows[LAYERS];

static void keep_rows(void *user, uint32_t l, const struct block_rows *x)
{
    const struct tft_model *m = user;
    size_t dim = m->layer[l].kv.dim, queries = N * m->n_head * dim * sizeof(double),
           keys = N * m->layer[l].kv.n * dim * sizeof(double);
    memcpy(seen_rows[l].q, x->q, queries);
    memcpy(seen_rows[l].dy, x->dy, queries);
    memcpy(seen_rows[l].k, x->k, keys);
    memcpy(seen_rows[l].v, x->v, keys);
    memcpy(seen_rows[l].far_k, x->far_k, keys);
    memcpy(seen_rows[l].far_v, x->far_v, keys);
}

static void near(const double *is, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs(is[i] - want[i]) <= 1e-9 * fabs(want[i]) + 1e-15))
            fail_msg("%g, not %g", is[i], want[i]);
}

/* Adds the far gradients that layer l gives the keys and values of the layer `owner`. sum: [2, n] */
static void add_far(const struct problem *p, const struct tft_model *m, struct attention *a,
                    uint32_t owner, uint32_t l, double *sum)
{
    static double d[3][MOST], far[2][MOST], rows[2][2 * MOST];
    const struct tft_layer *b = &m->layer[owner];
    size_t n = N * b->kv.n * (size_t)b->kv.dim,
           prefix = m->n_prefix * tft_model_kv_before(m, b->kv_layer);
    const struct attention_rows x = {.heads = b->kv,
                                     .q = seen_rows[l].q,
                                     .k = seen_rows[owner].k,
                                     .v = seen_rows[owner].v,
                                     .prefix_k = p->params + prefix,
                                     .prefix_v = p->params + p->n / 2 + prefix,
                                     .window = m->layer[l].window};
    const struct attention_gradients g = {.q = d[0],
                                          .k = d[1],
                                          .v = d[2],
                                          .prefix_k = rows[0],
                                          .prefix_v = rows[1],
                                          .far_k = far[0],
                                          .far_v = far[1],
                                          .far = FAR_OFF};
    attention_back(a, &g, seen_rows[l].dy, &x, N);
    for (size_t i = 0; i < n; i++) {
        sum[i] += far[0][i];
        sum[n + i] += far[1][i];
    }
}

/* Runs the model once, which fills seen_rows. */
static void see_rows(struct problem *p, struct tft_model *m)
{
    uint64_t seed = 1;
    struct block_watch watch = {.far = FAR_OFF, .take = keep_rows, .user = m};
    for (size_t i = 0; i < p->n; i++)
        p->params[i] = (double)random_normal() / 2;
    toy_tokens(3, m->n_vocab, p->token, N);
    sequence_watch(p->s, &watch, &seed);
    assert_true(rounding_begin(ROUND));
    sequence_run(p->s, p->token, NULL, p->params, p->gradient);
}

/* The block that has shared keys and values gets the far gradients of all that read them. */
static void far_rows_of_shared_keys(void **state)
{
    static double sum[2 * MOST];
    (void)state;
    struct tft_model *m = quantized(&layer_toys[0]);
    uint32_t sharers = 0;
    struct problem p = {.n = sequence_params(m), .s = sequence_open(m, N, 0, 1)};
    p.params = malloc(p.n * sizeof *p.params);
    p.gradient = calloc(p.n, sizeof *p.gradient);
    assert_int_equal(m->n_layer, LAYERS);
    see_rows(&p, m);
    struct attention *a = attention_open(m, m->n_prefix, N, 1);
    for (uint32_t owner = 0; owner < LAYERS; owner++) {
        const struct tft_layer *b = &m->layer[owner];
        size_t n = N * b->kv.n * (size_t)b->kv.dim;
        memset(sum, 0, sizeof sum);
        for (uint32_t l = owner; tft_layer_has_kv(b) && l < LAYERS; l++)
            if (m->layer[l].kv_layer == b->kv_layer) {
                add_far(&p, m, a, owner, l, sum);
                sharers += l != owner;
            }
        near(seen_rows[owner].far_k, sum, n);
        near(seen_rows[owner].far_v, sum + n, n);
    }
    assert_int_equal(sharers, 3);
    attention_close(a);
    sequence_close(p.s);
    tft_model_close(m);
    free(p.params);
    free(p.gradient);
}

static void count_rows(void *user, uint32_t l, const struct block_rows *x)
{
    *(unsigned *)user |= 1u << l;
    assert_true(x->q && x->dy && x->k && x->v && x->far_k && x->far_v);
}

/* The gradient of -log p of a token that the model draws is 0 on average, unlike that of a token of
   the text. */
static void drawn_tokens(void **state)
{
    enum { TRIES = 100 };
    (void)state;
    unsigned seen = 0;
    struct tft_model *m = quantized(&toys[0]);
    struct block_watch watch = {.far = 5, .take = count_rows, .user = &seen};
    struct problem p = {.n = sequence_params(m), .s = sequence_open(m, N, 0, 1)};
    p.params = malloc(p.n * sizeof *p.params);
    p.gradient = malloc(p.n * sizeof *p.gradient);
    double *mean = calloc(p.n, sizeof *mean), one = 0, all = 0;
    toy_tokens(3, toys[0].n_vocab, p.token, N);
    for (size_t i = 0; i < p.n; i++)
        p.params[i] = (double)random_normal() / 2;
    for (uint64_t seed = 0; seed < TRIES; seed++) {
        sequence_watch(p.s, &watch, &seed);
        memset(p.gradient, 0, p.n * sizeof *p.gradient);
        assert_true(rounding_begin(ROUND));
        sequence_run(p.s, p.token, NULL, p.params, p.gradient);
        for (size_t i = 0; i < p.n; i++) {
            mean[i] += p.gradient[i] / TRIES;
            one += p.gradient[i] * p.gradient[i] / TRIES;
        }
    }
    for (size_t i = 0; i < p.n; i++)
        all += mean[i] * mean[i];
    assert_true(one > 0 && all < 4 * one / TRIES);
    assert_int_equal(seen, (1u << toys[0].n_layer) - 1);
    sequence_close(p.s);
    tft_model_close(m);
    free(p.params);
    free(p.gradient);
    free(mean);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prediction),
        cmocka_unit_test(prediction_and_quantization_error),
        cmocka_unit_test(layer_outputs),
        cmocka_unit_test(pieces),
        cmocka_unit_test(layers_that_differ),
        cmocka_unit_test(far_rows),
        cmocka_unit_test(far_rows_of_shared_keys),
        cmocka_unit_test(drawn_tokens),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
