/*
 * cohere2: Command R7B and Tiny Aya (Cohere 2025, arXiv 2504.00698, section 2.1). The halves of a
 * block are computed side by side, after one LayerNorm without a bias. Three layers in four attend
 * to a window; the others do not rotate q and k. l is the file's logit_scale.
 *
 *      x = embed[token]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          x = x + Wo attend(q, K, V) + Wdown (silu(Wgate h) * Wup h)
 *      logits = l Wout layernorm(x)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static void load_block(struct tft_load *ld, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    b->no_rope = !b->window;
}

static const struct tft_transformer cohere2 = {
    .rope = TFT_ROPE_PAIRS,
    .layer_norm = true,
    .bare_norms = true,
    .window_period = 4,
    .block = load_block,
};

void tft_cohere_load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    m->logit_scale = tft_load_factor(ld, "logit_scale", 1);
    m->parallel = m->names_norm_2 = true;
    tft_transformer_tensors(ld);
}

void tft_cohere_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    if (!b->no_rope)
        tft_rope(p, b);
    tft_attention(p, l);
    tft_add_attention(p, b);

    tft_gated(p, b, TFT_SILU);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_cohere2 = {
    .name = "cohere2",
    .parts = TFT_BIT(TFT_PART_ROPE_LAYERS),
    .load = tft_cohere_load,
    .layer = tft_cohere_layer,
    .transformer = &cohere2,
};
