/* The tables of the cache fisher: their equations again, and a measurement of a whole model. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>
#include <string.h>

#include "base/rope.h"
#include "kv/fisher.h"
#include "layer_toys.h"
#include "model/open.h"
#include "models/registry.h"
#include "random.h"
#include "same_tensors.h"
#include "tools/quantize/round/low_bits.h"
#include "tools/quantize/tune/kv_fisher.h"
#include "tools/quantize/tune/kv_fisher_table.h"
#include "tools/quantize/tune/kv_loss.h"
#include "tools/quantize/tune/row_ops.h"
#include "tools/quantize/tune/sequence_loss.h"
#include "tools/quantize/write/rewrite_model.h"
#include "w8a8.h"

enum { T = 640, E = 24, STRIDE = 30, ROWS = TFT_FISHER_ROWS };

struct tokens {
    float x[T * STRIDE];
    double square[E], output[E];
};

/* Tokens of different gains, and channels of different means, spreads and costs. */
static void random_tokens(struct tokens *k)
{
    float mean[E], sd[E];
    for (int d = 0; d < E; d++) {
        mean[d] = random_normal();
        sd[d] = expf(random_normal());
        k->square[d] = (double)expf(2 * random_normal());
        k->output[d] = (double)expf(random_normal());
    }
    for (int t = 0; t < T; t++) {
        float g = expf(0.4f * random_normal());
        for (int d = 0; d < STRIDE; d++)
            k->x[t * STRIDE + d] = d < E ? mean[d] + g * sd[d] * random_normal() : NAN;
    }
}

static const double gauss[] = {0, 1.596, 0.9957, 0.5860, 0.3352}; /* Max 1960, table II */

static void near(double is, double want)
{
    if (!(fabs(is - want) <= 1e-5 * fabs(want) + 1e-6))
        fail_msg("%g, not %g", is, want);
}

/* The mean squared error of (x - mean) / gain in 2^bits levels: the nearest of all. */
static double error_of(const struct tokens *k, int d, const double *gain, double mean, double step,
                       int bits)
{
    double sum = 0;
    for (int t = 0; t < T; t++) {
        double z = ((double)k->x[t * STRIDE + d] - mean) / gain[t], least = INFINITY;
        for (int c = 0; c < 1 << bits; c++)
            least = fmin(least, fabs(z - step * (c - ((1 << bits) - 1) / 2.0)));
        sum += least * least / T;
    }
    return sum;
}

static void equations(void **state)
{
    static struct tokens k;
    (void)state;
    for (int values = 0; values < 2; values++) {
        double mean[E] = {0}, var[E] = {0}, w[E], b[E], spread[E] = {0}, sum = 0,
               all = 0, fisher = 0, output = 0;
        float table[ROWS * E];
        static double gain[T];
        random_tokens(&k);
        kv_fisher_table(table, &(struct kv_fisher_rows){.x = k.x,
                                                        .n = T,
                                                        .stride = STRIDE,
                                                        .dim = E,
                                                        .square = k.square,
                                                        .output = values ? k.output : NULL});
        for (int t = 0; t < T; t++)
            for (int d = 0; d < E; d++)
                mean[d] += (double)k.x[t * STRIDE + d] / T;
        for (int t = 0; t < T; t++)
            for (int d = 0; d < E; d++)
                var[d] += pow((double)k.x[t * STRIDE + d] - mean[d], 2) / T;
        for (int d = 0; d < E; d++) {
            fisher += k.square[d] * var[d];
            output += k.output[d] * var[d];
        }
        for (int d = 0; d < E; d++) {
            w[d] = values ? k.output[d] * fisher / output : k.square[d];
            all += w[d] / E;
        }
        for (int d = 0; d < E; d++) {
            w[d] += (values ? 0.05 : 0.3) * all;
            sum += sqrt(w[d]) * sqrt(var[d]);
        }
        for (int d = 0; d < E; d++)
            b[d] = sqrt(w[d]) / sqrt(var[d]) / sum;
        for (int t = 0; t < T; t++) {
            double square = 0;
            for (int d = 0; d < E; d++)
                square += b[d] * pow((double)k.x[t * STRIDE + d] - mean[d], 2);
            gain[t] = sqrt(square);
            for (int d = 0; d < E; d++)
                spread[d] += pow((double)k.x[t * STRIDE + d] - mean[d], 2) / square / T;
        }
        for (int d = 0; d < E; d++) {
            near((double)table[TFT_FISHER_MEAN * E + d], mean[d]);
            near((double)table[TFT_FISHER_GAIN * E + d], b[d]);
            for (int bits = 1; bits <= TFT_FISHER_BITS; bits++) {
                double step = (double)table[(TFT_FISHER_STEP + bits - 1) * E + d], least = INFINITY,
                       of = sqrt(spread[d]) * gauss[bits];
                for (int i = 10; i <= 30; i++)
                    least = fmin(least, error_of(&k, d, gain, mean[d], of * i / 20, bits));
                near(error_of(&k, d, gain, mean[d], step, bits), least);
            }
        }
    }
}

