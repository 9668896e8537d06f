#include "keys.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "sha256.h"

struct keys {
    size_t n;
    struct key {
        char name[KEYS_NAME + 1];
        unsigned char hash[SHA256_BYTES];
    } key[KEYS_MOST];
};

static const char names[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

static bool is_name(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!p[i] || !strchr(names, p[i]))
            return false;
    return n && n <= KEYS_NAME;
}

/* A key is sent in a header: bytes that one sees. */
static bool is_key(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] <= ' ' || p[i] > '~')
            return false;
    return n;
}

/* Adds a line; returns what is wrong with it, or NULL. */
static const char *add(struct keys *k, const char *p, size_t n)
{
    const char *colon = memchr(p, ':', n);
    struct key *new = &k->key[k->n];
    if (k->n == KEYS_MOST)
        return "there are too many keys";
    if (!colon || !is_name(p, (size_t)(colon - p)))
        return "a line is name:key, and a name has up to 64 letters, digits and ._-";
    if (!is_key(colon + 1, (size_t)(p + n - colon - 1)))
        return "a key has one or more visible characters of ASCII";
    memcpy(new->name, p, (size_t)(colon - p));
    new->name[colon - p] = 0;
    sha256(colon + 1, (size_t)(p + n - colon - 1), new->hash);
    for (const struct key *old = k->key; old < new; old++)
        if (strcmp(old->name, new->name) == 0)
            return "a line above has this name";
        else if (memcmp(old->hash, new->hash, sizeof old->hash) == 0)
            return "a line above has this key";
    k->n++;
    return NULL;
}

struct keys *keys_parse(const char *p, size_t n, char *why)
{
    struct keys *k = calloc(1, sizeof *k);
    const char *wrong = k ? NULL : "out of memory", *end = p + n;
    size_t line = 0;
    p += tft_utf8_mark(p, n);
    while (p < end && !wrong) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        const char *next = stop ? stop + 1 : end;
        stop = stop ? stop : end;
        size_t len = (size_t)(stop - p);
        len -= len && p[len - 1] == '\r';
        line++;
        if (len && *p != '#')
            wrong = add(k, p, len);
        p = next;
    }
    if (!wrong && !k->n) /* no client could come in */
        wrong = "there is no key in it";
    if (!wrong)
        return k;
    snprintf(why, KEYS_WHY, "line %zu: %s", line, wrong);
    keys_free(k);
    return NULL;
}

struct keys *keys_read(const char *path, char *why)
{
    enum { MOST = 1 << 20 };
    FILE *f = fopen(path, "rb");
    char *text = malloc(MOST);
    size_t n = f && text ? fread(text, 1, MOST, f) : 0;
    struct keys *k = NULL;
    if (!f || ferror(f))
        snprintf(why, KEYS_WHY, "%s", strerror(errno));
    else if (!text)
        snprintf(why, KEYS_WHY, "out of memory");
    else if (n == MOST)
        snprintf(why, KEYS_WHY, "the file is too large");
    else
        k = keys_parse(text, n, why);
    if (f)
        fclose(f);
    free(text);
    return k;
}

void keys_free(struct keys *k) { free(k); }

const char *keys_find(const struct keys *k, const char *key)
{
    unsigned char hash[SHA256_BYTES];
    const char *name = NULL;
    sha256(key, strlen(key), hash);
    for (size_t i = 0; i < k->n; i++) {
        unsigned char differs = 0;
        for (int j = 0; j < SHA256_BYTES; j++)
            differs |= (unsigned char)(hash[j] ^ k->key[i].hash[j]);
        name = differs ? name : k->key[i].name;
    }
    return name;
}

bool keys_has_name(const struct keys *k, const char *name)
{
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->key[i].name, name) == 0)
            return true;
    return false;
}

static bool has_key(const struct keys *k, const struct key *key)
{
    for (size_t i = 0; i < k->n; i++)
        if (strcmp(k->key[i].name, key->name) == 0 &&
            memcmp(k->key[i].hash, key->hash, sizeof key->hash) == 0)
            return true;
    return false;
}

void keys_revoke(struct keys *k, const struct keys *by)
{
    size_t n = 0;
    for (size_t i = 0; i < k->n; i++)
        if (has_key(by, &k->key[i]))
            k->key[n++] = k->key[i];
    k->n = n;
}
