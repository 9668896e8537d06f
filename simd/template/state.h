/* The kernels of layers with a state: mul, sigmoid_mul, conv, delta, scan and wkv of
   kernels.h.
   Parameters: ISA(name) and lanes.h. */
#ifndef TFT_TEMPLATE_STATE_H
#define TFT_TEMPLATE_STATE_H

#include "activations.h"
#include "simd/decay.h"

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

/* ---------------------------------------------------------------------------------------- delta */

/* Panels of columns in one visit: enough sums in flight, and half an L1 cache at E = 128, since a
   visit of the next token reads the same part of the state again. Panels lie a multiple of 4 kB
   apart, and a load waits for a store to an address that differs by one. So a row is loaded before
   it is stored. */
enum { DELTA_PANELS = 2 };

/* Numbers of a token that all columns share. */
struct delta_token {
    struct tft_decay by;
    float kq;
};

FORCE_INLINE float delta_dot(const float *a, const float *b, size_t n)
{
    v16 sum = v_set(0);
    for (size_t i = 0; i < n; i += 16)
        sum = v_fma(v_load(a + i), v_load(b + i), sum);
    return v_hsum(sum);
}

/* How a visit changes the state, by the part of the token before. */
enum delta_change { DELTA_NOTHING, DELTA_ADD, DELTA_KEEP_ADD };

/* Reads and writes n panels once: they get the part d of token t - 1, and give the entries e and y
   for token t. Token T gets none. */
FORCE_INLINE void delta_visit(const struct tft_delta *g, float *s, size_t t,
                              enum delta_change change, float keep, const v16 *d, v16 *e, v16 *y,
                              bool read, int n)
{
    size_t E = g->E;
    const float *before = g->k + (change ? t - 1 : t) * g->ld,
                *k = g->k + (read ? t : t - 1) * g->ld, *q = g->q + (read ? t : t - 1) * g->ld;
    v16 keeps = v_set(keep);
    UNROLL for (int p = 0; p < n; p++) e[p] = y[p] = v_set(0);
    for (size_t i = 0; i < E; i++) {
        v16 old = v_set(before[i]), key = v_set(k[i]), query = v_set(q[i]);
        v16 a[DELTA_PANELS];
        UNROLL for (int p = 0; p < n; p++) a[p] = v_load(s + ((size_t)p * E + i) * 16);
        UNROLL for (int p = 0; p < n; p++)
        {
            if (change) {
                a[p] = v_fma(old, d[p], change == DELTA_ADD ? a[p] : v_mul(a[p], keeps));
                v_store(s + ((size_t)p * E + i) * 16, a[p]);
            }
            if (read) {
                e[p] = v_fma(key, a[p], e[p]);
                y[p] = v_fma(query, a[p], y[p]);
            }
        }
    }
}

/* Computes panels [panel, panel + n) of the state and of the output. */
FORCE_INLINE void delta_panels(const struct tft_delta *g, const struct delta_token *token,
                               size_t panel, int n)
{
    float *s = g->s + panel * g->E * 16;
    v16 d[DELTA_PANELS], e[DELTA_PANELS], y[DELTA_PANELS];
    delta_visit(g, s, 0, DELTA_NOTHING, 1, d, e, y, true, n);
    for (size_t t = 0; t < g->T; t++) {
        const struct tft_decay *by = &token[t].by;
        v16 minus = v_set(-by->factor), beta = v_set(g->beta[t]), kq = v_set(token[t].kq);
        UNROLL for (int p = 0; p < n; p++) {
            size_t at = t * g->ld + (panel + (size_t)p) * 16;
            v16 x = v_mul(beta, v_fma(minus, e[p], v_load(g->v + at)));
            v_store(g->o + at, v_fma(kq, x, v_mul(v_set(by->factor), y[p])));
            d[p] = v_mul(x, v_set(by->inverse));
        }
        if (t + 1 == g->T)
            delta_visit(g, s, t + 1, DELTA_KEEP_ADD, by->keep, d, e, y, false, n);
        else if (by->keep == 1)
            delta_visit(g, s, t + 1, DELTA_ADD, by->keep, d, e, y, true, n);
        else
            delta_visit(g, s, t + 1, DELTA_KEEP_ADD, by->keep, d, e, y, true, n);
    }
}

static void ISA(delta)(const struct tft_delta *g)
{
    struct delta_token token[TFT_DELTA_TOKENS];
    size_t panels = g->E / 16, i = 0;
    if (!g->T)
        return;
    for (size_t t = 0; t < g->T; t++) {
        token[t].by = tft_decay_step(*g->factor, g->decay[t]);
        token[t].kq = delta_dot(g->k + t * g->ld, g->q + t * g->ld, g->E);
        *g->factor = token[t].by.after;
    }
    for (; i + DELTA_PANELS <= panels; i += DELTA_PANELS)
        delta_panels(g, token, i, DELTA_PANELS);
    for (; i < panels; i++)
        delta_panels(g, token, i, 1);
}

