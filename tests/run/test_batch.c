/* Several sessions in one pass: each gets the bits that it gets alone, whatever is beside it. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include "base/splitmix64.h"
#include "caches.h"
#include "expert_toys.h"
#include "fed.h"
#include "layer_toys.h"
#include "memory.h"
#include "more_toys.h"
#include "rwkv_toys.h"
#include "w8a8.h"

enum { PAIRS = 6, LONG = 640, MOST_STEP = 40, SHARED_EXPERT = 4 };

static int32_t words[LONG + MOST_STEP];

/* A session that is fed in batches, and one that is fed alone. */
struct pair {
    struct tft_session *joined, *alone;
};

static struct pair pair_of(const struct tft_model *m, struct tft_session_opts o)
{
    return (struct pair){session(m, o), session(m, o)};
}

/* With a batch, the first has no workspace of its own. */
static struct pair pair_in(struct tft_batch *b, const struct tft_model *m,
                           struct tft_session_opts o)
{
    struct tft_session_opts in = o;
    in.batch = b;
    return (struct pair){session(m, in), session(m, o)};
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

/* Sessions of one model in batches that have room for all, for some, for one: the first of these,
   and the others in turn. */
static void model_goes(const char *path, int rounds, int turn)
{
    static const struct tft_batch_opts room[] = {
        {.n_threads = 1}, {.n_threads = 3, .n_sessions = 3, .n_tokens = 30}, {.n_threads = 2}};
    struct tft_model *m = opened(path);
    toy_tokens(5, m->n_vocab, words, LONG + MOST_STEP);
    for (int i = 0; i < 3; i++) {
        if (i && !in_turn(i, turn, 2))
            continue;
        struct pair p[PAIRS];
        struct tft_batch *b = batch(m, room[i]);
        for (uint32_t k = 0; k < PAIRS; k++)
            p[k] = pair_in(k % 2 ? b : NULL, m,
                           (struct tft_session_opts){.n_threads = 1 + (int)k % 3,
                                                     .capacity = 60 + 40 * k,
                                                     .n_batch = k == 5 ? 8 : 64,
                                                     .n_logits = 1 + k % 3});
        go(b, p, i == 2 ? 2 : PAIRS, rounds, m->arch->name);
        close_all(b, p, PAIRS);
    }
    tft_model_close(m);
}

static void architectures(void **state)
{
    (void)state;
    for (int i = 0; i < N_MORE; i++)
        model_goes(written(&more_toys[i]), 6, i);
    for (int i = 0; i < N_LAYER_TOYS; i++)
        model_goes(written(&layer_toys[i]), 6, i);
    for (int i = 0; i < N_EXPERTS; i++)
        model_goes(written(&expert_toys[i]), 6, i);
    for (int i = 0; i < N_RWKV; i++)
        model_goes(written(&rwkv_toys[i]), 6, i);
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
    static const char *const slides[] = {"f16", "kivi:window=32,group=16,keep=4",
                                         "logquant:window=11,group=16"};
    struct tft_model *m = opened(written(&small));
    float importance[2 * 2 * 20];
    for (uint32_t i = 0; i < 2 * 2 * 20; i++)
        importance[i] = (float)(1 + i * 37 % 101);
    m->key_importance = importance;
    toy_tokens(5, m->n_vocab, words, LONG + MOST_STEP);
    for (int c = 0; c < N_CACHES;) {
        struct pair p[PAIRS];
        struct tft_batch *b = batch(m, (struct tft_batch_opts){.n_threads = 2});
        size_t n = 0;
        for (; c < N_CACHES && n < PAIRS - 1; c++)
            if (!caches[c].file)
                p[n++] = pair_in(c % 2 ? b : NULL, m,
                                 (struct tft_session_opts){.kv = caches[c].kv,
                                                           .n_batch = c % 4 ? 8 : 64,
                                                           .n_threads = 1 + c % 2});
        p[n++] = pair_in(b, m, (struct tft_session_opts){.kv = slides[c % 3],
                                                         .capacity = 128,
                                                         .slide = true,
                                                         .keep = some,
                                                         .n_threads = 2});
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
        model_goes(quantized(&toys[i], &o), 5, i);
        o.range = by_token;
        model_goes(quantized(&toys[i], &o), 5, i + 1);
    }
    struct toy codes = small;
    codes.n_embd = 64;
    codes.n_ff = 96;
    codes.head_dim = 32;
    codes.n_rot = 32;
    codes.type = TFT_Q8_0;
    model_goes(written(&codes), 5, 1);
}

/* Steps that a pass has no room for go into the next one. */
static void room(void **state)
{
    (void)state;
    static const size_t of[] = {20, 20, 10, 30, 31, 1};
    struct tft_model *m = opened(written(&small));
    toy_tokens(5, m->n_vocab, words, LONG + MOST_STEP);
    struct tft_batch *b =
        batch(m, (struct tft_batch_opts){.n_threads = 1, .n_sessions = 4, .n_tokens = 30});
    struct pair p[PAIRS];
    struct tft_step steps[PAIRS];
    for (size_t k = 0; k < PAIRS; k++) {
        p[k] = pair_of(m, (struct tft_session_opts){.n_threads = 1});
        steps[k] = (struct tft_step){.session = p[k].joined, .tokens = words + k, .n = of[k]};
        feed(p[k].alone, words + k, of[k], of[k]);
    }
    assert_int_equal(tft_step(b, steps, PAIRS), TFT_OK);
    for (size_t k = 0; k < PAIRS; k++)
        same(&p[k], "room");
    close_all(b, p, PAIRS);
    tft_model_close(m);
}

/* A thread that computes attention writes to the workspace of its number in the session. */
static bool computes(struct tft_session *s, int thread)
{
    return *s->attend.scratch[thread].q != 1e9f;
}

static void mark(struct tft_session *s)
{
    for (int i = 0; i < s->max_threads; i++)
        *s->attend.scratch[i].q = 1e9f;
}

/* A pass runs on the least number of threads that the batch and its sessions have. */
static void threads(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    toy_tokens(5, m->n_vocab, words, LONG + MOST_STEP);
    struct tft_session *s[2];
    for (int i = 0; i < 2; i++)
        s[i] = session(m, (struct tft_session_opts){.n_threads = 3});
    for (int of_batch = 1; of_batch <= 3; of_batch++)
        for (int of_session = 1; of_session <= 3; of_session++)
            for (size_t n = 1; n <= 2; n++) {
                struct tft_batch *b = batch(m, (struct tft_batch_opts){.n_threads = of_batch});
                struct tft_step steps[2];
                int least = of_batch < of_session ? of_batch : of_session;
                bool has = tft_port_threaded() || of_session == 1;
                assert_int_equal(tft_session_threads(s[0], of_session), has ? TFT_OK : TFT_ERR_ARG);
                for (size_t i = 0; i < n; i++) {
                    mark(s[i]);
                    steps[i] = (struct tft_step){.session = s[i], .tokens = words, .n = 9};
                }
                assert_int_equal(tft_step(b, steps, n), TFT_OK);
                for (size_t i = 0; i < n; i++)
                    for (int thread = 0; thread < 3 && tft_port_threaded(); thread++)
                        if (m->n_head_kv > (uint32_t)thread) /* a tile for each head */
                            assert_int_equal(computes(s[i], thread), thread < least);
                assert_int_equal(s[0]->n_threads, tft_port_threaded() ? of_session : 1);
                tft_batch_close(b);
            }
    for (int i = 0; i < 2; i++)
        tft_session_close(s[i]);
    tft_model_close(m);
}

/* A session that fails does so alone. */
static void errors(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    toy_tokens(5, m->n_vocab, words, LONG + MOST_STEP);
    struct tft_batch *b = batch(m, (struct tft_batch_opts){.n_threads = 1});
    struct pair p[7];
    for (int i = 0; i < 7; i++)
        p[i] = pair_of(m, (struct tft_session_opts){.capacity = 8, .n_threads = 1});
    int32_t strange = 31;
    struct tft_step steps[] = {{.session = p[0].joined, .tokens = words, .n = 3},
                               {.session = p[1].joined, .tokens = words, .n = 9},
                               {.session = p[2].joined, .tokens = &strange, .n = 1},
                               {.session = p[3].joined, .tokens = words, .n = 2},
                               {.session = p[4].joined, .tokens = words, .n = 4},
                               {.session = p[5].joined, .tokens = words, .n = 1},
                               {.session = p[6].joined, .tokens = NULL, .n = 0},
                               {.session = p[5].joined, .tokens = words, .n = 2}};
    for (int i = 3; i <= 5; i += 2) {
        feed(p[i].joined, words + 7, 2, 2);
        feed(p[i].alone, words + 7, 2, 2);
    }
    tft_cancel(p[3].joined);
    assert_int_equal(tft_step(b, steps, 8), TFT_ERR_FULL);
    static const enum tft_status want[] = {TFT_OK, TFT_ERR_FULL, TFT_ERR_ARG, TFT_ERR_CANCELLED,
                                           TFT_OK, TFT_ERR_ARG,  TFT_ERR_ARG, TFT_ERR_ARG};
    for (int i = 0; i < 8; i++)
        assert_int_equal(steps[i].status, want[i]);
    assert_string_equal(tft_session_error(p[2].joined)->msg,
                        "token 31 is not within the vocabulary, 0 .. 30");
    assert_string_equal(tft_session_error(p[5].joined)->msg, "the session is in two steps");
    assert_string_equal(tft_session_error(p[6].joined)->msg, "there are no tokens to compute");
    assert_int_equal(tft_session_error(p[0].joined)->code, TFT_OK);
    feed(p[0].alone, words, 3, 3);
    feed(p[4].alone, words, 4, 4);
    assert_int_equal(tft_pos(p[3].joined), 2);
    assert_null(tft_logits(p[3].joined, 0));
    for (int i = 0; i < 7; i++) /* the session in two steps is as it was */
        if (i != 3)
            same(&p[i], "errors");
    steps[3].tokens = words; /* it goes on */
    assert_int_equal(tft_step(b, &steps[3], 1), TFT_OK);
    feed(p[3].alone, words, 2, 2);
    same(&p[3], "cancelled");
    assert_int_equal(tft_step(b, NULL, 0), TFT_OK);

    struct tft_step newer[] = {{.session = p[0].joined, .tokens = words, .n = 1},
                               {.session = p[4].joined, .tokens = words, .n = 1}};
    newer[1].reserved[1] = 1; /* an option of a later version */
    assert_int_equal(tft_step(b, newer, 2), TFT_ERR_ARG);
    assert_int_equal(newer[0].status, TFT_OK);
    assert_int_equal(newer[1].status, TFT_ERR_ARG);
    assert_non_null(strstr(tft_session_error(p[4].joined)->msg, "struct tft_step: reserved[1]"));
    same(&p[4], "reserved");

    struct tft_model *other = opened(written(&small));
    struct tft_session *s = session(other, (struct tft_session_opts){.capacity = 8});
    struct tft_step stranger = {.session = s, .tokens = words, .n = 1};
    assert_int_equal(tft_step(b, &stranger, 1), TFT_ERR_ARG);
    assert_int_equal(tft_pos(s), 0);
    tft_session_close(s);
    tft_model_close(other);
    close_all(b, p, 7);

    struct tft_error err;
    struct tft_batch_opts bad = {.size = sizeof bad, .n_tokens = 65537};
    assert_int_equal(tft_batch_open(&b, m, &bad, &err), TFT_ERR_ARG);
    assert_null(b);
    assert_string_equal(err.msg, "a batch of 0 sessions and 65537 tokens: at most 65536 each");
    bad = (struct tft_batch_opts){.size = sizeof bad, .n_threads = -1};
    assert_int_equal(tft_batch_open(&b, m, &bad, &err), TFT_ERR_ARG);
    tft_model_close(m);
}

/* Sessions that share a workspace are fed in turns, with and without draft tokens, and sampled. */
static void one_workspace(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small)), *other = opened(written(&small));
    struct tft_batch *b = batch(m, (struct tft_batch_opts){.n_threads = 2, .n_tokens = 32});
    struct tft_session_opts o = {.size = sizeof o, .capacity = 200, .lookup = 3, .n_threads = 2};
    struct tft_error err;
    struct tft_session *none;
    struct pair p[2] = {pair_in(b, m, o), pair_in(b, m, o)};
    struct tft_sampler z = {.temperature = 0.8f, .seed = 3}, y = z;
    toy_tokens(5, m->n_vocab, words, LONG);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tft_prefill(p[i].joined, words + i, 50), TFT_OK);
        assert_int_equal(tft_prefill(p[i].alone, words + i, 50), TFT_OK);
    }
    for (int i = 0; i < 80; i++) {
        int32_t next = tft_sample(&z, p[i % 2].joined);
        assert_int_equal(next, tft_sample(&y, p[i % 2].alone));
        assert_int_equal(tft_decode(p[i % 2].joined, next), TFT_OK);
        assert_int_equal(tft_decode(p[i % 2].alone, next), TFT_OK);
        same(&p[i % 2], "one workspace");
    }
    size_t own = tft_session_bytes(m, &o, NULL);
    o.batch = b;
    assert_in_range(tft_session_bytes(m, &o, NULL), 1, own / 2);
    assert_int_equal(tft_session_open(&none, other, &o, &err), TFT_ERR_ARG);
    assert_null(none);
    assert_non_null(strstr(err.msg, "m.gguf: the session's batch is of another model"));
    close_all(b, p, 2);
    tft_model_close(other);
    tft_model_close(m);
}

