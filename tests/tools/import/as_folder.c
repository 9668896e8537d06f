#include "as_folder.h"

#include "test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/exp_log.h"
#include "file/file.h"

/* ---------------------------------------------------------------------------------------- names */

enum how {
    AS_IT_IS,
    ROTATED,
    QKV,
    QKV_ROTATED,
    TRANSPOSED,
    APART,
    EXPERTS,
    WITH_UP,
    IN_GATE,
    V_ROWS,
    V_COLUMNS,
    WIDENED,
    TURNED,
    TURNED_WITH_UP,
    QKVZ,
    LERPS,
    HEADS,
    SPLIT
};

#define ROTATED_ARCHS                                                                              \
    " llama mistral3 smollm3 granite granitemoe granite_swa granitehybrid minicpm arcee olmo "     \
    "nanbeige "
#define GRANITES " granitemoe granite_swa granitehybrid "
#define HALF_BLOCKS " mamba2 nemotron_h nemotron_h_moe "

/* The name after "model.layers.N." of the tensor blk.N.`gguf`, without .weight or .bias. Of several
   rows that fit, the first counts. */
static const struct {
    const char *archs; /* NULL: all; with a blank before and after each name */
    const char *gguf, *name;
    enum how how;
} names[] = {
    {" gpt2 ", "attn_norm", "ln_1", AS_IT_IS},
    {" gpt2 ", "ffn_norm", "ln_2", AS_IT_IS},
    {" gpt2 ", "attn_qkv", "attn.c_attn", TRANSPOSED},
    {" gpt2 ", "attn_output", "attn.c_proj", TRANSPOSED},
    {" gpt2 ", "ffn_up", "mlp.c_fc", TRANSPOSED},
    {" gpt2 ", "ffn_down", "mlp.c_proj", TRANSPOSED},
    {" gptneox ", "attn_qkv", "attention.query_key_value", QKV},
    {" gptneox ", "attn_output", "attention.dense", AS_IT_IS},
    {" falcon ", "attn_qkv", "self_attention.query_key_value", QKV},
    {" falcon ", "attn_output", "self_attention.dense", AS_IT_IS},
    {" falcon ", "attn_norm_2", "ln_attn", AS_IT_IS},
    {" gptneox falcon ", "ffn_up", "mlp.dense_h_to_4h", AS_IT_IS},
    {" gptneox falcon ", "ffn_down", "mlp.dense_4h_to_h", AS_IT_IS},
    {" starcoder2 ", "ffn_up", "mlp.c_fc", AS_IT_IS},
    {" starcoder2 ", "ffn_down", "mlp.c_proj", AS_IT_IS},
    {" phi3 ", "attn_qkv", "self_attn.qkv_proj", AS_IT_IS},
    {" phi3 ", "ffn_up", "mlp.gate_up_proj", AS_IT_IS},
    {" hunyuan-dense ", "attn_q_norm", "self_attn.query_layernorm", AS_IT_IS},
    {" hunyuan-dense ", "attn_k_norm", "self_attn.key_layernorm", AS_IT_IS},
    {" stablelm ", "attn_q_norm", "self_attn.q_layernorm.norms", APART},
    {" stablelm ", "attn_k_norm", "self_attn.k_layernorm.norms", APART},
    {" lfm2 lfm2moe ", "attn_norm", "operator_norm", AS_IT_IS},
    {" lfm2 lfm2moe ", "ffn_norm", "ffn_norm", AS_IT_IS},
    {" lfm2 lfm2moe ", "attn_output", "self_attn.out_proj", AS_IT_IS},
    {" lfm2 lfm2moe ", "attn_q_norm", "self_attn.q_layernorm", AS_IT_IS},
    {" lfm2 lfm2moe ", "attn_k_norm", "self_attn.k_layernorm", AS_IT_IS},
    {" lfm2 lfm2moe ", "shortconv.in_proj", "conv.in_proj", AS_IT_IS},
    {" lfm2 lfm2moe ", "shortconv.conv", "conv.conv", AS_IT_IS},
    {" lfm2 lfm2moe ", "shortconv.out_proj", "conv.out_proj", AS_IT_IS},
    {" lfm2 lfm2moe ", "ffn_gate", "feed_forward.w1", AS_IT_IS},
    {" lfm2 lfm2moe ", "ffn_up", "feed_forward.w3", AS_IT_IS},
    {" lfm2 lfm2moe ", "ffn_down", "feed_forward.w2", AS_IT_IS},
    {" lfm2moe ", "ffn_gate_inp", "feed_forward.gate", AS_IT_IS},
    {" lfm2moe ", "exp_probs_b", "feed_forward.expert_bias", AS_IT_IS},
    {" lfm2moe ", "ffn_gate_exps", "feed_forward.experts.%u.w1", EXPERTS},
    {" lfm2moe ", "ffn_up_exps", "feed_forward.experts.%u.w3", EXPERTS},
    {" lfm2moe ", "ffn_down_exps", "feed_forward.experts.%u.w2", EXPERTS},
    {" glm4 ", "post_attention_norm", "post_self_attn_layernorm", AS_IT_IS},
    {" glm4 ", "post_ffw_norm", "post_mlp_layernorm", AS_IT_IS},
    {" glm4 ", "ffn_up", "mlp.gate_up_proj", AS_IT_IS},
    {" exaone ", "attn_norm", "ln_1", AS_IT_IS},
    {" exaone ", "attn_q", "attn.attention.q_proj", AS_IT_IS},
    {" exaone ", "attn_k", "attn.attention.k_proj", AS_IT_IS},
    {" exaone ", "attn_v", "attn.attention.v_proj", AS_IT_IS},
    {" exaone ", "attn_output", "attn.attention.out_proj", AS_IT_IS},
    {" exaone ", "ffn_norm", "ln_2", AS_IT_IS},
    {" exaone ", "ffn_gate", "mlp.c_fc_0", AS_IT_IS},
    {" exaone ", "ffn_up", "mlp.c_fc_1", AS_IT_IS},
    {" exaone ", "ffn_down", "mlp.c_proj", AS_IT_IS},
    {" internlm2 ", "attn_norm", "attention_norm", AS_IT_IS},
    {" internlm2 ", "attn_qkv", "attention.wqkv", QKV_ROTATED},
    {" internlm2 ", "attn_output", "attention.wo", AS_IT_IS},
    {" internlm2 ", "ffn_norm", "ffn_norm", AS_IT_IS},
    {" internlm2 ", "ffn_gate", "feed_forward.w1", AS_IT_IS},
    {" internlm2 ", "ffn_up", "feed_forward.w3", AS_IT_IS},
    {" internlm2 ", "ffn_down", "feed_forward.w2", AS_IT_IS},
    {" phi2 ", "attn_output", "self_attn.dense", AS_IT_IS},
    {" phi2 ", "ffn_up", "mlp.fc1", AS_IT_IS},
    {" phi2 ", "ffn_down", "mlp.fc2", AS_IT_IS},
    {" apertus ", "attn_norm", "attention_layernorm", AS_IT_IS},
    {" apertus ", "ffn_norm", "feedforward_layernorm", AS_IT_IS},
    {" hunyuan-moe ", "attn_q_norm", "self_attn.query_layernorm", AS_IT_IS},
    {" hunyuan-moe ", "attn_k_norm", "self_attn.key_layernorm", AS_IT_IS},
    {" hunyuan-moe ", "ffn_gate_inp", "mlp.gate.wg", AS_IT_IS},
    {" hunyuan-moe ", "ffn_gate_shexp", "mlp.shared_mlp.gate_proj", AS_IT_IS},
    {" hunyuan-moe ", "ffn_up_shexp", "mlp.shared_mlp.up_proj", AS_IT_IS},
    {" hunyuan-moe ", "ffn_down_shexp", "mlp.shared_mlp.down_proj", AS_IT_IS},
    {" gpt-oss granite_swa ", "attn_sinks", "self_attn.sinks", AS_IT_IS},
    {" mimo2 ", "attn_sinks", "self_attn.attention_sink_bias", AS_IT_IS},
    {" mimo2 ", "attn_qkv", "self_attn.%c_proj", SPLIT},
    {" spark2_5 ", "attn_qkv", "self_attn.q_k_v_proj", AS_IT_IS},
    {" spark2_5 ", "attn_gate", "self_attn.g_proj", AS_IT_IS},
    {" spark2_5 ", "attn_output", "self_attn.out_proj", AS_IT_IS},
    {" gpt-oss ", "ffn_gate_inp", "mlp.router", AS_IT_IS},
    {" gpt-oss ", "ffn_gate_exps", "mlp.experts.gate_up_proj", TURNED_WITH_UP},
    {" gpt-oss ", "ffn_up_exps", "", IN_GATE},
    {" gpt-oss ", "ffn_down_exps", "mlp.experts.down_proj", TURNED},
    {" afmoe ", "ffn_norm", "pre_mlp_layernorm", AS_IT_IS},
    {" afmoe ", "post_ffw_norm", "post_mlp_layernorm", AS_IT_IS},
    {" afmoe ", "attn_gate", "self_attn.gate_proj", AS_IT_IS},
    {" afmoe ", "ffn_gate_inp", "mlp.router.gate", AS_IT_IS},
    {" afmoe ", "exp_probs_b", "mlp.expert_bias", AS_IT_IS},
    {" dots1 deepseek2 mimo2 ", "exp_probs_b", "mlp.gate.e_score_correction_bias", AS_IT_IS},
    {" ernie4_5-moe ", "exp_probs_b", "mlp.moe_statics.e_score_correction_bias", AS_IT_IS},
    {" bailingmoe2 ", "exp_probs_b", "mlp.gate.expert_bias", AS_IT_IS},
    {" dots1 ernie4_5-moe bailingmoe2 afmoe deepseek2 ", "ffn_gate_shexp",
     "mlp.shared_experts.gate_proj", AS_IT_IS},
    {" dots1 ernie4_5-moe bailingmoe2 afmoe deepseek2 ", "ffn_up_shexp",
     "mlp.shared_experts.up_proj", AS_IT_IS},
    {" dots1 ernie4_5-moe bailingmoe2 afmoe deepseek2 ", "ffn_down_shexp",
     "mlp.shared_experts.down_proj", AS_IT_IS},
    {" bailingmoe2 ", "attn_qkv", "attention.query_key_value", AS_IT_IS},
    {" bailingmoe2 ", "attn_output", "attention.dense", AS_IT_IS},
    {" bailingmoe2 ", "attn_q_norm", "attention.query_layernorm", AS_IT_IS},
    {" bailingmoe2 ", "attn_k_norm", "attention.key_layernorm", AS_IT_IS},
    {" gemma3n ", "altup_router_norm", "altup.router_norm", AS_IT_IS},
    {" gemma3n ", "altup_router", "altup.modality_router", AS_IT_IS},
    {" gemma3n ", "altup_predict_coef", "altup.prediction_coefs", AS_IT_IS},
    {" gemma3n ", "altup_correct_coef", "altup.correction_coefs", AS_IT_IS},
    {" gemma3n ", "altup_correct_scale", "altup.correct_output_scale", AS_IT_IS},
    {" gemma3n ", "laurel_l", "laurel.linear_left", AS_IT_IS},
    {" gemma3n ", "laurel_r", "laurel.linear_right", AS_IT_IS},
    {" gemma3n ", "laurel_post_norm", "laurel.post_laurel_norm", AS_IT_IS},
    {" deepseek2 minicpm3 ", "attn_q_a", "self_attn.q_a_proj", AS_IT_IS},
    {" deepseek2 minicpm3 ", "attn_q_a_norm", "self_attn.q_a_layernorm", AS_IT_IS},
    {" deepseek2 minicpm3 ", "attn_q_b", "self_attn.q_b_proj", AS_IT_IS},
    {" deepseek2 minicpm3 ", "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", AS_IT_IS},
    {" deepseek2 minicpm3 ", "attn_kv_a_norm", "self_attn.kv_a_layernorm", AS_IT_IS},
    {" deepseek2 minicpm3 ", "attn_kv_b", "self_attn.kv_b_proj", AS_IT_IS},
    {" smallthinker ", "ffn_gate_inp", "block_sparse_moe.primary_router", AS_IT_IS},
    {" smallthinker ", "ffn_gate_exps", "block_sparse_moe.experts.%u.gate", EXPERTS},
    {" smallthinker ", "ffn_up_exps", "block_sparse_moe.experts.%u.up", EXPERTS},
    {" smallthinker ", "ffn_down_exps", "block_sparse_moe.experts.%u.down", EXPERTS},
    {" qwen35moe ", "ffn_gate_exps", "mlp.experts.gate_up_proj", WITH_UP},
    {" qwen35moe ", "ffn_up_exps", "", IN_GATE},
    {" qwen35moe ", "ffn_down_exps", "mlp.experts.down_proj", AS_IT_IS},
    {" llama ", "ffn_gate_inp", "block_sparse_moe.gate", AS_IT_IS},
    {" llama ", "ffn_gate_exps", "block_sparse_moe.experts.%u.w1", EXPERTS},
    {" llama ", "ffn_up_exps", "block_sparse_moe.experts.%u.w3", EXPERTS},
    {" llama ", "ffn_down_exps", "block_sparse_moe.experts.%u.w2", EXPERTS},
    {GRANITES, "ffn_gate_inp", "block_sparse_moe.router.layer", AS_IT_IS},
    {GRANITES, "ffn_gate_exps", "block_sparse_moe.input_linear", WITH_UP},
    {GRANITES, "ffn_up_exps", "", IN_GATE},
    {GRANITES, "ffn_down_exps", "block_sparse_moe.output_linear", AS_IT_IS},
    {GRANITES, "ffn_gate_shexp", "shared_mlp.input_linear", WITH_UP},
    {GRANITES, "ffn_up_shexp", "", IN_GATE},
    {GRANITES, "ffn_down_shexp", "shared_mlp.output_linear", AS_IT_IS},
    {" granitehybrid ", "ffn_gate", "shared_mlp.input_linear", WITH_UP},
    {" granitehybrid ", "ffn_up", "", IN_GATE},
    {" granitehybrid ", "ffn_down", "shared_mlp.output_linear", AS_IT_IS},
    {" granitehybrid falcon-h1 ", "ssm_in", "mamba.in_proj", AS_IT_IS},
    {" granitehybrid falcon-h1 ", "ssm_out", "mamba.out_proj", AS_IT_IS},
    {" granitehybrid falcon-h1 ", "ssm_conv1d", "mamba.conv1d", AS_IT_IS},
    {" granitehybrid falcon-h1 ", "ssm_a", "mamba.A_log", AS_IT_IS},
    {" granitehybrid falcon-h1 ", "ssm_d", "mamba.D", AS_IT_IS},
    {" granitehybrid falcon-h1 ", "ssm_dt", "mamba.dt_bias", AS_IT_IS},
    {" granitehybrid falcon-h1 ", "ssm_norm", "mamba.norm", AS_IT_IS},
    {HALF_BLOCKS, "ssm_in", "mixer.in_proj", AS_IT_IS},
    {HALF_BLOCKS, "ssm_out", "mixer.out_proj", AS_IT_IS},
    {HALF_BLOCKS, "ssm_conv1d", "mixer.conv1d", AS_IT_IS},
    {HALF_BLOCKS, "ssm_a", "mixer.A_log", AS_IT_IS},
    {HALF_BLOCKS, "ssm_d", "mixer.D", AS_IT_IS},
    {HALF_BLOCKS, "ssm_dt", "mixer.dt_bias", AS_IT_IS},
    {HALF_BLOCKS, "ssm_norm", "mixer.norm", AS_IT_IS},
    {HALF_BLOCKS, "attn_norm", "norm", AS_IT_IS},
    {HALF_BLOCKS, "attn_q", "mixer.q_proj", AS_IT_IS},
    {HALF_BLOCKS, "attn_k", "mixer.k_proj", AS_IT_IS},
    {HALF_BLOCKS, "attn_v", "mixer.v_proj", AS_IT_IS},
    {HALF_BLOCKS, "attn_output", "mixer.o_proj", AS_IT_IS},
    {HALF_BLOCKS, "ffn_up", "mixer.up_proj", AS_IT_IS},
    {HALF_BLOCKS, "ffn_down", "mixer.down_proj", AS_IT_IS},
    {HALF_BLOCKS, "ffn_gate_inp", "mixer.gate", AS_IT_IS},
    {HALF_BLOCKS, "exp_probs_b", "mixer.gate.e_score_correction_bias", AS_IT_IS},
    {HALF_BLOCKS, "ffn_up_shexp", "mixer.shared_experts.up_proj", AS_IT_IS},
    {HALF_BLOCKS, "ffn_down_shexp", "mixer.shared_experts.down_proj", AS_IT_IS},
    {HALF_BLOCKS, "ffn_up_exps", "mixer.experts.%u.up_proj", EXPERTS},
    {HALF_BLOCKS, "ffn_down_exps", "mixer.experts.%u.down_proj", EXPERTS},
    {HALF_BLOCKS, "ffn_latent_down", "mixer.fc1_latent_proj", AS_IT_IS},
    {HALF_BLOCKS, "ffn_latent_up", "mixer.fc2_latent_proj", AS_IT_IS},
    {" falcon-h1 ", "ffn_norm", "pre_ff_layernorm", AS_IT_IS},
    {" falcon-h1 ", "ffn_gate", "feed_forward.gate_proj", AS_IT_IS},
    {" falcon-h1 ", "ffn_up", "feed_forward.up_proj", AS_IT_IS},
    {" falcon-h1 ", "ffn_down", "feed_forward.down_proj", AS_IT_IS},
    {" gemma4 ", "ffn_gate_inp", "router.proj", AS_IT_IS},
    {" gemma4 ", "ffn_gate_exps", "experts.gate_up_proj", WITH_UP},
    {" gemma4 ", "ffn_up_exps", "", IN_GATE},
    {" gemma4 ", "ffn_down_exps", "experts.down_proj", AS_IT_IS},
    {" gemma4 ", "pre_ffw_norm_2", "pre_feedforward_layernorm_2", AS_IT_IS},
    {" gemma4 ", "post_ffw_norm_1", "post_feedforward_layernorm_1", AS_IT_IS},
    {" gemma4 ", "post_ffw_norm_2", "post_feedforward_layernorm_2", AS_IT_IS},
    {" qwen3next ", "attn_qkv", "linear_attn.in_proj_qkvz", QKVZ},
    {" qwen3next ", "attn_gate", "", IN_GATE},
    {" qwen3next ", "ssm_ba", "linear_attn.in_proj_ba", AS_IT_IS},
    {" qwen3next ", "ssm_conv1d", "linear_attn.conv1d", AS_IT_IS},
    {" qwen3next ", "ssm_a", "linear_attn.A_log", AS_IT_IS},
    {" qwen3next ", "ssm_dt", "linear_attn.dt_bias", AS_IT_IS},
    {" qwen3next ", "ssm_norm", "linear_attn.norm", AS_IT_IS},
    {" qwen3next ", "ssm_out", "linear_attn.out_proj", AS_IT_IS},
    {" qwen35 qwen35moe ", "attn_qkv", "linear_attn.in_proj_qkv", V_ROWS},
    {" qwen35 qwen35moe ", "attn_gate", "linear_attn.in_proj_z", V_ROWS},
    {" qwen35 qwen35moe ", "ssm_alpha", "linear_attn.in_proj_a", V_ROWS},
    {" qwen35 qwen35moe ", "ssm_beta", "linear_attn.in_proj_b", V_ROWS},
    {" qwen35 qwen35moe ", "ssm_conv1d", "linear_attn.conv1d", V_ROWS},
    {" qwen35 qwen35moe ", "ssm_a", "linear_attn.A_log", V_ROWS},
    {" qwen35 qwen35moe ", "ssm_dt", "linear_attn.dt_bias", V_ROWS},
    {" qwen35 qwen35moe ", "ssm_norm", "linear_attn.norm", AS_IT_IS},
    {" qwen35 qwen35moe ", "ssm_out", "linear_attn.out_proj", V_COLUMNS},
    {" rwkv7 ", "attn_norm", "attn_norm", AS_IT_IS},
    {" rwkv7 ", "attn_norm_2", "ffn_norm", AS_IT_IS},
    {" rwkv7 ", "time_mix_lerp_fused", "attn.x_%c", LERPS},
    {" rwkv7 ", "time_mix_w0", "attn.w_lora.lora.2", AS_IT_IS},
    {" rwkv7 ", "time_mix_w1", "attn.w_lora.lora.0", AS_IT_IS},
    {" rwkv7 ", "time_mix_w2", "attn.w_lora.lora.2", AS_IT_IS},
    {" rwkv7 ", "time_mix_a0", "attn.a_lora.lora.2", AS_IT_IS},
    {" rwkv7 ", "time_mix_a1", "attn.a_lora.lora.0", AS_IT_IS},
    {" rwkv7 ", "time_mix_a2", "attn.a_lora.lora.2", AS_IT_IS},
    {" rwkv7 ", "time_mix_v0", "attn.v_lora.lora.2", AS_IT_IS},
    {" rwkv7 ", "time_mix_v1", "attn.v_lora.lora.0", AS_IT_IS},
    {" rwkv7 ", "time_mix_v2", "attn.v_lora.lora.2", AS_IT_IS},
    {" rwkv7 ", "time_mix_g1", "attn.g_lora.lora.0", AS_IT_IS},
    {" rwkv7 ", "time_mix_g2", "attn.g_lora.lora.2", AS_IT_IS},
    {" rwkv7 ", "time_mix_k_k", "attn.k_k", AS_IT_IS},
    {" rwkv7 ", "time_mix_k_a", "attn.k_a", AS_IT_IS},
    {" rwkv7 ", "time_mix_r_k", "attn.r_k", HEADS},
    {" rwkv7 ", "time_mix_ln", "attn.g_norm", AS_IT_IS},
    {" rwkv7 ", "time_mix_receptance", "attn.r_proj", AS_IT_IS},
    {" rwkv7 ", "time_mix_key", "attn.k_proj", AS_IT_IS},
    {" rwkv7 ", "time_mix_value", "attn.v_proj", AS_IT_IS},
    {" rwkv7 ", "time_mix_output", "attn.o_proj", AS_IT_IS},
    {" rwkv7 ", "channel_mix_lerp_k", "ffn.x_k", AS_IT_IS},
    {" rwkv7 ", "channel_mix_key", "ffn.key", AS_IT_IS},
    {" rwkv7 ", "channel_mix_value", "ffn.value", AS_IT_IS},
    {NULL, "ffn_gate_shexp", "mlp.shared_expert.gate_proj", AS_IT_IS},
    {NULL, "ffn_up_shexp", "mlp.shared_expert.up_proj", AS_IT_IS},
    {NULL, "ffn_down_shexp", "mlp.shared_expert.down_proj", AS_IT_IS},
    {NULL, "ffn_gate_inp_shexp", "mlp.shared_expert_gate", AS_IT_IS},
    {NULL, "ffn_gate_inp", "mlp.gate", AS_IT_IS},
    {NULL, "ffn_gate_exps", "mlp.experts.%u.gate_proj", EXPERTS},
    {NULL, "ffn_up_exps", "mlp.experts.%u.up_proj", EXPERTS},
    {NULL, "ffn_down_exps", "mlp.experts.%u.down_proj", EXPERTS},
    {" gemma4 gemma3n ", "inp_gate", "per_layer_input_gate", AS_IT_IS},
    {" gemma4 gemma3n ", "proj", "per_layer_projection", AS_IT_IS},
    {" gemma4 gemma3n ", "post_norm", "post_per_layer_input_norm", AS_IT_IS},
    {" gemma4 ", "layer_output_scale", "layer_scalar", AS_IT_IS},
    {" gemma2 gemma3 gemma4 gemma3n ", "ffn_norm", "pre_feedforward_layernorm", AS_IT_IS},
    {ROTATED_ARCHS, "attn_q", "self_attn.q_proj", ROTATED},
    {ROTATED_ARCHS, "attn_k", "self_attn.k_proj", ROTATED},
    {" bitnet ", "attn_q", "self_attn.q_proj", WIDENED},
    {" bitnet ", "attn_k", "self_attn.k_proj", WIDENED},
    {" bitnet ", "attn_v", "self_attn.v_proj", WIDENED},
    {" bitnet ", "attn_output", "self_attn.o_proj", WIDENED},
    {" bitnet ", "ffn_gate", "mlp.gate_proj", WIDENED},
    {" bitnet ", "ffn_up", "mlp.up_proj", WIDENED},
    {" bitnet ", "ffn_down", "mlp.down_proj", WIDENED},
    {NULL, "attn_sub_norm", "self_attn.attn_sub_norm", AS_IT_IS},
    {NULL, "ffn_sub_norm", "mlp.ffn_sub_norm", AS_IT_IS},
    {NULL, "nextn.eh_proj", "fc", AS_IT_IS},
    {NULL, "nextn.enorm", "pre_fc_norm_embedding", AS_IT_IS},
    {NULL, "nextn.hnorm", "pre_fc_norm_hidden", AS_IT_IS},
    {NULL, "nextn.shared_head_norm", "norm", AS_IT_IS},
    {NULL, "attn_norm", "input_layernorm", AS_IT_IS},
    {NULL, "ffn_norm", "post_attention_layernorm", AS_IT_IS},
    {NULL, "post_attention_norm", "post_attention_layernorm", AS_IT_IS},
    {NULL, "post_ffw_norm", "post_feedforward_layernorm", AS_IT_IS},
    {NULL, "attn_q_norm", "self_attn.q_norm", AS_IT_IS},
    {NULL, "attn_k_norm", "self_attn.k_norm", AS_IT_IS},
    {NULL, "attn_q", "self_attn.q_proj", AS_IT_IS},
    {NULL, "attn_k", "self_attn.k_proj", AS_IT_IS},
    {NULL, "attn_v", "self_attn.v_proj", AS_IT_IS},
    {NULL, "attn_output", "self_attn.o_proj", AS_IT_IS},
    {NULL, "ffn_gate", "mlp.gate_proj", AS_IT_IS},
    {NULL, "ffn_up", "mlp.up_proj", AS_IT_IS},
    {NULL, "ffn_down", "mlp.down_proj", AS_IT_IS},
};

