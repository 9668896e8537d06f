/* The search for a cushion: its loss against a simple reference, its choice against all choices. */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "cushion_search.h"
#include "more_toys.h"
#include "tools/quantize/measure/text_loss.h"

static const struct toy toys[] = {
    {.arch = "llama",
     .n_vocab = 90,
     .n_ctx = 64,
     .n_embd = 40,
     .n_layer = 3,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 96,
     .n_rot = 12,
     .type = TFT_F32},
    {.arch = "qwen3",
     .n_vocab = 47,
     .n_ctx = 64,
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
     .n_ctx = 64,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 600,
     .type = TFT_BF16,
     .tied = true},
};
enum { N_TOYS = sizeof toys / sizeof *toys };

static double loss_by(struct tft_model *m, const struct cushion_opts *o, const int32_t *prefix,
                      uint32_t n, bool bytes)
{
    struct tft_error err;
    double l;
    if (cushion_loss(m, o, prefix, n, o->text, o->sample, bytes, &l, &err) != TFT_OK)
        fail_msg("%s", err.msg);
    return l;
}

static double loss(struct tft_model *m, const struct cushion_opts *o, const int32_t *prefix,
                   uint32_t n)
{
    return loss_by(m, o, prefix, n, false);
}

static const int32_t *sample_of(const struct cushion_round *r, uint32_t i)
{
    assert_in_range(r->sample[i], 0, SAMPLES - 1);
    return text + r->sample[i] * SAMPLE;
}

/* Summed over the samples of a round. */
static double loss_of_round(struct tft_model *m, const struct cushion_opts *o,
                            const struct cushion_round *r, const int32_t *prefix, uint32_t n)
{
    struct cushion_opts one = *o;
    double sum = 0;
    for (uint32_t i = 0; i < CUSHION_SAMPLES; i++) {
        one.text = sample_of(r, i);
        sum += loss(m, &one, prefix, n);
    }
    return sum;
}

/* ---- eq. 6 in double precision, with prefix and text in one sequence */

struct seen {
    struct tft_session *s;
    const int32_t *tokens;
    uint32_t n, skip;
    double sum;
};

static void block_by_block(void *arg, int tid, int n_threads)
{
    struct seen *s = arg;
    const struct tft_model *m = s->s->m;
    struct tft_kv_chunk chunk;
    struct tft_kv_plan plan = tft_kv_plain_plan(&chunk, 0, s->n);
    struct tft_pass p = {.ops = &tft_backend_cpu.ops,
                         .m = m,
                         .s = s->s,
                         .work = s->s->work,
                         .plan = &plan,
                         .tid = tid,
                         .n_threads = n_threads,
                         .tokens = s->tokens,
                         .n = s->n,
                         .n_logits = s->n};
    tft_pass_positions(&p);
    tft_embed_tokens(&p);
    for (uint32_t l = 0; l < m->n_layer; l++) {
        double low = 0, high = 0;
        m->arch->layer(&p, l);
        for (uint32_t t = s->skip; t < s->n; t++)
            for (uint32_t j = 0; j < m->n_embd; j++) {
                low = fmin(low, tft_pass_row(&p, TFT_X, t)[j]);
                high = fmax(high, tft_pass_row(&p, TFT_X, t)[j]);
            }
        double step = (high - low) / 255, zero = rint(-low / step);
        for (uint32_t t = s->skip; t < s->n; t++)
            for (uint32_t j = 0; j < m->n_embd; j++) {
                double x = tft_pass_row(&p, TFT_X, t)[j],
                       q = fmin(fmax(rint(x / step) + zero, 0), 255);
                s->sum += (x - (q - zero) * step) * (x - (q - zero) * step);
            }
    }
}

