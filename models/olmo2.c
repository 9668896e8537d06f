/*
 * olmo2: OLMo Team 2024 (arXiv 2501.00656, section 2.2). Norms come after attention and
 * feed-forward, and q and k are normalised over all their heads together. In OLMo 3 three layers in
 * four attend to a window; YaRN is for the others, with the factor of cosines and sines that its
 * configuration names, attention_factor, 0.1 ln(8) + 1. llama.cpp multiplies it by that once more.
 *
 *      x = embed[token]
 *      per layer:
 *          q, k, v = Wq x, Wk x, Wv x
 *          q, k = rms(q) g_q, rms(k) g_k     then rotated, partners half a head apart
 *          x = x + rms(Wo attend(q, K, V)) g_attn
 *          x = x + rms(Wdown (silu(Wgate x) * Wup x)) g_ffn
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer olmo2 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_WHOLE,
    .window_period = 4,
    .window_plain_rope = true,
    .whole_attn_factor = true,
};

static void layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_block *b = &p->m->block[l];
    tft_take(p, &b->q);
    tft_qkv(p, b);
    tft_rmsnorm_whole(p, b);
    tft_rope(p, b);
    tft_attention(p, l);
    tft_residual_normed(p, &b->o, TFT_A, &b->attn_post_norm);

    tft_take(p, &b->up);
    tft_gated(p, b, TFT_SILU);
    tft_residual_normed(p, &b->down, TFT_G, &b->ffn_post_norm);
}

const struct tft_arch tft_arch_olmo2 = {
    .name = "olmo2",
    .pieces = 1u << TFT_PIECE_NO_PRE_NORM | 1u << TFT_PIECE_POST_NORM | 1u << TFT_PIECE_WHOLE_QK_NORM,
    .load = tft_transformer_load,
    .layer = layer,
    .transformer = &olmo2,
};
