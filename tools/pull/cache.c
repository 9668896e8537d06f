#define _DEFAULT_SOURCE
#define _POSIX_C_SOURCE 200809L
#include "cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "settings.h"
#include "tools/cli/cli.h"

enum {
    FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
    WRITE = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
    NEW = 0666,
    DEPTH = 8,
};

/* -------------------------------------------------------------------------------------- folders */

void cache_make_folders(const char *path)
{
    char part[PULL_PATH];
    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/'))
        if (pull_path_print(part, "%.*s", (int)(slash - path), path))
            mkdir(part, 0777);
}

int cache_folder(int under, const char *path, bool make)
{
    int fd = fcntl(under, F_DUPFD_CLOEXEC, 0);
    char part[256];
    for (size_t n; fd >= 0 && *path; path += n + (path[n] == '/')) {
        n = strcspn(path, "/");
        snprintf(part, sizeof part, "%.*s", (int)n, path);
        if (make)
            mkdirat(fd, part, 0777);
        int next = openat(fd, part, FOLDER);
        int err = errno;
        close(fd);
        errno = err;
        fd = next;
    }
    return fd;
}

int cache_open(struct cache *c, const char *repo, bool make)
{
    char hub[PULL_PATH], name[PULL_REPO + 16];
    *c = (struct cache){.fd = -1};
    pull_name_folder(repo, name);
    if (!settings_hub_folder(hub) || !pull_path_print(c->folder, "%s/%s", hub, name) ||
        !pull_path_print(c->locks, "%s/.locks/%s", hub, name))
        return cli_fail("no folder for models: set HF_HOME, or HOME");
    if (make) {
        cache_make_folders(c->folder);
        mkdir(c->folder, 0777);
    }
    c->fd = open(c->folder, FOLDER);
    if (c->fd < 0)
        return make ? cli_fail("%s: %s", c->folder, strerror(errno)) : CLI_FAILED;
    return CLI_OK;
}

void cache_close(struct cache *c)
{
    if (c->fd >= 0)
        close(c->fd);
    c->fd = -1;
}

/* --------------------------------------------------------------------------------------- record */

static const char record_name[] = ".tuffet";

/* Adds a line before its file is made. */
static int record(const struct cache *c, const char *kind, const char *name)
{
    char line[PULL_PATH];
    int fd = openat(c->fd, record_name, WRITE | O_APPEND, NEW);
    bool ok = fd >= 0 && pull_path_print(line, "%s/%s\n", kind, name) &&
              write(fd, line, strlen(line)) == (ssize_t)strlen(line);
    int err = errno;
    if (fd >= 0)
        close(fd);
    return ok ? CLI_OK : cli_fail("%s/%s: %s", c->folder, record_name, strerror(err));
}

/* Up to `most` bytes of a file. Returns their number. */
static size_t read_some(int fd, char *p, size_t most)
{
    size_t n = 0;
    ssize_t got = 1;
    while (n < most && got > 0) {
        got = read(fd, p + n, most - n);
        n += got > 0 ? (size_t)got : 0;
    }
    return n;
}

/* All of a file of at most `most` bytes, with a NUL after it; NULL: there is none. */
static char *read_at(int folder, const char *name, size_t most)
{
    struct stat s;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool fits = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && (uint64_t)s.st_size <= most;
    char *text = fits ? malloc((size_t)s.st_size + 1) : NULL;
    if (text)
        text[read_some(fd, text, (size_t)s.st_size)] = 0;
    if (fd >= 0)
        close(fd);
    return text;
}

char *cache_record(const struct cache *c) { return read_at(c->fd, record_name, 64 << 20); }

/* ---------------------------------------------------------------------------------------- blobs */

static int blobs(const struct cache *c, bool make)
{
    int fd = cache_folder(c->fd, "blobs", make);
    if (fd < 0 && make)
        cli_fail("%s/blobs: %s", c->folder, strerror(errno));
    return fd;
}

