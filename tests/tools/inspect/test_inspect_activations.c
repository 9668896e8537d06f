/* tuffet inspect --activations: measurements of small models, compared with other ways to compute
   them. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "tools/inspect/activations.h"
#include "fed.h"
#include "models/open.h"
#include "more_toys.h"
#include "tools/quantize/quantize.h"
#include "random.h"

/* ---- magnitudes, compared with sorted numbers */

static int larger_first(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Numbers with magnitudes over many powers of two. Some are equal; sometimes all are zero. */
static void fill(float *x, size_t n)
{
    int spread = (int)(random_u32() % 60);
    bool coarse = random_u32() % 4 == 0, zeros = random_u32() % 16 == 0;
    for (size_t i = 0; i < n; i++) {
        x[i] = zeros ? 0
                     : ldexpf(random_even(),
                              (int)(random_u32() % (unsigned)(spread + 1)) - spread / 2);
        if (coarse)
            x[i] = rintf(x[i] * 4);
    }
}

static void check(const struct magnitudes *m, const float *x, const struct magnitudes_rows *r,
                  const float *row_top)
{
    size_t n = r->n * r->width, at = 0;
    float *sorted = malloc(n * sizeof *sorted);
    assert_non_null(sorted);
    for (size_t i = 0; i < r->n; i++) {
        float most = 0;
        for (size_t k = 0; k < r->width; k++) {
            sorted[at] = fabsf(x[i * r->stride + k]);
            most = fmaxf(most, sorted[at++]);
        }
        assert_true(row_top[i] == most);
    }
    qsort(sorted, n, sizeof *sorted, larger_first);
    for (size_t i = 0; i < MAGNITUDES_TOP; i++) {
        assert_true(m->top[i] == (i < n ? sorted[i] : 0));
        assert_true(m->top[i] == 0 || fabsf(x[m->row[i] * r->stride + m->column[i]]) == m->top[i]);
    }
    assert_true(m->tenth == sorted[(n + 9) / 10 - 1]);
    assert_true(m->median == sorted[(n + 1) / 2 - 1]);
    free(sorted);
}

static void magnitudes_agree_with_sorting(void **state)
{
    (void)state;
    enum { ROWS = 9, STRIDE = 40 };
    float x[ROWS * STRIDE], top[ROWS];
    for (int i = 0; i < 3000; i++) {
        struct magnitudes_rows r = {.n = 1 + random_u32() % ROWS,
                                    .width = 1 + random_u32() % STRIDE,
                                    .stride = STRIDE,
                                    .x = x};
        fill(x, ROWS * STRIDE);
        struct magnitudes m = magnitudes_of(&r, NULL, top);
        check(&m, x, &r, top);
    }
}

static void magnitudes_of_bytes(void **state)
{
    (void)state;
    enum { ROWS = 7, STRIDE = 64 };
    uint8_t bytes[ROWS * STRIDE];
    float x[ROWS * STRIDE], top[ROWS], room[STRIDE];
    struct tft_affine q[ROWS];
    for (int round = 0; round < 500; round++) {
        size_t step = round % 2;
        struct magnitudes_rows r = {.n = ROWS,
                                    .width = 1 + random_u32() % STRIDE,
                                    .stride = STRIDE,
                                    .bytes = bytes,
                                    .q = q,
                                    .step = step};
        for (size_t i = 0; i < ROWS; i++)
            q[i] = (struct tft_affine){.scale = ldexpf(1, (int)(random_u32() % 8)),
                                       .zero = (int32_t)(random_u32() % 256)};
        for (size_t i = 0; i < ROWS * STRIDE; i++) {
            const struct tft_affine *own = &q[i / STRIDE * step];
            bytes[i] = (uint8_t)random_u32();
            x[i] = (float)(bytes[i] - own->zero) * own->scale;
        }
        struct magnitudes m = magnitudes_of(&r, room, top);
        check(&m, x, &r, top);
    }
}

static void equal_magnitudes_give_the_first_place(void **state)
{
    (void)state;
    const float x[] = {1, -5, 5, 2, 5, -5};
    struct magnitudes m = magnitudes_of(
        &(struct magnitudes_rows){.n = 3, .width = 2, .stride = 2, .x = x}, NULL, NULL);
    const size_t row[] = {0, 1, 2}, column[] = {1, 0, 0};
    assert_memory_equal(m.row, row, sizeof row);
    assert_memory_equal(m.column, column, sizeof column);
}

static void nan_counts_as_the_largest(void **state)
{
    (void)state;
    const float x[] = {1, INFINITY, -NAN, 2};
    struct magnitudes m = magnitudes_of(&(struct magnitudes_rows){.n = 1, .width = 4, .x = x}, NULL,
                                        NULL);
    assert_true(isnan(m.top[0]) && isnan(m.tenth) && isinf(m.top[1]) && m.top[2] == 2 &&
                isinf(m.median));
    m = magnitudes_of(&(struct magnitudes_rows){.n = 0, .width = 4, .x = x}, NULL, NULL);
    assert_true(m.top[0] == 0 && m.tenth == 0 && m.median == 0);
}

/* ---- runs of small models */

static const struct toy toys[] = {
    {.arch = "llama",
     .n_vocab = 50,
     .n_ctx = 640,
     .n_embd = 40,
     .n_layer = 3,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 96,
     .n_rot = 12,
     .type = TFT_F32},
    {.arch = "qwen2",
     .n_vocab = 32,
     .n_ctx = 640,
     .n_embd = 32,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_ff = 64,
     .n_rot = 16,
     .type = TFT_F16,
     .tied = true},
    {.arch = "qwen3",
     .n_vocab = 47,
     .n_ctx = 640,
     .n_embd = 64,
     .n_layer = 2,
     .n_head = 3,
     .n_head_kv = 3,
     .head_dim = 32,
     .n_ff = 96,
     .n_rot = 32,
     .type = TFT_Q8_0},
    {.arch = "gpt2",
     .n_vocab = 32,
     .n_ctx = 640,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 600,
     .type = TFT_BF16,
     .tied = true},
};
enum { N_TOYS = sizeof toys / sizeof *toys, TEXT = 620, WINDOW = 300, MOST_INPUTS = 21 };

static int32_t text[TEXT];

static struct activations run(const struct tft_model *m, struct activations_opts o)
{
    struct activations a;
    struct tft_error err;
    bool stopped;
    toy_tokens(11, m->n_vocab, text, TEXT);
    o.text = text;
    o.n_text = o.n_text ? o.n_text : TEXT;
    o.window = o.window ? o.window : WINDOW;
    if (activations_run(&a, m, &o, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_false(stopped);
    return a;
}

/* The largest magnitude of each input, as the runtime's own tap sees them. */
struct shown {
    const struct tft_model *m;
    float largest[MOST_INPUTS];
};

static void tap(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                const float *rows, size_t stride)
{
    struct shown *shown = user;
    uint32_t which = in->index % TFT_LAYER_INPUTS;
    size_t heads = (size_t)shown->m->n_head * shown->m->head_dim;
    size_t width = which == TFT_IN_O      ? heads
                   : which == TFT_IN_DOWN ? shown->m->n_ff
                                          : shown->m->n_embd;
    (void)tid, (void)first;
    assert_in_range(in->index, 0, MOST_INPUTS - 1);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++)
            shown->largest[in->index] = fmaxf(shown->largest[in->index],
                                              fabsf(rows[i * stride + k]));
}

/* Layers with a state have no attention to be shown. */
static void check_heads(const struct tft_model *m, const struct activations *a)
{
    for (uint32_t l = 0; l < m->n_layer; l++) {
        bool attends = m->layer[l].mixer == TFT_MIX_ATTENTION;
        double queries = cache_cost_mean(a->cost + l * a->n_head, a->n_head).queries;
        assert_true(attends == !isnan(activations_sink(a, l)) && attends == (queries > 0));
        assert_true(!attends || activations_sink(a, l) < 1);
    }
}

/* lfm2 and qwen35 have states, which begin anew in each window. */
static void inputs_agree_with_the_runtime(void **state)
{
    (void)state;
    const struct toy *const all[] = {
        &toys[0],       &toys[1],       &toys[2],       &toys[3],
        &state_toys[0], &state_toys[1], &state_toys[2], &state_toys[3]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct tft_model *m = opened_as_floats(written(all[i]));
        struct activations a = run(m, (struct activations_opts){.n_threads = 2});
        struct tft_session *s = session(
            m, (struct tft_session_opts){
                   .kv = "f16", .n_threads = 1, .n_batch = WINDOW, .n_logits = WINDOW});
        struct shown shown = {.m = m};
        s->work->tap = (struct tft_tap){tap, &shown};
        assert_int_equal(a.n_window, TEXT / WINDOW);
        for (uint32_t at = 0; at < a.n_window; at++) {
            tft_rewind(s, 0);
            assert_int_equal(tft_prefill(s, text + at * WINDOW, WINDOW), TFT_OK);
        }
        for (uint32_t k = 0; k < tft_model_inputs(m); k++)
            assert_true(a.linear[k].largest == shown.largest[k] && shown.largest[k] > 0);
        check_heads(m, &a);
        tft_session_close(s);
        activations_close(&a);
        tft_model_close(m);
    }
}

/* The input of the first block is the embeddings. */
static void the_stream_begins_with_embeddings(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct activations a = run(m, (struct activations_opts){.n_threads = 3, .n_text = WINDOW});
    float row[40], most = 0;
    for (uint32_t t = 0; t < a.window; t++) {
        float top = 0;
        tft_mat_row(m, &m->embed, (uint32_t)a.tokens[t], row);
        for (size_t k = 0; k < m->n_embd; k++)
            top = fmaxf(top, fabsf(row[k]));
        assert_true(a.token_top[t] == top);
        most = fmaxf(most, top);
    }
    const struct activations_input *in = &a.stream[0];
    tft_mat_row(m, &m->embed, (uint32_t)text[in->position], row);
    assert_true(in->largest == most && fabsf(row[in->channel]) == most &&
                in->top[0] == (double)most);
    activations_close(&a);
    tft_model_close(m);
}

static bool same(const struct activations_input *a, const struct activations_input *b)
{
    return memcmp(a->top, b->top, sizeof a->top) == 0 && a->tenth == b->tenth &&
           a->median == b->median && a->largest == b->largest && a->window == b->window &&
           a->position == b->position && a->channel == b->channel && a->numbers == b->numbers &&
           a->at_ends == b->at_ends;
}

static void the_same_with_any_threads(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct activations one = run(m, (struct activations_opts){.n_threads = 1});
    for (int threads = 2; threads <= 7; threads += 5) {
        struct activations a = run(m, (struct activations_opts){.n_threads = threads});
        for (uint32_t l = 0; l <= m->n_layer; l++)
            assert_true(same(&a.stream[l], &one.stream[l]));
        for (uint32_t i = 0; i < tft_model_inputs(m); i++)
            assert_true(same(&a.linear[i], &one.linear[i]));
        assert_memory_equal(a.sink, one.sink, m->n_layer * m->n_head * sizeof *a.sink);
        assert_memory_equal(a.cost, one.cost, m->n_layer * m->n_head * sizeof *a.cost);
        activations_close(&a);
    }
    activations_close(&one);
    tft_model_close(m);
}

/* Each window is a sequence of its own. Magnitudes are averages over the windows; the position is
   that of the largest of all. */
static void windows(void **state)
{
    (void)state;
    enum { N = 3, SIZE = 100 };
    struct tft_model *m = opened(written(&toys[0]));
    struct activations all =
        run(m, (struct activations_opts){.n_threads = 1, .n_text = N * SIZE + 50, .window = SIZE});
    const struct activations_input *in = &all.stream[2];
    double top = 0, median = 0, sink = 0;
    float largest = 0;
    assert_int_equal(all.n_window, N);
    for (uint32_t i = 0; i < N; i++) {
        struct activations a;
        struct tft_error err;
        bool stopped;
        struct activations_opts o = {
            .text = text + i * SIZE, .n_text = SIZE, .window = SIZE, .n_threads = 1};
        assert_int_equal(activations_run(&a, m, &o, &stopped, &err), TFT_OK);
        top += a.stream[2].top[0] / N;
        median += a.stream[2].median / N;
        sink += a.sink[5] / N;
        if (i == in->window)
            assert_true(a.stream[2].position == in->position && a.stream[2].channel == in->channel);
        largest = fmaxf(largest, a.stream[2].largest);
        activations_close(&a);
    }
    assert_true(fabs(top - in->top[0]) < 1e-9 && fabs(median - in->median) < 1e-9 &&
                fabs(sink - all.sink[5]) < 1e-9);
    assert_true(in->largest == largest);
    activations_close(&all);
    tft_model_close(m);
}

/* ---- attention, and W8A8 */

static const char *quantized(const struct toy *t, const int32_t *prefix, uint32_t n_prefix,
                             enum quantize_rotate rotate)
{
    static enum tft_range range[MOST_INPUTS];
    static struct quantize_input result[MOST_INPUTS];
    const char *to = in_folder("q.gguf");
    struct tft_model *m;
    struct tft_error err;
    bool stopped;
    for (int i = 0; i < MOST_INPUTS; i++)
        range[i] = TFT_RANGE_STATIC;
    toy_tokens(11, t->n_vocab, text, TEXT);
    struct quantize_opts o = {.text = text,
                              .n_text = TEXT,
                              .window = WINDOW,
                              .rotate = rotate,
                              .prefix = prefix,
                              .n_prefix = n_prefix,
                              .range = range,
                              .n_threads = 1};
    assert_int_equal(tft_model_open_unexpanded(&m, written(t), NULL, &err), TFT_OK);
    if (quantize(m, to, &o, result, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_model_close(m);
    return to;
}

static const float zeros[48 * 40];

static struct tft_mat nothing(uint32_t rows, uint32_t cols)
{
    return (struct tft_mat){
        .format = &tft_format_f32, .rows = rows, .cols = cols, .data = zeros};
}

/* The newest of t - 1 tokens receive as many of t + 1 equal shares. Keys of 2 bits change nothing
   that they did not score. */
static void check_equal_shares(const struct activations *a)
{
    struct cache_cost_found f = cache_cost_mean(a->cost, a->n_layer * a->n_head);
    double share = 0, queries = 0, size = cache_cost_size[0];
    for (int t = (WINDOW / 2 + 6) / 7 * 7; t < WINDOW; t += 7, queries++)
        share += fmin(size, t - 1) / (t + 1);
    assert_true(queries > 0 && fabs(f.kept[COST_NEWEST][0] - share / queries) < 1e-6);
    assert_true(f.error[COST_KEY] > 0 && f.error[COST_SCORE] == 0 && f.error[COST_WEIGHT] < 1e-12 &&
                f.error[COST_KEY_OUTPUT] < 1e-12 && f.error[COST_VALUE_OUTPUT] > 0);
}

/* If all keys score the same, each receives the same attention. The first token attends to itself
   only, and is not counted. */
static void equal_keys_share_attention(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    for (uint32_t l = 0; l < m->n_layer; l++)
        m->layer[l].q.w = nothing(48, 40);
    struct activations a = run(m, (struct activations_opts){.n_threads = 2, .n_text = WINDOW});
    double want = 0;
    for (int t = 1; t < WINDOW; t++)
        want += 1.0 / (t + 1) / (WINDOW - 1);
    for (uint32_t i = 0; i < m->n_layer * m->n_head; i++)
        assert_true(fabs(a.sink[i] - want) < 1e-6);
    assert_true(fabs(activations_sink(&a, 1) - want) < 1e-6);
    check_equal_shares(&a);
    activations_close(&a);
    tft_model_close(m);
}

/* The values of the prefix are 1, and of the text 0: the output of attention is then the share that
   the prefix receives. */
enum { PREFIX = 3, PREFIX_NUMBERS = 3 * PREFIX * 2 * 12 };

static void give_prefix(struct tft_model *m)
{
    static uint16_t k[PREFIX_NUMBERS], v[PREFIX_NUMBERS];
    float x[PREFIX_NUMBERS];
    for (int i = 0; i < PREFIX_NUMBERS; i++)
        x[i] = random_normal() * 4; /* heads and tokens attend to them differently */
    m->kern.narrow[TFT_NUM_F16](k, x, PREFIX_NUMBERS);
    for (int i = 0; i < PREFIX_NUMBERS; i++)
        v[i] = 0x3c00;
    for (uint32_t l = 0; l < m->n_layer; l++)
        m->layer[l].v.w = nothing(24, 40);
    m->n_prefix = PREFIX;
    m->prefix_k = k;
    m->prefix_v = v;
}

static void add_shares(void *user, int tid, const struct tft_input *in, size_t first, size_t n,
                       const float *rows, size_t stride)
{
    double *share = user; /* [n_layer, 4] */
    (void)tid, (void)first;
    for (size_t i = 0; i < n && in->index % TFT_LAYER_INPUTS == TFT_IN_O; i++)
        for (size_t h = 0; h < 4; h++)
            share[in->index / TFT_LAYER_INPUTS * 4 + h] += (double)rows[i * stride + h * 12] /
                                                           WINDOW;
}

static void attention_agrees_with_the_runtime(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    give_prefix(m);
    struct activations a = run(m, (struct activations_opts){.n_threads = 2, .n_text = WINDOW});
    struct tft_session *s = session(
        m, (struct tft_session_opts){
               .kv = "f16", .n_threads = 1, .n_batch = WINDOW, .n_logits = WINDOW});
    double share[3 * 4] = {0};
    s->work->tap = (struct tft_tap){add_shares, share};
    assert_int_equal(tft_prefill(s, text, WINDOW), TFT_OK);
    for (int i = 0; i < 3 * 4; i++) {
        assert_true(fabs(a.sink[i] - share[i]) < 1e-5);
        assert_true(fabs(share[i] - share[(i + 1) % 12]) > 1e-3);
    }
    tft_session_close(s);
    activations_close(&a);
    tft_model_close(m);
}

static bool near(double a, double b, double by)
{
    return fabs(a - b) <= by * fabs(b);
}

/* A head's keys are the session's: 2 bits of 32 tokens of a channel lose as much as there. */
static void keys_are_those_of_the_cache(void **state)
{
    enum { HEAD = 12, LAYER = 1, KV_HEAD = 1 };
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct activations a =
        run(m, (struct activations_opts){.n_threads = 2, .n_text = WINDOW, .kv = "f32"});
    struct tft_session *s =
        session(m, (struct tft_session_opts){.n_threads = 1, .n_batch = WINDOW, .kv = "f32"});
    assert_int_equal(tft_prefill(s, text, WINDOW), TFT_OK);
    double want = 0, queries = 0;
    for (int t = (WINDOW / 2 + 6) / 7 * 7; t < WINDOW; t += 7, queries++)
        for (int i = 0; i <= t; i++)
            for (int d = 0; d < HEAD; d++) {
                float low = INFINITY, high = -INFINITY, x[32];
                for (int j = i & ~31; j < (i & ~31) + 32 && j < WINDOW; j++) {
                    const float *panel = tft_kv_keys(&s->kv, LAYER, KV_HEAD, (uint32_t)j & ~15u);
                    x[j % 32] = panel[d * 16 + j % 16];
                    low = fminf(low, x[j % 32]);
                    high = fmaxf(high, x[j % 32]);
                }
                float step = (high - low) / 3, is = x[i % 32];
                double error = (double)(low + rintf((is - low) / step) * step - is);
                want += error * error / (t + 1) / HEAD;
            }
    const struct cache_cost_found *f = &a.cost[LAYER * m->n_head + 2 * KV_HEAD];
    assert_true(f->queries == queries && near(f->error[COST_KEY], want, 1e-4));
    tft_session_close(s);
    activations_close(&a);
    tft_model_close(m);
}

/* The magnitudes of a W8A8 model are near the float model's. The inputs of its linear layers are
   numbers that a byte can stand for. */
static void bytes_are_near_the_floats(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct tft_model *m = opened(written(&toys[i]));
        struct activations want = run(m, (struct activations_opts){.n_threads = 1});
        tft_model_close(m);
        m = opened(quantized(&toys[i], NULL, 0, QUANTIZE_ROTATE_NONE));
        struct activations got = run(m, (struct activations_opts){.n_threads = 1});
        for (uint32_t l = 0; l <= m->n_layer; l++)
            assert_true(near(got.stream[l].top[0], want.stream[l].top[0], 0.05) &&
                        near(got.stream[l].median, want.stream[l].median, 0.05));
        for (uint32_t k = 0; k < tft_model_inputs(m); k++) {
            bool head = k == tft_model_inputs(m) - 1;
            const struct tft_input *in =
                head ? &m->head_in : &m->layer[k / TFT_LAYER_INPUTS].in[k % TFT_LAYER_INPUTS];
            float byte = got.linear[k].largest / in->affine.scale;
            assert_true(fabsf(byte - rintf(byte)) < 1e-3f && byte < 255.5f);
            assert_true(near(got.linear[k].top[0], want.linear[k].top[0], 0.05) &&
                        near(got.linear[k].tenth, want.linear[k].tenth, 0.1));
        }
        activations_close(&want);
        activations_close(&got);
        tft_model_close(m);
    }
}

/* The numbers at the ends of ranges are the numbers that a session counts. One range is too
   narrow. */
static void ends_agree_with_the_runtime(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct tft_model *m = opened(quantized(&toys[i], NULL, 0, QUANTIZE_ROTATE_NONE));
        struct tft_input *down = &m->layer[1].in[TFT_IN_DOWN];
        down->affine.scale /= 16;
        down->affine.inverse *= 16;
        struct activations a = run(m, (struct activations_opts){.n_threads = 2});
        struct tft_session *s = session(m, (struct tft_session_opts){.kv = "f16",
                                                                     .n_threads = 1,
                                                                     .n_batch = WINDOW,
                                                                     .n_logits = WINDOW,
                                                                     .count_ends = true});
        struct tft_ends ends;
        uint64_t numbers = 0, extreme = 0;
        for (uint32_t at = 0; at < a.n_window; at++) {
            tft_rewind(s, 0);
            assert_int_equal(tft_prefill(s, text + at * WINDOW, WINDOW), TFT_OK);
        }
        for (uint32_t k = 0; k < tft_model_inputs(m); k++) {
            numbers += a.linear[k].numbers;
            extreme += a.linear[k].at_ends;
        }
        assert_true(tft_session_ends(s, &ends));
        assert_int_equal(numbers, ends.numbers);
        assert_int_equal(extreme, ends.at_ends);
        assert_int_equal(a.linear[down->index].numbers,
                         (uint64_t)a.n_window * WINDOW * m->n_ff);
        assert_true(activations_ends(&a.linear[down->index], 1) > 0.1);
        assert_true(isnan(activations_ends(a.stream, m->n_layer + 1)));
        tft_session_close(s);
        activations_close(&a);
        tft_model_close(m);
    }
}

/* Without its prefix, a model is near the one that never had a prefix, although the static ranges
   were chosen for text after the prefix, and are narrow. */
static void a_bare_model_has_no_prefix(void **state)
{
    (void)state;
    static const int32_t prefix[] = {1, 7, 3};
    struct tft_model *m = opened(written(&toys[0])), bare;
    struct activations want = run(m, (struct activations_opts){.n_threads = 1});
    tft_model_close(m);
    m = opened(quantized(&toys[0], prefix, 3, QUANTIZE_ROTATE_NONE));
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (int i = 0; i < TFT_LAYER_INPUTS; i++) {
            m->layer[l].in[i].affine.scale /= 16;
            m->layer[l].in[i].affine.inverse *= 16;
        }
    assert_true(activations_bare(&bare, m));
    struct activations got = run(&bare, (struct activations_opts){.n_threads = 1});
    assert_int_equal(got.n_prefix, 0);
    for (uint32_t l = 0; l <= m->n_layer; l++)
        assert_true(near(got.stream[l].top[0], want.stream[l].top[0], 0.05));
    for (uint32_t k = 0; k + 1 < tft_model_inputs(m); k++)
        assert_true(near(got.linear[k].top[0], want.linear[k].top[0], 0.05));
    assert_true(isnan(activations_ends(got.linear, tft_model_inputs(m))));
    for (uint32_t i = 0; i < m->n_layer * m->n_head; i++)
        assert_true(near(got.sink[i], want.sink[i], 0.1));
    activations_close(&want);
    activations_close(&got);
    free(bare.layer);
    tft_model_close(m);
}

/* ---- the rest */

static bool stop_at_half(void *user, double done)
{
    double *last = user;
    assert_true(done > *last && done <= 1);
    *last = done;
    return done < 0.5;
}

static void progress_can_stop_it(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct activations a;
    bool stopped;
    double last = 0;
    struct activations_opts o = {.text = text,
                                 .n_text = TEXT,
                                 .window = WINDOW,
                                 .n_threads = 1,
                                 .progress = stop_at_half,
                                 .user = &last};
    assert_int_equal(activations_run(&a, m, &o, &stopped, NULL), TFT_OK);
    assert_true(stopped && last >= 0.5 && last < 1);
    activations_close(&a);
    tft_model_close(m);
}

static void out_of_memory(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&toys[0]));
    struct activations a;
    struct tft_error err;
    bool stopped;
    toy_tokens(11, m->n_vocab, text, TEXT);
    struct activations_opts o = {.text = text, .n_text = 700, .window = 641, .n_threads = 1};
    assert_int_equal(activations_run(&a, m, &o, &stopped, &err), TFT_ERR_ARG);
    activations_close(&a);
    tft_model_close(m);
}

