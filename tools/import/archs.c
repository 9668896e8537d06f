#include "archs.h"

#include <stdio.h>
#include <string.h>

#include "config.h"
#include "lists.h"
#include "own.h"

static const struct import_number granite_numbers[] = {
    {"embedding_scale", "embedding_multiplier", 1},
    {"residual_scale", "residual_multiplier", 1},
    {"logit_scale", "logits_scaling", 1},
    {"attention.scale", "attention_multiplier", 1},
    {0},
};

static const struct import_number minicpm_numbers[] = {
    {"embedding_scale", "scale_emb", IMPORT_NEEDED},
    {0},
};

static const struct import_number gemma2_numbers[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping", IMPORT_NEEDED},
    {"final_logit_softcapping", "final_logit_softcapping", IMPORT_NEEDED},
    {0},
};

static const struct import_number gemma3_numbers[] = {
    {"final_logit_softcapping", "final_logit_softcapping", IMPORT_OPTIONAL},
    {0},
};

/* -------------------------------------------------------------------------------- architectures */

#define SILU " silu swish "
#define GELU " gelu gelu_new gelu_fast gelu_pytorch_tanh "

#define GEMMA4_DEFAULTS                                                                            \
    "\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":256,"                       \
    "\"global_head_dim\":512,\"rms_norm_eps\":1e-6,\"rope_parameters\":{"                         \
    "\"full_attention\":{\"rope_type\":\"proportional\",\"partial_rotary_factor\":0.25,"           \
    "\"rope_theta\":1e6},\"sliding_attention\":{\"rope_type\":\"default\",\"rope_theta\":1e4}}"
#define GEMMA4                                                                                     \
    .name = "gemma4", .activations = GELU, .tied = true, .numbers = gemma3_numbers,                \
    .dimensions = import_gemma4_dimensions, .values = import_gemma4_values,                        \
    .layer = import_gemma4_layer,                                                                  \
    .tensors = {list_outside, list_four_norms, list_gemma4, list_ffn, list_gemma4_experts}

