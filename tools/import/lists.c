#include "lists.h"

#include <stddef.h>

#define WITH_BIAS(from, to, shape, vector, how) \
    {from ".weight", to ".weight", shape, how}, \
        {from ".bias", to ".bias", vector, (how) | IMPORT_MAY_MISS}

/* Most models have these names. The embedding comes first. */
const struct import_tensor list_outside[] = {
    {"embed_tokens.weight", "token_embd.weight", "VD", 0},
    WITH_BIAS("norm", "output_norm", "D", "D", 0),
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {0},
};

const struct import_tensor list_attention[] = {
    WITH_BIAS("layers.%u.self_attn.q_proj", "blk.%u.attn_q", "QD", "Q", IMPORT_Q),
    WITH_BIAS("layers.%u.self_attn.k_proj", "blk.%u.attn_k", "KD", "K", IMPORT_K),
    WITH_BIAS("layers.%u.self_attn.v_proj", "blk.%u.attn_v", "KD", "K", 0),
    WITH_BIAS("layers.%u.self_attn.o_proj", "blk.%u.attn_output", "DQ", "D", 0),
    {0},
};

const struct import_tensor list_ffn[] = {
    WITH_BIAS("layers.%u.mlp.gate_proj", "blk.%u.ffn_gate", "FD", "F", 0),
    WITH_BIAS("layers.%u.mlp.up_proj", "blk.%u.ffn_up", "FD", "F", 0),
    WITH_BIAS("layers.%u.mlp.down_proj", "blk.%u.ffn_down", "DF", "D", 0),
    {0},
};

const struct import_tensor list_pre_norms[] = {
    WITH_BIAS("layers.%u.input_layernorm", "blk.%u.attn_norm", "D", "D", 0),
    WITH_BIAS("layers.%u.post_attention_layernorm", "blk.%u.ffn_norm", "D", "D", 0),
    {0},
};

const struct import_tensor list_post_norms[] = {
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", "D", 0},
    {"layers.%u.post_feedforward_layernorm.weight", "blk.%u.post_ffw_norm.weight", "D", 0},
    {0},
};

/* gemma2 and gemma3 */
const struct import_tensor list_four_norms[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", "D", 0},
    {"layers.%u.pre_feedforward_layernorm.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {"layers.%u.post_feedforward_layernorm.weight", "blk.%u.post_ffw_norm.weight", "D", 0},
    {0},
};

const struct import_tensor list_head_norms[] = {
    {"layers.%u.self_attn.q_norm.weight|layers.%u.self_attn.query_layernorm.weight",
     "blk.%u.attn_q_norm.weight", "E", 0},
    {"layers.%u.self_attn.k_norm.weight|layers.%u.self_attn.key_layernorm.weight",
     "blk.%u.attn_k_norm.weight", "E", 0},
    {0},
};

const struct import_tensor list_whole_norms[] = {
    {"layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", "Q", 0},
    {"layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", "K", 0},
    {0},
};

/* ---- tensors of one architecture */

const struct import_tensor list_phi3_fused[] = {
    {"layers.%u.self_attn.qkv_proj.weight", "blk.%u.attn_qkv.weight", "AD", 0},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", "DQ", 0},
    {"layers.%u.mlp.gate_up_proj.weight", "blk.%u.ffn_up.weight", "2D", 0},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", "DF", 0},
    {0},
};

/* 12B has one norm in a layer, and norms of each head's q and k */
const struct import_tensor list_stablelm_norms[] = {
    WITH_BIAS("layers.%u.input_layernorm", "blk.%u.attn_norm", "D", "D", 0),
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", "D", IMPORT_MAY_MISS},
    {"layers.%u.post_attention_layernorm.bias", "blk.%u.ffn_norm.bias", "D", IMPORT_MAY_MISS},
    {"layers.%u.self_attn.q_layernorm.norms.%u.weight", "blk.%u.attn_q_norm.weight", "HE",
     IMPORT_STACK | IMPORT_MAY_MISS},
    {"layers.%u.self_attn.k_layernorm.norms.%u.weight", "blk.%u.attn_k_norm.weight", "GE",
     IMPORT_STACK | IMPORT_MAY_MISS},
    {0},
};

const struct import_tensor list_starcoder2_ffn[] = {
    WITH_BIAS("layers.%u.mlp.c_fc", "blk.%u.ffn_up", "FD", "F", 0),
    WITH_BIAS("layers.%u.mlp.c_proj", "blk.%u.ffn_down", "DF", "D", 0),
    {0},
};

const struct import_tensor list_gptneox_all[] = {
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
const struct import_tensor list_falcon_all[] = {
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
const struct import_tensor list_gpt2_all[] = {
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

const struct import_tensor list_bitnet[] = {
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", "QD", IMPORT_TERNARY},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", "KD", IMPORT_TERNARY},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", "KD", IMPORT_TERNARY},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", "DQ", IMPORT_TERNARY},
    {"layers.%u.self_attn.attn_sub_norm.weight|layers.%u.self_attn.inner_attn_ln.weight",
     "blk.%u.attn_sub_norm.weight", "Q", 0},
    {"layers.%u.mlp.gate_proj.weight", "blk.%u.ffn_gate.weight", "FD", IMPORT_TERNARY},
    {"layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight", "FD", IMPORT_TERNARY},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", "DF", IMPORT_TERNARY},
    {"layers.%u.mlp.ffn_sub_norm.weight|layers.%u.mlp.ffn_layernorm.weight",
     "blk.%u.ffn_sub_norm.weight", "F", 0},
    {0},
};

/* Layers have attention or a short convolution. */
const struct import_tensor list_lfm2[] = {
    {"embed_tokens.weight", "token_embd.weight", "VD", 0},
    {"embedding_norm.weight", "token_embd_norm.weight", "D", 0},
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {"layers.%u.operator_norm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", "QD", IMPORT_ATTENDING},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", "KD", IMPORT_ATTENDING},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", "KD", IMPORT_ATTENDING},
    {"layers.%u.self_attn.out_proj.weight", "blk.%u.attn_output.weight", "DQ", IMPORT_ATTENDING},
    {"layers.%u.self_attn.q_layernorm.weight", "blk.%u.attn_q_norm.weight", "E", IMPORT_ATTENDING},
    {"layers.%u.self_attn.k_layernorm.weight", "blk.%u.attn_k_norm.weight", "E", IMPORT_ATTENDING},
    {"layers.%u.conv.in_proj.weight", "blk.%u.shortconv.in_proj.weight", "3D", IMPORT_STATEFUL},
    {"layers.%u.conv.conv.weight", "blk.%u.shortconv.conv.weight", "D1L", IMPORT_STATEFUL},
    {"layers.%u.conv.out_proj.weight", "blk.%u.shortconv.out_proj.weight", "DD", IMPORT_STATEFUL},
    {"layers.%u.ffn_norm.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {0},
};

const struct import_tensor list_lfm2_ffn[] = {
    {"layers.%u.feed_forward.w1.weight", "blk.%u.ffn_gate.weight", "FD", IMPORT_DENSE},
    {"layers.%u.feed_forward.w3.weight", "blk.%u.ffn_up.weight", "FD", IMPORT_DENSE},
    {"layers.%u.feed_forward.w2.weight", "blk.%u.ffn_down.weight", "DF", IMPORT_DENSE},
    {0},
};

const struct import_tensor list_predictor[] = {
    {"fc.weight", "blk.%u.nextn.eh_proj.weight", "DT", IMPORT_PREDICTING},
    {"pre_fc_norm_embedding.weight", "blk.%u.nextn.enorm.weight", "D", IMPORT_PREDICTING},
    {"pre_fc_norm_hidden.weight", "blk.%u.nextn.hnorm.weight", "D", IMPORT_PREDICTING},
    {"norm.weight", "blk.%u.nextn.shared_head_norm.weight", "D", IMPORT_PREDICTING},
    {0},
};

/* Layers have attention, with a gate, or a delta net. */
const struct import_tensor list_gated_attention[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", "D", 0},
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", "RD", IMPORT_ATTENDING},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", "KD", IMPORT_ATTENDING},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", "KD", IMPORT_ATTENDING},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", "DQ", IMPORT_ATTENDING},
    {"layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", "E", IMPORT_ATTENDING},
    {"layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", "E", IMPORT_ATTENDING},
    {0},
};

