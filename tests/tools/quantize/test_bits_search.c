/* The search for bits of the matrices of the layers: within the budget, no worse by its own rule
   than equal bits, and more bits for matrices that matter more. The losses are checked against ones
   that are computed here. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "expert_toys.h"
#include "w8a8.h"
#include "tools/quantize/measure/layers.h"
#include "tools/quantize/search/bits_search.h"

enum { GROUP = 32, WINDOWS = TEXT / WINDOW };

static struct bits_search_opts opts(double bits)
{
    return (struct bits_search_opts){.text = text,
                                     .n_windows = WINDOWS,
                                     .window = WINDOW,
                                     .group = GROUP,
                                     .bits = bits,
                                     .n_threads = 1};
}

static struct tft_model *eight_bits(const struct toy *t)
{
    struct quantize_opts o = usual(t);
    return opened(quantized(t, &o));
}

static struct bits_search searched(struct tft_model *m, struct bits_search_opts o)
{
    struct bits_search r;
    struct tft_error err;
    bool stopped;
    if (bits_search(m, &o, &r, &stopped, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    assert_false(stopped);
    return r;
}

static size_t matrices(const struct bits_search *r)
{
    return (size_t)r->n_layer * LAYER_MATS;
}

/* Bytes of a matrix's panels: low_panel.h and panel.h. */
static double bytes_in_groups(const struct tft_mat *w, uint32_t bits, uint32_t group)
{
    double padded = (w->cols + 15) / 16 * 16, panels = (w->rows + 15) / 16;
    double groups = ceil(padded / group);
    return panels * (bits == 8 ? 16 * padded : groups * (16 + 16 * group * bits / 8.0));
}

static double bytes_of(const struct tft_mat *w, uint32_t bits)
{
    return bytes_in_groups(w, bits, GROUP);
}

static double all_bytes(const struct tft_model *m, const struct bits_search *r, uint32_t bits,
                        double *weights)
{
    double sum = 0;
    *weights = 0;
    for (size_t i = 0; i < matrices(r); i++)
        if (r->matrix[i].there) {
            const struct tft_mat *w =
                &layers_linear(&m->layer[i / LAYER_MATS], (int)(i % LAYER_MATS))->w;
            sum += bytes_of(w, bits ? bits : r->matrix[i].bits);
            *weights += (double)w->rows * w->cols;
        }
    return sum;
}

static void within_the_budget(void **state)
{
    (void)state;
    for (int t = 0; t < N_TOYS; t++) {
        struct tft_model *m = eight_bits(&toys[t]);
        struct bits_search r = searched(m, opts(8));
        double weights, most = all_bytes(m, &r, 8, &weights) * 8 / weights,
                        least = all_bytes(m, &r, 2, &weights) * 8 / weights;
        for (size_t i = 0; i < matrices(&r) && most <= 8; i++)
            assert_true(!r.matrix[i].there || r.matrix[i].bits == 8);
        bits_search_free(&r);
        for (double bits = least + 1e-3; bits < 8; bits += 0.7) {
            r = searched(m, opts(bits));
            double got = all_bytes(m, &r, 0, &weights) * 8 / weights;
            assert_true(got <= bits && fabs(got - r.bits) < 1e-6);
            if (bits < least + 0.01)
                for (size_t i = 0; i < matrices(&r); i++)
                    assert_true(!r.matrix[i].there || r.matrix[i].bits == 2);
            bits_search_free(&r);
        }
        tft_model_close(m);
    }
}

/* Next-token distributions of the second half of the first window; p: [WINDOW / 2, V] */
static void predict(const struct tft_model *m, double *p)
{
    struct tft_session *s;
    struct tft_error err;
    struct tft_session_opts so = {.size = sizeof so, .n_logits = WINDOW, .kv = "f16"};
    assert_int_equal(tft_session_open(&s, m, &so, &err), TFT_OK);
    assert_int_equal(tft_prefill(s, text, WINDOW), TFT_OK);
    for (uint32_t i = 0; i < WINDOW / 2; i++, p += m->n_vocab) {
        const float *x = tft_logits(s, WINDOW / 2 - 1 - i);
        double sum = 0;
        for (uint32_t j = 0; j < m->n_vocab; j++)
            sum += p[j] = exp((double)x[j]);
        for (uint32_t j = 0; j < m->n_vocab; j++)
            p[j] /= sum;
    }
    tft_session_close(s);
}

