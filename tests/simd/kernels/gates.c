/* Cases of activations, and of products of two rows, one of which may go through an activation. */
#include "check.h"

#include <math.h>

enum { BENCH_N = 2048 };

#define TOL(n) ((n)*0x1p-24)

/* Fails unless `got` is the right result for a and b. */
typedef void judge_fn(struct check *c, double a, double b, double got);

/* far: some b has an exponential that overflows, or one that is 0. */
static void product(struct check *c, tft_mul_fn *ref, tft_mul_fn *now, judge_fn *judge, bool far)
{
    for (int i = 0; i < 40; i++) {
        size_t n = check_size(c, 500);
        float *a = check_buf(c, n, 4), *b = check_buf(c, n, 4), *want = check_buf(c, n, 4),
              *got = check_buf(c, n, 4);
        check_fill(c, a, n);
        check_fill(c, b, n);
        if (far)
            b[check_below(c, n)] = i % 2 ? 200.0f : -200.0f;
        ref(want, a, b, n);
        now(got, a, b, n);
        check_same(c, want, got, n * 4, "n %zu", n);
        for (size_t k = 0; k < n; k++)
            judge(c, (double)a[k], (double)b[k], (double)got[k]);
        now(a, a, b, n); /* in place */
        check_same(c, want, a, n * 4, "in place, n %zu", n);
    }
    float *x = check_buf(c, BENCH_N, 4), *y = check_buf(c, BENCH_N, 4);
    check_fill(c, x, BENCH_N);
    CHECK_TIME(c, "2048", 0, 12.0 * BENCH_N, ref(y, x, x, BENCH_N), now(y, x, x, BENCH_N));
}

static void judge_mul(struct check *c, double a, double b, double got)
{
    check_near(c, a * b, got, fabs(a * b) + 1e-37, TOL(1), "%a * %a", a, b);
}

static void mul(struct check *c)
{
    CASE(c, "mul", mul);
    product(c, ref->mul, now->mul, judge_mul, false);
}

static void judge_sigmoid(struct check *c, double a, double b, double got)
{
    double exact = a / (1 + exp(-b));
    check_near(c, exact, got, fabs(exact) + 1e-30, TOL(8), "%a * sigmoid(%a)", a, b);
}

static void sigmoid_mul(struct check *c)
{
    CASE(c, "sigmoid_mul", sigmoid_mul);
    product(c, ref->sigmoid_mul, now->sigmoid_mul, judge_sigmoid, true);
}

/* exp(88.8) is infinite, so the far tail is 0. */
static void judge_silu(struct check *c, double a, double b, double got)
{
    double exact = a / (1 + exp(-a)) * b;
    check_near(c, exact, got, fabs(exact) + 1e-28, TOL(8), "silu(%a) * %a", a, b);
}

static void silu_mul(struct check *c)
{
    CASE(c, "silu_mul", silu_mul);
    product(c, ref->silu_mul, now->silu_mul, judge_silu, false);
}

static void judge_relu2(struct check *c, double a, double b, double got)
{
    double r = a > 0 ? a : 0, exact = r * r * b;
    check_near(c, exact, got, fabs(exact) + 1e-28, TOL(3), "relu(%a)^2 * %a", a, b);
}

static void relu2_mul(struct check *c)
{
    CASE(c, "relu2_mul", relu2_mul);
    product(c, ref->relu2_mul, now->relu2_mul, judge_relu2, false);
}

/* *scale: that of its error. Where the tail decays, the rounding error of u is times |u|. */
static double gelu_exact(double a, double *scale)
{
    double u = sqrt(2 / 3.14159265358979323846) * (a + 0.044715 * a * a * a);
    double exact = 0.5 * a * (1 + tanh(u));
    *scale = fabs(exact) * (1 + fabs(u)) + 1e-7 * fabs(a);
    return exact;
}

static void judge_gelu(struct check *c, double a, double b, double got)
{
    double scale, exact = gelu_exact(a, &scale);
    check_near(c, exact * b, got, scale * fabs(b) + 1e-28, TOL(12), "gelu(%a) * %a", a, b);
}

static void gelu_mul(struct check *c)
{
    CASE(c, "gelu_mul", gelu_mul);
    product(c, ref->gelu_mul, now->gelu_mul, judge_gelu, false);
}

static void gelu(struct check *c)
{
    CASE(c, "gelu", gelu);
    for (int i = 0; i < 40; i++) {
        size_t n = check_size(c, 500);
        float *x = check_buf(c, n, 4), *want = check_buf(c, n, 4), *got = check_buf(c, n, 4);
        check_fill(c, x, n);
        ref->gelu(want, x, n);
        now->gelu(got, x, n);
        check_same(c, want, got, n * 4, "n %zu", n);
        for (size_t k = 0; k < n; k++) {
            double a = (double)x[k], scale, exact = gelu_exact(a, &scale);
            check_near(c, exact, (double)got[k], scale + 1e-37, TOL(12), "gelu(%a)", a);
        }
    }
    float *x = check_buf(c, BENCH_N, 4), *y = check_buf(c, BENCH_N, 4);
    check_fill(c, x, BENCH_N);
    CHECK_TIME(c, "2048", 0, 8.0 * BENCH_N, ref->gelu(y, x, BENCH_N), now->gelu(y, x, BENCH_N));
}

void check_gates(struct check *c)
{
    mul(c);
    sigmoid_mul(c);
    silu_mul(c);
    relu2_mul(c);
    gelu_mul(c);
    gelu(c);
}
