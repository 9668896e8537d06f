#include "oracle/inside.h"

#include <math.h>
#include <stdlib.h>

/* Number `i` of head h's key (without the rotated numbers), or value, of the token with c. */
static double latent_key(const struct oracle *o, const struct matrix *w, size_t h, size_t i,
                         const double *c)
{
    size_t nope = o->key - o->rot;
    double sum = 0;
    for (size_t r = 0; r < o->rank; r++)
        sum += c[r] * (w[KVB].w ? w[KVB].w[(h * (nope + o->value) + i) * o->rank + r]
                                : w[KBW].w[(h * o->rank + r) * nope + i]);
    return sum;
}

static double latent_value(const struct oracle *o, const struct matrix *w, size_t h, size_t i,
                           const double *c)
{
    size_t nope = o->key - o->rot;
    double sum = 0;
    for (size_t r = 0; r < o->rank; r++)
        sum += c[r] * (w[KVB].w ? w[KVB].w[(h * (nope + o->value) + nope + i) * o->rank + r]
                                : w[VBW].w[(h * o->value + i) * o->rank + r]);
    return sum;
}

/* deepseek2, minicpm3: out = the values of head h, mixed. q: [key], rotated; p: scratch
   [pos + 1] */
static void latent_head(const struct oracle *o, size_t l, size_t h, const double *q, double *p,
                        double *out)
{
    const struct matrix *w = o->layer + l * PARTS;
    const double *past = o->k + l * o->capacity * o->dim;
    size_t nope = o->key - o->rot;
    double sum = 0, max = -INFINITY;
    for (size_t t = 0; t <= o->pos; t++) {
        const double *c = past + t * o->dim;
        p[t] = 0;
        for (size_t i = 0; i < nope; i++)
            p[t] += q[i] * latent_key(o, w, h, i, c);
        for (size_t i = 0; i < o->rot; i++)
            p[t] += q[nope + i] * c[o->rank + i];
        p[t] *= o->a;
        max = fmax(max, p[t]);
    }
    for (size_t t = 0; t <= o->pos; t++)
        sum += p[t] = exp(p[t] - max);
    for (size_t i = 0; i < o->value; i++) {
        out[i] = 0;
        for (size_t t = 0; t <= o->pos; t++)
            out[i] += p[t] / sum * latent_value(o, w, h, i, past + t * o->dim);
    }
}

void oracle_latent_block(struct oracle *o, size_t l, double *x, const double *h)
{
    const struct matrix *w = o->layer + l * PARTS;
    double *q = malloc(o->heads * o->key * sizeof *q), *a = malloc(o->heads * o->value * sizeof *a),
           *z = malloc((w[QA].rows + 1) * sizeof *z), *y = malloc(o->d * sizeof *y),
           *p = malloc((o->pos + 1) * sizeof *p), *c = o->k + (l * o->capacity + o->pos) * o->dim;
    if (w[QA].w) {
        oracle_product(z, w[QA], h, NULL);
        oracle_rms(z, z, w[QAN].w, w[QA].rows, o->eps);
        oracle_product(q, w[QBW], z, NULL);
    } else {
        oracle_product(q, w[QW], h, NULL);
    }
    oracle_product(c, w[KVA], h, NULL);
    oracle_rms(c, c, w[KVN].w, o->rank, o->eps);
    oracle_rotate(o, l, c + o->rank);
    for (size_t i = 0; i < o->heads; i++) {
        oracle_rotate(o, l, q + (i + 1) * o->key - o->rot);
        latent_head(o, l, i, q + i * o->key, p, a + i * o->value);
    }
    oracle_product(y, w[OW], a, NULL);
    oracle_add(o, x, y, NULL);
    free(q);
    free(a);
    free(z);
    free(y);
    free(p);
}