static void the_loss_is_that_of_the_paper(void **state)
{
    (void)state;
    static const int32_t prefix[3] = {4, 1, 30};
    for (int i = 0; i < N_TOYS; i++) {
        struct cushion_opts o = usual(&toys[i]);
        for (uint32_t n = 0; n <= 3; n++) {
            struct tft_model *whole = opened_as_floats(written(&toys[i]));
            struct tft_session *s = session(
                whole, (struct tft_session_opts){.kv = "f16", .n_threads = 1, .n_batch = 64});
            int32_t all[3 + SAMPLE];
            struct seen seen = {.s = s, .tokens = all, .n = n + SAMPLE, .skip = n};
            memcpy(all, prefix, n * sizeof *all);
            memcpy(all + n, text, SAMPLE * sizeof *all);
            tft_port_team(1, block_by_block, &seen);
            tft_session_close(s);
            tft_model_close(whole);

            struct tft_model *m = unexpanded(&toys[i]);
            double got = loss(m, &o, prefix, n);
            if (fabs(got - seen.sum) > 1e-4 * seen.sum)
                fail_msg("%s, prefix of %u: %.9g, not %.9g", toys[i].arch, n, got, seen.sum);
            tft_model_close(m);
        }
    }
}

/* Sequences of a pass do not attend to each other: each has the same loss as alone. */
static void exhaustive_finds_the_best(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct cushion_opts o = usual(&toys[i]);
        struct tft_model *m = unexpanded(&toys[i]);
        static const int32_t start[1] = {3};
        o.start = start;
        o.n_start = 1;
        o.exhaustive = true;
        o.tau = INFINITY;
        struct cushion c = found(m, &o);
        assert_int_equal(c.n, 2);
        assert_int_equal(c.tried, 1);
        assert_int_equal(c.token[0], 3);
        assert_true(c.round[0].before == loss_of_round(m, &o, c.round, start, 1));
        assert_true(c.round[0].after == loss_of_round(m, &o, c.round, c.token, 2));
        o.text = sample_of(c.round, 0);
        double least = loss(m, &o, c.token, 2);
        for (int32_t t = 0; t < (int32_t)toys[i].n_vocab; t++)
            assert_true(loss(m, &o, (const int32_t[]){3, t}, 2) >= least);
        tft_model_close(m);
    }
}

static void halving_tells_the_truth_of_what_it_finds(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct cushion_opts o = usual(&toys[i]);
        struct tft_model *m = unexpanded(&toys[i]);
        o.macs = 1; /* one token of text first, then four */
        o.tau = INFINITY;
        o.most = 3;
        struct cushion c = found(m, &o), again;
        assert_int_equal(c.n, 3);
        assert_int_equal(c.tried, 3);
        int32_t prefix[3] = {0};
        for (uint32_t r = 0; r < 3; r++) { /* each round has samples of its own */
            assert_int_equal(c.round[r].tail, r > 0);
            assert_true(c.round[r].before == loss_of_round(m, &o, &c.round[r], prefix, r));
            prefix[r] = r ? prefix[r - 1] : 0;
            prefix[r ? r - 1 : 0] = c.round[r].token;
            assert_true(c.round[r].after == loss_of_round(m, &o, &c.round[r], prefix, r + 1));
        }
        assert_memory_equal(c.token, prefix, sizeof prefix);
        o.n_threads = 3;
        again = found(m, &o);
        assert_memory_equal(again.token, c.token, sizeof c.token);
        assert_memory_equal(again.round, c.round, sizeof c.round);
        tft_model_close(m);
    }
}

/* ---- the loss on the text, and --cushion-cost */

/* The mean of -ln p(words[i + 1]) after a prefix and words[..i], from the logits of a session. */
static double surprise(const struct tft_model *m, const int32_t *before, uint32_t n_before,
                       const int32_t *words, uint32_t n)
{
    struct tft_session *s = session(
        m, (struct tft_session_opts){.kv = "f16", .n_threads = 1, .n_batch = 64, .n_logits = n});
    double sum = 0;
    if (n_before)
        assert_int_equal(tft_prefill(s, before, n_before), TFT_OK);
    assert_int_equal(tft_prefill(s, words, n), TFT_OK);
    for (uint32_t i = 0; i + 1 < n; i++) {
        const float *logit = tft_logits(s, n - 1 - i);
        double all = 0;
        for (uint32_t t = 0; t < m->n_vocab; t++)
            all += exp((double)logit[t] - (double)logit[words[i + 1]]);
        sum += log(all);
    }
    tft_session_close(s);
    return sum / (n - 1);
}

