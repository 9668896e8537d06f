/* Which inputs need ranges by token: in models of which one token is an outlier each time it comes,
   and in models without one. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "w8a8.h"

#include "tools/quantize/search/range_search.h"

enum { OUTLIER = 13 };

static struct quantize_opts without_prefix(const struct toy *t)
{
    struct quantize_opts o = usual(t);
    o.prefix = NULL;
    o.n_prefix = 0;
    for (int i = 0; i < TEXT; i += 7) /* it comes again and again */
        text[i] = OUTLIER;
    return o;
}

static const char *made(const struct toy *t, bool outlier)
{
    struct quantize_opts o = without_prefix(t);
    struct tft_error err;
    const char *path = written(t);
    if (outlier)
        assert_true(toy_give_outlier(path, OUTLIER));
    assert_int_equal(convert(path, in_folder("made.gguf"), &o, &err), TFT_OK);
    return in_folder("made.gguf");
}

static struct range_search searched(struct tft_model *m, uint32_t n_windows)
{
    struct divergence_opts o = {
        .text = text, .n_windows = n_windows, .window = WINDOW, .n_threads = 1};
    struct range_search r;
    struct tft_error err;
    bool stopped;
    assert_int_equal(range_search(&r, m, &o, &stopped, &err), TFT_OK);
    assert_false(stopped);
    return r;
}

/* In a model of few blocks, and in one of many, where most are measured as a whole. */
static void the_input_of_an_outlier_comes_first(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        struct toy t = toys[0];
        int outlier = kind % 2;
        t.n_layer = kind < 2 ? t.n_layer : 8;
        struct tft_model *m = opened(made(&t, outlier));
        struct range_search r = searched(m, TEXT / WINDOW);
        assert_int_equal(r.n, tft_model_inputs(m));
        double rest = 0;
        for (uint32_t i = 1; i < r.n; i++) {
            assert_true(r.nats[r.order[i - 1]] >= r.nats[r.order[i]]);
            rest += r.nats[r.order[i]];
        }
        bool first = r.order[0] == tft_input_index(m, 0, TFT_IN_DOWN);
        if (outlier && !(first && r.nats[r.order[0]] > 3 * rest))
            fail_msg("input %u comes first, %g of %g nats", r.order[0], r.nats[r.order[0]], rest);
        if (!outlier && r.nats[r.order[0]] > 3 * rest)
            fail_msg("input %u loses %g, all others %g", r.order[0], r.nats[r.order[0]], rest);
        range_search_free(&r);
        tft_model_close(m);
    }
}

/* A range by token of that input alone brings the model near the floats. */
static double distance_with(const struct toy *t, const char *floats, const char *path, bool dynamic)
{
    struct tft_model *m[2] = {opened(floats), opened(path)};
    double sum = 0, all = 0;
    if (dynamic) {
        range_search_input(m[1], tft_input_index(m[1], 0, TFT_IN_DOWN))->range = TFT_RANGE_TOKEN;
        m[1]->float_inputs = m[1]->float_hidden = true;
    }
    struct tft_session *s[2];
    for (int i = 0; i < 2; i++) {
        s[i] = session(m[i], (struct tft_session_opts){.n_threads = 1});
        assert_int_equal(tft_prefill(s[i], text, 60), TFT_OK);
    }
    const float *a = tft_logits(s[0], 0), *b = tft_logits(s[1], 0);
    for (uint32_t i = 0; i < t->n_vocab; i++) {
        sum += pow((double)a[i] - (double)b[i], 2);
        all += pow((double)a[i], 2);
    }
    for (int i = 0; i < 2; i++) {
        tft_session_close(s[i]);
        tft_model_close(m[i]);
    }
    return sqrt(sum / all);
}

static void a_range_by_token_holds_it(void **state)
{
    (void)state;
    const struct toy *t = &toys[0];
    const char *path = made(t, true);
    struct toy again = *t;
    const char *floats = written(&again);
    assert_true(toy_give_outlier(floats, OUTLIER));
    double fixed_range = distance_with(t, floats, path, false),
           by_each = distance_with(t, floats, path, true);
    if (!(by_each < fixed_range / 3))
        fail_msg("off by %g with a static range, by %g with one by token", fixed_range, by_each);
}

/* Short texts keep one window out of calibration. */
static void one_window_is_enough(void **state)
{
    (void)state;
    struct tft_model *m = opened(made(&toys[0], true));
    struct range_search r = searched(m, 1);
    for (uint32_t i = 0; i < r.n; i++)
        assert_true(isfinite(r.nats[i]));
    assert_int_equal(r.order[0], tft_input_index(m, 0, TFT_IN_DOWN));
    range_search_free(&r);
    tft_model_close(m);
}

static void the_model_stays_as_it_was(void **state)
{
    (void)state;
    struct tft_model *m = opened(made(&toys[0], true));
    uint64_t hash[2];
    for (int i = 0; i < 2; i++) {
        struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
        assert_int_equal(tft_prefill(s, text, 50), TFT_OK);
        hash[i] = hash_logits(0, s);
        tft_session_close(s);
        struct range_search r = searched(m, TEXT / WINDOW);
        for (uint32_t j = 0; j < r.n; j++)
            assert_int_equal(range_search_input(m, j)->range, TFT_RANGE_STATIC);
        range_search_free(&r);
    }
    assert_int_equal(hash[0], hash[1]);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_input_of_an_outlier_comes_first),
        cmocka_unit_test(a_range_by_token_holds_it),
        cmocka_unit_test(one_window_is_enough),
        cmocka_unit_test(the_model_stays_as_it_was),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
