#include "as_folder_inside.h"

#include "test.h"

#include <string.h>

#define ROTATED_ARCHS                                                                              \
    " llama mistral3 smollm3 granite granitemoe granite_swa granitehybrid minicpm arcee olmo "     \
    "nanbeige "

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

bool as_folder_in(const char *archs, const char *arch)
{
    char word[80];
    snprintf(word, sizeof word, " %s ", arch);
    return !archs || strstr(archs, word);
}

bool as_folder_is(const struct toy *t, const char *arch) { return strcmp(t->arch, arch) == 0; }

uint32_t as_folder_predicting(const struct toy *t)
{
    const struct toy_number *n = t->numbers;
    while (n && n->key && strcmp(n->key, "nextn_predict_layers"))
        n++;
    return n && n->key ? (uint32_t)n->x : 0;
}

bool as_folder_name(const struct toy *t, const char *gguf, char name[160], enum how *how)
{
    size_t o = 0;
    unsigned layer;
    char part[64];
    int end = 0;
    while (outside[o].arch && !as_folder_is(t, outside[o].arch))
        o++;
    const char *before = outside[o].before, *kind = strrchr(gguf, '.');
    *how = AS_IT_IS;
    if (strncmp(gguf, "token_embd.", 11) == 0) {
        snprintf(name, 160, "%s%s%s", before, outside[o].embedding, kind);
    } else if (as_folder_is(t, "rwkv7") && strncmp(gguf, "token_embd_norm.", 16) == 0) {
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
        while (!as_folder_in(names[i].archs, t->arch) || strcmp(names[i].gguf, part))
            assert_true(++i < sizeof names / sizeof *names);
        *how = names[i].how;
        const char *last = names[i].name;
        if (as_folder_is(t, "falcon") && t->large && strcmp(part, "attn_norm") == 0)
            last = "ln_mlp";
        bool of_values = strncmp(part, "time_mix_v", 10) == 0 && !part[11];
        if (*how == IN_GATE || (of_values && !layer)) /* fla's layer 0 has none */
            return false;
        if (strncmp(part, "time_mix_", 9) == 0 && part[10] == '0')
            kind = ".bias";
        if (as_folder_is(t, "gemma4") && strcmp(kind, ".scale") == 0)
            last = strcmp(part, "ffn_gate_inp") ? "router.per_expert_scale" : "router.scale";
        if (as_folder_is(t, "gpt-oss") && strstr(part, "_exps"))
            kind = strcmp(kind, ".bias") == 0 ? "_bias" : "";
        bool bare =
            as_folder_in(" exp_probs_b ssm_a ssm_d ssm_dt layer_output_scale attn_sinks "
                         "altup_correct_scale time_mix_lerp_fused time_mix_k_k time_mix_k_a "
                         "time_mix_r_k channel_mix_lerp_k ",
                         part) ||
            (as_folder_is(t, "qwen35moe") && strstr(part, "_exps")) ||
            (as_folder_is(t, "gemma4") && (strstr(part, "_exps") || strcmp(kind, ".scale") == 0));
        uint32_t layers = t->n_layer - as_folder_predicting(t);
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
