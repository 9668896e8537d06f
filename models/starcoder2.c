/*
 * starcoder2: Lozhkov et al. 2024 (arXiv 2402.19173, section 6).
 *
 *      x = embed[token]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wq h + bq, Wk h + bk, Wv h + bv      q, k rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V) + bo
 *          h = layernorm(x)
 *          x = x + Wdown gelu(Wup h + bup) + bdown
 *      logits = Wout layernorm(x)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer starcoder2 = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .qkv_bias = true,
    .o_bias = true,
    .ffn_bias = true,
    .no_gate = true,
    .window_period = TFT_WINDOW_EVERYWHERE,
};

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gelu(p, b);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_starcoder2 = {
    .name = "starcoder2",
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &starcoder2,
};
