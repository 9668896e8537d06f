/* The architectures that tuffet runs. A new one is a file beside this one and a line in
   registry.c. */
#ifndef TFT_REGISTRY_H
#define TFT_REGISTRY_H

#include "model/model.h"

extern const struct tft_arch tft_arch_bitnet, tft_arch_ernie4_5, tft_arch_exaone4, tft_arch_falcon,
    tft_arch_gemma, tft_arch_gemma2, tft_arch_gemma3, tft_arch_gemma4, tft_arch_gpt2,
    tft_arch_gptneox, tft_arch_granite, tft_arch_granitemoe, tft_arch_hunyuan_dense, tft_arch_lfm2,
    tft_arch_lfm2moe, tft_arch_llama, tft_arch_minicpm, tft_arch_mistral3, tft_arch_olmo2,
    tft_arch_olmoe, tft_arch_phi3, tft_arch_qwen2, tft_arch_qwen2moe, tft_arch_qwen3,
    tft_arch_qwen35, tft_arch_qwen3moe, tft_arch_smollm3, tft_arch_stablelm, tft_arch_starcoder2;
extern const struct tft_arch tft_arch_afmoe, tft_arch_apertus, tft_arch_arcee, tft_arch_bailingmoe2,
    tft_arch_cohere2, tft_arch_command_r, tft_arch_dots1, tft_arch_ernie4_5_moe, tft_arch_exaone,
    tft_arch_glm4, tft_arch_gpt_oss, tft_arch_granite_swa, tft_arch_hunyuan_moe, tft_arch_internlm2,
    tft_arch_maincoder, tft_arch_mellum, tft_arch_nemotron, tft_arch_olmo, tft_arch_phi2,
    tft_arch_plamo3, tft_arch_qwen2vl, tft_arch_qwen35moe, tft_arch_qwen3vl, tft_arch_seed_oss,
    tft_arch_smallthinker;
extern const struct tft_arch tft_arch_deepseek2, tft_arch_gemma3n, tft_arch_minicpm3;

extern const struct tft_arch tft_arch_nanbeige, tft_arch_qwen3next;

/* Encoders. */
extern const struct tft_arch tft_arch_bert, tft_arch_eurobert, tft_arch_gemma_embedding,
    tft_arch_jina_bert_v2, tft_arch_jina_bert_v3, tft_arch_llama_embed, tft_arch_modern_bert,
    tft_arch_neo_bert, tft_arch_nomic_bert, tft_arch_nomic_bert_moe;

/* With Mamba-2. */
extern const struct tft_arch tft_arch_falcon_h1, tft_arch_granitehybrid, tft_arch_mamba2,
    tft_arch_nemotron_h, tft_arch_nemotron_h_moe;

extern const struct tft_arch tft_arch_mimo2, tft_arch_rwkv7, tft_arch_spark2_5;

/* All of them, then NULL. */
extern const struct tft_arch *const tft_archs[];

#endif
