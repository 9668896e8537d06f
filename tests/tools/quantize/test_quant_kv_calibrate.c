/* Calibration for a KV cache: SKVQ's order of channels (section 3.1, eq. 1) and its alpha (eq. 2
   and 3), against a reference in double precision. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "fed.h"
#include "models/open.h"
#include "run/pass.h"
#include "simd/half.h"
#include "tools/quantize/round/channel_order.h"
#include "tools/quantize/quantize.h"
#include "random.h"

/* ---- the order */

/* Checks that each channel occurs once, and that the groups are the planted ones; of[d]: group of
   channel d. */
static void assert_groups(const int32_t *order, const uint32_t *of, uint32_t n, uint32_t group)
{
    bool seen[CHANNEL_ORDER_MAX] = {false};
    for (uint32_t i = 0; i < n; i++) {
        assert_in_range(order[i], 0, n - 1);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
        assert_int_equal(of[order[i]], of[order[i / group * group]]);
    }
}

/* Channels of a few kinds with equal ranges: to both sides, to one side, narrow. A single token
   that is off must not change the groups. */
static void channels_that_reach_as_far_are_together(void **state)
{
    (void)state;
    /* two kinds have the same width */
    static const float kinds[][2] = {{-1, 1}, {-30, -20}, {2, 12}, {-9, 9}};
    static const uint32_t shapes[][2] = {{32, 16},  {64, 16}, {56, 16}, {24, 16},
                                         {128, 32}, {16, 16}, {12, 16}};
    enum { T = 150, OTHER = 5 };
    static float x[T * (CHANNEL_ORDER_MAX + OTHER)];
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        uint32_t n = shapes[s][0], group = shapes[s][1], of[CHANNEL_ORDER_MAX], width = n + OTHER;
        struct channel_ranges r;
        int32_t order[CHANNEL_ORDER_MAX];
        for (uint32_t d = 0; d < n; d++)
            of[d] = d / group;
        for (uint32_t d = n; d-- > 1;) {
            uint32_t other = random_u32() % (d + 1), was = of[d];
            of[d] = of[other];
            of[other] = was;
        }
        /* if n is not a multiple of the group, the widest kind has fewer channels, as the last
           group is the short one */
        for (uint32_t t = 0; t < T; t++)
            for (uint32_t d = 0; d < n; d++) {
                const float *k = kinds[of[d]];
                x[t * width + OTHER + d] = k[0] + (k[1] - k[0]) * (0.5f + 0.5f * random_even());
                if (of[d] == 0 && t == 70)
                    x[t * width + OTHER + d] = 3;
            }
        assert_true(channel_ranges_open(&r, width));
        for (int again = 0; again < 2; again++) {
            channel_ranges_add(&r, x, 100, width);
            channel_ranges_add(&r, x + 100 * width, T - 100, width);
            assert_int_equal(r.spans, 3);
            channel_order_choose(&r, OTHER, n, group, order);
            assert_groups(order, of, n, group);
            double low = 0, high = 0; /* sums over the spans, of the first channel */
            for (uint32_t first = 0; first < T; first = first == 0 ? 64 : first == 64 ? 100 : T) {
                uint32_t end = first == 0 ? 64 : first == 64 ? 100 : T;
                double least = INFINITY, most = -INFINITY;
                for (uint32_t t = first; t < end; t++) {
                    least = fmin(least, (double)x[t * width + OTHER]);
                    most = fmax(most, (double)x[t * width + OTHER]);
                }
                low += least, high += most;
            }
            assert_true(r.low[OTHER] == low && r.high[OTHER] == high);
            channel_ranges_clear(&r);
        }
        channel_ranges_close(&r);
    }
}

/* ---- the order of values, fused into weights */