/* The same by text_loss.h, in a session with buffers for int8. */
static double guessed(struct tft_model *m, const int32_t *words, uint32_t n, int n_threads)
{
    struct quantize_opts o = {.n_threads = n_threads};
    struct layers_capacity room = {.batch = SAMPLE, .rows = SAMPLE, .int8 = true};
    struct layers y;
    struct text_loss g;
    struct tft_error err;
    assert_int_equal(layers_open_empty(&y, m, &o, &room, &err), TFT_OK);
    assert_true(text_loss_open(&g, m, n));
    struct layers_pass j = {
        .part = LAYERS_EMBED, .x = y.text, .tokens = words, .n = n};
    layers_run_pass(&y, &j);
    j.part = LAYERS_LAYER;
    for (j.layer = 0; j.layer < m->n_layer; j.layer++) {
        layers_load(&y, j.layer);
        layers_run_pass(&y, &j);
        layers_unload(&y, j.layer);
    }
    double mean = text_loss_mean(&g, &y, y.text, words, n);
    text_loss_close(&g);
    layers_close(&y);
    return mean;
}

static void the_likelihood_is_that_of_the_logits(void **state)
{
    (void)state;
    struct toy t = toys[0];
    for (int i = 0; i <= N_TOYS + N_MORE; i++) {
        if (i > N_TOYS)
            t = more_toys[i - 1 - N_TOYS];
        else if (i)
            t = toys[i - 1];
        else
            t.n_vocab = 1100; /* so many that the head is expanded in parts */
        toy_tokens(5, t.n_vocab, text, TEXT);
        struct tft_model *whole = opened_as_floats(written(&t));
        double want = surprise(whole, NULL, 0, text, SAMPLE);
        tft_model_close(whole);
        struct tft_model *m = unexpanded(&t);
        double got = guessed(m, text, SAMPLE, 1);
        if (!(fabs(got - want) <= 1e-6 * want))
            fail_msg("%s, %u tokens: %.9g, not %.9g", t.arch, t.n_vocab, got, want);
        assert_true(guessed(m, text, SAMPLE, 3) == got);
        assert_true(guessed(m, text, 1, 1) == 0);
        tft_model_close(m);
    }
}

enum { FINALISTS = 4 };

/* The best tokens for an empty prefix, least loss first. */
static void rank(struct tft_model *m, const struct cushion_opts *o, int32_t token[FINALISTS],
                 double l[FINALISTS])
{
    for (int i = 0; i < FINALISTS; i++)
        l[i] = INFINITY;
    for (int32_t t = 0; t < (int32_t)m->n_vocab; t++) {
        double own = loss(m, o, &t, 1);
        int i = FINALISTS;
        for (; i > 0 && own < l[i - 1]; i--)
            if (i < FINALISTS) {
                l[i] = l[i - 1];
                token[i] = token[i - 1];
            }
        if (i < FINALISTS) {
            l[i] = own;
            token[i] = t;
        }
    }
}

/* Progress of a round, after its first pass has set its work. */
static bool watch_rise(void *user, uint32_t round, double done)
{
    double *last = user;
    assert_int_equal(round, 0);
    assert_true(done > *last || done == 0);
    *last = done;
    return true;
}