bool cache_has(const struct cache *c, const struct pull_file *f)
{
    struct stat s;
    int fd = blobs(c, false);
    bool has = fd >= 0 && fstatat(fd, f->hash, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
               S_ISREG(s.st_mode) && (uint64_t)s.st_size == f->size;
    if (fd >= 0)
        close(fd);
    return has;
}

int cache_lock(const struct cache *c, const char *hash, int *lock)
{
    const struct timespec fifth = {.tv_nsec = 200000000};
    char path[PULL_PATH];
    if (!pull_path_print(path, "%s/%s.lock", c->locks, hash))
        return cli_fail("%s: the path is too long", c->locks);
    cache_make_folders(path);
    *lock = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, NEW);
    if (*lock < 0)
        return cli_fail("%s: %s", path, strerror(errno));
    for (bool told = false; flock(*lock, LOCK_EX | LOCK_NB) != 0; told = true) {
        if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS)
            return CLI_OK; /* a network's file system without locks */
        if (!told)
            fputs("tuffet: another process fetches this file: waiting for it\n", stderr);
        if (cli_interrupted())
            return CLI_INTERRUPTED;
        nanosleep(&fifth, NULL);
    }
    return CLI_OK;
}

static void part_name(const char *hash, char out[80]) { snprintf(out, 80, "%s.incomplete", hash); }

int cache_open_part(const struct cache *c, const char *hash, uint64_t *held)
{
    char name[80];
    struct stat s = {0};
    int folder = blobs(c, true);
    if (folder < 0 || record(c, "blobs", hash) != CLI_OK) {
        if (folder >= 0)
            close(folder);
        return -1;
    }
    part_name(hash, name);
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, NEW);
    int err = errno;
    close(folder);
    if (fd < 0) {
        cli_fail("%s/blobs/%s: %s", c->folder, name, strerror(err));
    } else if (fstat(fd, &s) != 0 || !S_ISREG(s.st_mode) || s.st_nlink != 1) {
        cli_fail("%s/blobs/%s: it is no file of its own: remove it", c->folder, name);
        close(fd);
        fd = -1;
    }
    *held = (uint64_t)s.st_size;
    return fd;
}

int cache_end_part(const struct cache *c, const char *hash, bool keep)
{
    char name[80];
    int folder = blobs(c, false);
    part_name(hash, name);
    bool ok = folder >= 0 &&
              (keep ? renameat(folder, name, folder, hash) == 0 : unlinkat(folder, name, 0) == 0);
    int err = errno;
    if (folder >= 0)
        close(folder);
    return ok ? CLI_OK : cli_fail("%s/blobs/%s: %s", c->folder, name, strerror(err));
}

bool cache_adopt(const struct cache *c, const char *hash, const char *path)
{
    int folder = blobs(c, true);
    bool ok = folder >= 0 && record(c, "blobs", hash) == CLI_OK &&
              linkat(AT_FDCWD, path, folder, hash, 0) == 0;
    if (folder >= 0)
        close(folder);
    return ok;
}

/* ------------------------------------------------------------------------------------ snapshots */

/* text = the link from a snapshot's file to its blob: "../../blobs/HASH", one ".." more for each
   folder of the path. */
static bool link_text(const struct pull_file *f, char text[PULL_PATH])
{
    size_t n = 0;
    for (const char *p = f->path; p; p = strchr(p + 1, '/'), n += 3)
        if (n + 80 > PULL_PATH)
            return false;
        else
            memcpy(text + n, "../", 3);
    return snprintf(text + n, PULL_PATH - n, "../blobs/%s", f->hash) > 0;
}

/* Whether the name already leads to the blob, or is a file of the same size: where there are no
   links, other programs keep files themselves. */
static bool is_linked(int folder, const char *name, const char *text, uint64_t size)
{
    char old[PULL_PATH];
    struct stat s;
    ssize_t n = readlinkat(folder, name, old, sizeof old);
    if (n >= 0)
        return (size_t)n == strlen(text) && memcmp(old, text, (size_t)n) == 0;
    return fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(s.st_mode) &&
           (uint64_t)s.st_size == size;
}

/* Puts a link in place of whatever has the name. */
static bool put_link(int folder, const char *name, const char *text)
{
    char draft[64];
    snprintf(draft, sizeof draft, ".tuffet-%ld", (long)getpid());
    unlinkat(folder, draft, 0);
    if (symlinkat(text, folder, draft) != 0)
        return false;
    if (renameat(folder, draft, folder, name) == 0)
        return true;
    int err = errno;
    unlinkat(folder, draft, 0);
    errno = err;
    return false;
}

