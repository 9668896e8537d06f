#include "unread.h"

#include <stdio.h>
#include <string.h>

#include "arch.h"
#include "config.h"
#include "rope.h"

/* Members that change nothing: of training, of generation by transformers, of other modalities, and
   those that the tensors say too. With a blank before and after each. */
static const char no_effect[] =
    /* the file */
    " architectures model_type auto_map _name_or_path name_or_path transformers_version "
    "torch_dtype dtype tokenizer_class text_config vision_config audio_config "
    "transformers.js_config unsloth_fixed unsloth_version quantization "
    /* tokens: tokenizer.c reads some */
    "bos_token_id eos_token_id pad_token_id unk_token_id sep_token_id cls_token_id mask_token_id "
    "decoder_start_token_id image_token_id video_token_id audio_token_id boi_token_id eoi_token_id "
    "boi_token_index eoi_token_index image_token_index vision_start_token_id vision_end_token_id "
    "vision_token_id "
    "forced_bos_token_id forced_eos_token_id mask_init_id org_vocab_size model_max_length "
    "max_sequence_length seq_length seq_len max_length min_length "
    /* training */
    "initializer_range initializer_factor initializer_cutoff_factor attention_dropout "
    "hidden_dropout hidden_dropout_prob attention_probs_dropout_prob classifier_dropout "
    "classifier_dropout_prob embedding_dropout residual_dropout attn_pdrop embd_pdrop resid_pdrop "
    "embed_dropout "
    "gradient_checkpointing pretraining_tp router_aux_loss_coef aux_loss_alpha router_jitter_noise "
    "output_router_logits router_z_loss_coef neftune_noise_alpha mup_denominator init_method "
    "init_method_std block_mlp_init_scale block_out_init_scale block_use_xavier_init "
    "conv_use_xavier_init tf_legacy_loss problem_type finetuning_task task_specific_params "
    "num_labels id2label label2id summary_activation summary_first_dropout "
    "summary_proj_to_labels summary_type summary_use_proj mtp_num_hidden_layers "
    "mtp_use_dedicated_embeddings num_nextn_predict_layers "
    /* running */
    "use_cache use_bfloat16 use_flash_attn attn_implementation _attn_implementation "
    "_attn_implementation_autoset attn_implementation_internal _attn_implementation_internal "
    "_flash_attn_2_enabled reorder_and_upcast_attn cache_implementation return_dict torchscript "
    "output_attentions output_hidden_states output_scores return_dict_in_generate "
    "use_return_dict chunk_size_feed_forward mamba_ssm_dtype prefix do_sample early_stopping "
    "num_beams num_beam_groups diversity_penalty temperature top_k top_p typical_p "
    "repetition_penalty length_penalty no_repeat_ngram_size encoder_no_repeat_ngram_size "
    "bad_words_ids num_return_sequences suppress_tokens begin_suppress_tokens "
    "remove_invalid_values exponential_decay_length_penalty "
    /* shapes and biases: the tensors have them */
    "attention_bias attention_out_bias mlp_bias bias use_bias qkv_bias use_qkv_bias lm_head_bias "
    "qk_layernorm use_qk_norm conv_dim conv_dim_out block_dim block_norm_eps num_heads "
    "kv_channels vocab_size_per_layer_input max_window_layers use_expert_bias "
    /* read where another member asks for them */
    "num_kv_heads n_head_kv multi_query num_ln_in_parallel_attn num_global_key_value_heads "
    "use_double_wide_mlp top_k_experts moe_intermediate_size query_pre_attn_scalar "
    "sliding_window_pattern no_rope_layer_interval block_multiple_of block_ffn_dim_multiplier "
    "original_max_position_embeddings theta cla_share_factor "
    "is_llama_config predict_special_tokens attention_softmax_in_fp32 "
    "scale_attention_softmax_in_fp32 "
    /* Hunyuan's, of larger models and of images */
    "add_classification_head anyres_pooling_size anyres_vit_max_image_size anyres_vit_two_views "
    "class_num dense_list eod_token_id group_limited_greedy im_end_id im_newline_id im_start_id "
    "moe_drop_tokens moe_layer_num_skipped moe_random_routing_dropped_token moe_topk n_group "
    "norm_topk_prob num_media_embeds num_shared_expert pad_id pool_type routed_scaling_factor "
    "skip_cls_token text_end_id text_start_id topk_group v_head_dim video_end_id video_start_id "
    "use_rotary_pos_emb xdrope_section q_lora_rank kv_lora_rank qk_nope_head_dim "
    "qk_rope_head_dim "
    /* of mixtures of experts, and of Cohere */
    "ep_size seq_aux topk_method router_dtype moe_router_enable_expert_bias "
    "moe_shared_expert_intermediate_size output_dropout moe_capacity moe_gate moe_use_aux_free "
    "moe_layer_end_index use_moe layer_switch order_of_interleaved_layers use_parallel_embedding "
    "use_embedding_sharing swiglu_limit initial_context_length experts_per_token "
    /* Mamba's, in hybrids */
    "time_step_limit time_step_min time_step_max time_step_floor mamba_expand mamba_chunk_size "
    "mamba_conv_bias "
    /* one value in all models of the class */
    "_sliding_window_pattern mrope_interleaved normalization_function norm_type "
    "mlp_type position_embedding_type is_decoder pruned_heads ";

