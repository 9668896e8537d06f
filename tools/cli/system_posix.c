#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#define _XOPEN_SOURCE 700 /* nice */
#include "system_posix.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

void system_begin(void) {} /* nothing to change */

bool system_is_terminal(int fd) { return isatty(fd); }

const char *system_program_path(const char *argv0) { return argv0; }

const char *system_temp_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

bool system_is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

const char *system_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool system_find_file(const char *path, struct system_file *out)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return false;
    *out = system_file_of(&st);
    return true;
}

bool system_disk_left(const char *path, uint64_t *bytes)
{
    struct statvfs disk;
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    bool known = folder && (statvfs(path, &disk) == 0 || statvfs(folder, &disk) == 0);
    free(folder);
    *bytes = known ? (uint64_t)disk.f_bavail * disk.f_frsize : 0;
    return known;
}

uint64_t system_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    return pages > 0 ? (uint64_t)pages * system_page_size() : 0;
}

bool system_memory_left(uint64_t *bytes)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    unsigned long long kib;
    bool known = false;
    while (f && !known && fgets(line, sizeof line, f))
        known = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    if (f)
        fclose(f);
    *bytes = known ? kib * 1024 : 0;
    return known;
}

bool system_has_stack(size_t bytes)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= bytes;
}

bool system_nice(int n)
{
    errno = 0; /* -1 may be the new priority */
    return nice(n) != -1 || !errno;
}

int64_t system_file_size(FILE *f) { return system_size(fileno(f)); }

int64_t system_size(int fd)
{
    struct stat s;
    return fstat(fd, &s) == 0 ? (int64_t)s.st_size : -1;
}

int64_t system_line(char **line, size_t *room, FILE *f) { return getline(line, room, f); }

void *system_pages(size_t size)
{
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void system_free_pages(void *p, size_t size) { munmap(p, size); }

size_t system_page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

bool system_host_name(char *name, size_t room)
{
    bool known = gethostname(name, room) == 0;
    name[room - 1] = 0;
    return known;
}

bool system_lock_memory(void) { return mlockall(MCL_CURRENT) == 0; }

void system_wait(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
    nanosleep(&t, NULL);
}

double system_thread_seconds(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        return NAN;
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- Ctrl-C */

static volatile sig_atomic_t interrupted;
static void (*before)(void);

static void end_by(int sig)
{
    if (before)
        before();
    signal(sig, SIG_DFL);
    raise(sig);
}

static void on_interrupt(int sig)
{
    if (interrupted)
        end_by(sig);
    interrupted = 1;
}

void cli_catch_interrupts(void)
{
    struct sigaction a = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    interrupted = 0;
    sigaction(SIGINT, &a, NULL);
}

void cli_release_interrupts(void) { signal(SIGINT, before ? end_by : SIG_DFL); }

void cli_before_interrupt(void (*f)(void)) { before = f; }

bool cli_interrupted(void) { return interrupted; }
