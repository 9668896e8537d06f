/*
 * The additions of a W8A8 file of `tuffet quantize` to a GGUF file of its architecture: static
 * scales, and the calibration for the KV cache, which plain GGUF files may have too. keys.h names
 * the keys; the panels that replace matrices are loaded by load.c, the prefix by prefix.c.
 */
#ifndef TFT_W8A8_H
#define TFT_W8A8_H

#include "model/load.h"

/* ---- before the architecture loads */

/* Sets ld->w8a8. Refuses another version of the format. */
void tft_w8a8_version(struct tft_load *ld);

/* Sets ld->codes. */
void tft_w8a8_codes(struct tft_load *ld);

/* ---- after the architecture has loaded */

/* Gives every linear layer its input. For models of floats too. */
void tft_w8a8_inputs(struct tft_load *ld);

/* The calibration for the KV cache. */
void tft_w8a8_kv(struct tft_load *ld);

#endif
