/* The values of a toy's file: its architecture, sizes and settings. */
#include "toy_inside.h"

#include <stdio.h>
#include <string.h>

#include "file/file.h"

/* "ARCH.NAME", until the next call. */
static const char *key(const struct toy *t, const char *name)
{
    static char full[96];
    snprintf(full, sizeof full, "%s.%s", t->arch, name);
    return full;
}

static const struct {
    const char *arch;
    struct toy_number number[12]; /* the last one has no key */
} usual[] = {
    {"granite",
     {{"embedding_scale", TOY_F32, 3},
      {"residual_scale", TOY_F32, 0.4},
      {"logit_scale", TOY_F32, 1.7},
      {"attention.scale", TOY_F32, 0.21}}},
    {"minicpm",
     {{"embedding_scale", TOY_F32, 3},
      {"residual_scale", TOY_F32, 0.4},
      {"logit_scale", TOY_F32, 1.7},
      {"rope.scaling.original_context_length", TOY_U32, 20}}},
    {"gemma2",
     {{"attention.sliding_window", TOY_U32, 30},
      {"attn_logit_softcapping", TOY_F32, 4},
      {"final_logit_softcapping", TOY_F32, 5}}},
    {"gemma3",
     {{"attention.sliding_window", TOY_U32, 100},
      {"attention.sliding_window_pattern", TOY_U32, 3},
      {"rope.freq_base_swa", TOY_F32, 500}}},
    {"gemma4",
     {{"attention.sliding_window", TOY_U32, 30},
      {"attention.key_length_swa", TOY_U32, 12},
      {"attention.value_length_swa", TOY_U32, 12},
      {"rope.dimension_count_swa", TOY_U32, 12},
      {"rope.freq_base_swa", TOY_F32, 500},
      {"attention.shared_kv_layers", TOY_U32, 3},
      {"embedding_length_per_layer_input", TOY_U32, 20},
      {"final_logit_softcapping", TOY_F32, 5}}},
    {"qwen35",
     {{"ssm.group_count", TOY_U32, 2},
      {"ssm.time_step_rank", TOY_U32, 4},
      {"ssm.state_size", TOY_U32, 32},
      {"ssm.inner_size", TOY_U32, 128},
      {"ssm.conv_kernel", TOY_U32, 4},
      {"full_attention_interval", TOY_U32, 4}}},
    {"lfm2", {{"shortconv.l_cache", TOY_U32, 3}}},
    {"mamba2",
     {{"ssm.group_count", TOY_U32, 2},
      {"ssm.time_step_rank", TOY_U32, 4},
      {"ssm.state_size", TOY_U32, 17},
      {"ssm.inner_size", TOY_U32, 64},
      {"ssm.conv_kernel", TOY_U32, 4}}},
    {"nemotron_h",
     {{"ssm.group_count", TOY_U32, 2},
      {"ssm.time_step_rank", TOY_U32, 4},
      {"ssm.state_size", TOY_U32, 24},
      {"ssm.inner_size", TOY_U32, 128},
      {"ssm.conv_kernel", TOY_U32, 4}}},
    {"nemotron_h_moe",
     {{"ssm.group_count", TOY_U32, 1},
      {"ssm.time_step_rank", TOY_U32, 3},
      {"ssm.state_size", TOY_U32, 24},
      {"ssm.inner_size", TOY_U32, 48},
      {"ssm.conv_kernel", TOY_U32, 4},
      {"expert_count", TOY_U32, 5},
      {"expert_used_count", TOY_U32, 2},
      {"expert_feed_forward_length", TOY_U32, 48},
      {"expert_shared_feed_forward_length", TOY_U32, 56},
      {"expert_gating_func", TOY_U32, 2},
      {"expert_weights_scale", TOY_F32, 2.5}}},
    {"falcon-h1",
     {{"ssm.group_count", TOY_U32, 2},
      {"ssm.time_step_rank", TOY_U32, 4},
      {"ssm.state_size", TOY_U32, 24},
      {"ssm.inner_size", TOY_U32, 64},
      {"ssm.conv_kernel", TOY_U32, 4}}},
    {"granitehybrid",
     {{"embedding_scale", TOY_F32, 3},
      {"residual_scale", TOY_F32, 0.4},
      {"logit_scale", TOY_F32, 1.7},
      {"attention.scale", TOY_F32, 0.21},
      {"ssm.group_count", TOY_U32, 1},
      {"ssm.time_step_rank", TOY_U32, 3},
      {"ssm.state_size", TOY_U32, 20},
      {"ssm.inner_size", TOY_U32, 96},
      {"ssm.conv_kernel", TOY_U32, 4}}},
    {"lfm2moe",
     {{"shortconv.l_cache", TOY_U32, 3},
      {"expert_count", TOY_U32, 5},
      {"expert_used_count", TOY_U32, 2},
      {"expert_feed_forward_length", TOY_U32, 40},
      {"leading_dense_block_count", TOY_U32, 1},
      {"expert_gating_func", TOY_U32, 2}}},
    {"qwen3moe",
     {{"expert_count", TOY_U32, 6},
      {"expert_used_count", TOY_U32, 3},
      {"expert_feed_forward_length", TOY_U32, 24}}},
    {"olmoe", {{"expert_count", TOY_U32, 19}, {"expert_used_count", TOY_U32, 4}}},
    {"qwen2moe",
     {{"expert_count", TOY_U32, 6},
      {"expert_used_count", TOY_U32, 2},
      {"expert_feed_forward_length", TOY_U32, 32},
      {"expert_shared_feed_forward_length", TOY_U32, 56}}},
    {"granitemoe",
     {{"embedding_scale", TOY_F32, 3},
      {"residual_scale", TOY_F32, 0.4},
      {"logit_scale", TOY_F32, 1.7},
      {"attention.scale", TOY_F32, 0.21},
      {"expert_count", TOY_U32, 5},
      {"expert_used_count", TOY_U32, 2},
      {"expert_shared_feed_forward_length", TOY_U32, 64}}},
    {"mistral3",
     {{"rope.scaling.yarn_beta_fast", TOY_F32, 2},
      {"rope.scaling.yarn_beta_slow", TOY_F32, 0.5},
      {"rope.scaling.yarn_log_multiplier", TOY_F32, 0.7},
      {"attention.temperature_scale", TOY_F32, 0.1}}},
    {"cohere2", {{"attention.sliding_window", TOY_U32, 30}, {"logit_scale", TOY_F32, 0.4}}},
    {"command-r", {{"logit_scale", TOY_F32, 0.4}}},
    {"olmo", {{"attention.clamp_kqv", TOY_F32, 1.5}}},
    {"plamo3",
     {{"attention.sliding_window", TOY_U32, 30},
      {"attention.sliding_window_pattern", TOY_U32, 2},
      {"rope.freq_base_swa", TOY_F32, 500}}},
    {"granite_swa",
     {{"embedding_scale", TOY_F32, 3},
      {"residual_scale", TOY_F32, 0.4},
      {"logit_scale", TOY_F32, 1.7},
      {"attention.scale", TOY_F32, 0.21},
      {"attention.sliding_window", TOY_U32, 30}}},
    {"gpt-oss",
     {{"attention.sliding_window", TOY_U32, 30},
      {"expert_count", TOY_U32, 6},
      {"expert_used_count", TOY_U32, 3},
      {"expert_feed_forward_length", TOY_U32, 32}}},
    {"qwen35moe",
     {{"ssm.group_count", TOY_U32, 2},
      {"ssm.time_step_rank", TOY_U32, 4},
      {"ssm.state_size", TOY_U32, 32},
      {"ssm.inner_size", TOY_U32, 128},
      {"ssm.conv_kernel", TOY_U32, 4},
      {"full_attention_interval", TOY_U32, 2},
      {"expert_count", TOY_U32, 5},
      {"expert_used_count", TOY_U32, 2},
      {"expert_feed_forward_length", TOY_U32, 32},
      {"expert_shared_feed_forward_length", TOY_U32, 64}}},
    {"rwkv7",
     {{"wkv.head_size", TOY_U32, 32},
      {"attention.decay_lora_rank", TOY_U32, 12},
      {"attention.iclr_lora_rank", TOY_U32, 9},
      {"attention.value_residual_mix_lora_rank", TOY_U32, 7},
      {"attention.gate_lora_rank", TOY_U32, 20}}},
    {"mimo2",
     {{"attention.value_length", TOY_U32, 8},
      {"attention.value_scale", TOY_F32, 0.7},
      {"attention.sliding_window", TOY_U32, 30},
      {"rope.freq_base_swa", TOY_F32, 500},
      {"expert_count", TOY_U32, 6},
      {"expert_used_count", TOY_U32, 2},
      {"expert_feed_forward_length", TOY_U32, 32},
      {"expert_gating_func", TOY_U32, 2}}},
    {"spark2_5",
     {{"attention.sliding_window", TOY_U32, 30},
      {"rope.freq_base_swa", TOY_F32, 500},
      {"rope.dimension_count_swa", TOY_U32, 12}}},
    {"nanbeige", {{"num_loops", TOY_U32, 3}}},
    {"qwen3next",
     {{"ssm.group_count", TOY_U32, 2},
      {"ssm.time_step_rank", TOY_U32, 4},
      {"ssm.state_size", TOY_U32, 32},
      {"ssm.inner_size", TOY_U32, 128},
      {"ssm.conv_kernel", TOY_U32, 4},
      {"full_attention_interval", TOY_U32, 2},
      {"expert_count", TOY_U32, 5},
      {"expert_used_count", TOY_U32, 2},
      {"expert_feed_forward_length", TOY_U32, 32},
      {"expert_shared_feed_forward_length", TOY_U32, 64}}},
    {"hunyuan-moe",
     {{"expert_count", TOY_U32, 5},
      {"expert_used_count", TOY_U32, 2},
      {"expert_feed_forward_length", TOY_U32, 32},
      {"expert_shared_feed_forward_length", TOY_U32, 64}}},
    {"ernie4_5-moe",
     {{"expert_count", TOY_U32, 6},
      {"expert_used_count", TOY_U32, 3},
      {"expert_feed_forward_length", TOY_U32, 32},
      {"expert_shared_feed_forward_length", TOY_U32, 64},
      {"leading_dense_block_count", TOY_U32, 1}}},
    {"dots1",
     {{"expert_count", TOY_U32, 6},
      {"expert_used_count", TOY_U32, 2},
      {"expert_feed_forward_length", TOY_U32, 32},
      {"expert_shared_count", TOY_U32, 2},
      {"expert_gating_func", TOY_U32, 2},
      {"expert_weights_scale", TOY_F32, 2.5},
      {"expert_weights_norm", TOY_BOOL, 1},
      {"leading_dense_block_count", TOY_U32, 1}}},
    {"afmoe",
     {{"attention.sliding_window", TOY_U32, 30},
      {"expert_count", TOY_U32, 6},
      {"expert_used_count", TOY_U32, 2},
      {"expert_feed_forward_length", TOY_U32, 32},
      {"expert_shared_count", TOY_U32, 1},
      {"expert_gating_func", TOY_U32, 2},
      {"expert_weights_scale", TOY_F32, 2.5},
      {"leading_dense_block_count", TOY_U32, 1}}},
    {"bailingmoe2",
     {{"expert_count", TOY_U32, 12},
      {"expert_used_count", TOY_U32, 3},
      {"expert_feed_forward_length", TOY_U32, 32},
      {"expert_shared_feed_forward_length", TOY_U32, 32},
      {"expert_gating_func", TOY_U32, 2},
      {"expert_group_count", TOY_U32, 4},
      {"expert_group_used_count", TOY_U32, 2},
      {"expert_weights_scale", TOY_F32, 2.5},
      {"leading_dense_block_count", TOY_U32, 1}}},
    {"mellum",
     {{"attention.sliding_window", TOY_U32, 30},
      {"attention.sliding_window_pattern", TOY_U32, 2},
      {"expert_count", TOY_U32, 6},
      {"expert_used_count", TOY_U32, 3},
      {"expert_feed_forward_length", TOY_U32, 32}}},
    {"smallthinker",
     {{"attention.sliding_window", TOY_U32, 30},
      {"expert_count", TOY_U32, 6},
      {"expert_used_count", TOY_U32, 3},
      {"expert_feed_forward_length", TOY_U32, 32},
      {"expert_gating_func", TOY_U32, 2}}},
    {"phi3",
     {{"rope.scaling.original_context_length", TOY_U32, 20},
      {"rope.scaling.attn_factor", TOY_F32, 1.19}}},
};

