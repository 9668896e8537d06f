#include "oracle/inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* y = h + (last - h) * w */
static void shifted(const struct oracle *o, double *y, const double *h, const double *last,
                    const double *w)
{
    for (size_t i = 0; i < o->d; i++)
        y[i] = h[i] + (last[i] - h[i]) * w[i];
}

/* y = W2 f(W1 x) + bias; f: 't' tanh, 's' sigmoid, or nothing */
static void two_steps(double *y, struct matrix one, struct matrix two, const double *bias,
                      const double *x, char f)
{
    double *low = malloc(one.rows * sizeof *low);
    oracle_product(low, one, x, NULL);
    for (size_t i = 0; i < one.rows; i++)
        low[i] = f == 't' ? tanh(low[i]) : f == 's' ? oracle_sigmoid(low[i]) : low[i];
    oracle_product(y, two, low, bias);
    free(low);
}

/* Head j: y = its output. r, w, k, v, a: [d] */
static void rwkv_head(const struct oracle *o, const struct matrix *part, size_t j, double *s,
                      const double *r, const double *w, const double *k, const double *v,
                      const double *a, double *y)
{
    size_t n = (size_t)oracle_number(o, "wkv.head_size", 0), at = j * n;
    double *c = malloc(2 * n * sizeof *c), *kk = c + n, bonus = 0;
    for (size_t i = 0; i < n; i++) {
        c[i] = k[at + i] * part[TKK].w[at + i];
        kk[i] = k[at + i] * (1 + (a[at + i] - 1) * part[TKA].w[at + i]);
        bonus += r[at + i] * kk[i] * part[TRK].w[at + i];
    }
    double size = oracle_length(c, n);
    for (size_t i = 0; i < n; i++)
        c[i] /= size;
    for (size_t q = 0; q < n; q++) {
        double *row = s + (at + q) * n, forget = 0;
        for (size_t i = 0; i < n; i++)
            forget += row[i] * c[i];
        y[at + q] = 0;
        for (size_t i = 0; i < n; i++) {
            row[i] = row[i] * w[at + i] - forget * c[i] * a[at + i] + v[at + q] * kk[i];
            y[at + q] += row[i] * r[at + i];
        }
    }
    oracle_layernorm(y + at, y + at, part[TLN].w + at, part[TLNB].w + at, n, 64e-5);
    for (size_t i = 0; i < n; i++)
        y[at + i] += v[at + i] * bonus;
    free(c);
}

/* x += the time mixing of h; first: [d] values of layer 0 */
static void time_mix(const struct oracle *o, size_t l, double *x, const double *h, double *state,
                     double *first)
{
    const struct matrix *part = o->layer + l * PARTS;
    size_t d = o->d, n = (size_t)oracle_number(o, "wkv.head_size", 0);
    double *in = malloc(8 * d * sizeof *in), *r = in + d, *w = r + d, *k = w + d, *v = k + d,
           *a = v + d, *g = a + d, *y = g + d, *m = part[TLERP].w;
    shifted(o, in, h, state, m);
    oracle_product(r, part[TR], in, NULL);
    shifted(o, in, h, state, m + d);
    two_steps(w, part[TW1], part[TW2], part[TW0].w, in, 't');
    shifted(o, in, h, state, m + 2 * d);
    oracle_product(k, part[TK], in, NULL);
    shifted(o, in, h, state, m + 3 * d);
    oracle_product(v, part[TV], in, NULL);
    two_steps(y, part[TV1], part[TV2], part[TV0].w, in, 0);
    for (size_t i = 0; i < d && l; i++)
        v[i] += (first[i] - v[i]) * oracle_sigmoid(y[i]);
    if (!l)
        memcpy(first, v, d * sizeof *v);
    shifted(o, in, h, state, m + 4 * d);
    two_steps(a, part[TA1], part[TA2], part[TA0].w, in, 0);
    shifted(o, in, h, state, m + 5 * d);
    two_steps(g, part[TG1], part[TG2], NULL, in, 's');
    for (size_t i = 0; i < d; i++) {
        w[i] = exp(-exp(-0.5) * oracle_sigmoid(w[i]));
        a[i] = oracle_sigmoid(a[i]);
    }
    for (size_t j = 0; j < d / n; j++)
        rwkv_head(o, part, j, state + 2 * d, r, w, k, v, a, y);
    for (size_t i = 0; i < d; i++)
        y[i] *= g[i];
    oracle_product(in, part[TO], y, NULL);
    for (size_t i = 0; i < d; i++)
        x[i] += in[i];
    memcpy(state, h, d * sizeof *h);
    free(in);
}

static void channel_mix(const struct oracle *o, size_t l, double *x, const double *h, double *state)
{
    const struct matrix *part = o->layer + l * PARTS;
    size_t d = o->d, ff = part[CK].rows;
    double *in = malloc((2 * d + ff) * sizeof *in), *y = in + d, *u = y + d;
    shifted(o, in, h, state, part[CLERP].w);
    oracle_product(u, part[CK], in, NULL);
    for (size_t i = 0; i < ff; i++)
        u[i] = fmax(0, u[i]) * fmax(0, u[i]);
    oracle_product(y, part[CV], u, NULL);
    for (size_t i = 0; i < d; i++)
        x[i] += y[i];
    memcpy(state, h, d * sizeof *h);
    free(in);
}

void oracle_rwkv_layers(const struct oracle *o, double *x)
{
    size_t d = o->d, all = d * (2 + (size_t)oracle_number(o, "wkv.head_size", 0));
    double *h = malloc(2 * d * sizeof *h), *first = h + d;
    struct matrix w = oracle_tensor(o, "token_embd_norm.weight"),
                  b = oracle_tensor(o, "token_embd_norm.bias");
    oracle_layernorm(x, x, w.w, b.w, d, o->eps);
    for (size_t l = 0; l < o->layers; l++) {
        const struct matrix *part = o->layer + l * PARTS;
        double *state = o->states + l * all;
        oracle_layernorm(h, x, part[NORM1].w, part[NORM1B].w, d, o->eps);
        time_mix(o, l, x, h, state, first);
        oracle_layernorm(h, x, part[NORM_2].w, part[NORM_2B].w, d, o->eps);
        channel_mix(o, l, x, h, state + d);
    }
    free(h);
    free(w.w);
    free(b.w);
}
