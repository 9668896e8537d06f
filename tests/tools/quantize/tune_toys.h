/* Models for the tests of tuning: every kind of block, and widths that are no multiple of a panel.
   */
#ifndef TFT_TEST_TUNE_TOYS_H
#define TFT_TEST_TUNE_TOYS_H

#include "toy.h"

static const struct toy toys[] = {
    {.arch = "llama",
     .n_vocab = 50,
     .n_ctx = 64,
     .n_embd = 40,
     .n_layer = 3,
     .n_head = 4,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 96,
     .n_rot = 12,
     .type = TFT_F32},
    {.arch = "qwen2",
     .n_vocab = 32,
     .n_ctx = 64,
     .n_embd = 32,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 1,
     .head_dim = 16,
     .n_ff = 64,
     .n_rot = 16,
     .type = TFT_F16,
     .tied = true},
    {.arch = "qwen3",
     .n_vocab = 47,
     .n_ctx = 64,
     .n_embd = 64,
     .n_layer = 2,
     .n_head = 3,
     .n_head_kv = 3,
     .head_dim = 32,
     .n_ff = 96,
     .n_rot = 32,
     .type = TFT_Q8_0},
    {.arch = "gpt2",
     .n_vocab = 32,
     .n_ctx = 64,
     .n_embd = 24,
     .n_layer = 2,
     .n_head = 2,
     .n_head_kv = 2,
     .head_dim = 12,
     .n_ff = 600,
     .type = TFT_BF16,
     .tied = true},
};
enum { N_TOYS = sizeof toys / sizeof *toys };

#endif
