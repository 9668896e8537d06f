/*
 * All float kernels of an ISA level, and fill_floats(), which enters the kernels in the table. An
 * ISA level's .c file includes its reg_*.h, defines the parameters, and includes this file.
 *
 * Parameters: ISA(name) and the registers of lanes.h; TILE_M and TILE_N of gemm.h; TILE_Q and
 * TILE_V of attention.h.
 */
#ifndef TFT_TEMPLATE_FLOATS_H
#define TFT_TEMPLATE_FLOATS_H

#include "activations.h"
#include "attention.h"
#include "codes_fit.h"
#include "convert.h"
#include "elementwise.h"
#include "gemm.h"
#include "hadamard.h"
#include "limits.h"
#include "norms.h"
#include "quantize.h"
#include "rope.h"
#include "sampling.h"
#include "state.h"

static void fill_floats(struct tft_kernels *k)
{
    k->gemm[TFT_NUM_F32] = ISA(gemm_f32);
    k->gemm[TFT_NUM_F16] = ISA(gemm_f16);
    k->gemm[TFT_NUM_BF16] = ISA(gemm_bf16);
    k->rmsnorm = ISA(rmsnorm);
    k->layernorm = ISA(layernorm);
    k->rope_pairs = ISA(rope_pairs);
    k->rope_halves = ISA(rope_halves);
    k->silu_mul = ISA(silu_mul);
    k->gelu = ISA(gelu);
    k->gelu_mul = ISA(gelu_mul);
    k->relu2_mul = ISA(relu2_mul);
    k->softcap = ISA(softcap);
    k->add = ISA(add);
    k->widen[TFT_NUM_F16] = ISA(widen_f16);
    k->widen[TFT_NUM_BF16] = ISA(widen_bf16);
    k->narrow[TFT_NUM_F16] = ISA(narrow_f16);
    k->score[TFT_NUM_F32] = ISA(score_f32);
    k->score[TFT_NUM_F16] = ISA(score_f16);
    k->softmax = ISA(softmax);
    k->softmax_u8 = ISA(softmax_u8);
    k->mix[TFT_NUM_F32] = ISA(mix_f32);
    k->mix[TFT_NUM_F16] = ISA(mix_f16);
    k->blend = ISA(blend);
    k->scale = ISA(scale);
    k->sum_exp = ISA(sum_exp);
    k->tops = ISA(tops);
    k->fit = ISA(fit);
    k->widen_f8 = ISA(widen_f8);
    k->quantize = ISA(quantize);
    k->quantize_groups = ISA(quantize_groups);
    k->rmsnorm_u8 = ISA(rmsnorm_u8);
    k->layernorm_u8 = ISA(layernorm_u8);
    k->silu_mul_u8 = ISA(silu_mul_u8);
    k->gelu_u8 = ISA(gelu_u8);
    k->gelu_mul_u8 = ISA(gelu_mul_u8);
    k->hadamard = ISA(hadamard);
    k->range = ISA(range);
    k->mul = ISA(mul);
    k->sigmoid_mul = ISA(sigmoid_mul);
    k->conv = ISA(conv);
    k->delta = ISA(delta);
    k->scan = ISA(scan);
    k->wkv = ISA(wkv);
    k->peak_fma = ISA(peak_fma);
    k->read = ISA(read);
}

#endif
