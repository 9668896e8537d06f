#include "own.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arch.h"
#include "config.h"
#include "rope.h"

void import_unsupported(struct import *im, const char *what)
{
    import_fail(im, TFT_ERR_UNSUPPORTED, "%s/config.json: %s", im->folder.path, what);
}

bool import_has_window(const struct import *im, uint64_t l, uint64_t period)
{
    const char *type = json_string_value(json_array_get(import_find(im, "layer_types"), l)),
               *pattern = json_string_value(import_find(im, "sliding_window_pattern"));
    if (type)
        return strcmp(type, "sliding_attention") == 0;
    if (pattern && *pattern)
        return pattern[l % json_string_length(import_find(im, "sliding_window_pattern"))] == 'L';
    return l % period < period - 1;
}

/* The period of windows: in each period, every layer but the last has a window. 0: no period. */
static uint64_t window_period(struct import *im, uint64_t usual)
{
    const json_t *given = import_find(im, "sliding_window_pattern");
    uint64_t period = 1, from_config = usual;
    if (json_is_real(given) && (!import_json_whole(given, INT32_MAX, &from_config) || !from_config))
        import_unsupported(im, "\"sliding_window_pattern\" is not a period");
    if (!usual)
        import_unsupported(im, "the period of its windows is 0");
    if (im->status != TFT_OK)
        return usual;
    while (period < im->n_layer && import_has_window(im, period - 1, from_config))
        period++;
    if (period == im->n_layer && import_has_window(im, period - 1, from_config))
        period = from_config;
    for (uint64_t l = 0; l < im->n_layer; l++)
        if (import_has_window(im, l, from_config) != (l % period < period - 1))
            return 0;
    return period;
}

void import_put_window(struct import *im)
{
    tft_gguf_put_u32(im->gguf, import_key(im, "attention.sliding_window"),
                     (uint32_t)import_whole(im, "sliding_window", IMPORT_NEEDED));
}

/* A bool for each layer, in the form of olmo2 and exaone4. */
void import_window_values(struct import *im)
{
    if (!import_find(im, "sliding_window"))
        return;
    uint64_t period = window_period(im, 4);
    bool *has = calloc((size_t)im->n_layer, sizeof *has);
    if (!has)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    else
        import_put_window(im);
    for (uint64_t l = 0; l < im->n_layer && has; l++)
        has[l] = import_has_window(im, l, period ? period : 4);
    if (has)
        tft_gguf_put_array(im->gguf, import_key(im, "attention.sliding_window_pattern"),
                           TFT_VALUE_BOOL, has, (size_t)im->n_layer);
    free(has);
}

void import_everywhere_values(struct import *im)
{
    uint64_t n = import_whole(im, "sliding_window", 0);
    if (n && n < im->context)
        import_put_window(im);
}

void import_qwen2_values(struct import *im)
{
    uint64_t first = import_whole(im, "max_window_layers", (int64_t)im->n_layer);
    bool *has = calloc((size_t)im->n_layer, sizeof *has), some = false;
    if (!has)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (uint64_t l = 0; l < im->n_layer && has; l++)
        some |= has[l] = import_find(im, "layer_types") ? import_has_window(im, l, 1) : l >= first;
    if (has && import_flag(im, "use_sliding_window", false) && some) {
        import_put_window(im);
        tft_gguf_put_array(im->gguf, import_key(im, "attention.sliding_window_pattern"),
                           TFT_VALUE_BOOL, has, (size_t)im->n_layer);
    }
    free(has);
}

/* Scores are divided by sqrt(query_pre_attn_scalar), which is E, or D / H in the largest models. */
static void check_gemma_scale(struct import *im, uint64_t wide_layers)
{
    uint64_t want = im->n_layer == wide_layers ? im->n_embd / im->n_head : im->head_dim,
             have = import_whole(im, "query_pre_attn_scalar", (int64_t)want);
    if (have != want)
        import_unsupported(im, "this \"query_pre_attn_scalar\" is not supported");
}

void import_gemma2_values(struct import *im)
{
    check_gemma_scale(im, 46);
    import_put_window(im);
    if (window_period(im, 2) != 2)
        import_unsupported(im, "gemma2 must have windows in every other layer");
}

