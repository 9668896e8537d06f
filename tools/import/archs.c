#include "archs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "rope.h"

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

/* -------------------------------------------------------------------------- numbers and windows */

static void unsupported(struct import *im, const char *what)
{
    import_fail(im, TFT_ERR_UNSUPPORTED, "%s/config.json: %s", im->folder.path, what);
}

/* Whether layer l has a window: layer_types, or a pattern such as "LLLG", or a period. */
static bool has_window(const struct import *im, uint64_t l, uint64_t period)
{
    const char *type = json_string_value(json_array_get(import_find(im, "layer_types"), l)),
               *pattern = json_string_value(import_find(im, "sliding_window_pattern"));
    if (type)
        return strcmp(type, "sliding_attention") == 0;
    if (pattern && *pattern)
        return pattern[l % strlen(pattern)] == 'L';
    return l % period < period - 1;
}

/* The period of windows in layers: all of each period but the last layer have one. 0: they have no
   period. */
static uint64_t window_period(struct import *im, uint64_t usual)
{
    const json_t *given = import_find(im, "sliding_window_pattern");
    uint64_t period = 1, from_config = usual;
    if (json_is_real(given) && (!import_json_whole(given, INT32_MAX, &from_config) || !from_config))
        unsupported(im, "\"sliding_window_pattern\" is not a period");
    if (im->status != TFT_OK)
        return usual;
    while (period < im->n_layer && has_window(im, period - 1, from_config))
        period++;
    if (period == im->n_layer && has_window(im, period - 1, from_config))
        period = from_config;
    for (uint64_t l = 0; l < im->n_layer; l++)
        if (has_window(im, l, from_config) != (l % period < period - 1))
            return 0;
    return period;
}

static void put_window(struct import *im)
{
    tft_gguf_put_u32(im->gguf, import_key(im, "attention.sliding_window"),
                     (uint32_t)import_whole(im, "sliding_window", IMPORT_NEEDED));
}

/* A bool for each layer, as olmo2 and exaone4 have them. */
static void some_windows(struct import *im)
{
    if (!import_find(im, "sliding_window"))
        return;
    uint64_t period = window_period(im, 4);
    bool *has = calloc((size_t)im->n_layer, sizeof *has);
    if (!has)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    else
        put_window(im);
    for (uint64_t l = 0; l < im->n_layer && has; l++)
        has[l] = has_window(im, l, period ? period : 4);
    if (has)
        tft_gguf_put_array(im->gguf, import_key(im, "attention.sliding_window_pattern"),
                           TFT_VALUE_BOOL, has, (size_t)im->n_layer);
    free(has);
}

/* Scores are divided by sqrt(query_pre_attn_scalar), which is E, or D / H in the largest models. */
static void check_gemma_scale(struct import *im, uint64_t wide_layers)
{
    uint64_t want = im->n_layer == wide_layers ? im->n_embd / im->n_head : im->head_dim,
             have = import_whole(im, "query_pre_attn_scalar", (int64_t)want);
    if (have != want)
        unsupported(im, "this \"query_pre_attn_scalar\" is not supported");
}

static void gemma2_values(struct import *im)
{
    check_gemma_scale(im, 46);
    put_window(im);
    if (window_period(im, 2) != 2)
        unsupported(im, "gemma2 must have windows in every other layer");
}

static void gemma3_values(struct import *im)
{
    uint64_t period = window_period(im, 6);
    check_gemma_scale(im, 62);
    if (period == 1)
        return;
    put_window(im);
    if (!period)
        unsupported(im, "the windows of its layers have no period");
    else if (period != 6)
        tft_gguf_put_u32(im->gguf, import_key(im, "attention.sliding_window_pattern"),
                         (uint32_t)period);
}

static void phi3_values(struct import *im)
{
    if (strcmp(import_rope_type(im), "default") == 0)
        tft_gguf_put_u32(im->gguf, import_key(im, "rope.scaling.original_context_length"),
                         (uint32_t)import_whole(im, "original_max_position_embeddings",
                                                (int64_t)im->n_ctx));
    tft_gguf_put_u32(im->gguf, import_key(im, "attention.sliding_window"),
                     (uint32_t)import_whole(im, "sliding_window", 0));
}