static const struct toy toys[] = {
    {.arch = "qwen2",
     .n_vocab = 48,
     .n_ctx = 640,
     .n_embd = 48,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 32,
     .n_ff = 64,
     .n_rot = 32,
     .type = TFT_F32},
    {.arch = "llama",
     .n_vocab = 48,
     .n_ctx = 640,
     .n_embd = 48,
     .n_layer = 2,
     .n_head = 3,
     .n_head_kv = 3,
     .head_dim = 40,
     .n_ff = 64,
     .n_rot = 40,
     .type = TFT_F16},
};
/* Its first layer has a window, and scores have a cap. */
static const struct toy_number capped[] = {{"attention.sliding_window", TOY_U32, 30},
                                           {"attn_logit_softcapping", TOY_F32, 0.7},
                                           {0}};
static const struct toy windowed = {.arch = "gemma2",
                                    .n_vocab = 48,
                                    .n_ctx = 640,
                                    .n_embd = 48,
                                    .n_layer = 2,
                                    .n_head = 4,
                                    .n_head_kv = 2,
                                    .head_dim = 32,
                                    .n_ff = 64,
                                    .n_rot = 32,
                                    .type = TFT_F32,
                                    .tied = true,
                                    .numbers = capped};
enum { TEXT = 300, WINDOW = 100, LAYERS = 2 };
static int32_t text[TEXT];
static const int32_t prefix[3] = {1, 7, 3};
static enum tft_range fixed[TFT_LAYER_INPUTS * LAYERS + 1];

static struct quantize_opts usual(const char *kv, enum quantize_rotate rotate)
{
    toy_tokens(11, 48, text, TEXT);
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        fixed[i] = TFT_RANGE_STATIC;
    return (struct quantize_opts){.text = text,
                                  .n_text = TEXT,
                                  .window = WINDOW,
                                  .rotate = rotate,
                                  .prefix = prefix,
                                  .n_prefix = 3,
                                  .range = fixed,
                                  .kv = kv,
                                  .n_threads = 2};
}

