/*
 * falcon: Almazrouei et al. 2023 (arXiv 2311.16867, section 4). The halves of a block are computed
 * side by side; 7B has one norm for both, 40B has two.
 *
 *      x = embed[token]
 *      per layer:
 *          h, g = layernorm2(x), layernorm(x)      7B: h = g
 *          q, k, v = Wqkv h, in three parts        q, k rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V) + Wdown gelu(Wup g)
 *      logits = Wout layernorm(x)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer falcon = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .fused_qkv = true,
    .no_gate = true,
};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_transformer_values(ld);
    ld->m->parallel = ld->m->names_norm_2 = !tft_load_has_norm(ld, "blk.%u.ffn_norm", 0);
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

const struct tft_arch tft_arch_falcon = {
    .name = "falcon",
    .load = load,
    .layer = layer,
    .transformer = &falcon,
};
