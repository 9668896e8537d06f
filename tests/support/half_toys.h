/* Toys of which a layer is one half of a block, and others that quantize does not support. */
#ifndef TFT_TEST_HALF_TOYS_H
#define TFT_TEST_HALF_TOYS_H

#include "toy.h"

static const uint32_t half_heads[] = {0, 0, 2, 0, 0}, half_widths[] = {0, 72, 0, 0, 72},
                      half_experts[] = {40, 0, 0, 40, 0}, half_heads_last[] = {0, 2, 0, 0, 2};

static const struct toy half_toys[] = {
    {.arch = "mamba2",
     .n_vocab = 37,
     .n_ctx = 640,
     .n_embd = 40,
     .n_layer = 3,
     .type = TFT_F32,
     .tied = true},
    {.arch = "nemotron_h", /* a feed-forward comes last */
     .n_vocab = 41,
     .n_ctx = 640,
     .n_embd = 48,
     .n_layer = 5,
     .n_head = 4,
     .n_head_kv = 2,
     .kv_heads = half_heads,
     .ffs = half_widths,
     .head_dim = 12,
     .n_ff = 72,
     .type = TFT_F32},
    {.arch = "nemotron_h", /* attention comes last */
     .n_vocab = 32,
     .n_ctx = 640,
     .n_embd = 32,
     .n_layer = 5,
     .n_head = 2,
     .n_head_kv = 2,
     .kv_heads = half_heads_last,
     .ffs = half_experts,
     .head_dim = 16,
     .n_ff = 40,
     .type = TFT_F32},
    {.arch = "nemotron_h_moe",
     .n_vocab = 35,
     .n_ctx = 640,
     .n_embd = 48,
     .n_layer = 5,
     .n_head = 4,
     .n_head_kv = 2,
     .kv_heads = half_heads,
     .ffs = half_widths,
     .head_dim = 12,
     .n_ff = 72,
     .type = TFT_F32},
    {.arch = "nemotron_h_moe", /* attention comes last, after the shared experts */
     .n_vocab = 33,
     .n_ctx = 640,
     .n_embd = 32,
     .n_layer = 5,
     .n_head = 2,
     .n_head_kv = 2,
     .kv_heads = half_heads_last,
     .ffs = half_experts,
     .head_dim = 16,
     .n_ff = 40,
     .type = TFT_F16},
};

static const struct toy_number latent_numbers[] = {
    {"ssm.group_count", TOY_U32, 1},
    {"ssm.time_step_rank", TOY_U32, 3},
    {"ssm.state_size", TOY_U32, 24},
    {"ssm.inner_size", TOY_U32, 96},
    {"ssm.conv_kernel", TOY_U32, 4},
    {"expert_count", TOY_U32, 5},
    {"expert_used_count", TOY_U32, 2},
    {"expert_feed_forward_length", TOY_U32, 32},
    {"expert_shared_feed_forward_length", TOY_U32, 96},
    {"expert_gating_func", TOY_U32, 2},
    {"expert_weights_scale", TOY_F32, 2.5},
    {"moe_latent_size", TOY_U32, 32},
    {0}};

/* Experts of a width of their own. */
static const struct toy latent_toy = {.arch = "nemotron_h_moe",
                                      .n_vocab = 37,
                                      .n_ctx = 640,
                                      .n_embd = 64,
                                      .n_layer = 5,
                                      .n_head = 4,
                                      .n_head_kv = 2,
                                      .kv_heads = half_heads,
                                      .ffs = half_widths,
                                      .head_dim = 16,
                                      .n_ff = 72,
                                      .type = TFT_F32,
                                      .numbers = latent_numbers};

static const uint32_t every_second[] = {0, 2, 0, 2};
static const struct toy_number hybrid_numbers[] = {
    {"embedding_scale", TOY_F32, 3},
    {"residual_scale", TOY_F32, 0.4},
    {"logit_scale", TOY_F32, 1.7},
    {"attention.scale", TOY_F32, 0.21},
    {"ssm.group_count", TOY_U32, 1},
    {"ssm.time_step_rank", TOY_U32, 3},
    {"ssm.state_size", TOY_U32, 20},
    {"ssm.inner_size", TOY_U32, 96},
    {"ssm.conv_kernel", TOY_U32, 4},
    {"expert_count", TOY_U32, 5},
    {"expert_used_count", TOY_U32, 2},
    {"expert_feed_forward_length", TOY_U32, 48},
    {"expert_shared_feed_forward_length", TOY_U32, 64},
    {0}};

/* Mamba-2 and experts in one model: Granite 4 H Tiny. */
static const struct toy hybrid_toy = {.arch = "granitehybrid",
                                      .n_vocab = 36,
                                      .n_ctx = 640,
                                      .n_embd = 48,
                                      .n_layer = 4,
                                      .n_head = 4,
                                      .n_head_kv = 2,
                                      .kv_heads = every_second,
                                      .head_dim = 12,
                                      .n_ff = 48,
                                      .n_rot = 12,
                                      .type = TFT_F32,
                                      .tied = true,
                                      .numbers = hybrid_numbers};

static const struct toy_number bare_rounds[] = {
    {"num_loops", TOY_U32, 2}, {"skip_loop_final_norm", TOY_BOOL, 1}, {0}};

/* Layers that run several times, with a norm between the rounds, or without one. */
#define ROUNDS                                                                                     \
    .arch = "nanbeige", .n_vocab = 38, .n_ctx = 640, .n_embd = 64, .n_layer = 2, .n_head = 4,      \
    .n_head_kv = 2, .head_dim = 16, .n_ff = 96, .n_rot = 16, .type = TFT_F32
static const struct toy round_toys[] = {{ROUNDS}, {ROUNDS, .numbers = bare_rounds}};
enum { N_ROUND = sizeof round_toys / sizeof *round_toys };
#undef ROUNDS

enum { N_HALF = sizeof half_toys / sizeof *half_toys };

#endif
