/* Per-layer embeddings: models/layer_embed.h has the formula. */
#include "cpu.h"

#include <math.h>

/* Makes per-layer embeddings of p, the products Wp x of a token, by adding the token's row of the
   table. Both: [n_layer n]; `row` is overwritten. */
static void mix(const struct tft_model *m, float *p, float *row)
{
    const struct tft_kernels *kern = &m->kern;
    const struct tft_layer_embed *e = &m->layer_embed;
    size_t all = (size_t)m->n_layer * e->n;
    kern->scale(p, 1 / sqrtf((float)m->n_embd), all);
    for (size_t at = 0; at < all; at += e->n)
        kern->rmsnorm(p + at, p + at, e->norm.w, e->n, m->norm_eps);
    kern->scale(row, sqrtf((float)e->n), all);
    kern->add(p, row, all);
    kern->scale(p, 1 / sqrtf(2.0f), all);
}

/* Reads rows of the table from the mapped file as they are needed: the table is larger than the
   rest of the model. */
void tft_cpu_layer_embed(struct tft_pass *p)
{
    const struct tft_model *m = p->m;
    const struct tft_layer_embed *e = &m->layer_embed;
    float *row = p->work->embed_row + (size_t)p->tid * tft_pass_stride(p, TFT_P);
    uint32_t begin, end;
    tft_cpu_linear(p, TFT_P, &e->w, TFT_XN, false);
    tft_pass_touch(p, 0, BIT(TFT_P));
    tft_pass_share_tokens(p, &begin, &end);
    for (uint32_t t = begin; t < end; t++) {
        tft_mat_row(m, &e->embed, (uint32_t)p->tokens[t], row);
        mix(m, tft_pass_row(p, TFT_P, t), row);
    }
}

void tft_cpu_embed_gate(struct tft_pass *p, uint32_t layer)
{
    const struct tft_model *m = p->m;
    const struct tft_layer *b = &m->layer[layer];
    size_t n = m->layer_embed.n;
    tft_cpu_linear(p, TFT_I, &b->embed_gate, TFT_XN, false);
    tft_pass_touch(p, BIT(TFT_P), BIT(TFT_I));
    struct tft_part part = tft_pass_part(p, n, TFT_LINE);
    for (uint32_t t = part.begin; t < part.end; t++) {
        float *g = tft_pass_row(p, TFT_I, t) + part.from;
        m->kern.gelu_mul(g, g, tft_pass_row(p, TFT_P, t) + layer * n + part.from,
                         part.to - part.from);
    }
    tft_cpu_quantize(p, TFT_I, b->embed_out.in);
}
