/* Windows 8 and later. */
#define _WIN32_WINNT 0x0602
#include "team.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <windows.h>

void *tft_port_alloc(size_t size, size_t align)
{
    return _aligned_malloc(size, align);
}

void tft_port_free(void *ptr)
{
    _aligned_free(ptr);
}

uint64_t tft_port_memory(void)
{
    MEMORYSTATUSEX m = {.dwLength = sizeof m};
    return GlobalMemoryStatusEx(&m) ? m.ullTotalPhys : 0;
}

/* GetLastError() as an errno: the errors of file operations; EIO for others. */
static int last_errno(void)
{
    static const struct {
        DWORD from;
        int to;
    } known[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},         {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},           {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_SHARING_VIOLATION, EACCES},      {ERROR_DISK_FULL, ENOSPC},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},      {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
        {ERROR_NO_UNICODE_TRANSLATION, EINVAL},
    };
    DWORD e = GetLastError();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].from == e)
            return known[i].to;
    return EIO;
}

/* A UTF-8 path in UTF-16; the caller frees it; NULL on failure. */
static wchar_t *wide_path(const char *path)
{
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
    wchar_t *wide = n > 0 ? malloc((size_t)n * sizeof *wide) : NULL;
    if (wide)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, n);
    return wide;
}

static HANDLE open_file(const char *path, DWORD access)
{
    wchar_t *wide = wide_path(path);
    if (!wide)
        return INVALID_HANDLE_VALUE;
    HANDLE f = CreateFileW(wide, access, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING,
                           FILE_ATTRIBUTE_NORMAL, NULL);
    DWORD attributes = f == INVALID_HANDLE_VALUE ? GetFileAttributesW(wide) : 0;
    free(wide);
    if (f == INVALID_HANDLE_VALUE && attributes != INVALID_FILE_ATTRIBUTES &&
        attributes & FILE_ATTRIBUTE_DIRECTORY)
        SetLastError(ERROR_DIRECTORY);
    return f;
}

static int map(struct tft_map *out, HANDLE file, uint64_t offset, uint64_t size)
{
    LARGE_INTEGER all;
    SYSTEM_INFO system;
    if (GetFileType(file) != FILE_TYPE_DISK)
        return EINVAL;
    if (!GetFileSizeEx(file, &all))
        return last_errno();
    if (offset > (uint64_t)all.QuadPart || size > (uint64_t)all.QuadPart - offset)
        return ERANGE;
    GetSystemInfo(&system);
    size = size ? size : (uint64_t)all.QuadPart - offset;
    uint64_t lead = offset % system.dwAllocationGranularity, begin = offset - lead;
    if (size > SIZE_MAX - lead)
        return EFBIG;
    if (!size) {
        *out = (struct tft_map){0};
        return 0;
    }
    HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (!mapping)
        return last_errno();
    const unsigned char *p = MapViewOfFile(mapping, FILE_MAP_READ, (DWORD)(begin >> 32),
                                           (DWORD)begin, (size_t)(size + lead));
    int err = p ? 0 : last_errno();
    CloseHandle(mapping); /* the view keeps it open */
    if (p)
        *out = (struct tft_map){p + lead, (size_t)size, (size_t)lead};
    return err;
}

int tft_port_map_part(struct tft_map *out, int fd, uint64_t offset, uint64_t size)
{
    HANDLE file = (HANDLE)_get_osfhandle(fd);
    return file == INVALID_HANDLE_VALUE ? EBADF : map(out, file, offset, size);
}

int tft_port_map(struct tft_map *out, const char *path)
{
    HANDLE file = open_file(path, GENERIC_READ);
    if (file == INVALID_HANDLE_VALUE)
        return GetLastError() == ERROR_DIRECTORY ? EISDIR : last_errno();
    int err = map(out, file, 0, 0);
    CloseHandle(file);
    return err;
}

void tft_port_unmap(struct tft_map *map)
{
    if (map->data)
        UnmapViewOfFile(map->data - map->lead);
    *map = (struct tft_map){0};
}

/* Unlocking a view removes its pages from the working set, even if it was never locked. */
void tft_port_forget(const struct tft_map *map, size_t begin, size_t end)
{
    if (begin < end)
        VirtualUnlock((void *)(uintptr_t)(map->data + begin), end - begin);
}

void tft_port_prefetch(const struct tft_map *map, size_t begin, size_t end)
{
    WIN32_MEMORY_RANGE_ENTRY range = {(void *)(uintptr_t)(map->data + begin), end - begin};
    if (begin < end)
        PrefetchVirtualMemory(GetCurrentProcess(), 1, &range, 0);
}

