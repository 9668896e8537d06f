/* Bytes at the ends of static ranges: tft_session_opts.count_ends, tft_session_ends. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "expert_toys.h"
#include "model/ends.h"
#include "w8a8.h"

enum { SHARED_EXPERT = 4, FED = 37 };

static int32_t words[2 * FED];

static struct tft_ends ends_of(const struct tft_session *s)
{
    struct tft_ends ends;
    assert_true(tft_session_ends(s, &ends));
    return ends;
}

static void same(struct tft_ends a, struct tft_ends b)
{
    assert_int_equal(a.numbers, b.numbers);
    assert_int_equal(a.at_ends, b.at_ends);
}

/* The numbers that n tokens at once count. After its mixer's first input the last layer computes
   `last` of them, and the head `kept`. */
static uint64_t numbers(const struct tft_model *m, uint64_t n, uint64_t last, uint64_t kept)
{
    uint64_t sum = kept * m->head_in.width;
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (uint32_t i = 0; i < TFT_INPUT_KINDS; i++) {
            const struct tft_layer *b = &m->layer[l];
            bool all = l + 1 < m->n_layer || i == TFT_IN_ATTN,
                 experts = i == TFT_IN_DOWN && tft_layer_has_experts(b);
            sum += (all ? n : last) * b->in[i].width * (experts ? m->n_expert_used : 1);
        }
    return sum;
}

/* The counts of a session of FED tokens, each calls of `step`. */
static struct tft_ends counted(const struct tft_model *m, struct tft_session_opts o, uint32_t step)
{
    o.count_ends = true;
    struct tft_session *s = session(m, o);
    for (uint32_t i = 0; i < FED; i += step)
        assert_int_equal(tft_prefill(s, words + i, FED - i < step ? FED - i : step), TFT_OK);
    struct tft_ends ends = ends_of(s);
    tft_session_close(s);
    return ends;
}

/* One of the toys, or the mixture of experts. The next call overwrites it. */
static struct tft_model *static_toy(int i)
{
    const struct toy *t = i < N_TOYS ? &toys[i] : &expert_toys[SHARED_EXPERT];
    struct quantize_opts o = usual(t);
    struct tft_model *m = opened(quantized(t, &o));
    toy_tokens(5, m->n_vocab, words, 2 * FED);
    return m;
}

static void one_session(void **state)
{
    (void)state;
    for (int i = 0; i <= N_TOYS; i++) {
        struct tft_model *m = static_toy(i);
        struct tft_ends all = {0};
        for (int threads = 1; threads <= 4; threads++) {
            struct tft_session_opts one = {.n_threads = threads},
                                    each = {.n_threads = threads, .n_logits = FED};
            assert_int_equal(counted(m, one, FED).numbers, numbers(m, FED, 1, 1));
            assert_int_equal(counted(m, one, 5).numbers,
                             7 * numbers(m, 5, 1, 1) + numbers(m, 2, 1, 1));
            if (threads == 1)
                all = counted(m, each, FED);
            assert_int_equal(all.numbers, numbers(m, FED, FED, FED));
            same(counted(m, each, FED), all);
            same(counted(m, one, 1), all); /* each token has its logits */
            same(counted(m, each, 3), all);
        }
        tft_model_close(m);
    }
}

/* The counts with all numbers of an input at the ends, less the counts with none. Later inputs have
   none at the ends. */
static uint64_t difference(struct tft_model *m, struct tft_input *in, uint32_t step, int threads)
{
    struct tft_affine was = in->affine, head = m->head_in.affine;
    const struct tft_affine none = {1e20f, 1e-20f, 128}, every = {1e-20f, 1e20f, 128};
    struct tft_session_opts o = {.n_threads = threads, .n_logits = FED};
    m->head_in.affine = none;
    in->affine = every;
    struct tft_ends most = counted(m, o, step);
    in->affine = none;
    struct tft_ends least = counted(m, o, step);
    in->affine = was;
    m->head_in.affine = head;
    assert_int_equal(most.numbers, least.numbers);
    return most.at_ends - least.at_ends;
}

/* The head's input, and that of the last layer's ffn_down, which has whole blocks of the loop that
   counts (gpt2's 600 numbers). */
static void every_number(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct tft_model *m = static_toy(i);
        struct tft_input *down = &m->layer[m->n_layer - 1].in[TFT_IN_DOWN];
        for (int threads = 1; threads <= 3; threads += 2)
            for (uint32_t step = 1; step <= FED; step += FED - 1) {
                assert_int_equal(difference(m, &m->head_in, step, threads),
                                 FED * m->head_in.width);
                assert_int_equal(difference(m, down, step, threads), FED * down->width);
            }
        tft_model_close(m);
    }
}

