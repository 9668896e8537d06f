/* What W8A8 files and plain GGUF files share: the layers, in order, are loaded, measured,
   transformed, and left. */
#ifndef QUANTIZE_CONVERT_CONVERT_H
#define QUANTIZE_CONVERT_CONVERT_H

#include "tools/quantize/convert/conversion.h"

/* Begins at the first layer, with the embedded text. c: zeros, but m, o, result and low_bits. */
enum tft_status convert_open(struct conversion *c, struct tft_error *err);

/* Ends it. Returns the first failure; *stopped: o->progress stopped it. */
enum tft_status convert_close(struct conversion *c, bool *stopped, struct tft_error *err);

/* Loads the next layer, l, and does all work before its weights are rounded. */
void convert_prepare(struct conversion *c, uint32_t l);

/* Leaves it, also after a failure. */
void convert_leave(struct conversion *c, uint32_t l);

#endif
