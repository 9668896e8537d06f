/* Reads GGUF (ggml docs/gguf.md). */
#ifndef TFT_GGUF_READ_H
#define TFT_GGUF_READ_H

#include "source.h"

/* Fills s from s->data, which begins with "GGUF", s->size and s->name: versions 2 and 3,
   little-endian. TFT_ERR_FORMAT, TFT_ERR_UNSUPPORTED or TFT_ERR_NOMEM; then close s. */
enum tft_status tft_gguf_read(struct tft_source *s, struct tft_error *err);

/* Whether general.alignment may be n: a power of two from 8 to 65536. The format requires a
   multiple of 8, llama.cpp a power of two; 65536 is the largest page size in wide use, and a larger
   alignment would only waste space. */
static inline bool tft_gguf_alignment_ok(uint64_t n)
{
    return n >= 8 && n <= 65536 && (n & (n - 1)) == 0;
}

#endif
