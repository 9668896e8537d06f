/* Parts of config.json that only some architectures have: members `dimensions` and `values` of
   their rows in archs.c. */
#ifndef IMPORT_OWN_H
#define IMPORT_OWN_H

#include "work.h"

/* ---- dimensions */

void import_hunyuan_dimensions(struct import *im);
void import_falcon_dimensions(struct import *im);
void import_lfm2_dimensions(struct import *im);
void import_qwen3moe_dimensions(struct import *im);
void import_olmoe_dimensions(struct import *im);
void import_qwen2moe_dimensions(struct import *im);
void import_granitemoe_dimensions(struct import *im);
void import_lfm2moe_dimensions(struct import *im);
void import_qwen35_dimensions(struct import *im);
void import_qwen35moe_dimensions(struct import *im);
void import_hunyuan_moe_dimensions(struct import *im);
void import_smallthinker_dimensions(struct import *im);

/* dots1, ernie4_5-moe, bailingmoe2, afmoe: leading dense layers, and shared experts side by
   side. */
void import_late_dimensions(struct import *im);
void import_gemma4_dimensions(struct import *im);
void import_gemma3n_dimensions(struct import *im);
void import_deepseek2_dimensions(struct import *im);

/* Latent attention. */
void import_latent_dimensions(struct import *im);
void import_gemma4_layer(struct import *im, unsigned layer);

/* For experts with weights that are always renormalised: Mixtral. */
void import_renormalised_dimensions(struct import *im);

/* ---- values */

/* Windows of the layers that layer_types or sliding_window_pattern names: olmo2, exaone4. */
void import_window_values(struct import *im);

/* A window of all layers, if it is shorter than the context: Mistral 7B v0.1, StarCoder 2. */
void import_everywhere_values(struct import *im);

/* Windows of the layers from max_window_layers on, if use_sliding_window: qwen2. */
void import_qwen2_values(struct import *im);

/* use_parallel_residual: gptneox, stablelm. */
void import_parallel_values(struct import *im);

/* Keys of experts, for all mixtures. */
void import_expert_values(struct import *im);

void import_gemma2_values(struct import *im);
void import_gemma3_values(struct import *im);
void import_phi3_values(struct import *im);
void import_minicpm_values(struct import *im);
void import_mistral3_values(struct import *im);
void import_smollm3_values(struct import *im);
void import_hunyuan_values(struct import *im);
void import_lfm2_values(struct import *im);
void import_lfm2moe_values(struct import *im);
void import_qwen35_values(struct import *im);
void import_qwen35moe_values(struct import *im);
void import_qwen3next_values(struct import *im);
void import_nanbeige_values(struct import *im);
void import_qwen2vl_values(struct import *im);
void import_qwen3vl_values(struct import *im);
void import_cohere2_values(struct import *im);
void import_apertus_values(struct import *im);
void import_gpt_oss_values(struct import *im);
void import_granite_swa_values(struct import *im);
void import_sigmoid_values(struct import *im);
void import_afmoe_values(struct import *im);
void import_ernie_moe_values(struct import *im);
void import_hunyuan_moe_values(struct import *im);
void import_mellum_values(struct import *im);
void import_smallthinker_values(struct import *im);
void import_bitnet_values(struct import *im);
void import_gemma4_values(struct import *im);
void import_gemma3n_values(struct import *im);
void import_deepseek2_values(struct import *im);
void import_minicpm3_values(struct import *im);

/* ---- layers with a window that differ from the others: windows.c */

void import_mimo2_dimensions(struct import *im);
void import_mimo2_values(struct import *im);
void import_mimo2_layer(struct import *im, unsigned layer);
void import_spark2_5_values(struct import *im);

/* ---- with Mamba-2: mamba.c */

void import_granitehybrid_dimensions(struct import *im);
void import_granitehybrid_values(struct import *im);
void import_mamba2_dimensions(struct import *im);
void import_rwkv7_dimensions(struct import *im);
void import_rwkv7_values(struct import *im);
void import_falcon_h1_dimensions(struct import *im);
void import_nemotron_h_dimensions(struct import *im);
void import_nemotron_h_moe_dimensions(struct import *im);
void import_mamba_values(struct import *im);
void import_nemotron_h_moe_values(struct import *im);

/* Whether some layer of nemotron_h has experts. */
bool import_nemotron_has_experts(const struct import *im);

/* The factor of row `row` of the tensor `to` of the GGUF file, with %u for the layer. */
double import_falcon_h1_factor(const struct import *im, const char *to, uint64_t row);

/* ---- parts of them */

/* Whether layer l has a window: layer_types, or a pattern such as "LLLG", or a period. */
bool import_has_window(const struct import *im, uint64_t l, uint64_t period);

void import_unsupported(struct import *im, const char *what);

/* How many layers come before the first that mlp_layer_types calls sparse; all later ones are. */
void import_leading_by_type(struct import *im);

/* Sets kv_heads from attends(), for a model with a state in all other layers. */
void import_attention_layers(struct import *im,
                             bool (*attends)(const struct import *im, size_t l));

/* Experts in all layers; the formula decides whether their weights are renormalised. */
void import_expert_dimensions(struct import *im, bool renorm, bool def);

/* Keys of experts with a scale and groups. gate: expert_gating_func */
void import_late_values(struct import *im, uint32_t gate);

/* Writes the size of windows. */
void import_put_window(struct import *im);

#endif
