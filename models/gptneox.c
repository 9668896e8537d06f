/*
 * gptneox: Black et al. 2022 (arXiv 2204.06745, section 2.1). Also Pythia. A part of each head is
 * rotated. With use_parallel_residual, which is usual:
 *
 *      x = embed[token]
 *      per layer:
 *          h, g = layernorm1(x), layernorm2(x)
 *          q, k, v = Wqkv h + bqkv, in three parts     q, k rotated, partners half of n_rot apart
 *          x = x + Wo attend(q, K, V) + bo + Wdown gelu(Wup g + bup) + bdown
 *      logits = Wout layernorm(x)
 *
 * Without it layernorm2 reads x after attention, as in gpt2.
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer gptneox = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .fused_qkv = true,
    .qkv_bias = true,
    .o_bias = true,
    .ffn_bias = true,
    .no_gate = true,
};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    ld->m->parallel = tft_load_flag(ld, "use_parallel_residual", true);
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_add_attention(p, b);

    tft_gelu(p, b);
    tft_residual(p, &b->down, TFT_G);
}

const struct tft_arch tft_arch_gptneox = {
    .name = "gptneox",
    .load = load,
    .layer = layer,
    .transformer = &gptneox,
};
