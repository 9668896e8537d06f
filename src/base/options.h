/* Structs of options from callers with older or newer headers. */
#ifndef TFT_OPTIONS_H
#define TFT_OPTIONS_H

#include "tuffet.h"

/* Copies the caller's struct `given` into out[size], this version's struct of the same name; given
   NULL: all zero. The first member of `given` is its size, a size_t. Fields that an older caller
   lacks become 0. TFT_ERR_ARG: the size is absurd; or bytes that this version does not know are not
   0, so the caller sets an option that this version lacks. */
enum tft_status tft_options_take(void *out, size_t size, const void *given, const char *name,
                                 struct tft_error *err);

/* Copies out[size] into the caller's struct `to`, with its size as the first member. Fields that
   this version does not know become 0. */
void tft_options_give(void *to, const void *out, size_t size);

/* Checks `reserved`, `size` bytes at the end of the caller's struct `name`, which has no size of
   its own. TFT_ERR_ARG: they are not all 0: the caller sets an option that this version lacks. */
enum tft_status tft_options_reserved(const uint64_t *reserved, size_t size, const char *name,
                                     struct tft_error *err);

#endif