/* The same, of encoders. */
static const char encoder_no_effect[] =
    " classifier_pooling classifier_bias classifier_activation decoder_bias reference_compile "
    "deterministic_flash_attn sparse_prediction sparse_pred_ignore_index repad_logits_with_grad "
    "emb_pooler dense_seq_output fused_bias_fc fused_dropout_add_ln use_xentropy "
    "pad_vocab_size_multiple rotary_emb_scale_base tie_weights_ seq_classif_dropout qa_dropout "
    "dropout sinusoidal_pos_embds output_past gradient_checkpointing sentence_transformers "
    "layer_norm_eps norm_eps clf_pooling ";

/* The same, of models that are mostly Mamba-2. */
static const char mamba_no_effect[] =
    " expand chunk_size time_step_rank residual_in_fp32 rescale_prenorm_residual use_conv_bias "
    "norm_before_gate num_logits_to_keep mamba_ssm_cache_dtype use_mamba_kernels mamba_use_mlp "
    "mlp_expansion_factor moe_shared_expert_overlap mtp_hybrid_override_pattern "
    "mtp_layers_block_type ";

/* The same, of fla's classes. */
static const char fla_no_effect[] =
    " attn_mode fuse_norm fuse_cross_entropy fuse_linear_cross_entropy use_l2warp hidden_ratio "
    "value_dim attn ";

/* Members that change nothing while they have this value. */
static const struct {
    const char *name;
    enum { MUST_BE_FALSE, MUST_BE_TRUE, MUST_BE_ONE, MUST_BE_ZERO, MUST_BE_FULL } value;
} usual[] = {
    {"is_causal", MUST_BE_TRUE},
    {"causal", MUST_BE_FALSE},
    {"prenorm", MUST_BE_FALSE},
    {"parallel_block", MUST_BE_FALSE},
    {"parallel_block_tied_norm", MUST_BE_FALSE},
    {"use_rms_norm", MUST_BE_FALSE},
    {"qkv_proj_bias", MUST_BE_FALSE},
    {"mlp_fc1_bias", MUST_BE_FALSE},
    {"mlp_fc2_bias", MUST_BE_FALSE},
    {"norm_bias", MUST_BE_FALSE},
    {"rotary_emb_interleaved", MUST_BE_FALSE},
    {"rotary_emb_fraction", MUST_BE_ONE},
    {"scale_attn_weights", MUST_BE_TRUE},
    {"scale_attn_by_inverse_layer_idx", MUST_BE_FALSE},
    {"use_sliding_window", MUST_BE_FALSE},
    {"use_bidirectional_attention", MUST_BE_FALSE},
    {"is_encoder_decoder", MUST_BE_FALSE},
    {"add_cross_attention", MUST_BE_FALSE},
    {"tie_encoder_decoder", MUST_BE_FALSE},
    {"apply_residual_connection_post_layernorm", MUST_BE_FALSE},
    {"conv_bias", MUST_BE_FALSE},
    {"mamba_proj_bias", MUST_BE_FALSE},
    {"projectors_bias", MUST_BE_FALSE},
    {"rms_norm", MUST_BE_TRUE},
    {"norm_first", MUST_BE_TRUE},
    {"norm_bias", MUST_BE_TRUE},
    {"block_use_swiglu", MUST_BE_TRUE},
    {"use_pos_enc", MUST_BE_TRUE},
    {"use_rmsnorm", MUST_BE_TRUE},
    {"rope_interleaved", MUST_BE_FALSE},
    {"use_mrope", MUST_BE_FALSE},
    {"position_embedding_xdrope", MUST_BE_FALSE},
    {"use_mixed_mlp_moe", MUST_BE_FALSE},
    {"full_attn_mod", MUST_BE_ONE},
    {"interpolate_factor", MUST_BE_ONE},
    {"rotary_scaling_factor", MUST_BE_ONE},
    {"use_cla", MUST_BE_FALSE},
    {"use_gated_activation", MUST_BE_TRUE},
    {"use_parallel_block", MUST_BE_TRUE},
    {"moe_layer_interval", MUST_BE_ONE},
    {"moe_layer_freq", MUST_BE_ONE},
    {"norm_head", MUST_BE_FALSE},
    {"norm_softmax", MUST_BE_FALSE},
    {"use_mla", MUST_BE_FALSE},
    {"compression_ratio", MUST_BE_ONE},
    {"num_experts", MUST_BE_ZERO},
    {"num_experts", MUST_BE_ONE},
    {"num_local_experts", MUST_BE_ZERO},
    {"num_experts_per_tok", MUST_BE_ZERO},
    {"layer_types", MUST_BE_FULL},
};