/* Each allocation fails in turn. A step makes none, and a batch outlives its sessions. */
static void memory(void **state)
{
    (void)state;
    struct tft_model *m = opened(written(&small));
    toy_tokens(5, m->n_vocab, words, LONG + MOST_STEP);
    for (unsigned fail_at = 1; fail_at <= 2; fail_at++) {
        struct memory mem = {.fail_at = fail_at};
        struct tft_allocator a = memory_allocator(&mem);
        struct tft_batch_opts o = {
            .size = sizeof o, .allocator = &a, .n_sessions = 3, .n_tokens = 2, .n_threads = 1};
        struct tft_error err;
        struct tft_batch *b;
        enum tft_status status = tft_batch_open(&b, m, &o, &err);
        if (fail_at < 2) {
            assert_int_equal(status, TFT_ERR_NOMEM);
            assert_null(b);
            assert_non_null(
                strstr(err.msg, "m.gguf: out of memory for a batch of 3 sessions and 3 tokens"));
        } else {
            struct pair p[2] = {pair_of(m, (struct tft_session_opts){.n_threads = 1}),
                                pair_of(m, (struct tft_session_opts){.n_threads = 1})};
            assert_int_equal(status, TFT_OK);
            go(b, p, 2, 5, "memory");
            close_all(NULL, p, 2);
            assert_int_equal(mem.calls, 1);
            tft_batch_close(b);
        }
        assert_int_equal(mem.in_use, 0);
    }
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(architectures), cmocka_unit_test(caches_side_by_side),
        cmocka_unit_test(bytes),         cmocka_unit_test(room),
        cmocka_unit_test(threads),       cmocka_unit_test(errors),
        cmocka_unit_test(one_workspace), cmocka_unit_test(memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
