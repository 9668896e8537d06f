#define _WIN32_WINNT 0x0a00
#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

/* Narrow strings are UTF-8 because of tuffet.manifest. While the folder is open nobody can rename
   it, so its path leads to it. */
struct directory {
    char *path;
    HANDLE folder, lock; /* INVALID_HANDLE_VALUE: none */
};

static int last_errno(void)
{
    switch (GetLastError()) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME: return ENOENT;
    case ERROR_FILE_EXISTS:
    case ERROR_ALREADY_EXISTS: return EEXIST;
    case ERROR_ACCESS_DENIED: return EACCES;
    case ERROR_SHARING_VIOLATION: return EBUSY;
    case ERROR_DISK_FULL: return ENOSPC;
    case ERROR_NOT_ENOUGH_MEMORY: return ENOMEM;
    default: return EIO;
    }
}

/* The path of a file in the folder; the caller frees it. NULL: out of memory. */
static char *path_of(const struct directory *d, const char *name)
{
    size_t room = strlen(d->path) + strlen(name) + 2;
    char *path = malloc(room);
    if (path)
        snprintf(path, room, "%s/%s", d->path, name);
    return path;
}

/* INVALID_HANDLE_VALUE: no file, a link, or out of memory. */
static HANDLE open_file(const struct directory *d, const char *name, DWORD access, DWORD share,
                        DWORD how)
{
    char *path = path_of(d, name);
    BY_HANDLE_FILE_INFORMATION info;
    if (!path) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return INVALID_HANDLE_VALUE;
    }
    HANDLE h = CreateFileA(path, access, share, NULL, how, FILE_FLAG_OPEN_REPARSE_POINT, NULL);
    free(path);
    if (h == INVALID_HANDLE_VALUE || (GetFileInformationByHandle(h, &info) &&
                                      !(info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT)))
        return h;
    CloseHandle(h);
    SetLastError(ERROR_ACCESS_DENIED);
    return INVALID_HANDLE_VALUE;
}

static int descriptor(HANDLE h, int flags)
{
    int fd = h == INVALID_HANDLE_VALUE ? -1 : _open_osfhandle((intptr_t)h, flags);
    if (h == INVALID_HANDLE_VALUE)
        errno = last_errno();
    else if (fd < 0)
        CloseHandle(h);
    return fd;
}

/* A user's folders are private. */
int directory_make(const char *path)
{
    int os = CreateDirectoryA(path, NULL) ? 0 : last_errno();
    return os == EEXIST ? 0 : os;
}

int directory_open(struct directory **out, const char *path)
{
    struct directory *d = malloc(sizeof *d);
    if (!d)
        return ENOMEM;
    *d = (struct directory){_strdup(path), INVALID_HANDLE_VALUE, INVALID_HANDLE_VALUE};
    if (d->path)
        d->folder = CreateFileA(path, FILE_LIST_DIRECTORY, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL,
                                OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL);
    if (d->folder != INVALID_HANDLE_VALUE) {
        *out = d;
        return 0;
    }
    int os = d->path ? last_errno() : ENOMEM;
    directory_close(d);
    return os;
}

void directory_close(struct directory *d)
{
    if (!d)
        return;
    if (d->lock != INVALID_HANDLE_VALUE)
        CloseHandle(d->lock);
    if (d->folder != INVALID_HANDLE_VALUE)
        CloseHandle(d->folder);
    free(d->path);
    free(d);
}

/* The file is not shared. */
int directory_lock(struct directory *d, const char *name)
{
    d->lock = open_file(d, name, GENERIC_READ | GENERIC_WRITE, 0, OPEN_ALWAYS);
    return d->lock == INVALID_HANDLE_VALUE ? last_errno() : 0;
}

int directory_list(const struct directory *d, bool (*take)(void *user, const char *name),
                   void *user)
{
    WIN32_FIND_DATAA found;
    char *pattern = path_of(d, "*");
    HANDLE h = pattern ? FindFirstFileA(pattern, &found) : INVALID_HANDLE_VALUE;
    int os = !pattern ? ENOMEM : h == INVALID_HANDLE_VALUE ? last_errno() : 0;
    free(pattern);
    if (os)
        return os;
    while (take(user, found.cFileName) && FindNextFileA(h, &found))
        ;
    FindClose(h);
    return 0;
}

bool directory_find(const struct directory *d, const char *name, struct system_file *out)
{
    char *path = path_of(d, name);
    DWORD kind = path ? GetFileAttributesA(path) : INVALID_FILE_ATTRIBUTES;
    bool found = kind != INVALID_FILE_ATTRIBUTES &&
                 !(kind & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT)) &&
                 system_find_file(path, out);
    free(path);
    return found;
}

/* A file that is open can be removed. */
int directory_read(const struct directory *d, const char *name)
{
    HANDLE h = open_file(d, name, GENERIC_READ | FILE_WRITE_ATTRIBUTES,
                         FILE_SHARE_READ | FILE_SHARE_DELETE, OPEN_EXISTING);
    return descriptor(h, _O_RDONLY | _O_BINARY | _O_NOINHERIT);
}

int directory_create(const struct directory *d, const char *name)
{
    HANDLE h = open_file(d, name, GENERIC_WRITE, FILE_SHARE_DELETE, CREATE_NEW);
    return descriptor(h, _O_WRONLY | _O_BINARY | _O_NOINHERIT);
}

int directory_sync(int fd) { return _commit(fd) == 0 ? 0 : errno; }

void directory_touch(int fd)
{
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    SetFileTime((HANDLE)_get_osfhandle(fd), NULL, NULL, &now);
}

int directory_replace(const struct directory *d, const char *from, const char *to)
{
    char *old = path_of(d, from), *new = path_of(d, to);
    int os = !old || !new ? ENOMEM
             : MoveFileExA(old, new, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)
                 ? 0
                 : last_errno();
    free(old);
    free(new);
    return os;
}

void directory_remove(const struct directory *d, const char *name)
{
    char *path = path_of(d, name);
    if (path)
        DeleteFileA(path);
    free(path);
}