/* Toys as W8A8 models, then as they are: of floats, and of blocks; two of gemma4, whose layers have
   different heads, some of them windows, and some the keys and values of others. */
enum { MODELS = 2 * N_TOYS + 2 };

static struct tft_model *model(int i)
{
    const struct toy *t = i < 2 * N_TOYS ? &toys[i % N_TOYS] : &layer_toys[i - 2 * N_TOYS];
    struct quantize_opts q = usual(t);
    return opened(i < N_TOYS ? quantized(t, &q) : written(t));
}

static bool has_table(const struct tft_layer *b) { return tft_layer_has_kv(b) && !b->window; }

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* A key of an f32 cache, before RoPE. */
static void key_before_rope(const struct tft_session *s, uint32_t l, uint32_t h, uint32_t slot,
                            double *x)
{
    const struct tft_model *m = s->m;
    const float *panel = tft_kv_keys(&s->kv, l, h, slot - slot % 16);
    for (uint32_t d = 0; d < tft_model_coded_heads(m).dim; d++)
        x[d] = (double)panel[d * 16 + slot % 16];
    for (uint32_t i = 0; i < m->n_rot / 2; i++) {
        uint32_t a = m->rope_halves ? i : 2 * i, b = m->rope_halves ? i + m->n_rot / 2 : 2 * i + 1;
        double c = cos(slot * m->rope_freq[i]), sine = sin(slot * m->rope_freq[i]), first = x[a];
        x[a] = first * c + x[b] * sine;
        x[b] = x[b] * c - first * sine;
    }
}

/* The squared norm of a token's value over all heads. */
static double value_square(const struct tft_session *s, uint32_t l, uint32_t slot)
{
    struct tft_kv_heads own = tft_model_coded_heads(s->m);
    double sum = 0;
    for (uint32_t h = 0; h < own.n; h++) {
        const float *v = tft_kv_values(&s->kv, l, h, slot);
        for (uint32_t d = 0; d < own.dim; d++)
            sum += (double)v[d] * (double)v[d];
    }
    return sum;
}

/* The means of keys are those before RoPE, of the tokens of a window that are not left out. */
static void means_before_rope(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        struct tft_model *m = model(i);
        struct tft_kv_heads own = tft_model_coded_heads(m);
        struct kv_fisher_opts o = {
            .text = text, .n_windows = 1, .window = WINDOW, .far = 40, .sinks = 4, .n_threads = 1};
        struct kv_fisher r;
        struct tft_error err;
        bool stopped;
        assert_int_equal(kv_fisher_measure(m, &o, &r, &stopped, &err), TFT_OK);
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = "f32", .n_threads = 1});
        assert_int_equal(tft_prefill(s, text, WINDOW), TFT_OK);
        for (uint32_t b = 0; b < m->n_layer; b++) {
            double square[WINDOW], sorted[WINDOW];
            uint32_t l = m->layer[b].kv_layer;
            if (!has_table(&m->layer[b]))
                continue;
            for (uint32_t t = 0; t < WINDOW; t++)
                sorted[t] = square[t] = value_square(s, l, m->n_prefix + t);
            qsort(sorted, WINDOW, sizeof *sorted, ascending);
            for (uint32_t h = 0; h < own.n; h++) {
                double mean[E * 2] = {0}, spread[E * 2] = {0}, x[E * 2], n = 0;
                for (uint32_t t = o.sinks; t < WINDOW; t++) {
                    if (square[t] < 0.45 * 0.45 * sorted[WINDOW / 2])
                        continue;
                    n++;
                    key_before_rope(s, l, h, m->n_prefix + t, x);
                    for (uint32_t d = 0; d < own.dim; d++) {
                        mean[d] += x[d];
                        spread[d] += x[d] * x[d];
                    }
                }
                const float *table =
                    r.table[TFT_KV_K] + (l * own.n + h) * ROWS * own.dim;
                for (uint32_t d = 0; d < own.dim; d++) {
                    double off = (double)table[d] - mean[d] / n;
                    if (!(fabs(off) <= 0.05 * sqrt(spread[d] / n)))
                        fail_msg("toy %d, layer %u, channel %u: %g, not %g", i, l, d,
                                 (double)table[d], mean[d] / n);
                }
            }
        }
        tft_session_close(s);
        kv_fisher_free(&r);
        tft_model_close(m);
    }
}

