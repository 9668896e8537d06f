/* Lists of tensors in folders, which the rows of archs.c are made of. The last tensor of each list
   has no name. */
#ifndef IMPORT_LISTS_H
#define IMPORT_LISTS_H

#include "arch.h"

extern const struct import_tensor list_outside[], list_attention[], list_ffn[], list_pre_norms[],
    list_post_norms[], list_four_norms[], list_head_norms[], list_whole_norms[];

/* Tensors of one architecture. */
extern const struct import_tensor list_gemma4[], list_phi3_fused[], list_stablelm_norms[],
    list_starcoder2_ffn[], list_gptneox_all[], list_falcon_all[], list_gpt2_all[], list_lfm2[],
    list_lfm2_ffn[], list_gated_attention[], list_qwen35[], list_qwen3next[], list_predictor[],
    list_bitnet[];
extern const struct import_tensor list_latent[], list_gemma3n[], list_gemma4_scale[];
extern const struct import_tensor list_mimo2[], list_spark2_5[];
extern const struct import_tensor list_plain_ffn[], list_seed_norms[], list_one_norm[],
    list_outside_bare[], list_glm4[], list_exaone_all[], list_internlm2_all[], list_phi2_all[],
    list_apertus_norms[], list_sinks[], list_bailing_all[];

/* Encoders: encoder_lists.c. */
extern const struct import_tensor list_dense[], list_bert_outside[], list_positions[],
    list_bert_attention[], list_bert_ffn[], list_bert_classifier[], list_roberta_classifier[],
    list_distilbert[], list_reranker[], list_nomic_bert[], list_jina_bert_ffn[], list_modern_bert[],
    list_outside_encoder[];

/* With Mamba-2. */
extern const struct import_tensor list_falcon_h1[], list_backbone[], list_backbone_mamba[],
    list_nemotron_h[];

extern const struct import_tensor list_rwkv7[];

/* Mixtures of experts. */
extern const struct import_tensor list_experts[], list_mixtral_experts[], list_lfm2_experts[],
    list_qwen2_shared[], list_granite_experts[], list_granitehybrid[], list_gemma4_experts[],
    list_fused_experts[],
    list_late_experts[], list_ernie_bias[], list_late_shared[], list_hunyuan_experts[],
    list_smallthinker_experts[], list_afmoe[], list_gpt_oss_experts[];

#endif
