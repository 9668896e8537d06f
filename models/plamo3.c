/*
 * plamo3: PLaMo 3 (Preferred Networks 2025). Norms before and after attention and feed-forward, and
 * of q and k. Layers with a window are rotated with a base of their own.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g1
 *          q, k, v = Wqkv h, in three parts
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
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

static const struct tft_transformer plamo3 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .short_names = true,
    .fused_qkv = true,
    .fused_gate = true,
    .window_period = 8,
};

static void load(struct tft_load *ld)
{
    tft_transformer_load(ld);
    if (tft_load_has(ld, "attention.sliding_window"))
        tft_load_rope_window(ld, 10000, ld->m->head_dim);
}

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual_normed(p, &b->o, TFT_A, &b->attn_post_norm);

    tft_norm(p, &b->ffn_norm, &b->up);
    tft_gated(p, b, TFT_SILU);
    tft_residual_normed(p, &b->down, TFT_G, &b->ffn_post_norm);
}

const struct tft_arch tft_arch_plamo3 = {
    .name = "plamo3",
    .parts = TFT_BIT(TFT_PART_POST_NORM),
    .load = load,
    .layer = layer,
    .transformer = &plamo3,
};