void import_gemma3_values(struct import *im)
{
    uint64_t period = window_period(im, 6);
    check_gemma_scale(im, 62);
    if (period == 1)
        return;
    import_put_window(im);
    if (!period)
        import_unsupported(im, "the windows of its layers have no period");
    else if (period != 6)
        tft_gguf_put_u32(im->gguf, import_key(im, "attention.sliding_window_pattern"),
                         (uint32_t)period);
}

void import_phi3_values(struct import *im)
{
    if (strcmp(import_rope_type(im), "default") == 0)
        tft_gguf_put_u32(
            im->gguf, import_key(im, "rope.scaling.original_context_length"),
            (uint32_t)import_whole(im, "original_max_position_embeddings", (int64_t)im->n_ctx));
    import_everywhere_values(im);
}

void import_minicpm_values(struct import *im)
{
    double depth = import_real(im, "scale_depth", IMPORT_NEEDED),
           base = import_real(im, "dim_model_base", IMPORT_NEEDED);
    tft_gguf_put_f32(im->gguf, import_key(im, "residual_scale"),
                     (float)(depth / sqrt((double)im->n_layer)));
    tft_gguf_put_f32(im->gguf, import_key(im, "logit_scale"), (float)((double)im->n_embd / base));
}

void import_mistral3_values(struct import *im)
{
    const json_t *rope = import_rope(im);
    tft_gguf_put_f32(im->gguf, import_key(im, "rope.scaling.yarn_log_multiplier"),
                     (float)import_member(im, rope, "mscale_all_dim", 0));
    tft_gguf_put_f32(im->gguf, import_key(im, "attention.temperature_scale"),
                     (float)import_member(im, rope, "llama_4_scaling_beta", 0));
}

/* The formula leaves every fourth layer without RoPE. */
void import_smollm3_values(struct import *im)
{
    const json_t *rope = import_find(im, "no_rope_layers");
    for (size_t l = 0; l < json_array_size(rope); l++)
        if ((json_number_value(json_array_get(rope, l)) != 0) != ((l + 1) % 4 != 0))
            import_unsupported(im, "smollm3 must have RoPE in three layers of four");
    if (!rope && import_whole(im, "no_rope_layer_interval", 4) != 4)
        import_unsupported(im, "smollm3 must have RoPE in three layers of four");
}

/* config.json does not have the original context of its scaled base. */
void import_hunyuan_dimensions(struct import *im)
{
    if (strcmp(import_rope_type(im), "dynamic") == 0)
        im->n_ctx = 262144;
}

void import_hunyuan_values(struct import *im)
{
    if (strcmp(import_rope_type(im), "dynamic") != 0)
        return;
    const char none[] = "none";
    tft_gguf_put_str(im->gguf, import_key(im, "rope.scaling.type"),
                     (struct tft_str){none, strlen(none)});
    tft_gguf_put_f32(im->gguf, import_key(im, "rope.scaling.factor"), 1);
    tft_gguf_put_u32(im->gguf, import_key(im, "rope.scaling.original_context_length"),
                     (uint32_t)im->n_ctx);
}

void import_parallel_values(struct import *im)
{
    tft_gguf_put_bool(im->gguf, import_key(im, "use_parallel_residual"),
                      import_flag(im, "use_parallel_residual", im->arch->parallel));
}

/* 40B names its KV heads; 7B has one KV head, or else as many as heads. */
void import_falcon_dimensions(struct import *im)
{
    if (import_flag(im, "alibi", false) || !import_flag(im, "parallel_attn", true))
        import_unsupported(im, "falcon with ALiBi, or with feed-forward after attention, is not "
                               "supported");
    im->n_head_kv =
        import_flag(im, "new_decoder_architecture", false)
            ? import_whole(im, "num_kv_heads|n_head_kv", (int64_t)im->n_head)
            : (import_flag(im, "multi_query", true) ? 1 : im->n_head);
}

