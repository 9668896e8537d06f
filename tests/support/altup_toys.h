/* Toys with several residual streams: gemma3n. */
#ifndef TFT_TEST_ALTUP_TOYS_H
#define TFT_TEST_ALTUP_TOYS_H

#include "toy.h"

/* The last two layers use keys and values of layers 1 and 2. */
static const bool altup_windows[] = {true, true, false, true, false},
                  altup_no_windows[] = {false, false};

static const struct toy_number altup_numbers[] = {
    {"attention.sliding_window", TOY_U32, 30}, {"rope.freq_base_swa", TOY_F32, 500},
    {"attention.shared_kv_layers", TOY_U32, 2}, {"embedding_length_per_layer_input", TOY_U32, 32},
    {"altup.num_inputs", TOY_U32, 4},           {"altup.active_idx", TOY_U32, 0},
    {0}};

static const struct toy_number altup_other[] = {
    {"attention.sliding_window", TOY_U32, 30},  {"final_logit_softcapping", TOY_F32, 9},
    {"embedding_length_per_layer_input", TOY_U32, 20}, {"altup.num_inputs", TOY_U32, 3},
    {0}};

static const struct toy altup_toys[] = {
    {.arch = "gemma3n",
     .n_vocab = 45,
     .n_ctx = 1200,
     .n_embd = 64,
     .n_layer = 5,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 16,
     .n_ff = 96,
     .n_rot = 16,
     .type = TFT_F32,
     .tied = true,
     .windows = altup_windows,
     .numbers = altup_numbers},
    {.arch = "gemma3n",
     .n_vocab = 37,
     .n_ctx = 1200,
     .n_embd = 44,
     .n_layer = 2,
     .n_head = 3,
     .n_head_kv = 1,
     .head_dim = 20,
     .n_ff = 72,
     .n_rot = 20,
     .type = TFT_F32,
     .tied = true,
     .windows = altup_no_windows,
     .numbers = altup_other},
};
enum { N_ALTUP = sizeof altup_toys / sizeof *altup_toys };

#endif