/* The loss of a matrix is near the loss of a model with the matrix in codes of 2 bits. Both losses
   are not equal, as the codes are chosen from 8 bits here, and from floats by quantize(). */
static void losses_are_those_of_quantized_models(void **state)
{
    (void)state;
    const struct toy *t = &toys[0];
    struct quantize_opts o = usual(t);
    struct tft_model *m = eight_bits(t);
    struct bits_search_opts so = opts(4);
    so.n_windows = 2; /* the second one is held out */
    struct bits_search r = searched(m, so);
    assert_true(r.floor > 0); /* some activations are rounded the other way */
    size_t n = WINDOW / 2 * m->n_vocab;
    double *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    predict(m, want);
    tft_model_close(m);
    uint8_t bits[3 * LAYER_MATS];
    o.bits = bits;
    o.group = GROUP;
    o.rounding = QUANTIZE_NEAREST;
    for (size_t i = 0; i < matrices(&r); i++) {
        if (!r.matrix[i].there)
            continue;
        memset(bits, 8, sizeof bits);
        bits[i] = 2;
        m = opened(quantized(t, &o));
        predict(m, got);
        double loss = 0;
        for (size_t j = 0; j < n; j++)
            loss += want[j] * log(want[j] / got[j]) / (WINDOW / 2);
        if (!(loss < 2 * r.matrix[i].loss && r.matrix[i].loss < 2 * loss))
            fail_msg("matrix %zu: %g, and %g of a model", i, r.matrix[i].loss, loss);
        assert_true(r.matrix[i].loss > r.floor);
        tft_model_close(m);
    }
    free(want);
    free(got);
    bits_search_free(&r);
}

/* Heads with unused output cannot matter. */
static void what_matters_gets_more(void **state)
{
    (void)state;
    static const int8_t nothing[1 << 16];
    for (uint32_t l = 0; l < toys[0].n_layer; l++) {
        struct tft_model *m = eight_bits(&toys[0]);
        struct tft_linear *o = layers_linear(&m->layer[l], MAT_O);
        assert_true(tft_panel_rows(o->w.rows) * tft_panel_cols(o->w.cols) <= sizeof nothing);
        o->w.data = nothing;
        o->w.rowsum = (const int32_t *)(const void *)nothing;
        struct bits_search r = searched(m, opts(4.2));
        for (int i = MAT_Q; i <= MAT_V; i++) {
            assert_true(r.matrix[l * LAYER_MATS + (uint32_t)i].loss == 0);
            assert_int_equal(r.matrix[l * LAYER_MATS + (uint32_t)i].bits, 2);
        }
        bits_search_free(&r);
        tft_model_close(m);
    }
}

static void the_model_is_left_as_it_was(void **state)
{
    (void)state;
    struct tft_model *m = eight_bits(&toys[0]);
    size_t n = WINDOW / 2 * m->n_vocab * sizeof(double);
    double *before = malloc(n), *after = malloc(n);
    predict(m, before);
    struct bits_search one = searched(m, opts(4));
    predict(m, after);
    assert_memory_equal(before, after, n);
    struct bits_search_opts o = opts(4);
    o.n_threads = 3;
    struct bits_search three = searched(m, o);
    for (size_t i = 0; i < matrices(&one); i++)
        assert_true(one.matrix[i].loss == three.matrix[i].loss &&
                    one.matrix[i].bits == three.matrix[i].bits);
    bits_search_free(&one);
    bits_search_free(&three);
    free(before);
    free(after);
    tft_model_close(m);
}

/* With any groups, within the budget that all matrices take with 4 bits in groups of 64; and the
   expected loss is below that of this choice, of which every matrix has a cost at 64. */
