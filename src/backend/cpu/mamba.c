/* Mamba-2 (models/mamba.h): the convolution in slices of channels, then each head through all
   tokens, one after the other, then the norm of each group. */
#include "conv.h"

#include <string.h>

enum { TILE = 64 }; /* tokens */

/* Step and decay of head j for n tokens from t on. */
static void steps(const struct tft_pass *p, const struct tft_layer *b, uint32_t j, uint32_t t,
                  uint32_t n, float *step, float *decay)
{
    const struct tft_mamba_shape *s = &p->m->mamba;
    size_t at = (size_t)tft_mamba_width(s) + tft_mamba_channels(s) + j;
    for (uint32_t i = 0; i < n; i++) {
        double x =
            tft_cpu_softplus((double)tft_pass_row(p, TFT_M, t + i)[at] + (double)b->mamba.bias[j]);
        step[i] = (float)x;
        decay[i] = (float)tft_exp((double)b->mamba.decay[j] * x);
    }
}

/* Head j through the tokens: its input in M becomes its output, times silu(z). */
static void run_head(const struct tft_pass *p, const struct tft_layer *b, uint32_t j)
{
    const struct tft_mamba_shape *s = &p->m->mamba;
    size_t dim = s->dim, width = tft_mamba_width(s), N = s->state, ld = tft_pass_stride(p, TFT_M),
           group = j / (s->heads / s->groups) * N,
           first = (b->taps.n - 1) * (size_t)b->taps.channels;
    float step[TILE], decay[TILE], *state = tft_cpu_state(p, b) + first;
    for (uint32_t t = 0; t < p->n; t += TILE) {
        uint32_t n = p->n - t < TILE ? p->n - t : TILE;
        float *m = tft_pass_row(p, TFT_M, t), *z = m + j * dim, *x = z + width,
              *rows = m + 2 * width + group;
        steps(p, b, j, t, n, step, decay);
        p->m->kern.scan(&(struct tft_scan){.s = state + j * dim * N,
                                           .factor = state + width * N + j,
                                           .b = rows,
                                           .c = rows + s->groups * N,
                                           .x = x,
                                           .ld = ld,
                                           .step = step,
                                           .decay = decay,
                                           .skip = b->mamba.skip[j],
                                           .T = n,
                                           .N = N,
                                           .P = dim});
        for (uint32_t i = 0; i < n; i++)
            p->m->kern.silu_mul(x + i * ld, z + i * ld, x + i * ld, dim);
    }
}

/* Writes group i of token t to A, normalised. */
static void put_group(const struct tft_pass *p, const struct tft_layer *b, uint32_t t, size_t i)
{
    const struct tft_mamba_shape *s = &p->m->mamba;
    const struct tft_input *in = tft_layer_mamba_out(b)->in;
    size_t width = tft_mamba_width(s), n = width / s->groups, at = i * n;
    float *y = tft_pass_row(p, TFT_M, t) + width + at;
    if (b->mamba.norm.w)
        p->m->kern.rmsnorm(y, y, b->mamba.norm.w + at, n, p->m->norm_eps);
    if (in->range == TFT_RANGE_STATIC)
        p->m->kern.quantize(tft_pass_bytes(p, TFT_A, t) + at, y, n, &in->affine);
    else
        memcpy(tft_pass_row(p, TFT_A, t) + at, y, n * sizeof *y);
}

static void mamba(struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_mamba_shape *s = &p->m->mamba;
    size_t begin, end;
    tft_cpu_silu_conv(p, b, tft_mamba_width(s));
    tft_pass_touch(p, 0, BIT(TFT_M) | BIT(TFT_STATES));
    tft_pass_share(p, s->heads, &begin, &end);
    for (size_t j = begin; j < end; j++)
        run_head(p, b, (uint32_t)j);
    tft_pass_touch(p, 0, BIT(TFT_M) | BIT(TFT_A));
    tft_pass_share(p, (size_t)s->groups * p->n, &begin, &end);
    for (size_t i = begin; i < end; i++)
        put_group(p, b, (uint32_t)(i / s->groups), i % s->groups);
}

void tft_cpu_mamba(struct tft_pass *p, const struct tft_layer *b)
{
    tft_pass_by_state(p, mamba, b);
    tft_cpu_quantize(p, TFT_A, tft_layer_mamba_out(b)->in);
}