static const struct {
    const char *arch, *before, *layers, *embedding, *norm, *head;
} outside[] = {
    {"gpt2", "", "h", "wte", "ln_f", "lm_head"},
    {"gptneox", "gpt_neox.", "layers", "embed_in", "final_layer_norm", "embed_out"},
    {"falcon", "transformer.", "h", "word_embeddings", "ln_f", "lm_head"},
    {"gemma3", "model.language_model.", "layers", "embed_tokens", "norm", "lm_head"},
    {"gemma4", "model.language_model.", "layers", "embed_tokens", "norm", "lm_head"},
    {"qwen35", "model.language_model.", "layers", "embed_tokens", "norm", "lm_head"},
    {"qwen35moe", "model.language_model.", "layers", "embed_tokens", "norm", "lm_head"},
    {"qwen3vl", "model.language_model.", "layers", "embed_tokens", "norm", "lm_head"},
    {"exaone", "transformer.", "h", "wte", "ln_f", "lm_head"},
    {"internlm2", "model.", "layers", "tok_embeddings", "norm", "output"},
    {"phi2", "model.", "layers", "embed_tokens", "final_layernorm", "lm_head"},
    {"bailingmoe2", "model.", "layers", "word_embeddings", "norm", "lm_head"},
    {"mistral3", "language_model.model.", "layers", "embed_tokens", "norm",
     "language_model.lm_head"},
    {"lfm2", "model.", "layers", "embed_tokens", "embedding_norm", "lm_head"},
    {"falcon-h1", "model.", "layers", "embed_tokens", "final_layernorm", "lm_head"},
    {"mamba2", "backbone.", "layers", "embeddings", "norm_f", "lm_head"},
    {"rwkv7", "model.", "layers", "embeddings", "norm", "lm_head"},
    {"nemotron_h", "backbone.", "layers", "embeddings", "norm_f", "lm_head"},
    {"nemotron_h_moe", "backbone.", "layers", "embeddings", "norm_f", "lm_head"},
    {"lfm2moe", "model.", "layers", "embed_tokens", "embedding_norm", "lm_head"},
    {"spark2_5", "model.", "layers", "embedding", "norm", "lm_head"},
    {NULL, "model.", "layers", "embed_tokens", "norm", "lm_head"},
};

