/* Sampling against a plain restatement of tuffet.h: sort all tokens, filter, normalize, look up the
   draw. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>

#include "folder.h"
#include "run/session.h"
#include "simd/expf.h"
#include "toy.h"
#include "tuffet.h"

enum { V = 53, HELD = 6 };

static struct tft_model *model;
static struct tft_session *session;
static const int32_t held[HELD] = {7, 3, 7, 11, 2, 5}; /* the tokens of the session */

/* Opens a toy of n_vocab tokens, and a session that has the tokens `held`. A toy that suppresses
   tokens has TOY_VOCAB of them. */
static enum tft_status open_suppressing(struct tft_model **m, struct tft_session **s,
                                        uint32_t n_vocab, const int32_t *suppress, uint32_t n)
{
    const struct toy t = {.arch = "llama",
                          .vocab = n ? "llama" : NULL,
                          .suppress = suppress,
                          .n_suppress = n,
                          .n_vocab = n_vocab,
                          .n_ctx = 16,
                          .n_embd = 8,
                          .n_layer = 1,
                          .n_head = 1,
                          .n_head_kv = 1,
                          .head_dim = 8,
                          .n_ff = 8,
                          .n_rot = 8,
                          .tied = true};
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 1};
    enum tft_status status = toy_write(&t, in_folder("m.gguf")) ? TFT_OK : TFT_ERR_IO;
    if (status == TFT_OK)
        status = tft_model_open(m, in_folder("m.gguf"), NULL, NULL);
    if (status == TFT_OK)
        status = tft_session_open(s, *m, &o, NULL);
    return status == TFT_OK ? tft_prefill(*s, held, HELD) : status;
}

static enum tft_status open_toy(struct tft_model **m, struct tft_session **s, uint32_t n_vocab)
{
    return open_suppressing(m, s, n_vocab, NULL, 0);
}

static int open_session(void **state)
{
    return make_folder(state) || open_toy(&model, &session, V);
}

static int close_session(void **state)
{
    tft_session_close(session);
    tft_model_close(model);
    return remove_folder(state);
}

static void set_logits(const float *x)
{
    memcpy(session->out.logits, x, V * sizeof *x);
}

/* Logits close together and far apart, negative and positive, and two that are equal. */
static const float *some_logits(uint64_t seed)
{
    static float x[V];
    int32_t r[V];
    toy_tokens(seed, 1 << 20, r, V);
    for (int i = 0; i < V; i++)
        x[i] = (float)r[i] / (1 << 20) * 12 - 7;
    x[31] = x[17];
    set_logits(x);
    return x;
}

/* ---- the restatement */

struct ranked {
    double logit, p;
    int id;
};

static int by_logit(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : x->id - y->id;
}

/* The tokens that may be drawn, the most likely first, with their probabilities; returns how
   many. */
static int distribution(const struct tft_sampler *z, const float *logits, struct ranked out[V])
{
    for (int i = 0; i < V; i++)
        out[i] = (struct ranked){(double)logits[i], 0, i};
    double penalty = (double)z->repeat_penalty;
    int last = z->repeat_last ? z->repeat_last : 64;
    for (int id = 0; id < V && penalty > 0; id++) {
        bool recent = false;
        for (int i = HELD - last > 0 ? HELD - last : 0; i < HELD; i++)
            recent = recent || held[i] == id;
        if (recent)
            out[id].logit = out[id].logit > 0 ? out[id].logit / penalty : out[id].logit * penalty;
    }
    qsort(out, V, sizeof *out, by_logit);

    int n = z->top_k > 0 && z->top_k < V ? z->top_k : V;
    double sum = 0, kept = 0;
    for (int i = 0; i < n; i++)
        sum += out[i].p = exp((out[i].logit - out[0].logit) / (double)z->temperature);
    if (z->top_p > 0 && z->top_p < 1) {
        int i = 0;
        while (i < n && kept < (double)z->top_p * sum)
            kept += out[i++].p;
        n = i;
    }
    while (n > 1 && out[n - 1].p < (double)z->min_p)
        n--;
    kept = 0;
    for (int i = 0; i < n; i++)
        kept += out[i].p;
    for (int i = 0; i < n; i++)
        out[i].p /= kept;
    return n;
}

