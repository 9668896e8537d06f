/* Several sessions in one pass: each gets the bits that it gets alone, whatever is beside it. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "base/splitmix64.h"
#include "caches.h"
#include "expert_toys.h"
#include "fed.h"
#include "layer_toys.h"
#include "more_toys.h"
#include "w8a8.h"

enum { PAIRS = 6, LONG = 640, MOST_STEP = 40 };

static int32_t words[LONG + MOST_STEP];

/* A session that is fed in batches, and one that is fed alone. */
struct pair {
    struct tft_session *joined, *alone;
};

static struct pair pair_of(const struct tft_model *m, struct tft_session_opts o)
{
    return (struct pair){session(m, o), session(m, o)};
}

static struct tft_batch *batch(const struct tft_model *m, struct tft_batch_opts o)
{
    struct tft_batch *b;
    struct tft_error err;
    o.size = sizeof o;
    if (tft_batch_open(&b, m, &o, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return b;
}

static void same(const struct pair *p, const char *what)
{
    size_t bytes = p->alone->m->n_vocab * sizeof(float);
    assert_int_equal(tft_pos(p->joined), tft_pos(p->alone));
    assert_int_equal(p->joined->states.n, p->alone->states.n);
    for (size_t back = 0; back < 3; back++) {
        const float *x = tft_logits(p->joined, back), *y = tft_logits(p->alone, back);
        assert_int_equal(!x, !y);
        if (x && memcmp(x, y, bytes) != 0)
            fail_msg("%s: other logits after %zu tokens", what, tft_pos(p->alone) - back);
    }
}

/* Sometimes takes tokens back, or ends a prompt. */
static void change(struct pair *p, uint64_t *seed)
{
    uint64_t r = tft_splitmix64(seed);
    size_t pos = tft_pos(p->alone), to = pos - (pos < 50 ? pos / 2 : r / 8 % 50);
    if (r % 8 == 0) {
        assert_int_equal(tft_rewind(p->joined, to), TFT_OK);
        assert_int_equal(tft_rewind(p->alone, to), TFT_OK);
    } else if (r % 8 == 1) {
        tft_prompt_end(p->joined);
        tft_prompt_end(p->alone);
    }
}

/* n pairs of sessions go through random steps: single tokens, pieces of prompts, and none. */
static void go(struct tft_batch *b, struct pair *p, size_t n, int rounds, const char *what)
{
    uint64_t seed = 11;
    for (int i = 0; i < rounds; i++) {
        struct tft_step steps[PAIRS];
        size_t of[PAIRS], n_step = 0;
        for (size_t k = 0; k < n; k++) {
            uint64_t r = tft_splitmix64(&seed);
            size_t pos = tft_pos(p[k].alone), tokens = r % 3 ? 1 : 1 + r / 3 % MOST_STEP;
            if (r % 5 == 4 || (!p[k].alone->slide && pos + tokens > tft_capacity(p[k].alone)))
                continue;
            of[n_step] = k;
            steps[n_step++] = (struct tft_step){
                .session = p[k].joined, .tokens = words + (pos + 7 * k) % LONG, .n = tokens};
        }
        assert_int_equal(tft_step(b, steps, n_step), TFT_OK);
        for (size_t k = 0; k < n_step; k++) {
            assert_int_equal(steps[k].status, TFT_OK);
            assert_int_equal(tft_prefill(p[of[k]].alone, steps[k].tokens, steps[k].n), TFT_OK);
        }
        for (size_t k = 0; k < n; k++) {
            same(&p[k], what);
            change(&p[k], &seed);
        }
    }
}

static void close_all(struct tft_batch *b, struct pair *p, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        tft_session_close(p[k].joined);
        tft_session_close(p[k].alone);
    }
    tft_batch_close(b);
}

/* Sessions of one model in batches that have room for all, for some, for one. */
static void model_goes(const char *path, int rounds)
{
    static const struct tft_batch_opts room[] = {
        {.n_threads = 1}, {.n_threads = 3, .n_sessions = 3, .n_tokens = 30}, {.n_threads = 2}};
    struct tft_model *m = opened(path);
    toy_tokens(5, m->n_vocab, words, LONG + MOST_STEP);
    for (int i = 0; i < 3; i++) {
        struct pair p[PAIRS];
        for (uint32_t k = 0; k < PAIRS; k++)
            p[k] = pair_of(m, (struct tft_session_opts){.n_threads = 1 + (int)k % 3,
                                                        .capacity = 60 + 40 * k,
                                                        .n_batch = k == 5 ? 8 : 64,
                                                        .n_logits = 1 + k % 3});
        struct tft_batch *b = batch(m, room[i]);
        go(b, p, i == 2 ? 2 : PAIRS, rounds, m->arch->name);
        close_all(b, p, PAIRS);
    }
    tft_model_close(m);
}

static void architectures(void **state)
{
    (void)state;
    for (int i = 0; i < N_MORE; i++)
        model_goes(written(&more_toys[i]), 6);
    for (int i = 0; i < N_LAYER_TOYS; i++)
        model_goes(written(&layer_toys[i]), 6);
    for (size_t i = 0; i < sizeof expert_toys / sizeof *expert_toys; i++)
        model_goes(written(&expert_toys[i]), 6);
}

/* Sessions with every kind of cache in one batch; some slide, some have a filter. */
static bool some(void *user, uint64_t position, int32_t token)
{
    (void)user;
    return (position + (uint64_t)token) % 9 == 0;
}

static void caches_side_by_side(void **state)
{
    (void)state;
    static const char *const slides[] = {"f16", "kivi:residual=32,group=16,keep=4",
                                         "logquant:window=11,group=16"};
    struct tft_model *m = opened(written(&small));
    float importance[2 * 2 * 20];
    for (uint32_t i = 0; i < 2 * 2 * 20; i++)
        importance[i] = (float)(1 + i * 37 % 101);
    m->key_importance = importance;
    toy_tokens(5, m->n_vocab, words, LONG + MOST_STEP);
    for (int c = 0; c < N_CACHES;) {
        struct pair p[PAIRS];
        size_t n = 0;
        for (; c < N_CACHES && n < PAIRS - 1; c++)
            if (!caches[c].file)
                p[n++] = pair_of(m, (struct tft_session_opts){.kv = caches[c].kv, .n_threads = 2});
        p[n++] = pair_of(m, (struct tft_session_opts){
                                .kv = slides[c % 3], .capacity = 128, .slide = true, .keep = some});
        struct tft_batch *b = batch(m, (struct tft_batch_opts){.n_threads = 2});
        go(b, p, n, 40, "caches");
        close_all(b, p, n);
    }
    tft_model_close(m);
}

/* Static ranges and ranges by token, where the weights are int8, and codes of 4 bits. */
static void bytes(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct quantize_opts o = usual(&toys[i]);
        model_goes(quantized(&toys[i], &o), 5);
        o.range = by_token;
        model_goes(quantized(&toys[i], &o), 5);
    }
    struct toy codes = small;
    codes.n_embd = 64;
    codes.n_ff = 96;
    codes.head_dim = 32;
    codes.n_rot = 32;
    codes.type = TFT_Q8_0;
    model_goes(written(&codes), 5);
}