static void minicpm_values(struct import *im)
{
    double depth = import_real(im, "scale_depth", IMPORT_NEEDED),
           base = import_real(im, "dim_model_base", IMPORT_NEEDED);
    tft_gguf_put_f32(im->gguf, import_key(im, "residual_scale"),
                     (float)(depth / sqrt((double)im->n_layer)));
    tft_gguf_put_f32(im->gguf, import_key(im, "logit_scale"), (float)((double)im->n_embd / base));
}

static void mistral3_values(struct import *im)
{
    const json_t *rope = import_rope(im);
    tft_gguf_put_f32(im->gguf, import_key(im, "rope.scaling.yarn_log_multiplier"),
                     (float)import_member(im, rope, "mscale_all_dim", 0));
    tft_gguf_put_f32(im->gguf, import_key(im, "attention.temperature_scale"),
                     (float)import_member(im, rope, "llama_4_scaling_beta", 0));
}

/* The formula leaves every fourth layer without RoPE. */
static void smollm3_values(struct import *im)
{
    const json_t *rope = import_find(im, "no_rope_layers");
    for (size_t l = 0; l < json_array_size(rope); l++)
        if ((json_number_value(json_array_get(rope, l)) != 0) != ((l + 1) % 4 != 0))
            unsupported(im, "smollm3 must have RoPE in three layers of four");
}

/* The context that its base was scaled for is nowhere in config.json. */
static void hunyuan_dimensions(struct import *im)
{
    if (strcmp(import_rope_type(im), "dynamic") == 0)
        im->n_ctx = 262144;
}

static void hunyuan_values(struct import *im)
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

static void parallel(struct import *im)
{
    tft_gguf_put_bool(im->gguf, import_key(im, "use_parallel_residual"),
                      import_flag(im, "use_parallel_residual", im->arch->parallel));
}

/* 40B names its KV heads; 7B has one, or else there are as many as heads. */
static void falcon_dimensions(struct import *im)
{
    if (import_flag(im, "alibi", false) || !import_flag(im, "parallel_attn", true))
        unsupported(im, "falcon with ALiBi, or with its halves one after the other, is not "
                        "supported");
    im->n_head_kv =
        import_flag(im, "new_decoder_architecture", false)
            ? import_whole(im, "num_kv_heads|n_head_kv", (int64_t)im->n_head)
            : (import_flag(im, "multi_query", true) ? 1 : im->n_head);
    if (!im->n_head_kv || im->n_head % im->n_head_kv)
        unsupported(im, "the number of heads is not a multiple of that of KV heads");
}

/* Whether layer l has attention: layer_types, or before it full_attn_idxs. */
static bool lfm2_attends(const struct import *im, size_t l)
{
    const char *type = json_string_value(json_array_get(import_find(im, "layer_types"), l));
    const json_t *list = import_find(im, "full_attn_idxs");
    bool listed = false;
    for (size_t i = 0; i < json_array_size(list); i++)
        listed |= json_number_value(json_array_get(list, i)) == (double)l;
    return type ? strcmp(type, "full_attention") == 0 : listed;
}

static void lfm2_dimensions(struct import *im)
{
    im->n_taps = import_whole(im, "conv_L_cache", IMPORT_NEEDED);
    if (import_flag(im, "block_auto_adjust_ff_dim", false)) {
        double n = (double)(2 * im->n_ff / 3) * import_real(im, "block_ffn_dim_multiplier", 1);
        uint64_t of = import_whole(im, "block_multiple_of", 1);
        of = of ? of : 1;
        im->n_ff = ((uint64_t)n + of - 1) / of * of;
    }
    im->kv_heads = calloc((size_t)im->n_layer, sizeof *im->kv_heads);
    if (!im->kv_heads)
        import_fail(im, TFT_ERR_NOMEM, "%s: out of memory", im->folder.path);
    for (size_t l = 0; l < im->n_layer && im->kv_heads; l++)
        im->kv_heads[l] = lfm2_attends(im, l) ? (uint32_t)im->n_head_kv : 0;
}

static void lfm2_values(struct import *im)
{
    tft_gguf_put_u32(im->gguf, import_key(im, "shortconv.l_cache"), (uint32_t)im->n_taps);
}

