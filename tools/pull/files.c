#define _POSIX_C_SOURCE 200809L
#include "files.h"

#include <stdlib.h>
#include <string.h>

bool pull_files_add(struct pull_files *l, const struct pull_file *f)
{
    if (l->n == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        struct pull_file *more = realloc(l->p, room * sizeof *more);
        if (!more)
            return false;
        l->p = more;
        l->room = room;
    }
    char *path = strdup(f->path);
    if (!path)
        return false;
    l->p[l->n] = *f;
    l->p[l->n++].path = path;
    return true;
}

void pull_files_free(struct pull_files *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->p[i].path);
    free(l->p);
    *l = (struct pull_files){0};
}

const struct pull_file *pull_files_find(const struct pull_files *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->p[i].path, path) == 0)
            return &l->p[i];
    return NULL;
}

uint64_t pull_files_size(const struct pull_files *l)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < l->n; i++)
        sum += l->p[i].size;
    return sum;
}