static const struct import_arch archs[] = {
    {.classes = " LlamaForCausalLM LLaMAForCausalLM MistralForCausalLM ",
     .name = "llama",
     .activations = SILU,
     .permuted = true,
     .tensors = {list_outside, list_pre_norms, list_attention, list_ffn}},
    {.classes = " MixtralForCausalLM ",
     .name = "llama",
     .activations = SILU,
     .permuted = true,
     .dimensions = import_renormalised_dimensions,
     .values = import_expert_values,
     .tensors = {list_outside, list_pre_norms, list_attention, list_mixtral_experts}},
    {.classes = " Ministral3ForCausalLM Mistral3ForConditionalGeneration ",
     .name = "mistral3",
     .activations = SILU,
     .permuted = true,
     .values = import_mistral3_values,
     .tensors = {list_outside, list_pre_norms, list_attention, list_ffn}},
    {.classes = " Qwen2ForCausalLM ",
     .name = "qwen2",
     .activations = SILU,
     .tensors = {list_outside, list_pre_norms, list_attention, list_ffn}},
    {.classes = " Qwen3ForCausalLM ",
     .name = "qwen3",
     .activations = SILU,
     .tensors = {list_outside, list_pre_norms, list_attention, list_head_norms, list_ffn}},
    {.classes = " GemmaForCausalLM ",
     .name = "gemma",
     .activations = GELU,
     .norm_plus_1 = true,
     .tied = true,
     .tensors = {list_outside, list_pre_norms, list_attention, list_ffn}},
    {.classes = " Gemma2ForCausalLM ",
     .name = "gemma2",
     .activations = GELU,
     .norm_plus_1 = true,
     .tied = true,
     .numbers = gemma2_numbers,
     .values = import_gemma2_values,
     .tensors = {list_outside, list_four_norms, list_attention, list_ffn}},
    {.classes = " Gemma3ForCausalLM Gemma3ForConditionalGeneration ",
     .name = "gemma3",
     .activations = GELU,
     .defaults = "{\"max_position_embeddings\":131072,\"num_attention_heads\":8,"
                 "\"num_key_value_heads\":4,\"head_dim\":256,\"rms_norm_eps\":1e-6,"
                 "\"rope_theta\":1e6,\"sliding_window\":4096,\"query_pre_attn_scalar\":256}",
     .norm_plus_1 = true,
     .tied = true,
     .numbers = gemma3_numbers,
     .values = import_gemma3_values,
     .tensors = {list_outside, list_four_norms, list_attention, list_head_norms, list_ffn}},
    {.classes = " Gemma4ForCausalLM Gemma4ForConditionalGeneration ",
     .defaults = "{\"max_position_embeddings\":131072,\"sliding_window\":512,"
                 "\"hidden_size_per_layer_input\":256," GEMMA4_DEFAULTS "}",
     GEMMA4},
    {.classes = " Gemma4UnifiedForConditionalGeneration ",
     .defaults = "{\"max_position_embeddings\":262144,\"sliding_window\":1024," GEMMA4_DEFAULTS "}",
     GEMMA4},
    {.classes = " Phi3ForCausalLM ",
     .name = "phi3",
     .activations = SILU,
     .values = import_phi3_values,
     .tensors = {list_outside, list_pre_norms, list_phi3_fused}},
    {.classes = " SmolLM3ForCausalLM ",
     .name = "smollm3",
     .activations = SILU,
     .permuted = true,
     .tied = true,
     .values = import_smollm3_values,
     .tensors = {list_outside, list_pre_norms, list_attention, list_ffn}},
    {.classes = " Olmo2ForCausalLM Olmo3ForCausalLM ",
     .name = "olmo2",
     .activations = SILU,
     .values = import_window_values,
     .tensors = {list_outside, list_attention, list_whole_norms, list_post_norms, list_ffn}},
    {.classes = " Exaone4ForCausalLM ",
     .name = "exaone4",
     .activations = SILU,
     .values = import_window_values,
     .tensors = {list_outside, list_attention, list_head_norms, list_post_norms, list_ffn}},
    {.classes = " GraniteForCausalLM ",
     .name = "granite",
     .activations = SILU,
     .permuted = true,
     .numbers = granite_numbers,
     .tensors = {list_outside, list_pre_norms, list_attention, list_ffn}},
    {.classes = " GraniteMoeForCausalLM GraniteMoeSharedForCausalLM ",
     .name = "granitemoe",
     .activations = SILU,
     .permuted = true,
     .numbers = granite_numbers,
     .dimensions = import_granitemoe_dimensions,
     .values = import_expert_values,
     .tensors = {list_outside, list_pre_norms, list_attention, list_granite_experts}},
    {.classes = " MiniCPMForCausalLM ",
     .name = "minicpm",
     .activations = SILU,
     .permuted = true,
     .tied = true,
     .numbers = minicpm_numbers,
     .values = import_minicpm_values,
     .tensors = {list_outside, list_pre_norms, list_attention, list_ffn}},
    /* its own RoPE pairs neighbours: no permutation */
    {.classes = " Ernie4_5ForCausalLM Ernie4_5_ForCausalLM ",
     .name = "ernie4_5",
     .activations = SILU,
     .tied = true,
     .tensors = {list_outside, list_pre_norms, list_attention, list_ffn}},
    {.classes = " HunYuanDenseV1ForCausalLM ",
     .name = "hunyuan-dense",
     .activations = SILU,
     .dimensions = import_hunyuan_dimensions,
     .values = import_hunyuan_values,
     .tensors = {list_outside, list_pre_norms, list_attention, list_head_norms, list_ffn}},
    {.classes = " StableLmForCausalLM StableLMEpochForCausalLM ",
     .name = "stablelm",
     .activations = SILU,
     .defaults = "{\"partial_rotary_factor\":0.25}",
     .layer_norm = true,
     .values = import_parallel_values,
     .tensors = {list_outside, list_stablelm_norms, list_attention, list_ffn}},
    {.classes = " Starcoder2ForCausalLM ",
     .name = "starcoder2",
     .activations = GELU,
     .layer_norm = true,
     .tied = true,
     .tensors = {list_outside, list_pre_norms, list_attention, list_starcoder2_ffn}},
    {.classes = " GPTNeoXForCausalLM ",
     .name = "gptneox",
     .activations = GELU,
     .defaults = "{\"rotary_pct\":0.25}",
     .layer_norm = true,
     .parallel = true,
     .values = import_parallel_values,
     .tensors = {list_gptneox_all}},
    {.classes = " FalconForCausalLM RWForCausalLM ",
     .name = "falcon",
     .activations = GELU,
     .defaults = "{\"max_position_embeddings\":2048}",
     .layer_norm = true,
     .ff_is_4d = true,
     .tied = true,
     .dimensions = import_falcon_dimensions,
     .tensors = {list_falcon_all}},
    {.classes = " Lfm2ForCausalLM LFM2ForCausalLM ",
     .name = "lfm2",
     .activations = SILU,
     .tied = true,
     .dimensions = import_lfm2_dimensions,
     .values = import_lfm2_values,
     .tensors = {list_lfm2, list_lfm2_ffn}},
    {.classes = " Lfm2MoeForCausalLM ",
     .name = "lfm2moe",
     .activations = SILU,
     .tied = true,
     .dimensions = import_lfm2moe_dimensions,
     .values = import_lfm2moe_values,
     .tensors = {list_lfm2, list_lfm2_ffn, list_lfm2_experts}},
    {.classes = " Qwen3MoeForCausalLM ",
     .name = "qwen3moe",
     .activations = SILU,
     .dimensions = import_qwen3moe_dimensions,
     .values = import_expert_values,
     .tensors = {list_outside, list_pre_norms, list_attention, list_head_norms, list_experts}},
    {.classes = " Qwen2MoeForCausalLM ",
     .name = "qwen2moe",
     .activations = SILU,
     .dimensions = import_qwen2moe_dimensions,
     .values = import_expert_values,
     .tensors = {list_outside, list_pre_norms, list_attention, list_experts, list_qwen2_shared}},
    {.classes = " OlmoeForCausalLM ",
     .name = "olmoe",
     .activations = SILU,
     .dimensions = import_olmoe_dimensions,
     .values = import_expert_values,
     .tensors = {list_outside, list_pre_norms, list_attention, list_whole_norms, list_experts}},
    {.classes = " Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration ",
     .name = "qwen35",
     .activations = SILU,
     .defaults = "{\"partial_rotary_factor\":0.25}",
     .norm_plus_1 = true,
     .one_kv_number = true,
     .dimensions = import_qwen35_dimensions,
     .values = import_qwen35_values,
     .tensors = {list_outside, list_qwen35, list_ffn}},
    {.classes = " BitNetForCausalLM ",
     .name = "bitnet",
     .activations = SILU "relu2 ",
     .defaults = "{\"hidden_act\":\"relu2\"}",
     .ternary = IMPORT_IF_ONLINE,
     .values = import_bitnet_values,
     .tensors = {list_outside, list_pre_norms, list_bitnet}},
    {.classes = " BitnetForCausalLM ",
     .name = "bitnet",
     .activations = SILU "relu2 ",
     .ternary = IMPORT_ALWAYS,
     .values = import_bitnet_values,
     .tensors = {list_outside, list_pre_norms, list_bitnet}},
    {.classes = " GPT2LMHeadModel ",
     .name = "gpt2",
     .activations = GELU,
     .layer_norm = true,
     .no_rope = true,
     .ff_is_4d = true,
     .tied = true,
     .tensors = {list_gpt2_all}},
};

const struct import_arch *import_find_arch(const char *class_name)
{
    char word[80];
    snprintf(word, sizeof word, " %s ", class_name);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        if (strstr(archs[i].classes, word))
            return &archs[i];
    return NULL;
}
