#include "as_folder_inside.h"

#include "test.h"

#include <math.h>
#include <string.h>

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
    if (as_folder_is(t, "gemma3")) {
        fprintf(f,
                "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"linear\",\"factor\":%g,"
                "\"rope_theta\":10000.0},\"sliding_attention\":{\"rope_type\":\"default\","
                "\"rope_theta\":500}},",
                (double)t->linear_scaling);
    } else if (as_folder_is(t, "gemma3n")) {
        fprintf(f, "\"rope_theta\":10000.0,\"rope_local_base_freq\":%d,",
                number_of(t, "rope.freq_base_swa") > 0 ? 500 : 10000);
    } else if (as_folder_is(t, "gemma4")) {
        fprintf(f,
                "\"rope_parameters\":{\"full_attention\":{\"rope_type\":\"proportional\","
                "\"partial_rotary_factor\":0.5,\"rope_theta\":10000.0},\"sliding_attention\":{"
                "\"rope_type\":\"default\",\"rope_theta\":%d}},",
                t->numbers ? 10000 : 500);
    } else if (as_folder_is(t, "spark2_5")) {
        fprintf(f,
                "\"rope_parameters\":{\"full_attention\":{\"partial_rotary_factor\":%.17g,"
                "\"rope_theta\":10000},\"sliding_attention\":{\"partial_rotary_factor\":0.75,"
                "\"rope_theta\":500}},",
                (double)t->n_rot / t->head_dim);
    } else if (as_folder_is(t, "mistral3")) {
        fprintf(f,
                "\"rope_parameters\":{\"type\":\"yarn\",\"rope_type\":\"yarn\",\"rope_theta\":1e4,"
                "\"factor\":%g,\"original_max_position_embeddings\":40,\"beta_fast\":2.0,"
                "\"beta_slow\":0.5,\"mscale\":1,\"mscale_all_dim\":0.7,"
                "\"llama_4_scaling_beta\":0.1},",
                (double)t->yarn);
    } else if (as_folder_is(t, "deepseek2") && t->yarn > 0) {
        fprintf(f,
                "\"rope_theta\":10000,\"rope_scaling\":{\"type\":\"yarn\",\"factor\":%g,"
                "\"original_max_position_embeddings\":40,\"mscale\":0.7,\"mscale_all_dim\":0.7},",
                (double)t->yarn);
    } else if (t->yarn > 0) {
        fprintf(f,
                "\"rope_theta\":10000,\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":%g,"
                "\"original_max_position_embeddings\":40},",
                (double)t->yarn);
    } else if (as_folder_in(" phi3 minicpm minicpm3 ", t->arch)) {
        fputs("\"original_max_position_embeddings\":20,\"rope_scaling\":{\"type\":\"longrope\"", f);
        fprintf(f, ",\"attention_factor\":%g", as_folder_is(t, "phi3") ? 1.19 : 1.0);
        put_list(f, s, "short_factor", "rope_factors_short.weight");
        put_list(f, s, "long_factor", "rope_factors_long.weight");
        fputs("},", f);
    } else if (as_folder_is(t, "gptneox")) {
        fputs("\"rotary_emb_base\":10000,", f);
    } else {
        fputs("\"rope_scaling\":null,\"rope_theta\":10000.0,", f);
    }
    bool latent = as_folder_in(" deepseek2 minicpm3 ", t->arch); /* it has a member of its own */
    if (t->n_rot && !latent &&
        (t->n_rot != t->head_dim || as_folder_in(" qwen35 qwen35moe ", t->arch)))
        fprintf(f, "\"%s\":%.17g,",
                as_folder_is(t, "gptneox") ? "rotary_pct" : "partial_rotary_factor",
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
    if (as_folder_in(" qwen35moe qwen3next ", t->arch))
        fputs("\"linear_conv_kernel_dim\":4,\"linear_num_key_heads\":2,"
              "\"linear_num_value_heads\":4,\"linear_key_head_dim\":32,"
              "\"linear_value_head_dim\":32,\"full_attention_interval\":2,\"num_experts\":5,"
              "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
              "\"shared_expert_intermediate_size\":64,",
              f);
    if (as_folder_is(t, "hunyuan-moe"))
        fputs("\"num_experts\":5,\"moe_topk\":[2,2],\"moe_intermediate_size\":[32,32],"
              "\"num_shared_expert\":[2,2],\"use_mixed_mlp_moe\":true,",
              f);
    if (as_folder_is(t, "ernie4_5-moe"))
        fputs("\"moe_num_experts\":6,\"moe_k\":3,\"moe_intermediate_size\":32,"
              "\"moe_num_shared_experts\":2,\"moe_layer_start_index\":1,"
              "\"moe_layer_interval\":1,",
              f);
    if (as_folder_is(t, "dots1"))
        fprintf(f,
                "\"n_routed_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
                "\"n_shared_experts\":%d,\"first_k_dense_replace\":1,\"norm_topk_prob\":%s,"
                "\"routed_scaling_factor\":%s,\"scoring_func\":\"noaux_tc\",\"n_group\":1,",
                other ? 1 : 2, other ? "false" : "true", other ? "1.0" : "2.5");
    if (as_folder_is(t, "granite_swa"))
        fputs("\"sliding_window\":30,\"layer_types\":[\"full_attention\",\"sliding_attention\","
              "\"sliding_attention\"],\"layer_rope_theta\":[10000,10000,0],",
              f);
    if (as_folder_is(t, "granite_swa") && toy_has_experts(t))
        fputs("\"num_local_experts\":9,\"num_experts_per_tok\":4,\"shared_intermediate_size\":64,",
              f);
    if (as_folder_is(t, "gpt-oss"))
        fputs("\"num_local_experts\":6,\"num_experts_per_tok\":3,\"sliding_window\":30,"
              "\"layer_types\":[\"sliding_attention\",\"full_attention\"],"
              "\"swiglu_limit\":7.0,",
              f);
    if (as_folder_is(t, "afmoe"))
        fputs("\"num_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
              "\"num_shared_experts\":1,\"num_dense_layers\":1,\"route_norm\":true,"
              "\"route_scale\":2.5,\"score_func\":\"sigmoid\",\"sliding_window\":30,"
              "\"global_attn_every_n_layers\":4,\"mup_enabled\":true,",
              f);
    if (as_folder_is(t, "mimo2"))
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
    if (as_folder_is(t, "spark2_5"))
        fputs("\"headwise_attn_output_gate\":true,\"gate_attn_act_mode\":\"sigmoid\","
              "\"sliding_window\":30,\"layer_types\":[\"full_attention\","
              "\"sliding_attention\",\"sliding_attention\"],",
              f);
    if (as_folder_is(t, "bailingmoe2"))
        fputs("\"num_experts\":12,\"num_experts_per_tok\":3,\"moe_intermediate_size\":32,"
              "\"num_shared_experts\":1,\"first_k_dense_replace\":1,\"norm_topk_prob\":true,"
              "\"routed_scaling_factor\":2.5,\"score_function\":\"sigmoid\",\"n_group\":4,"
              "\"topk_group\":2,",
              f);
    if (as_folder_is(t, "mellum"))
        fputs("\"num_experts\":6,\"num_experts_per_tok\":3,\"moe_intermediate_size\":32,"
              "\"sliding_window\":30,\"layer_types\":[\"sliding_attention\","
              "\"full_attention\"],",
              f);
    if (as_folder_is(t, "smallthinker"))
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
    if (as_folder_is(t, "falcon-h1"))
        fputs("\"mamba_d_conv\":4,\"mamba_n_heads\":4,\"mamba_d_head\":16,\"mamba_n_groups\":2,"
              "\"mamba_d_state\":24,\"mamba_d_ssm\":64,\"mamba_rms_norm\":false,"
              "\"mamba_norm_before_gate\":false,\"time_step_limit\":[0.0,Infinity],"
              "\"embedding_multiplier\":4,\"lm_head_multiplier\":0.5,\"key_multiplier\":0.25,"
              "\"attention_in_multiplier\":2,\"attention_out_multiplier\":0.25,"
              "\"mlp_multipliers\":[8,0.125],\"ssm_in_multiplier\":0.5,"
              "\"ssm_out_multiplier\":2,\"ssm_multipliers\":[0.25,2,4,0.5,16],",
              f);
    if (as_folder_is(t, "mamba2"))
        fputs("\"conv_kernel\":4,\"num_heads\":4,\"head_dim\":16,\"n_groups\":2,"
              "\"state_size\":17,\"expand\":2,\"chunk_size\":256,\"rms_norm\":true,"
              "\"residual_in_fp32\":true,\"use_conv_bias\":true,\"use_bias\":false,",
              f);
    if (as_folder_is(t, "rwkv7"))
        fprintf(f,
                "\"head_dim\":%d,\"decay_low_rank_dim\":%g,\"a_low_rank_dim\":%g,"
                "\"v_low_rank_dim\":%g,\"gate_low_rank_dim\":%g,\"norm_first\":true,"
                "\"norm_bias\":true,\"attn\":null,\"attn_mode\":\"chunk\",\"fuse_norm\":false,"
                "\"value_dim\":[64],\"hidden_ratio\":4.0,\"intermediate_size\":%u,",
                t->numbers ? 16 : 32, t->numbers ? 5.0 : 12.0, t->numbers ? 33.0 : 9.0,
                t->numbers ? 16.0 : 7.0, t->numbers ? 3.0 : 20.0, t->n_ff);
    if (!as_folder_in(" nemotron_h nemotron_h_moe ", t->arch))
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
    if (as_folder_is(t, "minicpm3"))
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
    if (as_folder_in(" deepseek2 minicpm3 ", t->arch))
        put_latent(f, t);
    if (as_folder_is(t, "gemma3n"))
        put_gemma3n(f, t);
    bool windows = t->numbers && strstr(t->numbers->key, "window");
    if (strncmp(t->arch, "granite", 7) == 0)
        fputs("\"embedding_multiplier\":3,\"residual_multiplier\":0.4,\"logits_scaling\":1.7,"
              "\"attention_multiplier\":0.21,",
              f);
    if (as_folder_is(t, "granitehybrid"))
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
    if (as_folder_is(t, "nanbeige"))
        fputs(t->numbers ? "\"num_loops\":2,\"skip_loop_final_norm\":true," : "\"num_loops\":3,",
              f);
    put_own_mamba(f, t);
    if (as_folder_is(t, "minicpm"))
        fprintf(f, "\"scale_emb\":3,\"scale_depth\":%.17g,\"dim_model_base\":%.17g,",
                0.4 * sqrt(t->n_layer), t->n_embd / 1.7);
    if (as_folder_is(t, "gemma2"))
        fputs("\"sliding_window\":30,\"attn_logit_softcapping\":4.0,"
              "\"final_logit_softcapping\":5.0,\"query_pre_attn_scalar\":20,",
              f);
    if (as_folder_is(t, "gemma3"))
        fputs("\"sliding_window\":100,\"sliding_window_pattern\":3,\"query_pre_attn_scalar\":12,",
              f);
    if (windows && as_folder_is(t, "olmo2"))
        fputs("\"sliding_window\":30,\"layer_types\":[\"sliding_attention\",\"full_attention\","
              "\"sliding_attention\"],",
              f);
    if (windows && as_folder_is(t, "exaone4"))
        fputs("\"sliding_window\":30,\"sliding_window_pattern\":\"LG\",", f);
    if (as_folder_is(t, "gptneox") && t->numbers)
        fputs("\"use_parallel_residual\":false,", f);
    if (as_folder_is(t, "falcon") && t->large)
        fprintf(f, "\"new_decoder_architecture\":true,\"num_kv_heads\":%u,", t->n_head_kv);
    if (as_folder_is(t, "lfm2"))
        fputs("\"conv_L_cache\":3,\"block_auto_adjust_ff_dim\":false,\"layer_types\":[\"conv\","
              "\"full_attention\",\"conv\",\"full_attention\",\"conv\"],",
              f);
    if (as_folder_is(t, "qwen3moe"))
        fputs("\"num_experts\":6,\"num_experts_per_tok\":3,\"moe_intermediate_size\":24,"
              "\"norm_topk_prob\":true,\"mlp_only_layers\":[],\"decoder_sparse_step\":1,",
              f);
    if (as_folder_is(t, "llama") && toy_has_experts(t))
        fputs("\"num_local_experts\":4,\"num_experts_per_tok\":2,", f);
    if (as_folder_is(t, "granitemoe"))
        fputs("\"num_local_experts\":5,\"num_experts_per_tok\":2,\"shared_intermediate_size\":64,",
              f);
    if (as_folder_is(t, "qwen2moe"))
        fputs("\"num_experts\":6,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
              "\"shared_expert_intermediate_size\":56,\"norm_topk_prob\":false,",
              f);
    if (as_folder_is(t, "lfm2moe"))
        fputs("\"conv_L_cache\":3,\"layer_types\":[\"conv\",\"full_attention\",\"conv\"],"
              "\"num_experts\":5,\"num_experts_per_tok\":2,\"moe_intermediate_size\":40,"
              "\"num_dense_layers\":1,\"norm_topk_prob\":true,\"use_expert_bias\":true,",
              f);
    if (as_folder_is(t, "bitnet"))
        fputs("\"quantization_config\":{\"quant_method\":\"bitnet\","
              "\"quantization_mode\":\"online\"},",
              f);
    if (as_folder_predicting(t))
        fprintf(f, "\"mtp_num_hidden_layers\":%u,", as_folder_predicting(t));
    if (as_folder_is(t, "qwen35"))
        fprintf(f,
                "\"linear_conv_kernel_dim\":%d,\"linear_num_key_heads\":%d,"
                "\"linear_num_value_heads\":%d,\"linear_key_head_dim\":32,"
                "\"linear_value_head_dim\":32,%s,",
                t->numbers ? 2 : 4, t->numbers ? 3 : 2, t->numbers ? 3 : 4,
                t->numbers ? "\"full_attention_interval\":2"
                           : "\"layer_types\":[\"linear_attention\",\"linear_attention\","
                             "\"linear_attention\",\"full_attention\",\"linear_attention\"]");
    put_own_experts(f, t);
    if (as_folder_is(t, "cohere2"))
        fputs("\"sliding_window\":30,", f);
    if (as_folder_in(" cohere2 command-r ", t->arch))
        fputs("\"logit_scale\":0.4,", f);
    if (as_folder_is(t, "olmo"))
        fputs("\"clip_qkv\":1.5,", f);
    if (as_folder_is(t, "olmoe"))
        fputs("\"num_experts\":19,\"num_experts_per_tok\":4,", f);
    if (as_folder_is(t, "smollm3"))
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

void as_folder_config(const struct toy *t, const struct tft_source *s, const char *path)
{
    FILE *f = as_folder_create(path, "config.json");
    size_t c = 0;
    while (strcmp(classes[c].arch, t->arch))
        assert_true(++c < sizeof classes / sizeof *classes);
    bool inside = as_folder_in(" gemma3 gemma4 mistral3 qwen35 qwen35moe qwen3vl ", t->arch),
         old = as_folder_is(t, "gpt2");
    bool mixtral = as_folder_is(t, "llama") && toy_has_experts(t),
         granite = as_folder_is(t, "granite_swa") && toy_has_experts(t),
         lite = as_folder_is(t, "deepseek2") && !(number_of(t, "attention.q_lora_rank") > 0);
    fprintf(f, "{\"architectures\":[\"%s\"],%s",
            mixtral   ? "MixtralForCausalLM"
            : granite ? "GraniteMoeSWAForCausalLM"
            : lite    ? "DeepseekV2ForCausalLM"
                      : classes[c].class_name,
            inside ? "\"text_config\":{" : "");
    bool mixers = as_folder_in(" mamba2 rwkv7 ", t->arch); /* alone */
    fprintf(f, "\"%s\":%u,\"%s\":%u,\"%s\":%u,", old ? "n_layer" : "num_hidden_layers",
            t->n_layer - as_folder_predicting(t), old ? "n_positions" : "max_position_embeddings",
            t->n_ctx, old ? "n_embd" : "hidden_size", t->n_embd);
    if (!mixers)
        fprintf(f, "\"%s\":%u,\"%s\":%u,", old ? "n_head" : "num_attention_heads", t->n_head,
                old ? "n_inner" : "intermediate_size", t->n_ff);
    fprintf(f, "\"%s\":\"%s\",", old ? "activation_function" : "hidden_act",
            t->relu2 ? "relu2" : classes[c].act);
    if (!old && !mixers && !as_folder_is(t, "falcon"))
        fprintf(f, "\"num_key_value_heads\":%u,",
                t->kv_heads && as_folder_in(" gemma4 mimo2 ", t->arch) ? t->kv_heads[0]
                                                                       : t->n_head_kv);
    if (as_folder_is(t, "gemma4"))
        put_gemma4(f, t);
    else if (as_folder_is(t, "gemma3n") || (!mixers && t->head_dim * t->n_head != t->n_embd &&
                                            !as_folder_in(" deepseek2 minicpm3 ", t->arch)))
        fprintf(f, "\"head_dim\":%u,", t->head_dim);
    if (!old && !mixers)
        put_rope(f, t, s);
    put_own(f, t);
    fprintf(f, "\"%s\":%s,",
            as_folder_is(t, "starcoder2")               ? "norm_epsilon"
            : as_folder_in(" nemotron rwkv7 ", t->arch) ? "norm_eps"
            : as_folder_is(t, "exaone")                 ? "layer_norm_epsilon"
            : as_folder_in(HALF_BLOCKS, t->arch)        ? "layer_norm_epsilon"
            : as_folder_is(t, "mimo2")                  ? "layernorm_epsilon"
            : old || as_folder_is(t, "falcon")          ? "layer_norm_epsilon"
            : toy_has_layer_norm(t)                     ? "layer_norm_eps"
                                                        : "rms_norm_eps",
            toy_has_layer_norm(t) ? "1e-05" : "1e-06");
    fprintf(f, "\"tie_word_embeddings\":%s,\"vocab_size\":%u}%s", t->tied ? "true" : "false",
            t->n_vocab, inside ? "}" : "");
    assert_int_equal(fclose(f), 0);
}
