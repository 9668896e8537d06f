#include "archs.h"

#include <stdio.h>
#include <string.h>

#include "config.h"
#include "own.h"

/* ----------------------------------------------------------------------------- lists of tensors */

#define WITH_BIAS(from, to, shape, vector, how) \
    {from ".weight", to ".weight", shape, how}, \
        {from ".bias", to ".bias", vector, (how) | IMPORT_MAY_MISS}

/* Most models have these names. The embedding comes first. */
static const struct import_tensor outside[] = {
    {"embed_tokens.weight", "token_embd.weight", "VD", 0},
    WITH_BIAS("norm", "output_norm", "D", "D", 0),
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {0},
};

static const struct import_tensor attention[] = {
    WITH_BIAS("layers.%u.self_attn.q_proj", "blk.%u.attn_q", "QD", "Q", IMPORT_Q),
    WITH_BIAS("layers.%u.self_attn.k_proj", "blk.%u.attn_k", "KD", "K", IMPORT_K),
    WITH_BIAS("layers.%u.self_attn.v_proj", "blk.%u.attn_v", "KD", "K", 0),
    WITH_BIAS("layers.%u.self_attn.o_proj", "blk.%u.attn_output", "DQ", "D", 0),
    {0},
};

static const struct import_tensor ffn[] = {
    WITH_BIAS("layers.%u.mlp.gate_proj", "blk.%u.ffn_gate", "FD", "F", 0),
    WITH_BIAS("layers.%u.mlp.up_proj", "blk.%u.ffn_up", "FD", "F", 0),
    WITH_BIAS("layers.%u.mlp.down_proj", "blk.%u.ffn_down", "DF", "D", 0),
    {0},
};

static const struct import_tensor pre_norms[] = {
    WITH_BIAS("layers.%u.input_layernorm", "blk.%u.attn_norm", "D", "D", 0),
    WITH_BIAS("layers.%u.post_attention_layernorm", "blk.%u.ffn_norm", "D", "D", 0),
    {0},
};

static const struct import_tensor post_norms[] = {
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", "D", 0},
    {"layers.%u.post_feedforward_layernorm.weight", "blk.%u.post_ffw_norm.weight", "D", 0},
    {0},
};

