/* All that a machine without files, threads and malloc writes of port/port.h. */
#include "port/team.h"

#include <errno.h>

/* ---- memory: none of its own. Who opens a model or a session passes an allocator (main.c). */

void *tft_port_alloc(size_t size, size_t align)
{
    (void)size, (void)align;
    return NULL;
}

void tft_port_free(void *ptr)
{
    (void)ptr;
}

uint64_t tft_port_memory(void)
{
    return 0;
}

/* ---- files: none. A model is opened in memory, by tft_model_open_mem. Temporary files need
   nothing here: the linker drops their callers. */

int tft_port_map(struct tft_map *out, const char *path)
{
    (void)out, (void)path;
    return ENOSYS;
}

int tft_port_map_part(struct tft_map *out, int fd, uint64_t offset, uint64_t size)
{
    (void)out, (void)fd, (void)offset, (void)size;
    return ENOSYS;
}

void tft_port_unmap(struct tft_map *map)
{
    (void)map;
}

void tft_port_forget(const struct tft_map *map, size_t begin, size_t end)
{
    (void)map, (void)begin, (void)end;
}

void tft_port_prefetch(const struct tft_map *map, size_t begin, size_t end)
{
    (void)map, (void)begin, (void)end;
}

void tft_port_evict(const struct tft_map *map, size_t begin, size_t end)
{
    (void)map, (void)begin, (void)end;
}

/* ---- plug-ins: none */

void *tft_port_load(void **library, const char *name, const char *symbol, char *why, size_t size)
{
    (void)library, (void)name, (void)symbol;
    if (size)
        *why = '\0';
    return NULL;
}

void tft_port_unload(void *library)
{
    (void)library;
}

/* ---- CPUs: one, without extensions. Teams come from port/threads_none.c. */

void tft_port_count_cpus(struct tft_cpus *out)
{
    *out = (struct tft_cpus){1, 1, 1, 0};
}

unsigned tft_port_cpu_features(void)
{
    return 0;
}

/* ---- waits: a team of one thread waits for nobody, and no clock is read */

uint64_t tft_port_ns(void)
{
    return 0;
}

void tft_port_sleep(atomic_uint *word, unsigned seen)
{
    (void)word, (void)seen;
}

void tft_port_wake(atomic_uint *word)
{
    (void)word;
}