static void same(const struct kv_fisher *a, const struct kv_fisher *b, size_t n)
{
    for (int i = 0; i < TFT_KV_SIDES; i++)
        assert_memory_equal(a->table[i], b->table[i], n * sizeof(float));
}

/* Any number of threads measures the same; another far distance measures other costs. */
static void whole_model(void **state)
{
    (void)state;
    for (int i = 0; i < MODELS; i++) {
        struct tft_model *m = model(i);
        struct tft_kv_heads own = tft_model_coded_heads(m);
        struct kv_fisher_opts o = {.text = text,
                                   .n_windows = TEXT / WINDOW,
                                   .window = WINDOW,
                                   .far = 40,
                                   .sinks = 4,
                                   .n_threads = 1};
        struct kv_fisher r[3];
        struct tft_error err;
        bool stopped;
        size_t n = (size_t)m->n_kv_layer * own.n * ROWS * own.dim, positive = 0, tables = 0;
        for (int k = 0; k < 3; k++) {
            o.n_threads = k == 1 ? 3 : 1;
            o.far = k == 2 ? 10 : 40;
            if (kv_fisher_measure(m, &o, &r[k], &stopped, &err) != TFT_OK)
                fail_msg("%s", err.msg);
            assert_false(stopped);
        }
        same(&r[0], &r[1], n);
        assert_memory_not_equal(r[0].table[0], r[2].table[0], n * sizeof(float));
        for (size_t k = 0; k < n; k++)
            for (int side = 0; side < TFT_KV_SIDES; side++) {
                float x = r[0].table[side][k];
                bool mean = k / own.dim % ROWS == TFT_FISHER_MEAN;
                assert_true(isfinite(x) && (mean || x >= 0));
                positive += !mean && x > 0;
            }
        for (uint32_t l = 0; l < m->n_layer; l++)
            tables += has_table(&m->layer[l]);
        assert_true(positive > n / m->n_kv_layer * tables); /* of 20 / 11 of it */
        for (int k = 0; k < 3; k++)
            kv_fisher_free(&r[k]);
        o.far = WINDOW;
        assert_int_equal(kv_fisher_measure(m, &o, &r[0], &stopped, &err), TFT_ERR_ARG);
        assert_non_null(strstr(err.msg, "too short"));
        tft_model_close(m);
    }
}

/* Layer 4 of the first toy of gemma4 reads the keys and values of layer 1, which get the gradients
   of both. */
enum { OWNER = 1, SHARER = 4, FAR = 40, WIDTH = 4 * 20, LATE = WINDOW - FAR };

struct seen {
    float q[2][LATE * WIDTH], dy[2][LATE * WIDTH];
    float k[WINDOW * WIDTH], v[WINDOW * WIDTH]; /* keys after RoPE */
    float far_k[WINDOW * WIDTH], far_v[WINDOW * WIDTH];
};

static void see(void *user, uint32_t l, const struct block_rows *x)
{
    struct seen *s = user;
    size_t late = (size_t)FAR * WIDTH, own = WINDOW * WIDTH / 2 * sizeof(float);
    if (l != OWNER && l != SHARER)
        return;
    memcpy(s->q[l == SHARER], x->q + late, sizeof s->q[0]);
    memcpy(s->dy[l == SHARER], x->dy + late, sizeof s->dy[0]);
    if (l == SHARER)
        return;
    memcpy(s->k, x->k, own);
    memcpy(s->v, x->v, own);
    memcpy(s->far_k, x->far_k, own);
    memcpy(s->far_v, x->far_v, own);
}