/* Whether layer l has attention: by layer_types, or by full_attn_idxs in older files. */
static bool lfm2_attends(const struct import *im, size_t l)
{
    const char *type = json_string_value(json_array_get(import_find(im, "layer_types"), l));
    const json_t *list = import_find(im, "full_attn_idxs");
    bool listed = false;
    for (size_t i = 0; i < json_array_size(list); i++)
        listed |= json_number_value(json_array_get(list, i)) == (double)l;
    return type ? strcmp(type, "full_attention") == 0 : listed;
}

void import_attention_layers(struct import *im,
                             bool (*attends)(const struct import *im, size_t l))
{
    im->kv_heads = calloc((size_t)im->n_layer, sizeof *im->kv_heads);
    if (!im->kv_heads)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (size_t l = 0; l < im->n_layer && im->kv_heads; l++)
        im->kv_heads[l] = attends(im, l) ? (uint32_t)im->n_head_kv : 0;
}

static void conv_dimensions(struct import *im)
{
    im->n_taps = import_whole(im, "conv_L_cache", IMPORT_NEEDED);
    import_attention_layers(im, lfm2_attends);
}

void import_lfm2_dimensions(struct import *im)
{
    conv_dimensions(im);
    im->n_leading = im->n_layer;
    if (import_flag(im, "block_auto_adjust_ff_dim", true)) {
        double n = (double)(2 * im->n_ff / 3) * import_real(im, "block_ffn_dim_multiplier", 1);
        uint64_t of = import_whole(im, "block_multiple_of", 256);
        if (!of || !(n >= 1 && n <= INT32_MAX))
            import_fail(im, TFT_ERR_FORMAT,
                        "%s/config.json: \"block_ffn_dim_multiplier\" or \"block_multiple_of\" is "
                        "out of range", im->folder.path);
        else
            im->n_ff = ((uint64_t)n + of - 1) / of * of;
    }
}

void import_lfm2_values(struct import *im)
{
    tft_gguf_put_u32(im->gguf, import_key(im, "shortconv.l_cache"), (uint32_t)im->n_taps);
}

void import_expert_dimensions(struct import *im, bool renorm, bool def)
{
    im->n_expert = import_whole(im, "num_experts|num_local_experts", IMPORT_NEEDED);
    im->n_ff_expert = import_whole(im, "moe_intermediate_size", (int64_t)im->n_ff);
    if (import_flag(im, "norm_topk_prob", def) != renorm)
        import_unsupported(im, "this \"norm_topk_prob\" is not supported");
    if (import_whole(im, "decoder_sparse_step", 1) != 1 ||
        json_array_size(import_find(im, "mlp_only_layers")))
        import_unsupported(im, "layers without experts are not supported");
}

void import_qwen3moe_dimensions(struct import *im)
{
    import_expert_dimensions(im, true, false);
}

void import_olmoe_dimensions(struct import *im)
{
    import_expert_dimensions(im, false, false);
    if (import_find(im, "clip_qkv"))
        import_unsupported(im, "clip_qkv is not supported");
}

void import_expert_values(struct import *im)
{
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_count"), (uint32_t)im->n_expert);
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_used_count"),
                     (uint32_t)import_whole(im,
                                            "num_experts_per_tok|top_k_experts|moe_k|"
                                            "moe_num_active_primary_experts",
                                            IMPORT_NEEDED));
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_feed_forward_length"),
                     (uint32_t)im->n_ff_expert);
    if (im->n_ff_shared)
        tft_gguf_put_u32(im->gguf, import_key(im, "expert_shared_feed_forward_length"),
                         (uint32_t)im->n_ff_shared);
}

void import_renormalised_dimensions(struct import *im)
{
    import_expert_dimensions(im, true, true);
}

void import_qwen2moe_dimensions(struct import *im)
{
    import_expert_dimensions(im, false, false);
    im->n_ff_shared = import_whole(im, "shared_expert_intermediate_size", IMPORT_NEEDED);
}

void import_granitemoe_dimensions(struct import *im)
{
    import_expert_dimensions(im, true, true);
    im->n_ff_shared = import_whole(im, "shared_intermediate_size", 0);
}

void import_lfm2moe_dimensions(struct import *im)
{
    conv_dimensions(im);
    import_expert_dimensions(im, true, true);
    im->n_leading = import_whole(im, "num_dense_layers", IMPORT_NEEDED);
    if (im->n_leading >= im->n_layer)
        import_unsupported(im, "none of its layers has experts");
}

