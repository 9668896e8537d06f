/* Decoding in lockstep gives what the whole sequence at once gives. */
#include "decode.h"
#include "test.h"
#include "tool.h"

static const struct shape shape = {.dim = 32, .ffn = 48, .layers = 3, .heads = 4, .kv_heads = 2, .vocab = 50, .context = 40};
enum { T = 40, N = 3 };

struct problem {
    struct params w;
    uint16_t token[N][T];
    double cost[N][T]; /* -log p(token[i + 1]) from the whole sequence at once */
};

static void make_problem(struct problem *p)
{
    uint64_t random = 3;
    float *flat = take(params_count(&shape), sizeof *flat);
    struct tape *tape = tape_open(&shape);
    for (size_t i = 0; i < params_count(&shape); i++)
        flat[i] = 0.3f * random_normal(&random);
    p->w = params_at(&shape, flat);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < T; j++)
            p->token[i][j] = (uint16_t)random_below(&random, 50);
        llama_forward(tape, &p->w, p->token[i], T);
        llama_cost(tape, &p->w, p->token[i], T, p->cost[i]);
    }
}

static double cost_of(const float *logits, int n, int token)
{
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += exp((double)logits[i]);
    return log(sum) - (double)logits[token];
}

static void check(double got, double want)
{
    if (fabs(got - want) > 1e-4)
        fail_msg("%.7g, not %.7g", got, want);
}

/* Sequence i starts i steps late, in a place where another one has been before. */
static void test_lockstep(void **state)
{
    (void)state;
    struct problem p;
    make_problem(&p);
    struct decoder *d = decoder_open(&shape, &p.w, N);
    for (int step = 0; step < T - 1 + N; step++) {
        uint16_t token[N];
        int pos[N];
        for (int i = 0; i < N; i++) {
            pos[i] = step < i ? step : (step - i) % T;
            token[i] = step < i ? 7 : p.token[i][pos[i]];
        }
        const float *logits = decoder_step(d, token, pos);
        for (int i = 0; i < N; i++)
            if (step >= i && pos[i] < T - 1)
                check(cost_of(logits + i * shape.vocab, shape.vocab, p.token[i][pos[i] + 1]), p.cost[i][pos[i]]);
    }
}

static void test_narrow_head(void **state)
{
    (void)state;
    struct problem p;
    make_problem(&p);
    const int few[] = {49, 3, 20};
    const uint16_t token[N] = {1, 2, 3};
    const int pos[N] = {0, 0, 0};
    float want[N][3];
    struct decoder *d = decoder_open(&shape, &p.w, N);
    const float *all = decoder_step(d, token, pos);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 3; k++)
            want[i][k] = all[i * shape.vocab + few[k]];
    decoder_narrow_head(d, few, 3);
    const float *got = decoder_step(d, token, pos);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < 3; k++)
            check((double)got[i * 3 + k], (double)want[i][k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_lockstep), cmocka_unit_test(test_narrow_head)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
