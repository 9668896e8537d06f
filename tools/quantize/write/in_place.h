/* Stores in a finished W8A8 file the results that are known only then: its loss on held-out text,
   and the inputs with per-token ranges. */
#ifndef QUANTIZE_WRITE_IN_PLACE_H
#define QUANTIZE_WRITE_IN_PLACE_H

#include "tools/quantize/check.h"

/* Numbers of a group: tokens, floats, file, divergence, same. Zeros: not measured. */
enum { HELD_OUT_NUMBERS = 5 };

/* Sets TFT_KEY_HELD_OUT. */
enum tft_status write_held_out(const char *path, const struct check_loss loss[CHECK_GROUPS],
                               struct tft_error *err);

/* Sets TFT_KEY_INPUT_RANGE; range: [n] as the file has inputs. */
enum tft_status write_ranges(const char *path, const enum tft_range *range, uint32_t n,
                             struct tft_error *err);

#endif