/* expert_gating_func 2: a sigmoid makes weights of the router's scores. */
void import_lfm2moe_values(struct import *im)
{
    double scale = import_real(im, "routed_scaling_factor", 1);
    import_lfm2_values(im);
    import_expert_values(im);
    tft_gguf_put_u32(im->gguf, import_key(im, "leading_dense_block_count"),
                     (uint32_t)im->n_leading);
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_gating_func"), 2);
    if (scale != 1)
        tft_gguf_put_f32(im->gguf, import_key(im, "expert_weights_scale"), (float)scale);
}

/* Whether layer l has attention: by layer_types, or else every full_attention_interval-th layer. */
static bool qwen35_attends(const struct import *im, size_t l)
{
    const char *type = json_string_value(json_array_get(import_find(im, "layer_types"), l));
    double interval = json_number_value(import_find(im, "full_attention_interval"));
    return type ? strcmp(type, "full_attention") == 0
                : fmod((double)l + 1, interval > 0 ? interval : 4) == 0;
}

/* Blocks that predict further tokens, if their tensors are there. One with an embedding of its own
   is left out, and one of a quantized folder. */
static uint64_t predicting(const struct import *im)
{
    const unsigned char *data;
    const json_t *n = import_find(im, "mtp_num_hidden_layers");
    bool own = json_is_true(import_find(im, "mtp_use_dedicated_embeddings")),
         quantized = import_find(im, "quantization_config");
    return !own && !quantized && json_number_value(n) == 1 &&
           import_folder_find(&im->folder, "mtp.fc.weight", &data);
}

void import_qwen35_dimensions(struct import *im)
{
    im->n_predict = predicting(im);
    uint64_t values = import_whole(im, "linear_value_head_dim", IMPORT_NEEDED);
    im->n_taps = import_whole(im, "linear_conv_kernel_dim", IMPORT_NEEDED);
    im->delta.k_heads = import_whole(im, "linear_num_key_heads", IMPORT_NEEDED);
    im->delta.v_heads = import_whole(im, "linear_num_value_heads", IMPORT_NEEDED);
    im->delta.dim = import_whole(im, "linear_key_head_dim", IMPORT_NEEDED);
    import_attention_layers(im, qwen35_attends);
    if (!import_flag(im, "attn_output_gate", true))
        import_unsupported(im, "qwen35 without gates on attention's output is not supported");
    if (values != im->delta.dim)
        import_unsupported(im, "linear attention with values and keys of different lengths is not "
                               "supported");
    if (im->status == TFT_OK &&
        (!im->delta.k_heads || im->delta.v_heads % im->delta.k_heads ||
         im->delta.v_heads > INT32_MAX / (3 * (im->delta.dim + 1))))
        import_unsupported(im, "linear_num_value_heads is not a multiple of linear_num_key_heads, "
                               "or is too large");
}

/* rope.dimension_sections: parts of a head for positions of images; text has none. usual: where
   config.json has no mrope_section. */
static void put_sections(struct import *im, const int32_t usual[4])
{
    const json_t *list = json_object_get(import_rope(im), "mrope_section");
    int32_t sections[4];
    memcpy(sections, usual, sizeof sections);
    for (size_t i = 0; i < 4 && list; i++) {
        uint64_t n = 0;
        import_json_whole(json_array_get(list, i), INT32_MAX, &n);
        sections[i] = (int32_t)n;
    }
    tft_gguf_put_array(im->gguf, import_key(im, "rope.dimension_sections"), TFT_VALUE_I32, sections,
                       4);
}

void import_nanbeige_values(struct import *im)
{
    tft_gguf_put_u32(im->gguf, import_key(im, "num_loops"),
                     (uint32_t)import_whole(im, "num_loops", 1));
    tft_gguf_put_bool(im->gguf, import_key(im, "skip_loop_final_norm"),
                      import_flag(im, "skip_loop_final_norm", false));
}

void import_qwen2vl_values(struct import *im)
{
    put_sections(im, (const int32_t[4]){16, 24, 24, 0});
}