static const char *quantized(const struct toy *t, const struct quantize_opts *o, const char *to)
{
    struct quantize_input result[TFT_LAYER_INPUTS * LAYERS + 1];
    struct tft_model *m;
    struct tft_error err;
    bool stopped;
    assert_int_equal(tft_model_open_unexpanded(&m, written(t), NULL, NULL), TFT_OK);
    if (quantize(m, in_folder(to), o, result, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    tft_model_close(m);
    return in_folder(to);
}

/* Attention mixes values channel by channel, so another order of theirs, which the output matrix
   undoes, changes no bit. */
static void reordered_values_are_the_same_bits(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int rotate = QUANTIZE_ROTATE_NONE; rotate <= QUANTIZE_ROTATE_ALL;
             rotate += 1 + (rotate == QUANTIZE_ROTATE_O)) {
            struct quantize_opts plain = usual(NULL, (enum quantize_rotate)rotate),
                                 other = usual("skvq:group=16,clip=none", plain.rotate);
            plain.smooth = other.smooth = rotate == QUANTIZE_ROTATE_O ? 0.5f : 0;
            quantized(&toys[i], &plain, "plain.gguf");
            quantized(&toys[i], &other, "other.gguf");
            if (fed(in_folder("plain.gguf"), 1, TOKENS, 512, "f16") !=
                fed(in_folder("other.gguf"), 1, TOKENS, 512, "f16"))
                fail_msg("%s, rotated %d: other bits", toys[i].arch, rotate);
            struct tft_model *a = opened(in_folder("plain.gguf")),
                             *b = opened(in_folder("other.gguf"));
            size_t numbers = (size_t)3 * a->n_head_kv * a->head_dim;
            for (uint32_t l = 0; l < LAYERS; l++) {
                size_t bytes = tft_panel_rows(a->layer[l].v.w.rows) *
                               tft_panel_cols(a->layer[l].v.w.cols);
                assert_memory_not_equal(a->layer[l].v.w.data, b->layer[l].v.w.data, bytes);
                assert_memory_equal(a->layer[l].k.w.data, b->layer[l].k.w.data, bytes);
                assert_memory_not_equal(a->prefix_v + l * numbers, b->prefix_v + l * numbers,
                                        numbers * sizeof *a->prefix_v);
            }
            assert_null(a->key_order);
            assert_non_null(b->key_order);
            assert_null(b->kv_clip[0]);
            tft_model_close(a);
            tft_model_close(b);
        }
}

/* The file's order of keys fits the text, checked in the last layer: the channels of a cluster have
   ranges at least as wide as in the cluster before. */
static void the_order_of_the_keys(void **state)
{
    (void)state;
    const struct toy *t = &toys[0];
    struct quantize_opts o = usual("skvq:group=16,clip=none,sinks=7", QUANTIZE_ROTATE_ALL);
    struct tft_model *q = opened(quantized(t, &o, "q.gguf")), *m = opened(written(t));
    uint32_t width = t->n_head_kv * t->head_dim;
    struct channel_ranges r;
    int32_t want[CHANNEL_ORDER_MAX];
    assert_true(channel_ranges_open(&r, width));
    for (uint32_t w = 0; w < TEXT / WINDOW; w++) {
        struct tft_session *s =
            session(m, (struct tft_session_opts){.n_threads = 1, .n_batch = WINDOW, .kv = "f16"});
        struct tft_pass p = {.m = m, .work = s->work};
        assert_int_equal(tft_prefill(s, prefix, 3), TFT_OK);
        assert_int_equal(tft_prefill(s, text + w * WINDOW, WINDOW), TFT_OK);
        /* sinks stay f16 */
        channel_ranges_add(&r, tft_pass_row(&p, TFT_K, 7), WINDOW - 7, tft_pass_stride(&p, TFT_K));
        tft_session_close(s);
    }
    for (uint32_t h = 0; h < t->n_head_kv; h++) {
        channel_order_choose(&r, h * t->head_dim, t->head_dim, 16, want);
        assert_memory_equal(q->key_order + ((LAYERS - 1) * t->n_head_kv + h) * t->head_dim, want,
                            t->head_dim * sizeof *want);
    }
    channel_ranges_close(&r);
    tft_model_close(q);
    tft_model_close(m);
}

/* ---- alpha */

enum {
    WINDOWS = TEXT / WINDOW,
    SEEN = 3 + WINDOW,
    WIDE = 32,
    QUERIES = 16,
    GROUP = 16,
    GROUPS = WIDE / GROUP,
    SINKS = 2
};

/* One KV head in the float model's last layer. */
static struct head {
    double k[WINDOWS][SEEN][WIDE], v[WINDOWS][SEEN][WIDE], q[WINDOWS][QUERIES][2][WIDE];
    double coded[2][WINDOWS][SEEN][WIDE];
    double o[WINDOWS][QUERIES][2][WIDE];
    double scale, cap; /* of scores; cap 0: none */
} head;

static uint32_t last_seen(uint32_t query)
{
    return 3 + (WINDOW * (query + 1) + QUERIES - 1) / QUERIES - 1;
}

static void take_head(const struct tft_model *m, uint32_t g)
{
    for (uint32_t w = 0; w < WINDOWS; w++) {
        struct tft_session *s =
            session(m, (struct tft_session_opts){.n_threads = 1, .n_batch = WINDOW, .kv = "f16"});
        struct tft_pass p = {.m = m, .work = s->work};
        assert_int_equal(tft_prefill(s, prefix, 3), TFT_OK);
        assert_int_equal(tft_prefill(s, text + w * WINDOW, WINDOW), TFT_OK);
        for (uint32_t t = 0; t < SEEN; t++)
            for (uint32_t d = 0; d < WIDE; d++) {
                const uint16_t *key = tft_kv_keys(&s->kv, LAYERS - 1, g, 0),
                               *value = tft_kv_values(&s->kv, LAYERS - 1, g, t);
                head.k[w][t][d] = t < 3 ? (double)tft_f16_to_f32(key[d * TFT_KEY_PANEL + t])
                                        : (double)tft_pass_row(&p, TFT_K, t - 3)[g * WIDE + d];
                head.v[w][t][d] = t < 3 ? (double)tft_f16_to_f32(value[d])
                                        : (double)tft_pass_row(&p, TFT_V, t - 3)[g * WIDE + d];
            }
        for (uint32_t i = 0; i < QUERIES; i++)
            for (uint32_t h = 0; h < 2; h++)
                for (uint32_t d = 0; d < WIDE; d++)
                    head.q[w][i][h][d] =
                        (double)tft_pass_row(&p, TFT_Q, last_seen(i) - 3)[(2 * g + h) * WIDE + d];
        tft_session_close(s);
    }
}

static double f16(double x)
{
    return (double)tft_f16_to_f32(tft_f32_to_f16((float)x));
}

/* Eq. 2 with codes of `levels` levels, for a group of channels of each token but prefix and sinks.
   */
static void code(int side, uint32_t group, int levels, double alpha)
{
    for (uint32_t w = 0; w < WINDOWS; w++)
        for (uint32_t t = 0; t < SEEN; t++) {
            const double *x = (side ? head.v : head.k)[w][t] + group * GROUP;
            double *y = head.coded[side][w][t] + group * GROUP, low = INFINITY, high = -INFINITY;
            for (int d = 0; d < GROUP; d++) {
                low = fmin(low, x[d]);
                high = fmax(high, x[d]);
            }
            double half = (levels - 1) / 2.0, scale = f16(alpha * (high - low) / (levels - 1)),
                   mid = f16(alpha * (high + low) / 2);
            for (int d = 0; d < GROUP; d++) {
                double c = fmax(0, fmin(rint((x[d] - mid) / scale + half), levels - 1));
                y[d] = t < 3 + SINKS ? x[d] : (c - half) * scale + mid;
            }
        }
}

static void mixed(double o[WIDE], const double *q, const double (*k)[WIDE], const double (*v)[WIDE],
                  uint32_t last)
{
    double p[SEEN], sum = 0;
    memset(o, 0, WIDE * sizeof *o);
    for (uint32_t t = 0; t <= last; t++) {
        p[t] = 0;
        for (int d = 0; d < WIDE; d++)
            p[t] += q[d] * k[t][d];
        p[t] *= head.scale;
        sum += p[t] = exp(head.cap > 0 ? head.cap * tanh(p[t] / head.cap) : p[t]);
    }
    for (uint32_t t = 0; t <= last; t++)
        for (int d = 0; d < WIDE; d++)
            o[d] += p[t] / sum * v[t][d];
}

/* Eq. 3's squared error of channels first .. end - 1, with coded keys, or coded keys and values; or
   fills `out` with the exact output. */
static double loss(bool keys_coded, bool values_coded, uint32_t first, uint32_t end, bool out)
{
    double sum = 0, o[WIDE];
    for (uint32_t w = 0; w < WINDOWS; w++)
        for (uint32_t i = 0; i < QUERIES; i++)
            for (uint32_t h = 0; h < 2; h++) {
                double *want = head.o[w][i][h];
                mixed(out ? want : o, head.q[w][i][h],
                      (const double(*)[WIDE])(keys_coded ? head.coded[0][w] : head.k[w]),
                      (const double(*)[WIDE])(values_coded ? head.coded[1][w] : head.v[w]),
                      last_seen(i));
                for (uint32_t d = first; !out && d < end; d++)
                    sum += (o[d] - want[d]) * (o[d] - want[d]);
            }
    return sum;
}

/* The alpha of group g has the least error of all alphas from .5 to 1 in steps of .05, of 2 levels
   from .2, of 3 from .35, with the other groups coded as they are at that time. */
static void assert_part(int side, uint32_t g, int levels, double part)
{
    double least = INFINITY, got = NAN;
    for (int i = 0; i <= (levels == 2 ? 16 : levels == 3 ? 13 : 10); i++) {
        double alpha = 1 - 0.05 * i;
        code(side, g, levels, alpha);
        double lost = side ? loss(true, true, g * GROUP, (g + 1) * GROUP, false)
                           : loss(true, false, 0, WIDE, false);
        least = fmin(least, lost);
        if (fabs(alpha - part) < 1e-6)
            got = lost;
    }
    if (!(got <= least * 1.002)) /* the library computes in float, this test in double */
        fail_msg("%s, group %u: a part of %g loses %g, not %g", side ? "values" : "keys", g, part,
                 got, least);
    code(side, g, levels, part);
}

/* Returns how many groups have an alpha below `below`. */
static unsigned assert_alphas(const struct toy *t, const char *kv, const int levels[2], float below)
{
    struct quantize_opts o = usual(kv, QUANTIZE_ROTATE_NONE);
    struct tft_model *q = opened(quantized(t, &o, "q.gguf")), *m = opened(written(t));
    unsigned n = 0;
    head.scale = (double)m->attn_scale;
    head.cap = (double)m->score_cap;
    assert_null(q->key_order);
    for (uint32_t h = 0; h < t->n_head_kv; h++) {
        take_head(m, h);
        loss(false, false, 0, 0, true);
        for (int side = 0; side < 2; side++) {
            const float *part = q->kv_clip[side] + ((LAYERS - 1) * t->n_head_kv + h) * GROUPS;
            for (uint32_t g = 0; g < GROUPS; g++)
                code(side, g, levels[side], 1);
            for (uint32_t g = 0; g < GROUPS; g++) {
                assert_part(side, g, levels[side], (double)part[g]);
                n += part[g] < below;
            }
        }
    }
    tft_model_close(q);
    tft_model_close(m);
    return n;
}

static void alpha_loses_least_of_attentions_output(void **state)
{
    (void)state;
    /* of 8 */
    const char *few = "skvq:group=16,reorder=none,sinks=2,v=1.5";
    assert_true(assert_alphas(&toys[0], few, (int[]){4, 3}, 1) >= 4);
    assert_true(assert_alphas(&toys[0], "skvq:group=16,reorder=none,sinks=2,bits=1",
                              (int[]){2, 2}, 0.48f) >= 2);
    assert_true(assert_alphas(&windowed, few, (int[]){4, 3}, 1) >= 4);
}

/* The layer with a window is f16: it has no alpha. Its values have an order, as in all layers, and
   the file's weights have the same order. */
static void a_calibrated_file_with_windows_runs(void **state)
{
    (void)state;
    struct quantize_opts o = usual("skvq:group=16,window=20,sinks=0", QUANTIZE_ROTATE_NONE);
    struct tft_model *m = opened(quantized(&windowed, &o, "q.gguf"));
    size_t n = 2 * 2, clipped = 0; /* heads, groups */
    for (size_t i = 0; i < n; i++) {
        assert_true(m->kv_clip[0][i] == 1 && m->kv_clip[1][i] == 1);
        clipped += m->kv_clip[0][n + i] < 1;
    }
    assert_true(clipped > 0);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1}),
                       *f16 = session(m, (struct tft_session_opts){.n_threads = 2, .kv = "f16"});
    assert_true(s->kv.policy.reorder && s->kv.layer[1].channel && !s->kv.layer[0].channel);
    assert_int_equal(tft_prefill(s, text, TEXT), TFT_OK);
    assert_int_equal(tft_prefill(f16, text, TEXT), TFT_OK);
    double off = distance(s, f16);
    assert_true(off > 0 && off * off < 0.1);
    tft_session_close(s);
    tft_session_close(f16);
    tft_model_close(m);
}