/* SplitMix64. tuffet.h only says that there is a state, but the draws are fixed all the same. */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0; /* 2^53 */
}

/* ---- greedy */

static void greedy_takes_the_largest_and_of_equals_the_first(void **state)
{
    (void)state;
    float x[V];
    struct tft_sampler greedy = {0}, k1 = {.temperature = 1, .top_k = 1},
                       p0 = {.temperature = 1, .top_p = 1e-9f};
    for (int i = 0; i < V; i++)
        x[i] = -(float)i;
    for (int best = 0; best < V; best += 4) {
        x[best] = 5;
        set_logits(x);
        assert_int_equal(tft_sample(&greedy, session), best);
        assert_int_equal(tft_sample(&k1, session), best);
        assert_int_equal(tft_sample(&p0, session), best);
        for (int i = best + 1; i < V; i += 3)
            x[i] = 5;
        set_logits(x);
        assert_int_equal(tft_sample(&greedy, session), best);
        assert_int_equal(tft_sample(&k1, session), best);
        assert_int_equal(tft_sample(&p0, session), best);
        for (int i = best; i < V; i++)
            x[i] = -(float)i;
    }
    assert_int_equal(greedy.seed, 0); /* nothing was drawn */
}

static void nothing_to_sample_from(void **state)
{
    (void)state;
    struct tft_sampler z = {.temperature = 1};
    tft_rewind(session, HELD - 1);
    assert_int_equal(tft_sample(&z, session), -1);
    assert_int_equal(z.seed, 0);
    assert_int_equal(tft_decode(session, held[HELD - 1]), TFT_OK);
}

/* A setting of a later version would be ignored otherwise. */
static void what_is_reserved_must_be_zero(void **state)
{
    (void)state;
    struct tft_sampler z = {.temperature = 1};
    for (size_t i = 0; i < sizeof z.reserved / sizeof *z.reserved; i++) {
        z.reserved[i] = 1;
        assert_int_equal(tft_sample(&z, session), -1);
        z.reserved[i] = 0;
        assert_true(tft_sample(&z, session) >= 0);
    }
}

/* ---- filters */

static const struct tft_sampler settings[] = {
    {.temperature = 1},
    {.temperature = 0.7f},
    {.temperature = 2.5f},
    {.temperature = 1, .top_k = 1},
    {.temperature = 1, .top_k = 5},
    {.temperature = 1.5f, .top_k = V - 1},
    {.temperature = 1, .top_k = V},
    {.temperature = 1, .top_k = 1000},
    {.temperature = 1, .top_k = -3},
    {.temperature = 1, .top_p = 0.5f},
    {.temperature = 1, .top_p = 0.95f},
    {.temperature = 1, .top_p = 1},
    {.temperature = 1.2f, .top_p = 0.8f, .top_k = 9},
    {.temperature = 1, .min_p = 0.05f},
    {.temperature = 1, .min_p = 0.3f},
    {.temperature = 1, .min_p = 1},
    {.temperature = 0.8f, .top_k = 30, .top_p = 0.9f, .min_p = 0.05f},
    {.temperature = 1, .repeat_penalty = 1.3f},
    {.temperature = 1, .repeat_penalty = 3, .repeat_last = 2},
    {.temperature = 1, .repeat_penalty = 0.5f, .repeat_last = 5},
    {.temperature = 0.9f, .top_k = 40, .top_p = 0.9f, .min_p = 0.02f, .repeat_penalty = 1.1f},
};
enum { N_SETTINGS = sizeof settings / sizeof *settings };

