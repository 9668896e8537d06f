/*
 * hunyuan-dense: Tencent 2025 (Hunyuan 0.5B to 7B). As qwen3, but q and k are normalised after the
 * rotation.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated, partners half a head apart
 *          q, k = rms(q) g_q, rms(k) g_k per head
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer hunyuan_dense = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
};

void tft_hunyuan_layer(struct tft_pass *p, uint32_t l)
{
    const struct tft_layer *b = &p->m->layer[l];
    tft_norm(p, &b->attn_norm, &b->q);
    tft_qkv(p, b);
    tft_rope(p, b);
    tft_rmsnorm_heads(p, b);
    tft_attention(p, l);
    tft_residual(p, &b->o, TFT_A);

    if (tft_layer_has_experts(b)) /* hunyuan-moe */
        tft_mixture(p, b);
    else
        tft_feed_forward(p, b);
}

const struct tft_arch tft_arch_hunyuan_dense = {
    .name = "hunyuan-dense",
    .parts = TFT_BIT(TFT_PART_LATE_QK_NORM),
    .load = tft_transformer_load,
    .layer = tft_hunyuan_layer,
    .transformer = &hunyuan_dense,
};
