/* The search for bits of each layer of the KV cache: its result is optimal by its own table, within
   the budget, and gives more bits to layers that lose more. The divergence on held-out windows is
   checked against one computed here. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "kv/kv.h"
#include "fed.h"
#include "tools/quantize/search/kv_search.h"
#include "random.h"

/* ---- the knapsack */

enum { UNITS = 4, CHOICES = 3 };

/* The least cost, by trying all. */
static double brute_force(const struct knapsack_item *unit, size_t budget)
{
    double least = INFINITY;
    for (uint32_t i = 0; i < 81; i++) {
        double cost = 0;
        size_t bytes = 0;
        for (uint32_t u = 0, rest = i; u < UNITS; u++, rest /= CHOICES) {
            bytes += unit[u].bytes[rest % CHOICES];
            cost += unit[u].cost[rest % CHOICES];
        }
        if (bytes <= budget)
            least = fmin(least, cost);
    }
    return least;
}

static void the_best_of_all(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++) {
        struct knapsack_item unit[UNITS];
        uint32_t step = 1 + random_u32() % 40;
        size_t most = 0;
        for (int u = 0; u < UNITS; u++) { /* neither convex nor in any order */
            unit[u].n = CHOICES;
            for (int j = 0; j < CHOICES; j++) {
                unit[u].bytes[j] = 7 + step * (random_u32() % 12);
                unit[u].cost[j] = (double)(random_u32() % 1000);
                most += unit[u].bytes[j];
            }
        }
        size_t least = knapsack_least(unit, UNITS);
        assert_true(brute_force(unit, least) < INFINITY &&
                    brute_force(unit, least - 1) == INFINITY);
        for (size_t budget = least; budget <= most; budget += 1 + random_u32() % (2 * step)) {
            double cost = 0;
            size_t bytes = 0;
            assert_true(knapsack_solve(unit, UNITS, budget));
            for (int u = 0; u < UNITS; u++) {
                assert_in_range(unit[u].picked, 0, CHOICES - 1);
                bytes += unit[u].bytes[unit[u].picked];
                cost += unit[u].cost[unit[u].picked];
            }
            assert_in_range(bytes, least, budget);
            assert_true(cost == brute_force(unit, budget)); /* exact: sums of integers */
        }
    }
}

static void units_that_have_no_choice(void **state)
{
    (void)state;
    struct knapsack_item unit[2] = {{.n = 1, .bytes = {5}, .cost = {3}},
                              {.n = 2, .bytes = {8, 8}, .cost = {2, 1}}};
    assert_int_equal(knapsack_least(unit, 2), 13);
    assert_true(knapsack_solve(unit, 2, 13));
    assert_int_equal(unit[0].picked, 0);
    assert_int_equal(unit[1].picked, 1);
}

/* ---- models in which only some layers' attention matters */

enum { LAYERS = 3, WINDOW = 48, WINDOWS = 6, TEXT = WINDOW * WINDOWS, DIM = 16, WIDTH = 16 };
static const struct toy toy = {.arch = "llama",
                               .n_vocab = 31,
                               .n_ctx = 160,
                               .n_embd = DIM,
                               .n_layer = LAYERS,
                               .n_head = 2,
                               .n_head_kv = 1,
                               .head_dim = WIDTH / 2,
                               .n_ff = 16,
                               .n_rot = 8,
                               .type = TFT_F32};
static const char base[] = "tuffet:window=0,sinks=0,keep=0,group=16";

static int32_t text[TEXT];
static float importance[LAYERS * WIDTH / 2], nothing[DIM * WIDTH];

/* The attention output of layers without a bit in `mind` is 0. */
static struct tft_model *model(unsigned mind)
{
    struct tft_model *m = opened(written(&toy));
    for (int i = 0; i < LAYERS * WIDTH / 2; i++)
        importance[i] = (float)(1 + i * 37 % 11);
    m->key_importance = importance;
    toy_tokens(5, m->n_vocab, text, TEXT);
    for (uint32_t l = 0; l < LAYERS; l++)
        if (!(mind >> l & 1))
            m->layer[l].o.w.data = nothing;
    return m;
}

