/* Gated delta nets (models/delta_net.h): each head of keys, with the heads of values that it
   serves, through all tokens, one after the other. */
#include "base/exp_log.h"
#include "conv.h"

enum { TILE = TFT_DELTA_TOKENS }; /* one head's numbers of a tile stay in an L2 cache */

/* ----------------------------------------------------------------------------- a head of values */

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

/* Head j of the values through tokens [t, t + n). */
static void run_head(const struct tft_pass *p, const struct tft_layer *b, uint32_t j, uint32_t t,
                     uint32_t n)
{
    const struct tft_delta_shape *d = &p->m->delta;
    size_t dim = d->dim, of_keys = (size_t)d->k_heads * dim, of_key = key_head(d, j) * dim,
           own = 2 * of_keys + j * dim, ld = tft_pass_stride(p, TFT_M),
           of_conv = (b->taps.n - 1) * (size_t)b->taps.channels;
    float decay[TILE], beta[TILE];
    float *m = tft_pass_row(p, TFT_M, t), *s = tft_cpu_state(p, b) + of_conv;
    tft_cpu_silu_tokens(p, b, 0, own, dim, t, t + n);
    gates(p, b, j, t, n, decay, beta);
    p->m->kern.delta(&(struct tft_delta){.s = s + j * dim * dim,
                                         .factor = s + d->v_heads * dim * dim + j,
                                         .q = m + of_key,
                                         .k = m + of_keys + of_key,
                                         .v = m + own,
                                         .o = m + own,
                                         .ld = ld,
                                         .decay = decay,
                                         .beta = beta,
                                         .T = n,
                                         .E = dim});
    for (uint32_t i = 0; i < n; i++)
        put_head(p, b, j, t + i, m + own + i * ld);
}

/* ------------------------------------------------------------------------------- a head of keys */

/* Queries, if `at` is 0, or keys of head h, for tokens [t, t + n): the convolution, then their
   length. */
static void prepare(const struct tft_pass *p, const struct tft_layer *b, size_t at, uint32_t h,
                    uint32_t t, uint32_t n)
{
    const struct tft_delta_shape *d = &p->m->delta;
    const float *norm = at ? d->k_norm : d->q_norm;
    float eps = p->m->norm_eps / (float)d->dim;
    at += (size_t)h * d->dim;
    tft_cpu_silu_tokens(p, b, 0, at, d->dim, t, t + n);
    for (uint32_t i = t; i < t + n; i++) {
        float *x = tft_pass_row(p, TFT_M, i) + at;
        p->m->kern.rmsnorm(x, x, norm, d->dim, eps);
    }
}

/* Head h of the keys, and the heads of values that it serves, through all tokens. */
static void run_key_head(const struct tft_pass *p, const struct tft_layer *b, uint32_t h)
{
    const struct tft_delta_shape *d = &p->m->delta;
    for (uint32_t t = 0; t < p->n; t += TILE) {
        uint32_t n = p->n - t < TILE ? p->n - t : TILE;
        prepare(p, b, 0, h, t, n);
        prepare(p, b, (size_t)d->k_heads * d->dim, h, t, n);
        for (uint32_t j = 0; j < d->v_heads; j++)
            if (key_head(d, j) == h)
                run_head(p, b, j, t, n);
    }
}

static void delta_net(struct tft_pass *p, const struct tft_layer *b)
{
    size_t begin, end;
    tft_pass_touch(p, BIT(TFT_Q) | BIT(TFT_K) | BIT(TFT_V),
                   BIT(TFT_M) | BIT(TFT_A) | BIT(TFT_STATES));
    tft_pass_share(p, p->m->delta.k_heads, &begin, &end);
    for (size_t h = begin; h < end; h++)
        run_key_head(p, b, (uint32_t)h);
}

void tft_cpu_delta_net(struct tft_pass *p, const struct tft_layer *b)
{
    tft_pass_by_state(p, delta_net, b);
    tft_cpu_quantize(p, TFT_A, b->o.in);
}
