/* Latent attention: models/latent.h has the formula. Queries, keys and mixes of attention have
   their `rot` rotated numbers first. */
#include "cpu.h"

#include <string.h>

/* M = queries of all heads, before a head's matrix. */
static void project_queries(struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_latent *x = &b->latent;
    if (!x->q_b.w.rows) {
        tft_cpu_linear(p, TFT_M, &b->q, TFT_XN, false);
        return;
    }
    tft_cpu_linear(p, TFT_L, &b->q, TFT_XN, false);
    tft_cpu_quantize(p, TFT_L, x->q_b.in); /* with a norm */
    tft_cpu_linear(p, TFT_M, &x->q_b, TFT_L, false);
}

/* Rows [from, from + rows) of `to` = a head's matrix times numbers `at` and on of `of`. */
static void multiply(struct tft_pass *p, const struct tft_mat *heads, uint32_t head,
                     enum tft_buf to, size_t from, enum tft_buf of, size_t at)
{
    struct tft_mat w = tft_mat_expert(heads, head);
    struct tft_product product = {
        .y = tft_pass_row(p, to, p->first) + from,
        .ldy = tft_pass_stride(p, to),
        .x = tft_pass_row(p, of, p->first) + at,
        .ldx = tft_pass_stride(p, of),
        .n = p->n - p->first,
    };
    w.format->product(&p->m->kern, &w, &product, 0, w.rows);
}

/* Q of M. */
static void make_queries(struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_latent_shape *s = &p->m->latent;
    size_t begin, end, key = s->nope + s->rot, dim = p->m->head_dim;
    tft_pass_touch(p, BIT(TFT_M), BIT(TFT_Q));
    tft_pass_share(p, p->m->n_head, &begin, &end);
    for (size_t h = begin; h < end; h++) {
        multiply(p, &b->latent.k_b, (uint32_t)h, TFT_Q, h * dim + s->rot, TFT_M, h * key);
        for (uint32_t t = p->first; t < p->n; t++)
            memcpy(tft_pass_row(p, TFT_Q, t) + h * dim,
                   tft_pass_row(p, TFT_M, t) + h * key + s->nope, s->rot * sizeof(float));
    }
}

/* K and V of K, a token's products c and k. V has zeros in place of the numbers that only keys
   have: the cache has keys and values of one size. */
static void make_keys(struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_latent_shape *s = &p->m->latent;
    uint32_t begin, end;
    tft_pass_touch(p, 0, BIT(TFT_K) | BIT(TFT_V));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        float *k = tft_pass_row(p, TFT_K, t), *v = tft_pass_row(p, TFT_V, t);
        memcpy(v, k, (s->rank + s->rot) * sizeof *v);
        memcpy(k, v + s->rank, s->rot * sizeof *k);
        p->m->kern.rmsnorm(k + s->rot, v, b->latent.norm.w, s->rank, p->m->norm_eps);
        memset(v, 0, s->rot * sizeof *v);
        memcpy(v + s->rot, k + s->rot, s->rank * sizeof *v);
    }
}

void tft_cpu_latent_qkv(struct tft_pass *p, const struct tft_layer *b)
{
    project_queries(p, b);
    tft_cpu_linear(p, TFT_K, &b->k, TFT_XN, false);
    make_queries(p, b);
    make_keys(p, b);
}

/* If A is bytes of a static range, the floats lie after the mixes in M. */
void tft_cpu_latent_values(struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_latent_shape *s = &p->m->latent;
    const struct tft_input *in = b->o.in;
    bool fixed = in->range == TFT_RANGE_STATIC;
    size_t begin, end, dim = p->m->head_dim, n = s->v_dim, after = p->m->n_head * dim;
    tft_pass_touch(p, 0, BIT(TFT_M) | BIT(TFT_A));
    tft_pass_share(p, p->m->n_head, &begin, &end);
    for (size_t h = begin; h < end; h++) {
        multiply(p, &b->latent.v_b, (uint32_t)h, fixed ? TFT_M : TFT_A,
                 (fixed ? after : 0) + h * n, TFT_M, h * dim + s->rot);
        for (uint32_t t = p->first; t < p->n && fixed; t++)
            p->m->kern.quantize(tft_pass_bytes(p, TFT_A, t) + h * n,
                                tft_pass_row(p, TFT_M, t) + after + h * n, n, &in->affine);
    }
    p->ops->quantize(p, TFT_A, &b->o);
}