static struct kv_search_opts opts(double bits)
{
    return (struct kv_search_opts){.text = text,
                                   .n_windows = WINDOWS,
                                   .window = WINDOW,
                                   .kv = base,
                                   .bits = bits,
                                   .n_threads = 1};
}

static struct kv_search searched(const struct tft_model *m, struct kv_search_opts o)
{
    struct kv_search r;
    struct tft_error err;
    bool stopped;
    if (kv_search(m, &o, &r, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_false(stopped);
    return r;
}

/* The policy's text has the bits that were chosen. */
static void assert_words(const struct kv_search *r)
{
    struct tft_kv_policy p, given;
    assert_int_equal(tft_kv_parse(&p, r->searched.kv, NULL), TFT_OK);
    assert_int_equal(tft_kv_parse(&given, base, NULL), TFT_OK);
    assert_true(p.k.axis == given.k.axis && p.v.axis == given.v.axis && p.clip == given.clip);
    assert_true(p.k.window == given.k.window && p.v.window == given.v.window &&
                p.group == given.group);
    for (uint32_t l = 0; l < LAYERS; l++)
        assert_true(tft_kv_bits(&p.k, l) == r->unit[2 * l].bits &&
                    tft_kv_bits(&p.v, l) == r->unit[2 * l + 1].bits);
    assert_int_equal(tft_kv_parse(&p, r->uniform.kv, NULL), TFT_OK);
    for (uint32_t l = 1; l < LAYERS; l++)
        assert_true(tft_kv_bits(&p.k, l) == tft_kv_bits(&p.k, 0) &&
                    tft_kv_bits(&p.v, l) == tft_kv_bits(&p.v, 0));
}

static void a_layer_that_minds_gets_more(void **state)
{
    (void)state;
    for (uint32_t l = 0; l < LAYERS; l++) {
        struct tft_model *m = model(1u << l);
        struct kv_search r = searched(m, opts(6));
        for (uint32_t i = 0; i < 2 * LAYERS; i++)
            if (i / 2 != l) {
                assert_true(r.unit[i].cost == r.floor); /* only the order of sums differs */
                assert_true(r.unit[i].bits < r.unit[2 * l + i % 2].bits);
            }
        assert_true(r.unit[2 * l].cost > r.floor && r.unit[2 * l + 1].cost > r.floor);
        assert_words(&r);
        assert_true(r.better && r.searched.divergence < r.uniform.divergence);
        kv_search_free(&r);
        tft_model_close(m);
    }
}

static void within_the_budget_to_the_byte(void **state)
{
    (void)state;
    struct tft_model *m = model(7);
    size_t numbers = 2 * LAYERS * WIDTH / 2, least = 0;
    for (double bits = 5.5; bits < 9; bits += 0.7) {
        struct kv_search r = searched(m, opts(bits));
        assert_int_equal(r.budget, (size_t)(bits * (double)numbers / 8));
        assert_int_equal(r.searched.bytes, tft_kv_bytes(m, r.searched.kv, NULL));
        assert_in_range(r.searched.bytes, least, r.budget);
        assert_in_range(r.uniform.bytes, 1, r.budget);
        least = r.searched.bytes; /* a larger budget is used */
        assert_words(&r);
        kv_search_free(&r);
    }
    /* the smallest budget, in bytes, and the largest */
    struct kv_search_opts o = opts(0);
    o.bytes = tft_kv_bytes(m, "tuffet:window=0,sinks=0,keep=0,group=16,bits=1", NULL);
    struct kv_search r = searched(m, o);
    assert_string_equal(r.searched.kv, "tuffet:window=0,sinks=0,keep=0,group=16,k=1,v=1");
    assert_int_equal(r.searched.bytes, o.bytes);
    assert_false(r.better); /* it is the uniform one */
    kv_search_free(&r);
    r = searched(m, opts(16));
    assert_string_equal(r.searched.kv, "tuffet:window=0,sinks=0,keep=0,group=16,k=16,v=16");
    kv_search_free(&r);
    tft_model_close(m);
}

static void bits_that_are_not_mixed(void **state)
{
    (void)state;
    struct tft_model *m = model(2);
    struct kv_search_opts o = opts(6);
    o.kv = "rtn:window=16,group=16";
    struct kv_search r = searched(m, o);
    assert_true(r.unit[2].bits > r.unit[0].bits && r.unit[3].bits > r.unit[5].bits);
    assert_in_range(tft_kv_bytes(m, r.searched.kv, NULL), 1, r.budget);
    kv_search_free(&r);
    o.kv = "rtn"; /* a policy without options */
    o.bits = 10;
    r = searched(m, o);
    assert_ptr_equal(strstr(r.searched.kv, "rtn:k="), r.searched.kv);
    kv_search_free(&r);
    tft_model_close(m);
}

/* ---- the divergence */

static double log_sum(const float *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)x[i]);
    return log(sum);
}