/* n_deepstack_layers: how many layers get images. */
void import_qwen3vl_values(struct import *im)
{
    const json_t *vision = json_object_get(im->folder.config, "vision_config");
    size_t n = json_array_size(json_object_get(vision, "deepstack_visual_indexes"));
    put_sections(im, (const int32_t[4]){24, 20, 20, 0});
    if (n)
        tft_gguf_put_u32(im->gguf, import_key(im, "n_deepstack_layers"), (uint32_t)n);
}

static void put_delta(struct import *im)
{
    size_t blocks = (size_t)(im->n_layer + im->n_predict);
    bool *state = calloc(blocks, sizeof *state);
    const struct {
        const char *key;
        uint64_t n;
    } numbers[] = {{"ssm.conv_kernel", im->n_taps},
                   {"ssm.state_size", im->delta.dim},
                   {"ssm.group_count", im->delta.k_heads},
                   {"ssm.time_step_rank", im->delta.v_heads},
                   {"ssm.inner_size", im->delta.v_heads * im->delta.dim}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        tft_gguf_put_u32(im->gguf, import_key(im, numbers[i].key), (uint32_t)numbers[i].n);
    if (!state)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (uint64_t l = 0; l < im->n_layer && state; l++)
        state[l] = !im->kv_heads[l];
    if (state)
        tft_gguf_put_array(im->gguf, import_key(im, "attention.recurrent_layers"),
                           TFT_VALUE_BOOL, state, blocks);
    if (im->n_predict)
        tft_gguf_put_u32(im->gguf, import_key(im, "nextn_predict_layers"),
                         (uint32_t)im->n_predict);
    free(state);
}

void import_qwen35_values(struct import *im)
{
    put_delta(im);
    put_sections(im, (const int32_t[4]){11, 11, 10, 0});
}

/* Windows in three layers of four; the others do not rotate queries and keys. */
void import_cohere2_values(struct import *im)
{
    import_put_window(im);
    if (window_period(im, 4) != 4)
        import_unsupported(im, "cohere2 must have windows in three layers of four");
}

/* Numbers of xIELU are tensors of one number in each layer. beta and eps may be missing. */
void import_apertus_values(struct import *im)
{
    static const struct {
        const char *key, *name;
        float usual; /* 0: the folder must have the tensor */
    } parts[] = {{"xielu.alpha_p", "alpha_p", 0},
                 {"xielu.alpha_n", "alpha_n", 0},
                 {"xielu.beta", "beta", 0.5f},
                 {"xielu.eps", "eps", -1e-6f}};
    float *x = calloc((size_t)im->n_layer, sizeof *x);
    if (!x)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && x && im->status == TFT_OK; i++) {
        for (uint64_t l = 0; l < im->n_layer; l++) {
            char name[96];
            const unsigned char *data;
            snprintf(name, sizeof name, "model.layers.%u.mlp.act_fn.%s", (unsigned)l,
                     parts[i].name);
            struct safetensor *t = import_folder_find(&im->folder, name, &data);
            x[l] = parts[i].usual;
            if (t && t->floats && t->bytes == tft_dtype_info(t->type)->bytes) {
                tft_dtype_info(t->type)->to_f32(&x[l], data, 1);
                t->used = true;
            } else if (t || parts[i].usual == 0) {
                import_fail(im, TFT_ERR_FORMAT, "%s: tensor \"%s\" is not one number",
                            im->folder.path, name);
            }
        }
        tft_gguf_put_array(im->gguf, parts[i].key, TFT_VALUE_F32, x, (size_t)im->n_layer);
    }
    free(x);
}

void import_qwen35moe_dimensions(struct import *im)
{
    import_qwen35_dimensions(im);
    import_expert_dimensions(im, true, true);
    im->n_ff_shared = import_whole(im, "shared_expert_intermediate_size", IMPORT_NEEDED);
}

void import_qwen35moe_values(struct import *im)
{
    import_qwen35_values(im);
    import_expert_values(im);
}

void import_qwen3next_values(struct import *im)
{
    put_delta(im);
    import_expert_values(im);
}

