/* The steps of struct tft_sampler_more against plain restatements of tuffet.h in double precision:
   sort all tokens, filter, normalize, look up the draw. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <float.h>
#include <math.h>

#include "folder.h"
#include "run/dry.h"
#include "run/session.h"
#include "toy.h"
#include "tuffet.h"

enum { V = TOY_VOCAB, HELD = 40 };

static struct tft_model *model;
static struct tft_session *session;
static int32_t held[HELD]; /* the tokens of the session */

static int open_session(void **state)
{
    const struct toy t = {.arch = "llama",
                          .vocab = "llama",
                          .n_vocab = V,
                          .n_ctx = 64,
                          .n_embd = 8,
                          .n_layer = 1,
                          .n_head = 1,
                          .n_head_kv = 1,
                          .head_dim = 8,
                          .n_ff = 8,
                          .n_rot = 8,
                          .tied = true};
    struct tft_session_opts o = {.size = sizeof o, .n_threads = 1};
    toy_tokens(5, 4, held, HELD); /* four tokens, so texts repeat */
    return make_folder(state) || !toy_write(&t, in_folder("m.gguf")) ||
           tft_model_open(&model, in_folder("m.gguf"), NULL, NULL) != TFT_OK ||
           tft_session_open(&session, model, &o, NULL) != TFT_OK ||
           tft_prefill(session, held, HELD) != TFT_OK;
}

static int close_session(void **state)
{
    tft_session_close(session);
    tft_model_close(model);
    return remove_folder(state);
}

/* Logits of one kind: a few peaks above a middle, flat, ties, few tokens. */
static const float *some_logits(int kind, uint64_t seed)
{
    static float x[V];
    int32_t r[V];
    toy_tokens(seed * 4 + (uint64_t)kind, 1 << 20, r, V);
    for (int i = 0; i < V; i++) {
        float u = (float)r[i] / (1 << 20);
        x[i] = kind == 0   ? u * 6 + (r[i] % 41 ? 0 : 5 * u)
               : kind == 1 ? u * 2
               : kind == 2 ? floorf(u * 8)
                           : (r[i] % 60 ? -INFINITY : u * 5);
    }
    return x;
}

static float uniform(uint64_t *seed)
{
    int32_t r;
    toy_tokens((*seed)++, 1 << 20, &r, 1);
    return (float)r / (1 << 20);
}

/* SplitMix64, the generator of tft_sampler.seed */
static double draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (double)((z ^ z >> 31) >> 11) / 9007199254740992.0; /* 2^53 */
}

/* ---- DRY */

static bool breaks(const struct tft_sampler_more *o, int32_t id)
{
    for (uint32_t i = 0; i < o->n_dry_breakers; i++)
        if (o->dry_breakers[i] == id)
            return true;
    return false;
}

/* The length of the longest text that ends before place `at` and at the end of tokens[n]. */
static uint32_t repeated(const struct tft_sampler_more *o, const int32_t *tokens, uint32_t n,
                         uint32_t at)
{
    uint32_t length = 0;
    while (length < at && length < 256 && tokens[at - 1 - length] == tokens[n - 1 - length] &&
           !breaks(o, tokens[n - 1 - length]))
        length++;
    return length;
}

/* What DRY takes from the logit of a token. */
static double dry_penalty(const struct tft_sampler_more *o, const int32_t *tokens, uint32_t n,
                          int32_t id)
{
    uint32_t allowed = o->dry_allowed_length ? o->dry_allowed_length : 2, longest = 0;
    uint32_t last = o->dry_last && o->dry_last < n ? o->dry_last : n;
    tokens += n - last;
    for (uint32_t at = 1; at < last; at++) {
        uint32_t length = tokens[at] == id ? repeated(o, tokens, last, at) : 0;
        longest = length > longest ? length : longest;
    }
    if (longest < allowed || breaks(o, id))
        return 0;
    double base = o->dry_base > 0 ? (double)o->dry_base : 1.75;
    return fmin((double)o->dry_multiplier * pow(base, longest - allowed), (double)FLT_MAX);
}

static void check_dry(const struct tft_sampler_more *o, const int32_t *tokens, uint32_t n)
{
    enum { IDS = 6 };
    static const float logits[IDS] = {1, -2, 3, 0, NAN, 0.5f};
    struct tft_candidate scratch[IDS];
    float x[IDS];
    const float *got = tft_dry(o, logits, x, scratch, IDS, tokens, n);
    for (int32_t id = 0; id < IDS; id++) {
        double want = (double)logits[id] - dry_penalty(o, tokens, n, id);
        if (isnan(logits[id])
                ? !isnan(got[id])
                : fabs(got[id] - want) > 1e-5 * fmax(1, fabs(want)) && want > (double)-FLT_MAX)
            fail_msg("%u tokens, token %d: %g, not %g", n, id, (double)got[id], want);
    }
}