static void worst_block_and_pivots(void **state)
{
    (void)state;
    struct activations_input stream[4] = {
        {.top = {9, 1, 1}}, {.top = {8, 8, 1}}, {.top = {10, 2, 1}}, {.top = {99, 99, 99}}};
    /* [3, 5] */
    float top[] = {1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 40, 8, 10, 10};
    struct activations a = {
        .n_layer = 3, .n_window = 1, .window = 5, .stream = stream, .token_top = top};
    bool pivot[5];
    assert_int_equal(activations_worst(&a), 1); /* not the last norm */
    activations_pivots(&a, 2, pivot);
    /* the median token has 10 */
    assert_true(!pivot[0] && !pivot[1] && !pivot[2] && !pivot[3] && !pivot[4]);
    top[12] = 7.9f, top[13] = 1, top[14] = 10; /* the median is 7.9 */
    activations_pivots(&a, 2, pivot);
    assert_true(!pivot[0] && pivot[1] && !pivot[2] && !pivot[3] && !pivot[4]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(magnitudes_agree_with_sorting),
        cmocka_unit_test(magnitudes_of_bytes),
        cmocka_unit_test(equal_magnitudes_give_the_first_place),
        cmocka_unit_test(nan_counts_as_the_largest),
        cmocka_unit_test(inputs_agree_with_the_runtime),
        cmocka_unit_test(the_stream_begins_with_embeddings),
        cmocka_unit_test(the_same_with_any_threads),
        cmocka_unit_test(windows),
        cmocka_unit_test(equal_keys_share_attention),
        cmocka_unit_test(attention_agrees_with_the_runtime),
        cmocka_unit_test(keys_are_those_of_the_cache),
        cmocka_unit_test(bytes_are_near_the_floats),
        cmocka_unit_test(ends_agree_with_the_runtime),
        cmocka_unit_test(a_bare_model_has_no_prefix),
        cmocka_unit_test(progress_can_stop_it),
        cmocka_unit_test(out_of_memory),
        cmocka_unit_test(worst_block_and_pivots),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