/* The number below which a draw takes the first token, one of the first two, ... */
static void draws_are_looked_up_in_order(void **state)
{
    (void)state;
    int checked = 0;
    for (int i = 0; i < N_SETTINGS; i++)
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct tft_sampler z = settings[i];
            struct ranked list[V];
            int n = distribution(&z, some_logits(seed), list);
            uint64_t mine = z.seed = seed * 77;
            int32_t got = tft_sample(&z, session);
            double u = draw(&mine), sum = 0;
            assert_int_equal(z.seed, mine);
            int want = 0;
            while (want + 1 < n && sum + list[want].p <= u)
                sum += list[want++].p;
            if (fabs(u - sum) < 1e-5 || fabs(u - sum - list[want].p) < 1e-5)
                continue; /* too close to the limit for float */
            if (got != list[want].id)
                fail_msg("setting %d, seed %d: token %d, not %d", i, (int)seed, got, list[want].id);
            checked++;
        }
    assert_true(checked > 200);
}

/* Pearson's test on 20000 draws. With a random seed a correct sampler would fail once in a thousand
   runs; these seeds are fixed. */
static void draws_have_the_right_frequencies(void **state)
{
    (void)state;
    enum { DRAWS = 20000 };
    for (int i = 0; i < N_SETTINGS; i++) {
        struct tft_sampler z = settings[i];
        struct ranked list[V];
        int count[V] = {0}, n = distribution(&z, some_logits(3), list), classes = 0;
        z.seed = 42;
        for (int d = 0; d < DRAWS; d++)
            count[tft_sample(&z, session)]++;
        double chi2 = 0, rest_want = 0, rest_got = DRAWS;
        for (int j = 0; j < n; j++) {
            double want = list[j].p * DRAWS;
            if (want >= 5) {
                chi2 += (count[list[j].id] - want) * (count[list[j].id] - want) / want;
                rest_got -= count[list[j].id];
                classes++;
            } else {
                rest_want += want;
            }
            count[list[j].id] = 0;
        }
        for (int j = 0; j < V; j++)
            if (count[j])
                fail_msg("setting %d: token %d was drawn %d times, but is filtered out", i, j,
                         count[j]);
        if (rest_want >= 5) {
            chi2 += (rest_got - rest_want) * (rest_got - rest_want) / rest_want;
            classes++;
        }
        /* Wilson and Hilferty's approximation of the 99.9th percentile, 3.09 standard deviations */
        double df = classes > 1 ? classes - 1 : 1, a = 2 / (9 * df),
               limit = df * pow(1 - a + 3.09 * sqrt(a), 3);
        if (chi2 > limit)
            fail_msg("setting %d: chi square %.1f of %d classes, more than %.1f", i, chi2, classes,
                     limit);
    }
}

/* Half of four is two. */
static void filters_keep_just_enough(void **state)
{
    (void)state;
    float x[V];
    for (int i = 0; i < V; i++)
        x[i] = i < 4 ? 0 : -INFINITY;
    set_logits(x);
    struct tft_sampler z = {.temperature = 1, .top_p = 0.5f};
    int count[4] = {0};
    for (int i = 0; i < 100; i++)
        count[tft_sample(&z, session)]++;
    assert_true(count[0] > 20 && count[1] > 20);
    assert_int_equal(count[0] + count[1], 100);
}

static void penalty_is_for_recent_tokens_once(void **state)
{
    (void)state;
    float x[V];
    struct tft_sampler z = {.repeat_penalty = 2};
    for (int i = 0; i < V; i++)
        x[i] = -50;
    x[7] = 4; /* the session holds it twice */
    x[1] = 1.5f;
    set_logits(x);
    assert_int_equal(tft_sample(&z, session), 7); /* 4 / 2, not 4 / 4 */
    x[1] = 2.5f;
    set_logits(x);
    assert_int_equal(tft_sample(&z, session), 1);
    z.repeat_last = 3; /* 11, 2, 5 */
    assert_int_equal(tft_sample(&z, session), 7);
    x[7] = x[1] = -50;
    x[5] = -1;
    x[6] = -1.5f;
    set_logits(x);
    assert_int_equal(tft_sample(&z, session), 6); /* -1 * 2 */
}