/* n experts side by side. */
static void put_shared(struct import *im, uint64_t n)
{
    if (n > INT32_MAX / (im->n_ff_expert + 1))
        import_unsupported(im, "its shared experts are too wide");
    else
        im->n_ff_shared = n * im->n_ff_expert;
}

void import_late_dimensions(struct import *im)
{
    im->n_expert = import_whole(im, "n_routed_experts|num_experts|moe_num_experts", IMPORT_NEEDED);
    im->n_ff_expert = import_whole(im, "moe_intermediate_size", IMPORT_NEEDED);
    im->n_leading =
        import_whole(im, "first_k_dense_replace|moe_layer_start_index|num_dense_layers", 0);
    put_shared(im,
               import_whole(im, "n_shared_experts|num_shared_experts|moe_num_shared_experts", 0));
    if (im->n_leading >= im->n_layer)
        import_unsupported(im, "none of its layers has experts");
}

void import_late_values(struct import *im, uint32_t gate)
{
    uint64_t groups = import_whole(im, "n_group", 1);
    double scale = import_real(im, "routed_scaling_factor|route_scale", 1);
    import_expert_values(im);
    tft_gguf_put_u32(im->gguf, import_key(im, "leading_dense_block_count"),
                     (uint32_t)im->n_leading);
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_gating_func"), gate);
    if (scale != 1)
        tft_gguf_put_f32(im->gguf, import_key(im, "expert_weights_scale"), (float)scale);
    if (groups < 2)
        return;
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_group_count"), (uint32_t)groups);
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_group_used_count"),
                     (uint32_t)import_whole(im, "topk_group", IMPORT_NEEDED));
}

/* dots1, bailingmoe2, afmoe */
void import_sigmoid_values(struct import *im)
{
    const char *how = json_string_value(import_find(im, "scoring_func|score_function|score_func"));
    if (how && strcmp(how, "sigmoid") != 0 && strcmp(how, "noaux_tc") != 0)
        import_unsupported(im, "weights of experts must be sigmoids");
    import_late_values(im, 2);
    tft_gguf_put_bool(im->gguf, import_key(im, "expert_weights_norm"),
                      import_flag(im, "norm_topk_prob|route_norm", true));
}

void import_afmoe_values(struct import *im)
{
    import_sigmoid_values(im);
    import_put_window(im);
    if (window_period(im, import_whole(im, "global_attn_every_n_layers", 4)) != 4)
        import_unsupported(im, "afmoe must have windows in three layers of four");
    if (!import_flag(im, "mup_enabled", false))
        import_unsupported(im, "afmoe without scaled embeddings is not supported");
}

void import_ernie_moe_values(struct import *im) { import_late_values(im, 1); }

/* ---- latent attention */

void import_latent_dimensions(struct import *im)
{
    enum { MOST = 1 << 16 };
    uint64_t nope = import_whole(im, "qk_nope_head_dim", IMPORT_NEEDED);
    im->latent.rank = import_whole(im, "kv_lora_rank", IMPORT_NEEDED);
    im->latent.q_rank = import_whole(im, "q_lora_rank", 0);
    im->latent.rot = import_whole(im, "qk_rope_head_dim", IMPORT_NEEDED);
    im->latent.value = import_whole(im, "v_head_dim", IMPORT_NEEDED);
    if (im->status == TFT_OK &&
        (!nope || !im->latent.rot || !im->latent.rank || !im->latent.value || nope > MOST ||
         im->latent.rot > MOST || im->latent.rank > MOST || im->latent.value > MOST))
        import_unsupported(im, "its latent attention has sizes that are 0, or above 65536");
    im->head_dim = nope + im->latent.rot;
    if (import_whole(im, "qk_head_dim", (int64_t)im->head_dim) != im->head_dim)
        import_unsupported(im, "\"qk_head_dim\" is not the sum of its parts");
}

static void put_latent(struct import *im)
{
    tft_gguf_put_u32(im->gguf, import_key(im, "attention.kv_lora_rank"),
                     (uint32_t)im->latent.rank);
    if (im->latent.q_rank)
        tft_gguf_put_u32(im->gguf, import_key(im, "attention.q_lora_rank"),
                         (uint32_t)im->latent.q_rank);
}

