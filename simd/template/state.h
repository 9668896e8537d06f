/* The kernels of layers with a state: mul, sigmoid_mul, conv and delta of kernels.h. Parameters:
   ISA(name) and lanes.h. */
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
        v16 c = v_set(0);
        for (size_t k = 0; k < g->taps; k++)
            c = v_fma(v_load_n(g->x[k] + i, left), v_load_n(g->w + k * g->ldw + i, left), c);
        v_store_n(g->y + i, g->silu ? gated(c, c) : c, left);
    }
}

/* Panels of columns that delta processes together: the number of sums in flight, with a part of the
   state that stays in an L1 cache from one token to the next. */
enum { DELTA_PANELS = LANES == 16 ? 4 : 2 };

/* Computes panels [panel, panel + n) of the state and of the output, token by token. */
FORCE_INLINE void delta_panels(const struct tft_delta *g, size_t panel, int n)
{
    size_t E = g->E;
    float *s = g->s + panel * E * 16;
    for (size_t t = 0; t < g->T; t++) {
        const float *k = g->k + t * g->ld, *q = g->q + t * g->ld,
                    *v = g->v + t * g->ld + panel * 16;
        float *y = g->o + t * g->ld + panel * 16;
        v16 decay = v_set(g->decay[t]), beta = v_set(g->beta[t]), e[DELTA_PANELS], o[DELTA_PANELS];
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
    for (; i + DELTA_PANELS <= panels; i += DELTA_PANELS)
        delta_panels(g, i, DELTA_PANELS);
    for (; i < panels; i++)
        delta_panels(g, i, 1);
}

#endif
