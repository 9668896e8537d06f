/* Stores in a finished W8A8 file what it loses on text that was kept out of calibration. */
#ifndef QUANTIZE_WRITE_HELD_OUT_H
#define QUANTIZE_WRITE_HELD_OUT_H

#include "tuffet.h"

/* Sets TFT_KEY_HELD_OUT of the file, in place: four bytes each. The mean of -ln p of a token, for
   the model of floats and for the file's. */
enum tft_status write_held_out(const char *path, double floats, double file, struct tft_error *err);

#endif
