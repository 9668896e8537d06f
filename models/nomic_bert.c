/*
 * nomic-bert: nomic-embed-text 1 and 1.5 (Nussbaum et al. 2024, arXiv 2402.01613, section 4.1). The
 * block of encoder.h, without biases but in norms; q and k are rotated, partners half a head apart,
 * in place of positions; and
 *
 *          x = layernorm(x + Wdown (silu(Wgate x) * Wup x))
 *
 * nomic-bert-moe: nomic-embed-text 2 (Nussbaum & Duderstadt 2025, arXiv 2502.07972). The block of
 * encoder.h with such a rotation. Every second layer, from the second on, has a mixture of experts
 * (mixture.h) with GELU, without gates; weights are not renormalised.
 *
 * jina-bert-v3: jina-embeddings-v3 (Sturua et al. 2024, arXiv 2409.10173). The same without
 * experts.
 */
#include "models/encoder.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_transformer nomic = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .no_out_norm = true,
    .block = tft_encoder_post_norms,
};

static const struct tft_mixture mixture = {.optional = true, .no_gate = true, .alternate = true};

static const struct tft_transformer nomic_moe = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .no_gate = true,
    .no_out_norm = true,
    .mixture = &mixture,
    .block = tft_encoder_post_norms,
};

static const struct tft_transformer jina = {
    .rope = TFT_ROPE_HALVES,
    .layer_norm = true,
    .no_gate = true,
    .no_out_norm = true,
    .block = tft_encoder_post_norms,
};

const struct tft_arch tft_arch_nomic_bert = {
    .name = "nomic-bert",
    .parts = TFT_BIT(TFT_PART_ENCODER) | TFT_BIT(TFT_PART_NO_PRE_NORM),
    .load = tft_encoder_load,
    .layer = tft_encoder_layer,
    .transformer = &nomic,
};

const struct tft_arch tft_arch_nomic_bert_moe = {
    .name = "nomic-bert-moe",
    .parts = TFT_BIT(TFT_PART_ENCODER) | TFT_BIT(TFT_PART_NO_PRE_NORM),
    .load = tft_encoder_load,
    .layer = tft_encoder_layer,
    .transformer = &nomic_moe,
};

const struct tft_arch tft_arch_jina_bert_v3 = {
    .name = "jina-bert-v3",
    .parts = TFT_BIT(TFT_PART_ENCODER) | TFT_BIT(TFT_PART_NO_PRE_NORM),
    .load = tft_encoder_load,
    .layer = tft_encoder_layer,
    .transformer = &jina,
};
