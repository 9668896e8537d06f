/* Models for the tests of tuning: for each piece of a formula (enum tft_formula_part) one that has
   it, where possible alone, and others in which all that go together do. */
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
                                           {0}},
                               /* the other cap is the usual one, which hardly matters here */
                               score_cap[] = {{"attention.sliding_window", TOY_U32, 64},
                                              {"attn_logit_softcapping", TOY_F32, 2},
                                              {0}},
                               logit_cap[] = {{"attention.sliding_window", TOY_U32, 64},
                                              {"final_logit_softcapping", TOY_F32, 3},
                                              {0}},
                               caps_and_window[] = {{"attention.sliding_window", TOY_U32, 7},
                                                    {"attn_logit_softcapping", TOY_F32, 2},
                                                    {"final_logit_softcapping", TOY_F32, 3},
                                                    {0}},
                               windows[] = {{"attention.sliding_window", TOY_U32, 7},
                                            {"attention.sliding_window_pattern", TOY_U32, 2},
                                            {0}},
                               window_rope[] = {{"attention.sliding_window", TOY_U32, 19},
                                                {"attention.sliding_window_pattern", TOY_U32, 2},
                                                {"rope.freq_base_swa", TOY_F32, 500},
                                                {0}},
                               sequential[] = {{"use_parallel_residual", TOY_BOOL, 0}, {0}},
                               no_norm_between[] = {{"num_loops", TOY_U32, 2},
                                                    {"skip_loop_final_norm", TOY_BOOL, 1},
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
    {SMALL("gemma", 2), .tied = true}, /* GEGLU, a scale of embeddings */
    {SMALL("olmo2", 2)},               /* norms after halves alone, and over all heads */
    {SMALL("olmo2", 2), .yarn = 4, .numbers = windows},
    {SMALL("exaone4", 3), .numbers = windows}, /* the layer without a window has no RoPE */
    {SMALL("gptneox", 2)},
    {SMALL("gptneox", 2), .numbers = sequential},
    {SMALL("falcon", 2)},
    {SMALL("falcon", 2), .large = true},
    {SMALL("stablelm", 2), .large = true}, /* side by side, with gains of each head's own */
    {SMALL("gemma2", 2), .numbers = score_cap},
    {SMALL("gemma2", 2), .numbers = logit_cap},
    {SMALL("gemma2", 2), .tied = true, .numbers = caps_and_window},
    {SMALL("gemma3", 2), .tied = true, .linear_scaling = 3, .numbers = window_rope},
    {SMALL("nanbeige", 2)}, /* three rounds */
    {SMALL("nanbeige", 2), .numbers = no_norm_between},
};
enum { N_PIECE_TOYS = sizeof piece_toys / sizeof *piece_toys };

#undef SMALL

#endif
