/* Checks the weights of a W8A8 file when it is opened. */
#ifndef TFT_FLAWS_H
#define TFT_FLAWS_H

#include "model/model.h"

/* Reads all weights of a loaded W8A8 model once, with `threads` threads (0: all CPUs), and refuses
   numbers that ISA levels multiply differently, padding that is not zero, and wrong row sums:
   TFT_ERR_FORMAT. */
enum tft_status tft_flaws_refuse(const struct tft_model *m, int threads, struct tft_error *err);

#endif