/* Experts in all layers, whose weights are renormalised or not as the formula has it. */
static void expert_dimensions(struct import *im, bool renorm, bool def)
{
    im->n_expert = import_whole(im, "num_experts", IMPORT_NEEDED);
    im->n_ff_expert = import_whole(im, "moe_intermediate_size", (int64_t)im->n_ff);
    if (import_flag(im, "norm_topk_prob", def) != renorm)
        unsupported(im, "this \"norm_topk_prob\" is not supported");
    if (import_whole(im, "decoder_sparse_step", 1) != 1 ||
        json_array_size(import_find(im, "mlp_only_layers")))
        unsupported(im, "layers without experts are not supported");
}

static void qwen3moe_dimensions(struct import *im)
{
    expert_dimensions(im, true, false);
}

static void olmoe_dimensions(struct import *im)
{
    expert_dimensions(im, false, false);
}

static void expert_values(struct import *im)
{
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_count"), (uint32_t)im->n_expert);
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_used_count"),
                     (uint32_t)import_whole(im, "num_experts_per_tok", IMPORT_NEEDED));
    tft_gguf_put_u32(im->gguf, import_key(im, "expert_feed_forward_length"),
                     (uint32_t)im->n_ff_expert);
}

static const struct import_number granite_numbers[] = {
    {"embedding_scale", "embedding_multiplier", 1},
    {"residual_scale", "residual_multiplier", 1},
    {"logit_scale", "logits_scaling", 1},
    {"attention.scale", "attention_multiplier", IMPORT_OPTIONAL},
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
     .values = mistral3_values,
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
     .values = gemma2_values,
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
     .values = gemma3_values,
     .tensors = {outside, four_norms, attention, head_norms, ffn}},
    {.classes = " Phi3ForCausalLM ",
     .name = "phi3",
     .activations = SILU,
     .values = phi3_values,
     .tensors = {outside, pre_norms, phi3_fused}},
    {.classes = " SmolLM3ForCausalLM ",
     .name = "smollm3",
     .activations = SILU,
     .permuted = true,
     .tied = true,
     .values = smollm3_values,
     .tensors = {outside, pre_norms, attention, ffn}},
    {.classes = " Olmo2ForCausalLM Olmo3ForCausalLM ",
     .name = "olmo2",
     .activations = SILU,
     .values = some_windows,
     .tensors = {outside, attention, whole_norms, post_norms, ffn}},
    {.classes = " Exaone4ForCausalLM ",
     .name = "exaone4",
     .activations = SILU,
     .values = some_windows,
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
     .values = minicpm_values,
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
     .dimensions = hunyuan_dimensions,
     .values = hunyuan_values,
     .tensors = {outside, pre_norms, attention, head_norms, ffn}},
    {.classes = " StableLmForCausalLM StableLMEpochForCausalLM ",
     .name = "stablelm",
     .activations = SILU,
     .defaults = "{\"partial_rotary_factor\":0.25}",
     .layer_norm = true,
     .values = parallel,
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
     .values = parallel,
     .tensors = {gptneox_all}},
    {.classes = " FalconForCausalLM RWForCausalLM ",
     .name = "falcon",
     .activations = GELU,
     .defaults = "{\"max_position_embeddings\":2048}",
     .layer_norm = true,
     .ff_is_4d = true,
     .tied = true,
     .dimensions = falcon_dimensions,
     .tensors = {falcon_all}},
    {.classes = " Lfm2ForCausalLM LFM2ForCausalLM ",
     .name = "lfm2",
     .activations = SILU,
     .tied = true,
     .dimensions = lfm2_dimensions,
     .values = lfm2_values,
     .tensors = {lfm2_all}},
    {.classes = " Qwen3MoeForCausalLM ",
     .name = "qwen3moe",
     .activations = SILU,
     .dimensions = qwen3moe_dimensions,
     .values = expert_values,
     .tensors = {outside, pre_norms, attention, head_norms, experts}},
    {.classes = " OlmoeForCausalLM ",
     .name = "olmoe",
     .activations = SILU,
     .dimensions = olmoe_dimensions,
     .values = expert_values,
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