static void what_costs_the_text_too_much_is_refused(void **state)
{
    (void)state;
    int others = 0;
    for (int i = 0; i < N_TOYS; i++) {
        const char *path = written(&toys[i]);
        struct tft_model *m = unexpanded_at(path), *whole = opened_as_floats(path);
        struct cushion_opts o = usual(&toys[i]);
        int32_t token[FINALISTS];
        double l[FINALISTS], nats[FINALISTS];
        rank(m, &o, token, l);
        for (int j = 0; j < FINALISTS; j++)
            nats[j] = surprise(whole, token + j, 1, text, SAMPLE) -
                      surprise(whole, NULL, 0, text, SAMPLE);
        o.exhaustive = true;
        o.n_text = SAMPLE;
        o.most = 1;
        o.tau = INFINITY;
        /* accepted is the first that costs no more than the j-th */
        for (int j = 0; j < FINALISTS; j++) {
            uint32_t want = 0;
            o.cost = nats[j] + 1e-5;
            while (nats[want] > o.cost)
                want++;
            struct cushion c = found(m, &o);
            assert_int_equal(c.n, 1);
            assert_int_equal(c.token[0], token[want]);
            assert_int_equal(c.round[0].token, token[want]);
            assert_int_equal(c.round[0].refused, want);
            assert_true(c.round[0].taken && c.round[0].after == l[want]);
            assert_float_equal(c.round[0].nats, nats[want], 1e-5);
            others += want > 0;
        }

        /* if all of them cost too much, the best is recorded; a finalist with too much error is not
           tried */
        o.cost = -INFINITY;
        for (uint32_t n = 0; n <= FINALISTS; n += 2) {
            double last = 0;
            o.user = &last;
            o.progress = NULL;
            o.tau = n == 0           ? 0
                    : n == FINALISTS ? INFINITY
                                     : (l[n - 1] + l[n]) / 2 / loss(m, &o, token, 0);
            o.progress = watch_rise;
            struct cushion c = found(m, &o);
            assert_true(n < FINALISTS ? last < 1 : last == 1);
            assert_int_equal(c.n, 0);
            assert_int_equal(c.tried, 1);
            assert_int_equal(c.round[0].refused, n);
            assert_int_equal(c.round[0].token, token[0]);
            assert_true(!c.round[0].taken && c.round[0].after == l[0]);
            assert_float_equal(c.round[0].nats, nats[0], 1e-5);
        }
        tft_model_close(whole);
        tft_model_close(m);
    }
    assert_true(others > 0);
}

/* The best token for the sample with the highest L_q may do little for the others. Then the next
   finalist is tried. */
static void all_samples_are_asked(void **state)
{
    (void)state;
    int others = 0;
    for (int i = 0; i < N_TOYS; i++) {
        struct tft_model *m = unexpanded(&toys[i]);
        struct cushion_opts o = usual(&toys[i]);
        o.exhaustive = true;
        o.most = 1;
        o.tau = INFINITY;
        struct cushion first = found(m, &o);
        int32_t token[FINALISTS];
        double l[FINALISTS], before = first.round[0].before;
        struct cushion_opts one = o;
        one.text = sample_of(first.round, 0);
        rank(m, &one, token, l);
        assert_int_equal(token[0], first.token[0]);
        for (int j = 1; j < FINALISTS; j++) {
            double own = loss_of_round(m, &o, first.round, token + j, 1);
            if (own >= first.round[0].after)
                continue;
            o.tau = fmax(own / before, l[j] / loss(m, &one, token, 0)) * 1.0001;
            if (o.tau * before > first.round[0].after)
                continue;
            struct cushion c = found(m, &o);
            assert_int_equal(c.n, 1);
            assert_int_equal(c.token[0], token[j]);
            assert_true(c.round[0].after == own && c.round[0].refused == 0);
            others++;
            break;
        }
        tft_model_close(m);
    }
    assert_true(others > 0);
}

static void a_likelihood_that_is_none_is_refused(void **state)
{
    (void)state;
    static float head[90 * 40];
    struct cushion_opts o = usual(&toys[0]);
    struct tft_model *m = unexpanded(&toys[0]);
    for (int i = 0; i < 2; i++) {
        memcpy(head, m->output.w.data, sizeof head);
        head[7] = i ? INFINITY : NAN;
        const void *data = m->output.w.data;
        m->output.w.data = head;
        o.tau = INFINITY;
        struct cushion c = found(m, &o);
        assert_int_equal(c.n, 0);
        assert_int_equal(c.round[0].refused, FINALISTS);
        m->output.w.data = data;
    }
    tft_model_close(m);
}

/* ---- a token before the last */

/* The second token is refused before the first. At the end it may be accepted or not. */
struct turn {
    int toy;
    uint32_t n_start;
    uint64_t seed; /* of the text */
    double tau;
    bool worth;
};
static const struct turn turns[] = {
    {1, 1, 2, 0.87, true}, {0, 0, 3, 0.87, true}, {2, 1, 7, 0.87, true}, {0, 1, 1, 0.82, false}};