static const struct toy_number *numbers_of(const struct toy *t)
{
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !t->numbers; i++)
        if (strcmp(usual[i].arch, t->arch) == 0)
            return usual[i].number;
    return t->numbers;
}

/* One of them; `lacks` if the toy does not have it. */
double toy_number_or(const struct toy *t, const char *key, double lacks)
{
    const struct toy_number *n = numbers_of(t);
    while (n && n->key && strcmp(n->key, key))
        n++;
    return n && n->key ? n->x : lacks;
}

double toy_number(const struct toy *t, const char *key)
{
    return toy_number_or(t, key, 0);
}

bool toy_has_experts(const struct toy *t)
{
    return toy_number(t, "expert_count") > 0;
}

/* Arrays of one architecture alone: parameters of apertus' xIELU; which layers of granite_swa
   rotate queries and keys, two of three. */
static void arrays(struct tft_gguf_writer *w, const struct toy *t)
{
    enum { MOST = 8 };
    static const char *const keys[] = {"xielu.alpha_p", "xielu.alpha_n", "xielu.beta", "xielu.eps"};
    static const float first[] = {0.2f, -0.4f, 0.5f, -1e-6f}, step[] = {0.3f, 0.6f, 0.1f, 0};
    bool rotates[MOST];
    for (int i = 0; i < 4 && toy_is_one(t, " apertus "); i++) {
        float x[MOST];
        for (uint32_t l = 0; l < MOST; l++)
            x[l] = first[i] + step[i] * (float)l;
        tft_gguf_put_array(w, keys[i], TFT_VALUE_F32, x, t->n_layer);
    }
    for (uint32_t l = 0; l < MOST; l++)
        rotates[l] = l % 3 != 2;
    float sparsity[MOST] = {1.6448533535003662f, 1.6448533535003662f};
    if (toy_is_one(t, " gemma3n "))
        tft_gguf_put_array(w, key(t, "activation_sparsity_scale"), TFT_VALUE_F32, sparsity,
                           t->n_layer);
    if (toy_is_one(t, " granite_swa "))
        tft_gguf_put_array(w, key(t, "attention.rope_pattern"), TFT_VALUE_BOOL, rotates,
                           t->n_layer);
}