/* A session that fails does so alone. */
static void errors(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    toy_tokens(5, m->n_vocab, words, LONG + MOST_STEP);
    struct tft_batch *b = batch(m, (struct tft_batch_opts){.n_threads = 1});
    struct pair p[5];
    for (int i = 0; i < 5; i++)
        p[i] = pair_of(m, (struct tft_session_opts){.capacity = 8, .n_threads = 1});
    int32_t strange = 31;
    struct tft_step steps[] = {{.session = p[0].joined, .tokens = words, .n = 3},
                               {.session = p[1].joined, .tokens = words, .n = 9},
                               {.session = p[2].joined, .tokens = &strange, .n = 1},
                               {.session = p[3].joined, .tokens = words, .n = 2},
                               {.session = p[4].joined, .tokens = words, .n = 4},
                               {.session = p[0].joined, .tokens = words, .n = 1},
                               {.session = p[1].joined, .tokens = words, .n = 0}};
    tft_cancel(p[3].joined);
    assert_int_equal(tft_step(b, steps, 7), TFT_ERR_FULL);
    static const enum tft_status want[] = {TFT_OK, TFT_ERR_FULL, TFT_ERR_ARG, TFT_ERR_CANCELLED,
                                           TFT_OK, TFT_ERR_ARG, TFT_ERR_ARG};
    for (int i = 0; i < 7; i++)
        assert_int_equal(steps[i].status, want[i]);
    assert_string_equal(tft_session_error(p[2].joined)->msg,
                        "token 31 is not within the vocabulary, 0 .. 30");
    assert_string_equal(tft_session_error(p[0].joined)->msg, "the session is in two steps");
    feed(p[0].alone, words, 3, 3);
    feed(p[4].alone, words, 4, 4);
    for (int i = 0; i < 5; i++)
        same(&p[i], "errors");
    steps[3].tokens = words; /* it goes on */
    assert_int_equal(tft_step(b, &steps[3], 1), TFT_OK);
    feed(p[3].alone, words, 2, 2);
    same(&p[3], "cancelled");
    assert_int_equal(tft_step(b, NULL, 0), TFT_OK);

    struct tft_model *other = opened(written(&small));
    struct tft_session *s = session(other, (struct tft_session_opts){.capacity = 8});
    struct tft_step stranger = {.session = s, .tokens = words, .n = 1};
    assert_int_equal(tft_step(b, &stranger, 1), TFT_ERR_ARG);
    assert_int_equal(tft_pos(s), 0);
    tft_session_close(s);
    tft_model_close(other);
    close_all(b, p, 5);

    struct tft_error err;
    struct tft_batch_opts bad = {.size = sizeof bad, .n_tokens = 65537};
    assert_int_equal(tft_batch_open(&b, m, &bad, &err), TFT_ERR_ARG);
    assert_null(b);
    assert_string_equal(err.msg, "a batch of 0 sessions and 65537 tokens: at most 65536 each");
    bad = (struct tft_batch_opts){.size = sizeof bad, .n_threads = -1};
    assert_int_equal(tft_batch_open(&b, m, &bad, &err), TFT_ERR_ARG);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(architectures),
        cmocka_unit_test(caches_side_by_side),
        cmocka_unit_test(bytes),
        cmocka_unit_test(errors),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