static const int32_t turn_start[1] = {3};

static struct cushion_opts turning(const struct turn *t)
{
    struct cushion_opts o = usual(&toys[t->toy]);
    toy_tokens(t->seed, toys[t->toy].n_vocab, text, TEXT);
    o.start = turn_start;
    o.n_start = t->n_start;
    o.most = t->n_start + 2;
    o.tau = t->tau;
    o.exhaustive = true;
    return o;
}

static void check_nats(const struct tft_model *whole, const struct cushion *c, uint32_t round,
                       const int32_t *with, const int32_t *without, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < CUSHION_SAMPLES; i++) {
        const int32_t *sample = sample_of(&c->round[round], i);
        sum += surprise(whole, with, n, sample, SAMPLE) -
               surprise(whole, without, n - 1, sample, SAMPLE);
    }
    assert_float_equal(c->round[round].nats, sum / CUSHION_SAMPLES, 1e-5);
}

/* Checks that round r tried all tokens at `place` of all[0 .. n), which holds the prefix with the
   token that it found. */
static void check_round(struct tft_model *m, const struct tft_model *whole,
                        const struct cushion_opts *o, const struct cushion *c, uint32_t r,
                        const int32_t *all, uint32_t place, uint32_t n)
{
    const struct cushion_round *round = &c->round[r];
    struct cushion_opts first = *o;
    int32_t with[4], without[3];
    memcpy(with, all, n * sizeof *with);
    for (uint32_t i = 0, j = 0; i < n; i++)
        if (i != place)
            without[j++] = all[i];
    assert_int_equal(all[place], round->token);
    check_nats(whole, c, r, with, without, n);
    assert_true(round->before == loss_of_round(m, o, round, without, n - 1));
    assert_true(round->after == loss_of_round(m, o, round, with, n));
    first.text = sample_of(round, 0);
    double least = loss(m, &first, with, n);
    /* a third of the tokens, to save time */
    for (int32_t token = (int32_t)r; token < (int32_t)m->n_vocab; token += 3) {
        with[place] = token;
        assert_true(loss(m, &first, with, n) >= least);
    }
}

static void what_is_not_worth_it_before_the_last_goes_to_the_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof turns / sizeof *turns; i++) {
        const struct turn *t = &turns[i];
        const char *path = written(&toys[t->toy]);
        struct tft_model *m = unexpanded_at(path), *whole = opened_as_floats(path);
        struct cushion_opts o = turning(t);
        struct cushion c = found(m, &o);
        const struct cushion_round *r = c.round;
        int32_t before_last[3] = {3, r[1].token, r[0].token}, end[3] = {3, r[0].token, r[2].token};
        uint32_t skip = 1 - t->n_start, n = t->n_start + 2;
        assert_int_equal(c.tried, 3);
        assert_true(r[0].taken && !r[1].taken && r[2].taken == t->worth);
        assert_true(r[0].tail == 0 && r[1].tail == 1 && r[2].tail == 0);
        assert_int_equal(c.n, n - !t->worth);
        assert_memory_equal(c.token, end + skip, c.n * sizeof *end);
        check_round(m, whole, &o, &c, 1, before_last + skip, n - 2, n);
        check_round(m, whole, &o, &c, 2, end + skip, n - 1, n);
        /* the prefix has not changed */
        assert_memory_equal(r[2].sample, r[1].sample, sizeof r->sample);

        /* the next round tries the place before the last again */
        if (t->toy == 2 && t->worth) {
            o.most++;
            struct cushion more = found(m, &o);
            assert_memory_equal(more.round, c.round, 3 * sizeof *c.round);
            assert_true(more.tried > 3);
            assert_int_equal(more.round[3].tail, 1);
        }
        tft_model_close(whole);
        tft_model_close(m);
    }
}

/* ---- int8 */