/* Another order changes the groups and so their alphas; a side held as f16 has alpha 1. The file
   has the same bytes for any number of threads and any kernels. */
static void parts_are_of_the_groups_there_are(void **state)
{
    (void)state;
    struct quantize_opts o = usual("skvq:group=16,v=16", QUANTIZE_ROTATE_O),
                         natural = usual("skvq:group=16,v=16,reorder=none", QUANTIZE_ROTATE_O);
    struct tft_model *a = opened(quantized(&toys[1], &o, "a.gguf")),
                     *b = opened(quantized(&toys[1], &natural, "b.gguf"));
    size_t n = (size_t)LAYERS * 3 * 3; /* heads of 40 have three groups */
    assert_memory_not_equal(a->kv_clip[0], b->kv_clip[0], n * sizeof(float));
    for (size_t i = 0; i < n; i++)
        assert_true(a->kv_clip[1][i] == 1 && b->kv_clip[1][i] == 1);
    for (int isa = 0; isa < tft_kernels_isas(); isa++) {
        assert_int_equal(tft_cpu_limit(tft_kernels_name(isa)), TFT_OK);
        o.n_threads = 1 + isa % 4;
        struct tft_model *c = opened(quantized(&toys[1], &o, "c.gguf"));
        assert_memory_equal(a->kv_clip[0], c->kv_clip[0], n * sizeof(float));
        assert_memory_equal(a->key_order, c->key_order,
                            (size_t)LAYERS * 3 * 40 * sizeof *a->key_order);
        tft_model_close(c);
    }
    assert_int_equal(tft_cpu_limit(NULL), TFT_OK);
    tft_model_close(a);
    tft_model_close(b);
}