static void dry_is_its_rule(void **state)
{
    (void)state;
    static const int32_t breakers[] = {1, 4};
    int32_t tokens[600];
    uint64_t seed = 1;
    for (uint32_t alphabet = 1; alphabet <= 6; alphabet++)
        for (int i = 0; i < 60; i++) {
            uint32_t n = (uint32_t)(uniform(&seed) * (i < 50 ? 40 : 600)) + 1;
            struct tft_sampler_more o = {
                .size = sizeof o,
                .dry_multiplier = 0.8f,
                .dry_base = i % 3 ? 1.1f : 0,
                .dry_allowed_length = (uint32_t)i % 5,
                .dry_last = i % 4 ? 0 : (uint32_t)(uniform(&seed) * 50),
                .dry_breakers = breakers,
                .n_dry_breakers = (uint32_t)i % 3,
            };
            toy_tokens(seed, alphabet, tokens, n);
            for (uint32_t k = i % 2 ? n / 2 : n; k < n; k++) /* the end repeats the beginning */
                tokens[k] = tokens[k - n / 2];
            check_dry(&o, tokens, n);
        }
    check_dry(&(struct tft_sampler_more){.dry_multiplier = 1}, tokens, 0);
}

/* One token many times: longer texts than 256 tokens count as 256, and a penalty is a number. */
static void dry_has_bounds(void **state)
{
    (void)state;
    int32_t tokens[600] = {0};
    struct tft_sampler_more o = {.dry_multiplier = 1, .dry_base = 1.01f, .dry_allowed_length = 250};
    check_dry(&o, tokens, 600);
    o.dry_allowed_length = 257;
    assert_true(dry_penalty(&o, tokens, 600, 0) == 0);
    check_dry(&o, tokens, 600);
    o = (struct tft_sampler_more){.dry_multiplier = 1, .dry_base = 1000};
    struct tft_candidate scratch[2];
    float x[2];
    assert_true(tft_dry(&o, (float[]){1, 2}, x, scratch, 2, tokens, 600)[0] <= -FLT_MAX &&
                x[1] == 2);
}

/* ---- the chain */

struct ranked {
    double logit, w, surprise;
    int id;
};

static int by_logit(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    return x->logit != y->logit ? (x->logit < y->logit ? 1 : -1) : x->id - y->id;
}

/* The tokens that are left. close: a limit is so near that rounding decides. */
struct left {
    struct ranked t[V];
    int n;
    double sum;
    bool close;
};

static void note(struct left *a, double x, double limit)
{
    a->close |= fabs(x - limit) < 1e-4 * fmax(fabs(limit), 1e-3);
}

static void sum_up(struct left *a)
{
    a->sum = 0;
    for (int i = 0; i < a->n; i++)
        a->sum += a->t[i].w;
}

/* Keeps t[first .. n). */
static void keep(struct left *a, int first, int n)
{
    memmove(a->t, a->t + first, (size_t)(n - first) * sizeof *a->t);
    a->n = n - first;
    sum_up(a);
}

static double entropy(const struct left *a)
{
    double h = 0;
    for (int i = 0; i < a->n; i++)
        h -= a->t[i].w > 0 ? a->t[i].w / a->sum * log(a->t[i].w / a->sum) : 0;
    return h;
}

static void weigh(struct left *a, double temperature)
{
    for (int i = 0; i < a->n; i++)
        a->t[i].w =
            a->t[i].logit == a->t[0].logit ? 1 : exp((a->t[i].logit - a->t[0].logit) / temperature);
    sum_up(a);
}

static void rank(struct left *a, const struct tft_sampler_more *o, const float *logits)
{
    a->n = V;
    a->close = false;
    for (int id = 0; id < V; id++) {
        double lost = o->dry_multiplier > 0 ? dry_penalty(o, held, HELD, id) : 0;
        a->t[id] = (struct ranked){.logit = (double)(float)((double)logits[id] - lost), .id = id};
    }
    qsort(a->t, V, sizeof *a->t, by_logit);
}