/* ---- the definition to the letter, with many tokens */

enum { MANY = 2500 };

static struct tft_session *session_of_many(struct tft_model **m)
{
    struct tft_session *s;
    assert_int_equal(open_toy(m, &s, MANY), TFT_OK);
    return s;
}

struct token {
    float logit, weight;
    int id;
};

static int by_rank(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : x->id - y->id;
}

/* Steps 1 to 6 of struct tft_sampler in tuffet.h, one after the other. */
static int restated(struct tft_sampler *z, const float *logits)
{
    static struct token t[MANY];
    int n = 0, last = z->repeat_last > 0 ? z->repeat_last : 64;
    for (int id = 0; id < MANY; id++) {
        float x = logits[id];
        bool recent = false;
        for (int i = HELD > last ? HELD - last : 0; i < HELD; i++)
            recent |= held[i] == id;
        if (recent && z->repeat_penalty > 0)
            x = x > 0 ? x / z->repeat_penalty : x * z->repeat_penalty;
        if (x == x)
            t[n++] = (struct token){x, 0, id};
    }
    if (!n)
        return 0;
    qsort(t, (size_t)n, sizeof *t, by_rank);
    if (!(z->temperature > 0))
        return t[0].id;

    double sum = 0, kept = 0;
    n = z->top_k > 0 && z->top_k < n ? z->top_k : n;
    for (int i = 0; i < n; i++) {
        float w = tft_expf((t[i].logit - t[0].logit) * (1 / z->temperature));
        t[i].weight = t[i].logit == t[0].logit ? 1 : w > 0 ? w : 0;
        sum += (double)t[i].weight;
    }
    int k = 0;
    while (k < n && (!k || !(z->top_p > 0 && z->top_p < 1) || kept < (double)z->top_p * sum) &&
           (!k || !(z->min_p > 0) || t[k].weight >= z->min_p))
        kept += (double)t[k++].weight;
    double u = draw(&z->seed) * kept;
    for (int i = 0; i + 1 < k; i++) {
        u -= (double)t[i].weight;
        if (u < 0)
            return t[i].id;
    }
    return t[k - 1].id;
}

/* Logits of one kind: peaks above a broad middle, flat, with ties, -infinity, all equal, ... */
static void fill_logits(float *x, int kind, uint64_t seed)
{
    static int32_t r[MANY];
    toy_tokens(seed, 1 << 20, r, MANY);
    for (int i = 0; i < MANY; i++) {
        float u = (float)r[i] / (1 << 20);
        x[i] = kind == 0   ? u * 9 + (r[i] % 97 ? 0 : 6 * u)
               : kind == 1 ? u
               : kind == 2 ? floorf(u * 12)
               : kind == 3 ? (r[i] % 3 ? -INFINITY : u * 5)
               : kind == 4 ? -2.5f
               : kind == 5 ? -INFINITY
               : kind == 6 ? (r[i] % 5 ? u * 40 : NAN)
               : kind == 7 ? (i % 1000 ? -1e30f : u)
                           : u * 1e-6f + 70;
    }
}

static void tokens_are_those_of_the_definition(void **state)
{
    (void)state;
    enum { KINDS = 9 };
    struct tft_model *m;
    struct tft_session *s = session_of_many(&m);
    float *x = s->out.logits;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < N_SETTINGS; i++)
            for (uint64_t seed = 0; seed < 6; seed++) {
                struct tft_sampler z = settings[i], same;
                fill_logits(x, kind, seed);
                z.seed = seed * 1000003 + (uint64_t)i;
                same = z;
                int want = restated(&same, x), got = tft_sample(&z, s);
                if (got != want)
                    fail_msg("logits %d, setting %d, seed %d: token %d, not %d", kind, i, (int)seed,
                             got, want);
                assert_int_equal(z.seed, same.seed);
            }
    tft_session_close(s);
    tft_model_close(m);
}

