/* Toys of gemma4. Their layers differ in windows, heads and the width of feed-forward, and some use
   keys and values of earlier layers. */
#ifndef TFT_TEST_LAYER_TOYS_H
#define TFT_TEST_LAYER_TOYS_H

#include "toy.h"

/* Like E2B and E4B: the last three layers use the keys and values of layers 2, 1 and 2. */
static const bool small_windows[] = {true, false, true, true, false, true};
static const uint32_t small_ffs[] = {40, 40, 40, 72, 72, 56};

/* Like 31B: KV heads differ by layer, keys are values too, and no layer shares a cache. */
static const bool large_windows[] = {true, false, true};
static const uint32_t large_heads[] = {4, 2, 4};
static const struct toy_number large_numbers[] = {
    {"attention.sliding_window", TOY_U32, 100}, {"attention.key_length_swa", TOY_U32, 8},
    {"attention.value_length_swa", TOY_U32, 8}, {"rope.dimension_count_swa", TOY_U32, 8},
    {0}};

/* Like 26B-A4B: experts beside feed-forward. */
static const bool mixed_windows[] = {true, true, false};
static const uint32_t mixed_heads[] = {2, 2, 1};
static const struct toy_number mixed_numbers[] = {
    {"attention.sliding_window", TOY_U32, 30},      {"attention.key_length_swa", TOY_U32, 8},
    {"attention.value_length_swa", TOY_U32, 8},     {"rope.dimension_count_swa", TOY_U32, 8},
    {"expert_count", TOY_U32, 5},                   {"expert_used_count", TOY_U32, 2},
    {"expert_feed_forward_length", TOY_U32, 24},    {"final_logit_softcapping", TOY_F32, 5},
    {0}};

static const struct toy layer_toys[] = {
    {.arch = "gemma4",
     .n_vocab = 37,
     .n_ctx = 1200,
     .n_embd = 36,
     .n_layer = 6,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 20,
     .n_ff = 72,
     .n_rot = 20,
     .type = TFT_F32,
     .tied = true,
     .windows = small_windows,
     .ffs = small_ffs},
    {.arch = "gemma4",
     .n_vocab = 33,
     .n_ctx = 1200,
     .n_embd = 48,
     .n_layer = 3,
     .n_head = 4,
     .kv_heads = large_heads,
     .head_dim = 24,
     .n_ff = 64,
     .n_rot = 24,
     .type = TFT_F16,
     .tied = true,
     .windows = large_windows,
     .keys_as_values = true,
     .numbers = large_numbers},
    {.arch = "gemma4",
     .n_vocab = 35,
     .n_ctx = 1200,
     .n_embd = 40,
     .n_layer = 3,
     .n_head = 4,
     .kv_heads = mixed_heads,
     .head_dim = 20,
     .n_ff = 56,
     .n_rot = 20,
     .type = TFT_F32,
     .tied = true,
     .windows = mixed_windows,
     .keys_as_values = true,
     .fused_experts = true,
     .numbers = mixed_numbers},
};
enum { N_LAYER_TOYS = sizeof layer_toys / sizeof *layer_toys };

/* The same as folders have them: the last layer has no window, layers that share are twice as
   wide. */
static const bool small_folder_windows[] = {true, false, true, true, true, false},
                  large_folder_windows[] = {true, true, false};
static const uint32_t small_folder_ffs[] = {40, 40, 40, 80, 80, 80},
                      large_folder_heads[] = {4, 4, 2};

static inline struct toy layer_folder_toy(int i)
{
    struct toy t = layer_toys[i];
    if (i > 1)
        return t;
    t.windows = i ? large_folder_windows : small_folder_windows;
    if (i)
        t.kv_heads = large_folder_heads;
    else
        t.ffs = small_folder_ffs;
    t.n_ff = i ? t.n_ff : 40;
    return t;
}

#endif
