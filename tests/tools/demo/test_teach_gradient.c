/* The gradient against finite differences, in double precision (built with DEMO_DOUBLE). */
#include "llama.h"
#include "test.h"
#include "tool.h"

static const struct shape shape = {
    .dim = 16, .ffn = 24, .layers = 2, .heads = 4, .kv_heads = 2, .vocab = 40, .context = 200};
enum { T = 150 }; /* several blocks of queries, the last one not full */

struct problem {
    size_t n;
    real *flat, *grad;
    uint16_t token[T];
    struct target target[T];
    struct tape *tape;
};

/* A target of different tokens, the most likely first; some targets are full, some list one token,
   some none. */
static struct target random_target(uint64_t *random)
{
    struct target t = {0};
    size_t n = random_below(random, 4) ? random_below(random, TARGETS + 1)
                                       : random_below(random, 2);
    unsigned step = 1 + 2 * (unsigned)random_below(random, 2); /* coprime to 40 */
    unsigned at = (unsigned)random_below(random, 40);
    for (size_t k = 0; k < n; k++, at += step) {
        t.id[k] = (uint16_t)(at % 40);
        t.p[k] = (uint16_t)(60000 / (n * (k + 1)) + 1);
    }
    return t;
}

static void make_problem(struct problem *p)
{
    uint64_t random = 1;
    p->n = params_count(&shape);
    p->flat = take(p->n, sizeof(real));
    p->grad = take(p->n, sizeof(real));
    p->tape = tape_open(&shape);
    for (size_t i = 0; i < p->n; i++)
        p->flat[i] = 0.4 * (double)random_normal(&random);
    for (int i = 0; i < T; i++) {
        p->token[i] = (uint16_t)random_below(&random, 40);
        p->target[i] = random_target(&random);
    }
}

static double loss(struct problem *p, bool with_gradient)
{
    struct params w = params_at(&shape, p->flat), g = params_at(&shape, p->grad);
    llama_forward(p->tape, &w, p->token, T);
    return llama_loss(p->tape, &w, with_gradient ? &g : NULL, 1, p->token, p->target, T);
}

/* The fourth-order central difference. */
static double slope(struct problem *p, size_t i)
{
    const double h = 1e-3, at = p->flat[i];
    double y[4], x[4] = {-2, -1, 1, 2};
    for (int k = 0; k < 4; k++) {
        p->flat[i] = at + x[k] * h;
        y[k] = loss(p, false);
    }
    p->flat[i] = at;
    return (y[0] - 8 * y[1] + 8 * y[2] - y[3]) / (12 * h);
}

static void test_gradient(void **state)
{
    (void)state;
    struct problem p;
    make_problem(&p);
    loss(&p, true);
    const struct params g = params_at(&shape, p.grad);
    const struct {
        const char *name;
        const real *from;
    } part[] = {{"embed", g.embed},
                {"att_norm", g.att_norm},
                {"wq", g.wq},
                {"wk", g.wk},
                {"wv", g.wv},
                {"wo", g.wo},
                {"ffn_norm", g.ffn_norm},
                {"gate", g.gate},
                {"down", g.down},
                {"up", g.up},
                {"out_norm", g.out_norm},
                {"end", p.grad + p.n}};
    uint64_t random = 2;
    for (size_t k = 0; k + 1 < sizeof part / sizeof *part; k++)
        for (int tries = 0; tries < 12; tries++) {
            size_t first = (size_t)(part[k].from - p.grad),
                   n = (size_t)(part[k + 1].from - part[k].from);
            size_t i = first + random_below(&random, n);
            double want = slope(&p, i), got = p.grad[i];
            if (fabs(got - want) > 1e-5 * (fabs(want) + 1))
                fail_msg("%s[%zu]: gradient %.9g, difference %.9g", part[k].name, i - first, got,
                         want);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gradient)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
