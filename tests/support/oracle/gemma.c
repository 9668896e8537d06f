#include "oracle/inside.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* gemma4, gemma3n: y = rms(W (gelu(Wgate x) * p)), p of the token's embedding x0 and of the table;
   nothing without per-layer embeddings */
static void layer_embedding(struct oracle *o, size_t l, const double *x, const double *x0,
                            int32_t token, double *y)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t n = w[PGATE].rows;
    double *p = malloc((2 * n + 1) * sizeof *p), *g = p + n;
    struct matrix rows = {n ? o->own_proj.w + l * n * o->d : NULL, n, o->d};
    oracle_product(p, rows, x0, NULL);
    for (size_t i = 0; i < n; i++)
        p[i] /= sqrt((double)o->d);
    if (n) {
        oracle_rms(p, p, o->own_norm, n, o->eps);
        oracle_product(g, w[PGATE], x, NULL);
    }
    for (size_t i = 0; i < n; i++) {
        p[i] += sqrt((double)n) * o->own_embed.w[(size_t)token * o->own_embed.cols + l * n + i];
        g[i] = oracle_gelu(g[i]) * p[i] / sqrt(2);
    }
    if (n) {
        oracle_product(y, w[PPROJ], g, NULL);
        oracle_rms(y, y, w[PNORM].w, o->d, o->eps);
    }
    free(p);
}

void oracle_layer_end(struct oracle *o, size_t l, double *x, const double *x0, int32_t token)
{
    const struct matrix *w = o->layer + l * PARTS;
    double *y = calloc(o->d, sizeof *y);
    layer_embedding(o, l, x, x0, token, y);
    for (size_t i = 0; i < o->d; i++)
        x[i] = (x[i] + y[i]) * (w[PSCALE].w ? w[PSCALE].w[0] : 1);
    free(y);
}

static size_t streams(const struct oracle *o) { return o->begin.rows / o->d + 1; }

/* y = matrix i of `all` times x, as long as `as`. */
static void stream_of(const struct oracle *o, struct matrix all, size_t i, const double *x,
                      const double *as, double *y)
{
    struct matrix one = {all.w + i * o->d * o->d, o->d, o->d};
    oracle_product(y, one, x, NULL);
    double factor = oracle_length(as, o->d) / oracle_length(y, o->d);
    for (size_t k = 0; k < o->d; k++)
        y[k] *= factor;
}

/* m: [n] */
static void modalities(const struct oracle *o, const struct matrix *w, const double *x, double *m)
{
    double *r = malloc(o->d * sizeof *r);
    oracle_rms(r, x, w[AROUTERN].w, o->d, o->eps);
    for (size_t i = 0; i < o->d; i++)
        r[i] /= (double)o->d;
    oracle_product(m, w[AROUTER], r, NULL);
    for (size_t i = 0; i < w[AROUTER].rows; i++)
        m[i] = tanh(m[i]);
    free(r);
}

static void altup_layer(struct oracle *o, size_t l, double *x, const double *x0, int32_t token)
{
    const struct matrix *w = o->layer + l * PARTS;
    size_t d = o->d, n = streams(o);
    double *p = malloc(n * d * sizeof *p), *h = malloc(4 * d * sizeof *h), *y = h + d, *lau = y + d,
           *z = lau + d, *low = malloc(w[LLEFT].rows * sizeof *low), m[8], c[64];
    modalities(o, w, x, m);
    oracle_product(c, w[APREDICT], m, NULL);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < d; k++) {
            p[i * d + k] = x[i * d + k];
            for (size_t j = 0; j < n; j++)
                p[i * d + k] += c[i * n + j] * x[j * d + k];
        }
    oracle_rms(h, p, w[NORM1].w, d, o->eps);
    oracle_product(low, w[LLEFT], h, NULL);
    oracle_product(lau, w[LRIGHT], low, NULL);
    oracle_rms(lau, lau, w[LNORM].w, d, o->eps);
    memcpy(y, p, d * sizeof *y);
    oracle_layer_attention(o, l, y, h);
    for (size_t k = 0; k < d; k++)
        y[k] = (y[k] + h[k] + lau[k]) / sqrt(2);
    oracle_rms(h, y, w[NORM2].w, d, o->eps);
    oracle_mlp_block(o, l, y, h);
    modalities(o, w, y, m);
    oracle_product(c, w[ACORRECT], m, NULL);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < d; k++)
            x[i * d + k] = p[i * d + k] + (y[k] - p[k]) * (c[i] + 1);
    for (size_t k = 0; k < d; k++)
        h[k] = x[k] * w[ASCALE].w[k];
    layer_embedding(o, l, h, x0, token, z);
    for (size_t i = d; i < n * d; i++)
        x[i] += z[i % d];
    free(p);
    free(h);
    free(low);
}

void oracle_altup_layers(struct oracle *o, double *x, const double *x0, int32_t token)
{
    size_t d = o->d, n = streams(o);
    double *all = malloc((n + 1) * d * sizeof *all), *y = all + n * d;
    memcpy(all, x0, d * sizeof *all);
    for (size_t i = 1; i < n; i++)
        stream_of(o, o->begin, i - 1, x0, x0, all + i * d);
    for (size_t l = 0; l < o->layers; l++)
        altup_layer(o, l, all, x0, token);
    memcpy(x, all, d * sizeof *x);
    for (size_t i = 1; i < n; i++) {
        stream_of(o, o->end, i - 1, all + i * d, all, y);
        for (size_t k = 0; k < d; k++)
            x[k] += y[k];
    }
    for (size_t k = 0; k < d; k++)
        x[k] /= (double)n;
    free(all);
}
