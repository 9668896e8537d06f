/* Toys with latent attention. */
#ifndef TFT_TEST_LATENT_TOYS_H
#define TFT_TEST_LATENT_TOYS_H

#include "toy.h"

/* As V3: queries in two steps, groups of experts, which sigmoids choose with a bias, YaRN that
   multiplies scores. */
static const struct toy_number deepseek_v3[] = {
    {"attention.q_lora_rank", TOY_U32, 32},
    {"attention.kv_lora_rank", TOY_U32, 32},
    {"attention.key_length_mla", TOY_U32, 48},
    {"attention.value_length_mla", TOY_U32, 16},
    {"rope.scaling.yarn_log_multiplier", TOY_F32, 0.07},
    {"expert_count", TOY_U32, 6},
    {"expert_used_count", TOY_U32, 2},
    {"expert_group_count", TOY_U32, 3},
    {"expert_group_used_count", TOY_U32, 2},
    {"expert_feed_forward_length", TOY_U32, 32},
    {"expert_shared_count", TOY_U32, 1},
    {"expert_gating_func", TOY_U32, 2},
    {"expert_weights_scale", TOY_F32, 1.8},
    {"expert_weights_norm", TOY_BOOL, 1},
    {"leading_dense_block_count", TOY_U32, 1},
    {0}};

/* As V2-Lite, in an older file: queries in one step, keys and values of heads in one tensor;
   weights of experts are not renormalised. */
static const struct toy_number deepseek_lite[] = {{"attention.kv_lora_rank", TOY_U32, 32},
                                                  {"expert_count", TOY_U32, 4},
                                                  {"expert_used_count", TOY_U32, 2},
                                                  {"expert_feed_forward_length", TOY_U32, 32},
                                                  {"expert_shared_count", TOY_U32, 2},
                                                  {"expert_gating_func", TOY_U32, 1},
                                                  {"leading_dense_block_count", TOY_U32, 1},
                                                  {0}};

static const struct toy_number minicpm3[] = {
    {"attention.q_lora_rank", TOY_U32, 32},
    {"attention.kv_lora_rank", TOY_U32, 32},
    {"rope.scaling.original_context_length", TOY_U32, 20},
    {0}};

/* More heads than a tile of attention has rows, and widths that need padding. */
static const struct toy_number many_heads[] = {
    {"attention.q_lora_rank", TOY_U32, 20},
    {"attention.kv_lora_rank", TOY_U32, 24},
    {"rope.scaling.original_context_length", TOY_U32, 20},
    {0}};

#define LATENT(name, kv, all, of)                                                                  \
    .arch = name, .n_vocab = 45, .n_ctx = 1200, .n_embd = 64, .n_layer = all, .n_head = 4,         \
    .n_head_kv = kv, .head_dim = 48, .n_ff = 96, .n_rot = 16, .type = TFT_F32, .numbers = of

static const struct toy latent_toys[] = {
    {LATENT("deepseek2", 1, 3, deepseek_v3), .yarn = 8},
    {LATENT("deepseek2", 4, 2, deepseek_lite), .tied = true},
    {LATENT("minicpm3", 4, 2, minicpm3)},
    {.arch = "minicpm3",
     .n_vocab = 37,
     .n_ctx = 1200,
     .n_embd = 80,
     .n_layer = 2,
     .n_head = 40,
     .n_head_kv = 40,
     .head_dim = 12,
     .n_ff = 72,
     .n_rot = 4,
     .type = TFT_F32,
     .tied = true,
     .numbers = many_heads},
};
enum { N_LATENT = sizeof latent_toys / sizeof *latent_toys };

#endif
