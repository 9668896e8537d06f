#include "tools/quantize/round/rotate_residual.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "port/port.h"
#include "model/rope.h"

/* Vectors that are transformed side by side, element by element: a cache line of doubles, so that
   no loop has to shuffle. */
enum { LANES = 8 };

/* ----------------------------------------------------------------------------------- transforms */

/* x: [n, LANES]: levels `from`, 2 from .. below `to` of the transform of each run of `to`
   numbers. */
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

/* x: [p, LANES]. What fits an L1 cache goes through its levels before the rest is touched. */
static void hadamard(double *x, size_t p)
{
    enum { NEAR = 256 };
    size_t near = p < NEAR ? p : NEAR;
    for (size_t i = 0; i < p; i += near)
        levels(x + i * LANES, near, 1, near);
    levels(x, p, near, p);
}

/* x: [m, LANES], its rows p apart; y: [m, LANES] for a while */
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

/* x: [n, LANES], times s / sqrt(n) already; y: [m, LANES] */
static void transform(const struct residual_rotation *q, double *x, double *y)
{
    for (size_t i = 0; i < q->m; i++)
        hadamard(x + i * q->p * LANES, q->p);
    for (size_t i = 0; i < q->p && q->m > 1; i++)
        hartley(q, x + i * LANES, y);
}

/* ------------------------------------------------------------------------------------- matrices */

/* `count` vectors of n numbers, element i of vector j at w[i * along + j * across]. */
struct job {
    const struct residual_rotation *q;
    float *w;
    size_t along, across, count;
    const float *gain;
};

/* Vectors j .. j + n - 1 of a job, n <= LANES; what is in the other lanes is of no account. */
static void rotate(const struct job *job, size_t j, size_t n, double *x)
{
    const struct residual_rotation *q = job->q;
    float *w = job->w + j * job->across;
    for (size_t i = 0; i < q->n; i++) {
        double factor = job->gain ? q->sign[i] * (double)job->gain[i] : q->sign[i];
        for (size_t lane = 0; lane < LANES; lane++)
            x[i * LANES + lane] = lane < n ? (double)w[i * job->along + lane * job->across] * factor
                                           : 0;
    }
    transform(q, x, x + q->n * LANES);
    for (size_t i = 0; i < q->n; i++)
        for (size_t lane = 0; lane < n; lane++)
            w[i * job->along + lane * job->across] = (float)x[i * LANES + lane];
}

static void share(void *arg, int tid, int n_threads)
{
    const struct job *job = arg;
    double *x = job->q->work + (size_t)tid * (job->q->n + job->q->m) * LANES;
    size_t units = (job->count + LANES - 1) / LANES;
    size_t begin = units * (size_t)tid / (size_t)n_threads,
           end = units * (size_t)(tid + 1) / (size_t)n_threads;
    for (size_t j = begin * LANES; j < end * LANES && j < job->count; j += LANES)
        rotate(job, j, job->count - j < LANES ? job->count - j : LANES, x);
}

/* A few rows take less time than to wake a team, above all where others want the CPU too. */
static void all(struct job job)
{
    enum { WORTH_A_TEAM = 1 << 18 };
    tft_port_team(job.count * job.q->n < WORTH_A_TEAM ? 1 : job.q->n_threads, share, &job);
}

void rotate_residual_rows(const struct residual_rotation *q, float *w, size_t stride, size_t rows,
                   const float *gain)
{
    all((struct job){q, w, 1, stride, rows, gain});
}

void rotate_residual_columns(const struct residual_rotation *q, float *w, size_t stride,
                             size_t cols)
{
    all((struct job){q, w, stride, 1, cols, NULL});
}

/* -------------------------------------------------------------------------------------- opening */

static bool is_negative(size_t i)
{
    uint64_t z = (i + 1) * (uint64_t)0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z >> 63; /* which the last step of SplitMix64, z ^ z >> 31, leaves alone */
}

static void fill(struct residual_rotation *q)
{
    const double TWO_PI = 6.283185307179586;
    for (size_t i = 0; i < q->n; i++)
        q->sign[i] = (is_negative(i) ? -1 : 1) / sqrt((double)q->n);
    for (size_t k = 0; k < q->m; k++) {
        double sin, cos; /* not libm's, which differ */
        tft_rope_sincos(TWO_PI * (double)k / (double)q->m, &sin, &cos);
        q->cas[k] = cos + sin;
    }
}

static double *take(size_t n)
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
    q->sign = take(n);
    q->cas = take(q->m);
    q->work = take((size_t)n_threads * (n + q->m) * LANES);
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