/* Layers 0 and 2 have a window: they have no bits and count in no budget. The text of the policy
   repeats a neighbour's bits for them. */
static void windows_are_not_searched(void **state)
{
    (void)state;
    static const struct toy_number window[] = {{"attention.sliding_window", TOY_U32, 30}, {0}};
    static float each[4 * WIDTH / 2];
    struct toy t = toy;
    t.arch = "gemma2";
    t.n_layer = 4;
    t.tied = true;
    t.numbers = window;
    struct tft_model *m = opened(written(&t));
    for (int i = 0; i < 4 * WIDTH / 2; i++)
        each[i] = (float)(1 + i * 37 % 11);
    m->key_importance = each;
    toy_tokens(5, m->n_vocab, text, TEXT);
    struct kv_search r = searched(m, opts(6.5));
    struct tft_kv_policy p;
    assert_int_equal(r.n_layer, 2);
    assert_int_equal(r.budget, 6.5 * 2 * WIDTH / 8);
    assert_int_equal(r.searched.bytes, tft_kv_bytes(m, r.searched.kv, NULL));
    assert_in_range(r.searched.bytes, r.budget / 2, r.budget);
    assert_int_equal(tft_kv_parse(&p, r.searched.kv, NULL), TFT_OK);
    for (uint32_t l = 0; l < 4; l++) {
        assert_true(tft_kv_bits(&p.k, l) == r.unit[l < 3 ? 0 : 2].bits);
        assert_true(tft_kv_bits(&p.v, l) == r.unit[l < 3 ? 1 : 3].bits);
    }
    kv_search_free(&r);
    tft_model_close(m);
}

/* The sum of p (ln p - ln q) after every token of the second half of the window. */
static double divergence(const struct tft_model *m, const char *kv, uint32_t window)
{
    struct tft_session *p = session(m, (struct tft_session_opts){.n_threads = 1, .kv = "f16"});
    struct tft_session *q = session(m, (struct tft_session_opts){.n_threads = 1, .kv = kv});
    double sum = 0;
    for (uint32_t t = 0; t < WINDOW; t++) {
        assert_int_equal(tft_decode(p, text[window * WINDOW + t]), TFT_OK);
        assert_int_equal(tft_decode(q, text[window * WINDOW + t]), TFT_OK);
        const float *a = tft_logits(p, 0), *b = tft_logits(q, 0);
        double a_sum = log_sum(a, m->n_vocab), b_sum = log_sum(b, m->n_vocab);
        for (uint32_t i = 0; i < m->n_vocab && t >= WINDOW / 2; i++)
            sum += exp((double)a[i] - a_sum) * ((double)a[i] - a_sum - ((double)b[i] - b_sum));
    }
    tft_session_close(p);
    tft_session_close(q);
    return sum;
}