static bool is_in(const char *archs, const char *arch)
{
    char word[80];
    snprintf(word, sizeof word, " %s ", arch);
    return !archs || strstr(archs, word);
}

static bool is(const struct toy *t, const char *arch)
{
    return strcmp(t->arch, arch) == 0;
}

/* The last blocks that predict further tokens. */
static uint32_t predicting(const struct toy *t)
{
    const struct toy_number *n = t->numbers;
    while (n && n->key && strcmp(n->key, "nextn_predict_layers"))
        n++;
    return n && n->key ? (uint32_t)n->x : 0;
}

/* The name of a tensor in the folder. False: it is not one of the folder. */
static bool name_of(const struct toy *t, const char *gguf, char name[160], enum how *how)
{
    size_t o = 0;
    unsigned layer;
    char part[64];
    int end = 0;
    while (outside[o].arch && !is(t, outside[o].arch))
        o++;
    const char *before = outside[o].before, *kind = strrchr(gguf, '.');
    *how = AS_IT_IS;
    if (strncmp(gguf, "token_embd.", 11) == 0) {
        snprintf(name, 160, "%s%s%s", before, outside[o].embedding, kind);
    } else if (is(t, "rwkv7") && strncmp(gguf, "token_embd_norm.", 16) == 0) {
        snprintf(name, 160, "model.layers.0.pre_norm%s", kind);
    } else if (strncmp(gguf, "output_norm.", 12) == 0 ||
               strncmp(gguf, "token_embd_norm.", 16) == 0) {
        snprintf(name, 160, "%s%s%s", before, outside[o].norm, kind);
    } else if (strncmp(gguf, "output.", 7) == 0) {
        snprintf(name, 160, "%s%s", outside[o].head, kind);
    } else if (strncmp(gguf, "per_layer_token_embd.", 21) == 0) {
        snprintf(name, 160, "%sembed_tokens_per_layer%s", before, kind);
    } else if (strncmp(gguf, "per_layer_", 10) == 0) {
        snprintf(name, 160, "%sper_layer_%s%s", before,
                 strstr(gguf, "norm") ? "projection_norm" : "model_projection", kind);
    } else if (strncmp(gguf, "altup_", 6) == 0) {
        snprintf(name, 160, "%saltup_%s.%%u%s", before,
                 strstr(gguf, "unembd") ? "unembed_projections" : "projections", kind);
        *how = EXPERTS;
    } else if (strncmp(gguf, "position_embd.", 14) == 0) {
        snprintf(name, 160, "%swpe%s", before, kind);
    } else if (sscanf(gguf, "blk.%u.%63s%n", &layer, part, &end) == 2 && end) {
        size_t i = 0;
        char *dot = strrchr(part, '.');
        if (dot)
            *dot = 0;
        else
            kind = ".weight";
        while (!is_in(names[i].archs, t->arch) || strcmp(names[i].gguf, part))
            assert_true(++i < sizeof names / sizeof *names);
        *how = names[i].how;
        const char *last = names[i].name;
        if (is(t, "falcon") && t->large && strcmp(part, "attn_norm") == 0)
            last = "ln_mlp";
        bool of_values = strncmp(part, "time_mix_v", 10) == 0 && !part[11];
        if (*how == IN_GATE || (of_values && !layer)) /* fla's layer 0 has none */
            return false;
        if (strncmp(part, "time_mix_", 9) == 0 && part[10] == '0')
            kind = ".bias";
        if (is(t, "gemma4") && strcmp(kind, ".scale") == 0)
            last = strcmp(part, "ffn_gate_inp") ? "router.per_expert_scale" : "router.scale";
        if (is(t, "gpt-oss") && strstr(part, "_exps"))
            kind = strcmp(kind, ".bias") == 0 ? "_bias" : "";
        bool bare = is_in(" exp_probs_b ssm_a ssm_d ssm_dt layer_output_scale attn_sinks "
                          "altup_correct_scale time_mix_lerp_fused time_mix_k_k time_mix_k_a "
                          "time_mix_r_k channel_mix_lerp_k ",
                          part) ||
                    (is(t, "qwen35moe") && strstr(part, "_exps")) ||
                    (is(t, "gemma4") && (strstr(part, "_exps") || strcmp(kind, ".scale") == 0));
        uint32_t layers = t->n_layer - predicting(t);
        if (strncmp(part, "nextn.", 6) == 0)
            snprintf(name, 160, "mtp.%s%s", last, kind);
        else if (layer >= layers)
            snprintf(name, 160, "mtp.layers.%u.%s%s", layer - layers, last, bare ? "" : kind);
        else
            snprintf(name, 160, "%s%s.%u.%s%s", before, outside[o].layers, layer, last,
                     bare ? "" : kind);
    } else {
        return false;
    }
    return true;
}

