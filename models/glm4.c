/*
 * glm4: GLM-4-0414 and GLM-Z1, 9B and 32B (transformers: Glm4ForCausalLM). Norms before and after
 * attention and feed-forward; a part of each head is rotated. Files with rope.dimension_sections,
 * of models for images, have the rows of q and k in another order.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g1
 *          q, k, v = Wq h + bq, Wk h + bk, Wv h + bv   biases where the file has them; q, k rotated
 *                                                      in neighbouring pairs, or partners half of
 *                                                      n_rot apart
 *          x = x + rms(Wo attend(q, K, V)) g2
 *          h = rms(x) g3
 *          gate, up = Wup h, in two parts
 *          x = x + rms(Wdown (silu(gate) * up)) g4
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer glm4 = {.fused_gate = true};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_load_rope(ld, tft_load_has(ld, "rope.dimension_sections"), false);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual_normed(p, &b->o, TFT_A, &b->attn_post_norm);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, TFT_SILU);
    tft_residual_normed(p, &b->down, TFT_G, &b->ffn_post_norm);
}

const struct tft_arch tft_arch_glm4 = {
    .name = "glm4",
    .parts = TFT_BIT(TFT_PART_POST_NORM),
    .load = load,
    .layer = layer,
    .transformer = &glm4,
};