/* A range that is too narrow for the text, as that of another text would be. */
static void narrow_range(void **state)
{
    (void)state;
    struct tft_model *m = static_toy(0);
    struct tft_affine *q = &m->layer[0].in[TFT_IN_FFN].affine;
    struct tft_ends before = counted(m, (struct tft_session_opts){.n_threads = 1}, FED);
    q->scale /= 20;
    q->inverse = 1 / q->scale;
    struct tft_ends narrow = counted(m, (struct tft_session_opts){.n_threads = 1}, FED);
    assert_int_equal(narrow.numbers, before.numbers);
    assert_true(narrow.at_ends > before.at_ends + FED);
    assert_true(narrow.at_ends < narrow.numbers);
    tft_model_close(m);
}

/* A batch counts each session's tokens for it: tokens of a session that does not count are not
   counted. */
static void batch(void **state)
{
    (void)state;
    for (int i = 0; i <= N_TOYS; i++) {
        struct tft_model *m = static_toy(i);
        struct tft_batch_opts bo = {.size = sizeof bo, .n_sessions = 2 * FED, .n_threads = 3};
        struct tft_batch *b;
        struct tft_error err;
        assert_int_equal(tft_batch_open(&b, m, &bo, &err), TFT_OK);
        for (uint32_t kept = 1; kept <= FED; kept += FED - 1) {
            struct tft_session_opts o = {.n_threads = 3, .n_logits = kept, .count_ends = true},
                                    other = {.n_threads = 3, .n_logits = 3};
            struct tft_session *s[] = {session(m, other), session(m, o), session(m, o)};
            struct tft_step steps[] = {{.session = s[0], .tokens = words + 9, .n = 20},
                                       {.session = s[1], .tokens = words, .n = FED},
                                       {.session = s[2], .tokens = words + FED, .n = FED - 3}};
            assert_int_equal(tft_step(b, steps, 3), TFT_OK);
            assert_false(tft_session_ends(s[0], &(struct tft_ends){0}));
            assert_int_equal(ends_of(s[1]).numbers, numbers(m, FED, FED, kept));
            uint32_t rest = kept < FED - 3 ? kept : FED - 3;
            assert_int_equal(ends_of(s[2]).numbers, numbers(m, FED - 3, FED - 3, rest));
            if (kept == FED)
                same(ends_of(s[1]), counted(m, o, FED));
            for (int k = 0; k < 3; k++)
                tft_session_close(s[k]);
        }
        tft_batch_close(b);
        tft_model_close(m);
    }
}

/* Nothing is counted of inputs without static ranges, nor in sessions that do not ask. */
static void nothing(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    struct tft_ends ends = {.numbers = 1, .at_ends = 1, .reserved = {1, 1}};
    o.range = by_token;
    struct tft_model *m = opened(quantized(&toys[0], &o));
    toy_tokens(5, m->n_vocab, words, 2 * FED);
    same(counted(m, (struct tft_session_opts){.n_threads = 2}, FED), (struct tft_ends){0});
    tft_model_close(m);

    m = static_toy(0);
    struct tft_session *s = session(m, (struct tft_session_opts){.n_threads = 1});
    assert_int_equal(tft_prefill(s, words, FED), TFT_OK);
    assert_false(tft_session_ends(s, &ends));
    same(ends, (struct tft_ends){0});
    assert_true(ends.reserved[0] == 0 && ends.reserved[1] == 0);
    tft_session_close(s);
    tft_model_close(m);

    m = opened(written(&toys[0]));
    assert_true(isnan(tft_calibrated_ends(m)));
    tft_model_close(m);
}

/* The file's shares are of its text: a session that reads it has about the same. */
static void calibrated(void **state)
{
    (void)state;
    struct quantize_opts o = usual(&toys[0]);
    o.method = RANGE_PERCENTILE;
    o.param = 98;
    struct tft_model *m = opened(quantized(&toys[0], &o));
    const struct tft_value *v = tft_source_value(&m->source, TFT_KEY_INPUT_ENDS);
    double share, least = 1, most = 0;
    assert_non_null(v);
    assert_int_equal(v->n, tft_model_inputs(m));
    for (uint32_t i = 0; i < v->n; i++) {
        assert_true(tft_value_real(v, i, &share));
        assert_in_range((int)(share * 1000), 5, 60); /* 2 %, and numbers within half a step */
        assert_true(tft_input_ends(m, i) == share);
        least = share < least ? share : least;
        most = share > most ? share : most;
    }
    assert_true(tft_calibrated_ends(m) >= least && tft_calibrated_ends(m) <= most);
    assert_true(isnan(tft_input_ends(m, (uint32_t)v->n)));
    toy_tokens(5, m->n_vocab, words, 2 * FED);
    struct tft_ends ends = counted(m, (struct tft_session_opts){.n_threads = 1}, FED);
    assert_in_range(1000 * ends.at_ends / ends.numbers, 5, 80);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_session),  cmocka_unit_test(every_number),
        cmocka_unit_test(narrow_range), cmocka_unit_test(batch),
        cmocka_unit_test(nothing),      cmocka_unit_test(calibrated),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