/* gemma2 and gemma3 */
static const struct import_tensor four_norms[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", "D", 0},
    {"layers.%u.pre_feedforward_layernorm.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {"layers.%u.post_feedforward_layernorm.weight", "blk.%u.post_ffw_norm.weight", "D", 0},
    {0},
};

static const struct import_tensor head_norms[] = {
    {"layers.%u.self_attn.q_norm.weight|layers.%u.self_attn.query_layernorm.weight",
     "blk.%u.attn_q_norm.weight", "E", 0},
    {"layers.%u.self_attn.k_norm.weight|layers.%u.self_attn.key_layernorm.weight",
     "blk.%u.attn_k_norm.weight", "E", 0},
    {0},
};

static const struct import_tensor whole_norms[] = {
    {"layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", "Q", 0},
    {"layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", "K", 0},
    {0},
};

/* ---- those of one architecture */

static const struct import_tensor phi3_fused[] = {
    {"layers.%u.self_attn.qkv_proj.weight", "blk.%u.attn_qkv.weight", "AD", 0},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", "DQ", 0},
    {"layers.%u.mlp.gate_up_proj.weight", "blk.%u.ffn_up.weight", "2D", 0},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", "DF", 0},
    {0},
};

/* 12B has one norm in a layer, and norms of each head's q and k */
static const struct import_tensor stablelm_norms[] = {
    WITH_BIAS("layers.%u.input_layernorm", "blk.%u.attn_norm", "D", "D", 0),
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", "D", IMPORT_MAY_MISS},
    {"layers.%u.post_attention_layernorm.bias", "blk.%u.ffn_norm.bias", "D", IMPORT_MAY_MISS},
    {"layers.%u.self_attn.q_layernorm.norms.%u.weight", "blk.%u.attn_q_norm.weight", "HE",
     IMPORT_STACK | IMPORT_MAY_MISS},
    {"layers.%u.self_attn.k_layernorm.norms.%u.weight", "blk.%u.attn_k_norm.weight", "GE",
     IMPORT_STACK | IMPORT_MAY_MISS},
    {0},
};

static const struct import_tensor starcoder2_ffn[] = {
    WITH_BIAS("layers.%u.mlp.c_fc", "blk.%u.ffn_up", "FD", "F", 0),
    WITH_BIAS("layers.%u.mlp.c_proj", "blk.%u.ffn_down", "DF", "D", 0),
    {0},
};

static const struct import_tensor gptneox_all[] = {
    {"embed_in.weight", "token_embd.weight", "VD", 0},
    WITH_BIAS("final_layer_norm", "output_norm", "D", "D", 0),
    {"embed_out.weight|lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    WITH_BIAS("layers.%u.input_layernorm", "blk.%u.attn_norm", "D", "D", 0),
    WITH_BIAS("layers.%u.attention.query_key_value", "blk.%u.attn_qkv", "AD", "A", IMPORT_QKV),
    WITH_BIAS("layers.%u.attention.dense", "blk.%u.attn_output", "DQ", "D", 0),
    WITH_BIAS("layers.%u.post_attention_layernorm", "blk.%u.ffn_norm", "D", "D", 0),
    WITH_BIAS("layers.%u.mlp.dense_h_to_4h", "blk.%u.ffn_up", "FD", "F", 0),
    WITH_BIAS("layers.%u.mlp.dense_4h_to_h", "blk.%u.ffn_down", "DF", "D", 0),
    {0},
};

/* 7B has one norm in a layer, 40B has two. */
static const struct import_tensor falcon_all[] = {
    {"word_embeddings.weight", "token_embd.weight", "VD", 0},
    WITH_BIAS("ln_f", "output_norm", "D", "D", 0),
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {"h.%u.input_layernorm.weight|h.%u.ln_mlp.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"h.%u.input_layernorm.bias|h.%u.ln_mlp.bias", "blk.%u.attn_norm.bias", "D", 0},
    {"h.%u.ln_attn.weight", "blk.%u.attn_norm_2.weight", "D", IMPORT_MAY_MISS},
    {"h.%u.ln_attn.bias", "blk.%u.attn_norm_2.bias", "D", IMPORT_MAY_MISS},
    {"h.%u.self_attention.query_key_value.weight", "blk.%u.attn_qkv.weight", "AD", IMPORT_QKV},
    {"h.%u.self_attention.dense.weight", "blk.%u.attn_output.weight", "DQ", 0},
    {"h.%u.mlp.dense_h_to_4h.weight", "blk.%u.ffn_up.weight", "FD", 0},
    {"h.%u.mlp.dense_4h_to_h.weight", "blk.%u.ffn_down.weight", "DF", 0},
    {0},
};

/* Its matrices have inputs as rows. */
static const struct import_tensor gpt2_all[] = {
    {"wte.weight", "token_embd.weight", "VD", 0},
    {"wpe.weight", "position_embd.weight", "PD", 0},
    WITH_BIAS("ln_f", "output_norm", "D", "D", 0),
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    WITH_BIAS("h.%u.ln_1", "blk.%u.attn_norm", "D", "D", 0),
    {"h.%u.attn.c_attn.weight", "blk.%u.attn_qkv.weight", "DA", IMPORT_TRANSPOSE},
    {"h.%u.attn.c_attn.bias", "blk.%u.attn_qkv.bias", "A", 0},
    {"h.%u.attn.c_proj.weight", "blk.%u.attn_output.weight", "QD", IMPORT_TRANSPOSE},
    {"h.%u.attn.c_proj.bias", "blk.%u.attn_output.bias", "D", 0},
    WITH_BIAS("h.%u.ln_2", "blk.%u.ffn_norm", "D", "D", 0),
    {"h.%u.mlp.c_fc.weight", "blk.%u.ffn_up.weight", "DF", IMPORT_TRANSPOSE},
    {"h.%u.mlp.c_fc.bias", "blk.%u.ffn_up.bias", "F", 0},
    {"h.%u.mlp.c_proj.weight", "blk.%u.ffn_down.weight", "FD", IMPORT_TRANSPOSE},
    {"h.%u.mlp.c_proj.bias", "blk.%u.ffn_down.bias", "D", 0},
    {0},
};

/* Layers have attention or a short convolution. */
static const struct import_tensor lfm2_all[] = {
    {"embed_tokens.weight", "token_embd.weight", "VD", 0},
    {"embedding_norm.weight", "token_embd_norm.weight", "D", 0},
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {"layers.%u.operator_norm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", "QD", IMPORT_MAY_MISS},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", "KD", IMPORT_MAY_MISS},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", "KD", IMPORT_MAY_MISS},
    {"layers.%u.self_attn.out_proj.weight", "blk.%u.attn_output.weight", "DQ", IMPORT_MAY_MISS},
    {"layers.%u.self_attn.q_layernorm.weight", "blk.%u.attn_q_norm.weight", "E", IMPORT_MAY_MISS},
    {"layers.%u.self_attn.k_layernorm.weight", "blk.%u.attn_k_norm.weight", "E", IMPORT_MAY_MISS},
    {"layers.%u.conv.in_proj.weight", "blk.%u.shortconv.in_proj.weight", "3D", IMPORT_MAY_MISS},
    {"layers.%u.conv.conv.weight", "blk.%u.shortconv.conv.weight", "D1L", IMPORT_MAY_MISS},
    {"layers.%u.conv.out_proj.weight", "blk.%u.shortconv.out_proj.weight", "DD", IMPORT_MAY_MISS},
    {"layers.%u.ffn_norm.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {"layers.%u.feed_forward.w1.weight", "blk.%u.ffn_gate.weight", "FD", 0},
    {"layers.%u.feed_forward.w3.weight", "blk.%u.ffn_up.weight", "FD", 0},
    {"layers.%u.feed_forward.w2.weight", "blk.%u.ffn_down.weight", "DF", 0},
    {0},
};

static const struct import_tensor experts[] = {
    {"layers.%u.mlp.gate.weight", "blk.%u.ffn_gate_inp.weight", "XD", 0},
    {"layers.%u.mlp.experts.%u.gate_proj.weight", "blk.%u.ffn_gate_exps.weight", "XMD",
     IMPORT_STACK},
    {"layers.%u.mlp.experts.%u.up_proj.weight", "blk.%u.ffn_up_exps.weight", "XMD", IMPORT_STACK},
    {"layers.%u.mlp.experts.%u.down_proj.weight", "blk.%u.ffn_down_exps.weight", "XDM",
     IMPORT_STACK},
    {0},
};

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

static const struct import_arch archs[] = {
    {.classes = " LlamaForCausalLM LLaMAForCausalLM MistralForCausalLM ",
     .name = "llama",
     .activations = SILU,
     .permuted = true,
     .tensors = {outside, pre_norms, attention, ffn}},
    {.classes = " Ministral3ForCausalLM Mistral3ForConditionalGeneration ",
     .name = "mistral3",
     .activations = SILU,
     .permuted = true,
     .values = import_mistral3_values,
     .tensors = {outside, pre_norms, attention, ffn}},
    {.classes = " Qwen2ForCausalLM ",
     .name = "qwen2",
     .activations = SILU,
     .tensors = {outside, pre_norms, attention, ffn}},
    {.classes = " Qwen3ForCausalLM ",
     .name = "qwen3",
     .activations = SILU,
     .tensors = {outside, pre_norms, attention, head_norms, ffn}},
    {.classes = " GemmaForCausalLM ",
     .name = "gemma",
     .activations = GELU,
     .norm_plus_1 = true,
     .tied = true,
     .tensors = {outside, pre_norms, attention, ffn}},
    {.classes = " Gemma2ForCausalLM ",
     .name = "gemma2",
     .activations = GELU,
     .norm_plus_1 = true,
     .tied = true,
     .numbers = gemma2_numbers,
     .values = import_gemma2_values,
     .tensors = {outside, four_norms, attention, ffn}},
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
     .tensors = {outside, four_norms, attention, head_norms, ffn}},
    {.classes = " Phi3ForCausalLM ",
     .name = "phi3",
     .activations = SILU,
     .values = import_phi3_values,
     .tensors = {outside, pre_norms, phi3_fused}},
    {.classes = " SmolLM3ForCausalLM ",
     .name = "smollm3",
     .activations = SILU,
     .permuted = true,
     .tied = true,
     .values = import_smollm3_values,
     .tensors = {outside, pre_norms, attention, ffn}},
    {.classes = " Olmo2ForCausalLM Olmo3ForCausalLM ",
     .name = "olmo2",
     .activations = SILU,
     .values = import_window_values,
     .tensors = {outside, attention, whole_norms, post_norms, ffn}},
    {.classes = " Exaone4ForCausalLM ",
     .name = "exaone4",
     .activations = SILU,
     .values = import_window_values,
     .tensors = {outside, attention, head_norms, post_norms, ffn}},
    {.classes = " GraniteForCausalLM ",
     .name = "granite",
     .activations = SILU,
     .permuted = true,
     .numbers = granite_numbers,
     .tensors = {outside, pre_norms, attention, ffn}},
    {.classes = " MiniCPMForCausalLM ",
     .name = "minicpm",
     .activations = SILU,
     .permuted = true,
     .tied = true,
     .numbers = minicpm_numbers,
     .values = import_minicpm_values,
     .tensors = {outside, pre_norms, attention, ffn}},
    /* its own RoPE pairs neighbours: nothing is permuted */
    {.classes = " Ernie4_5ForCausalLM Ernie4_5_ForCausalLM ",
     .name = "ernie4_5",
     .activations = SILU,
     .tied = true,
     .tensors = {outside, pre_norms, attention, ffn}},
    {.classes = " HunYuanDenseV1ForCausalLM ",
     .name = "hunyuan-dense",
     .activations = SILU,
     .dimensions = import_hunyuan_dimensions,
     .values = import_hunyuan_values,
     .tensors = {outside, pre_norms, attention, head_norms, ffn}},
    {.classes = " StableLmForCausalLM StableLMEpochForCausalLM ",
     .name = "stablelm",
     .activations = SILU,
     .defaults = "{\"partial_rotary_factor\":0.25}",
     .layer_norm = true,
     .values = import_parallel_values,
     .tensors = {outside, stablelm_norms, attention, ffn}},
    {.classes = " Starcoder2ForCausalLM ",
     .name = "starcoder2",
     .activations = GELU,
     .layer_norm = true,
     .tied = true,
     .tensors = {outside, pre_norms, attention, starcoder2_ffn}},
    {.classes = " GPTNeoXForCausalLM ",
     .name = "gptneox",
     .activations = GELU,
     .defaults = "{\"rotary_pct\":0.25}",
     .layer_norm = true,
     .parallel = true,
     .values = import_parallel_values,
     .tensors = {gptneox_all}},
    {.classes = " FalconForCausalLM RWForCausalLM ",
     .name = "falcon",
     .activations = GELU,
     .defaults = "{\"max_position_embeddings\":2048}",
     .layer_norm = true,
     .ff_is_4d = true,
     .tied = true,
     .dimensions = import_falcon_dimensions,
     .tensors = {falcon_all}},
    {.classes = " Lfm2ForCausalLM LFM2ForCausalLM ",
     .name = "lfm2",
     .activations = SILU,
     .tied = true,
     .dimensions = import_lfm2_dimensions,
     .values = import_lfm2_values,
     .tensors = {lfm2_all}},
    {.classes = " Qwen3MoeForCausalLM ",
     .name = "qwen3moe",
     .activations = SILU,
     .dimensions = import_qwen3moe_dimensions,
     .values = import_expert_values,
     .tensors = {outside, pre_norms, attention, head_norms, experts}},
    {.classes = " OlmoeForCausalLM ",
     .name = "olmoe",
     .activations = SILU,
     .dimensions = import_olmoe_dimensions,
     .values = import_expert_values,
     .tensors = {outside, pre_norms, attention, whole_norms, experts}},
    {.classes = " GPT2LMHeadModel ",
     .name = "gpt2",
     .activations = GELU,
     .layer_norm = true,
     .no_rope = true,
     .ff_is_4d = true,
     .tied = true,
     .tensors = {gpt2_all}},
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