/* Pearson's correlation of n pairs. */
static double correlation(double (*x)[2], uint32_t n)
{
    double mean[2] = {0, 0}, square[2] = {0, 0}, product = 0;
    for (uint32_t i = 0; i < n; i++)
        for (int j = 0; j < 2; j++)
            mean[j] += x[i][j] / n;
    for (uint32_t i = 0; i < n; i++) {
        product += (x[i][0] - mean[0]) * (x[i][1] - mean[1]);
        for (int j = 0; j < 2; j++)
            square[j] += (x[i][j] - mean[j]) * (x[i][j] - mean[j]);
    }
    return product / sqrt(square[0] * square[1]);
}

/* Small differences change the rounding of a token's 24 to 64 numbers to 256 steps, so the loss is
   noisy: the worst deviation seen was a seventh. */
static void integers_rank_as_floats_do(void **state)
{
    (void)state;
    for (int i = 0; i < N_TOYS; i++) {
        struct cushion_opts o = usual(&toys[i]);
        struct tft_model *m = unexpanded(&toys[i]);
        double l[90][2];
        for (int32_t t = 0; t < (int32_t)toys[i].n_vocab; t++) {
            l[t][0] = loss(m, &o, (const int32_t[]){3, t}, 2);
            l[t][1] = loss_by(m, &o, (const int32_t[]){3, t}, 2, true);
            assert_true(l[t][0] != l[t][1]);
            if (fabs(l[t][1] / l[t][0] - 1) > 0.2)
                fail_msg("%s, token %d: %g, not %g", toys[i].arch, (int)t, l[t][1], l[t][0]);
        }
        double r = correlation(l, toys[i].n_vocab);
        if (r < 0.9)
            fail_msg("%s: a correlation of %g", toys[i].arch, r);
        tft_model_close(m);
    }
}

enum { D = 40, E = 12, F = 96, SEQUENCE = 4 }; /* of the llama toy */

/* Output of the first layer, which is loaded, for the sequences of a pass. */
static void first_layer(const struct layers *y, const int32_t *tokens, uint32_t n, float *to)
{
    struct layers_pass j = {
        .part = LAYERS_EMBED, .x = y->text, .tokens = tokens, .n = n, .n_seq = n / SEQUENCE};
    layers_run_pass(y, &j);
    j.part = LAYERS_LAYER;
    layers_run_pass(y, &j);
    for (uint32_t t = 0; t < n; t++)
        memcpy(to + t * D, y->text + t * y->stride, D * sizeof *to);
}

/* A session that cannot be opened, after its workspace was: closing after it is allowed. */
static void a_failed_open_may_be_closed(void **state)
{
    (void)state;
    struct tft_model *m = unexpanded(&toys[0]);
    struct quantize_opts o = {.n_threads = 1};
    struct layers_capacity room = {.batch = 4, .rows = 4, .slots = m->n_ctx};
    struct layers y;
    struct tft_error err;
    m->n_prefix = 1; /* so the context has one slot too few */
    assert_int_equal(layers_open_empty(&y, m, &o, &room, &err), TFT_ERR_ARG);
    layers_close(&y);
    m->n_prefix = 0;
    tft_model_close(m);
}

static void sequences_of_bytes_do_not_see_each_other(void **state)
{
    (void)state;
    static const int32_t tokens[3 * SEQUENCE] = {9, 80, 3, 70, 1, 2, 15, 16, 17, 44, 88, 31};
    static float down[D * F];
    struct tft_model *m = unexpanded(&toys[0]);
    struct quantize_opts o = {.n_threads = 1};
    struct layers_capacity room = {.batch = 3 * SEQUENCE, .rows = 3 * SEQUENCE, .int8 = true};
    struct layers y;
    struct tft_error err;
    float floats[3 * SEQUENCE * D], bytes[3 * SEQUENCE * D], alone[SEQUENCE * D];
    assert_int_equal(layers_open_empty(&y, m, &o, &room, &err), TFT_OK);
    assert_int_equal(layers_open_sequences(&y, 3, SEQUENCE, &err), TFT_OK);
    layers_load(&y, 0);
    first_layer(&y, tokens, 3 * SEQUENCE, floats);
    assert_true(layers_pack(&y, 0));
    first_layer(&y, tokens, 3 * SEQUENCE, bytes);
    for (int i = 0; i < 3 * SEQUENCE * D; i++)
        assert_float_equal(bytes[i], floats[i], 0.1);
    for (int i = 0; i < 3; i++) {
        first_layer(&y, tokens + i * SEQUENCE, SEQUENCE, alone);
        assert_memory_equal(alone, bytes + i * SEQUENCE * D, sizeof alone);
    }
    layers_unload(&y, 0);

    /* a layer that does not fit panels stays float */
    memcpy(down, m->layer[0].down.w.data, sizeof down);
    down[30 * F + 5] = INFINITY;
    m->layer[0].down.w.data = down;
    layers_load(&y, 0);
    assert_false(layers_pack(&y, 0));
    assert_ptr_equal(m->layer[0].q.w.format, &tft_format_f32);
    assert_int_equal(m->layer[0].q.in->range, TFT_RANGE_FLOAT);
    layers_unload(&y, 0);
    layers_close_sequences(&y);
    layers_close(&y);
    tft_model_close(m);
}

