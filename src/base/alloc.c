#include "alloc.h"

#include "port/port.h"

void *tft_alloc(const struct tft_allocator *a, size_t size)
{
    size_t bytes = size ? tft_round_up(size) : TFT_ALIGN;
    if (!bytes)
        return NULL;
    return a ? a->alloc(a->user, bytes, TFT_ALIGN) : tft_port_alloc(bytes, TFT_ALIGN);
}

void tft_free(const struct tft_allocator *a, void *ptr, size_t size)
{
    if (!ptr)
        return;
    if (a)
        a->free(a->user, ptr, size ? tft_round_up(size) : TFT_ALIGN);
    else
        tft_port_free(ptr);
}
