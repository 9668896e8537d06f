/* Convolutions over time, a slice of channels at a time through all tokens. */
#include "conv.h"

#include <assert.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------- state */

float *tft_cpu_state(const struct tft_pass *p, const struct tft_layer *b)
{
    assert(!p->n_draft); /* else the operation lacks tft_pass_by_state */
    return tft_states_at(&p->s->states, p->draft) + b->state;
}

/* --------------------------------------------------------------------------------------- slices */

void tft_slice_open(struct tft_slice *s, const struct tft_taps *taps, float *state, size_t from,
                    size_t n)
{
    s->taps = taps;
    s->state = state;
    s->from = from;
    s->n = n;
    for (uint32_t i = 0; i + 1 < taps->n; i++)
        s->x[i] = memcpy(s->room[i], state + i * taps->channels + from, n * sizeof *state);
    s->x[taps->n - 1] = s->room[taps->n - 1];
}

void tft_slice_conv(const struct tft_slice *s, const struct tft_kernels *kern, float *y, bool silu)
{
    kern->conv(&(struct tft_conv){.y = y,
                                  .x = (const float *const *)s->x,
                                  .w = s->taps->w + s->from,
                                  .ldw = s->taps->channels,
                                  .n = s->n,
                                  .taps = s->taps->n,
                                  .silu = silu,
                                  .bias = s->taps->bias ? s->taps->bias + s->from : NULL});
}

void tft_slice_next(struct tft_slice *s)
{
    float *oldest = s->x[0];
    memmove(s->x, s->x + 1, (s->taps->n - 1) * sizeof *s->x);
    s->x[s->taps->n - 1] = oldest;
}

void tft_slice_close(const struct tft_slice *s)
{
    for (uint32_t i = 0; i + 1 < s->taps->n; i++)
        memcpy(s->state + i * s->taps->channels + s->from, s->x[i], s->n * sizeof *s->state);
}

/* ------------------------------------------------------------------------------------ with SiLU */

enum { AHEAD = 8 }; /* tokens */

/* Asks for x[n], of a later token: the rows are too far apart for a CPU to guess. */
static void ask(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i += 16)
        __builtin_prefetch(x + i, 1);
}

/* Channels of one slice through the tokens, in place. */
static void silu_slice(const struct tft_pass *p, const struct tft_layer *b, size_t at, size_t from,
                       size_t n, uint32_t begin, uint32_t end)
{
    struct tft_slice s;
    tft_slice_open(&s, &b->taps, tft_cpu_state(p, b), from, n);
    for (uint32_t t = begin; t < end; t++) {
        float *m = tft_pass_row(p, TFT_M, t) + at + from;
        if (t + AHEAD < p->n)
            ask(tft_pass_row(p, TFT_M, t + AHEAD) + at + from, n);
        memcpy(tft_slice_newest(&s), m, n * sizeof *m);
        tft_slice_conv(&s, &p->m->kern, m, true);
        tft_slice_next(&s);
    }
    tft_slice_close(&s);
}

void tft_cpu_silu_tokens(const struct tft_pass *p, const struct tft_layer *b, size_t at,
                         size_t from, size_t n, uint32_t begin, uint32_t end)
{
    for (size_t i = 0; i < n; i += TFT_SLICE)
        silu_slice(p, b, at, from + i, n - i < TFT_SLICE ? n - i : TFT_SLICE, begin, end);
}

void tft_cpu_silu_conv(struct tft_pass *p, const struct tft_layer *b, size_t at)
{
    size_t channels = b->taps.channels, begin, end;
    tft_pass_touch(p, 0, BIT(TFT_M) | BIT(TFT_STATES));
    tft_pass_share(p, (channels + TFT_SLICE - 1) / TFT_SLICE, &begin, &end);
    begin *= TFT_SLICE;
    end = end * TFT_SLICE < channels ? end * TFT_SLICE : channels;
    if (begin < end)
        tft_cpu_silu_tokens(p, b, at, begin, end - begin, 0, p->n);
}

/* ----------------------------------------------------------------------------------- short_conv */

/* Channels [s->from, + s->n) of token t: y = c * conv(b * u). */
static void put_token(const struct tft_pass *p, struct tft_slice *s, uint32_t t,
                      const struct tft_input *in)
{
    const struct tft_kernels *kern = &p->m->kern;
    size_t d = p->m->n_embd;
    const float *b = tft_pass_row(p, TFT_M, t) + s->from, *c = b + d, *u = c + d;
    float y[TFT_SLICE];
    kern->mul(tft_slice_newest(s), b, u, s->n);
    tft_slice_conv(s, kern, y, false);
    kern->mul(y, y, c, s->n);
    if (in->range == TFT_RANGE_STATIC)
        kern->quantize(tft_pass_bytes(p, TFT_A, t) + s->from, y, s->n, &in->affine);
    else
        memcpy(tft_pass_row(p, TFT_A, t) + s->from, y, s->n * sizeof *y);
    tft_slice_next(s);
}

static void short_conv(struct tft_pass *p, const struct tft_layer *b)
{
    size_t d = p->m->n_embd, begin, end;
    tft_pass_touch(p, BIT(TFT_M), BIT(TFT_A) | BIT(TFT_STATES));
    tft_pass_share(p, (d + TFT_SLICE - 1) / TFT_SLICE, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        struct tft_slice s;
        size_t from = i * TFT_SLICE, n = d - from < TFT_SLICE ? d - from : TFT_SLICE;
        tft_slice_open(&s, &b->taps, tft_cpu_state(p, b), from, n);
        for (uint32_t t = 0; t < p->n; t++)
            put_token(p, &s, t, b->o.in);
        tft_slice_close(&s);
    }
}

void tft_cpu_short_conv(struct tft_pass *p, const struct tft_layer *b)
{
    tft_pass_by_state(p, short_conv, b);
    tft_cpu_quantize(p, TFT_A, b->o.in);
}
