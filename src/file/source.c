#include "source.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crc32.h"
#include "base/error.h"
#include "base/heapsort.h"

/* ---- the index by name */

/* An array of records; a record begins with its name, a struct tft_str. */
struct named {
    const void *first;
    size_t stride;
};

static struct tft_str name_of(struct named x, uint32_t i)
{
    return *(const struct tft_str *)(const void *)((const char *)x.first + i * x.stride);
}

static int compare(struct tft_str a, struct tft_str b)
{
    int c = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* The order of records: by name, and equal names by index. */
static bool comes_before(const void *records, const void *a, const void *b)
{
    const struct named *x = records;
    const uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    int c = compare(name_of(*x, i), name_of(*x, j));
    return c < 0 || (c == 0 && i < j);
}

static void sort(struct named x, uint32_t *order, size_t n)
{
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    tft_heapsort(order, n, sizeof *order, comes_before, &x);
}

/* The first record with the name of an earlier record; n if all names differ. */
static size_t first_duplicate(struct named x, const uint32_t *order, size_t n)
{
    size_t first = n;
    for (size_t i = 1; i < n; i++)
        if (order[i] < first && compare(name_of(x, order[i - 1]), name_of(x, order[i])) == 0)
            first = order[i];
    return first;
}

static size_t find(struct named x, const uint32_t *order, size_t n, const char *name)
{
    struct tft_str wanted = {name, strlen(name)};
    size_t low = 0, high = n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = compare(name_of(x, order[mid]), wanted);
        if (c == 0)
            return order[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return n;
}

static struct named values(const struct tft_source *s)
{
    return (struct named){s->value, sizeof *s->value};
}

static struct named tensors(const struct tft_source *s)
{
    return (struct named){s->tensor, sizeof *s->tensor};
}

enum tft_status tft_source_index(struct tft_source *s, struct tft_error *err)
{
    sort(values(s), s->value_by_key, s->n_value);
    size_t i = first_duplicate(values(s), s->value_by_key, s->n_value);
    if (i < s->n_value)
        return tft_fail_at(err, TFT_ERR_FORMAT, s->name, s->value[i].offset,
                           "the key \"%.*s\" occurs twice", TFT_STR_ARG(s->value[i].key));

    sort(tensors(s), s->tensor_by_name, s->n_tensor);
    i = first_duplicate(tensors(s), s->tensor_by_name, s->n_tensor);
    if (i < s->n_tensor)
        return tft_fail_at(err, TFT_ERR_FORMAT, tft_source_file(s, s->tensor[i].data),
                           s->tensor[i].offset,
                           "the tensor \"%.*s\" occurs twice", TFT_STR_ARG(s->tensor[i].name));
    return TFT_OK;
}

const struct tft_value *tft_source_value(const struct tft_source *s, const char *key)
{
    size_t i = find(values(s), s->value_by_key, s->n_value, key);
    return i < s->n_value ? &s->value[i] : NULL;
}

const struct tft_tensor *tft_source_tensor(const struct tft_source *s, const char *name)
{
    size_t i = find(tensors(s), s->tensor_by_name, s->n_tensor, name);
    return i < s->n_tensor ? &s->tensor[i] : NULL;
}

/* ---- memory */

/* Places the arrays and a copy of the name: the caller may free its string. */
static void *place(struct tft_source *s, struct tft_arena *a, size_t extra)
{
    size_t length = strlen(s->name) + 1;
    char *name = tft_arena_take(a, length, 1);
    if (name)
        s->name = memcpy(name, s->name, length);
    s->value = tft_arena_take(a, s->n_value, sizeof *s->value);
    s->tensor = tft_arena_take(a, s->n_tensor, sizeof *s->tensor);
    s->value_by_key = tft_arena_take(a, s->n_value, sizeof *s->value_by_key);
    s->tensor_by_name = tft_arena_take(a, s->n_tensor, sizeof *s->tensor_by_name);
    return tft_arena_take(a, extra, 1);
}

void *tft_source_reserve(struct tft_source *s, size_t n_value, size_t n_tensor, size_t extra,
                         struct tft_error *err)
{
    s->n_value = n_value;
    s->n_tensor = n_tensor;
    struct tft_arena count = {0};
    place(s, &count, extra);
    if (!count.failed)
        s->owned = tft_alloc(s->allocator, count.used);
    if (!s->owned) {
        s->n_value = s->n_tensor = 0;
        tft_fail(err, TFT_ERR_NOMEM,
                 "%s: out of memory for the names of %zu values and %zu tensors", s->name,
                 n_value, n_tensor);
        return NULL;
    }
    s->owned_size = count.used;
    return place(s, &(struct tft_arena){.base = s->owned}, extra);
}

/* The mapped file that p points into; NULL: the file is not mapped. */
static const struct tft_map *map_of(const struct tft_source *s, const unsigned char *p)
{
    for (size_t i = 0; i < s->n_more; i++)
        if ((uintptr_t)p - (uintptr_t)s->more[i].data < s->more[i].size)
            return &s->more[i];
    return s->map[0].data ? &s->map[0] : NULL;
}

uint64_t tft_source_offset(const struct tft_source *s, const unsigned char *p)
{
    const struct tft_map *map = map_of(s, p);
    return (uint64_t)((uintptr_t)p - (uintptr_t)(map ? map->data : s->data));
}

const char *tft_source_file(const struct tft_source *s, const unsigned char *p)
{
    const struct tft_map *map = map_of(s, p);
    bool first = !s->n_more || map == &s->map[0];
    return first ? s->name : s->more_name + (size_t)(map - s->more) * s->more_room;
}

uint64_t tft_source_bytes(const struct tft_source *s)
{
    uint64_t bytes = s->size;
    for (size_t i = 0; i < s->n_more; i++)
        bytes += s->more[i].size;
    return bytes;
}

size_t tft_source_described(const struct tft_source *s)
{
    uintptr_t at = s->n_tensor ? (uintptr_t)s->tensor[0].data - (uintptr_t)s->data : s->size;
    return at < s->size ? (size_t)at : s->size; /* the first part may have no tensors */
}

uint32_t tft_source_checksum(const struct tft_source *s)
{
    size_t before = tft_source_described(s);
    return tft_crc32(0, s->data + before, s->size - before);
}

bool tft_source_maps(const struct tft_source *s, const unsigned char *p)
{
    return map_of(s, p);
}

/* Advice on the n bytes at `from`. */
static void advise(const struct tft_source *s, const unsigned char *from, uint64_t n,
                   void (*advice)(const struct tft_map *map, size_t begin, size_t end))
{
    const struct tft_map *map = map_of(s, from);
    if (map)
        advice(map, (size_t)(from - map->data), (size_t)(from - map->data) + (size_t)n);
}

void tft_source_forget(const struct tft_source *s, const unsigned char *from, uint64_t n)
{
    advise(s, from, n, tft_port_forget);
}

void tft_source_prefetch(const struct tft_source *s, const unsigned char *from, uint64_t n)
{
    advise(s, from, n, tft_port_prefetch);
}

void tft_source_evict(const struct tft_source *s, const unsigned char *from, uint64_t n)
{
    advise(s, from, n, tft_port_evict);
}

void tft_source_close(struct tft_source *s)
{
    tft_free(s->allocator, s->owned, s->owned_size);
    tft_port_unmap(&s->map[0]);
    tft_port_unmap(&s->map[1]);
    for (size_t i = 0; i < s->n_more; i++)
        tft_port_unmap(&s->more[i]);
    tft_free(s->allocator, s->more, s->n_more * sizeof *s->more);
    *s = (struct tft_source){0};
}
