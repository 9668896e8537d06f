#define _DEFAULT_SOURCE /* flock */
#include "directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "tools/cli/system_posix.h"

struct directory {
    int fd, lock; /* lock: -1: none */
};

int directory_make(const char *path)
{
    return mkdir(path, 0700) == 0 || errno == EEXIST ? 0 : errno;
}

int directory_open(struct directory **out, const char *path)
{
    struct directory *d = malloc(sizeof *d);
    int fd = d ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0) {
        int os = d ? errno : ENOMEM;
        free(d);
        return os;
    }
    *d = (struct directory){.fd = fd, .lock = -1};
    *out = d;
    return 0;
}

void directory_close(struct directory *d)
{
    if (!d)
        return;
    if (d->lock >= 0)
        close(d->lock);
    close(d->fd);
    free(d);
}

int directory_lock(struct directory *d, const char *name)
{
    d->lock = openat(d->fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (d->lock < 0)
        return errno;
    return flock(d->lock, LOCK_EX | LOCK_NB) == 0 ? 0 : EBUSY;
}

int directory_list(const struct directory *d, bool (*take)(void *user, const char *name),
                   void *user)
{
    int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *all = fd < 0 ? NULL : fdopendir(fd);
    if (!all) {
        int os = errno;
        if (fd >= 0)
            close(fd);
        return os;
    }
    for (struct dirent *entry; (entry = readdir(all)) != NULL && take(user, entry->d_name);)
        ;
    closedir(all);
    return 0;
}

bool directory_find(const struct directory *d, const char *name, struct system_file *out)
{
    struct stat st;
    if (fstatat(d->fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
        return false;
    *out = system_file_of(&st);
    return true;
}

int directory_read(const struct directory *d, const char *name)
{
    return openat(d->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
}

int directory_create(const struct directory *d, const char *name)
{
    return openat(d->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
}

int directory_sync(int fd) { return fsync(fd) == 0 ? 0 : errno; }

void directory_touch(int fd) { futimens(fd, NULL); }

int directory_replace(const struct directory *d, const char *from, const char *to)
{
    if (renameat(d->fd, from, d->fd, to) != 0)
        return errno;
    fsync(d->fd);
    return 0;
}

void directory_remove(const struct directory *d, const char *name) { unlinkat(d->fd, name, 0); }
