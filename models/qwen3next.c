/*
 * qwen3next: Qwen3-Next 80B-A3B (Qwen 2025). The formula of models/qwen35moe.c. In its delta nets,
 * neighbouring heads of values share a head of keys, and one matrix, ssm_ba, makes the numbers of
 * both gates (models/delta_net.h).
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
#include "model/load.h"
#include "models/layers.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {.renorm = true};

static const struct tft_transformer qwen3next = {
    .rope = TFT_ROPE_HALVES,
    .qk_norm = TFT_QK_NORM_HEADS,
    .mixer = tft_qwen35_mixer,
    .ffn_norm = "blk.%u.post_attention_norm",
    .mixture = &mixture,
};

static void load(struct tft_load *ld)
{
    ld->m->delta.grouped = true;
    tft_qwen35_load(ld);
}

const struct tft_arch tft_arch_qwen3next = {
    .name = "qwen3next",
    .parts = TFT_BIT(TFT_PART_OUTPUT_GATE),
    .load = load,
    .layer = tft_qwen35_layer,
    .predict = tft_qwen35_predict,
    .transformer = &qwen3next,
};
