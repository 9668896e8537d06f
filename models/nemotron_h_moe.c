/*
 * nemotron_h_moe: Nemotron 3 Nano 30B-A3B, Super (NVIDIA 2025). The formula of models/nemotron_h.c;
 * layers with a feed-forward have experts instead (models/mixture.h), and one shared expert. All
 * have squared ReLU and no gate; a bias helps to choose. Super's experts have a width of their own.
 */
#include "models/layers.h"
#include "models/mamba.h"
#include "models/mixture.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_mixture mixture = {
    .renorm = true, .says_renorm = true, .sigmoid = true, .no_gate = true, .latent = true};

static const struct tft_transformer nemotron_h_moe = {
    .no_gate = true,
    .mixture = &mixture,
    .mixer = tft_mamba_load,
    .ffn_norm = "blk.%u.attn_norm",
};

const struct tft_arch tft_arch_nemotron_h_moe = {
    .name = "nemotron_h_moe",
    .parts = TFT_BIT(TFT_PART_HALF_BLOCKS) | TFT_BIT(TFT_PART_PLAIN_RELU2),
    .load = tft_nemotron_h_load,
    .layer = tft_nemotron_h_layer,
    .transformer = &nemotron_h_moe,
};
