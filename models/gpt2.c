/*
 * gpt2: Radford et al. 2019 (section 2.3, on Radford et al. 2018).
 *
 *      x = embed[token] + embed_pos[position]
 *      per layer:
 *          h = layernorm(x)
 *          q, k, v = Wqkv h + bqkv, in three parts
 *          x = x + Wo attend(q, K, V) + bo
 *          h = layernorm(x)
 *          x = x + Wdown gelu(Wup h + bup) + bdown
 *      logits = Wout layernorm(x)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer gpt2 = {
    .layer_norm = true,
    .fused_qkv = true,
    .qkv_bias = true,
    .o_bias = true,
    .ffn_bias = true,
    .no_gate = true,
};

static void load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    tft_transformer_load(ld);
    m->pos_embed = tft_load_table(ld, "position_embd.weight", m->n_ctx, m->n_embd);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gelu(p, b);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_gpt2 = {
    .name = "gpt2",
    .load = load,
    .layer = layer,
    .transformer = &gpt2,
};
