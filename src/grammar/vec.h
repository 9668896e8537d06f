/* An array that grows. Initialize to zero; the owner frees it with the same item size. */
#ifndef TFT_VEC_H
#define TFT_VEC_H

#include <string.h>

#include "base/alloc.h"

struct tft_vec {
    void *p;          /* [room] of the item size */
    uint32_t n, room; /* used, allocated */
};

static inline void tft_vec_free(struct tft_vec *v, const struct tft_allocator *a, size_t item)
{
    tft_free(a, v->p, v->room * item);
    *v = (struct tft_vec){0};
}

/* Appends `count` zeroed items and returns the first; NULL: out of memory, v is unchanged. */
static inline void *tft_vec_add(struct tft_vec *v, const struct tft_allocator *a, size_t item,
                                uint32_t count)
{
    if (count > UINT32_MAX / 4 || v->n > UINT32_MAX / 4)
        return NULL;
    if (v->n + count > v->room) {
        uint32_t room = v->n + count < 16 ? 16 : (v->n + count) * 2;
        size_t size;
        void *p = tft_mul(room, item, &size) ? tft_alloc(a, size) : NULL;
        if (!p)
            return NULL;
        if (v->n)
            memcpy(p, v->p, v->n * item);
        tft_free(a, v->p, v->room * item);
        v->p = p;
        v->room = room;
    }
    void *added = (char *)v->p + v->n * item;
    memset(added, 0, count * item);
    v->n += count;
    return added;
}

/* Gives back the room that is not used. False: no memory to copy the items to. */
static inline bool tft_vec_fit(struct tft_vec *v, const struct tft_allocator *a, size_t item)
{
    void *p = tft_alloc(a, v->n * item);
    if (!p)
        return false;
    if (v->n)
        memcpy(p, v->p, v->n * item);
    tft_free(a, v->p, v->room * item);
    v->p = p;
    v->room = v->n;
    return true;
}

#endif
