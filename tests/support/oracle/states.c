#include "oracle/inside.h"

#include <math.h>
#include <stdlib.h>

/* The channel `i` of a convolution over the last tokens; x: its input now. w: [channels, taps] */
static double conv(struct oracle *o, size_t l, struct matrix w, size_t i, double x)
{
    double sum = 0, *past = o->past + l * o->capacity * o->wide;
    past[o->pos * o->wide + i] = x;
    for (size_t back = 0; back < w.cols && back <= o->pos; back++)
        sum += w.w[i * w.cols + w.cols - 1 - back] * past[(o->pos - back) * o->wide + i];
    return sum;
}

static void unit(double *x, size_t n, double eps, double length)
{
    double sum = eps;
    for (size_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (size_t i = 0; i < n; i++)
        x[i] *= length / sqrt(sum);
}

/* One step of the state S: [E, E] of a head: Yang et al. 2024, eq. 10. */
static void delta_step(double *s, const double *q, const double *k, const double *v, double *y,
                       double decay, double beta, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        double held = 0;
        for (size_t i = 0; i < n; i++)
            held += k[i] * decay * s[i * n + j];
        y[j] = 0;
        for (size_t i = 0; i < n; i++) {
            s[i * n + j] = decay * s[i * n + j] + k[i] * beta * (v[j] - held);
            y[j] += q[i] * s[i * n + j];
        }
    }
}

void oracle_delta_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t n = o->sdim, keys = o->kheads * n, values = o->vheads * n, channels = 2 * keys + values,
           of_one = o->vheads / o->kheads;
    double *m = malloc(channels * sizeof *m), *z = malloc(values * sizeof *z),
           *gate = malloc(2 * o->vheads * sizeof *gate), *y = malloc(values * sizeof *y),
           *out = malloc(o->d * sizeof *out);
    oracle_product(m, w[DQKV], h, NULL);
    if (w[DBA].w) { /* qwen3next: of each head of keys, beta of its heads of values, then alpha */
        oracle_product(z, w[DBA], h, NULL);
        for (size_t j = 0; j < 2 * o->vheads; j++) {
            size_t group = j / (2 * of_one), i = j % (2 * of_one);
            gate[group * of_one + i % of_one + (i < of_one ? o->vheads : 0)] = z[j];
        }
    } else {
        oracle_product(gate, w[DALPHA], h, NULL);
        oracle_product(gate + o->vheads, w[DBETA], h, NULL);
    }
    oracle_product(z, w[DZ], h, NULL);
    for (size_t i = 0; i < channels; i++) {
        double c = conv(o, l, w[DCONV], i, m[i]);
        m[i] = c * oracle_sigmoid(c);
    }
    for (size_t i = 0; i < o->kheads; i++) {
        unit(m + i * n, n, o->eps, 1 / sqrt((double)n));
        unit(m + keys + i * n, n, o->eps, 1);
    }
    for (size_t j = 0; j < o->vheads; j++) {
        size_t key = (w[DBA].w ? j / of_one : j % o->kheads) * n;
        double decay = exp(w[DA].w[j] * log(1 + exp(gate[j] + w[DBIAS].w[j])));
        delta_step(o->states + (l * o->vheads + j) * n * n, m + key, m + keys + key,
                   m + 2 * keys + j * n, y + j * n, decay, oracle_sigmoid(gate[o->vheads + j]), n);
        oracle_rms(y + j * n, y + j * n, w[DNORM].w, n, o->eps);
    }
    for (size_t i = 0; i < values; i++)
        y[i] *= z[i] * oracle_sigmoid(z[i]);
    oracle_product(out, w[DOUT], y, NULL);
    oracle_add(o, x, out, NULL);
    free(m);
    free(z);
    free(gate);
    free(y);
    free(out);
}

void oracle_mamba_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t n = o->sdim, width = w[DOUT].cols, dim = width / o->vheads, groups = o->kheads,
           channels = width + 2 * groups * n, each = width / groups;
    double *z = malloc(w[MIN].rows * sizeof *z), *m = z + width, *gate = m + channels,
           *y = malloc(o->d * sizeof *y);
    oracle_product(z, w[MIN], h, NULL);
    for (size_t i = 0; i < channels; i++) {
        double c = conv(o, l, w[DCONV], i, m[i]) + w[MCONVB].w[i];
        m[i] = c * oracle_sigmoid(c);
    }
    for (size_t j = 0; j < o->vheads; j++) {
        double step = log(1 + exp(gate[j] + w[DBIAS].w[j])), decay = exp(w[DA].w[j] * step);
        const double *b = m + width + j * groups / o->vheads * n, *c = b + groups * n;
        for (size_t k = j * dim; k < (j + 1) * dim; k++) {
            double *s = o->states + (l * width + k) * n, out = w[MSKIP].w[j] * m[k];
            for (size_t i = 0; i < n; i++) {
                s[i] = decay * s[i] + step * m[k] * b[i];
                out += c[i] * s[i];
            }
            m[k] = out * z[k] * oracle_sigmoid(z[k]);
        }
    }
    for (size_t i = 0; i < width && w[DNORM].w; i += each)
        oracle_rms(m + i, m + i, w[DNORM].w + i, each, o->eps);
    oracle_product(y, w[DOUT], m, NULL);
    oracle_add(o, x, y, NULL);
    free(z);
    free(y);
}

void oracle_conv_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t d = o->d;
    double *p = malloc(3 * d * sizeof *p), *y = malloc(d * sizeof *y), *b = p, *c = p + d,
           *u = p + 2 * d;
    oracle_product(p, w[CONV_IN], h, NULL);
    for (size_t i = 0; i < d; i++)
        c[i] *= conv(o, l, w[CONV], i, b[i] * u[i]);
    oracle_product(y, w[CONV_OUT], c, NULL);
    oracle_add(o, x, y, NULL);
    free(p);
    free(y);
}
