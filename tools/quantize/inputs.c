#include "tools/quantize/inputs.h"

#include <stdio.h>

const char *quantize_matrix_name(int which)
{
    static const char *const name[LAYER_MATS] = {
        "attn_q",       "attn_k",         "attn_v",   "attn_gate", "attn_output", "ffn_gate_shexp",
        "ffn_up_shexp", "ffn_down_shexp", "ffn_gate", "ffn_up",    "ffn_down"};
    return name[which];
}

const char *quantize_matrix_format(const struct tft_layer *b, int which)
{
    static const char *const attention[LAYER_MATS] = {
        "blk.%u.attn_q",         "blk.%u.attn_k",      "blk.%u.attn_v",
        "blk.%u.attn_gate",      "blk.%u.attn_output", "blk.%u.ffn_gate_shexp",
        "blk.%u.ffn_up_shexp",   "blk.%u.ffn_down_shexp",
        "blk.%u.ffn_gate",       "blk.%u.ffn_up",      "blk.%u.ffn_down"};
    static const char *const conv[LAYER_MATS] = {
        [MAT_Q] = "blk.%u.shortconv.in_proj", [MAT_O] = "blk.%u.shortconv.out_proj"};
    static const char *const delta[LAYER_MATS] = {[MAT_Q] = "blk.%u.attn_qkv",
                                                  [MAT_K] = "blk.%u.ssm_alpha",
                                                  [MAT_V] = "blk.%u.ssm_beta",
                                                  [MAT_O] = "blk.%u.ssm_out"};
    static const char *const mamba[LAYER_MATS] = {
        [MAT_Q] = "blk.%u.ssm_in", [MAT_O] = "blk.%u.ssm_out"};
    static const char *const latent[LAYER_MATS] = {[MAT_K] = "blk.%u.attn_kv_a_mqa"},
                            *const two_steps[LAYER_MATS] = {[MAT_Q] = "blk.%u.attn_q_a",
                                                            [MAT_K] = "blk.%u.attn_kv_a_mqa"};
    static const char *const of_experts[] = {"blk.%u.ffn_gate_exps", "blk.%u.ffn_up_exps",
                                             "blk.%u.ffn_down_exps"};
    if (which >= MAT_GATE && tft_layer_has_experts(b))
        return of_experts[which - MAT_GATE];
    if (which >= MAT_SHARED_GATE && tft_layer_has_experts_beside(b))
        return attention[which - MAT_SHARED_GATE + MAT_GATE];
    if (b->side_out.w.rows && (which == MAT_Z || which == MAT_SHARED_DOWN))
        return mamba[which == MAT_Z ? MAT_Q : MAT_O];
    if (b->mixer == TFT_MIX_DELTA_NET && which == MAT_K && !b->delta.beta.w.rows)
        return "blk.%u.ssm_ba";
    const char *own = b->mixer == TFT_MIX_SHORT_CONV  ? conv[which]
                      : b->mixer == TFT_MIX_DELTA_NET ? delta[which]
                      : b->mixer == TFT_MIX_MAMBA     ? mamba[which]
                      : b->latent.q_b.w.rows          ? two_steps[which]
                      : b->latent.k_b.rows            ? latent[which]
                                                      : NULL;
    return own ? own : attention[which];
}

uint32_t quantize_matrix_input(const struct tft_layer *b, int which)
{
    bool shared = which == MAT_SHARED_GATE || which == MAT_SHARED_UP;
    if (shared && tft_layer_has_own_input(b))
        return TFT_IN_BESIDE;
    return which < MAT_O              ? TFT_IN_ATTN
           : which == MAT_O           ? TFT_IN_O
           : which == MAT_DOWN        ? TFT_IN_DOWN
           : which == MAT_SHARED_DOWN ? TFT_IN_SHARED
                                      : TFT_IN_FFN;
}

uint32_t quantize_input_kind(uint32_t n_layer, uint32_t index)
{
    uint32_t head = n_layer * TFT_LAYER_INPUTS;
    return index > head ? TFT_IN_SHARED + (index - head - 1) / n_layer : index % TFT_LAYER_INPUTS;
}

/* Of a block's normalized inputs: a block may lack one half. */
static size_t norm_width(const struct tft_model *m, const struct tft_layer *layer, uint32_t which)
{
    const struct tft_norm *norm = layer && which == TFT_IN_ATTN ? &layer->attn_norm
                                  : layer                       ? &layer->ffn_norm
                                                                : NULL;
    bool half = m->parts & TFT_BIT(TFT_PART_HALF_BLOCKS);
    if (layer && which == TFT_IN_FFN && tft_layer_has_latent_experts(layer))
        return layer->experts.up.w.cols;
    return half && norm && !norm->w ? 0 : m->n_embd;
}

static size_t hidden_width(const struct tft_model *m, const struct tft_layer *layer)
{
    if (layer)
        return tft_layer_has_experts(layer) ? m->n_ff_expert : layer->down.w.cols;
    return m->n_ff > m->n_ff_expert ? m->n_ff : m->n_ff_expert;
}

static size_t shared_width(const struct tft_model *m, const struct tft_layer *layer)
{
    if (m->mamba_beside)
        return layer ? layer->side_out.w.cols : m->mixed_width;
    bool has = layer ? tft_layer_has_experts(layer) && layer->up.w.rows : m->shared_expert;
    return !has ? 0 : layer ? layer->down.w.cols : m->n_ff;
}

static size_t beside_width(const struct tft_model *m, const struct tft_layer *layer)
{
    bool has = layer ? tft_layer_has_own_input(layer) && layer->up.w.rows
                     : tft_model_has_input(m, TFT_IN_BESIDE);
    return has ? m->n_embd : 0;
}

size_t quantize_input_width(const struct tft_model *m, const struct tft_layer *layer,
                            uint32_t which)
{
    return which == TFT_IN_O        ? layer ? layer->o.w.cols : m->mixed_width
           : which == TFT_IN_DOWN   ? hidden_width(m, layer)
           : which == TFT_IN_SHARED ? shared_width(m, layer)
           : which == TFT_IN_BESIDE ? beside_width(m, layer)
                                    : norm_width(m, layer, which);
}

const char *quantize_part_name(uint32_t which)
{
    static const char *const part[TFT_INPUT_KINDS] = {[TFT_IN_ATTN] = "attn_q",
                                                      [TFT_IN_O] = "attn_output",
                                                      [TFT_IN_FFN] = "ffn_up",
                                                      [TFT_IN_DOWN] = "ffn_down",
                                                      [TFT_IN_SHARED] = "ffn_down_shexp",
                                                      [TFT_IN_BESIDE] = "ffn_up_shexp"};
    return part[which];
}

const char *quantize_input_name(uint32_t n_layer, uint32_t index, char name[64])
{
    uint32_t head = n_layer * TFT_LAYER_INPUTS;
    if (index == head)
        snprintf(name, 64, "output");
    else
        snprintf(name, 64, "blk.%u.%s",
                 index < head ? index / TFT_LAYER_INPUTS : (index - head - 1) % n_layer,
                 quantize_part_name(quantize_input_kind(n_layer, index)));
    return name;
}