/* ----------------------------------------------------------------------------------------- data */

/* Sizes of a delta net: heads of keys, heads of values, numbers of a head. */
struct heads {
    uint64_t keys, values, dim;
};

/* The head of values in the GGUF file that becomes head i of the folder. */
static uint64_t head_of(struct heads h, uint64_t i)
{
    uint64_t of_one = h.values / h.keys;
    return i % of_one * h.keys + i / of_one;
}

/* The same of one of n rows, the last of which are of these heads. */
static uint64_t v_row_of(struct heads h, uint64_t n, uint64_t r)
{
    uint64_t unit = n == h.values ? 1 : h.dim, first = n - h.values * unit;
    return r < first ? r : first + head_of(h, (r - first) / unit) * unit + (r - first) % unit;
}

/* The row of the GGUF file's tensor that is row r of the folder's. */
static uint64_t row_of(const struct toy *t, enum how how, uint64_t r)
{
    uint32_t e = t->head_dim ? t->head_dim : 1; /* 0: no attention */
    uint64_t head = r / e, x = r % e;
    if (how == ROTATED) /* first all first partners of a head, then all second ones */
        return head * e + (x < e / 2 ? 2 * x : 2 * (x - e / 2) + 1);
    if (how != QKV && how != QKV_ROTATED)
        return r;
    if (how == QKV_ROTATED && head % (t->n_head / t->n_head_kv + 2) <= t->n_head / t->n_head_kv)
        x = x < e / 2 ? 2 * x : 2 * (x - e / 2) + 1; /* of a query or a key */
    uint32_t of_one = t->n_head / t->n_head_kv;
    uint64_t group = head / (of_one + 2), place = head % (of_one + 2);
    return x + e * (place < of_one    ? group * of_one + place
                    : place == of_one ? t->n_head + group
                                      : t->n_head + t->n_head_kv + group);
}

struct out {
    FILE *header, *data;
    uint64_t at;
    struct heads heads;
};

/* dims: matrices first; no more than one is no dimension */
static void put_head(struct out *out, const char *name, enum tft_dtype type, uint64_t matrices,
                     uint64_t rows, uint64_t cols, bool vector, uint64_t bytes)
{
    fprintf(out->header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", out->at ? "," : "{", name,
            type == TFT_F32 ? "F32" : type == TFT_F16 ? "F16" : "BF16");
    if (matrices > 1)
        fprintf(out->header, "%llu,", (unsigned long long)matrices);
    if (strstr(name, "shared_expert_gate") || strstr(name, "moe_statics"))
        fputs("1,", out->header);
    if (strstr(name, ".attn.x_"))
        fputs("1,1,", out->header);
    if (!vector)
        fprintf(out->header, "%llu,%s", (unsigned long long)rows,
                strstr(name, "conv.conv") || strstr(name, "conv1d") ? "1," : "");
    fprintf(out->header, "%llu],\"data_offsets\":[%llu,%llu]}", (unsigned long long)cols,
            (unsigned long long)out->at, (unsigned long long)(out->at + bytes));
    out->at += bytes;
}

/* A float with -x as its exp, or nearly so if there is no such float. */
static float log_of(float x)
{
    float y = (float)log(-(double)x);
    for (int i = 0; i < 4 && -(float)tft_exp((double)y) != x; i++)
        y = nextafterf(y, -(float)tft_exp((double)y) > x ? 9 : -9);
    return y;
}

/* Multipliers of falcon-h1, as write_config has them: powers of two, so that quotients and products
   have the same bits. Rows of in_proj belong to z, x, b, c and the steps. */
static float multiplier_of(const struct toy *t, const char *name, uint64_t row)
{
    static const struct {
        const char *part;
        float by;
    } parts[] = {{"embed_tokens", 4},  {"lm_head", 0.5f},      {"q_proj", 2},
                 {"k_proj", 0.5f},     {"v_proj", 2},          {"o_proj", 0.25f},
                 {"gate_proj", 8},     {"down_proj", 0.125f},  {"out_proj", 2}};
    static const float ssm[] = {0.25f, 2, 4, 0.5f, 16};
    enum { WIDTH = 64, SHARED = 2 * 24 };
    if (!is(t, "falcon-h1"))
        return 1;
    if (strstr(name, "in_proj"))
        return 0.5f * ssm[row < WIDTH                ? 0
                          : row < 2 * WIDTH          ? 1
                          : row < 2 * WIDTH + SHARED ? 2
                          : row < 2 * (WIDTH + SHARED) ? 3
                                                       : 4];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i].part))
            return parts[i].by;
    return 1;
}

/* The numbers of one row or column, and of norms of gemma and qwen35 less by 1. */
static void put_numbers(struct out *out, const struct toy *t, const struct tft_tensor *from,
                        const char *name, uint64_t first, uint64_t step, uint64_t n)
{
    uint32_t size = from->type == TFT_F32 ? 4 : 2;
    bool less = is_in(" gemma gemma2 gemma3 qwen35 qwen35moe qwen3next nemotron ", t->arch) &&
                strstr(name, "norm") && !strstr(name, "bias") && !strstr(name, "linear_attn.norm"),
         decay = strstr(name, "A_log");
    float by = multiplier_of(t, name, first / from->ne[0]);
    for (uint64_t i = 0; i < n; i++) {
        unsigned char x[4];
        memcpy(x, from->data + (first + i * step) * size, size);
        if (less || decay || by != 1) {
            float f;
            memcpy(&f, x, 4);
            f = decay ? log_of(f) : less ? f - 1 : f / by;
            memcpy(x, &f, 4);
        }
        fwrite(x, size, 1, out->data);
    }
}

/* Numbers of 16 bits as f32. */
static void put_floats(struct out *out, const struct tft_tensor *from, uint64_t first, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        float x;
        tft_dtype_info(from->type)->to_f32(&x, from->data + 2 * (first + i), 1);
        fwrite(&x, 4, 1, out->data);
    }
}

/* Numbers that become the given ternary matrix when they are rounded: its numbers are the nearest
   ones, and the mean magnitude is the same. Of each pair, 1.75 and 0.25 times the magnitude, or 1.5
   and 0.5; half the magnitude becomes 0. */
static void put_widened(struct out *out, const struct tft_tensor *from)
{
    for (uint64_t i = 0; i < from->ne[0] * from->ne[1]; i++) {
        float x, far = i / 2 % 2 ? 1.5f : 1.75f;
        memcpy(&x, from->data + 4 * i, 4);
        x = x != 0 ? x * far : (i % 3 ? 2 - far : far - 2) * AS_FOLDER_TERNARY;
        fwrite(&x, 4, 1, out->data);
    }
}

enum { SHORT_VALUE = 8 }; /* numbers of a value in the toy of mimo2 */

/* mimo2's rows of queries, keys and values as three tensors. */
static void put_split(struct out *out, const struct toy *t, const struct tft_tensor *from,
                      const char *name)
{
    uint64_t cols = from->ne[0], q = (uint64_t)t->n_head * t->head_dim,
             kv = (from->ne[1] - q) / (t->head_dim + SHORT_VALUE), first = 0;
    const uint64_t rows[] = {q, kv * t->head_dim, kv * SHORT_VALUE};
    for (int i = 0; i < 3; i++) {
        char one[160];
        snprintf(one, sizeof one, name, "qkv"[i]);
        put_head(out, one, from->type, 1, rows[i], cols, false,
                 from->bytes / from->ne[1] * rows[i]);
        put_numbers(out, t, from, name, first * cols, 1, rows[i] * cols);
        first += rows[i];
    }
}