static void what_is_measured(void **state)
{
    (void)state;
    struct tft_model *m = model(7);
    struct kv_search r = searched(m, opts(6));
    double uniform = divergence(m, r.uniform.kv, 4) / (WINDOW / 2); /* the held-out one of five */
    double whole = 0, alone = 0;
    for (uint32_t w = 0; w < WINDOWS; w++)
        if (w != 4) { /* five windows have fewer tokens than it would take */
            const char *two = "tuffet:window=0,sinks=0,keep=0,group=16,k=2,v=16",
                       *one = "tuffet:window=0,sinks=0,keep=0,group=16,k=16,v=16x1/1x1/16";
            whole += divergence(m, two, w) / (WINDOW / 2) / 5;
            alone += divergence(m, one, w) / (WINDOW / 2) / 5;
        }
    assert_true(fabs(r.uniform.divergence - uniform) < 1e-6 * uniform + 1e-9);
    assert_true(r.side[0].bits[3] == 2 && r.side[1].alone == 1);
    assert_true(fabs(r.side[0].cost[3] - whole) < 1e-6 * whole + 1e-9);
    assert_true(fabs(r.unit[3].cost - alone) < 1e-6 * alone + 1e-9);
    kv_search_free(&r);

    /* any number of threads */
    struct kv_search_opts o = opts(6);
    o.n_windows = 2;
    struct kv_search one = searched(m, o), three;
    o.n_threads = 3;
    three = searched(m, o);
    assert_string_equal(one.searched.kv, three.searched.kv);
    assert_true(one.searched.divergence == three.searched.divergence && one.floor == three.floor);
    assert_memory_equal(one.unit, three.unit, 2 * LAYERS * sizeof *one.unit);
    kv_search_free(&one);
    kv_search_free(&three);
    tft_model_close(m);
}

static void nothing_to_gain(void **state)
{
    (void)state;
    struct tft_model *m = model(0);
    struct kv_search r = searched(m, opts(6));
    assert_true(r.searched.divergence == 0 && r.uniform.divergence == 0);
    assert_false(r.better);
    kv_search_free(&r);
    tft_model_close(m);
}

/* ---- settings */

enum { DEPTH = 500, LONG = 144 }; /* two windows of 144 tokens */

static struct kv_search_opts deep(const char *kv, double bits)
{
    struct kv_search_opts o = opts(bits);
    o.kv = kv;
    o.depth = DEPTH;
    o.window = LONG;
    o.n_windows = TEXT / LONG;
    return o;
}

/* Bytes of a token of a session of DEPTH tokens with all slots in use. */
static size_t deep_bytes(const struct tft_model *m, const char *kv)
{
    struct tft_kv_policy p;
    assert_int_equal(tft_kv_parse(&p, kv, NULL), TFT_OK);
    size_t n = p.k.window, group = p.group,
           kept = p.k.retain == TFT_KV_WINDOW ? n + group : p.k.retain == TFT_KV_LOG2 ? 3 * n : n,
           slots = (p.sinks + p.keep + kept + group - 1 + 15) / 16 * 16,
           row = 2 * LAYERS * WIDTH / 2 * 2;
    struct tft_kv_shape shape = tft_model_kv_shape(m);
    size_t all = slots * row + DEPTH / group * tft_kv_block_bytes(&shape, &p);
    return (all + DEPTH - 1) / DEPTH;
}

static bool has(const char *kv, const char *knob)
{
    return strstr(kv, knob) != NULL;
}

