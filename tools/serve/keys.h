/* The keys of --api-key-file: one "name:key" a line. Lines that are empty or begin with # do not
   count. Memory has the SHA-256 of a key, not the key. */
#ifndef SERVE_KEYS_H
#define SERVE_KEYS_H

#include <stdbool.h>
#include <stddef.h>

enum { KEYS_MOST = 1024, KEYS_NAME = 64, KEYS_WHY = 200 };

struct keys;

/* NULL: the reason is in why[KEYS_WHY], with the number of the line. */
struct keys *keys_parse(const char *p, size_t n, char *why);

/* Likewise of a file. */
struct keys *keys_read(const char *path, char *why);

void keys_free(struct keys *k); /* k may be NULL */

/* The name of a key; NULL: there is no such key. Takes as long for each key. */
const char *keys_find(const struct keys *k, const char *key);

/* Forgets the keys that `by` does not have. */
void keys_revoke(struct keys *k, const struct keys *by);

bool keys_has_name(const struct keys *k, const char *name);

#endif
