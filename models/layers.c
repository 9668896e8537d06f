#include "models/layers.h"

static const struct tft_norm no_norm = {0};

void tft_attention(struct tft_pass *p, uint32_t layer)
{
    const struct tft_model *m = p->m;
    if (m->encoder) {
        tft_attend_texts(p, &m->layer[layer]);
        return;
    }
    if (m->layer[layer].k.w.rows)
        tft_kv_append(p, layer);
    if (layer + 1 == m->n_layer - m->n_shared) /* the later layers add nothing to the cache */
        tft_keep_last(p);
    tft_attend(p, layer);
}

void tft_residual(struct tft_pass *p, const struct tft_linear *w, enum tft_buf from)
{
    if (!tft_model_adds_y(p->m)) {
        tft_linear_add(p, TFT_X, w, from);
        return;
    }
    tft_linear_y(p, w, from);
    tft_add_y(p, &no_norm, NULL);
}

void tft_residual_normed(struct tft_pass *p, const struct tft_linear *w, enum tft_buf from,
                         const struct tft_norm *g)
{
    tft_linear_y(p, w, from);
    tft_add_y(p, g, NULL);
}

void tft_add_attention(struct tft_pass *p, const struct tft_layer *b)
{
    if (p->m->parallel)
        tft_norm(p, &b->ffn_norm, &b->up);
    tft_residual(p, &b->o, TFT_A);
    if (!p->m->parallel)
        tft_norm(p, &b->ffn_norm, &b->up);
}

void tft_feed_forward(struct tft_pass *p, const struct tft_layer *b)
{
    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, TFT_SILU);
    tft_residual(p, &b->down, TFT_G);
}

void tft_residual_then_norm(struct tft_pass *p, const struct tft_linear *w, enum tft_buf from,
                            const struct tft_norm *g)
{
    tft_linear_y(p, w, from);
    tft_norm_sum(p, g, &no_norm);
}

/* Y = y */
static void mixture(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a)
{
    tft_norm(p, &b->ffn_norm, &b->experts.up);
    tft_route(p, b);
    if (b->up.w.rows) { /* the shared expert */
        if (b->gate.w.rows)
            tft_gated(p, b, a);
        else
            tft_plain(p, b, a);
        tft_linear_y(p, &b->down, TFT_G);
    }
    tft_experts(p, b, a);
}

void tft_add_experts(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a)
{
    tft_experts(p, b, a);
    tft_add_y(p, &no_norm, NULL);
}

void tft_mixture_of(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a)
{
    mixture(p, b, a);
    tft_add_y(p, &no_norm, NULL);
}

void tft_mixture_then_norm(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a,
                           const struct tft_norm *g)
{
    mixture(p, b, a);
    tft_norm_sum(p, g, &no_norm);
}

void tft_latent_mixture(struct tft_pass *p, const struct tft_layer *b, enum tft_activation a)
{
    const struct tft_experts *x = &b->experts;
    tft_norm(p, &b->ffn_norm, &x->latent_down);
    tft_route(p, b);
    tft_project(p, &x->latent_down);
    if (b->up.w.rows) {
        tft_norm(p, &b->ffn_norm, &b->up);
        if (b->gate.w.rows)
            tft_gated(p, b, a);
        else
            tft_plain(p, b, a);
        tft_residual(p, &b->down, TFT_G);
    }
    tft_copy(p, TFT_XN, TFT_M, &x->up);
    tft_experts(p, b, a);
    tft_copy(p, TFT_A, TFT_Y, &x->latent_up);
    tft_residual(p, &x->latent_up, TFT_A);
}

void tft_mixture(struct tft_pass *p, const struct tft_layer *b) { tft_mixture_of(p, b, TFT_SILU); }

void tft_mixture_normed(struct tft_pass *p, const struct tft_layer *b, const struct tft_norm *g)
{
    mixture(p, b, TFT_SILU);
    tft_add_y(p, g, NULL);
}
