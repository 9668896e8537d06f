/*
 * Loaded before a program (LD_PRELOAD, with glibc): lets one of its calls fail.
 *
 *      FAIL_KIND alloc: malloc and its kin; io: the calls that open, map, read and write files
 *      FAIL_AT     the number of the call, from 1 on; 0: none
 *      FAIL_LOG    a file that gets the number of calls when the program ends
 *      FAIL_STEPS  set: no call counts before a signal. SIGUSR1 begins the count again, and lets
 *                  one call fail: the first call after the first signal, the second after the
 *                  second. SIGUSR2 begins the count, and lets none fail
 *
 * Only calls from the program and from libtuffet count: other libraries are not tested without
 * memory.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t n);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

#pragma GCC visibility push(default) /* the functions below replace the C library's */

static atomic_long calls, at;
static long step;
static int counts_alloc, counts_io;
static atomic_int waits; /* for a signal */

/* The code that counts: of the program itself, and of the library. */
static struct {
    uintptr_t begin, end;
} code[16];
static int n_code;

static int note_code(struct dl_phdr_info *o, size_t size, void *first)
{
    (void)size;
    int is_program = *(int *)first;
    *(int *)first = 0;
    if (!is_program && !strstr(o->dlpi_name, "libtuffet"))
        return 0;
    for (int i = 0; i < o->dlpi_phnum && n_code < 16; i++)
        if (o->dlpi_phdr[i].p_type == PT_LOAD && o->dlpi_phdr[i].p_flags & PF_X) {
            code[n_code].begin = o->dlpi_addr + o->dlpi_phdr[i].p_vaddr;
            code[n_code].end = code[n_code].begin + o->dlpi_phdr[i].p_memsz;
            n_code++;
        }
    return 0;
}

static void on_signal(int signal)
{
    calls = 0;
    at = signal == SIGUSR1 ? ++step : 0;
    waits = 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *kind = getenv("FAIL_KIND"), *number = getenv("FAIL_AT");
    int first = 1;
    dl_iterate_phdr(note_code, &first);
    at = number ? atol(number) : 0;
    if (getenv("FAIL_STEPS")) {
        waits = 1;
        signal(SIGUSR1, on_signal);
        signal(SIGUSR2, on_signal);
    }
    counts_alloc = kind && strcmp(kind, "alloc") == 0;
    counts_io = kind && strcmp(kind, "io") == 0;
}

__attribute__((destructor)) static void end(void)
{
    char text[32];
    const char *path = getenv("FAIL_LOG");
    counts_alloc = counts_io = 0;
    int fd = path ? creat(path, 0600) : -1;
    if (fd < 0)
        return;
    int n = snprintf(text, sizeof text, "%ld\n", (long)calls);
    if (write(fd, text, (size_t)n) == n)
        close(fd);
}

/* Whether this call fails. */
static int fails(int counts, const void *from)
{
    uintptr_t caller = (uintptr_t)from;
    for (int i = 0; counts && !waits && i < n_code; i++)
        if (caller >= code[i].begin && caller < code[i].end)
            return ++calls == at;
    return 0;
}

#define CALLER __builtin_return_address(0)
#define FAILS_ALLOC(result)                                                                        \
    if (fails(counts_alloc, CALLER)) {                                                             \
        errno = ENOMEM;                                                                            \
        return result;                                                                             \
    }
#define FAILS_IO(error, result)                                                                    \
    if (fails(counts_io, CALLER)) {                                                                \
        errno = error;                                                                             \
        return result;                                                                             \
    }
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

void *malloc(size_t n)
{
    FAILS_ALLOC(NULL)
    return __libc_malloc(n);
}

void *calloc(size_t count, size_t n)
{
    FAILS_ALLOC(NULL)
    return __libc_calloc(count, n);
}

void *realloc(void *p, size_t n)
{
    FAILS_ALLOC(NULL)
    return __libc_realloc(p, n);
}

int posix_memalign(void **p, size_t align, size_t n)
{
    FAILS_ALLOC(ENOMEM)
    void *got = __libc_memalign(align, n);
    if (!got)
        return ENOMEM;
    *p = got;
    return 0;
}

void *aligned_alloc(size_t align, size_t n)
{
    FAILS_ALLOC(NULL)
    return __libc_memalign(align, n);
}

FILE *fopen(const char *path, const char *mode)
{
    FAILS_IO(EIO, NULL)
    return REAL(fopen)(path, mode);
}

FILE *fdopen(int fd, const char *mode)
{
    FAILS_IO(ENOMEM, NULL)
    return REAL(fdopen)(fd, mode);
}

size_t fread(void *p, size_t n, size_t count, FILE *f)
{
    FAILS_IO(EIO, 0)
    return REAL(fread)(p, n, count, f);
}

size_t fwrite(const void *p, size_t n, size_t count, FILE *f)
{
    FAILS_IO(ENOSPC, 0)
    return REAL(fwrite)(p, n, count, f);
}

int fflush(FILE *f)
{
    FAILS_IO(ENOSPC, EOF)
    return REAL(fflush)(f);
}

int fclose(FILE *f)
{
    int failed = fails(counts_io, CALLER), result = REAL(fclose)(f);
    if (!failed)
        return result;
    errno = ENOSPC;
    return EOF;
}

int open(const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(more, mode_t) : 0;
    va_end(more);
    FAILS_IO(EIO, -1)
    return REAL(open)(path, flags, mode);
}

void *mmap(void *p, size_t n, int protection, int flags, int fd, off_t offset)
{
    FAILS_IO(ENOMEM, MAP_FAILED)
    return REAL(mmap)(p, n, protection, flags, fd, offset);
}

int fsync(int fd)
{
    FAILS_IO(EIO, -1)
    return REAL(fsync)(fd);
}

int rename(const char *from, const char *to)
{
    FAILS_IO(EIO, -1)
    return REAL(rename)(from, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    FAILS_IO(EIO, -1)
    return REAL(linkat)(from_folder, from, to_folder, to, flags);
}

ssize_t read(int fd, void *p, size_t n)
{
    FAILS_IO(EIO, -1)
    return REAL(read)(fd, p, n);
}
