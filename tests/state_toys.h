/* Toys of architectures whose layers have a state: channels that do not fill a slice, one that does
   and more, and both kinds of layer at both ends. */
#ifndef TFT_TEST_STATE_TOYS_H
#define TFT_TEST_STATE_TOYS_H

#include "toy.h"

static const uint32_t in_turns[] = {0, 2, 0, 2, 0}, at_ends[] = {1, 0, 0, 1};

static const struct toy_number five_taps[] = {
    {"shortconv.l_cache", TOY_U32, 5}, {"attention.sliding_window", TOY_U32, 30}, {0}};

static const struct toy_number every_other[] = {
    {"ssm.group_count", TOY_U32, 3}, {"ssm.time_step_rank", TOY_U32, 3},
    {"ssm.state_size", TOY_U32, 32}, {"ssm.inner_size", TOY_U32, 96},
    {"ssm.conv_kernel", TOY_U32, 2}, {"full_attention_interval", TOY_U32, 2},
    {"nextn_predict_layers", TOY_U32, 1}, {0}};

static const struct toy state_toys[] = {
    {.arch = "lfm2",
     .n_vocab = 45,
     .n_ctx = 1200,
     .n_embd = 48,
     .n_layer = 5,
     .n_head = 4,
     .n_head_kv = 2,
     .kv_heads = in_turns,
     .head_dim = 12,
     .n_ff = 72,
     .n_rot = 12,
     .type = TFT_F32,
     .tied = true},
    {.arch = "lfm2",
     .n_vocab = 37,
     .n_ctx = 1200,
     .n_embd = 140,
     .n_layer = 4,
     .n_head = 7,
     .n_head_kv = 1,
     .kv_heads = at_ends,
     .head_dim = 20,
     .n_ff = 64,
     .n_rot = 20,
     .type = TFT_F16,
     .tied = true,
     .numbers = five_taps},
    {.arch = "qwen35",
     .n_vocab = 40,
     .n_ctx = 1200,
     .n_embd = 40,
     .n_layer = 5,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_ff = 72,
     .n_rot = 8,
     .type = TFT_F32,
     .tied = true},
    {.arch = "qwen35",
     .n_vocab = 33,
     .n_ctx = 1200,
     .n_embd = 52,
     .n_layer = 5, /* the last one predicts further tokens, and is not computed */
     .n_head = 3,
     .n_head_kv = 1,
     .head_dim = 32,
     .n_ff = 64,
     .n_rot = 32,
     .type = TFT_F16,
     .numbers = every_other},
};
enum { N_STATE = sizeof state_toys / sizeof *state_toys };

#endif