/* up: with WITH_UP, the tensor with rows that come after the rows of each matrix of `from` */
static void put_tensor(struct out *out, const struct toy *t, const struct tft_tensor *from,
                       const struct tft_tensor *up, const char *name, enum how how)
{
    uint64_t cols = from->ne[0], rows = from->ne[1], matrices = from->ne[2];
    bool vector = from->n_dims == 1;
    if (!vector && (cols == 1 || strstr(name, "mixer.norm"))) { /* of Mamba-2: a row for each head,
                                                                   or for each group */
        cols *= rows;
        rows = 1;
        vector = true;
    }
    if (how == APART) {
        for (uint64_t r = 0; r < rows; r++) {
            char one[160];
            snprintf(one, sizeof one, "%.*s.%llu.weight", (int)(strlen(name) - 7), name,
                     (unsigned long long)r);
            put_head(out, one, from->type, 1, 1, cols, true, from->bytes / rows);
            put_numbers(out, t, from, name, r * cols, 1, cols);
        }
        return;
    }
    if (how == EXPERTS) {
        for (uint64_t x = 0; x < from->ne[2]; x++) {
            char one[160];
            snprintf(one, sizeof one, name, (unsigned)x);
            if (x % 2 && from->type != TFT_F32) { /* a folder may have several types */
                put_head(out, one, TFT_F32, 1, rows, cols, false, 4 * rows * cols);
                put_floats(out, from, x * rows * cols, rows * cols);
                continue;
            }
            put_head(out, one, from->type, 1, rows, cols, false, from->bytes / from->ne[2]);
            put_numbers(out, t, from, name, x * rows * cols, 1, rows * cols);
        }
        return;
    }
    if (how == LERPS) {
        for (const char *letter = "rwkvag"; *letter; letter++) {
            char one[160];
            snprintf(one, sizeof one, name, *letter);
            put_head(out, one, from->type, 1, 1, cols, true, from->bytes / 6);
            put_numbers(out, t, from, name, (uint64_t)(strchr("rwkvag", *letter) - "rwkvag") * cols,
                        1, cols);
        }
        return;
    }
    if (how == SPLIT) {
        put_split(out, t, from, name);
        return;
    }
    if (how == HEADS) {
        uint64_t n = t->numbers ? 16 : 32;
        put_head(out, name, from->type, 1, cols / n, n, false, from->bytes);
        put_numbers(out, t, from, name, 0, 1, cols);
        return;
    }
    if (how == TRANSPOSED && !vector) {
        put_head(out, name, from->type, 1, cols, rows, false, from->bytes);
        for (uint64_t c = 0; c < cols; c++)
            put_numbers(out, t, from, name, c, cols, rows);
        return;
    }
    if (how == TURNED_WITH_UP) { /* columns, or numbers of biases, of both in turns */
        uint64_t n = from->n_dims == 3 ? rows : cols, all = matrices > 1 ? matrices : rows;
        if (from->n_dims == 3)
            put_head(out, name, from->type, matrices, cols, 2 * rows, false, 2 * from->bytes);
        else
            put_head(out, name, from->type, 1, rows, 2 * cols, false, 2 * from->bytes);
        for (uint64_t x = 0; x < all; x++)
            for (uint64_t c = 0; c < (from->n_dims == 3 ? cols : 1); c++)
                for (uint64_t r = 0; r < 2 * n; r++) {
                    uint64_t at =
                        from->n_dims == 3 ? (x * rows + r / 2) * cols + c : x * cols + r / 2;
                    put_numbers(out, t, r % 2 ? up : from, name, at, 1, 1);
                }
        return;
    }
    if (how == TURNED && from->n_dims == 3) {
        put_head(out, name, from->type, matrices, cols, rows, false, from->bytes);
        for (uint64_t x = 0; x < matrices; x++)
            for (uint64_t c = 0; c < cols; c++)
                put_numbers(out, t, from, name, x * rows * cols + c, cols, rows);
        return;
    }
    if (how == QKVZ) { /* up: z */
        uint64_t keys = out->heads.keys, of_one = out->heads.values / keys,
                 n = out->heads.dim * cols; /* numbers of a head */
        put_head(out, name, from->type, 1, rows + up->ne[1], cols, false, from->bytes + up->bytes);
        for (uint64_t k = 0; k < keys; k++) {
            put_numbers(out, t, from, name, k * n, 1, n);
            put_numbers(out, t, from, name, (keys + k) * n, 1, n);
            put_numbers(out, t, from, name, (2 * keys + k * of_one) * n, 1, of_one * n);
            put_numbers(out, t, up, name, k * of_one * n, 1, of_one * n);
        }
        return;
    }
    if (how == WITH_UP) {
        put_head(out, name, from->type, matrices, 2 * rows, cols, false, 2 * from->bytes);
        for (uint64_t x = 0; x < 2 * matrices; x++)
            put_numbers(out, t, x % 2 ? up : from, name, x / 2 * rows * cols, 1, rows * cols);
        return;
    }
    if (how == WIDENED) {
        put_head(out, name, TFT_F32, 1, rows, cols, false, 4 * rows * cols);
        put_widened(out, from);
        return;
    }
    put_head(out, name, from->type, matrices, rows, cols, vector, from->bytes);
    if (how == V_COLUMNS)
        for (uint64_t i = 0; i < rows * out->heads.values; i++)
            put_numbers(out, t, from, name,
                        i / out->heads.values * cols +
                            head_of(out->heads, i % out->heads.values) * out->heads.dim,
                        1, out->heads.dim);
    else if (how == V_ROWS)
        for (uint64_t i = 0, n = vector ? cols : rows, width = vector ? 1 : cols; i < n; i++)
            put_numbers(out, t, from, name, v_row_of(out->heads, n, i) * width, 1, width);
    else if (vector)
        for (uint64_t c = 0; c < cols; c++)
            put_numbers(out, t, from, name, row_of(t, how, c), 1, 1);
    else
        for (uint64_t r = 0; r < rows * matrices; r++)
            put_numbers(out, t, from, name, row_of(t, how, r) * cols, 1, cols);
}

/* The tensor named like a gate, with "up" instead of "gate". */
static const struct tft_tensor *up_of(const struct tft_source *s, const char *gate)
{
    char name[64];
    const char *at = strstr(gate, "gate"), *qkv = strstr(gate, "attn_qkv");
    if (qkv) { /* of a delta net: z */
        snprintf(name, sizeof name, "%.*sattn_gate.weight", (int)(qkv - gate), gate);
        return tft_source_tensor(s, name);
    }
    if (!at)
        return NULL;
    snprintf(name, sizeof name, "%.*sup%s", (int)(at - gate), gate, at + 4);
    return tft_source_tensor(s, name);
}

/* ---------------------------------------------------------------------------------------- files */

static FILE *create(const char *folder, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb+");
    assert_non_null(f);
    return f;
}

static void shard_name(char name[64], unsigned i, unsigned n)
{
    snprintf(name, 64, n > 1 ? "model-%05u-of-%05u.safetensors" : "model.safetensors", i + 1, n);
}

static void copy(FILE *to, FILE *from)
{
    char buffer[4096];
    rewind(from);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, from)) > 0;)
        assert_int_equal(fwrite(buffer, 1, n, to), n);
    assert_int_equal(fclose(from), 0);
}

static const struct tft_value *value_of(const struct toy *t, const struct tft_source *s,
                                        const char *key)
{
    char full[96];
    snprintf(full, sizeof full, "%s.%s", t->arch, key);
    return tft_source_value(s, full);
}

static struct heads heads_of(const struct toy *t, const struct tft_source *s)
{
    struct heads h = {0};
    const struct tft_value *keys = value_of(t, s, "ssm.group_count"),
                           *values = value_of(t, s, "ssm.time_step_rank"),
                           *dim = value_of(t, s, "ssm.state_size");
    if (keys)
        assert_true(tft_value_uint(keys, 0, &h.keys) && tft_value_uint(values, 0, &h.values) &&
                    tft_value_uint(dim, 0, &h.dim));
    return h;
}

/* Folders of gemma4 have keys also in layers that use keys of earlier ones: here, their norm. */
static void put_spare_norm(struct out *out, const struct toy *t, const struct tft_source *s,
                           const char *gguf, const char *name)
{
    char own[64], spare[160], *at;
    unsigned layer;
    if (sscanf(gguf, "blk.%u.attn_q_norm", &layer) != 1 || !strstr(gguf, "q_norm"))
        return;
    snprintf(own, sizeof own, "blk.%u.attn_k_norm.weight", layer);
    snprintf(spare, sizeof spare, "%s", name);
    at = strstr(spare, "q_norm");
    *at = 'k';
    if (!tft_source_tensor(s, own))
        put_tensor(out, t, tft_source_tensor(s, gguf), NULL, spare, AS_IT_IS);
}

/* apertus: numbers of xIELU, a tensor each. */
static void put_xielu(struct out *out, const struct toy *t, const struct tft_source *s)
{
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    for (uint32_t l = 0; l < t->n_layer; l++)
        for (int i = 0; i < 4; i++) {
            char name[96];
            double x = 0;
            assert_true(tft_value_real(tft_source_value(s, keys[i]), l, &x));
            float f = (float)x;
            snprintf(name, sizeof name, "model.layers.%u.mlp.act_fn.%s", l,
                     strchr(keys[i], '.') + 1);
            put_head(out, name, TFT_F32, 1, 1, 1, true, sizeof f);
            fwrite(&f, sizeof f, 1, out->data);
        }
}

static void write_shard(const struct toy *t, const struct tft_source *s, const char *path,
                        unsigned shard, unsigned n, FILE *index)
{
    struct out out = {tmpfile(), tmpfile(), 0, heads_of(t, s)};
    char file[64], name[160];
    shard_name(file, shard, n);
    assert_true(out.header && out.data);
    for (size_t i = 0; i < s->n_tensor; i++) {
        char gguf[64];
        enum how how;
        snprintf(gguf, sizeof gguf, "%.*s", (int)s->tensor[i].name.n, s->tensor[i].name.p);
        if (i % n != shard || !name_of(t, gguf, name, &how))
            continue;
        put_tensor(&out, t, &s->tensor[i], up_of(s, gguf), name, how);
        if (is(t, "gemma4"))
            put_spare_norm(&out, t, s, gguf, name);
        if (index)
            fprintf(index, "%s\"%s\":\"%s\"", ftell(index) > 15 ? "," : "", name, file);
    }
    if (is(t, "apertus"))
        put_xielu(&out, t, s);
    fputs("}", out.header);
    unsigned char length[8];
    tft_store_u64(length, (uint64_t)ftell(out.header));
    FILE *f = create(path, file);
    fwrite(length, 8, 1, f);
    copy(f, out.header);
    copy(f, out.data);
    assert_int_equal(fclose(f), 0);
}

static void put_list(FILE *f, const struct tft_source *s, const char *name, const char *tensor)
{
    const struct tft_tensor *t = tft_source_tensor(s, tensor);
    fprintf(f, ",\"%s\":[", name);
    for (uint64_t i = 0; i < t->ne[0]; i++) {
        float x;
        memcpy(&x, t->data + 4 * i, 4);
        fprintf(f, "%s%.9g", i ? "," : "", (double)x);
    }
    fputs("]", f);
}

/* rope_parameters or rope_scaling, and the base */
static double number_of(const struct toy *t, const char *key)
{
    const struct toy_number *n = t->numbers;
    while (n->key && strcmp(n->key, key))
        n++;
    return n->key ? n->x : 0;
}