static void groups_by_matrix(void **state)
{
    (void)state;
    for (int t = 0; t < N_TOYS; t++) {
        struct tft_model *m = eight_bits(&toys[t]);
        struct bits_search_opts o = opts(8);
        o.group = 64;
        struct bits_search r = searched(m, o);
        double weights = 0, equal = 0, got = 0, expected[2] = {0};
        for (size_t i = 0; i < matrices(&r); i++) {
            if (!r.matrix[i].there)
                continue;
            const struct tft_mat *w =
                &layers_linear(&m->layer[i / LAYER_MATS], (int)(i % LAYER_MATS))->w;
            weights += (double)w->rows * w->cols;
            equal += bytes_in_groups(w, 4, 64);
        }
        bits_search_free(&r);
        o.bits = equal * 8 / weights;
        for (int free_groups = 0; free_groups < 2; free_groups++) {
            o.group = free_groups ? 0 : 64;
            r = searched(m, o);
            got = 0;
            for (size_t i = 0; i < matrices(&r); i++) {
                const struct bits_found *f = &r.matrix[i];
                if (!f->there)
                    continue;
                assert_true(f->bits == 8 ? !f->group && f->cost == 0
                                         : f->group >= 32 && f->group <= 128 && f->cost > 0);
                assert_true(f->bits == 8 || free_groups || f->group == 64);
                expected[free_groups] += f->cost;
                got += bytes_in_groups(
                    &layers_linear(&m->layer[i / LAYER_MATS], (int)(i % LAYER_MATS))->w, f->bits,
                    f->group ? f->group : 64);
            }
            assert_true(got <= equal + 1e-6);
            bits_search_free(&r);
        }
        assert_true(expected[1] < expected[0]);
        tft_model_close(m);
    }
}

/* ---- bytes, text, refusals */

static void a_budget_of_bytes(void **state)
{
    (void)state;
    struct tft_model *m = eight_bits(&toys[0]);
    struct bits_search_opts o = opts(0);
    uint64_t file = m->source.size;
    struct bits_search r = searched(m, opts(8));
    double weights, eight = all_bytes(m, &r, 8, &weights), four = all_bytes(m, &r, 4, &weights);
    bits_search_free(&r);
    o.bytes = file - (uint64_t)(eight - four);
    r = searched(m, o);
    double got = all_bytes(m, &r, 0, &weights);
    assert_true(got <= four && got > 0.9 * four);
    bits_search_free(&r);
    tft_model_close(m);
}

/* groups: NULL: not chosen */
static void assert_text(const uint8_t *bits, const uint8_t *groups, const char *want)
{
    struct bits_found found[3 * LAYER_MATS];
    struct bits_search r = {.n_layer = 3, .group = groups ? 0 : 64, .matrix = found};
    char got[200];
    for (int i = 0; i < 3 * LAYER_MATS; i++)
        found[i] = (struct bits_found){.there = bits[i],
                                       .loss = 1,
                                       .bits = bits[i],
                                       .group = bits[i] == 8 ? 0
                                                : groups     ? groups[i]
                                                             : 64};
    assert_true(bits_search_text(&r, got, sizeof got));
    assert_string_equal(got, want);
    assert_false(bits_search_text(&r, got, strlen(want)));
    assert_true(bits_search_text(&r, got, strlen(want) + 1));
}

static void as_an_option(void **state)
{
    (void)state;
    static const uint8_t same[3][LAYER_MATS] = {{4, 4, 4, 0, 4, 0, 0, 0, 4, 4, 4},
                                                {4, 4, 4, 0, 4, 0, 0, 0, 4, 4, 4},
                                                {4, 4, 4, 0, 4, 0, 0, 0, 4, 4, 4}},
                         some[3][LAYER_MATS] = {{3, 4, 8, 0, 4, 0, 0, 0, 0, 4, 4},
                                                {3, 4, 4, 0, 4, 0, 0, 0, 0, 4, 4},
                                                {3, 4, 4, 0, 4, 0, 0, 0, 0, 2, 2}};
    uint8_t groups[3][LAYER_MATS];
    memset(groups, 64, sizeof groups);
    assert_text(same[0], NULL, "4");
    assert_text(some[0], NULL, "4,0-2.attn_q=3,0.attn_v=8,2.ffn_up=2,2.ffn_down=2");
    assert_text(same[0], groups[0], "4g64");
    groups[1][MAT_Q] = groups[2][MAT_Q] = groups[2][MAT_DOWN] = 32;
    groups[0][MAT_V] = 128;
    assert_text(same[0], groups[0], "4g64,1-2.attn_q=4g32,0.attn_v=4g128,2.ffn_down=4g32");
    assert_text(some[0], groups[0],
                "4g64,0.attn_q=3g64,1-2.attn_q=3g32,0.attn_v=8,2.ffn_up=2g64,2.ffn_down=2g32");
}

