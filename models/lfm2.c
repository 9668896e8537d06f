/*
 * lfm2: Liquid AI 2025 (arXiv 2511.23404, section 2). Most layers, with an attention.head_count_kv
 * of 0, have a short convolution instead of attention.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          x = x + Wout conv(Win h)                        models/short_conv.h
 *          or
 *          q, k, v = Wq h, Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head          then rotated, partners half a head apart
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 *
 * Files call g_out token_embd_norm. Where they name a window, all layers with attention have it.
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/short_conv.h"
#include "models/transformer.h"

static const struct tft_transformer lfm2 = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .window_period = TFT_WINDOW_EVERYWHERE,
    .mixer = tft_short_conv_load,
    .out_norm = "token_embd_norm",
};

void tft_lfm2_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->reads[0]);
    if (b->mixer == TFT_MIX_SHORT_CONV) {
        tft_short_conv_mix(p, l);
    } else {
        tft_qkv(p, b);
        tft_rmsnorm_heads(p, b);
        tft_rope(p, b);
        tft_attention(p, l);
    }
    tft_residual(p, &b->o, TFT_A);

    if (tft_layer_has_experts(b)) /* lfm2moe */
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_lfm2 = {
    .name = "lfm2",
    .load = tft_transformer_load,
    .layer = tft_lfm2_layer,
    .transformer = &lfm2,
};
