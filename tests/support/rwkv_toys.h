/* Toys of RWKV-7. */
#ifndef TFT_TEST_RWKV_TOYS_H
#define TFT_TEST_RWKV_TOYS_H

#include "toy.h"

/* More heads than threads, of a panel each. */
static const struct toy_number small_heads[] = {
    {"wkv.head_size", TOY_U32, 16},
    {"attention.decay_lora_rank", TOY_U32, 5},
    {"attention.iclr_lora_rank", TOY_U32, 33},
    {"attention.value_residual_mix_lora_rank", TOY_U32, 16},
    {"attention.gate_lora_rank", TOY_U32, 3},
    {"token_shift_count", TOY_U32, 2},
    {0}};

static const struct toy rwkv_toys[] = {
    {.arch = "rwkv7",
     .n_vocab = 39,
     .n_ctx = 640,
     .n_embd = 96,
     .n_layer = 3,
     .n_ff = 160,
     .type = TFT_F32},
    {.arch = "rwkv7",
     .n_vocab = 34,
     .n_ctx = 640,
     .n_embd = 80,
     .n_layer = 2,
     .n_ff = 72,
     .type = TFT_F16,
     .tied = true,
     .numbers = small_heads},
};
enum { N_RWKV = sizeof rwkv_toys / sizeof *rwkv_toys };

#endif