static void refused(struct tft_model *m, struct bits_search_opts o, enum tft_status want,
                    const char *line)
{
    struct bits_search r;
    struct tft_error err = {0};
    bool stopped;
    assert_int_equal(bits_search(m, &o, &r, &stopped, &err), want);
    if (!strstr(err.msg, line))
        fail_msg("%s", err.msg);
    assert_null(r.matrix);
    assert_int_equal(bits_search(m, &o, &r, &stopped, NULL), want);
}

static void refused_by_name(void **state)
{
    (void)state;
    struct tft_model *m = eight_bits(&toys[0]);
    struct bits_search_opts o = opts(2);
    struct tft_error err = {0};
    refused(m, o, TFT_ERR_ARG, "with groups of 32, more than the budget of 2");
    assert_int_equal(bits_search_check(m, &o, &err), TFT_ERR_ARG);
    o.bits = 0;
    o.bytes = 1000;
    refused(m, o, TFT_ERR_ARG, "more than the budget of 1000");
    assert_int_equal(bits_search_check(m, &o, &err), TFT_OK);
    o = opts(4);
    o.n_windows = 1;
    refused(m, o, TFT_ERR_ARG, "at least two windows");
    tft_model_close(m);
    m = opened(written(&toys[0]));
    refused(m, opts(4), TFT_ERR_ARG, "do not have weights of 8 bits");
    tft_model_close(m);
}

/* Before 8 bits are there, and with the name of the input. */
static void mixtures_are_refused_at_once(void **state)
{
    (void)state;
    char line[128];
    struct bits_search_opts o = opts(4);
    struct tft_error err = {0};
    struct tft_model *m = opened(written(&expert_toys[0]));
    toy_tokens(11, m->n_vocab, text, TEXT);
    snprintf(line, sizeof line, "%s: --bits-search does not support mixtures of experts",
             in_folder("m.gguf"));
    refused(m, o, TFT_ERR_UNSUPPORTED, line);
    assert_int_equal(bits_search_check(m, &o, &err), TFT_ERR_UNSUPPORTED);
    assert_string_equal(err.msg, line);
    tft_model_close(m);
}

struct seen {
    int calls, stop_at;
    double last;
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
    struct tft_model *m = eight_bits(&toys[0]);
    struct seen seen = {0};
    struct bits_search_opts o = opts(4);
    struct bits_search r;
    o.progress = see;
    o.user = &seen;
    r = searched(m, o);
    assert_true(seen.last == 1);
    bits_search_free(&r);
    int all = seen.calls;
    for (int stop = 1; stop <= all; stop += 1 + all / 6) {
        bool stopped;
        seen = (struct seen){.stop_at = stop};
        assert_int_equal(bits_search(m, &o, &r, &stopped, NULL), TFT_OK);
        assert_true(stopped && !r.matrix && seen.calls == stop);
    }
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(within_the_budget),
        cmocka_unit_test(losses_are_those_of_quantized_models),
        cmocka_unit_test(what_matters_gets_more),
        cmocka_unit_test(the_model_is_left_as_it_was),
        cmocka_unit_test(groups_by_matrix),
        cmocka_unit_test(a_budget_of_bytes),
        cmocka_unit_test(as_an_option),
        cmocka_unit_test(refused_by_name),
        cmocka_unit_test(mixtures_are_refused_at_once),
        cmocka_unit_test(progress_and_stopping),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
