#include "optim.h"

#include "tool.h"

#include <stdlib.h>

static const float decay = 0.1f; /* of weights, per unit of the learning rate */
static const float muon_beta = 0.95f;
static const float adam_beta1 = 0.9f, adam_beta2 = 0.98f, adam_eps = 1e-8f;

void optim_open(struct optim *o, const struct shape *s)
{
    o->s = *s;
    o->n = params_count(s);
    o->m = take(o->n, sizeof *o->m);
    o->v = take(o->n, sizeof *o->v);
    o->step = 0;
}

static void adam(struct optim *o, float *w, const float *g, size_t at, size_t n, float rate,
                 float shrink)
{
    float *m = o->m + at, *v = o->v + at;
    float c1 = 1 / (1 - powf(adam_beta1, (float)o->step)),
          c2 = 1 / (1 - powf(adam_beta2, (float)o->step));
    w += at;
    g += at;
    for (size_t i = 0; i < n; i++) {
        m[i] = adam_beta1 * m[i] + (1 - adam_beta1) * g[i];
        v[i] = adam_beta2 * v[i] + (1 - adam_beta2) * g[i] * g[i];
        w[i] -= rate * (m[i] * c1 / (sqrtf(v[i] * c2) + adam_eps) + shrink * w[i]);
    }
}

static float norm_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return (float)sqrt(sum);
}

/*
 * x [r, c], r <= c, becomes approximately the nearest orthogonal matrix: every singular value s
 * goes through a s + b s^3 + c s^5 five times and lands in about [0.7, 1.2]. gram, poly: [r, r];
 * next: [r, c].
 */
static void orthogonalize(float *x, float *gram, float *poly, float *next, int r, int c)
{
    size_t n = (size_t)r * (size_t)c, square = (size_t)r * (size_t)r;
    float scale = 1 / (norm_of(x, n) + 1e-12f);
    for (size_t i = 0; i < n; i++)
        x[i] *= scale;
    for (int step = 0; step < 5; step++) {
        gemm(false, true, r, r, c, 1, x, c, x, c, false, gram, r);
        memcpy(poly, gram, square * sizeof *poly);
        for (size_t i = 0; i < square; i++)
            poly[i] *= -4.7750f;
        gemm(false, false, r, r, r, 2.0315f, gram, r, gram, r, true, poly, r);
        for (size_t i = 0; i < n; i++)
            next[i] = 3.4445f * x[i];
        gemm(false, false, r, c, r, 1, poly, r, x, c, true, next, c);
        memcpy(x, next, n * sizeof *x);
    }
}

static void transpose(float *y, const float *x, int rows, int columns)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < columns; j++)
            y[(size_t)j * (size_t)rows + (size_t)i] = x[(size_t)i * (size_t)columns + (size_t)j];
}

/* w, g, m: [rows, columns] */
static void muon(float *w, float *g, float *m, int rows, int columns, float rate)
{
    size_t n = (size_t)rows * (size_t)columns;
    int r = rows < columns ? rows : columns, c = rows < columns ? columns : rows;
    float *x = take(2 * n + 2 * (size_t)r * (size_t)r, sizeof *x), *next = x + n, *gram = next + n;
    for (size_t i = 0; i < n; i++) {
        m[i] = muon_beta * m[i] + g[i];
        g[i] += muon_beta * m[i]; /* Nesterov */
    }
    if (rows > columns)
        transpose(x, g, rows, columns);
    else
        memcpy(x, g, n * sizeof *x);
    orthogonalize(x, gram, gram + (size_t)r * (size_t)r, next, r, c);
    if (rows > columns)
        transpose(g, x, columns, rows);
    else
        memcpy(g, x, n * sizeof *x);
    float scale = 0.2f * sqrtf((float)c);
    for (size_t i = 0; i < n; i++)
        w[i] -= rate * (scale * g[i] + decay * w[i]);
    free(x);
}

struct matrix { /* of every layer */
    float *first;
    int rows, columns;
};

void optim_step(struct optim *o, float *flat, float *grad, float rate)
{
    const struct shape *s = &o->s;
    struct params w = params_at(s, flat);
    int d = s->dim, kd = kv_dim(s), f = s->ffn;
    const struct matrix matrix[] = {{w.wq, d, d},   {w.wk, kd, d},  {w.wv, kd, d}, {w.wo, d, d},
                                    {w.gate, f, d}, {w.down, d, f}, {w.up, f, d}};
    int kinds = (int)(sizeof matrix / sizeof *matrix);
    size_t norms = (size_t)s->layers * (size_t)d;
    o->step++;
    adam(o, flat, grad, 0, (size_t)s->vocab * (size_t)d, rate, decay);
    adam(o, flat, grad, (size_t)(w.att_norm - flat), norms, rate, 0);
    adam(o, flat, grad, (size_t)(w.ffn_norm - flat), norms, rate, 0);
    adam(o, flat, grad, (size_t)(w.out_norm - flat), (size_t)d, rate, 0);
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < kinds * s->layers; i++) {
        const struct matrix *kind = &matrix[i / s->layers];
        size_t at = (size_t)(kind->first - flat) +
                    (size_t)(i % s->layers) * (size_t)kind->rows * (size_t)kind->columns;
        muon(flat + at, grad + at, o->m + at, kind->rows, kind->columns, rate);
    }
}
