/* Files of a repository. */
#ifndef PULL_FILES_H
#define PULL_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pull_file {
    char *path; /* in the repository; safe (name.h) */
    uint64_t size;
    char hash[65]; /* of its contents: sha256, or git's SHA-1 of a blob; empty: unknown */
};

/* Starts from all zero. */
struct pull_files {
    struct pull_file *p;
    size_t n, room;
};

/* Adds a copy. false: out of memory. */
bool pull_files_add(struct pull_files *l, const struct pull_file *f);
void pull_files_free(struct pull_files *l);

/* The file with this path, or NULL. */
const struct pull_file *pull_files_find(const struct pull_files *l, const char *path);

uint64_t pull_files_size(const struct pull_files *l);

#endif
