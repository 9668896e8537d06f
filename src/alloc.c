#include "alloc.h"

#include "port.h"

static size_t round_up(size_t size)
{
    return size > SIZE_MAX - TFT_ALIGN ? 0 : (size + TFT_ALIGN - 1) / TFT_ALIGN * TFT_ALIGN;
}

void *tft_alloc(const struct tft_allocator *a, size_t size)
{
    size_t bytes = size ? round_up(size) : TFT_ALIGN;
    if (!bytes)
        return NULL;
    return a ? a->alloc(a->user, bytes, TFT_ALIGN) : tft_port_alloc(bytes, TFT_ALIGN);
}

void tft_free(const struct tft_allocator *a, void *ptr, size_t size)
{
    if (!ptr)
        return;
    if (a)
        a->free(a->user, ptr, size ? round_up(size) : TFT_ALIGN);
    else
        tft_port_free(ptr);
}

void *tft_arena_take(struct tft_arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (!tft_mul(count, size, &bytes) || (bytes && !round_up(bytes)) || !tft_add(a->used, round_up(bytes), &a->used)) {
        a->failed = true;
        return NULL;
    }
    return a->base ? a->base + a->used - round_up(bytes) : NULL;
}