int cache_link(const struct cache *c, const char *commit, const struct pull_file *f)
{
    char path[PULL_PATH], text[PULL_PATH];
    const char *slash = strrchr(f->path, '/'), *name = slash ? slash + 1 : f->path;
    int n = slash ? (int)(slash - f->path) : 0;
    if (!link_text(f, text) || !pull_path_print(path, "%s/%.*s", commit, n, f->path))
        return cli_fail("%s: the path is too long", c->folder);
    int snapshots = cache_folder(c->fd, "snapshots", true);
    int folder = snapshots >= 0 ? cache_folder(snapshots, path, true) : -1;
    int status = CLI_OK;
    if (folder >= 0 && !is_linked(folder, name, text, f->size)) {
        pull_path_print(path, "%s/%s", commit, f->path);
        status = record(c, "snapshots", path);
        if (status == CLI_OK && !put_link(folder, name, text))
            status = cli_fail("%s/snapshots/%s: %s", c->folder, path, strerror(errno));
    } else if (folder < 0) {
        status = cli_fail("%s/snapshots/%s: %s", c->folder, path, strerror(errno));
    }
    if (snapshots >= 0)
        close(snapshots);
    if (folder >= 0)
        close(folder);
    return status;
}

/* ----------------------------------------------------------------------------------------- refs */

bool cache_commit(const struct cache *c, char commit[41])
{
    int refs = cache_folder(c->fd, "refs", false);
    char *text = refs >= 0 ? read_at(refs, "main", 64) : NULL;
    if (text)
        text[strcspn(text, " \r\n")] = 0;
    bool ok = text && pull_is_hex(text, 40);
    if (ok)
        memcpy(commit, text, 41);
    free(text);
    if (refs >= 0)
        close(refs);
    return ok;
}

int cache_set_commit(const struct cache *c, const char *commit)
{
    char draft[64], old[41];
    if (cache_commit(c, old) && strcmp(old, commit) == 0)
        return CLI_OK;
    if (record(c, "refs", "main") != CLI_OK)
        return CLI_FAILED;
    snprintf(draft, sizeof draft, ".tuffet-%ld", (long)getpid());
    int refs = cache_folder(c->fd, "refs", true);
    if (refs >= 0)
        unlinkat(refs, draft, 0);
    int fd = refs >= 0 ? openat(refs, draft, WRITE | O_EXCL, NEW) : -1;
    bool ok = fd >= 0 && write(fd, commit, 40) == 40;
    ok = fd >= 0 && close(fd) == 0 && ok;
    ok = ok && renameat(refs, draft, refs, "main") == 0;
    int err = errno;
    if (refs >= 0)
        close(refs);
    return ok ? CLI_OK : cli_fail("%s/refs/main: %s", c->folder, strerror(err));
}

/* ---------------------------------------------------------------------------------------- files */

static int add_files(int folder, const char *under, int depth, struct pull_files *files);

/* Adds a file, or the files of a folder. A link may lead to a file, not to a folder. */
static int add_found(int folder, const char *under, const char *name, int depth,
                     struct pull_files *files)
{
    char path[PULL_PATH];
    struct stat s;
    if (!pull_path_print(path, "%s%s%s", under, *under ? "/" : "", name) ||
        !pull_path_is_safe(path))
        return CLI_OK;
    int inside = depth < DEPTH ? openat(folder, name, FOLDER) : -1;
    if (inside >= 0)
        return add_files(inside, path, depth + 1, files);
    if (fstatat(folder, name, &s, 0) != 0 || !S_ISREG(s.st_mode))
        return CLI_OK; /* a link to a blob that is gone */
    struct pull_file f = {.path = path, .size = (uint64_t)s.st_size};
    return pull_files_add(files, &f) ? CLI_OK : cli_fail("out of memory");
}

static int by_path(const void *a, const void *b)
{
    const struct pull_file *x = a, *y = b;
    return strcmp(x->path, y->path);
}

/* Closes the folder. */
static int add_files(int folder, const char *under, int depth, struct pull_files *files)
{
    DIR *d = fdopendir(folder);
    int status = CLI_OK;
    if (!d)
        close(folder);
    for (struct dirent *e; d && status == CLI_OK && (e = readdir(d));)
        if (e->d_name[0] != '.')
            status = add_found(dirfd(d), under, e->d_name, depth, files);
    if (d)
        closedir(d);
    return status;
}

int cache_files(const struct cache *c, const char *commit, struct pull_files *files)
{
    int snapshots = cache_folder(c->fd, "snapshots", false);
    int folder = snapshots >= 0 ? cache_folder(snapshots, commit, false) : -1;
    int status = folder >= 0 ? add_files(folder, "", 0, files) : CLI_OK;
    if (snapshots >= 0)
        close(snapshots);
    if (files->n)
        qsort(files->p, files->n, sizeof *files->p, by_path);
    return status;
}
