/*
 * Encoders with llama's block (llama.c), in which each token sees all tokens of its text:
 *
 *      llama-embed   llama-embed-nemotron (Babakhin et al. 2025, arXiv 2511.07025)
 *      eurobert      EuroBERT (Boizard et al. 2025, arXiv 2503.05500): q and k are rotated with
 *                    partners half a head apart
 *      neo-bert      NeoBERT (Le Breton et al. 2025, arXiv 2502.19587): the last norm has another
 *                    name in files, and gate and up are in one tensor
 */
#include "models/layers.h"
#include "models/pooled.h"
#include "models/registry.h"
#include "models/transformer.h"

static void load(struct tft_load *ld)
{
    tft_transformer_load(ld);
    tft_pooled_load(ld, (struct tft_pooled){.from = TFT_POOLING_CLS});
}

static const struct tft_transformer llama_embed = {.rope = TFT_ROPE_PAIRS},
                                    eurobert = {.rope = TFT_ROPE_HALVES},
                                    neo_bert = {.rope = TFT_ROPE_PAIRS,
                                                .fused_gate = true,
                                                .out_norm = "enc.output_norm"};

const struct tft_arch tft_arch_llama_embed = {
    .name = "llama-embed",
    .parts = TFT_BIT(TFT_PART_ENCODER),
    .load = load,
    .layer = tft_llama_layer,
    .transformer = &llama_embed,
};

const struct tft_arch tft_arch_eurobert = {
    .name = "eurobert",
    .parts = TFT_BIT(TFT_PART_ENCODER),
    .load = load,
    .layer = tft_llama_layer,
    .transformer = &eurobert,
};

const struct tft_arch tft_arch_neo_bert = {
    .name = "neo-bert",
    .parts = TFT_BIT(TFT_PART_ENCODER),
    .load = load,
    .layer = tft_llama_layer,
    .transformer = &neo_bert,
};