const struct import_tensor list_qwen35[] = {
    {"layers.%u.linear_attn.in_proj_qkv.weight", "blk.%u.attn_qkv.weight", "CD",
     IMPORT_STATEFUL | IMPORT_V_ROWS},
    {"layers.%u.linear_attn.in_proj_z.weight", "blk.%u.attn_gate.weight", "ZD",
     IMPORT_STATEFUL | IMPORT_V_ROWS},
    {"layers.%u.linear_attn.in_proj_a.weight", "blk.%u.ssm_alpha.weight", "ND",
     IMPORT_STATEFUL | IMPORT_V_ROWS},
    {"layers.%u.linear_attn.in_proj_b.weight", "blk.%u.ssm_beta.weight", "ND",
     IMPORT_STATEFUL | IMPORT_V_ROWS},
    {"layers.%u.linear_attn.conv1d.weight", "blk.%u.ssm_conv1d.weight", "C1L",
     IMPORT_STATEFUL | IMPORT_V_ROWS},
    {"layers.%u.linear_attn.A_log", "blk.%u.ssm_a", "N",
     IMPORT_STATEFUL | IMPORT_V_ROWS | IMPORT_MINUS_EXP},
    {"layers.%u.linear_attn.dt_bias", "blk.%u.ssm_dt.bias", "N", IMPORT_STATEFUL | IMPORT_V_ROWS},
    {"layers.%u.linear_attn.norm.weight", "blk.%u.ssm_norm.weight", "Y", IMPORT_STATEFUL},
    {"layers.%u.linear_attn.out_proj.weight", "blk.%u.ssm_out.weight", "DZ",
     IMPORT_STATEFUL | IMPORT_V_COLUMNS},
    {0},
};

const struct import_tensor list_qwen3next[] = {
    {"layers.%u.linear_attn.in_proj_qkvz.weight", "blk.%u.attn_qkv.weight", "CD",
     IMPORT_STATEFUL | IMPORT_QKVZ},
    {"layers.%u.linear_attn.in_proj_qkvz.weight", "blk.%u.attn_gate.weight", "ZD",
     IMPORT_STATEFUL | IMPORT_QKVZ},
    {"layers.%u.linear_attn.in_proj_ba.weight", "blk.%u.ssm_ba.weight", "5D", IMPORT_STATEFUL},
    {"layers.%u.linear_attn.conv1d.weight", "blk.%u.ssm_conv1d.weight", "C1L", IMPORT_STATEFUL},
    {"layers.%u.linear_attn.A_log", "blk.%u.ssm_a", "N", IMPORT_STATEFUL | IMPORT_MINUS_EXP},
    {"layers.%u.linear_attn.dt_bias", "blk.%u.ssm_dt.bias", "N", IMPORT_STATEFUL},
    {"layers.%u.linear_attn.norm.weight", "blk.%u.ssm_norm.weight", "Y", IMPORT_STATEFUL},
    {"layers.%u.linear_attn.out_proj.weight", "blk.%u.ssm_out.weight", "DZ", IMPORT_STATEFUL},
    {0},
};

