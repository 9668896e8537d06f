/*
 * What a W8A8 file of `tuffet quantize` has beyond a GGUF file of its architecture: static scales,
 * the prefix, and what was calibrated for the KV cache. keys.h names the keys; the panels that
 * replace matrices are loaded by load.c.
 */
#ifndef TFT_W8A8_H
#define TFT_W8A8_H

#include "model/load.h"

/* ---- before the architecture loads */

/* Sets ld->w8a8. Refuses another version of the format. */
void tft_w8a8_version(struct tft_load *ld);

/* Sets ld->codes. */
void tft_w8a8_codes(struct tft_load *ld);

/* Sets m->prefix_bos, all that a tokenizer opened by itself has to know of the prefix. */
void tft_w8a8_prefix_bos(struct tft_load *ld);

/* ---- after the architecture has loaded */

/* Gives every linear layer its input. For models of floats too. */
void tft_w8a8_inputs(struct tft_load *ld);

/* The prefix, and what the file has for the KV cache. */
void tft_w8a8_prefix(struct tft_load *ld);
void tft_w8a8_kv(struct tft_load *ld);

#endif
