/* What config.json says about a quantized folder. */
#ifndef IMPORT_QUANTIZED_CONFIG_H
#define IMPORT_QUANTIZED_CONFIG_H

#include "folder.h"

/* The folder's quantization_config, or what older folders call it; NULL: none. */
const json_t *import_quantization(const struct import_folder *f);

/* Fails if the folder has a form of weights that is not read, or computes with more than weights
   and inputs. Call it before import_quantized_open. */
enum tft_status import_quantized_check(const struct import_folder *f, struct tft_error *err);

/* Whether the folder's integers are multiplied by inputs of 8 bits, which have static ranges, or
   which go with scales of whole rows. Call it after import_quantized_open. */
bool import_quantized_inputs(const struct import_folder *f);

#endif
