/*
 * Quantized folders: compressed-tensors, GPTQ, AWQ, FP8, MXFP4, NVFP4. import_quantized_open finds
 * the matrices by their tensors; from then on, the rest of the import sees a tensor MODULE.weight
 * of floats in place of each matrix's parts.
 */
#ifndef IMPORT_QUANTIZED_H
#define IMPORT_QUANTIZED_H

#include "folder.h"
#include "matrix.h"

/* Puts the matrices into the folder's list of tensors, in place of their parts. Fails if a part is
   missing or does not fit. */
enum tft_status import_quantized_open(struct import_folder *f, struct tft_error *err);

#endif
