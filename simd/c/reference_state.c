/* Part of the reference: the kernels of layers with a state. */
#include "reference_state.h"

#include <math.h>

#include "simd/decay.h"
#include "simd/expf.h"
#include "sums.h"

void tft_ref_mul(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = a[i] * b[i];
}

static float sigmoid_times(float a, float b)
{
    return a / (1.0f + tft_expf(-b));
}

void tft_ref_sigmoid_mul(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        y[i] = sigmoid_times(a[i], b[i]);
}

void tft_ref_conv(const struct tft_conv *g)
{
    for (size_t i = 0; i < g->n; i++) {
        float c = g->bias ? g->bias[i] : 0;
        for (size_t k = 0; k < g->taps; k++)
            c = fmaf(g->x[k][i], g->w[k * g->ldw + i], c);
        g->y[i] = g->silu ? sigmoid_times(c, c) : c;
    }
}

void tft_ref_delta(const struct tft_delta *g)
{
    size_t E = g->E;
    for (size_t t = 0; t < g->T; t++) {
        const float *k = g->k + t * g->ld, *q = g->q + t * g->ld, *v = g->v + t * g->ld;
        struct tft_decay by = tft_decay_step(*g->factor, g->decay[t]);
        float kq = dot16(k, q, E);
        for (size_t j = 0; j < E; j++) {
            float *s = g->s + j / TFT_PANEL * E * TFT_PANEL + j % TFT_PANEL, e = 0, y = 0;
            for (size_t i = 0; i < E; i++) {
                e = fmaf(k[i], s[i * TFT_PANEL], e);
                y = fmaf(q[i], s[i * TFT_PANEL], y);
            }
            float d = g->beta[t] * fmaf(-by.factor, e, v[j]);
            for (size_t i = 0; i < E; i++)
                s[i * TFT_PANEL] = fmaf(k[i], d * by.inverse, s[i * TFT_PANEL] * by.keep);
            g->o[t * g->ld + j] = fmaf(kq, d, by.factor * y);
        }
        *g->factor = by.after;
    }
}

void tft_ref_scan(const struct tft_scan *g)
{
    for (size_t t = 0; t < g->T; t++) {
        const float *b = g->b + t * g->ld, *c = g->c + t * g->ld;
        struct tft_decay by = tft_decay_step(*g->factor, g->decay[t]);
        for (size_t j = 0; j < g->P; j++) {
            float *s = g->s + j / TFT_PANEL * g->N * TFT_PANEL + j % TFT_PANEL,
                  *x = &g->x[t * g->ld + j], in = g->step[t] * *x * by.inverse, y = 0;
            for (size_t i = 0; i < g->N; i++) {
                float *a = &s[i * TFT_PANEL];
                *a = fmaf(b[i], in, *a * by.keep);
                y = fmaf(c[i], *a, y);
            }
            *x = fmaf(g->skip, *x, by.after * y);
        }
        *g->factor = by.after;
    }
}

void tft_ref_wkv(const struct tft_wkv *g)
{
    for (size_t j = 0; j < g->E; j++) {
        float *s = g->s + j / TFT_PANEL * g->E * TFT_PANEL + j % TFT_PANEL, d = 0, o = 0;
        for (size_t i = 0; i < g->E; i++)
            d = fmaf(g->c[i], s[i * TFT_PANEL], d);
        d = 0 - d;
        for (size_t i = 0; i < g->E; i++) {
            float *x = &s[i * TFT_PANEL];
            *x = fmaf(g->k[i], g->v[j], fmaf(g->a[i], d, *x * g->w[i]));
            o = fmaf(g->r[i], *x, o);
        }
        g->o[j] = o;
    }
}
