/*
 * exaone4: LG AI Research 2025 (arXiv 2507.11407, section 2). Norms as in olmo2, but q and k are
 * normalised head by head. In 32B three layers in four attend to a window, and the others do not
 * rotate q and k.
 *
 *      x = embed[token]
 *      per layer:
 *          q, k, v = Wq x, Wk x, Wv x
 *          q, k = rms(q) g_q, rms(k) g_k per head      then rotated, partners half a head apart
 *          x = x + rms(Wo attend(q, K, V)) g_attn
 *          x = x + rms(Wdown (silu(Wgate x) * Wup x)) g_ffn
 *      logits = Wout (rms(x) g_out)
 */
#include "model/load.h"
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

/* If some layers have a window, only they are rotated. */
static void load_block(struct tft_load *ld, unsigned layer)
{
    struct tft_layer *b = tft_load_layer(ld, layer);
    b->no_rope = !b->window && tft_load_has(ld, "attention.sliding_window");
}

static const struct tft_transformer exaone4 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .window_period = 4,
    .block = load_block,
};

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_take(p, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_heads(p, b);
    if (!b->no_rope)
        tft_rope(p, b);
    tft_attention(p, l);
    tft_residual_normed(p, &b->o, TFT_A, &b->attn_post_norm);

    tft_take(p, &b->up);
    tft_gated(p, b, TFT_SILU);
    tft_residual_normed(p, &b->down, TFT_G, &b->ffn_post_norm);
}

const struct tft_arch tft_arch_exaone4 = {
    .name = "exaone4",
    .parts = TFT_BIT(TFT_PART_NO_PRE_NORM) | TFT_BIT(TFT_PART_POST_NORM),
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &exaone4,
};
