/* The kernels of layers with a state: mul, sigmoid_mul, conv, delta, scan and wkv of
   kernels.h.
   Parameters: ISA(name) and lanes.h. */
#ifndef TFT_TEMPLATE_STATE_H
#define TFT_TEMPLATE_STATE_H

#include "activations.h"

static void ISA(mul)(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        v_store_n(y + i, v_mul(v_load_n(a + i, n - i), v_load_n(b + i, n - i)), n - i);
}

static void ISA(sigmoid_mul)(float *y, const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        v_store_n(y + i, gated(v_load_n(a + i, n - i), v_load_n(b + i, n - i)), n - i);
}

static void ISA(conv)(const struct tft_conv *g)
{
    for (size_t i = 0; i < g->n; i += 16) {
        size_t left = g->n - i;
        v16 c = g->bias ? v_load_n(g->bias + i, left) : v_set(0);
        for (size_t k = 0; k < g->taps; k++)
            c = v_fma(v_load_n(g->x[k] + i, left), v_load_n(g->w + k * g->ldw + i, left), c);
        v_store_n(g->y + i, g->silu ? gated(c, c) : c, left);
    }
}

/* Panels of columns that delta, scan and wkv process together: the number of sums in flight, with a
   part of the state that stays in an L1 cache from one token to the next. */
enum { STATE_PANELS = LANES == 16 ? 4 : 2 };

/* Computes panels [panel, panel + n) of the state and of the output, token by token. */
FORCE_INLINE void delta_panels(const struct tft_delta *g, size_t panel, int n)
{
    size_t E = g->E;
    float *s = g->s + panel * E * 16;
    for (size_t t = 0; t < g->T; t++) {
        const float *k = g->k + t * g->ld, *q = g->q + t * g->ld,
                    *v = g->v + t * g->ld + panel * 16;
        float *y = g->o + t * g->ld + panel * 16;
        v16 decay = v_set(g->decay[t]), beta = v_set(g->beta[t]), e[STATE_PANELS], o[STATE_PANELS];
        UNROLL for (int p = 0; p < n; p++)
            e[p] = v_set(0);
        for (size_t i = 0; i < E; i++) {
            v16 key = v_set(k[i]);
            UNROLL for (int p = 0; p < n; p++)
                e[p] = v_fma(key, v_mul(v_load(s + ((size_t)p * E + i) * 16), decay), e[p]);
        }
        UNROLL for (int p = 0; p < n; p++) {
            e[p] = v_mul(beta, v_sub(v_load(v + p * 16), e[p]));
            o[p] = v_set(0);
        }
        for (size_t i = 0; i < E; i++) {
            v16 key = v_set(k[i]), query = v_set(q[i]);
            UNROLL for (int p = 0; p < n; p++) {
                float *at = s + ((size_t)p * E + i) * 16;
                v16 a = v_fma(key, e[p], v_mul(v_load(at), decay));
                v_store(at, a);
                o[p] = v_fma(query, a, o[p]);
            }
        }
        UNROLL for (int p = 0; p < n; p++)
            v_store(y + p * 16, o[p]);
    }
}

static void ISA(delta)(const struct tft_delta *g)
{
    size_t panels = g->E / 16, i = 0;
    for (; i + STATE_PANELS <= panels; i += STATE_PANELS)
        delta_panels(g, i, STATE_PANELS);
    for (; i < panels; i++)
        delta_panels(g, i, 1);
}

/* Computes panels [panel, panel + n) of the state and of the output, token by token. */
FORCE_INLINE void scan_panels(const struct tft_scan *g, size_t panel, int n)
{
    size_t N = g->N;
    float *s = g->s + panel * N * 16;
    v16 skip = v_set(g->skip);
    for (size_t t = 0; t < g->T; t++) {
        const float *b = g->b + t * g->ld, *c = g->c + t * g->ld;
        float *x = g->x + t * g->ld + panel * 16;
        v16 decay = v_set(g->decay[t]), step = v_set(g->step[t]), in[STATE_PANELS],
            y[STATE_PANELS];
        UNROLL for (int p = 0; p < n; p++) {
            in[p] = v_mul(step, v_load(x + p * 16));
            y[p] = v_set(0);
        }
        for (size_t i = 0; i < N; i++) {
            v16 to = v_set(b[i]), from = v_set(c[i]);
            UNROLL for (int p = 0; p < n; p++) {
                float *at = s + ((size_t)p * N + i) * 16;
                v16 a = v_fma(to, in[p], v_mul(v_load(at), decay));
                v_store(at, a);
                y[p] = v_fma(from, a, y[p]);
            }
        }
        UNROLL for (int p = 0; p < n; p++)
            v_store(x + p * 16, v_fma(skip, v_load(x + p * 16), y[p]));
    }
}

static void ISA(scan)(const struct tft_scan *g)
{
    size_t panels = g->P / 16, i = 0;
    for (; i + STATE_PANELS <= panels; i += STATE_PANELS)
        scan_panels(g, i, STATE_PANELS);
    for (; i < panels; i++)
        scan_panels(g, i, 1);
}

/* Computes panels [panel, panel + n) of the state and of the output. */
FORCE_INLINE void wkv_panels(const struct tft_wkv *g, size_t panel, int n)
{
    size_t E = g->E;
    float *s = g->s + panel * E * 16;
    v16 d[STATE_PANELS], v[STATE_PANELS], o[STATE_PANELS];
    UNROLL for (int p = 0; p < n; p++)
        d[p] = v_set(0);
    for (size_t i = 0; i < E; i++) {
        v16 at = v_set(g->c[i]);
        UNROLL for (int p = 0; p < n; p++)
            d[p] = v_fma(at, v_load(s + ((size_t)p * E + i) * 16), d[p]);
    }
    UNROLL for (int p = 0; p < n; p++) {
        d[p] = v_sub(v_set(0), d[p]);
        v[p] = v_load(g->v + (panel + (size_t)p) * 16);
        o[p] = v_set(0);
    }
    for (size_t i = 0; i < E; i++) {
        v16 decay = v_set(g->w[i]), old = v_set(g->a[i]), key = v_set(g->k[i]),
            query = v_set(g->r[i]);
        UNROLL for (int p = 0; p < n; p++) {
            float *at = s + ((size_t)p * E + i) * 16;
            v16 x = v_fma(key, v[p], v_fma(old, d[p], v_mul(v_load(at), decay)));
            v_store(at, x);
            o[p] = v_fma(query, x, o[p]);
        }
    }
    UNROLL for (int p = 0; p < n; p++)
        v_store(g->o + (panel + (size_t)p) * 16, o[p]);
}

static void ISA(wkv)(const struct tft_wkv *g)
{
    size_t panels = g->E / 16, i = 0;
    for (; i + STATE_PANELS <= panels; i += STATE_PANELS)
        wkv_panels(g, i, STATE_PANELS);
    for (; i < panels; i++)
        wkv_panels(g, i, 1);
}

#endif