/* ----------------------------------------------------------------------------------------- scan */

/* Tokens and panels of columns in one visit of the state. */
enum { SCAN_TOKENS = LANES == 16 ? 4 : 2, SCAN_PANELS = LANES == 16 ? 2 : 1 };

/* Computes panels [panel, panel + n) of the state and of the output, of tokens [t, t + T). */
FORCE_INLINE void scan_visit(const struct tft_scan *g, const struct tft_decay *by, size_t t,
                             size_t panel, bool keep, int T, int n)
{
    size_t N = g->N;
    const float *b = g->b + t * g->ld, *c = g->c + t * g->ld;
    float *s = g->s + panel * N * 16, *x = g->x + t * g->ld + panel * 16;
    v16 in[SCAN_TOKENS][SCAN_PANELS], y[SCAN_TOKENS][SCAN_PANELS];
    UNROLL for (int k = 0; k < T; k++)
    {
        UNROLL for (int p = 0; p < n; p++) {
            v16 input =
                v_mul(v_set(g->step[t + (size_t)k]), v_load(x + (size_t)k * g->ld + p * 16));
            in[k][p] = v_mul(input, v_set(by[k].inverse));
            y[k][p] = v_set(0);
        }
    }
    for (size_t i = 0; i < N; i++) {
        v16 a[SCAN_PANELS];
        UNROLL for (int p = 0; p < n; p++) a[p] = v_load(s + ((size_t)p * N + i) * 16);
        UNROLL for (int k = 0; k < T; k++)
        {
            v16 to = v_set(b[(size_t)k * g->ld + i]), from = v_set(c[(size_t)k * g->ld + i]);
            UNROLL for (int p = 0; p < n; p++) {
                a[p] = keep ? v_mul(a[p], v_set(by[k].keep)) : a[p];
                a[p] = v_fma(to, in[k][p], a[p]);
                y[k][p] = v_fma(from, a[p], y[k][p]);
            }
        }
        UNROLL for (int p = 0; p < n; p++) v_store(s + ((size_t)p * N + i) * 16, a[p]);
    }
    UNROLL for (int k = 0; k < T; k++)
    {
        UNROLL for (int p = 0; p < n; p++)
        {
            float *at = x + (size_t)k * g->ld + p * 16;
            v16 out = v_mul(v_set(by[k].after), y[k][p]);
            v_store(at, v_fma(v_set(g->skip), v_load(at), out));
        }
    }
}

/* All panels of T tokens from t on. */
FORCE_INLINE void scan_tokens(const struct tft_scan *g, size_t t, int T)
{
    struct tft_decay by[SCAN_TOKENS];
    bool keep = false;
    for (int k = 0; k < T; k++) {
        by[k] = tft_decay_step(*g->factor, g->decay[t + (size_t)k]);
        *g->factor = by[k].after;
        keep |= by[k].keep != 1;
    }
    size_t panels = g->P / 16, i = 0;
    for (; i + SCAN_PANELS <= panels; i += SCAN_PANELS)
        if (keep)
            scan_visit(g, by, t, i, true, T, SCAN_PANELS);
        else
            scan_visit(g, by, t, i, false, T, SCAN_PANELS);
    for (; i < panels; i++)
        scan_visit(g, by, t, i, true, T, 1);
}

static void ISA(scan)(const struct tft_scan *g)
{
    size_t t = 0;
    for (; t + SCAN_TOKENS <= g->T; t += SCAN_TOKENS)
        scan_tokens(g, t, SCAN_TOKENS);
    for (; t < g->T; t++)
        scan_tokens(g, t, 1);
}

/* ------------------------------------------------------------------------------------------ wkv */

/* Panels of columns that are processed together: the number of sums in flight. */
enum { STATE_PANELS = LANES == 16 ? 4 : 2 };

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
        v16 x[STATE_PANELS];
        UNROLL for (int p = 0; p < n; p++) x[p] =
            v_load(s + ((size_t)p * E + i) * 16); /* all before the first store, as delta */
        UNROLL for (int p = 0; p < n; p++) {
            x[p] = v_fma(key, v[p], v_fma(old, d[p], v_mul(x[p], decay)));
            v_store(s + ((size_t)p * E + i) * 16, x[p]);
            o[p] = v_fma(query, x[p], o[p]);
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