/* Adds the squares of the columns of a layer's output matrix for two query heads. */
static void add_columns(const struct tft_model *m, uint32_t l, uint32_t head, double *u)
{
    uint32_t dim = WIDTH / 4;
    float row[WIDTH];
    for (uint32_t r = 0; r < m->n_embd; r++) {
        tft_mat_row(m, &m->layer[l].o.w, r, row);
        for (uint32_t i = 0; i < 2 * dim; i++)
            u[i % dim] += (double)row[2 * head * dim + i] * (double)row[2 * head * dim + i];
    }
}

static void close_to(const float *is, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(is[i] - want[i]) <= 1e-4f * fabsf(want[i]) + 1e-9f))
            fail_msg("number %zu: %g, not %g", i, (double)is[i], (double)want[i]);
}

/* A window of text in the first toy of gemma4, and the tokens that are left out. */
struct window {
    const struct tft_model *m;
    struct seen s; /* keys and their gradients before RoPE */
    float *cos, *sin;
    bool exact[WINDOW];
};

/* Runs the text, as kv_fisher_measure does. */
static void run_text(struct window *w)
{
    uint64_t seed = 0;
    float none[2] = {0};
    struct block_watch watch = {.far = FAR, .take = see, .user = &w->s};
    struct sequence *sequence = sequence_open(w->m, WINDOW, 0, 1);
    sequence_watch(sequence, &watch, &seed);
    sequence_run(sequence, text, NULL, none, none + 1);
    sequence_close(sequence);
}

static void turn_back(struct window *w)
{
    const struct tft_model *m = w->m;
    for (uint32_t t = 0; t < WINDOW; t++) {
        size_t at = (size_t)t * m->n_rot, width = WIDTH / 2;
        const struct row_angles a = {w->cos + at, w->sin + at, m->n_rot, WIDTH / 4,
                                     m->rope_halves};
        tft_rope_angles(w->cos + at, w->sin + at, m->rope_freq, m->n_rot, m->rope_halves, t);
        row_rope(w->s.k + t * width, width, &a, true);
        row_rope(w->s.far_k + t * width, width, &a, true);
    }
}

static void leave_out(struct window *w, uint32_t sinks)
{
    double norm[WINDOW] = {0}, sorted[WINDOW];
    for (uint32_t i = 0; i < WINDOW * WIDTH / 2; i++)
        norm[i / (WIDTH / 2)] += (double)w->s.v[i] * (double)w->s.v[i];
    memcpy(sorted, norm, sizeof sorted);
    qsort(sorted, WINDOW, sizeof *sorted, ascending);
    for (uint32_t t = 0; t < WINDOW; t++)
        w->exact[t] = t < sinks || norm[t] < 0.45 * 0.45 * sorted[WINDOW / 2];
}

/* All rows of a table but the losses. u: of values; NULL: keys */
static void table_of(const struct window *w, const float *of, const float *gradient, uint32_t head,
                     const double *u, float *table)
{
    enum { DIM = WIDTH / 4 };
    static float x[WINDOW * DIM];
    double square[DIM] = {0};
    size_t n = 0;
    for (uint32_t t = 0; t < WINDOW; t++)
        for (uint32_t d = 0; !w->exact[t] && d < DIM; d++) {
            size_t at = (t * 2 + head) * DIM + d;
            x[n++] = of[at];
            square[d] += (double)gradient[at] * (double)gradient[at];
        }
    kv_fisher_table(table, &(struct kv_fisher_rows){.x = x,
                                                    .n = n / DIM,
                                                    .stride = DIM,
                                                    .dim = DIM,
                                                    .square = square,
                                                    .output = u});
}

