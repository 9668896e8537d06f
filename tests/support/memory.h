/* An allocator that counts bytes and calls, and can be told to fail. */
#ifndef TFT_TEST_MEMORY_H
#define TFT_TEST_MEMORY_H

#include "port/port.h"
#include "tuffet.h"

struct memory {
    size_t in_use, peak;
    unsigned calls;   /* of memory_alloc */
    unsigned fail_at; /* the number of the call that fails, counted from 1; 0: none fails */
};

static inline void *memory_alloc(void *user, size_t size, size_t align)
{
    struct memory *m = user;
    if (++m->calls == m->fail_at)
        return NULL;
    m->in_use += size;
    if (m->in_use > m->peak)
        m->peak = m->in_use;
    return tft_port_alloc(size, align);
}

static inline void memory_free(void *user, void *ptr, size_t size)
{
    struct memory *m = user;
    m->in_use -= size;
    tft_port_free(ptr);
}

static inline struct tft_allocator memory_allocator(struct memory *m)
{
    return (struct tft_allocator){memory_alloc, memory_free, m};
}

#endif
