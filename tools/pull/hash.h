/* Hashes by which the hub names contents: sha256 of large files, and of small ones git's SHA-1 of a
   blob, which begins with "blob SIZE" and a zero byte. */
#ifndef PULL_HASH_H
#define PULL_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts from all zero. */
struct hash {
    void *context;
};

/* Begins anew. digits: 64 for sha256, 40 for git's SHA-1; size: of the file. The functions return
   false if the library of hashes fails. */
bool hash_begin(struct hash *h, size_t digits, uint64_t size);
bool hash_add(struct hash *h, const void *p, size_t n);
bool hash_end(struct hash *h, char digits[65]); /* in lower case */
void hash_close(struct hash *h);

/* Adds n bytes of a file, from its current position. false: the file is shorter, or *go_on()
   returned false after a part. */
bool hash_add_file(struct hash *h, int fd, uint64_t n, bool (*go_on)(void *user, size_t n),
                   void *user);

#endif
