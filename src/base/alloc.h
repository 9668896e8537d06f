/* The one way to get memory: through the caller's allocator, with sizes that cannot wrap. */
#ifndef TFT_ALLOC_H
#define TFT_ALLOC_H

#include "arena.h"
#include "tuffet.h"

/* NULL for `a` is the C library. Sizes are rounded up to TFT_ALIGN; 0 bytes is a valid request.
   NULL if it fails. */
void *tft_alloc(const struct tft_allocator *a, size_t size);
/* ptr may be NULL; size as asked for */
void tft_free(const struct tft_allocator *a, void *ptr, size_t size);

#endif
