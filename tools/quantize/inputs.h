/* The matrices of a layer, and the inputs of a model's linear layers: their number, their names,
   and their results of quantize(). Linear layers that read the same numbers share an input (struct
   tft_input). */
#ifndef QUANTIZE_INPUTS_H
#define QUANTIZE_INPUTS_H

#include "model/model.h"

/* The matrices of a layer, in the order of the file. */
enum {
    MAT_Q,
    MAT_K,
    MAT_V,
    MAT_Z,
    MAT_O,
    MAT_SHARED_GATE,
    MAT_SHARED_UP,
    MAT_SHARED_DOWN,
    MAT_GATE,
    MAT_UP,
    MAT_DOWN,
    LAYER_MATS
};

/* "ffn_gate". Mixers other than attention have other names, but use the slots of attention. */
const char *quantize_matrix_name(int which);

/* The name of the matrix's tensors in files, with %u for the layer: "blk.%u.ffn_gate". */
const char *quantize_matrix_format(const struct tft_layer *b, int which);

/* The input that the matrix reads: TFT_IN_ATTN .. TFT_IN_BESIDE. */
uint32_t quantize_matrix_input(const struct tft_layer *b, int which);

/* Result for one input, over the calibration text. */
struct quantize_input {
    struct tft_affine affine; /* scale and zero-point */
    double error;             /* |x - q(x)|^2 / |x|^2 */
    double ends;              /* share of the numbers that become bytes at the ends of the range */
    float min, max;
};

/* The kind of input `index` within its layer, in a model of n_layer layers. The head's input counts
   as TFT_IN_ATTN. */
uint32_t quantize_input_kind(uint32_t n_layer, uint32_t index);

/* Width of input `which` of a layer; of the widest layer, if `layer` is NULL. 0: no such input. */
size_t quantize_input_width(const struct tft_model *m, const struct tft_layer *layer,
                            uint32_t which);

/* Name of a layer's input, after the first linear layer that reads it: "ffn_down". */
const char *quantize_part_name(uint32_t which);

/* "blk.3.ffn_down"; "output" for the head's input (tft_input_index). */
const char *quantize_input_name(uint32_t n_layer, uint32_t index, char name[64]);

#endif