/* Its losses, with the queries of both layers. */
static void losses_of(const struct window *w, uint32_t head, float *const table[TFT_KV_SIDES])
{
    enum { DIM = WIDTH / 4 };
    double loss[TFT_KV_SIDES][KV_LOSS_CHOICES * DIM] = {{0}};
    const struct kv_loss_reader reader[2] = {{w->s.q[0], w->s.dy[0]}, {w->s.q[1], w->s.dy[1]}};
    uint32_t at[LATE];
    for (uint32_t i = 0; i < LATE; i++)
        at[i] = FAR + i;
    struct kv_loss *z = kv_loss_open(w->m, WINDOW);
    kv_loss_add(z,
                &(struct kv_loss_rows){.layer = &w->m->layer[OWNER],
                                       .head = head,
                                       .cos = w->cos,
                                       .sin = w->sin,
                                       .k = w->s.k,
                                       .v = w->s.v,
                                       .exact = w->exact,
                                       .reader = reader,
                                       .n_reader = 2,
                                       .at = at,
                                       .n_query = LATE,
                                       .far = FAR,
                                       .table = {table[0], table[1]}},
                (double *[]){loss[0], loss[1]});
    kv_loss_close(z);
    for (size_t i = 0; i < KV_LOSS_CHOICES * DIM; i++)
        for (int side = 0; side < TFT_KV_SIDES; side++)
            table[side][TFT_FISHER_LOSS * DIM + i] = (float)loss[side][i];
}

/* The cost of an error in a shared key or value is that of both layers. */
static void shared_keys_and_values(void **state)
{
    enum { DIM = WIDTH / 4 };
    static struct window w;
    (void)state;
    struct tft_model *m = model(2 * N_TOYS);
    uint32_t layer = m->layer[OWNER].kv_layer;
    struct kv_fisher_opts o = {
        .text = text, .n_windows = 1, .window = WINDOW, .far = FAR, .sinks = 4, .n_threads = 1};
    struct kv_fisher r;
    struct tft_error err;
    bool stopped;
    assert_int_equal(m->layer[SHARER].kv_layer, layer);
    assert_false(tft_layer_has_kv(&m->layer[SHARER]) || m->layer[SHARER].window);
    assert_int_equal(kv_fisher_measure(m, &o, &r, &stopped, &err), TFT_OK);
    w.m = m;
    w.cos = malloc(WINDOW * DIM * sizeof *w.cos);
    w.sin = malloc(WINDOW * DIM * sizeof *w.sin);
    run_text(&w);
    turn_back(&w);
    leave_out(&w, o.sinks);
    for (uint32_t h = 0; h < 2; h++) {
        float keys[ROWS * DIM], values[ROWS * DIM], *const table[] = {keys, values};
        double u[DIM] = {0};
        add_columns(m, OWNER, h, u);
        add_columns(m, SHARER, h, u);
        table_of(&w, w.s.k, w.s.far_k, h, NULL, keys);
        table_of(&w, w.s.v, w.s.far_v, h, u, values);
        losses_of(&w, h, table);
        for (int side = 0; side < TFT_KV_SIDES; side++)
            close_to(r.table[side] + (layer * 2 + h) * ROWS * DIM, table[side], ROWS * DIM);
    }
    kv_fisher_free(&r);
    tft_model_close(m);
    free(w.cos);
    free(w.sin);
}

/* The shape of tinyllama-1.1b: keys and values of 4,096 tokens, queries and gradients of 1,024, and
   23 residual streams; a block's rows, of which 6 have the width of the stream, 6 of the queries, 8
   of the keys and 6 of the hidden activations. */
static void memory_of_a_measurement(void **state)
{
    (void)state;
    static struct tft_layer layers[22];
    struct tft_model m = {.n_embd = 2048,
                          .layer = layers,
                          .n_layer = 22,
                          .n_kv_layer = 22,
                          .n_head = 32,
                          .n_head_kv = 4,
                          .head_dim = 64,
                          .n_ff = 5632};
    for (int l = 0; l < 22; l++)
        layers[l].k.w.rows = 256;
    uint64_t kept = 22ull * 4 * (4096 * 2 * 256 + 1024 * 2 * 2048),
             streams = 23ull * 4 * 1024 * 2048,
             block = 4ull * 1024 * (6 * 2048 + 6 * 2048 + 8 * 256 + 6 * 5632);
    assert_int_equal(kv_fisher_bytes(&m), kept + streams + block); /* 0.99 GB */
}

/* The error of opening a copy of m with these tables; NULL: it opens. */
static const char *reopened(const struct tft_model *m, float *const table[TFT_KV_SIDES],
                            struct tft_model **copy)
{
    static struct tft_error err;
    const char *path = in_folder("tables.gguf");
    struct rewrite r = {.kv = "fisher:bits=2", .fisher = {table[0], table[1]}};
    assert_int_equal(rewrite_model(m, path, &r, &err), TFT_OK);
    if (tft_model_open(copy, path, NULL, &err) == TFT_OK)
        return NULL;
    assert_int_equal(err.code, TFT_ERR_FORMAT);
    return err.msg;
}