/* All tokens but one are just within, or just outside of, the bound of min_p. */
static void min_p_has_a_sharp_edge(void **state)
{
    (void)state;
    static const float temperatures[] = {0.02f, 0.8f, 1, 30};
    static const float edges[] = {0.005f, 0.05f, 0.5f, 0.99f};
    static float x[MANY];
    struct tft_model *m;
    struct tft_session *s = session_of_many(&m);
    for (int t = 0; t < 4; t++)
        for (int e = 0; e < 4; e++)
            for (int inside = 0; inside < 2; inside++) {
                struct tft_sampler z = {
                    .temperature = temperatures[t], .min_p = edges[e], .top_p = 0.999f};
                double weight = (double)edges[e] * (inside ? 1.002 : 0.998);
                float other = (float)(log(weight) * (double)temperatures[t]);
                int others = 0;
                for (int i = 0; i < MANY; i++)
                    x[i] = i == 3 ? 0 : other;
                for (int i = 0; i < 40; i++)
                    others += tft_sample_logits(&z, s, x) != 3;
                assert_true(inside ? others > 10 : !others);
            }
    tft_session_close(s);
    tft_model_close(m);
}

/* ---- logits of the caller, probabilities */

static void logits_of_the_caller(void **state)
{
    (void)state;
    float x[V];
    struct tft_sampler a = {.temperature = 1, .seed = 3}, b = a, greedy = {0};
    memcpy(x, some_logits(1), sizeof x);
    for (int i = 0; i < 20; i++)
        assert_int_equal(tft_sample_logits(&a, session, x), tft_sample(&b, session));
    int32_t best = tft_sample(&greedy, session);
    for (int i = 0; i < V; i++)
        if (i % 9) /* a mask */
            x[i] = -INFINITY;
    for (int i = 0; i < 200; i++)
        assert_int_equal(tft_sample_logits(&a, session, x) % 9, 0);
    assert_int_equal(tft_sample_logits(&greedy, session, x) % 9, 0);
    assert_int_equal(tft_sample(&greedy, session), best); /* the session's are as they were */
    tft_rewind(session, HELD - 1);
    assert_int_equal(tft_sample_logits(&greedy, session, x) % 9, 0);
    assert_int_equal(tft_likeliest(session, NULL, NULL, 9), 0);
    assert_true(isnan(tft_logprob(session, NULL, 1)));
    assert_int_equal(tft_decode(session, held[HELD - 1]), TFT_OK);
}

static void probabilities_are_those_of_softmax(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const float *x = some_logits(seed);
        struct tft_choice out[V + 1];
        double sum = 0, total = 0;
        for (int i = 0; i < V; i++)
            sum += exp((double)x[i]);
        assert_int_equal(tft_likeliest(session, seed % 2 ? x : NULL, out, V + 1), V);
        for (int i = 0; i < V; i++) {
            double want = (double)x[out[i].id] - log(sum);
            assert_true(fabs((double)out[i].logprob - want) < 2e-6);
            assert_true(tft_logprob(session, NULL, out[i].id) == out[i].logprob);
            if (i)
                assert_true(x[out[i].id] < x[out[i - 1].id] ||
                            (x[out[i].id] == x[out[i - 1].id] && out[i].id > out[i - 1].id));
            total += exp((double)out[i].logprob);
        }
        assert_true(fabs(total - 1) < 1e-5);
        assert_int_equal(tft_likeliest(session, NULL, out, 3), 3);
    }
    assert_true(isnan(tft_logprob(session, NULL, -1)) && isnan(tft_logprob(session, NULL, V)));

    float x[V];
    struct tft_choice out[V];
    for (int i = 0; i < V; i++)
        x[i] = i < 4 ? 100 : -INFINITY;
    assert_int_equal(tft_likeliest(session, x, out, V), V);
    assert_true(fabs((double)out[3].logprob + log(4)) < 1e-7);
    assert_true(out[4].logprob == -INFINITY && out[4].id == 4);
}

