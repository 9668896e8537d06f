#define _POSIX_C_SOURCE 200809L
#include "transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "elsewhere.h"
#include "hash.h"

/* A file that grows. */
struct transfer {
    const struct cache *c;
    const char *repo;
    const struct pull_file *f;
    struct transfer_bar *bar;
    struct hash hash; /* of the bytes so far */
    uint64_t held;
    int fd;
};

uint64_t transfer_missing(const struct cache *c, const struct pull_file *f)
{
    char name[80];
    struct stat s;
    int blobs = cache_folder(c->fd, "blobs", false);
    snprintf(name, sizeof name, "%s.incomplete", f->hash);
    bool part = blobs >= 0 && fstatat(blobs, name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISREG(s.st_mode) && (uint64_t)s.st_size <= f->size;
    if (blobs >= 0)
        close(blobs);
    return cache_has(c, f) ? 0 : f->size - (part ? (uint64_t)s.st_size : 0);
}

/* Erases the progress line, before a message. */
static void quiet(void *user)
{
    struct transfer *t = user;
    cli_progress_end(&t->bar->line);
}

static int fail(struct transfer *t, const char *why)
{
    quiet(t);
    return cli_fail("%s: %s: %s", t->repo, t->f->path, why);
}

/* ---- the bytes of the hub */

static uint64_t held(void *user)
{
    const struct transfer *t = user;
    return t->held;
}

/* Starts over if the bytes begin at 0. */
static bool begin(void *user, uint64_t at)
{
    struct transfer *t = user;
    if (at)
        return true;
    t->bar->done -= t->held < t->bar->done ? t->held : t->bar->done;
    t->held = 0;
    if (ftruncate(t->fd, 0) == 0 && lseek(t->fd, 0, SEEK_SET) == 0 &&
        hash_begin(&t->hash, strlen(t->f->hash), t->f->size))
        return true;
    fail(t, strerror(errno));
    return false;
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno != EINTR)
            return false;
        p += put > 0 ? put : 0;
        n -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

static bool take(void *user, const char *p, size_t n)
{
    struct transfer *t = user;
    struct transfer_bar *b = t->bar;
    if (n > t->f->size - t->held) {
        fail(t, "the hub sends more bytes than it said");
        return false;
    }
    if (!write_all(t->fd, p, n)) {
        fail(t, strerror(errno));
        return false;
    }
    if (!hash_add(&t->hash, p, n)) {
        fail(t, "its hash cannot be computed");
        return false;
    }
    t->held += n;
    b->done += n;
    b->fetched += n;
    if (b->done < b->total)
        cli_progress_at(&b->line, (double)b->done / (double)b->total);
    return true;
}

/* ---- a file */

/* path = the address of the file. Bytes that are not plain letters become %XX. */
static bool url_of(const struct hub *h, const char *repo, const char *commit, const char *path,
                   char url[PULL_URL])
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~/";
    int n = snprintf(url, PULL_URL, "%s/%s/resolve/%s/", hub_endpoint(h), repo, commit);
    for (; *path && n > 0 && n + 4 < PULL_URL; path++)
        if (strchr(plain, *path))
            url[n++] = *path;
        else
            n += snprintf(url + n, 4, "%%%02X", (unsigned char)*path);
    if (*path || n < 0 || n >= PULL_URL)
        return false;
    url[n] = 0;
    return true;
}

static bool go_on(void *user, size_t n)
{
    (void)user, (void)n;
    return !cli_interrupted();
}

/* Takes up what an earlier try has left. */
static int resume(struct transfer *t)
{
    if (!hash_begin(&t->hash, strlen(t->f->hash), t->f->size))
        return fail(t, "its hash cannot be computed");
    if (t->held <= t->f->size && hash_add_file(&t->hash, t->fd, t->held, go_on, NULL))
        return CLI_OK;
    if (cli_interrupted())
        return CLI_INTERRUPTED;
    return begin(t, 0) ? CLI_OK : CLI_FAILED;
}

/* Compares the hash, and makes the file a blob. */
static int finish(struct transfer *t)
{
    char digits[65] = "";
    if (t->held != t->f->size)
        return fail(t, "the hub sends fewer bytes than it said: try again");
    if (!hash_end(&t->hash, digits))
        return fail(t, "its hash cannot be computed");
    if (strcmp(digits, t->f->hash) != 0) {
        cache_end_part(t->c, t->f->hash, false);
        return cli_fail("%s: %s: the hash of these bytes is %s and not %s, as the hub says: they "
                        "are removed, try again",
                        t->repo, t->f->path, digits, t->f->hash);
    }
    if (fsync(t->fd) != 0)
        return fail(t, strerror(errno));
    return cache_end_part(t->c, t->f->hash, true);
}

static int fetch(struct hub *h, const char *url, struct transfer *t)
{
    struct hub_sink sink = {held, begin, take, quiet, t};
    t->fd = cache_open_part(t->c, t->f->hash, &t->held);
    int status = t->fd >= 0 ? resume(t) : CLI_FAILED;
    if (status == CLI_OK && (t->held < t->f->size || !t->f->size))
        status = hub_get(h, url, t->repo, &sink, NULL);
    quiet(t);
    if (status == CLI_OK)
        status = finish(t);
    hash_close(&t->hash);
    if (t->fd >= 0)
        close(t->fd);
    return status;
}

int transfer_file(struct hub *h, const struct cache *c, const char *repo, const char *commit,
                  const struct pull_file *f, struct transfer_bar *bar)
{
    struct transfer t = {.c = c, .repo = repo, .f = f, .bar = bar, .fd = -1};
    char url[PULL_URL];
    int lock = -1;
    if (cache_has(c, f))
        return CLI_OK;
    if (!url_of(h, repo, commit, f->path, url))
        return fail(&t, "the name is too long");
    int status = cache_lock(c, f->hash, &lock);
    /* another process may have fetched it meanwhile */
    if (status == CLI_OK && !cache_has(c, f) && !elsewhere_take(c, repo, f))
        status = cli_interrupted() ? CLI_INTERRUPTED : fetch(h, url, &t);
    if (lock >= 0)
        close(lock);
    return status;
}