static void numbers(struct tft_gguf_writer *w, const struct toy *t)
{
    for (const struct toy_number *n = numbers_of(t); n && n->key; n++)
        if (n->type == TOY_F32)
            tft_gguf_put_f32(w, key(t, n->key), (float)n->x);
        else if (n->type == TOY_U32)
            tft_gguf_put_u32(w, key(t, n->key), (uint32_t)n->x);
        else
            tft_gguf_put_bool(w, key(t, n->key), n->x != 0);
}

void toy_put_values(struct tft_gguf_writer *w, const struct toy *t)
{
    tft_gguf_put_str(w, "general.architecture", str(t->arch));
    tft_gguf_put_str(w, "general.name", str("toy"));
    tft_gguf_put_u32(w, key(t, "context_length"), t->n_ctx);
    tft_gguf_put_u32(w, key(t, "embedding_length"), t->n_embd);
    tft_gguf_put_u32(w, key(t, "block_count"), t->n_layer);
    if (t->ffs)
        tft_gguf_put_array(w, key(t, "feed_forward_length"), TFT_VALUE_U32, t->ffs, t->n_layer);
    else
        tft_gguf_put_u32(w, key(t, "feed_forward_length"), t->n_ff);
    if (t->windows)
        tft_gguf_put_array(w, key(t, "attention.sliding_window_pattern"), TFT_VALUE_BOOL,
                           t->windows, t->n_layer);
    tft_gguf_put_u32(w, key(t, "attention.head_count"), t->n_head); /* 0: no attention */
    if (t->kv_heads)
        tft_gguf_put_array(w, key(t, "attention.head_count_kv"), TFT_VALUE_U32, t->kv_heads,
                           t->n_layer);
    else if (t->n_head)
        tft_gguf_put_u32(w, key(t, "attention.head_count_kv"), t->n_head_kv);
    if (t->n_head) {
        tft_gguf_put_u32(w, key(t, "attention.key_length"), t->head_dim);
        if (toy_number(t, "attention.key_length_mla") > 0) /* of the cache */
            tft_gguf_put_u32(w, key(t, "attention.value_length"),
                             (uint32_t)toy_number(t, "attention.kv_lora_rank"));
        else if (!(toy_number(t, "attention.kv_lora_rank") > 0) &&
                 !(toy_number(t, "attention.value_length") > 0))
            tft_gguf_put_u32(w, key(t, "attention.value_length"), t->head_dim);
    }
    if (t->vocab)
        toy_put_vocab(w, t->vocab, t->endless, t->fim);
    if (t->vocab && t->adds_eos)
        tft_gguf_put_bool(w, "tokenizer.ggml.add_eos_token", true);
    if (t->vocab && t->n_suppress)
        tft_gguf_put_array(w, "tokenizer.ggml.suppress_tokens", TFT_VALUE_I32, t->suppress,
                           t->n_suppress);
    if (t->relu2)
        tft_gguf_put_str(w, key(t, "hidden_activation"), str("relu2"));
    if (t->chat_template)
        tft_gguf_put_str(w, "tokenizer.chat_template", str(t->chat_template));
    if (t->tool_template)
        tft_gguf_put_str(w, "tokenizer.chat_template.tool_use", str(t->tool_template));
    numbers(w, t);
    arrays(w, t);
    if (toy_has_layer_norm(t))
        tft_gguf_put_f32(w, key(t, "attention.layer_norm_epsilon"), 1e-5f);
    else
        tft_gguf_put_f32(w, key(t, "attention.layer_norm_rms_epsilon"), 1e-6f);
    if (!t->n_rot)
        return;
    tft_gguf_put_u32(w, key(t, "rope.dimension_count"), t->n_rot);
    tft_gguf_put_f32(w, key(t, "rope.freq_base"), 10000);
    if (t->yarn > 0) {
        tft_gguf_put_str(w, key(t, "rope.scaling.type"), str("yarn"));
        tft_gguf_put_f32(w, key(t, "rope.scaling.factor"), t->yarn);
        tft_gguf_put_u32(w, key(t, "rope.scaling.original_context_length"), 40);
    }
    if (t->linear_scaling > 0) {
        tft_gguf_put_str(w, key(t, "rope.scaling.type"), str("linear"));
        tft_gguf_put_f32(w, key(t, "rope.scaling.factor"), t->linear_scaling);
    }
}