/* Windows with fewer tokens than queries per window, and with fewer than the sinks. */
static void the_smallest_windows(void **state)
{
    (void)state;
    for (uint32_t window = 1; window <= 18; window = window == 6 ? 15 : window + 1) {
        struct quantize_opts o = usual("skvq:group=16", QUANTIZE_ROTATE_O);
        o.window = window;
        o.n_text = 2 * window + 1;
        struct tft_model *m = opened(quantized(&toys[1], &o, "q.gguf"));
        /* nothing is quantized, so there is no error */
        for (size_t i = 0; window <= 5 && i < (size_t)LAYERS * 3 * 3; i++)
            assert_true(m->kv_clip[0][i] == 1 && m->kv_clip[1][i] == 1);
        tft_model_close(m);
    }
}

static void odd_heads_are_refused(void **state)
{
    (void)state;
    static const struct toy odd = {.arch = "gpt2",
                                   .n_vocab = 48,
                                   .n_ctx = 640,
                                   .n_embd = 20,
                                   .n_layer = 2,
                                   .n_head = 2,
                                   .n_head_kv = 2,
                                   .head_dim = 10,
                                   .n_ff = 40,
                                   .type = TFT_F32,
                                   .tied = true};
    struct quantize_opts o = usual("skvq", QUANTIZE_ROTATE_NONE);
    struct quantize_input result[TFT_LAYER_INPUTS * LAYERS + 1];
    struct tft_model *m;
    struct tft_error err;
    bool stopped;
    assert_int_equal(tft_model_open_unexpanded(&m, written(&odd), NULL, NULL), TFT_OK);
    assert_int_equal(quantize(m, in_folder("q.gguf"), &o, result, &stopped, &err),
                     TFT_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "no quantized KV cache supports its heads of 10 channels"));
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(channels_that_reach_as_far_are_together),
        cmocka_unit_test(reordered_values_are_the_same_bits),
        cmocka_unit_test(the_order_of_the_keys),
        cmocka_unit_test(alpha_loses_least_of_attentions_output),
        cmocka_unit_test(a_calibrated_file_with_windows_runs),
        cmocka_unit_test(parts_are_of_the_groups_there_are),
        cmocka_unit_test(the_smallest_windows),
        cmocka_unit_test(odd_heads_are_refused),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
