/*
 * minicpm3: MiniCPM3-4B (transformers: MiniCPM3ForCausalLM). minicpm's factors, e = 12, r = 1.4 /
 * sqrt(layers), l = D / 256, around latent attention.
 *
 *      x = e embed[token]
 *      per layer:
 *          h = rms(x) g_attn
 *          x = x + r latent(h)               models/latent.h; rotated, partners half of rot apart
 *          h = rms(x) g_ffn
 *          x = x + r Wdown (silu(Wgate h) * Wup h)
 *      logits = Wout (rms(x) g_out) / l
 */
#include "model/load.h"
#include "models/latent.h"
#include "models/registry.h"
#include "models/transformer.h"

static const struct tft_multipliers multipliers = {.embedding = 12, .depth = 1.4f, .width = 256};

static const struct tft_transformer minicpm3 = {
    .rope = TFT_ROPE_HALVES,
    .multipliers = &multipliers,
    .mixer = tft_latent_load,
};

static void load(struct tft_load *ld)
{
    tft_load_shape(ld, false);
    tft_latent_shape(ld);
    tft_transformer_values(ld);
    tft_transformer_tensors(ld);
}

const struct tft_arch tft_arch_minicpm3 = {
    .name = "minicpm3",
    .parts = TFT_BIT(TFT_PART_LATENT),
    .load = load,
    .layer = tft_latent_layer,
    .transformer = &minicpm3,
};