void tft_port_evict(const struct tft_map *map, size_t begin, size_t end)
{
    tft_port_forget(map, begin, end);
}

/* Creates a file for writing; EEXIST if the name is taken. */
static int create_new(FILE **out, const char *path)
{
    wchar_t *wide = wide_path(path);
    if (!wide)
        return last_errno();
    int fd = _wopen(wide, _O_CREAT | _O_EXCL | _O_WRONLY | _O_BINARY | _O_NOINHERIT,
                    _S_IREAD | _S_IWRITE);
    int err = fd < 0 ? errno : 0;
    free(wide);
    FILE *f = fd < 0 ? NULL : _fdopen(fd, "wb");
    if (f)
        *out = f;
    else if (!err) {
        err = errno;
        _close(fd);
    }
    return err;
}

int tft_port_temp(struct tft_temp *d, FILE **file, const char *path)
{
    enum { MAX_TEMPS = 1000 }; /* names to try; the number fits TFT_TEMP_ROOM */
    int err = EEXIST;
    d->fd = -1;
    for (int i = 0; err == EEXIST && i < MAX_TEMPS; i++) {
        snprintf(d->name, strlen(path) + TFT_TEMP_ROOM, "%s.tmp%d", path, i);
        err = create_new(file, d->name);
    }
    return err;
}

static int flush(const char *path)
{
    HANDLE file = open_file(path, GENERIC_WRITE);
    if (file == INVALID_HANDLE_VALUE)
        return last_errno();
    int err = FlushFileBuffers(file) ? 0 : last_errno();
    CloseHandle(file);
    return err;
}

char *tft_port_target(const char *path)
{
    return _strdup(path);
}

int tft_port_keep(struct tft_temp *d, const char *path)
{
    int err = flush(d->name);
    if (err)
        return err;
    wchar_t *from = wide_path(d->name), *to = wide_path(path);
    if (!from || !to || !MoveFileExW(from, to, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
        err = last_errno();
    free(from);
    free(to);
    return err;
}

void tft_port_discard(struct tft_temp *d)
{
    wchar_t *wide = wide_path(d->name);
    if (wide)
        DeleteFileW(wide);
    free(wide);
}

/* Files get the permissions of their folder, and a user's folders are private. */
int tft_port_private(FILE *f)
{
    (void)f;
    return 0;
}

int tft_port_seek(FILE *f, uint64_t pos)
{
    if (pos > INT64_MAX)
        return EFBIG;
    return _fseeki64(f, (int64_t)pos, SEEK_SET) == 0 ? 0 : errno;
}

void *tft_port_load(void **library, const char *name, const char *symbol, char *why, size_t size)
{
    char file[64];
    snprintf(file, sizeof file, "%s.dll", name);
    HMODULE lib = LoadLibraryExA(file, NULL, LOAD_LIBRARY_SEARCH_DEFAULT_DIRS);
    FARPROC found = lib ? GetProcAddress(lib, symbol) : NULL;
    if (!found) {
        snprintf(why, size, "%s: error %lu", file, (unsigned long)GetLastError());
        if (lib)
            FreeLibrary(lib);
        return NULL;
    }
    *library = lib;
    void *result;
    memcpy(&result, &found, sizeof result);
    return result;
}

void tft_port_unload(void *library)
{
    FreeLibrary(library);
}

uint64_t tft_port_ns(void)
{
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    uint64_t t = (uint64_t)ticks.QuadPart, f = (uint64_t)per_second.QuadPart;
    return t / f * 1000000000u + t % f * 1000000000u / f;
}

/* All sleeping threads share a condition. */
static SRWLOCK sleep_lock = SRWLOCK_INIT;
static CONDITION_VARIABLE woken = CONDITION_VARIABLE_INIT;

void tft_port_sleep(atomic_uint *word, unsigned seen)
{
    AcquireSRWLockExclusive(&sleep_lock);
    if (atomic_load(word) == seen)
        SleepConditionVariableSRW(&woken, &sleep_lock, INFINITE, 0);
    ReleaseSRWLockExclusive(&sleep_lock);
}

void tft_port_wake(atomic_uint *word)
{
    (void)word;
    AcquireSRWLockExclusive(&sleep_lock);
    WakeAllConditionVariable(&woken);
    ReleaseSRWLockExclusive(&sleep_lock);
}

unsigned tft_port_cpu_features(void)
{
    enum { PF_ARM_V82_DP_INSTRUCTIONS = 43 };
    return IsProcessorFeaturePresent(PF_ARM_V82_DP_INSTRUCTIONS) ? TFT_ARM_DOTPROD : 0;
}
