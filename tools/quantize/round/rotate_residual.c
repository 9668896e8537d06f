#include "tools/quantize/round/rotate_residual.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/splitmix64.h"
#include "port/port.h"
#include "base/rope.h"

/* Vectors that are transformed side by side. Their elements i fill a cache line of doubles, so that
   no loop shuffles lanes. */
enum { LANES = 8 };

/* ----------------------------------------------------------------------------------- transforms */

/* Levels from, 2 from, ... below `to` of the Hadamard transform of each run of `to` numbers; x: [n,
   LANES] */
static void levels(double *x, size_t n, size_t from, size_t to)
{
    for (size_t h = from; h < to; h *= 2)
        for (size_t i = 0; i < n; i += 2 * h) {
            double *a = x + i * LANES, *b = a + h * LANES;
            for (size_t j = 0; j < h * LANES; j++) {
                double sum = a[j] + b[j];
                b[j] = a[j] - b[j];
                a[j] = sum;
            }
        }
}

/* x: [p, LANES]. Pieces that fit an L1 cache go through all their levels first. */
static void hadamard(double *x, size_t p)
{
    enum { NEAR = 256 };
    size_t near = p < NEAR ? p : NEAR;
    for (size_t i = 0; i < p; i += near)
        levels(x + i * LANES, near, 1, near);
    levels(x, p, near, p);
}

/* x: [m, LANES], rows p apart; y: [m, LANES] scratch */
static void hartley(const struct residual_rotation *q, double *x, double *y)
{
    size_t m = q->m, step = q->p * LANES;
    for (size_t j = 0; j < m; j++) {
        double sum[LANES] = {0};
        for (size_t k = 0, jk = 0; k < m; k++) {
            for (size_t lane = 0; lane < LANES; lane++)
                sum[lane] += q->cas[jk] * x[k * step + lane];
            jk = jk + j < m ? jk + j : jk + j - m; /* modulo m */
        }
        for (size_t lane = 0; lane < LANES; lane++)
            y[j * LANES + lane] = sum[lane];
    }
    for (size_t j = 0; j < m; j++)
        for (size_t lane = 0; lane < LANES; lane++)
            x[j * step + lane] = y[j * LANES + lane];
}

/* x: [n, LANES], already multiplied by s / sqrt(n); y: [m, LANES] scratch */
static void transform(const struct residual_rotation *q, double *x, double *y)
{
    for (size_t i = 0; i < q->m; i++)
        hadamard(x + i * q->p * LANES, q->p);
    for (size_t i = 0; i < q->p && q->m > 1; i++)
        hartley(q, x + i * LANES, y);
}

/* ------------------------------------------------------------------------------------- matrices */

/* `count` vectors of n numbers. Element i of vector j is at w[i * along + j * across]. */
struct vectors {
    const struct residual_rotation *q;
    float *w;
    size_t along, across, count;
    const float *gain;
};

/* Rotates vectors j .. j + n - 1, n <= LANES; lanes without a vector hold zeros. */
static void rotate(const struct vectors *v, size_t j, size_t n, double *x)
{
    const struct residual_rotation *q = v->q;
    float *w = v->w + j * v->across;
    for (size_t i = 0; i < q->n; i++) {
        double factor = v->gain ? q->sign[i] * (double)v->gain[i] : q->sign[i];
        for (size_t lane = 0; lane < LANES; lane++)
            x[i * LANES + lane] =
                lane < n ? (double)w[i * v->along + lane * v->across] * factor : 0;
    }
    transform(q, x, x + q->n * LANES);
    for (size_t i = 0; i < q->n; i++)
        for (size_t lane = 0; lane < n; lane++)
            w[i * v->along + lane * v->across] = (float)x[i * LANES + lane];
}

static void rotate_share(void *arg, int tid, int n_threads)
{
    const struct vectors *v = arg;
    double *x = v->q->work + (size_t)tid * (v->q->n + v->q->m) * LANES;
    size_t units = (v->count + LANES - 1) / LANES;
    size_t begin = units * (size_t)tid / (size_t)n_threads,
           end = units * (size_t)(tid + 1) / (size_t)n_threads;
    for (size_t j = begin * LANES; j < end * LANES && j < v->count; j += LANES)
        rotate(v, j, v->count - j < LANES ? v->count - j : LANES, x);
}

/* Few rows run on one thread: waking a team would take longer. */
static void rotate_all(struct vectors v)
{
    enum { WORTH_A_TEAM = 1 << 18 };
    tft_port_team(v.count * v.q->n < WORTH_A_TEAM ? 1 : v.q->n_threads, rotate_share, &v);
}

void rotate_residual_rows(const struct residual_rotation *q, float *w, size_t stride, size_t rows,
                   const float *gain)
{
    rotate_all((struct vectors){q, w, 1, stride, rows, gain});
}

void rotate_residual_columns(const struct residual_rotation *q, float *w, size_t stride,
                             size_t cols)
{
    rotate_all((struct vectors){q, w, stride, 1, cols, NULL});
}

/* -------------------------------------------------------------------------------------- opening */

static void fill(struct residual_rotation *q)
{
    const double TWO_PI = 6.283185307179586;
    uint64_t state = 0;
    for (size_t i = 0; i < q->n; i++)
        q->sign[i] = (tft_splitmix64(&state) >> 63 ? -1 : 1) / sqrt((double)q->n);
    for (size_t k = 0; k < q->m; k++) {
        double sin, cos; /* computed here: libm's differ between machines */
        tft_rope_sincos(TWO_PI * (double)k / (double)q->m, &sin, &cos);
        q->cas[k] = cos + sin;
    }
}

static double *alloc_doubles(size_t n)
{
    size_t bytes;
    return tft_mul(n, sizeof(double), &bytes) ? malloc(bytes) : NULL;
}

bool rotate_residual_open(struct residual_rotation *q, size_t n, int n_threads)
{
    *q = (struct residual_rotation){.n = n, .m = n, .p = 1, .n_threads = n_threads};
    while (q->m % 2 == 0) {
        q->m /= 2;
        q->p *= 2;
    }
    q->sign = alloc_doubles(n);
    q->cas = alloc_doubles(q->m);
    q->work = alloc_doubles((size_t)n_threads * (n + q->m) * LANES);
    if (!q->sign || !q->cas || !q->work) {
        rotate_residual_close(q);
        return false;
    }
    fill(q);
    return true;
}

void rotate_residual_close(struct residual_rotation *q)
{
    free(q->sign);
    free(q->cas);
    free(q->work);
    *q = (struct residual_rotation){0};
}