static void restate_sigma(struct left *a, double n_sigma, const struct left *all)
{
    double mean = 0, squares = 0;
    int finite = 0, n = 1;
    for (int i = 0; i < all->n; i++)
        if (isfinite(all->t[i].logit)) {
            mean += all->t[i].logit;
            finite++;
        }
    mean /= finite;
    for (int i = 0; i < finite; i++)
        squares += pow(all->t[i].logit - mean, 2);
    double least = a->t[0].logit - n_sigma * sqrt(squares / finite);
    while (n < a->n && a->t[n].logit >= least)
        n++;
    for (int i = 0; i < a->n; i++)
        note(a, a->t[i].logit - a->t[0].logit, least - a->t[0].logit);
    a->n = n;
}

static double restate_temperature(struct left *a, const struct tft_sampler *z,
                                  const struct tft_sampler_more *o)
{
    double t = (double)z->temperature, range = (double)o->dynatemp_range;
    if (!(range > 0))
        return t;
    int n = 0;
    while (n < a->n && a->t[n].logit > -INFINITY)
        n++;
    weigh(a, 1);
    double h = n > 1 ? entropy(a) / log(n) : 0;
    double power = o->dynatemp_exponent > 0 ? (double)o->dynatemp_exponent : 1;
    double low = fmax(t - range, 0);
    return low + (t + range - low) * pow(fmin(h, 1), power);
}

static int by_nearness(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    double d = fabs(x->surprise) - fabs(y->surprise);
    return d != 0 ? (d > 0 ? 1 : -1) : x->id - y->id;
}

/* By sorting, as its paper has it. */
static void restate_typical(struct left *a, double p)
{
    double h = entropy(a), kept = 0;
    int n = 0;
    for (int i = 0; i < a->n; i++)
        a->t[i].surprise = log(a->sum / a->t[i].w) - h;
    qsort(a->t, (size_t)a->n, sizeof *a->t, by_nearness);
    while (n < a->n && (!n || kept < p * a->sum)) {
        kept += a->t[n++].w;
        note(a, kept, p * a->sum);
    }
    if (n < a->n)
        note(a, fabs(a->t[n - 1].surprise), fabs(a->t[n].surprise));
    a->n = n;
    sum_up(a);
    qsort(a->t, (size_t)n, sizeof *a->t, by_logit);
}

static void restate_top_p_and_min_p(struct left *a, double top_p, double min_p)
{
    int n = 0;
    double kept = 0;
    while (n < a->n && (!n || kept < top_p * a->sum) && a->t[n].w >= min_p * a->t[0].w) {
        kept += a->t[n++].w;
        note(a, kept, top_p * a->sum);
    }
    if (n < a->n && min_p > 0)
        note(a, a->t[n].w, min_p * a->t[0].w);
    keep(a, 0, n);
}

static void restate_xtc(struct left *a, double threshold)
{
    int last = 0;
    for (int i = 0; i < a->n; i++) {
        note(a, a->t[i].w, threshold * a->sum);
        last = a->t[i].w >= threshold * a->sum ? i : last;
    }
    keep(a, last, a->n);
}

static int drawn(struct left *a, double u)
{
    double sum = 0;
    int i = 0;
    while (i + 1 < a->n && sum + a->t[i].w <= u * a->sum)
        sum += a->t[i++].w;
    a->close |= fabs(u * a->sum - sum) < 1e-5 * a->sum ||
                fabs(u * a->sum - sum - a->t[i].w) < 1e-5 * a->sum;
    return a->t[i].id;
}

static int restate_mirostat(struct left *a, struct tft_sampler *z, const struct tft_sampler_more *o)
{
    double all = a->sum,
           mu = z->mirostat_mu != 0 ? (double)z->mirostat_mu : 2 * (double)o->mirostat_tau;
    int n = 0;
    for (int i = 0; i < a->n; i++) {
        n += !n || log2(all / a->t[i].w) <= mu;
        note(a, log2(all / a->t[i].w), mu);
    }
    keep(a, 0, n);
    int id = drawn(a, draw(&z->seed)), i = 0;
    while (a->t[i].id != id)
        i++;
    double eta = o->mirostat_eta > 0 ? (double)o->mirostat_eta : 0.1;
    z->mirostat_mu = (float)(mu - eta * (log2(all / a->t[i].w) - (double)o->mirostat_tau));
    return id;
}

