#define _POSIX_C_SOURCE 200809L
#include "hash.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <unistd.h>

bool hash_begin(struct hash *h, size_t digits, uint64_t size)
{
    if (!h->context)
        h->context = EVP_MD_CTX_new();
    if (!h->context ||
        EVP_DigestInit_ex(h->context, digits == 64 ? EVP_sha256() : EVP_sha1(), NULL) != 1)
        return false;
    char head[32];
    int n = snprintf(head, sizeof head, "blob %" PRIu64, size);
    return digits == 64 || hash_add(h, head, (size_t)n + 1);
}

bool hash_add(struct hash *h, const void *p, size_t n)
{
    return EVP_DigestUpdate(h->context, p, n) == 1;
}

bool hash_end(struct hash *h, char digits[65])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned n;
    if (EVP_DigestFinal_ex(h->context, sum, &n) != 1 || n > 32)
        return false;
    for (unsigned i = 0; i < n; i++)
        snprintf(digits + 2 * i, 3, "%02x", sum[i]);
    return true;
}

void hash_close(struct hash *h)
{
    EVP_MD_CTX_free(h->context);
    h->context = NULL;
}

bool hash_add_file(struct hash *h, int fd, uint64_t n, bool (*go_on)(void *user, size_t n),
                   void *user)
{
    char part[65536];
    while (n) {
        ssize_t got = read(fd, part, n < sizeof part ? (size_t)n : sizeof part);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || !hash_add(h, part, (size_t)got) || !go_on(user, (size_t)got))
            return false;
        n -= (uint64_t)got;
    }
    return true;
}
