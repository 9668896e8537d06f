/* Structs of options, which callers of older and of newer headers pass. */
#ifndef TFT_OPTIONS_H
#define TFT_OPTIONS_H

#include "tuffet.h"

/* Copies the caller's struct `given` into out[size], a struct of the same name as this version
   knows it; NULL: all zero. Its first member is a size_t, its size. Fields that an older caller
   does not have become 0. TFT_ERR_ARG: the size is absurd, or bytes that this version does not know
   are not 0, so that the caller would wait in vain for what they ask for. */
enum tft_status tft_options_take(void *out, size_t size, const void *given, const char *name,
                                 struct tft_error *err);

/* Copies out[size] into the struct `to` that the caller wants filled, of which its first member
   is the size. Fields that this version does not know become 0. */
void tft_options_give(void *to, const void *out, size_t size);

#endif
