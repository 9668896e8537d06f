/* Models for the tests of tuning: for each piece of a formula (enum tft_piece) one that has it, where
   possible alone, and others in which all that go together do. */
#ifndef TFT_TEST_PIECE_TOYS_H
#define TFT_TEST_PIECE_TOYS_H

#include "toy.h"

#define SMALL(name, layers)                                                                        \
    .arch = name, .n_layer = layers, .n_vocab = 36, .n_ctx = 64, .n_embd = 32, .n_head = 4,        \
    .n_head_kv = 2, .head_dim = 12, .n_ff = 64, .n_rot = 12

static const struct toy_number embed_scale[] = {{"embedding_scale", TOY_F32, 3}, {0}},
                               residual_scale[] = {{"residual_scale", TOY_F32, 0.4}, {0}},
                               logit_scale[] = {{"logit_scale", TOY_F32, 1.7}, {0}},
                               attn_scale[] = {{"attention.scale", TOY_F32, 0.21}, {0}},
                               amplitude[] = {{"rope.scaling.attn_factor", TOY_F32, 1.3}, {0}},
                               growth[] = {{"attention.temperature_scale", TOY_F32, 0.4},
                                           {"rope.scaling.original_context_length", TOY_U32, 5},
                                           {0}};

static const struct toy piece_toys[] = {
    {SMALL("granite", 2), .numbers = embed_scale},
    {SMALL("granite", 2), .numbers = residual_scale},
    {SMALL("granite", 2), .numbers = logit_scale},
    {SMALL("granite", 2), .numbers = attn_scale},
    {SMALL("granite", 2), .tied = true}, /* all four */
    {SMALL("mistral3", 2), .numbers = amplitude},
    {SMALL("mistral3", 2), .numbers = growth},
    {SMALL("mistral3", 2), .yarn = 8}, /* both */
    {SMALL("hunyuan-dense", 2)},
    {SMALL("smollm3", 4)},
};
enum { N_PIECE_TOYS = sizeof piece_toys / sizeof *piece_toys };

#undef SMALL

#endif
