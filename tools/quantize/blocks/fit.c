#include "tools/quantize/blocks/fit.h"

#include <math.h>

/* Candidates are scales with which the largest number is this much within its level, or beyond it,
   in steps of a tenth of a level. */
enum { SHORT = 20, BEYOND = 10 };
#define STEP 0.1f

enum { AGAIN = 4 }; /* times that codes and scale may follow each other */

/* Adding 1.5 * 2^23 rounds a small float to an integer, ties to even. */
static inline float nearest(const struct fit_group *g, float v)
{
    v = v > g->least ? v : g->least; /* also if v is NaN */
    v = v < g->most ? v : g->most;
    return (v + 0x1.8p23f) - 0x1.8p23f;
}

static float inverse(float d) { return d != 0 ? 1 / d : 0; }

float fit_code(const struct fit_group *g, float x, float d, float m)
{
    return nearest(g, (x - m) * inverse(d));
}

float fit_cost(const struct fit_group *g, float d, float m)
{
    float cost = 0, inv = inverse(d);
    for (int i = 0; i < g->n; i++) {
        float e = d * nearest(g, (g->x[i] - m) * inv) + m - g->x[i];
        cost += g->weight[i] * e * e;
    }
    return cost;
}

/* The d of least squares for the codes that d makes. */
static float refit(const struct fit_group *g, float d)
{
    float xq = 0, qq = 0, inv = inverse(d);
    for (int i = 0; i < g->n; i++) {
        float q = nearest(g, g->x[i] * inv), wq = g->weight[i] * q;
        xq += wq * g->x[i];
        qq += wq * q;
    }
    return qq > 0 ? xq / qq : d;
}

/* Replaces *best if the refitted d costs less. */
static void try_scale(const struct fit_group *g, float d, float *best, float *cost)
{
    for (int i = 0; i < AGAIN; i++) {
        d = refit(g, d);
        float now = fit_cost(g, d, 0);
        if (!(now < *cost))
            return;
        *cost = now;
        *best = d;
    }
}

float fit_scale(const struct fit_group *g)
{
    float largest = 0, best = 0, cost = fit_cost(g, 0, 0);
    for (int i = 0; i < g->n; i++)
        largest = fabsf(g->x[i]) > largest ? fabsf(g->x[i]) : largest;
    for (int i = -SHORT; largest > 0 && i <= BEYOND; i++) {
        float levels = (float)i * STEP - g->least;
        try_scale(g, largest / levels, &best, &cost);
        try_scale(g, -largest / levels, &best, &cost);
    }
    return best;
}

/* The d and m of least squares for the codes that d and m make. False: there is no such d. */
static bool refit_affine(const struct fit_group *g, bool below, float *d, float *m)
{
    float w = 0, x = 0, q = 0, qq = 0, xq = 0, inv = inverse(*d);
    for (int i = 0; i < g->n; i++) {
        float code = nearest(g, (g->x[i] - *m) * inv), wq = g->weight[i] * code;
        w += g->weight[i];
        x += g->weight[i] * g->x[i];
        q += wq;
        qq += wq * code;
        xq += wq * g->x[i];
    }
    float det = w * qq - q * q;
    if (!(det > 0))
        return false;
    *d = (w * xq - x * q) / det;
    *m = (qq * x - q * xq) / det;
    if (below && *m > 0) {
        *m = 0;
        *d = xq / qq;
    }
    return *d > 0;
}

void fit_affine(const struct fit_group *g, bool below, float *d, float *m)
{
    float min = below ? 0 : g->x[0], max = g->x[0];
    for (int i = 0; i < g->n; i++) {
        min = g->x[i] < min ? g->x[i] : min;
        max = g->x[i] > max ? g->x[i] : max;
    }
    *d = 0;
    *m = min;
    float cost = fit_cost(g, 0, min);
    for (int i = -SHORT; max > min && i <= BEYOND; i++) {
        float scale = (max - min) / (g->most + (float)i * STEP), start = min;
        for (int again = 0; again < AGAIN && refit_affine(g, below, &scale, &start); again++) {
            float now = fit_cost(g, scale, start);
            if (!(now < cost))
                break;
            cost = now;
            *d = scale;
            *m = start;
        }
    }
}