/* ---- further architectures with one of their own */

const struct import_tensor list_plain_ffn[] = {
    {"layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight", "FD", 0},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", "DF", 0},
    {0},
};

const struct import_tensor list_seed_norms[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", "D", 0},
    {0},
};

/* cohere2 and command-r: one norm in a layer */
const struct import_tensor list_one_norm[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {0},
};

/* Norms without numbers: olmo */
const struct import_tensor list_outside_bare[] = {
    {"embed_tokens.weight", "token_embd.weight", "VD", 0},
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {0},
};

const struct import_tensor list_glm4[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.post_self_attn_layernorm.weight", "blk.%u.post_attention_norm.weight", "D", 0},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {"layers.%u.post_mlp_layernorm.weight", "blk.%u.post_ffw_norm.weight", "D", 0},
    {"layers.%u.mlp.gate_up_proj.weight", "blk.%u.ffn_up.weight", "2D", 0},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", "DF", 0},
    {0},
};

const struct import_tensor list_exaone_all[] = {
    {"wte.weight", "token_embd.weight", "VD", 0},
    {"ln_f.weight", "output_norm.weight", "D", 0},
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {"h.%u.ln_1.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"h.%u.attn.attention.q_proj.weight", "blk.%u.attn_q.weight", "QD", 0},
    {"h.%u.attn.attention.k_proj.weight", "blk.%u.attn_k.weight", "KD", 0},
    {"h.%u.attn.attention.v_proj.weight", "blk.%u.attn_v.weight", "KD", 0},
    {"h.%u.attn.attention.out_proj.weight", "blk.%u.attn_output.weight", "DQ", 0},
    {"h.%u.ln_2.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {"h.%u.mlp.c_fc_0.weight", "blk.%u.ffn_gate.weight", "FD", 0},
    {"h.%u.mlp.c_fc_1.weight", "blk.%u.ffn_up.weight", "FD", 0},
    {"h.%u.mlp.c_proj.weight", "blk.%u.ffn_down.weight", "DF", 0},
    {0},
};

const struct import_tensor list_internlm2_all[] = {
    {"tok_embeddings.weight", "token_embd.weight", "VD", 0},
    {"norm.weight", "output_norm.weight", "D", 0},
    {"output.weight", "output.weight", "VD", IMPORT_HEAD},
    {"layers.%u.attention_norm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.attention.wqkv.weight", "blk.%u.attn_qkv.weight", "AD", IMPORT_QKV},
    {"layers.%u.attention.wo.weight", "blk.%u.attn_output.weight", "DQ", 0},
    {"layers.%u.ffn_norm.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {"layers.%u.feed_forward.w1.weight", "blk.%u.ffn_gate.weight", "FD", 0},
    {"layers.%u.feed_forward.w3.weight", "blk.%u.ffn_up.weight", "FD", 0},
    {"layers.%u.feed_forward.w2.weight", "blk.%u.ffn_down.weight", "DF", 0},
    {0},
};

/* Its head has a bias. */
const struct import_tensor list_phi2_all[] = {
    {"embed_tokens.weight", "token_embd.weight", "VD", 0},
    WITH_BIAS("final_layernorm", "output_norm", "D", "D", 0),
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {"lm_head.bias", "output.bias", "V", IMPORT_HEAD},
    WITH_BIAS("layers.%u.input_layernorm", "blk.%u.attn_norm", "D", "D", 0),
    WITH_BIAS("layers.%u.self_attn.q_proj", "blk.%u.attn_q", "QD", "Q", 0),
    WITH_BIAS("layers.%u.self_attn.k_proj", "blk.%u.attn_k", "KD", "K", 0),
    WITH_BIAS("layers.%u.self_attn.v_proj", "blk.%u.attn_v", "KD", "K", 0),
    WITH_BIAS("layers.%u.self_attn.dense", "blk.%u.attn_output", "DQ", "D", 0),
    WITH_BIAS("layers.%u.mlp.fc1", "blk.%u.ffn_up", "FD", "F", 0),
    WITH_BIAS("layers.%u.mlp.fc2", "blk.%u.ffn_down", "DF", "D", 0),
    {0},
};

const struct import_tensor list_apertus_norms[] = {
    {"layers.%u.attention_layernorm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.feedforward_layernorm.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {0},
};

const struct import_tensor list_sinks[] = {
    {"layers.%u.self_attn.sinks", "blk.%u.attn_sinks.weight", "H", 0},
    {0},
};

/* ---- gemma4, with differing layers */

const struct import_tensor list_gemma4[] = {
    {"embed_tokens_per_layer.weight", "per_layer_token_embd.weight", "VB",
     IMPORT_EMBEDDED | IMPORT_PADDED},
    {"per_layer_model_projection.weight", "per_layer_model_proj.weight", "BD", IMPORT_EMBEDDED},
    {"per_layer_projection_norm.weight", "per_layer_proj_norm.weight", "J", IMPORT_EMBEDDED},
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", "QD", 0},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", "KD", IMPORT_OWN_KV},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", "KD",
     IMPORT_OWN_KV | IMPORT_OWN_V},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", "DQ", 0},
    {"layers.%u.self_attn.q_norm.weight", "blk.%u.attn_q_norm.weight", "E", 0},
    {"layers.%u.self_attn.k_norm.weight", "blk.%u.attn_k_norm.weight", "E", IMPORT_OWN_KV},
    {"layers.%u.per_layer_input_gate.weight", "blk.%u.inp_gate.weight", "JD", IMPORT_EMBEDDED},
    {"layers.%u.per_layer_projection.weight", "blk.%u.proj.weight", "DJ", IMPORT_EMBEDDED},
    {"layers.%u.post_per_layer_input_norm.weight", "blk.%u.post_norm.weight", "D",
     IMPORT_EMBEDDED},
    {0},
};

const struct import_tensor list_gemma4_scale[] = {
    {"layers.%u.layer_scalar", "blk.%u.layer_output_scale.weight", "1", 0},
    {0},
};

const struct import_tensor list_gemma3n[] = {
    {"altup_projections.%u.weight", "altup_proj.weight", "tDD", IMPORT_STACK},
    {"altup_unembed_projections.%u.weight", "altup_unembd_proj.weight", "tDD", IMPORT_STACK},
    {"layers.%u.altup.router_norm.weight", "blk.%u.altup_router_norm.weight", "D", 0},
    {"layers.%u.altup.modality_router.weight", "blk.%u.altup_router.weight", "rD", 0},
    {"layers.%u.altup.prediction_coefs.weight", "blk.%u.altup_predict_coef.weight", "nr", 0},
    {"layers.%u.altup.correction_coefs.weight", "blk.%u.altup_correct_coef.weight", "rr", 0},
    {"layers.%u.altup.correct_output_scale", "blk.%u.altup_correct_scale.weight", "D", 0},
    {"layers.%u.laurel.linear_left.weight", "blk.%u.laurel_l.weight", "aD", 0},
    {"layers.%u.laurel.linear_right.weight", "blk.%u.laurel_r.weight", "Da", 0},
    {"layers.%u.laurel.post_laurel_norm.weight", "blk.%u.laurel_post_norm.weight", "D", 0},
    {0},
};

/* ---- mixtures of experts */

#define EXPERTS(before, gate, up, down)                                                            \
    {"layers.%u." before ".experts.%u." gate ".weight", "blk.%u.ffn_gate_exps.weight", "XMD",      \
     IMPORT_STACK | IMPORT_MIXED},                                                                 \
        {"layers.%u." before ".experts.%u." up ".weight", "blk.%u.ffn_up_exps.weight", "XMD",      \
         IMPORT_STACK | IMPORT_MIXED},                                                             \
        {"layers.%u." before ".experts.%u." down ".weight", "blk.%u.ffn_down_exps.weight", "XDM",  \
         IMPORT_STACK | IMPORT_MIXED}

const struct import_tensor list_experts[] = {
    {"layers.%u.mlp.gate.weight", "blk.%u.ffn_gate_inp.weight", "XD", 0},
    EXPERTS("mlp", "gate_proj", "up_proj", "down_proj"),
    {0},
};

const struct import_tensor list_gpt_oss_experts[] = {
    {"layers.%u.mlp.router.weight", "blk.%u.ffn_gate_inp.weight", "XD", 0},
    {"layers.%u.mlp.router.bias", "blk.%u.ffn_gate_inp.bias", "X", 0},
    {"layers.%u.mlp.experts.gate_up_proj", "blk.%u.ffn_gate_exps.weight", "XMD",
     IMPORT_TURNED | IMPORT_GATE},
    {"layers.%u.mlp.experts.gate_up_proj_bias", "blk.%u.ffn_gate_exps.bias", "XM",
     IMPORT_TURNED | IMPORT_GATE},
    {"layers.%u.mlp.experts.gate_up_proj", "blk.%u.ffn_up_exps.weight", "XMD",
     IMPORT_TURNED | IMPORT_UP},
    {"layers.%u.mlp.experts.gate_up_proj_bias", "blk.%u.ffn_up_exps.bias", "XM",
     IMPORT_TURNED | IMPORT_UP},
    {"layers.%u.mlp.experts.down_proj", "blk.%u.ffn_down_exps.weight", "XDM", IMPORT_TURNED},
    {"layers.%u.mlp.experts.down_proj_bias", "blk.%u.ffn_down_exps.bias", "XD", 0},
    {0},
};

/* Gate and up of all experts in one tensor: qwen35moe */
const struct import_tensor list_fused_experts[] = {
    {"layers.%u.mlp.gate.weight", "blk.%u.ffn_gate_inp.weight", "XD", 0},
    {"layers.%u.mlp.experts.gate_up_proj", "blk.%u.ffn_gate_exps.weight", "XMD", IMPORT_GATE},
    {"layers.%u.mlp.experts.gate_up_proj", "blk.%u.ffn_up_exps.weight", "XMD", IMPORT_UP},
    {"layers.%u.mlp.experts.down_proj", "blk.%u.ffn_down_exps.weight", "XDM", 0},
    {0},
};

/* In the layers after the leading dense ones, with a bias for the choice: dots1, ernie4_5-moe,
   bailingmoe2, afmoe */
const struct import_tensor list_late_experts[] = {
    {"layers.%u.mlp.gate_proj.weight", "blk.%u.ffn_gate.weight", "FD", IMPORT_DENSE},
    {"layers.%u.mlp.up_proj.weight", "blk.%u.ffn_up.weight", "FD", IMPORT_DENSE},
    {"layers.%u.mlp.down_proj.weight", "blk.%u.ffn_down.weight", "DF", IMPORT_DENSE},
    {"layers.%u.mlp.gate.weight|layers.%u.mlp.router.gate.weight", "blk.%u.ffn_gate_inp.weight",
     "XD", IMPORT_MIXED},
    {"layers.%u.mlp.gate.e_score_correction_bias|layers.%u.mlp.gate.expert_bias|"
     "layers.%u.mlp.expert_bias",
     "blk.%u.exp_probs_b.bias", "X", IMPORT_MIXED | IMPORT_MAY_MISS},
    EXPERTS("mlp", "gate_proj", "up_proj", "down_proj"),
    {0},
};

/* ernie4_5-moe has its bias as one row. */
const struct import_tensor list_ernie_bias[] = {
    {"layers.%u.mlp.moe_statics.e_score_correction_bias", "blk.%u.exp_probs_b.bias", "1X",
     IMPORT_MIXED},
    {0},
};

const struct import_tensor list_late_shared[] = {
    {"layers.%u.mlp.shared_experts.gate_proj.weight", "blk.%u.ffn_gate_shexp.weight", "SD",
     IMPORT_MIXED | IMPORT_SHARED},
    {"layers.%u.mlp.shared_experts.up_proj.weight", "blk.%u.ffn_up_shexp.weight", "SD",
     IMPORT_MIXED | IMPORT_SHARED},
    {"layers.%u.mlp.shared_experts.down_proj.weight", "blk.%u.ffn_down_shexp.weight", "DS",
     IMPORT_MIXED | IMPORT_SHARED},
    {0},
};

/* Gates of attention's output; norms and the router have names of their own. */
const struct import_tensor list_afmoe[] = {
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.post_attention_norm.weight", "D", 0},
    {"layers.%u.pre_mlp_layernorm.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {"layers.%u.post_mlp_layernorm.weight", "blk.%u.post_ffw_norm.weight", "D", 0},
    {"layers.%u.self_attn.gate_proj.weight", "blk.%u.attn_gate.weight", "QD", 0},
    {0},
};

/* Latent attention. Queries are made in one step, or in two. */
const struct import_tensor list_latent[] = {
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", "QD", IMPORT_MAY_MISS},
    {"layers.%u.self_attn.q_a_proj.weight", "blk.%u.attn_q_a.weight", "qD", IMPORT_MAY_MISS},
    {"layers.%u.self_attn.q_a_layernorm.weight", "blk.%u.attn_q_a_norm.weight", "q",
     IMPORT_MAY_MISS},
    {"layers.%u.self_attn.q_b_proj.weight", "blk.%u.attn_q_b.weight", "Qq", IMPORT_MAY_MISS},
    {"layers.%u.self_attn.kv_a_proj_with_mqa.weight", "blk.%u.attn_kv_a_mqa.weight", "kD", 0},
    {"layers.%u.self_attn.kv_a_layernorm.weight", "blk.%u.attn_kv_a_norm.weight", "c", 0},
    {"layers.%u.self_attn.kv_b_proj.weight", "blk.%u.attn_kv_b.weight", "bc", 0},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", "Do", 0},
    {0},
};

/* Values are shorter than keys. */
const struct import_tensor list_mimo2[] = {
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", "QD", 0},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", "KD", 0},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", "uD", 0},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", "Do", 0},
    {"layers.%u.self_attn.attention_sink_bias|layers.%u.self_attn.sinks",
     "blk.%u.attn_sinks.weight", "H", IMPORT_MAY_MISS},
    {0},
};

const struct import_tensor list_spark2_5[] = {
    {"embedding.weight", "token_embd.weight", "VD", 0},
    {"norm.weight", "output_norm.weight", "D", 0},
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {"layers.%u.self_attn.q_k_v_proj.weight", "blk.%u.attn_qkv.weight", "AD", 0},
    {"layers.%u.self_attn.g_proj.weight", "blk.%u.attn_gate.weight", "HD", 0},
    {"layers.%u.self_attn.out_proj.weight", "blk.%u.attn_output.weight", "DQ", 0},
    {0},
};

const struct import_tensor list_bailing_all[] = {
    {"word_embeddings.weight", "token_embd.weight", "VD", 0},
    {"norm.weight", "output_norm.weight", "D", 0},
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.post_attention_layernorm.weight", "blk.%u.ffn_norm.weight", "D", 0},
    {"layers.%u.attention.query_key_value.weight", "blk.%u.attn_qkv.weight", "AD", 0},
    {"layers.%u.attention.dense.weight", "blk.%u.attn_output.weight", "DQ", 0},
    {"layers.%u.attention.query_layernorm.weight", "blk.%u.attn_q_norm.weight", "E", 0},
    {"layers.%u.attention.key_layernorm.weight", "blk.%u.attn_k_norm.weight", "E", 0},
    {0},
};

const struct import_tensor list_hunyuan_experts[] = {
    {"layers.%u.mlp.gate.wg.weight", "blk.%u.ffn_gate_inp.weight", "XD", 0},
    EXPERTS("mlp", "gate_proj", "up_proj", "down_proj"),
    {"layers.%u.mlp.shared_mlp.gate_proj.weight", "blk.%u.ffn_gate_shexp.weight", "SD",
     IMPORT_SHARED},
    {"layers.%u.mlp.shared_mlp.up_proj.weight", "blk.%u.ffn_up_shexp.weight", "SD", IMPORT_SHARED},
    {"layers.%u.mlp.shared_mlp.down_proj.weight", "blk.%u.ffn_down_shexp.weight", "DS",
     IMPORT_SHARED},
    {0},
};

const struct import_tensor list_smallthinker_experts[] = {
    {"layers.%u.block_sparse_moe.primary_router.weight", "blk.%u.ffn_gate_inp.weight", "XD", 0},
    EXPERTS("block_sparse_moe", "gate", "up", "down"),
    {0},
};

const struct import_tensor list_mixtral_experts[] = {
    {"layers.%u.block_sparse_moe.gate.weight", "blk.%u.ffn_gate_inp.weight", "XD", 0},
    EXPERTS("block_sparse_moe", "w1", "w3", "w2"),
    {0},
};

const struct import_tensor list_lfm2_experts[] = {
    {"layers.%u.feed_forward.gate.weight", "blk.%u.ffn_gate_inp.weight", "XD", IMPORT_MIXED},
    {"layers.%u.feed_forward.expert_bias|layers.%u.feed_forward.expert_bias.weight",
     "blk.%u.exp_probs_b.bias", "X", IMPORT_MIXED | IMPORT_MAY_MISS},
    EXPERTS("feed_forward", "w1", "w3", "w2"),
    {0},
};

const struct import_tensor list_qwen2_shared[] = {
    {"layers.%u.mlp.shared_expert.gate_proj.weight", "blk.%u.ffn_gate_shexp.weight", "SD", 0},
    {"layers.%u.mlp.shared_expert.up_proj.weight", "blk.%u.ffn_up_shexp.weight", "SD", 0},
    {"layers.%u.mlp.shared_expert.down_proj.weight", "blk.%u.ffn_down_shexp.weight", "DS", 0},
    {"layers.%u.mlp.shared_expert_gate.weight", "blk.%u.ffn_gate_inp_shexp.weight", "1D", 0},
    {0},
};

/* Matrices of all experts are in one tensor, and so are gate and up. */
const struct import_tensor list_granite_experts[] = {
    {"layers.%u.block_sparse_moe.router.layer.weight", "blk.%u.ffn_gate_inp.weight", "XD", 0},
    {"layers.%u.block_sparse_moe.input_linear.weight", "blk.%u.ffn_gate_exps.weight", "XMD",
     IMPORT_GATE},
    {"layers.%u.block_sparse_moe.input_linear.weight", "blk.%u.ffn_up_exps.weight", "XMD",
     IMPORT_UP},
    {"layers.%u.block_sparse_moe.output_linear.weight", "blk.%u.ffn_down_exps.weight", "XDM", 0},
    {"layers.%u.shared_mlp.input_linear.weight", "blk.%u.ffn_gate_shexp.weight", "SD",
     IMPORT_GATE | IMPORT_SHARED},
    {"layers.%u.shared_mlp.input_linear.weight", "blk.%u.ffn_up_shexp.weight", "SD",
     IMPORT_UP | IMPORT_SHARED},
    {"layers.%u.shared_mlp.output_linear.weight", "blk.%u.ffn_down_shexp.weight", "DS",
     IMPORT_SHARED},
    {0},
};

#define MAMBA(at, how)                                                                             \
    {"layers.%u." at ".in_proj.weight", "blk.%u.ssm_in.weight", "ID", how},                        \
        {"layers.%u." at ".conv1d.weight", "blk.%u.ssm_conv1d.weight", "U1L", how},                \
        {"layers.%u." at ".conv1d.bias", "blk.%u.ssm_conv1d.bias", "U", how},                      \
        {"layers.%u." at ".A_log", "blk.%u.ssm_a", "O", (how) | IMPORT_MINUS_EXP | IMPORT_COLUMN}, \
        {"layers.%u." at ".D", "blk.%u.ssm_d", "O", (how) | IMPORT_COLUMN},                        \
        {"layers.%u." at ".dt_bias", "blk.%u.ssm_dt.bias", "O", how},                              \
        {"layers.%u." at ".out_proj.weight", "blk.%u.ssm_out.weight", "DW", how}

/* Layers have attention or Mamba-2; all have the matrices that Granite calls shared, which are a
   feed-forward of their own in layers without experts. */
const struct import_tensor list_granitehybrid[] = {
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", "QD",
     IMPORT_ATTENDING | IMPORT_Q},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", "KD",
     IMPORT_ATTENDING | IMPORT_K},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", "KD", IMPORT_ATTENDING},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", "DQ", IMPORT_ATTENDING},
    MAMBA("mamba", IMPORT_STATEFUL),
    {"layers.%u.mamba.norm.weight", "blk.%u.ssm_norm.weight", "W",
     IMPORT_STATEFUL | IMPORT_GROUPED},
    {"layers.%u.shared_mlp.input_linear.weight", "blk.%u.ffn_gate.weight", "FD",
     IMPORT_DENSE | IMPORT_GATE},
    {"layers.%u.shared_mlp.input_linear.weight", "blk.%u.ffn_up.weight", "FD",
     IMPORT_DENSE | IMPORT_UP},
    {"layers.%u.shared_mlp.output_linear.weight", "blk.%u.ffn_down.weight", "DF", IMPORT_DENSE},
    {"layers.%u.block_sparse_moe.router.layer.weight", "blk.%u.ffn_gate_inp.weight", "XD",
     IMPORT_MIXED},
    {"layers.%u.block_sparse_moe.input_linear.weight", "blk.%u.ffn_gate_exps.weight", "XMD",
     IMPORT_MIXED | IMPORT_GATE},
    {"layers.%u.block_sparse_moe.input_linear.weight", "blk.%u.ffn_up_exps.weight", "XMD",
     IMPORT_MIXED | IMPORT_UP},
    {"layers.%u.block_sparse_moe.output_linear.weight", "blk.%u.ffn_down_exps.weight", "XDM",
     IMPORT_MIXED},
    {"layers.%u.shared_mlp.input_linear.weight", "blk.%u.ffn_gate_shexp.weight", "SD",
     IMPORT_MIXED | IMPORT_GATE | IMPORT_SHARED},
    {"layers.%u.shared_mlp.input_linear.weight", "blk.%u.ffn_up_shexp.weight", "SD",
     IMPORT_MIXED | IMPORT_UP | IMPORT_SHARED},
    {"layers.%u.shared_mlp.output_linear.weight", "blk.%u.ffn_down_shexp.weight", "DS",
     IMPORT_MIXED | IMPORT_SHARED},
    {0},
};