/* The llama toy with an outlier: one token of the sample has a huge number in the residual stream.
   Another token, the taker, removes it: if the taker comes before, all heads of the first layer
   attend to it, and the number is cancelled. Without the outlier tokens do not attend to the taker.
   */
enum { OUTLIER = 0, MARK = 1, TAKER = 67 };
static float embed[90 * D], wq[48 * D], wk[24 * D], wv[24 * D], wo[D * 48];

static const float *copied(float *to, const struct tft_mat *w)
{
    return memcpy(to, w->data, (size_t)w->rows * w->cols * sizeof *to);
}

static void add_taker(struct tft_model *m, int32_t rare)
{
    struct tft_layer *b = m->layer;
    enum { SLOWEST = E - 2 }; /* the pair of a head that RoPE hardly turns */
    /* MARK is the taker's only nonzero channel, so the norm makes it this */
    float outlier = 30, seen = sqrtf(D) * b->attn_norm.w[MARK];
    m->embed.data = copied(embed, &m->embed);
    b->q.w.data = copied(wq, &b->q.w);
    b->k.w.data = copied(wk, &b->k.w);
    b->v.w.data = copied(wv, &b->v.w);
    b->o.w.data = copied(wo, &b->o.w);
    for (int t = 0; t < 90; t++) {
        embed[t * D + OUTLIER] = t == TAKER ? 0 : t == rare ? outlier : -3;
        embed[t * D + MARK] = t == TAKER ? 1000 : 0;
    }
    for (int h = 0; h < 4; h++)
        wq[(h * E + SLOWEST) * D + OUTLIER] = 8;
    for (int h = 0; h < 2; h++) {
        wk[(h * E + SLOWEST) * D + MARK] = 8;
        wv[h * E * D + MARK] = 1;
    }
    for (int h = 0; h < 4; h++)
        wo[OUTLIER * 48 + h * E] = -outlier / (4 * seen);
}

/* The outlier is once in the text, the 18th token of one sample; the taker is not in it. */
static int32_t add_rare(uint32_t sample)
{
    int32_t rare = text[sample * SAMPLE + 17];
    for (int i = 0; i < TEXT; i++)
        if ((text[i] == rare && i != (int)(sample * SAMPLE + 17)) || text[i] == TAKER)
            text[i] = TAKER + 1;
    return rare;
}

static void the_first_stages_find_what_stands_out(void **state)
{
    (void)state;
    struct cushion_opts o = usual(&toys[0]);
    struct tft_model *m = unexpanded(&toys[0]);
    add_taker(m, add_rare(2));
    o.tau = INFINITY;
    o.most = 1;
    o.exhaustive = true;
    struct cushion best = found(m, &o);
    assert_int_equal(best.round[0].sample[0], 2);
    assert_int_equal(best.token[0], TAKER);
    assert_true(best.round[0].after < best.round[0].before);
    o.text = sample_of(best.round, 0);
    assert_true(loss(m, &o, best.token, 1) < loss(m, &o, best.token, 0) / 5);
    o.text = text;
    o.exhaustive = false;
    o.macs = 1;
    struct cushion c = found(m, &o);
    assert_int_equal(c.round[0].sample[0], 2);
    assert_int_equal(c.token[0], TAKER);
    assert_true(c.round[0].after <= 1.01 * best.round[0].after);
    tft_model_close(m);
}

