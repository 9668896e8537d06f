/* Memory from the caller's allocator or the C library. The library takes memory only here. */
#ifndef TFT_ALLOC_H
#define TFT_ALLOC_H

#include "arena.h"
#include "tuffet.h"

/* `size` bytes, aligned to TFT_ALIGN, from `a`, or from the C library if `a` is NULL. The size is
   rounded up to a multiple of TFT_ALIGN; 0 is valid and takes TFT_ALIGN bytes. NULL on failure. */
void *tft_alloc(const struct tft_allocator *a, size_t size);

/* Returns memory of tft_alloc: the same `a` and the same `size`. ptr may be NULL. */
void tft_free(const struct tft_allocator *a, void *ptr, size_t size);

#endif