/* Mamba-2 beside attention. The name of a norm lacks ".weight" in GGUF files. */
const struct import_tensor list_falcon_h1[] = {
    {"embed_tokens.weight", "token_embd.weight", "VD", 0},
    {"final_layernorm.weight", "output_norm.weight", "D", 0},
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {"layers.%u.input_layernorm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {"layers.%u.self_attn.q_proj.weight", "blk.%u.attn_q.weight", "QD", 0},
    {"layers.%u.self_attn.k_proj.weight", "blk.%u.attn_k.weight", "KD", 0},
    {"layers.%u.self_attn.v_proj.weight", "blk.%u.attn_v.weight", "KD", 0},
    {"layers.%u.self_attn.o_proj.weight", "blk.%u.attn_output.weight", "DQ", 0},
    MAMBA("mamba", 0),
    {"layers.%u.mamba.norm.weight", "blk.%u.ssm_norm.weight", "W",
     IMPORT_GROUPED | IMPORT_MAY_MISS},
    {"layers.%u.pre_ff_layernorm.weight", "blk.%u.ffn_norm", "D", 0},
    {"layers.%u.feed_forward.gate_proj.weight", "blk.%u.ffn_gate.weight", "FD", 0},
    {"layers.%u.feed_forward.up_proj.weight", "blk.%u.ffn_up.weight", "FD", 0},
    {"layers.%u.feed_forward.down_proj.weight", "blk.%u.ffn_down.weight", "DF", 0},
    {0},
};

/* Layers are one half of a block, which is named mixer: mamba2, nemotron_h. */
const struct import_tensor list_backbone[] = {
    {"embeddings.weight", "token_embd.weight", "VD", 0},
    {"norm_f.weight", "output_norm.weight", "D", 0},
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    {"layers.%u.norm.weight", "blk.%u.attn_norm.weight", "D", 0},
    {0},
};

const struct import_tensor list_backbone_mamba[] = {
    MAMBA("mixer", IMPORT_STATEFUL),
    {"layers.%u.mixer.norm.weight", "blk.%u.ssm_norm.weight", "W",
     IMPORT_STATEFUL | IMPORT_GROUPED},
    {0},
};

const struct import_tensor list_nemotron_h[] = {
    {"layers.%u.mixer.q_proj.weight", "blk.%u.attn_q.weight", "QD", IMPORT_ATTENDING},
    {"layers.%u.mixer.k_proj.weight", "blk.%u.attn_k.weight", "KD", IMPORT_ATTENDING},
    {"layers.%u.mixer.v_proj.weight", "blk.%u.attn_v.weight", "KD", IMPORT_ATTENDING},
    {"layers.%u.mixer.o_proj.weight", "blk.%u.attn_output.weight", "DQ", IMPORT_ATTENDING},
    WITH_BIAS("layers.%u.mixer.up_proj", "blk.%u.ffn_up", "FD", "F", IMPORT_DENSE),
    WITH_BIAS("layers.%u.mixer.down_proj", "blk.%u.ffn_down", "DF", "D", IMPORT_DENSE),
    {"layers.%u.mixer.gate.weight", "blk.%u.ffn_gate_inp.weight", "XD", IMPORT_MIXED},
    {"layers.%u.mixer.gate.e_score_correction_bias", "blk.%u.exp_probs_b.bias", "X", IMPORT_MIXED},
    {"layers.%u.mixer.experts.%u.up_proj.weight", "blk.%u.ffn_up_exps.weight", "XM4",
     IMPORT_STACK | IMPORT_MIXED},
    {"layers.%u.mixer.experts.%u.down_proj.weight", "blk.%u.ffn_down_exps.weight", "X4M",
     IMPORT_STACK | IMPORT_MIXED},
    {"layers.%u.mixer.fc1_latent_proj.weight", "blk.%u.ffn_latent_down.weight", "4D",
     IMPORT_MIXED | IMPORT_MAY_MISS},
    {"layers.%u.mixer.fc2_latent_proj.weight", "blk.%u.ffn_latent_up.weight", "D4",
     IMPORT_MIXED | IMPORT_MAY_MISS},
    {"layers.%u.mixer.shared_experts.up_proj.weight", "blk.%u.ffn_up_shexp.weight", "SD",
     IMPORT_MIXED | IMPORT_SHARED},
    {"layers.%u.mixer.shared_experts.down_proj.weight", "blk.%u.ffn_down_shexp.weight", "DS",
     IMPORT_MIXED | IMPORT_SHARED},
    {0},
};

/* Beside list_ffn. */
const struct import_tensor list_gemma4_experts[] = {
    {"layers.%u.router.proj.weight", "blk.%u.ffn_gate_inp.weight", "XD", IMPORT_MIXED},
    {"layers.%u.router.scale", "blk.%u.ffn_gate_inp.scale", "D", IMPORT_MIXED},
    {"layers.%u.router.per_expert_scale", "blk.%u.ffn_down_exps.scale", "X", IMPORT_MIXED},
    {"layers.%u.experts.gate_up_proj", "blk.%u.ffn_gate_exps.weight", "XMD",
     IMPORT_MIXED | IMPORT_GATE},
    {"layers.%u.experts.gate_up_proj", "blk.%u.ffn_up_exps.weight", "XMD",
     IMPORT_MIXED | IMPORT_UP},
    {"layers.%u.experts.down_proj", "blk.%u.ffn_down_exps.weight", "XDM", IMPORT_MIXED},
    {"layers.%u.pre_feedforward_layernorm_2.weight", "blk.%u.pre_ffw_norm_2.weight", "D",
     IMPORT_MIXED},
    {"layers.%u.post_feedforward_layernorm_1.weight", "blk.%u.post_ffw_norm_1.weight", "D",
     IMPORT_MIXED},
    {"layers.%u.post_feedforward_layernorm_2.weight", "blk.%u.post_ffw_norm_2.weight", "D",
     IMPORT_MIXED},
    {0},
};

/* Two matrices, the second with a bias. */
#define LOW_RANK(of, rank, how)                                                                    \
    {"layers.%u.attn." of "_lora.lora.0.weight", "blk.%u.time_mix_" of "1.weight", rank "D", how}, \
        {"layers.%u.attn." of "_lora.lora.2.weight", "blk.%u.time_mix_" of "2.weight", "D" rank,   \
         how}

/* fla's names. Layer 0 has no matrices for values: the GGUF file has others there, which nothing
   reads, since llama.cpp does not open a file without them. */
const struct import_tensor list_rwkv7[] = {
    {"embeddings.weight", "token_embd.weight", "VD", 0},
    {"layers.0.pre_norm.weight", "token_embd_norm.weight", "D", 0},
    {"layers.0.pre_norm.bias", "token_embd_norm.bias", "D", 0},
    WITH_BIAS("norm", "output_norm", "D", "D", 0),
    {"lm_head.weight", "output.weight", "VD", IMPORT_HEAD},
    WITH_BIAS("layers.%u.attn_norm", "blk.%u.attn_norm", "D", "D", 0),
    WITH_BIAS("layers.%u.ffn_norm", "blk.%u.attn_norm_2", "D", "D", 0),
    {"layers.%u.attn.x_%c", "blk.%u.time_mix_lerp_fused.weight", "611D",
     IMPORT_STACK | IMPORT_LERPS},
    {"layers.%u.attn.k_k", "blk.%u.time_mix_k_k.weight", "D", 0},
    {"layers.%u.attn.k_a", "blk.%u.time_mix_k_a.weight", "D", 0},
    {"layers.%u.attn.r_k", "blk.%u.time_mix_r_k.weight", "hE", IMPORT_FLAT},
    {"layers.%u.attn.r_proj.weight", "blk.%u.time_mix_receptance.weight", "DD", 0},
    {"layers.%u.attn.k_proj.weight", "blk.%u.time_mix_key.weight", "DD", 0},
    {"layers.%u.attn.v_proj.weight", "blk.%u.time_mix_value.weight", "DD", 0},
    {"layers.%u.attn.o_proj.weight", "blk.%u.time_mix_output.weight", "DD", 0},
    LOW_RANK("w", "w", 0),
    {"layers.%u.attn.w_lora.lora.2.bias", "blk.%u.time_mix_w0.weight", "D", 0},
    LOW_RANK("a", "i", 0),
    {"layers.%u.attn.a_lora.lora.2.bias", "blk.%u.time_mix_a0.weight", "D", 0},
    {"layers.0.attn.a_lora.lora.0.weight", "blk.0.time_mix_v1.weight", "iD", 0},
    {"layers.0.attn.a_lora.lora.2.weight", "blk.0.time_mix_v2.weight", "Di", 0},
    {"layers.0.attn.a_lora.lora.2.bias", "blk.0.time_mix_v0.weight", "D", 0},
    LOW_RANK("v", "v", IMPORT_MAY_MISS),
    {"layers.%u.attn.v_lora.lora.2.bias", "blk.%u.time_mix_v0.weight", "D", IMPORT_MAY_MISS},
    LOW_RANK("g", "g", 0),
    WITH_BIAS("layers.%u.attn.g_norm", "blk.%u.time_mix_ln", "D", "D", 0),
    {"layers.%u.ffn.x_k", "blk.%u.channel_mix_lerp_k.weight", "D", 0},
    {"layers.%u.ffn.key.weight", "blk.%u.channel_mix_key.weight", "FD", 0},
    {"layers.%u.ffn.value.weight", "blk.%u.channel_mix_value.weight", "DF", 0},
    {0},
};

#undef LOW_RANK
