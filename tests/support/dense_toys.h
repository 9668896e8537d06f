/* A toy for each architecture of attention and a feed-forward, or experts, that came after those of
   more_toys.h and expert_toys.h. */
#ifndef TFT_TEST_DENSE_TOYS_H
#define TFT_TEST_DENSE_TOYS_H

#include "toy.h"

/* Widths that codes of GGUF files and panels of experts fit as they are. */
#define DENSE(name, layers)                                                                        \
    .arch = name, .n_layer = layers, .n_vocab = 45, .n_ctx = 1200, .n_embd = 64, .n_head = 4,      \
    .n_head_kv = 2, .head_dim = 16, .n_ff = 96, .n_rot = 16, .type = TFT_F32

static const bool granite_windows[] = {false, true, true};

static const struct toy_number nine_experts[] = {{"embedding_scale", TOY_F32, 3},
                                                 {"residual_scale", TOY_F32, 0.4},
                                                 {"attention.sliding_window", TOY_U32, 30},
                                                 {"expert_count", TOY_U32, 9},
                                                 {"expert_used_count", TOY_U32, 4},
                                                 {"expert_feed_forward_length", TOY_U32, 32},
                                                 {"expert_shared_feed_forward_length", TOY_U32, 64},
                                                 {0}};

/* smallthinker without windows: all layers rotate; weights are a softmax. */
static const struct toy_number no_windows[] = {{"expert_count", TOY_U32, 5},
                                               {"expert_used_count", TOY_U32, 2},
                                               {"expert_feed_forward_length", TOY_U32, 32},
                                               {"expert_gating_func", TOY_U32, 1},
                                               {0}};

/* Weights of experts as they are. */
static const struct toy_number not_renormalised[] = {{"expert_count", TOY_U32, 6},
                                                     {"expert_used_count", TOY_U32, 2},
                                                     {"expert_feed_forward_length", TOY_U32, 32},
                                                     {"expert_shared_count", TOY_U32, 1},
                                                     {"expert_gating_func", TOY_U32, 2},
                                                     {"expert_weights_norm", TOY_BOOL, 0},
                                                     {"leading_dense_block_count", TOY_U32, 1},
                                                     {0}};

/* A window in all layers. */
static const struct toy_number one_window[] = {{"attention.sliding_window", TOY_U32, 30}, {0}};

static const struct toy dense_toys[] = {
    {DENSE("llama", 2), .numbers = one_window},
    {DENSE("qwen2", 2), .tied = true, .numbers = one_window},
    {DENSE("starcoder2", 2), .tied = true, .numbers = one_window},
    {DENSE("qwen2vl", 2), .tied = true},
    {DENSE("qwen3vl", 2)},
    {DENSE("seed_oss", 2)},
    {DENSE("exaone", 2), .llama3_scaling = true, .tied = true},
    {DENSE("internlm2", 2)},
    {.arch = "glm4",
     .n_vocab = 37,
     .n_ctx = 1200,
     .n_embd = 40,
     .n_layer = 2,
     .n_head = 3,
     .n_head_kv = 1,
     .head_dim = 20,
     .n_ff = 72,
     .n_rot = 10,
     .type = TFT_F32},
    {DENSE("maincoder", 2), .tied = true},
    {DENSE("cohere2", 4), .tied = true},
    {DENSE("command-r", 2), .tied = true},
    {.arch = "arcee",
     .n_vocab = 41,
     .n_ctx = 1200,
     .n_embd = 36,
     .n_layer = 2,
     .n_head = 3,
     .n_head_kv = 3,
     .head_dim = 12,
     .n_ff = 136,
     .n_rot = 12,
     .type = TFT_F32,
     .yarn = 20},
    {.arch = "nemotron",
     .n_vocab = 33,
     .n_ctx = 1200,
     .n_embd = 44,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 104,
     .n_rot = 6,
     .type = TFT_F32},
    {.arch = "phi2",
     .n_vocab = 47,
     .n_ctx = 1200,
     .n_embd = 40,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_ff = 88,
     .n_rot = 8,
     .type = TFT_F32},
    {DENSE("olmo", 2), .tied = true},
    {.arch = "apertus",
     .n_vocab = 35,
     .n_ctx = 1200,
     .n_embd = 36,
     .n_layer = 3,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 136,
     .n_rot = 12,
     .type = TFT_F32,
     .llama3_scaling = true},
    {DENSE("plamo3", 2)},
    {DENSE("granite_swa", 3), .tied = true, .windows = granite_windows},
    {DENSE("granite_swa", 3), .tied = true, .windows = granite_windows, .fused_experts = true,
     .numbers = nine_experts},
    {DENSE("gpt-oss", 2), .yarn = 8},
    {DENSE("hunyuan-moe", 2), .tied = true},
    {DENSE("ernie4_5-moe", 3), .tied = true},
    {DENSE("dots1", 2)},
    {DENSE("dots1", 2), .numbers = not_renormalised},
    {.arch = "bailingmoe2",
     .n_vocab = 45,
     .n_ctx = 1200,
     .n_embd = 64,
     .n_layer = 2,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_ff = 96,
     .n_rot = 8,
     .type = TFT_F32},
    {DENSE("mellum", 2), .yarn = 8},
    {DENSE("afmoe", 4)},
    {DENSE("smallthinker", 2)},
    {DENSE("smallthinker", 2), .numbers = no_windows},
    {.arch = "qwen35moe",
     .n_vocab = 40,
     .n_ctx = 1200,
     .n_embd = 64,
     .n_layer = 3,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 32,
     .n_ff = 96,
     .n_rot = 8,
     .type = TFT_F32},
};
enum { N_DENSE = sizeof dense_toys / sizeof *dense_toys };

#undef DENSE

#endif