static void put_rope(FILE *f, const struct toy *t, const struct tft_source *s)
{
    if (is(t, "gemma3")) {
        fprintf(f,
                "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":%g,"
                "\"rope_theta\":10000.0},\"sliding_attention\":{\"rope_type\":\"default\","
                "\"rope_theta\":500}},",
                (double)t->linear_scaling);
    } else if (is(t, "gemma3n")) {
        fprintf(f, "\"rope_theta\":10000.0,\"rope_local_base_freq\":%d,",
                number_of(t, "rope.freq_base_swa") > 0 ? 500 : 10000);
    } else if (is(t, "gemma4")) {
        fprintf(f,
                "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"proportional\","
                "\"partial_rotary_factor\":0.5,\"rope_theta\":10000.0},\"sliding_attention\":{"
                "\"rope_type\":\"default\",\"rope_theta\":%d}},",
                t->numbers ? 10000 : 500);
    } else if (is(t, "spark2_5")) {
        fprintf(f,
                "\"rope_parameters\":{\"full_attention\":{\"partial_rotary_factor\":%.17g,"
                "\"rope_theta\":10000},\"sliding_attention\":{\"partial_rotary_factor\":0.75,"
                "\"rope_theta\":500}},",
                (double)t->n_rot / t->head_dim);
    } else if (is(t, "mistral3")) {
        fprintf(f,
                "\"rope_parameters\":{\"type\":\"yarn\",\"rope_type\":\"yarn\",\"rope_theta\":1e4,"
                "\"factor\":%g,\"original_max_position_embeddings\":40,\"beta_fast\":2.0,"
                "\"beta_slow\":0.5,\"mscale\":1,\"mscale_all_dim\":0.7,"
                "\"llama_4_scaling_beta\":0.1},",
                (double)t->yarn);
    } else if (is(t, "deepseek2") && t->yarn > 0) {
        fprintf(f,
                "\"rope_theta\":10000,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":%g,"
                "\"original_max_position_embeddings\":40,\"mscale\":0.7,\"mscale_all_dim\":0.7},",
                (double)t->yarn);
    } else if (t->yarn > 0) {
        fprintf(f,
                "\"rope_theta\":10000,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":%g,"
                "\"original_max_position_embeddings\":40},",
                (double)t->yarn);
    } else if (is_in(" phi3 minicpm minicpm3 ", t->arch)) {
        fputs("\"original_max_position_embeddings\":20,\"rope_scaling\":{\"type\":\"longrope\"", f);
        fprintf(f, ",\"attention_factor\":%g", is(t, "phi3") ? 1.19 : 1.0);
        put_list(f, s, "short_factor", "rope_factors_short.weight");
        put_list(f, s, "long_factor", "rope_factors_long.weight");
        fputs("},", f);
    } else if (is(t, "gptneox")) {
        fputs("\"rotary_emb_base\":10000,", f);
    } else {
        fputs("\"rope_scaling\":null,\"rope_theta\":10000.0,", f);
    }
    bool latent = is_in(" deepseek2 minicpm3 ", t->arch); /* it has a member of its own */
    if (t->n_rot && !latent &&
        (t->n_rot != t->head_dim || is_in(" qwen35 qwen35moe ", t->arch)))
        fprintf(f, "\"%s\":%.17g,", is(t, "gptneox") ? "rotary_pct" : "partial_rotary_factor",
                (double)t->n_rot / t->head_dim);
}

/* Layers of gemma4, which differ. Toys with other numbers are like 31B, or have experts. */
static void put_gemma4(FILE *f, const struct toy *t)
{
    bool small = !t->numbers, experts = toy_has_experts(t);
    fprintf(f,
            "\"head_dim\":%d,\"global_head_dim\":%u,\"sliding_window\":%d,"
            "\"attention_k_eq_v\":%s,\"num_global_key_value_heads\":%s,"
            "\"num_kv_shared_layers\":%d,\"use_double_wide_mlp\":%s,"
            "\"hidden_size_per_layer_input\":%d,\"final_logit_softcapping\":%s,",
            small ? 12 : 8, t->head_dim, small || experts ? 30 : 100, small ? "false" : "true",
            small     ? "null"
            : experts ? "1"
                      : "2",
            small ? 3 : 0, t->ffs ? "true" : "false", small ? 20 : 0,
            small || experts ? "5.0" : "null");
    if (experts)
        fputs("\"enable_moe_block\":true,\"num_experts\":5,\"top_k_experts\":2,"
              "\"moe_intermediate_size\":24,",
              f);
    fputs("\"layer_types\":[", f);
    for (uint32_t l = 0; l < t->n_layer; l++)
        fprintf(f, "%s\"%s\"", l ? "," : "",
                t->windows[l] ? "sliding_attention" : "full_attention");
    fputs("],", f);
}

/* Those of mixtures of experts. */
static void put_own_experts(FILE *f, const struct toy *t)
{
    bool other = t->numbers; /* than the usual numbers */
    if (is_in(" qwen35moe qwen3next ", t->arch))
        fputs("\"linear_conv_kernel_dim\":4,\"linear_num_key_heads\":2,"
              "\"linear_num_value_heads\":4,\"linear_key_head_dim\":32,"
              "\"linear_value_head_dim\":32,\"full_attention_interval\":2,\"num_experts\":5,"
              "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
              "\"shared_expert_intermediate_size\":64,",
              f);
    if (is(t, "hunyuan-moe"))
        fputs("\"num_experts\":5,\"moe_topk\":[2,2],\"moe_intermediate_size\":[32,32],"
              "\"num_shared_expert\":[2,2],\"use_mixed_mlp_moe\":true,",
              f);
    if (is(t, "ernie4_5-moe"))
        fputs("\"moe_num_experts\":6,\"moe_k\":3,\"moe_intermediate_size\":32,"
              "\"moe_num_shared_experts\":2,\"moe_layer_start_index\":1,"
              "\"moe_layer_interval\":1,",
              f);
    if (is(t, "dots1"))
        fprintf(f,
                "\"n_routed_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
                "\"n_shared_experts\":%d,\"first_k_dense_replace\":1,\"norm_topk_prob\":%s,"
                "\"routed_scaling_factor\":%s,\"scoring_func\":\"noaux_tc\",\"n_group\":1,",
                other ? 1 : 2, other ? "false" : "true", other ? "1.0" : "2.5");
    if (is(t, "granite_swa"))
        fputs("\"sliding_window\":30,\"layer_types\":[\"full_attention\",\"sliding_attention\","
              "\"sliding_attention\"],\"layer_rope_theta\":[10000,10000,0],",
              f);
    if (is(t, "granite_swa") && toy_has_experts(t))
        fputs("\"num_local_experts\":9,\"num_experts_per_tok\":4,\"shared_intermediate_size\":64,",
              f);
    if (is(t, "gpt-oss"))
        fputs("\"num_local_experts\":6,\"num_experts_per_tok\":3,\"sliding_window\":30,"
              "\"layer_types\":[\"sliding_attention\",\"full_attention\"],"
              "\"swiglu_limit\":7.0,",
              f);
    if (is(t, "afmoe"))
        fputs("\"num_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
              "\"num_shared_experts\":1,\"num_dense_layers\":1,\"route_norm\":true,"
              "\"route_scale\":2.5,\"score_func\":\"sigmoid\",\"sliding_window\":30,"
              "\"global_attn_every_n_layers\":4,\"mup_enabled\":true,",
              f);
    if (is(t, "mimo2"))
        fprintf(f,
                "\"hybrid_layer_pattern\":[0,1,1,0],\"sliding_window\":30,"
                "\"sliding_window_size\":30,\"attention_chunk_size\":30,\"v_head_dim\":%d,"
                "\"swa_v_head_dim\":%d,\"swa_head_dim\":16,\"swa_num_attention_heads\":4,"
                "\"swa_num_key_value_heads\":2,\"swa_rope_theta\":500,"
                "\"attention_value_scale\":0.7,\"add_swa_attention_sink_bias\":true,"
                "\"add_full_attention_sink_bias\":false,\"moe_layer_freq\":[0,1,1,1],"
                "\"n_routed_experts\":6,\"n_shared_experts\":null,\"num_experts_per_tok\":2,"
                "\"moe_intermediate_size\":32,\"scoring_func\":\"sigmoid\","
                "\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,\"n_group\":1,"
                "\"topk_group\":1,\"routed_scaling_factor\":null,",
                SHORT_VALUE, SHORT_VALUE);
    if (is(t, "spark2_5"))
        fputs("\"headwise_attn_output_gate\":true,\"gate_attn_act_mode\":\"sigmoid\","
              "\"sliding_window\":30,\"layer_types\":[\"full_attention\","
              "\"sliding_attention\",\"sliding_attention\"],",
              f);
    if (is(t, "bailingmoe2"))
        fputs("\"num_experts\":12,\"num_experts_per_tok\":3,\"moe_intermediate_size\":32,"
              "\"num_shared_experts\":1,\"first_k_dense_replace\":1,\"norm_topk_prob\":true,"
              "\"routed_scaling_factor\":2.5,\"score_function\":\"sigmoid\",\"n_group\":4,"
              "\"topk_group\":2,",
              f);
    if (is(t, "mellum"))
        fputs("\"num_experts\":6,\"num_experts_per_tok\":3,\"moe_intermediate_size\":32,"
              "\"sliding_window\":30,\"layer_types\":[\"sliding_attention\","
              "\"full_attention\"],",
              f);
    if (is(t, "smallthinker"))
        fprintf(f,
                "\"moe_num_primary_experts\":%d,\"moe_num_active_primary_experts\":%d,"
                "\"moe_ffn_hidden_size\":32,\"moe_primary_router_apply_softmax\":%s,%s",
                other ? 5 : 6, other ? 2 : 3, other ? "true" : "false",
                other ? "\"sliding_window_layout\":[0,0],\"rope_layout\":[1,1],"
                      : "\"sliding_window_size\":30,\"sliding_window_layout\":[0,1],"
                        "\"rope_layout\":[0,1],");
}

/* Those of models with Mamba-2 in all layers, or with halves of blocks. The kinds of layers are a
   word, or a list. */
