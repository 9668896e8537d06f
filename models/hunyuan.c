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
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer hunyuan_dense = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
};

const struct tft_arch tft_arch_hunyuan_dense = {
    .name = "hunyuan-dense",
    .pieces = 1u << TFT_PIECE_LATE_QK_NORM,
    .load = tft_transformer_load,
    .layer = tft_transformer_layer,
    .transformer = &hunyuan_dense,
};
