#include "merge.h"

#include "base/alloc.h"

void tft_merge_init(struct tft_merge *m, const struct tft_allocator *a)
{
    m->allocator = a;
    m->owned = NULL;
    m->symbol = m->short_symbol;
    m->heap = m->short_heap;
    m->text = m->short_text;
    m->capacity = TFT_MERGE_SHORT;
    m->n = m->n_heap = 0;
}

void tft_merge_free(struct tft_merge *m)
{
    tft_free(m->allocator, m->owned, m->owned_size);
    tft_merge_init(m, m->allocator);
}

static void place(struct tft_merge *m, struct tft_arena *a, size_t capacity)
{
    m->symbol = tft_arena_take(a, capacity, sizeof *m->symbol);
    m->heap = tft_arena_take(a, capacity, sizeof *m->heap);
    m->text = tft_arena_take(a, capacity, 1);
    m->capacity = capacity;
}

/* Makes room for n bytes, and at least doubles the capacity, so texts of growing length do not cost
   an allocation each. */
static enum tft_status grow(struct tft_merge *m, size_t n, size_t longest)
{
    size_t capacity = n < 2 * m->capacity ? 2 * m->capacity : n;
    if (capacity > longest)
        capacity = longest;
    tft_merge_free(m);

    struct tft_arena count = {0};
    place(m, &count, capacity);
    m->owned = count.failed ? NULL : tft_alloc(m->allocator, count.used);
    if (!m->owned) {
        tft_merge_init(m, m->allocator);
        return TFT_ERR_NOMEM;
    }
    m->owned_size = count.used;
    place(m, &(struct tft_arena){.base = m->owned}, capacity);
    return TFT_OK;
}

enum tft_status tft_merge_start(struct tft_merge *m, size_t n, size_t longest)
{
    enum tft_status status = n <= m->capacity ? TFT_OK : grow(m, n, longest);
    m->n = (uint32_t)n;
    m->n_heap = 0;
    return status;
}

void tft_merge_add(struct tft_merge *m, uint32_t pos, uint32_t end, int32_t id)
{
    m->symbol[pos].next = end;
    m->symbol[pos].id = id;
    m->symbol[pos].heap_index = TFT_NOT_IN_HEAP;
    if (end < m->n)
        m->symbol[end].prev = pos;
}

/* ---- the heap */

static void heap_store(struct tft_merge *m, uint32_t index, uint64_t key)
{
    m->heap[index] = key;
    m->symbol[(uint32_t)key].heap_index = index;
}

static void sift_up(struct tft_merge *m, uint32_t index, uint64_t key)
{
    for (; index; index = (index - 1) / 2) {
        uint64_t parent = m->heap[(index - 1) / 2];
        if (parent < key)
            break;
        heap_store(m, index, parent);
    }
    heap_store(m, index, key);
}

static void sift_down(struct tft_merge *m, uint32_t index, uint64_t key)
{
    for (uint64_t child; (child = 2 * (uint64_t)index + 1) < m->n_heap; index = (uint32_t)child) {
        if (child + 1 < m->n_heap && m->heap[child + 1] < m->heap[child])
            child++;
        if (key < m->heap[child])
            break;
        heap_store(m, index, m->heap[child]);
    }
    heap_store(m, index, key);
}

/* Inserts a symbol, or moves the symbol to the place of its new key. */
static void heap_set(struct tft_merge *m, uint32_t pos, uint64_t key)
{
    uint32_t index = m->symbol[pos].heap_index;
    if (index == TFT_NOT_IN_HEAP)
        sift_up(m, m->n_heap++, key);
    else if (key < m->heap[index])
        sift_up(m, index, key);
    else
        sift_down(m, index, key);
}

static void heap_remove(struct tft_merge *m, uint32_t pos)
{
    uint32_t index = m->symbol[pos].heap_index;
    if (index == TFT_NOT_IN_HEAP)
        return;
    m->symbol[pos].heap_index = TFT_NOT_IN_HEAP;
    uint64_t last = m->heap[--m->n_heap];
    if (index == m->n_heap)
        return;
    m->symbol[(uint32_t)last].heap_index = index; /* the removed key is still there for heap_set */
    heap_set(m, (uint32_t)last, last);
}

/* ---- merging */

/* Looks up the token of a symbol and the next symbol, after one of the two has changed. */
static void update_pair(struct tft_merge *m, uint32_t pos, tft_merge_join *join, const void *ctx)
{
    struct tft_symbol *s = &m->symbol[pos];
    uint32_t rank;
    if (s->next < m->n && join(ctx, m, pos, s->next, &s->merged_id, &rank))
        heap_set(m, pos, (uint64_t)rank << 32 | pos);
    else
        heap_remove(m, pos);
}

void tft_merge_run(struct tft_merge *m, tft_merge_join *join, const void *ctx)
{
    for (uint32_t pos = 0; pos < m->n; pos = m->symbol[pos].next)
        update_pair(m, pos, join, ctx);
    while (m->n_heap) {
        uint32_t pos = (uint32_t)m->heap[0];
        struct tft_symbol *s = &m->symbol[pos];
        heap_remove(m, s->next);
        s->id = s->merged_id;
        s->next = m->symbol[s->next].next;
        if (s->next < m->n)
            m->symbol[s->next].prev = pos;
        update_pair(m, pos, join, ctx);
        if (pos)
            update_pair(m, s->prev, join, ctx);
    }
}