/* Steps 2 to 11, one after the other. */
static int restated(struct left *a, struct tft_sampler *z, const struct tft_sampler_more *o,
                    const float *logits)
{
    static struct left all;
    rank(a, o, logits);
    all = *a;
    bool mirostat = o->mirostat_tau > 0;
    a->n = !mirostat && z->top_k > 0 ? z->top_k : V;
    if (!mirostat && o->top_n_sigma > 0)
        restate_sigma(a, (double)o->top_n_sigma, &all);
    weigh(a, restate_temperature(a, z, o));
    if (mirostat)
        return restate_mirostat(a, z, o);
    if (o->typical_p > 0 && o->typical_p < 1)
        restate_typical(a, (double)o->typical_p);
    if ((z->top_p > 0 && z->top_p < 1) || z->min_p > 0)
        restate_top_p_and_min_p(a, z->top_p > 0 ? (double)z->top_p : 2, (double)z->min_p);
    if (o->xtc_probability > 0 && draw(&z->seed) < (double)o->xtc_probability &&
        o->xtc_threshold <= 0.5f)
        restate_xtc(a, o->xtc_threshold > 0 ? (double)o->xtc_threshold : 0.1);
    return drawn(a, draw(&z->seed));
}

/* Each setting is there or not, by a bit of `which`. */
static void choose_settings(uint32_t which, uint64_t *seed, struct tft_sampler *z,
                            struct tft_sampler_more *o)
{
    *z = (struct tft_sampler){.temperature = 0.3f + 2 * uniform(seed), .more = o};
    *o = (struct tft_sampler_more){.size = sizeof *o};
    z->seed = *seed;
    z->top_k = which & 1 ? 2 + (int)(60 * uniform(seed)) : 0;
    o->top_n_sigma = which & 2 ? 0.5f + 2 * uniform(seed) : 0;
    o->typical_p = which & 4 ? 0.05f + 0.9f * uniform(seed) : 0;
    z->top_p = which & 8 ? 0.1f + 0.85f * uniform(seed) : 0;
    z->min_p = which & 16 ? 0.3f * uniform(seed) : 0;
    o->xtc_probability = which & 32 ? 0.2f + uniform(seed) : 0;
    o->xtc_threshold = which & 32 ? 0.02f + 0.3f * uniform(seed) : 0;
    o->dynatemp_range = which & 64 ? 2 * uniform(seed) : 0;
    o->dynatemp_exponent = which & 64 ? 3 * uniform(seed) : 0;
    o->mirostat_tau = which & 128 ? 0.5f + 5 * uniform(seed) : 0;
    o->mirostat_eta = which & 128 ? uniform(seed) : 0;
    z->mirostat_mu = which & 128 && uniform(seed) < 0.7f ? 12 * uniform(seed) : 0;
    o->dry_multiplier = which & 256 ? 2 * uniform(seed) : 0;
}

static void tokens_are_those_of_the_definition(void **state)
{
    (void)state;
    static struct left left;
    uint64_t seed = 1;
    int checked = 0, tried = 0;
    for (uint32_t which = 0; which < 512; which++)
        for (int kind = 0; kind < 4; kind++, tried++) {
            struct tft_sampler z, mine;
            struct tft_sampler_more o;
            choose_settings(which, &seed, &z, &o);
            mine = z;
            const float *x = some_logits(kind, which);
            int want = restated(&left, &mine, &o, x), got = tft_sample_logits(&z, session, x);
            assert_int_equal(z.seed, mine.seed);
            if (left.close)
                continue;
            if (got != want)
                fail_msg("settings %#x, logits %d: token %d, not %d", which, kind, got, want);
            assert_true(fabs((double)(z.mirostat_mu - mine.mirostat_mu)) < 1e-4);
            checked++;
        }
    assert_true(checked * 10 > tried * 6);
}

/* Settings that are all zero change nothing, and no step is without effect. */
static void steps_that_are_off_change_nothing(void **state)
{
    (void)state;
    for (uint32_t bit = 0; bit < 512; bit = bit ? bit * 2 : 1) {
        int differ = 0;
        for (uint64_t seed = 0; seed < 200; seed++) {
            uint64_t of = seed * 100;
            struct tft_sampler z, plain;
            struct tft_sampler_more o;
            choose_settings(bit & ~(uint32_t)25, &of, &z, &o);
            plain = z;
            plain.more = NULL;
            const float *x = some_logits((int)(seed % 2), seed);
            differ += tft_sample_logits(&z, session, x) != tft_sample_logits(&plain, session, x);
        }
        if ((differ > 0) != (bit && bit != 1 && bit != 8 && bit != 16))
            fail_msg("setting %u: %d tokens differ", bit, differ);
    }
}

/* Logits that no step needs are not asked for, whether `more` is there or not. */
static void steps_that_are_off_need_no_logits(void **state)
{
    (void)state;
    size_t n;
    struct tft_sampler_more o = {.size = sizeof o};
    struct tft_sampler z = {.temperature = 1, .top_k = 2, .more = &o};
    assert_int_equal(tft_sampler_asks(&z, session, &n).k, 2);
    o.xtc_probability = 0.5f;
    assert_int_equal(tft_sampler_asks(&z, session, &n).k, V);
}

