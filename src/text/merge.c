#include "merge.h"

#include "base/alloc.h"

void tft_merge_init(struct tft_merge *m, const struct tft_allocator *a)
{
    m->allocator = a;
    m->owned = NULL;
    m->symbol = m->short_symbol;
    m->heap = m->short_heap;
    m->text = m->short_text;
    m->room = TFT_MERGE_SHORT;
    m->n = m->n_heap = 0;
}

void tft_merge_free(struct tft_merge *m)
{
    tft_free(m->allocator, m->owned, m->owned_size);
    tft_merge_init(m, m->allocator);
}

static void place(struct tft_merge *m, struct tft_arena *a, size_t room)
{
    m->symbol = tft_arena_take(a, room, sizeof *m->symbol);
    m->heap = tft_arena_take(a, room, sizeof *m->heap);
    m->text = tft_arena_take(a, room, 1);
    m->room = room;
}

/* At least doubles, so that pieces that get longer and longer do not cost an allocation each. */
static enum tft_status grow(struct tft_merge *m, size_t n, size_t most)
{
    size_t room = n < 2 * m->room ? 2 * m->room : n;
    if (room > most)
        room = most;
    tft_merge_free(m);

    struct tft_arena count = {0};
    place(m, &count, room);
    m->owned = count.failed ? NULL : tft_alloc(m->allocator, count.used);
    if (!m->owned) {
        tft_merge_init(m, m->allocator);
        return TFT_ERR_NOMEM;
    }
    m->owned_size = count.used;
    place(m, &(struct tft_arena){.base = m->owned}, room);
    return TFT_OK;
}

enum tft_status tft_merge_start(struct tft_merge *m, size_t n, size_t most)
{
    enum tft_status status = n <= m->room ? TFT_OK : grow(m, n, most);
    m->n = (uint32_t)n;
    m->n_heap = 0;
    return status;
}

void tft_merge_put(struct tft_merge *m, uint32_t at, uint32_t end, int32_t id)
{
    m->symbol[at].next = end;
    m->symbol[at].id = id;
    m->symbol[at].slot = TFT_NO_SLOT;
    if (end < m->n)
        m->symbol[end].prev = at;
}

/* ---- the heap */

static void set_slot(struct tft_merge *m, uint32_t slot, uint64_t key)
{
    m->heap[slot] = key;
    m->symbol[(uint32_t)key].slot = slot;
}

static void sift_up(struct tft_merge *m, uint32_t slot, uint64_t key)
{
    for (; slot; slot = (slot - 1) / 2) {
        uint64_t parent = m->heap[(slot - 1) / 2];
        if (parent < key)
            break;
        set_slot(m, slot, parent);
    }
    set_slot(m, slot, key);
}

static void sift_down(struct tft_merge *m, uint32_t slot, uint64_t key)
{
    for (uint64_t child; (child = 2 * (uint64_t)slot + 1) < m->n_heap; slot = (uint32_t)child) {
        if (child + 1 < m->n_heap && m->heap[child + 1] < m->heap[child])
            child++;
        if (key < m->heap[child])
            break;
        set_slot(m, slot, m->heap[child]);
    }
    set_slot(m, slot, key);
}

static void heap_set(struct tft_merge *m, uint32_t at, uint64_t key)
{
    uint32_t slot = m->symbol[at].slot;
    if (slot == TFT_NO_SLOT)
        sift_up(m, m->n_heap++, key);
    else if (key < m->heap[slot])
        sift_up(m, slot, key);
    else
        sift_down(m, slot, key);
}

static void heap_remove(struct tft_merge *m, uint32_t at)
{
    uint32_t slot = m->symbol[at].slot;
    if (slot == TFT_NO_SLOT)
        return;
    m->symbol[at].slot = TFT_NO_SLOT;
    uint64_t last = m->heap[--m->n_heap];
    if (slot == m->n_heap)
        return;
    m->symbol[(uint32_t)last].slot = slot; /* where the removed key is still what it is compared
                                              with */
    heap_set(m, (uint32_t)last, last);
}

/* ---- merging */

/* A symbol or its neighbour has changed: what do they make now? */
static void look_right(struct tft_merge *m, uint32_t at, tft_merge_join *join, const void *ctx)
{
    struct tft_symbol *s = &m->symbol[at];
    uint32_t rank;
    if (s->next < m->n && join(ctx, m, at, s->next, &s->joined, &rank))
        heap_set(m, at, (uint64_t)rank << 32 | at);
    else
        heap_remove(m, at);
}

void tft_merge_run(struct tft_merge *m, tft_merge_join *join, const void *ctx)
{
    for (uint32_t at = 0; at < m->n; at = m->symbol[at].next)
        look_right(m, at, join, ctx);
    while (m->n_heap) {
        uint32_t at = (uint32_t)m->heap[0];
        struct tft_symbol *s = &m->symbol[at];
        heap_remove(m, s->next);
        s->id = s->joined;
        s->next = m->symbol[s->next].next;
        if (s->next < m->n)
            m->symbol[s->next].prev = at;
        look_right(m, at, join, ctx);
        if (at)
            look_right(m, s->prev, join, ctx);
    }
}