/* Each of the newest tokens has its own logits. */
static void scores_are_those_of_softmax(void **state)
{
    (void)state;
    enum { N = HELD - 1 };
    struct tft_session_opts o = {.size = sizeof o, .n_logits = N, .n_threads = 3};
    struct tft_session *s;
    struct tft_token_score out[HELD];
    int32_t next[HELD];
    assert_int_equal(tft_session_open(&s, session->m, &o, NULL), TFT_OK);
    assert_int_equal(tft_prefill(s, held, HELD), TFT_OK);
    for (int32_t id = 0; id < V; id++) {
        for (int i = 0; i < HELD; i++)
            next[i] = (id + i) % V;
        memset(out, 0xff, sizeof out);
        assert_int_equal(tft_score(s, next, N, out), TFT_OK);
        for (int i = 0; i < N; i++) {
            assert_true(out[i].reserved[0] == 0 && out[i].reserved[1] == 0);
            const float *x = tft_logits(s, (size_t)(N - 1 - i));
            struct tft_choice best;
            tft_likeliest(s, x, &best, 1);
            assert_true(fabs(out[i].logprob - (double)tft_logprob(s, x, next[i])) < 2e-6);
            assert_int_equal(out[i].likeliest, best.id == next[i]);
        }
    }
    assert_int_equal(tft_score(s, next, 0, out), TFT_ERR_ARG);
    assert_int_equal(tft_score(s, next, HELD, out), TFT_ERR_ARG);
    next[N - 1] = V;
    assert_int_equal(tft_score(s, next, N, out), TFT_ERR_ARG);
    next[N - 1] = -1;
    assert_int_equal(tft_score(s, next, N, out), TFT_ERR_ARG);
    next[N - 1] = 1;
    assert_int_equal(tft_rewind(s, HELD - 1), TFT_OK);
    assert_int_equal(tft_score(s, next, N, out), TFT_ERR_ARG);
    tft_session_close(s);
}

/* ---- tokens that a file suppresses */

/* Suppressed tokens are skipped as if their logits were NaN. */
static void suppressed_tokens_are_left_out(void **state)
{
    (void)state;
    static const int32_t no[] = {0, 65, 66, 200, 419, 65};
    enum { NO = sizeof no / sizeof *no };
    struct tft_model *m;
    struct tft_session *s;
    float x[TOY_VOCAB], without[TOY_VOCAB];
    assert_int_equal(open_suppressing(&m, &s, TOY_VOCAB, no, NO), TFT_OK);
    for (int i = 0; i < N_SETTINGS; i++)
        for (uint64_t seed = 0; seed < 40; seed++) {
            int32_t r[TOY_VOCAB];
            toy_tokens(seed, 1 << 20, r, TOY_VOCAB);
            for (int k = 0; k < TOY_VOCAB; k++)
                x[k] = without[k] = (float)r[k] / (1 << 20) * 3;
            for (int k = 0; k < NO; k++) {
                x[no[k]] = 8;
                without[no[k]] = NAN;
            }
            struct tft_sampler a = settings[i], b = a;
            a.seed = b.seed = seed;
            memcpy(s->out.logits, x, sizeof x);
            int32_t want = tft_sample_logits(&b, s, without);
            assert_int_equal(tft_sample(&a, s), want);
            assert_int_equal(tft_sample_logits(&(struct tft_sampler){0}, s, x),
                             tft_sample_logits(&(struct tft_sampler){0}, s, without));
            assert_memory_equal(tft_logits(s, 0), x, sizeof x); /* logits stay as they are, */
        }
    struct tft_choice first;
    assert_int_equal(tft_likeliest(s, x, &first, 1), 1);
    assert_int_equal(first.id, 0); /* and so do probabilities */
    for (int k = 0; k < TOY_VOCAB; k++)
        x[k] = k == 65 ? 1 : NAN;
    assert_int_equal(tft_sample_logits(&(struct tft_sampler){0}, s, x), -1);
    assert_int_equal(tft_sample_logits(&(struct tft_sampler){.temperature = 1}, s, x), -1);
    x[7] = -INFINITY;
    assert_int_equal(tft_sample_logits(&(struct tft_sampler){.temperature = 1}, s, x), 7);
    tft_session_close(s);
    tft_model_close(m);
}

