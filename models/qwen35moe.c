/*
 * qwen35moe: Qwen3.5 and Qwen3.6 35B-A3B and larger, their text. qwen35 with experts of
 * renormalised weights, and a shared expert with a gate.
 *
 *      x = embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          x = x + Wout delta(h)                           models/delta_net.h
 *          or
 *          q, z = Wq h per head; k, v = Wk h, Wv h
 *          q, k = rms(q) g_q, rms(k) g_k per head          then rotated, partners half of n_rot
 *                                                          apart
 *          x = x + Wo (attend(q, K, V) * sigmoid(z))
 *          x = x + mixture(rms(x) g_ffn)                   models/mixture.h
 *      logits = Wout (rms(x) g_out)
 */
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true};

static const struct tft_transformer qwen35moe = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .mixer = tft_qwen35_mixer,
    .ffn_norm = "blk.%u.post_attention_norm",
    .mixture = &mixture,
};

const struct tft_arch tft_arch_qwen35moe = {
    .name = "qwen35moe",
    .parts = TFT_BIT(TFT_PART_OUTPUT_GATE),
    .load = tft_qwen35_load,
    .layer = tft_qwen35_layer,
    .predict = tft_qwen35_predict,
    .transformer = &qwen35moe,
};
