/* Gated delta nets (models/delta_net.h): the convolution in slices of channels, then each head
   through all tokens, one after the other. */
#include "base/exp_log.h"
#include "conv.h"

/* Queries and keys get a length, head by head. */
static void normalize(struct tft_pass *p)
{
    const struct tft_delta_shape *d = &p->m->delta;
    float eps = p->m->norm_eps / (float)d->dim;
    size_t heads = 2 * (size_t)d->k_heads, begin, end;
    tft_pass_touch(p, 0, BIT(TFT_M));
    tft_pass_share(p, heads * p->n, &begin, &end);
    for (size_t i = begin; i < end; i++) {
        float *x = tft_pass_row(p, TFT_M, (uint32_t)(i / heads)) + i % heads * d->dim;
        p->m->kern.rmsnorm(x, x, i % heads < d->k_heads ? d->q_norm : d->k_norm, d->dim, eps);
    }
}

/* -------------------------------------------------------------------------------------- a head */

enum { TILE = 64 }; /* tokens */

/* The head of keys that serves head j of the values. */
static uint32_t key_head(const struct tft_delta_shape *d, uint32_t j)
{
    return d->grouped ? j / (d->v_heads / d->k_heads) : j % d->k_heads;
}

/* The gates of head j for n tokens from t on: of K and V, or of K alone (struct
   tft_delta_shape.grouped). */
static void gates(const struct tft_pass *p, const struct tft_layer *b, uint32_t j, uint32_t t,
                  uint32_t n, float *decay, float *beta)
{
    const struct tft_delta_shape *d = &p->m->delta;
    uint32_t of_one = d->v_heads / d->k_heads,
             at_beta = d->grouped ? j + key_head(d, j) * of_one : j,
             at_alpha = d->grouped ? at_beta + of_one : j;
    enum tft_buf betas = d->grouped ? TFT_K : TFT_V;
    for (uint32_t i = 0; i < n; i++) {
        double alpha = (double)tft_pass_row(p, TFT_K, t + i)[at_alpha] + (double)b->delta.bias[j],
               y = (double)tft_pass_row(p, betas, t + i)[at_beta];
        decay[i] = (float)tft_exp((double)b->delta.decay[j] * tft_cpu_softplus(alpha));
        beta[i] = (float)(1 / (1 + tft_exp(-y)));
    }
}

/* Writes the output of head j for token t, normalised and gated, to A. y: the output, which is in M
   in place of the head's values. */
static void put_head(const struct tft_pass *p, const struct tft_layer *b, uint32_t j, uint32_t t,
                     float *y)
{
    const struct tft_kernels *kern = &p->m->kern;
    size_t dim = p->m->delta.dim, at = j * dim;
    const float *z = tft_pass_row(p, TFT_Q, t) + at;
    kern->rmsnorm(y, y, b->delta.norm.w, dim, p->m->norm_eps);
    if (b->o.in->range == TFT_RANGE_STATIC)
        kern->silu_mul_u8(tft_pass_bytes(p, TFT_A, t) + at, z, y, dim, &b->o.in->affine);
    else
        kern->silu_mul(tft_pass_row(p, TFT_A, t) + at, z, y, dim);
}

/* Head j through the tokens. */
static void run_head(const struct tft_pass *p, const struct tft_layer *b, uint32_t j)
{
    const struct tft_delta_shape *d = &p->m->delta;
    size_t dim = d->dim, of_keys = (size_t)d->k_heads * dim, of_key = key_head(d, j) * dim,
           at = (b->taps.n - 1) * (size_t)b->taps.channels + j * dim * dim;
    float decay[TILE], beta[TILE];
    for (uint32_t t = 0; t < p->n; t += TILE) {
        uint32_t n = p->n - t < TILE ? p->n - t : TILE;
        float *m = tft_pass_row(p, TFT_M, t), *v = m + 2 * of_keys + j * dim;
        gates(p, b, j, t, n, decay, beta);
        p->m->kern.delta(&(struct tft_delta){.s = tft_cpu_state(p, b) + at,
                                             .q = m + of_key,
                                             .k = m + of_keys + of_key,
                                             .v = v,
                                             .o = v,
                                             .ld = tft_pass_stride(p, TFT_M),
                                             .decay = decay,
                                             .beta = beta,
                                             .T = n,
                                             .E = dim});
        for (uint32_t i = 0; i < n; i++)
            put_head(p, b, j, t + i, v + i * tft_pass_stride(p, TFT_M));
    }
}

static void delta_net(struct tft_pass *p, const struct tft_layer *b)
{
    size_t begin, end;
    tft_cpu_silu_conv(p, b, 0);
    normalize(p);
    tft_pass_touch(p, BIT(TFT_Q) | BIT(TFT_K) | BIT(TFT_V),
                   BIT(TFT_M) | BIT(TFT_A) | BIT(TFT_STATES));
    tft_pass_share(p, p->m->delta.v_heads, &begin, &end);
    for (size_t j = begin; j < end; j++)
        run_head(p, b, (uint32_t)j);
}

void tft_cpu_delta_net(struct tft_pass *p, const struct tft_layer *b)
{
    tft_pass_by_state(p, delta_net, b);
    tft_cpu_quantize(p, TFT_A, b->o.in);
}