static void unknown_options_are_refused(void **state)
{
    (void)state;
    struct {
        struct tft_sampler_more known;
        uint64_t later;
    } o = {.known = {.size = sizeof o}};
    struct tft_sampler z = {.more = &o.known};
    const float *x = some_logits(0, 1);
    assert_true(tft_sample_logits(&z, session, x) >= 0);
    o.later = 1;
    assert_int_equal(tft_sample_logits(&z, session, x), -1);
    o.known.size = sizeof o.known;
    assert_true(tft_sample_logits(&z, session, x) >= 0);
    o.known.size = 0;
    assert_int_equal(tft_sample_logits(&z, session, x), -1);
}

/* The mean surprise of mirostat's tokens is near tau. */
static void mirostat_reaches_its_aim(void **state)
{
    (void)state;
    enum { N = 3000 };
    for (float tau = 2; tau <= 5; tau++) {
        struct tft_sampler_more o = {.size = sizeof o, .mirostat_tau = tau};
        struct tft_sampler z = {.temperature = 1, .seed = 1, .more = &o};
        double bits = 0;
        for (uint64_t i = 0; i < N; i++) {
            const float *x = some_logits(0, i);
            bits -= (double)tft_logprob(session, x, tft_sample_logits(&z, session, x)) / log(2);
        }
        if (fabs(bits / N - (double)tau) > 0.1)
            fail_msg("%.3f bits, not %g", bits / N, (double)tau);
    }
}

/* ---- tokens that end generation */

static int32_t ending_token(void)
{
    int32_t id = 0;
    while (!tft_token_ends(model, id))
        id++;
    return id;
}

static void text_does_not_end_early(void **state)
{
    (void)state;
    float x[V];
    for (int i = 0; i < V; i++)
        x[i] = tft_token_ends(model, i) ? 9 : (float)(i % 7);
    for (int greedy = 0; greedy < 2; greedy++) {
        struct tft_sampler z = {.temperature = greedy ? 0 : 0.01f, .min_tokens = 3};
        for (int i = 0; i < 3; i++)
            assert_false(tft_token_ends(model, tft_sample_logits(&z, session, x)));
        assert_int_equal(z.min_tokens, 0);
        assert_true(tft_token_ends(model, tft_sample_logits(&z, session, x)));
        z.min_tokens = UINT32_MAX;
        for (int i = 0; i < 5; i++)
            assert_false(tft_token_ends(model, tft_sample_logits(&z, session, x)));
        assert_true(z.min_tokens == UINT32_MAX);
    }
}

/* A grammar that allows nothing but the end has its way. */
static void grammar_ends_a_text(void **state)
{
    (void)state;
    struct tft_lexicon *lx;
    struct tft_grammar *g;
    struct tft_grammar_state *gs;
    float x[V] = {0};
    assert_int_equal(tft_lexicon_open(&lx, model, NULL), TFT_OK);
    assert_int_equal(tft_grammar_open(&g, lx, TFT_REGEX, "(ab)?", 5, NULL), TFT_OK);
    assert_int_equal(tft_grammar_begin(&gs, g, NULL), TFT_OK);
    x[ending_token()] = 5;
    struct tft_sampler z = {.grammar = gs, .min_tokens = 9};
    char text[TFT_TEXT_MAX];
    struct tft_text t = {.started = true};
    size_t n = 0;
    for (int i = 0; n < 2 && i < 2; i++)
        n += tft_text_push(&t, model, tft_sample_logits(&z, session, x), text + n);
    assert_memory_equal(text, "ab", 2);
    assert_true(tft_token_ends(model, tft_sample_logits(&z, session, x)));
    tft_grammar_end(gs);
    tft_grammar_close(g);
    tft_lexicon_close(lx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dry_is_its_rule),
        cmocka_unit_test(dry_has_bounds),
        cmocka_unit_test(tokens_are_those_of_the_definition),
        cmocka_unit_test(steps_that_are_off_change_nothing),
        cmocka_unit_test(steps_that_are_off_need_no_logits),
        cmocka_unit_test(unknown_options_are_refused),
        cmocka_unit_test(mirostat_reaches_its_aim),
        cmocka_unit_test(text_does_not_end_early),
        cmocka_unit_test(grammar_ends_a_text),
    };
    return cmocka_run_group_tests(tests, open_session, close_session);
}