void import_leading_by_type(struct import *im)
{
    const json_t *types = import_find(im, "mlp_layer_types");
    if (!types)
        return;
    im->n_leading = 0;
    for (size_t l = 0; l < im->n_layer; l++) {
        const char *type = json_string_value(json_array_get(types, l));
        bool dense = type && strcmp(type, "dense") == 0;
        if (dense && im->n_leading == l)
            im->n_leading++;
        else if (dense || !type || strcmp(type, "sparse") != 0)
            import_unsupported(im, "\"mlp_layer_types\" is not dense layers, and then sparse ones");
    }
    if (im->n_leading >= im->n_layer)
        import_unsupported(im, "none of its layers has experts");
}

/* Youtu-LLM has no experts. */
void import_deepseek2_dimensions(struct import *im)
{
    import_latent_dimensions(im);
    if (!import_find(im, "n_routed_experts|num_local_experts")) {
        im->n_leading = im->n_layer;
        return;
    }
    import_late_dimensions(im);
    import_leading_by_type(im);
}

/* YaRN multiplies scores where mscale_all_dim says so, and then nothing else. */
static void put_yarn_scores(struct import *im)
{
    const json_t *rope = import_rope(im);
    double all = import_member(im, rope, "mscale_all_dim", 0),
           own = import_member(im, rope, "mscale", all != 0 ? all : 1);
    if (strcmp(import_rope_type(im), "yarn") != 0)
        return;
    if (own != (all != 0 ? all : 1))
        import_unsupported(im, "YaRN with an \"mscale\" that is not \"mscale_all_dim\" is not "
                               "supported");
    if (all != 0)
        tft_gguf_put_f32(im->gguf, import_key(im, "rope.scaling.yarn_log_multiplier"),
                         (float)(0.1 * all));
}

void import_deepseek2_values(struct import *im)
{
    const char *how = json_string_value(import_find(im, "scoring_func")),
               *method = json_string_value(import_find(im, "topk_method"));
    bool sigmoid = how && strcmp(how, "sigmoid") == 0;
    put_latent(im);
    put_yarn_scores(im);
    if (!import_flag(im, "rope_interleave", true))
        import_unsupported(im, "RoPE of deepseek2 must pair neighbours");
    if (!im->n_expert)
        return;
    if (how && !sigmoid && strcmp(how, "softmax") != 0)
        import_unsupported(im, "weights of experts must be a softmax or sigmoids");
    if (method && strcmp(method, "group_limited_greedy") == 0 && import_whole(im, "n_group", 1) > 1)
        import_unsupported(im, "groups of experts by their largest weight are not supported");
    import_late_values(im, sigmoid ? 2 : 1);
    tft_gguf_put_bool(im->gguf, import_key(im, "expert_weights_norm"),
                      import_flag(im, "norm_topk_prob", sigmoid));
}

/* The formula has these factors. */
void import_minicpm3_values(struct import *im)
{
    if (import_real(im, "scale_emb", 12) != 12 || import_real(im, "scale_depth", 1.4) != 1.4 ||
        import_real(im, "dim_model_base", 256) != 256)
        import_unsupported(im, "minicpm3 must have a scale_emb of 12, a scale_depth of 1.4 and a "
                        "dim_model_base of 256");
    put_latent(im);
}

/* A number, or the one number of a list with one for each layer. */
static uint64_t of_list(struct import *im, const char *names, int64_t def)
{
    const json_t *list = import_find(im, names);
    uint64_t first = 0, n = 0;
    if (!json_is_array(list))
        return import_whole(im, names, def);
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (!import_json_whole(json_array_get(list, i), INT32_MAX, &n) || (i && n != first))
            import_unsupported(im, "numbers of experts that differ by layer are not supported");
        first = n;
    }
    return first;
}

void import_hunyuan_moe_dimensions(struct import *im)
{
    import_hunyuan_dimensions(im);
    im->n_expert = of_list(im, "num_experts", IMPORT_NEEDED);
    im->n_ff_expert = of_list(im, "moe_intermediate_size", (int64_t)im->n_ff);
    put_shared(im, of_list(im, "num_shared_expert", 1));
    if (!import_flag(im, "use_mixed_mlp_moe", true))
        im->n_ff_shared = 0;
}

