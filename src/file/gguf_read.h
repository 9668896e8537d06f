/* Reads GGUF (ggml docs/gguf.md). */
#ifndef TFT_GGUF_READ_H
#define TFT_GGUF_READ_H

#include "source.h"

/* Fills s from s->data, s->size and s->name. Versions 2 and 3, little-endian. */
enum tft_status tft_gguf_read(struct tft_source *s, struct tft_error *err);

/* Whether a file may have this general.alignment: a power of two from 8 to 65536, the largest page
   in wide use. The format asks for a multiple of 8, llama.cpp for a power of two; a larger one
   could only serve to waste. */
static inline bool tft_gguf_alignment_ok(uint64_t n)
{
    return n >= 8 && n <= 65536 && (n & (n - 1)) == 0;
}

#endif
