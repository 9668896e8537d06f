#include "arena.h"

void *tft_arena_take(struct tft_arena *a, size_t count, size_t size)
{
    size_t bytes;
    if (!tft_mul(count, size, &bytes) || (bytes && !tft_round_up(bytes)) ||
        !tft_add(a->used, tft_round_up(bytes), &a->used)) {
        a->failed = true;
        a->used = SIZE_MAX; /* a wrapped sum is not a size */
        return NULL;
    }
    return a->base ? a->base + a->used - tft_round_up(bytes) : NULL;
}