static bool halt(void *user, uint32_t round, double done)
{
    (void)user;
    (void)round;
    return done < 0.3;
}

/* Algorithm 1: each round draws a sample, and the token that is best at the end of the prefix is
   added if L_q falls below tau times its value before. */
static void the_paper_s_own_algorithm(void **state)
{
    (void)state;
    uint32_t drawn[SAMPLES] = {0};
    for (int i = 0; i < N_TOYS; i++) {
        struct cushion_opts o = usual(&toys[i]), one = o;
        struct tft_model *m = unexpanded(&toys[i]);
        int32_t prefix[CUSHION_MAX] = {3};
        o.start = prefix;
        o.n_start = 1;
        o.most = 4;
        o.paper = true;
        o.tau = 0.97;
        struct cushion c = found(m, &o);
        uint32_t n = 1;
        for (uint32_t r = 0; r < c.tried; r++) {
            int32_t best = -1;
            double least = INFINITY;
            drawn[c.round[r].sample[0]]++;
            one.text = sample_of(&c.round[r], 0);
            double before = loss(m, &one, prefix, n);
            for (int32_t t = 0; t < (int32_t)toys[i].n_vocab; t++) {
                prefix[n] = t;
                double l = loss(m, &one, prefix, n + 1);
                best = l < least ? t : best;
                least = fmin(least, l);
            }
            assert_int_equal(c.round[r].token, best);
            assert_int_equal(c.round[r].tail, 0);
            assert_true(c.round[r].before == before && c.round[r].after == least);
            assert_int_equal(c.round[r].taken, least < o.tau * before);
            assert_int_equal(r + 1 < c.tried || n + 1 == o.most, c.round[r].taken);
            prefix[n] = best;
            n += c.round[r].taken;
        }
        assert_int_equal(c.n, n);
        assert_memory_equal(c.token, prefix, n * sizeof *prefix);
        tft_model_close(m);
    }
    uint32_t others = 0;
    for (int i = 1; i < SAMPLES; i++)
        others += drawn[i];
    assert_true(others > 0); /* not always the first sample */
}

static void it_ends(void **state)
{
    (void)state;
    struct cushion_opts o = usual(&toys[0]);
    struct tft_model *m = unexpanded(&toys[0]);
    struct tft_error err;
    struct cushion c;
    bool stopped;
    o.tau = 0;
    c = found(m, &o);
    assert_int_equal(c.n, 0);
    assert_int_equal(c.tried, 1);
    o.most = 0;
    c = found(m, &o);
    assert_int_equal(c.tried, 0);
    o = usual(&toys[0]);
    o.progress = halt;
    assert_int_equal(cushion_search(m, &o, &c, &stopped, &err), TFT_OK);
    assert_true(stopped);
    o.sample = TEXT + 1;
    assert_int_equal(cushion_search(m, &o, &c, &stopped, &err), TFT_ERR_ARG);
    o.sample = 64;
    assert_int_equal(cushion_search(m, &o, &c, &stopped, &err), TFT_ERR_ARG);
    tft_model_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_is_that_of_the_paper),
        cmocka_unit_test(exhaustive_finds_the_best),
        cmocka_unit_test(halving_tells_the_truth_of_what_it_finds),
        cmocka_unit_test(the_likelihood_is_that_of_the_logits),
        cmocka_unit_test(what_costs_the_text_too_much_is_refused),
        cmocka_unit_test(all_samples_are_asked),
        cmocka_unit_test(a_likelihood_that_is_none_is_refused),
        cmocka_unit_test(what_is_not_worth_it_before_the_last_goes_to_the_end),
        cmocka_unit_test(integers_rank_as_floats_do),
        cmocka_unit_test(sequences_of_bytes_do_not_see_each_other),
        cmocka_unit_test(a_failed_open_may_be_closed),
        cmocka_unit_test(the_first_stages_find_what_stands_out),
        cmocka_unit_test(the_paper_s_own_algorithm),
        cmocka_unit_test(it_ends),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