static void put_own_mamba(FILE *f, const struct toy *t)
{
    if (is(t, "falcon-h1"))
        fputs("\"mamba_d_conv\":4,\"mamba_n_heads\":4,\"mamba_d_head\":16,\"mamba_n_groups\":2,"
              "\"mamba_d_state\":24,\"mamba_d_ssm\":64,\"mamba_rms_norm\":false,"
              "\"mamba_norm_before_gate\":false,\"time_step_limit\":[0.0,Infinity],"
              "\"embedding_multiplier\":4,\"lm_head_multiplier\":0.5,\"key_multiplier\":0.25,"
              "\"attention_in_multiplier\":2,\"attention_out_multiplier\":0.25,"
              "\"mlp_multipliers\":[8,0.125],\"ssm_in_multiplier\":0.5,"
              "\"ssm_out_multiplier\":2,\"ssm_multipliers\":[0.25,2,4,0.5,16],",
              f);
    if (is(t, "mamba2"))
        fputs("\"conv_kernel\":4,\"num_heads\":4,\"head_dim\":16,\"n_groups\":2,"
              "\"state_size\":17,\"expand\":2,\"chunk_size\":256,\"rms_norm\":true,"
              "\"residual_in_fp32\":true,\"use_conv_bias\":true,\"use_bias\":false,",
              f);
    if (is(t, "rwkv7"))
        fprintf(f,
                "\"head_dim\":%d,\"decay_low_rank_dim\":%g,\"a_low_rank_dim\":%g,"
                "\"v_low_rank_dim\":%g,\"gate_low_rank_dim\":%g,\"norm_first\":true,"
                "\"norm_bias\":true,\"attn\":null,\"attn_mode\":\"chunk\",\"fuse_norm\":false,"
                "\"value_dim\":[64],\"hidden_ratio\":4.0,\"intermediate_size\":%u,",
                t->numbers ? 16 : 32, t->numbers ? 5.0 : 12.0, t->numbers ? 33.0 : 9.0,
                t->numbers ? 16.0 : 7.0, t->numbers ? 3.0 : 20.0, t->n_ff);
    if (!is_in(" nemotron_h nemotron_h_moe ", t->arch))
        return;
    bool experts = toy_has_experts(t), list = !experts && !t->kv_heads[1],
         latent = experts && t->numbers; /* Super */
    fprintf(f,
            "\"conv_kernel\":4,\"mamba_num_heads\":%d,\"mamba_head_dim\":%d,\"n_groups\":%d,"
            "\"ssm_state_size\":24,\"mlp_hidden_act\":\"relu2\",\"mamba_hidden_act\":\"silu\","
            "\"%s\":%s",
            experts ? 3 : 4, experts && !latent ? 16 : 32, experts ? 1 : 2,
            list ? "layers_block_type" : "hybrid_override_pattern", list ? "[" : "\"");
    for (uint32_t l = 0; l < t->n_layer; l++) {
        bool ff = t->ffs[l], attends = !ff && t->kv_heads[l];
        if (list)
            fprintf(f, "%s\"%s\"", l ? "," : "", ff ? "mlp" : attends ? "attention" : "mamba");
        else
            fputc(ff ? experts ? 'E' : '-' : attends ? '*' : 'M', f);
    }
    fputs(list ? "]," : "\",", f);
    if (experts)
        fprintf(f,
                "\"n_routed_experts\":5,\"num_experts_per_tok\":2,\"moe_intermediate_size\":%d,"
                "\"moe_shared_expert_intermediate_size\":%d,\"n_shared_experts\":1,"
                "\"norm_topk_prob\":true,\"routed_scaling_factor\":2.5,\"n_group\":1,"
                "\"topk_group\":1,\"moe_latent_size\":%s,",
                latent ? 32 : 48, latent ? 96 : 56, latent ? "32" : "null");
}

/* Keys of one architecture alone. */
/* Of latent attention, and deepseek2's experts. A toy with queries in two steps is like V3. */
static void put_latent(FILE *f, const struct toy *t)
{
    double two = number_of(t, "attention.q_lora_rank");
    fprintf(f,
            "\"kv_lora_rank\":%g,\"qk_nope_head_dim\":%u,\"qk_rope_head_dim\":%u,"
            "\"v_head_dim\":%u,",
            number_of(t, "attention.kv_lora_rank"), t->head_dim - t->n_rot, t->n_rot,
            t->n_embd / t->n_head);
    if (two > 0)
        fprintf(f, "\"q_lora_rank\":%g,", two);
    else
        fputs("\"q_lora_rank\":null,", f);
    if (is(t, "minicpm3"))
        fputs("\"scale_emb\":12,\"scale_depth\":1.4,\"dim_model_base\":256,", f);
    else
        fprintf(f,
                "\"n_routed_experts\":%g,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
                "\"n_shared_experts\":%g,\"first_k_dense_replace\":1,\"moe_layer_freq\":1,%s",
                number_of(t, "expert_count"), number_of(t, "expert_shared_count"),
                two > 0 ? "\"routed_scaling_factor\":1.8,\"scoring_func\":\"sigmoid\","
                          "\"topk_method\":\"noaux_tc\",\"norm_topk_prob\":true,\"n_group\":3,"
                          "\"topk_group\":2,"
                        : "\"routed_scaling_factor\":1.0,\"scoring_func\":\"softmax\","
                          "\"topk_method\":\"greedy\",\"norm_topk_prob\":false,\"n_group\":1,"
                          "\"topk_group\":1,");
}

static void put_gemma3n(FILE *f, const struct toy *t)
{
    double cap = number_of(t, "final_logit_softcapping");
    fprintf(f,
            "\"sliding_window\":30,\"num_kv_shared_layers\":%g,\"hidden_size_per_layer_input\":%g,"
            "\"altup_num_inputs\":%g,\"altup_active_idx\":0,\"altup_coef_clip\":120.0,"
            "\"altup_correct_scale\":true,\"laurel_rank\":64,\"vocab_size_per_layer_input\":%u,"
            "\"final_logit_softcapping\":%g,",
            number_of(t, "attention.shared_kv_layers"),
            number_of(t, "embedding_length_per_layer_input"), number_of(t, "altup.num_inputs"),
            t->n_vocab, cap > 0 ? cap : 30.0);
    for (uint32_t l = 0; l < t->n_layer; l++)
        fprintf(f, "%s\"%s_attention\"", l ? "," : "\"layer_types\":[",
                t->windows[l] ? "sliding" : "full");
    for (uint32_t l = 0; l < t->n_layer; l++)
        fprintf(f, "%s%s", l ? "," : "],\"activation_sparsity_pattern\":[", l < 2 ? "0.95" : "0.0");
    fputs("],", f);
}

static void put_own(FILE *f, const struct toy *t)
{
    if (is_in(" deepseek2 minicpm3 ", t->arch))
        put_latent(f, t);
    if (is(t, "gemma3n"))
        put_gemma3n(f, t);
    bool windows = t->numbers && strstr(t->numbers->key, "window");
    if (strncmp(t->arch, "granite", 7) == 0)
        fputs("\"embedding_multiplier\":3,\"residual_multiplier\":0.4,\"logits_scaling\":1.7,"
              "\"attention_multiplier\":0.21,",
              f);
    if (is(t, "granitehybrid"))
        fprintf(f,
                "%s,\"mamba_d_conv\":4,\"mamba_n_heads\":3,\"mamba_d_head\":32,"
                "\"mamba_n_groups\":1,\"mamba_d_state\":20,\"mamba_expand\":2,"
                "\"mamba_conv_bias\":true,\"mamba_proj_bias\":false,"
                "\"position_embedding_type\":\"rope\",\"layer_types\":[\"mamba\",\"attention\","
                "\"mamba\",\"attention\"%s],",
                toy_has_experts(t) ? "\"num_local_experts\":5,\"num_experts_per_tok\":2,"
                                     "\"shared_intermediate_size\":64"
                                   : "\"num_local_experts\":0,\"shared_intermediate_size\":72",
                toy_has_experts(t) ? "" : ",\"mamba\"");
    if (is(t, "nanbeige"))
        fputs(t->numbers ? "\"num_loops\":2,\"skip_loop_final_norm\":true," : "\"num_loops\":3,",
              f);
    put_own_mamba(f, t);
    if (is(t, "minicpm"))
        fprintf(f, "\"scale_emb\":3,\"scale_depth\":%.17g,\"dim_model_base\":%.17g,",
                0.4 * sqrt(t->n_layer), t->n_embd / 1.7);
    if (is(t, "gemma2"))
        fputs("\"sliding_window\":30,\"attn_logit_softcapping\":4.0,"
              "\"final_logit_softcapping\":5.0,\"query_pre_attn_scalar\":20,",
              f);
    if (is(t, "gemma3"))
        fputs("\"sliding_window\":100,\"sliding_window_pattern\":3,\"query_pre_attn_scalar\":12,",
              f);
    if (windows && is(t, "olmo2"))
        fputs("\"sliding_window\":30,\"layer_types\":[\"sliding_attention\",\"full_attention\","
              "\"sliding_attention\"],",
              f);
    if (windows && is(t, "exaone4"))
        fputs("\"sliding_window\":30,\"sliding_window_pattern\":\"LG\",", f);
    if (is(t, "gptneox") && t->numbers)
        fputs("\"use_parallel_residual\":false,", f);
    if (is(t, "falcon") && t->large)
        fprintf(f, "\"new_decoder_architecture\":true,\"num_kv_heads\":%u,", t->n_head_kv);
    if (is(t, "lfm2"))
        fputs("\"conv_L_cache\":3,\"block_auto_adjust_ff_dim\":false,\"layer_types\":[\"conv\","
              "\"full_attention\",\"conv\",\"full_attention\",\"conv\"],",
              f);
    if (is(t, "qwen3moe"))
        fputs("\"num_experts\":6,\"num_experts_per_tok\":3,\"moe_intermediate_size\":24,"
              "\"norm_topk_prob\":true,\"mlp_only_layers\":[],\"decoder_sparse_step\":1,",
              f);
    if (is(t, "llama") && toy_has_experts(t))
        fputs("\"num_local_experts\":4,\"num_experts_per_tok\":2,", f);
    if (is(t, "granitemoe"))
        fputs("\"num_local_experts\":5,\"num_experts_per_tok\":2,\"shared_intermediate_size\":64,",
              f);
    if (is(t, "qwen2moe"))
        fputs("\"num_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
              "\"shared_expert_intermediate_size\":56,\"norm_topk_prob\":false,",
              f);
    if (is(t, "lfm2moe"))
        fputs("\"conv_L_cache\":3,\"layer_types\":[\"conv\",\"full_attention\",\"conv\"],"
              "\"num_experts\":5,\"num_experts_per_tok\":2,\"moe_intermediate_size\":40,"
              "\"num_dense_layers\":1,\"norm_topk_prob\":true,\"use_expert_bias\":true,",
              f);
    if (is(t, "bitnet"))
        fputs("\"quantization_config\":{\"quant_method\":\"bitnet\","
              "\"quantization_mode\":\"online\"},",
              f);
    if (predicting(t))
        fprintf(f, "\"mtp_num_hidden_layers\":%u,", predicting(t));
    if (is(t, "qwen35"))
        fprintf(f,
                "\"linear_conv_kernel_dim\":%d,\"linear_num_key_heads\":%d,"
                "\"linear_num_value_heads\":%d,\"linear_key_head_dim\":32,"
                "\"linear_value_head_dim\":32,%s,",
                t->numbers ? 2 : 4, t->numbers ? 3 : 2, t->numbers ? 3 : 4,
                t->numbers ? "\"full_attention_interval\":2"
                           : "\"layer_types\":[\"linear_attention\",\"linear_attention\","
                             "\"linear_attention\",\"full_attention\",\"linear_attention\"]");
    put_own_experts(f, t);
    if (is(t, "cohere2"))
        fputs("\"sliding_window\":30,", f);
    if (is_in(" cohere2 command-r ", t->arch))
        fputs("\"logit_scale\":0.4,", f);
    if (is(t, "olmo"))
        fputs("\"clip_qkv\":1.5,", f);
    if (is(t, "olmoe"))
        fputs("\"num_experts\":19,\"num_experts_per_tok\":4,", f);
    if (is(t, "smollm3"))
        fputs("\"no_rope_layers\":[1,1,1,0,1],", f);
}