void import_hunyuan_moe_values(struct import *im)
{
    import_hunyuan_values(im);
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_count"), (uint32_t)im->n_expert);
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_used_count"),
                     (uint32_t)of_list(im, "moe_topk", IMPORT_NEEDED));
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_feed_forward_length"),
                     (uint32_t)im->n_ff_expert);
    if (im->n_ff_shared)
        tft_gguf_put_u32(im->gguf, import_key(im, "expert_shared_feed_forward_length"),
                         (uint32_t)im->n_ff_shared);
}

/* attention.rope_pattern: layers with a base of 0 have no RoPE. */
void import_granite_swa_values(struct import *im)
{
    const json_t *list = import_find(im, "layer_rope_theta");
    bool *rotates = calloc((size_t)im->n_layer, sizeof *rotates);
    if (!rotates)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    if (im->n_expert)
        import_expert_values(im);
    if (!import_find(im, "layer_types"))
        import_unsupported(im, "granite_swa without \"layer_types\" is not supported");
    import_window_values(im);
    for (size_t l = 0; l < im->n_layer && rotates; l++)
        rotates[l] = !list || json_number_value(json_array_get(list, l)) != 0;
    if (rotates)
        tft_gguf_put_array(im->gguf, import_key(im, "attention.rope_pattern"), TFT_VALUE_BOOL,
                           rotates, (size_t)im->n_layer);
    free(rotates);
}

void import_gpt_oss_values(struct import *im)
{
    import_expert_values(im);
    import_put_window(im);
    if (window_period(im, 2) != 2)
        import_unsupported(im, "gpt-oss must have windows in every other layer");
    if (import_real(im, "swiglu_limit", 7) != 7)
        import_unsupported(im, "gpt-oss with a \"swiglu_limit\" other than 7 is not supported");
}

void import_mellum_values(struct import *im)
{
    import_expert_values(im);
    if (import_flag(im, "use_sliding_window", true))
        import_window_values(im);
}

void import_smallthinker_dimensions(struct import *im)
{
    im->n_expert = import_whole(im, "moe_num_primary_experts", IMPORT_NEEDED);
    im->n_ff_expert = import_whole(im, "moe_ffn_hidden_size", IMPORT_NEEDED);
}

/* Whether a list of 0 and 1 is 0 in every fourth layer from the first on, and 1 in the others; all
   1, if there are no windows. */
static bool is_smallthinker_layout(const struct import *im, const json_t *list, bool windows)
{
    for (size_t l = 0; l < im->n_layer && list; l++)
        if ((json_number_value(json_array_get(list, l)) != 0) != (!windows || l % 4 != 0))
            return false;
    return true;
}

void import_smallthinker_values(struct import *im)
{
    const json_t *windows = import_find(im, "sliding_window_layout"),
                 *rope = import_find(im, "rope_layout");
    uint64_t size = import_whole(im, "sliding_window_size|sliding_window", 0);
    bool some = false;
    for (size_t l = 0; l < json_array_size(windows); l++)
        some |= json_number_value(json_array_get(windows, l)) != 0;
    import_expert_values(im);
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_gating_func"),
                     import_flag(im, "moe_primary_router_apply_softmax", false) ? 1 : 2);
    if ((some && (!size || !is_smallthinker_layout(im, windows, true))) ||
        !is_smallthinker_layout(im, rope, some))
        import_unsupported(im, "smallthinker must have windows and RoPE in three layers of four, "
                               "or no windows");
    else if (some)
        tft_gguf_put_u32(im->gguf, import_key(im, "attention.sliding_window"), (uint32_t)size);
}

/* Writes hidden_activation if it is not SiLU, the readers' default. */
void import_bitnet_values(struct import *im)
{
    const char *act = json_string_value(import_find(im, "hidden_act")), relu2[] = "relu2";
    if (act && strcmp(act, relu2) == 0)
        tft_gguf_put_str(im->gguf, import_key(im, "hidden_activation"),
                         (struct tft_str){relu2, strlen(relu2)});
}
