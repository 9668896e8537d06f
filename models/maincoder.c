/*
 * maincoder: Maincode 2025 (Maincoder 1B). As hunyuan-dense, with RoPE in neighbouring pairs.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          q, k, v = Wq h, Wk h, Wv h        q, k rotated in neighbouring pairs
 *          q, k = rms(q) g_q, rms(k) g_k per head
 *          x = x + Wo attend(q, K, V)
 *          h = rms(x) g_ffn
 *          x = x + Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer maincoder = {
    .rope = TFT_ROPE_PAIRS,
    .qk_norm = TFT_QK_NORM_HEADS,
};

const struct tft_arch tft_arch_maincoder = {
    .name = "maincoder",
    .parts = TFT_BIT(TFT_PART_LATE_QK_NORM),
    .load = tft_transformer_load,
    .layer = tft_hunyuan_layer,
    .transformer = &maincoder,
};