/* ---- fixed results */

static void same_seed_same_tokens(void **state)
{
    (void)state;
    some_logits(1);
    struct tft_sampler a = {.temperature = 2, .min_p = 0.001f, .seed = 5}, b = a, c = a;
    c.seed = 6;
    int same = 0;
    for (int i = 0; i < 200; i++) {
        int32_t x = tft_sample(&a, session);
        assert_int_equal(tft_sample(&b, session), x);
        same += tft_sample(&c, session) == x;
    }
    assert_true(same < 100);
    assert_int_equal(a.seed, b.seed);
}

/* ---- logits of a damaged model */

static void strange_logits(void **state)
{
    (void)state;
    static const float strange[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f};
    enum { STRANGE = sizeof strange / sizeof *strange };
    static const float temperatures[] = {0, 1e-45f, 1e-38f, 1e-6f, 1, 1e30f};
    for (int i = 0; i < N_SETTINGS; i++)
        for (int s = 0; s < STRANGE * STRANGE; s++)
            for (int t = 0; t < 6; t++) {
                float x[V];
                struct tft_sampler z = settings[i];
                z.temperature = temperatures[t];
                for (int j = 0; j < V; j++)
                    x[j] = j % 3 ? strange[s % STRANGE] : strange[s / STRANGE];
                x[20] = 0;
                set_logits(x);
                int32_t id = tft_sample(&z, session);
                assert_in_range(id, 0, V - 1);
                assert_true(x[id] == x[id]); /* every number is better than NaN */
            }
    float x[V];
    for (int j = 0; j < V; j++)
        x[j] = NAN;
    set_logits(x);
    for (int i = 0; i < N_SETTINGS; i++) {
        struct tft_sampler z = settings[i];
        assert_in_range(tft_sample(&z, session), 0, V - 1);
    }
}

static void a_tiny_temperature_is_greedy(void **state)
{
    (void)state;
    for (float t = 1e-45f; t < 1e-4f; t *= 8)
        for (uint64_t seed = 0; seed < 10; seed++) {
            const float *x = some_logits(seed);
            struct tft_sampler z = {.temperature = t, .seed = seed}, greedy = {0};
            if (x[tft_sample(&z, session)] != x[tft_sample(&greedy, session)])
                fail_msg("temperature %g", (double)t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_largest_and_of_equals_the_first),
        cmocka_unit_test(nothing_to_sample_from),
        cmocka_unit_test(what_is_reserved_must_be_zero),
        cmocka_unit_test(draws_are_looked_up_in_order),
        cmocka_unit_test(draws_have_the_right_frequencies),
        cmocka_unit_test(filters_keep_just_enough),
        cmocka_unit_test(penalty_is_for_recent_tokens_once),
        cmocka_unit_test(tokens_are_those_of_the_definition),
        cmocka_unit_test(min_p_has_a_sharp_edge),
        cmocka_unit_test(logits_of_the_caller),
        cmocka_unit_test(probabilities_are_those_of_softmax),
        cmocka_unit_test(scores_are_those_of_softmax),
        cmocka_unit_test(suppressed_tokens_are_left_out),
        cmocka_unit_test(same_seed_same_tokens),
        cmocka_unit_test(strange_logits),
        cmocka_unit_test(a_tiny_temperature_is_greedy),
    };
    return cmocka_run_group_tests(tests, open_session, close_session);
}
