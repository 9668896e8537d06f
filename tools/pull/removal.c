#define _POSIX_C_SOURCE 200809L
#include "removal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "choice.h"
#include "imported.h"
#include "tools/cli/cli.h"

enum { FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, DEPTH = 8 };

/* ---- folders */

/* The folder that a path of the record lies in, and *name, the rest; -1: it is not there. */
static int folder_of(const struct cache *c, const char *path, const char **name)
{
    char folder[PULL_PATH];
    const char *slash = strrchr(path, '/');
    if (!slash || !pull_path_print(folder, "%.*s", (int)(slash - path), path))
        return -1;
    *name = slash + 1;
    return cache_folder(c->fd, folder, false);
}

/* Removes a file, and adds its size, or a link. false: there is none. */
static bool remove_path(const struct cache *c, const char *path, struct removal *r)
{
    struct stat s;
    const char *name;
    int folder = folder_of(c, path, &name);
    bool removed = folder >= 0 && fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
                   !S_ISDIR(s.st_mode) && unlinkat(folder, name, 0) == 0;
    if (removed && S_ISREG(s.st_mode))
        r->bytes += (uint64_t)s.st_size;
    if (folder >= 0)
        close(folder);
    return removed;
}

/* Removes the folders of a path that are empty now. */
static void remove_empty(const struct cache *c, const char *path)
{
    char folder[PULL_PATH];
    pull_path_print(folder, "%s", path);
    for (char *slash; (slash = strrchr(folder, '/'));) {
        *slash = 0;
        const char *name = folder;
        int in = strchr(folder, '/') ? folder_of(c, folder, &name) : dup(c->fd);
        if (in >= 0) {
            unlinkat(in, name, AT_REMOVEDIR);
            close(in);
        }
    }
}

/* Whether a link under the folder, which is closed, leads to the blob. */
static bool is_linked(int folder, const char *hash, int depth)
{
    char to[PULL_PATH];
    size_t len = strlen(hash);
    bool found = false;
    DIR *d = folder >= 0 ? fdopendir(folder) : NULL;
    if (folder >= 0 && !d)
        close(folder);
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        ssize_t n = readlinkat(dirfd(d), e->d_name, to, sizeof to);
        if (n >= 0)
            found = (size_t)n >= len && memcmp(to + n - len, hash, len) == 0;
        else if (e->d_name[0] != '.' && depth < DEPTH)
            found = is_linked(openat(dirfd(d), e->d_name, FOLDER), hash, depth + 1);
    }
    if (d)
        closedir(d);
    return found;
}

/* ---- lines of the record: blobs/HASH, snapshots/COMMIT/PATH, refs/main */

static const char *after(const char *line, const char *beginning)
{
    size_t n = strlen(beginning);
    return strncmp(line, beginning, n) == 0 ? line + n : NULL;
}

static bool is_hash(const char *text) { return pull_is_hex(text, 40) || pull_is_hex(text, 64); }

/* Removes the link of a snapshot, if the name chooses it. */
static void remove_snapshot(const struct cache *c, const struct pull_name *n, const char *line,
                            struct removal *r)
{
    const char *path = after(line, "snapshots/");
    if (!path || !pull_path_is_safe(path) || strcspn(path, "/") != 40 || !path[40])
        return;
    if (*n->quant && !choice_matches(path + 41, n->quant))
        return;
    r->files += remove_path(c, line, r);
    remove_empty(c, line);
}

/* Removes a blob that no link leads to, and with all of a repository what an earlier try left. */
static void remove_blob(const struct cache *c, const struct pull_name *n, const char *line,
                        struct removal *r)
{
    char part[PULL_PATH];
    const char *hash = after(line, "blobs/");
    if (!hash || !is_hash(hash))
        return;
    if (!is_linked(cache_folder(c->fd, "snapshots", false), hash, 0))
        remove_path(c, line, r);
    if (!*n->quant && pull_path_print(part, "%s.incomplete", line))
        remove_path(c, part, r);
}

static bool is_there(const struct cache *c, const char *path)
{
    struct stat s;
    const char *name;
    int folder = pull_path_is_safe(path) ? folder_of(c, path, &name) : -1;
    bool there = folder >= 0 && fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) == 0;
    if (folder >= 0)
        close(folder);
    return there;
}

/* Calls f for each line of text, up to `end`; a NUL ends each. */
static void each_line(const struct cache *c, const struct pull_name *n, const char *text,
                      const char *end, struct removal *r,
                      void (*f)(const struct cache *, const struct pull_name *, const char *,
                                struct removal *))
{
    for (; text < end; text += strlen(text) + 1)
        f(c, n, text, r);
}

/* Whether a line's file is there, whole or in part. */
static bool is_kept(const struct cache *c, const char *line)
{
    char part[PULL_PATH];
    return is_there(c, line) || (pull_path_print(part, "%s.incomplete", line) && is_there(c, part));
}

/* Keeps the lines of files that are still there. */
static int rewrite(const struct cache *c, const char *text, const char *end)
{
    bool ok = true;
    size_t n = 0;
    int fd =
        openat(c->fd, ".tuffet.new", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    for (; fd >= 0 && text < end; text += strlen(text) + 1)
        if (is_kept(c, text)) {
            ok = ok && dprintf(fd, "%s\n", text) > 0;
            n++;
        }
    ok = fd >= 0 && close(fd) == 0 && ok;
    ok = ok && renameat(c->fd, ".tuffet.new", c->fd, ".tuffet") == 0;
    if (ok && !n)
        unlinkat(c->fd, ".tuffet", 0);
    return ok ? CLI_OK : cli_fail("%s/.tuffet: %s", c->folder, strerror(errno));
}

/* Without snapshots, refs/main leads nowhere. */
static void remove_rest(const struct cache *c, const char *text, const char *end)
{
    struct removal ignored = {0};
    int snapshots = cache_folder(c->fd, "snapshots", false);
    for (; snapshots < 0 && text < end; text += strlen(text) + 1)
        if (strcmp(text, "refs/main") == 0)
            remove_path(c, text, &ignored);
    if (snapshots >= 0)
        close(snapshots);
    unlinkat(c->fd, "refs", AT_REMOVEDIR);
    unlinkat(c->fd, "blobs", AT_REMOVEDIR);
}

static int remove_recorded(const struct cache *c, const struct pull_name *n, char *text,
                           struct removal *r)
{
    const char *end = text + strlen(text);
    for (char *p = text; (p = strchr(p, '\n'));)
        *p++ = 0;
    each_line(c, n, text, end, r, remove_snapshot);
    each_line(c, n, text, end, r, remove_blob);
    remove_rest(c, text, end);
    return rewrite(c, text, end);
}

int removal_make(const struct pull_name *n, struct removal *r)
{
    struct cache c;
    *r = (struct removal){0};
    char *text = cache_open(&c, n->repo, false) == CLI_OK ? cache_record(&c) : NULL;
    int status = text ? remove_recorded(&c, n, text, r) : CLI_OK;
    free(text);
    if (!*n->quant)
        r->files += imported_remove(n->repo, &r->bytes);
    cache_close(&c);
    rmdir(c.folder); /* if it is empty now */
    if (status == CLI_OK && !r->files && !r->bytes)
        return cli_fail("%s%s%s: tuffet pull has fetched no such model: what other programs keep, "
                        "they remove",
                        n->repo, *n->quant ? ":" : "", n->quant);
    return status;
}
