/* tools/quantize/tune/matmul.h in double precision, by plain loops. Compiled with TUNE_DOUBLE. */
#include "tools/quantize/tune/matmul.h"

#include <stdlib.h>

#include "tune_rounding.h"

struct matmul {
    size_t n, width;
    real *x;   /* [width, n] */
    real *sum; /* [n] */
};

struct matmul *matmul_open(const struct tft_model *m, size_t n, int n_threads)
{
    (void)n_threads;
    struct matmul *p = calloc(1, sizeof *p);
    p->x = calloc(n * (m->n_embd + m->n_ff + (size_t)m->n_head * m->head_dim), sizeof *p->x);
    p->sum = calloc(n, sizeof *p->sum);
    return p;
}

void matmul_close(struct matmul *p)
{
    free(p->x);
    free(p->sum);
    free(p);
}

static real clamp(real x, real low, real high)
{
    return x < low ? low : x > high ? high : x;
}

/* CushionCache, eq. 3: clamped to the range and rounded. */
void matmul_take(struct matmul *p, const real *x, size_t n, const struct tft_input *in,
                 const struct tft_affine *q, size_t step)
{
    size_t width = in->width;
    p->n = n;
    p->width = width;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < width; j++) {
            const struct tft_affine *a = &q[i * step];
            real t = clamp(x[i * width + j] / (real)a->scale, -a->zero, 255 - a->zero);
            p->x[j * n + i] = rounding_straight_through(t) * (real)a->scale;
        }
}

static real weight(const struct tft_mat *w, size_t row, size_t col)
{
    const int8_t *data = w->data;
    return data[tft_panel_at(row, col, tft_panel_cols(w->cols))] * (real)w->scale[row];
}

/* sum: [n] += x: [n] w */
static void add_times(real *restrict sum, const real *restrict x, real w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sum[i] += x[i] * w;
}

/* All tokens at a time, as the test spends most of its time here. */
void matmul_run(struct matmul *p, real *y, const struct tft_linear *l, bool add)
{
    size_t rows = l->w.rows;
    for (size_t r = 0; r < rows; r++) {
        for (size_t i = 0; i < p->n; i++)
            p->sum[i] = (add ? y[i * rows + r] : 0) + (l->bias ? (real)l->bias[r] : 0);
        for (size_t j = 0; j < p->width; j++)
            add_times(p->sum, p->x + j * p->n, weight(&l->w, r, j), p->n);
        for (size_t i = 0; i < p->n; i++)
            y[i * rows + r] = p->sum[i];
    }
}

void matmul_back(struct matmul *p, real *dx, const real *dy, size_t n, const struct tft_linear *l,
                  bool add)
{
    (void)p;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < l->w.cols; j++) {
            real sum = add ? dx[i * l->w.cols + j] : 0;
            for (size_t r = 0; r < l->w.rows; r++)
                sum += dy[i * l->w.rows + r] * weight(&l->w, r, j);
            dx[i * l->w.cols + j] = sum;
        }
}

void matmul_plain(const struct tft_model *m, real *y, size_t ldy, const real *x, const real *w,
                   size_t M, size_t N, size_t K)
{
    (void)m;
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            real sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += x[i * K + k] * w[j * K + k];
            y[i * ldy + j] = sum;
        }
}

void matmul_mix(const struct tft_model *m, real *y, const real *p, size_t ldp, const real *v,
                 size_t M, size_t N, size_t K)
{
    (void)m;
    for (size_t i = 0; i < M; i++)
        for (size_t k = 0; k < K; k++)
            for (size_t j = 0; j < N; j++)
                y[i * N + j] += p[i * ldp + k] * v[k * N + j];
}