/* The members of RoPE. */
static const char rope_members[] =
    " rope_type type factor rope_theta partial_rotary_factor original_max_position_embeddings "
    "attention_factor attn_factor beta_fast beta_slow truncate short_factor long_factor "
    "low_freq_factor high_freq_factor mscale mscale_all_dim extrapolation_factor alpha "
    "llama_4_scaling_beta mrope_section mrope_interleaved full_attention sliding_attention "
    "finetuned ";

static bool is_listed(const char *list, const char *name)
{
    char word[96];
    int n = snprintf(word, sizeof word, " %s ", name);
    return n > 2 && n < (int)sizeof word && !strpbrk(name, " ") && strstr(list, word);
}

static bool all_full(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *type = json_string_value(json_array_get(list, i));
        if (!type || strcmp(type, "full_attention") != 0)
            return false;
    }
    return json_is_array(list);
}

static bool is_value(const json_t *v, size_t row)
{
    switch (usual[row].value) {
    case MUST_BE_FALSE: return json_is_false(v);
    case MUST_BE_TRUE: return json_is_true(v);
    case MUST_BE_ONE: return json_is_real(v) && json_real_value(v) == 1;
    case MUST_BE_ZERO: return json_is_real(v) && json_real_value(v) == 0;
    default: return all_full(v);
    }
}

static bool is_usual(const char *name, const json_t *v)
{
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (strcmp(usual[i].name, name) == 0 && is_value(v, i))
            return true;
    return false;
}

static bool is_empty(const json_t *v)
{
    return (json_is_array(v) && !json_array_size(v)) || (json_is_object(v) && !json_object_size(v));
}

/* Whether texts within the context are longer than a window. */
static bool has_short_window(const struct import *im, const json_t *window)
{
    return !json_is_false(json_object_get(im->text, "use_sliding_window")) &&
           json_is_real(window) && json_real_value(window) < (double)im->context;
}

static void unknown(struct import *im, const char *within, const char *name)
{
    import_fail(im, TFT_ERR_UNSUPPORTED,
                "%s/config.json: %s\"%.64s\" is not supported: --ignore-key %.64s imports the "
                "folder without it",
                im->folder.path, within, name, name);
}

static void tell(const struct import_opts *o, const struct import *im, const char *name,
                 const char *what)
{
    char text[512];
    snprintf(text, sizeof text, "%.300s/config.json: \"%.64s\" %s", im->folder.path, name, what);
    if (o->warn)
        o->warn(o->user, text);
}

static void check_rope(struct import *im, const json_t *rope)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)rope, name, v)
        if (!json_is_null(v) && !is_listed(rope_members, name) && !import_ignores(im, name))
            unknown(im, "RoPE's ", name);
}

void import_refuse_unread(struct import *im, const struct import_opts *o)
{
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)im->text, name, v)
    {
        if (json_is_null(v) || is_empty(v) || json_object_get(im->seen, name) ||
            import_ignores(im, name) || is_listed(no_effect, name) ||
            is_listed(mamba_no_effect, name) || is_listed(fla_no_effect, name) ||
            (im->arch->encoder && is_listed(encoder_no_effect, name)) || is_usual(name, v))
            continue;
        if (strcmp(name, "sliding_window") == 0) { /* Mistral 7B v0.1, as in llama.cpp */
            if (has_short_window(im, v))
                tell(o, im, name, "is not applied: longer texts get full attention");
        } else if (json_is_string(v)) {
            tell(o, im, name, "is not known");
        } else {
            unknown(im, "", name);
        }
    }
    check_rope(im, import_rope(im));
}