/* A W8A8 model, one with weights of codes, or a plain one of blocks. */
enum form { BYTES, CODES, PLAIN, FORMS };

static struct tft_model *of_form(enum form form)
{
    struct quantize_opts q = usual(&toys[2]);
    static uint8_t bits[2 * LAYER_MATS];
    memset(bits, 4, sizeof bits);
    if (form == CODES) {
        q.bits = bits;
        q.group = 32;
    }
    return opened(form == PLAIN ? written(&toys[2]) : quantized(&toys[2], &q));
}

/* The size of a session is known without opening the model. */
static void planned(const struct tft_model *m, const char *path)
{
    struct tft_model plan = {.kv_text = m->kv_text};
    struct tft_session_opts o = {.size = sizeof o, .kv = m->kv_text};
    assert_int_equal(tft_source_open(&plan.source, path, NULL, NULL, NULL), TFT_OK);
    struct tft_plan_room room = {
        .tables = malloc(tft_open_plan_tables(&plan.source) * sizeof *room.tables + 1)};
    assert_int_equal(tft_open_plan(&plan, tft_archs, TFT_WEIGHTS_STORED, &room, NULL), TFT_OK);
    assert_true(tft_session_bytes(m, &o, NULL) > 0);
    assert_int_equal(tft_session_bytes(&plan, &o, NULL), tft_session_bytes(m, &o, NULL));
    free(room.tables);
    tft_source_close(&plan.source);
}

/* Tables in a file; wrong numbers are refused. */
static void stored(void **state)
{
    (void)state;
    for (enum form form = 0; form < FORMS; form++) {
        struct tft_model *m = of_form(form), *copy;
        size_t n = (size_t)m->n_kv_layer * m->n_head_kv * ROWS * m->head_dim;
        float *table[TFT_KV_SIDES] = {malloc(n * sizeof **table), malloc(n * sizeof **table)};
        for (size_t i = 0; i < n; i++) {
            table[0][i] = 1 + random_even();
            table[1][i] = 1 + random_even();
        }
        assert_null(reopened(m, table, &copy));
        assert_string_equal(copy->kv_text, "fisher:bits=2");
        for (int side = 0; side < TFT_KV_SIDES; side++)
            assert_memory_equal(copy->kv_fisher[side], table[side], n * sizeof **table);
        struct tft_session *a = session(m, (struct tft_session_opts){.kv = "f16"}),
                           *b = session(copy, (struct tft_session_opts){.kv = "f16"}),
                           *c = session(copy, (struct tft_session_opts){0});
        assert_int_equal(tft_prefill(a, text, 150), TFT_OK);
        assert_int_equal(tft_prefill(b, text, 150), TFT_OK);
        assert_int_equal(tft_prefill(c, text, 150), TFT_OK);
        same_last_logits(a, b);
        assert_true(c->kv.at[TFT_KV_K].blocks > 0);
        tft_session_close(a);
        tft_session_close(b);
        tft_session_close(c);
        planned(copy, in_folder("tables.gguf"));
        if (form == PLAIN)
            same_tensors(&copy->source, &m->source);
        tft_model_close(copy);

        table[0][0] = -3; /* a mean */
        assert_null(reopened(m, table, &copy));
        table[0][0] = -4; /* in place of the tables that a file has */
        struct tft_model *again;
        assert_null(reopened(copy, table, &again));
        assert_true(again->kv_fisher[0][0] == -4);
        assert_int_equal(again->source.n_tensor, copy->source.n_tensor);
        tft_model_close(again);
        tft_model_close(copy);
        table[0][0] = NAN;
        assert_non_null(strstr(reopened(m, table, &copy), "fisher.keys has a number that is not"));
        table[0][0] = 0;
        table[1][n - 1] = -1; /* a loss */
        assert_non_null(
            strstr(reopened(m, table, &copy), "fisher.values has a number that is negative"));
        free(table[0]);
        free(table[1]);
        tft_model_close(m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equations),
        cmocka_unit_test(means_before_rope),
        cmocka_unit_test(whole_model),
        cmocka_unit_test(shared_keys_and_values),
        cmocka_unit_test(memory_of_a_measurement),
        cmocka_unit_test(stored),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