/* Every setting is tried at the same bytes, f16 slots included, in the best cache so far. */
static void settings_at_a_depth(void **state)
{
    (void)state;
    struct tft_model *m = model(7);
    for (int none = 0; none < 2; none++) {
        struct kv_search_opts o =
            deep(none ? "tuffet:window=0,sinks=0,keep=0,group=16,clip=none" : base, 8);
        struct kv_search r = searched(m, o);
        double least = INFINITY;
        const struct kv_measured *best = NULL;
        unsigned clip = 0, retain = 0, scales = 0, group = 0;
        assert_int_equal(r.budget, 8 * 2 * LAYERS * WIDTH / 2 / 8);
        for (uint32_t i = 0; i < r.n_tried; i++) {
            const char *kv = r.tried[i].kv;
            assert_in_range(r.tried[i].bytes, r.budget * 9 / 10, r.budget);
            assert_int_equal(r.tried[i].bytes, deep_bytes(m, kv));
            assert_ptr_equal(strstr(kv, o.kv), kv);
            const char *last = kv + strlen(o.kv);
            group += has(last, "group=");
            scales += has(last, "v=@") && !has(last, "group=");
            retain += has(last, "retain=") && !has(last, "v=@") && !has(last, "group=");
            clip += has(last, "clip=") && !has(last, "retain=") && !has(last, "v=@") &&
                    !has(last, "group=");
            if (r.tried[i].divergence < least) {
                best = &r.tried[i];
                least = best->divergence;
            }
        }
        /* other than the given ones; too long for the text or the budget: all but window:32 and
           log2:32, and groups of 128 */
        assert_int_equal(clip, 2);
        assert_in_range(retain, 1, 2);
        assert_int_equal(scales, 1);
        assert_in_range(group, 1, 2);
        size_t n = strstr(best->kv, ",k=") - best->kv;
        assert_memory_equal(r.searched.kv, best->kv, n + 3);
        assert_memory_equal(r.uniform.kv, best->kv, n + 3);
        assert_int_equal(r.searched.bytes, deep_bytes(m, r.searched.kv));
        assert_in_range(r.searched.bytes, 1, r.budget);
        assert_in_range(r.uniform.bytes, 1, r.budget);
        kv_search_free(&r);
    }
    /* a budget in bytes; few of them leave no room for slots */
    struct kv_search_opts o = deep(base, 0);
    o.bytes = 48;
    struct kv_search bytes = searched(m, o), bits = searched(m, deep(base, 8));
    assert_string_equal(bytes.searched.kv, bits.searched.kv);
    kv_search_free(&bytes);
    kv_search_free(&bits);
    o.bytes = 36;
    bytes = searched(m, o);
    for (uint32_t i = 0; i < bytes.n_tried; i++)
        assert_false(has(bytes.tried[i].kv, "retain="));
    kv_search_free(&bytes);
    /* without a depth nothing is tried */
    bits = searched(m, opts(8));
    assert_int_equal(bits.n_tried, 0);
    kv_search_free(&bits);
    tft_model_close(m);
}

/* ---- errors */

struct seen {
    double last;
    int calls, stop_at;
};

static bool see(void *user, double done)
{
    struct seen *s = user;
    assert_true(done >= s->last && done <= 1);
    s->last = done;
    return ++s->calls != s->stop_at;
}

static void progress_and_stopping(void **state)
{
    (void)state;
    struct tft_model *m = model(7);
    struct seen seen = {0};
    struct kv_search_opts o = opts(6);
    o.progress = see;
    o.user = &seen;
    struct kv_search r = searched(m, o);
    assert_true(seen.last == 1);
    kv_search_free(&r);
    struct seen deeper = {0};
    struct kv_search_opts d = deep(base, 8);
    d.progress = see;
    d.user = &deeper;
    r = searched(m, d);
    assert_true(deeper.last == 1);
    kv_search_free(&r);
    int all = seen.calls;
    assert_int_equal(all, 5 * (1 + 1 + 13 + 2 * LAYERS) + 3);
    for (int stop = 1; stop <= all; stop += 1 + all / 6) {
        struct tft_error err = {0};
        bool stopped;
        seen = (struct seen){.stop_at = stop};
        assert_int_equal(kv_search(m, &o, &r, &stopped, &err), TFT_OK);
        assert_true(stopped && !r.unit && seen.calls == stop);
    }
    tft_model_close(m);
}