static const struct {
    const char *arch, *class_name, *act;
} classes[] = {
    {"llama", "LlamaForCausalLM", "silu"},
    {"qwen2moe", "Qwen2MoeForCausalLM", "silu"},
    {"granitemoe", "GraniteMoeSharedForCausalLM", "silu"},
    {"lfm2moe", "Lfm2MoeForCausalLM", "silu"},
    {"qwen2", "Qwen2ForCausalLM", "silu"},
    {"qwen3", "Qwen3ForCausalLM", "silu"},
    {"gpt2", "GPT2LMHeadModel", "gelu_new"},
    {"gemma", "GemmaForCausalLM", "gelu_pytorch_tanh"},
    {"gemma2", "Gemma2ForCausalLM", "gelu_pytorch_tanh"},
    {"gemma3", "Gemma3ForConditionalGeneration", "gelu_pytorch_tanh"},
    {"gemma4", "Gemma4ForConditionalGeneration", "gelu_pytorch_tanh"},
    {"granite", "GraniteForCausalLM", "silu"},
    {"granitehybrid", "GraniteMoeHybridForCausalLM", "silu"},
    {"falcon-h1", "FalconH1ForCausalLM", "silu"},
    {"mamba2", "Mamba2ForCausalLM", "silu"},
    {"rwkv7", "RWKV7ForCausalLM", "sqrelu"},
    {"nemotron_h", "NemotronHForCausalLM", "relu2"},
    {"nemotron_h_moe", "NemotronHForCausalLM", "relu2"},
    {"nanbeige", "NanbeigeForCausalLM", "silu"},
    {"minicpm", "MiniCPMForCausalLM", "silu"},
    {"olmo2", "Olmo2ForCausalLM", "silu"},
    {"exaone4", "Exaone4ForCausalLM", "silu"},
    {"smollm3", "SmolLM3ForCausalLM", "silu"},
    {"ernie4_5", "Ernie4_5ForCausalLM", "silu"},
    {"hunyuan-dense", "HunYuanDenseV1ForCausalLM", "silu"},
    {"phi3", "Phi3ForCausalLM", "silu"},
    {"stablelm", "StableLmForCausalLM", "silu"},
    {"gptneox", "GPTNeoXForCausalLM", "gelu"},
    {"falcon", "FalconForCausalLM", "gelu"},
    {"starcoder2", "Starcoder2ForCausalLM", "gelu_pytorch_tanh"},
    {"lfm2", "Lfm2ForCausalLM", "silu"},
    {"bitnet", "BitNetForCausalLM", "silu"},
    {"qwen35", "Qwen3_5ForConditionalGeneration", "silu"},
    {"qwen3moe", "Qwen3MoeForCausalLM", "silu"},
    {"olmoe", "OlmoeForCausalLM", "silu"},
    {"mistral3", "Mistral3ForConditionalGeneration", "silu"},
    {"qwen2vl", "Qwen2_5_VLForConditionalGeneration", "silu"},
    {"qwen3vl", "Qwen3VLForConditionalGeneration", "silu"},
    {"seed_oss", "SeedOssForCausalLM", "silu"},
    {"exaone", "ExaoneForCausalLM", "silu"},
    {"internlm2", "InternLM2ForCausalLM", "silu"},
    {"glm4", "Glm4ForCausalLM", "silu"},
    {"maincoder", "MaincoderForCausalLM", "silu"},
    {"cohere2", "Cohere2ForCausalLM", "silu"},
    {"command-r", "CohereForCausalLM", "silu"},
    {"arcee", "ArceeForCausalLM", "relu2"},
    {"nemotron", "NemotronForCausalLM", "relu2"},
    {"phi2", "PhiForCausalLM", "gelu_new"},
    {"olmo", "OlmoForCausalLM", "silu"},
    {"apertus", "ApertusForCausalLM", "xielu"},
    {"hunyuan-moe", "HunYuanMoEV1ForCausalLM", "silu"},
    {"ernie4_5-moe", "Ernie4_5_MoeForCausalLM", "silu"},
    {"dots1", "Dots1ForCausalLM", "silu"},
    {"mimo2", "MiMoV2FlashForCausalLM", "silu"},
    {"spark2_5", "Spark2_5ForCausalLM", "gelu"},
    {"bailingmoe2", "BailingMoeV2ForCausalLM", "silu"},
    {"mellum", "MellumForCausalLM", "silu"},
    {"afmoe", "AfmoeForCausalLM", "silu"},
    {"gpt-oss", "GptOssForCausalLM", "silu"},
    {"granite_swa", "GraniteSWAForCausalLM", "silu"},
    {"smallthinker", "SmallThinkerForCausalLM", "relu"},
    {"deepseek2", "DeepseekV3ForCausalLM", "silu"},
    {"minicpm3", "MiniCPM3ForCausalLM", "silu"},
    {"gemma3n", "Gemma3nForCausalLM", "gelu_pytorch_tanh"},
    {"qwen35moe", "Qwen3_5MoeForConditionalGeneration", "silu"},
    {"qwen3next", "Qwen3NextForCausalLM", "silu"},
};

static void write_config(const struct toy *t, const struct tft_source *s, const char *path)
{
    FILE *f = create(path, "config.json");
    size_t c = 0;
    while (strcmp(classes[c].arch, t->arch))
        assert_true(++c < sizeof classes / sizeof *classes);
    bool inside = is_in(" gemma3 gemma4 mistral3 qwen35 qwen35moe qwen3vl ", t->arch),
         old = is(t, "gpt2");
    bool mixtral = is(t, "llama") && toy_has_experts(t),
         granite = is(t, "granite_swa") && toy_has_experts(t),
         lite = is(t, "deepseek2") && !(number_of(t, "attention.q_lora_rank") > 0);
    fprintf(f, "{\"architectures\":[\"%s\"],%s",
            mixtral   ? "MixtralForCausalLM"
            : granite ? "GraniteMoeSWAForCausalLM"
            : lite    ? "DeepseekV2ForCausalLM"
                      : classes[c].class_name,
            inside ? "\"text_config\":{" : "");
    bool mixers = is_in(" mamba2 rwkv7 ", t->arch); /* alone */
    fprintf(f, "\"%s\":%u,\"%s\":%u,\"%s\":%u,", old ? "n_layer" : "num_hidden_layers",
            t->n_layer - predicting(t), old ? "n_positions" : "max_position_embeddings", t->n_ctx,
            old ? "n_embd" : "hidden_size", t->n_embd);
    if (!mixers)
        fprintf(f, "\"%s\":%u,\"%s\":%u,", old ? "n_head" : "num_attention_heads", t->n_head,
                old ? "n_inner" : "intermediate_size", t->n_ff);
    fprintf(f, "\"%s\":\"%s\",", old ? "activation_function" : "hidden_act",
            t->relu2 ? "relu2" : classes[c].act);
    if (!old && !mixers && !is(t, "falcon"))
        fprintf(f, "\"num_key_value_heads\":%u,",
                t->kv_heads && is_in(" gemma4 mimo2 ", t->arch) ? t->kv_heads[0] : t->n_head_kv);
    if (is(t, "gemma4"))
        put_gemma4(f, t);
    else if (is(t, "gemma3n") || (!mixers && t->head_dim * t->n_head != t->n_embd &&
                                  !is_in(" deepseek2 minicpm3 ", t->arch)))
        fprintf(f, "\"head_dim\":%u,", t->head_dim);
    if (!old && !mixers)
        put_rope(f, t, s);
    put_own(f, t);
    fprintf(f, "\"%s\":%s,",
            is(t, "starcoder2")      ? "norm_epsilon"
            : is_in(" nemotron rwkv7 ", t->arch) ? "norm_eps"
            : is(t, "exaone")        ? "layer_norm_epsilon"
            : is_in(HALF_BLOCKS, t->arch) ? "layer_norm_epsilon"
            : is(t, "mimo2")         ? "layernorm_epsilon"
            : old || is(t, "falcon") ? "layer_norm_epsilon"
            : toy_has_layer_norm(t)  ? "layer_norm_eps"
                                     : "rms_norm_eps",
            toy_has_layer_norm(t) ? "1e-05" : "1e-06");
    fprintf(f, "\"tie_word_embeddings\":%s,\"vocab_size\":%u}%s", t->tied ? "true" : "false",
            t->n_vocab, inside ? "}" : "");
    assert_int_equal(fclose(f), 0);
}

void as_folder(const struct toy *t, const char *gguf, const char *path, unsigned n)
{
    struct tft_source s;
    FILE *index = n > 1 ? create(path, "model.safetensors.index.json") : NULL;
    assert_int_equal(tft_source_open(&s, gguf, NULL, NULL, NULL), TFT_OK);
    write_config(t, &s, path);
    if (index)
        fputs("{\"weight_map\":{", index);
    for (unsigned i = 0; i < n; i++)
        write_shard(t, &s, path, i, n, index);
    if (index) {
        fputs("}}", index);
        assert_int_equal(fclose(index), 0);
    }
    tft_source_close(&s);
}