static void refused(const struct tft_model *m, struct kv_search_opts o, enum tft_status want,
                    const char *line)
{
    struct kv_search r;
    struct tft_error err[2] = {{0}, {0}};
    bool stopped;
    enum tft_status status = kv_search_check(m, &o, &err[0]);
    if (kv_search(m, &o, &r, &stopped, &err[1]) != want || status != want ||
        !strstr(err[0].msg, line) || !strstr(err[1].msg, line))
        fail_msg("%d, %s; %s", (int)status, err[0].msg, err[1].msg);
    assert_null(r.unit);
    assert_false(stopped);
    assert_int_equal(kv_search(m, &o, &r, &stopped, NULL), want);
}

static void refused_by_name(void **state)
{
    (void)state;
    struct tft_model *m = model(7);
    struct kv_search_opts o = opts(1);
    refused(m, o, TFT_ERR_ARG,
            "m.gguf: a token takes at least 27 bytes in this cache, more than the budget of 6");
    o = opts(6);
    o.kv = "f32";
    refused(m, o, TFT_ERR_ARG, "the KV cache f32 has no bits to search for");
    o.kv = "kivy";
    refused(m, o, TFT_ERR_ARG, "\"kivy\"");
    o.kv = "tuffet";
    refused(m, o, TFT_ERR_ARG,
            "m.gguf: a window of 48 tokens is too short: this cache keeps all of them in f16");
    o = opts(6);
    o.kv = "skvq:window=0";
    refused(m, o, TFT_ERR_ARG, "clips that are calibrated for its bits");
    o = deep(base, 8);
    o.depth = 15;
    refused(m, o, TFT_ERR_ARG, "m.gguf: a depth of 15 tokens is too small");
    o.depth = 40;
    refused(m, o, TFT_ERR_ARG, "bytes in this cache at this depth, f16 slots included, more than");
    o = opts(6);
    o.n_windows = 1;
    refused(m, o, TFT_ERR_ARG, "m.gguf: a search needs at least two windows of text");
    tft_model_close(m);

    struct toy odd = toy;
    odd.head_dim = 6;
    odd.n_rot = 6;
    m = opened(written(&odd));
    refused(m, opts(6), TFT_ERR_UNSUPPORTED,
            "m.gguf: the model does not support a KV cache like tuffet:window=0,sinks=0,keep=0");
    tft_model_close(m);

    static const struct toy_number window[] = {{"attention.sliding_window", TOY_U32, 30}, {0}};
    odd = toy;
    odd.arch = "gemma2";
    odd.n_layer = 1;
    odd.tied = true;
    odd.numbers = window;
    m = opened(written(&odd));
    refused(m, opts(6), TFT_ERR_UNSUPPORTED, "m.gguf: all its layers have windows, which stay in");
    tft_model_close(m);

    /* a float model passes this check */
    m = opened(written(&toy));
    struct kv_search r;
    struct tft_error err;
    bool stopped;
    o = opts(6);
    assert_int_equal(kv_search_check(m, &o, &err), TFT_OK);
    assert_int_equal(kv_search(m, &o, &r, &stopped, &err), TFT_ERR_ARG);
    assert_non_null(strstr(err.msg, "mixed keys, and the file lacks"));
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_of_all),
        cmocka_unit_test(units_that_have_no_choice),
        cmocka_unit_test(a_layer_that_minds_gets_more),
        cmocka_unit_test(within_the_budget_to_the_byte),
        cmocka_unit_test(bits_that_are_not_mixed),
        cmocka_unit_test(windows_are_not_searched),
        cmocka_unit_test(what_is_measured),
        cmocka_unit_test(nothing_to_gain),
        cmocka_unit_test(settings_at_a_depth),
        cmocka_unit_test(progress_and_stopping),
        cmocka_unit_test(refused_by_name),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
