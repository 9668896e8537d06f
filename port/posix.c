#define _GNU_SOURCE /* sched_getaffinity, syscall */
#include "port.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#if defined __linux__
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#else
#include <pthread.h>
#endif
#if defined __APPLE__
#include <sys/sysctl.h>
#endif

#include "cpus.h"
#include "team.h"

/* A hint: a failure costs only speed or memory. */
static void advise(void *at, size_t size, int hint)
{
#ifdef __EMSCRIPTEN__ /* no madvise: the call would print a warning */
    (void)at;
    (void)size;
    (void)hint;
#else
    madvise(at, size, hint);
#endif
}

/* Weights and caches are read from end to end: huge pages need fewer page table walks. */
void *tft_port_alloc(size_t size, size_t align)
{
    enum { HUGE_PAGE = 2 << 20 };
    void *p;
    if (posix_memalign(&p, size >= 2 * HUGE_PAGE ? HUGE_PAGE : align, size) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (size >= 2 * HUGE_PAGE)
        advise(p, size, MADV_HUGEPAGE);
#endif
    return p;
}

void tft_port_free(void *ptr)
{
    free(ptr);
}

int tft_port_map(struct tft_map *out, const char *path)
{
    /* O_NONBLOCK: opening a FIFO must not wait for its writer */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno;

    int err = tft_port_map_part(out, fd, 0, 0);
    close(fd); /* the mapping keeps the file open */
    return err;
}

int tft_port_map_part(struct tft_map *out, int fd, uint64_t offset, uint64_t size)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    if (S_ISDIR(st.st_mode))
        return EISDIR;
    if (!S_ISREG(st.st_mode))
        return EINVAL;
    uint64_t all = (uint64_t)st.st_size, page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (offset > all || size > all - offset)
        return ERANGE;
    size = size ? size : all - offset;
    uint64_t lead = offset % page;
    if (size > SIZE_MAX - lead)
        return EFBIG;
    if (!size) {
        *out = (struct tft_map){0};
        return 0;
    }
    unsigned char *p = mmap(NULL, (size_t)(size + lead), PROT_READ, MAP_SHARED, fd,
                            (off_t)(offset - lead));
    if (p == MAP_FAILED)
        return errno;
    *out = (struct tft_map){p + lead, (size_t)size, (size_t)lead};
    return 0;
}

void tft_port_unmap(struct tft_map *map)
{
    if (map->data)
        munmap((void *)(uintptr_t)(map->data - map->lead), map->size + map->lead);
    *map = (struct tft_map){0};
}

/* Advice on bytes [begin, end) of the mapping, which begins with a page. */
static void advise_map(const struct tft_map *map, size_t begin, size_t end, int hint)
{
    if (begin < end)
        advise((void *)(uintptr_t)(map->data - map->lead + begin), end - begin, hint);
}

/* The whole pages among bytes [begin, end) of the file. */
static void advise_whole_pages(const struct tft_map *map, size_t begin, size_t end, int hint)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    advise_map(map, (map->lead + begin + page - 1) / page * page, (map->lead + end) / page * page,
               hint);
}

void tft_port_forget(const struct tft_map *map, size_t begin, size_t end)
{
    advise_whole_pages(map, begin, end, MADV_DONTNEED);
}

void tft_port_prefetch(const struct tft_map *map, size_t begin, size_t end)
{
    /* Linux reads no more for one call than the read-ahead of the device, which is rarely less */
    enum { STEP = 128 << 10 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    end += map->lead;
    for (size_t at = (map->lead + begin) / page * page; at < end; at += STEP)
        advise_map(map, at, end - at < STEP ? end : at + STEP, MADV_WILLNEED);
}

void tft_port_evict(const struct tft_map *map, size_t begin, size_t end)
{
#ifdef MADV_PAGEOUT /* DONTNEED alone leaves the pages in the page cache */
    advise_whole_pages(map, begin, end, MADV_PAGEOUT);
#endif
    tft_port_forget(map, begin, end);
}

/* The folder of a path; the caller frees it; NULL: out of memory. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
}

static int sync_file(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int err = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    return err;
}

/* A rename is durable only after a sync of the folder. */
static int sync_folder_of(const char *path)
{
    char *dir = folder_of(path);
    if (!dir)
        return ENOMEM;
    int fd = open(dir, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    free(dir);
    if (fd < 0)
        return errno;
    /* EINVAL: this file system cannot sync folders */
    int err = fsync(fd) == 0 || errno == EINVAL ? 0 : errno;
    close(fd);
    return err;
}

enum { MAX_TEMPS = 1000 }; /* names to try; the number fits TFT_TEMP_ROOM */

static void temp_name(struct tft_temp *d, const char *path, int i)
{
    snprintf(d->name, strlen(path) + TFT_TEMP_ROOM, "%s.tmp%d", path, i);
}

static int named_temp(struct tft_temp *d, FILE **file, const char *path)
{
    FILE *f = NULL;
    errno = EEXIST;
    for (int i = 0; !f && errno == EEXIST && i < MAX_TEMPS; i++) {
        temp_name(d, path, i);
        f = fopen(d->name, "wbx");
    }
    if (!f)
        return errno;
    d->fd = -1;
    *file = f;
    return 0;
}

#ifdef O_TMPFILE

/* The path of a descriptor of this process. linkat() needs the path, because AT_EMPTY_PATH requires
   a privilege. */
static void proc_name(char name[TFT_TEMP_ROOM], int fd)
{
    snprintf(name, TFT_TEMP_ROOM, "/proc/self/fd/%d", fd);
}

/* Whether an unnamed file may get a name: Android forbids programs to link. The test uses a
   separate empty file, since a file cannot get another name after its name is removed. */
static bool may_link(struct tft_temp *d, const char *dir, const char *path)
{
    char from[TFT_TEMP_ROOM];
    int fd = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600), err = EEXIST;
    if (fd < 0)
        return false;
    proc_name(from, fd);
    for (int i = 0; err == EEXIST && i < MAX_TEMPS; i++) {
        temp_name(d, path, i);
        err = linkat(AT_FDCWD, from, AT_FDCWD, d->name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
    }
    if (!err)
        unlink(d->name);
    close(fd);
    return !err;
}

/* False if the file system has no unnamed files, if unnamed files may not get a name, or if /proc,
   which gives them a path, is missing. */
static bool unnamed_temp(struct tft_temp *d, FILE **file, const char *path)
{
    char *dir = folder_of(path);
    int fd = dir && may_link(d, dir, path)
                 ? open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666)
                 : -1;
    free(dir);
    if (fd < 0)
        return false;
    proc_name(d->name, fd);
    int keeper = open(d->name, O_RDONLY | O_CLOEXEC);
    FILE *f = keeper >= 0 ? fdopen(fd, "wb") : NULL;
    if (!f) {
        close(fd);
        if (keeper >= 0)
            close(keeper);
        return false;
    }
    proc_name(d->name, keeper);
    d->fd = keeper;
    *file = f;
    return true;
}

/* Gives the temporary file a name beside `path`. linkat() cannot replace a file, so tft_port_keep
   renames afterwards; a process killed in between leaves a complete file of that name. */
static int give_name(struct tft_temp *d, const char *path)
{
    char from[TFT_TEMP_ROOM];
    int err = EEXIST;
    proc_name(from, d->fd);
    for (int i = -1; err == EEXIST && i < MAX_TEMPS; i++) {
        if (i < 0) /* try `path` itself: there may be no file to replace */
            strcpy(d->name, path);
        else
            temp_name(d, path, i);
        err = linkat(AT_FDCWD, from, AT_FDCWD, d->name, AT_SYMLINK_FOLLOW) == 0 ? 0 : errno;
    }
    if (!err) {
        close(d->fd);
        d->fd = -1;
    }
    return err;
}

#else

static bool unnamed_temp(struct tft_temp *d, FILE **file, const char *path)
{
    (void)d, (void)file, (void)path;
    return false;
}

static int give_name(struct tft_temp *d, const char *path)
{
    (void)d, (void)path;
    return 0;
}

#endif

int tft_port_temp(struct tft_temp *d, FILE **file, const char *path)
{
    return unnamed_temp(d, file, path) ? 0 : named_temp(d, file, path);
}

char *tft_port_target(const char *path)
{
    char *target = realpath(path, NULL);
    return target || errno == ENOMEM ? target : strdup(path);
}

int tft_port_private(FILE *f) { return fchmod(fileno(f), 0600) == 0 ? 0 : errno; }

/* A private file stays private. */
static int take_mode_of(const char *name, const char *path)
{
    struct stat was;
    if (stat(path, &was) != 0)
        return errno == ENOENT ? 0 : errno;
    return chmod(name, was.st_mode & 0777) == 0 ? 0 : errno;
}

int tft_port_keep(struct tft_temp *d, const char *path)
{
    int err = take_mode_of(d->name, path);
    if (!err)
        err = sync_file(d->name);
    if (!err && d->fd >= 0)
        err = give_name(d, path);
    if (!err && rename(d->name, path) != 0)
        err = errno;
    if (err)
        return err;
    d->name[0] = 0; /* tft_port_discard must not remove a file of this name */
    return sync_folder_of(path);
}

void tft_port_discard(struct tft_temp *d)
{
    if (d->fd >= 0)
        close(d->fd);
    else
        unlink(d->name);
    d->fd = -1;
}

int tft_port_seek(FILE *f, uint64_t pos)
{
    off_t at = (off_t)pos;
    if (at < 0 || (uint64_t)at != pos)
        return EFBIG;
    return fseeko(f, at, SEEK_SET) == 0 ? 0 : errno;
}

void *tft_port_load(void **library, const char *name, const char *symbol, char *why, size_t size)
{
    char file[64];
    snprintf(file, sizeof file, "lib%s.so", name);
    void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL), *found = lib ? dlsym(lib, symbol) : NULL;
    if (!found) {
        const char *line = dlerror();
        snprintf(why, size, "%s", line ? line : file);
        if (lib)
            dlclose(lib);
        return NULL;
    }
    *library = lib;
    return found;
}

void tft_port_unload(void *library)
{
    dlclose(library);
}

uint64_t tft_port_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#if defined __linux__

/* Reads up to two numbers from a file; returns how many there are, -1 without the file. */
static int read_numbers(const char *path, long out[2])
{
    char line[64];
    FILE *f = fopen(path, "re");
    if (!f)
        return -1;
    int n = fgets(line, sizeof line, f) ? sscanf(line, "%ld %ld", &out[0], &out[1]) : 0;
    fclose(f);
    return n;
}

/* The quota of one cgroup in CPUs, rounded down, at least 1; 0 without a limit. cgroup v2 has
   "QUOTA PERIOD" or "max PERIOD" in cpu.max; v1 has a file for each, with -1 for no limit. */
static long quota_of(bool v2, const char *folder)
{
    char path[512];
    long n[3] = {-1, -1, -1}; /* quota, period, and what a longer line may have */
    snprintf(path, sizeof path,
             v2 ? "/sys/fs/cgroup%s/cpu.max" : "/sys/fs/cgroup/cpu%s/cpu.cfs_quota_us", folder);
    int found = read_numbers(path, n);
    if (!v2) {
        snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.cfs_period_us", folder);
        found += read_numbers(path, &n[1]);
    }
    if (found != 2 || n[0] <= 0 || n[1] <= 0)
        return 0;
    return n[0] < n[1] ? 1 : n[0] / n[1];
}

/* The memory limit of one cgroup in bytes; 0 without a limit. cgroup v2 has a number or "max"; v1
   has a very large number for no limit. */
static long memory_limit_of(bool v2, const char *folder)
{
    char path[512];
    long n[2] = {0};
    snprintf(path, sizeof path,
             v2 ? "/sys/fs/cgroup%s/memory.max" : "/sys/fs/cgroup/memory%s/memory.limit_in_bytes",
             folder);
    return read_numbers(path, n) == 1 && n[0] > 0 ? n[0] : 0;
}

/* A limit of one cgroup; 0: it has none. */
typedef long limit_fn(bool v2, const char *folder);

/* The smallest limit of a cgroup and its ancestors; 0: there is none. Changes folder. */
static long least_limit(limit_fn *limit, bool v2, char *folder)
{
    long least = 0;
    for (;;) {
        long q = limit(v2, strcmp(folder, "/") == 0 ? "" : folder);
        if (q && (!least || q < least))
            least = q;
        char *slash = strrchr(folder, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

/* Whether the list "cpu,cpuacct" has the controller. */
static bool lists(const char *list, size_t n, const char *controller)
{
    size_t len = strlen(controller);
    for (const char *p = list; p < list + n; p += strcspn(p, ",:") + 1)
        if (strcspn(p, ",:") == len && memcmp(p, controller, len) == 0)
            return true;
    return false;
}

/* The limit of this process's cgroup by a controller of v1; 0 without a limit. A line is
   NUMBER:LIST:FOLDER. v2 has an empty list, and may be there beside v1, without a limit. */
static long cgroup_limit(limit_fn *limit, const char *controller)
{
    char line[512];
    long least = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    while (f && fgets(line, sizeof line, f)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        size_t n = (size_t)(path - ++list);
        path++;
        path[strcspn(path, "\n")] = 0;
        long q = !n || lists(list, n, controller) ? least_limit(limit, !n, path) : 0;
        if (q && (!least || q < least))
            least = q;
    }
    if (f)
        fclose(f);
    return least;
}

/* The result of f for the set of CPUs in this thread's affinity, or 0 if the system does not say.
   The kernel refuses a set without room for all CPUs of the machine, and a machine may have more
   than the 1,024 CPUs of a cpu_set_t. */
static int of_affinity(int (*f)(void *user, const cpu_set_t *set, size_t size), void *user)
{
    cpu_set_t usual;
    if (sched_getaffinity(0, sizeof usual, &usual) == 0)
        return f(user, &usual, sizeof usual);
    int n = 0;
    bool retry = errno == EINVAL;
    for (int room = 4 * CPU_SETSIZE; retry && !n && room <= 1 << 20; room *= 4) {
        size_t size = CPU_ALLOC_SIZE(room);
        cpu_set_t *set = CPU_ALLOC(room);
        if (set && sched_getaffinity(0, size, set) == 0)
            n = f(user, set, size);
        else
            retry = set && errno == EINVAL;
        CPU_FREE(set);
    }
    return n;
}

static int count_set(void *user, const cpu_set_t *set, size_t size)
{
    (void)user;
    return CPU_COUNT_S(size, set);
}

int tft_port_affinity(void)
{
    long n = of_affinity(count_set, NULL);
    if (!n)
        n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

/* Counts the cores of a set of CPUs; returns the number of CPUs. */
static int count_cores(void *user, const cpu_set_t *set, size_t size)
{
    int n = CPU_COUNT_S(size, set), found = 0;
    int *id = malloc((size_t)n * sizeof *id);
    for (int cpu = 0; id && found < n; cpu++)
        if (CPU_ISSET_S((size_t)cpu, size, set))
            id[found++] = cpu;
    if (found)
        tft_cpus_count(user, "/sys/devices/system/cpu", id, found);
    free(id);
    return n;
}

void tft_port_count_cpus(struct tft_cpus *out)
{
    int n = tft_port_affinity();
    int quota = (int)cgroup_limit(quota_of, "cpu");
    *out = (struct tft_cpus){.allowed = n, .cores = n, .fast = n, .quota = quota};
    of_affinity(count_cores, out);
}

static uint64_t cgroup_memory(void)
{
    return (uint64_t)cgroup_limit(memory_limit_of, "memory");
}

void tft_port_sleep(atomic_uint *word, unsigned seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

void tft_port_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#else

int tft_port_affinity(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

#if defined __APPLE__

/* A number of the kernel; `otherwise` if this machine does not have it. */
static int kernel_number(const char *name, int otherwise)
{
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) == 0 && value > 0 ? value : otherwise;
}

/* perflevel0 are the fast cores of Apple's own chips. */
void tft_port_count_cpus(struct tft_cpus *out)
{
    int n = tft_port_affinity(), cores = kernel_number("hw.physicalcpu", n);
    *out = (struct tft_cpus){n, cores, kernel_number("hw.perflevel0.physicalcpu", cores), 0};
}

#else

void tft_port_count_cpus(struct tft_cpus *out)
{
    int n = tft_port_affinity();
    *out = (struct tft_cpus){n, n, n, 0};
}

#endif

static uint64_t cgroup_memory(void)
{
    return 0;
}

/* All sleeping threads share a condition. */
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;

void tft_port_sleep(atomic_uint *word, unsigned seen)
{
    pthread_mutex_lock(&sleep_lock);
    if (atomic_load(word) == seen)
        pthread_cond_wait(&woken, &sleep_lock);
    pthread_mutex_unlock(&sleep_lock);
}

void tft_port_wake(atomic_uint *word)
{
    (void)word;
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_broadcast(&woken);
    pthread_mutex_unlock(&sleep_lock);
}

#endif

uint64_t tft_port_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    uint64_t all = pages > 0 ? (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE) : 0,
             limit = cgroup_memory();
    return limit && (!all || limit < all) ? limit : all;
}

#if defined __linux__ && defined __aarch64__

#include <sys/auxv.h>

unsigned tft_port_cpu_features(void)
{
    /* HWCAP_ASIMDDP, HWCAP2_I8MM, HWCAP2_SME of Linux, arch/arm64/include/uapi/asm/hwcap.h */
    enum { DOTPROD = 1 << 20, I8MM = 1 << 13, SME = 1 << 23 };
    return (getauxval(AT_HWCAP) & DOTPROD ? TFT_ARM_DOTPROD : 0) |
           (getauxval(AT_HWCAP2) & I8MM ? TFT_ARM_I8MM : 0) |
           (getauxval(AT_HWCAP2) & SME ? TFT_ARM_SME : 0);
}

#elif defined __APPLE__ && defined __aarch64__

unsigned tft_port_cpu_features(void)
{
    return (kernel_number("hw.optional.arm.FEAT_DotProd", 0) ? TFT_ARM_DOTPROD : 0) |
           (kernel_number("hw.optional.arm.FEAT_I8MM", 0) ? TFT_ARM_I8MM : 0) |
           (kernel_number("hw.optional.arm.FEAT_SME", 0) ? TFT_ARM_SME : 0);
}

#elif defined __linux__ && defined __x86_64__

#include <sys/syscall.h>

/* arch_prctl of Linux 5.16 and later. The permission is the process's, and asking again changes
   nothing. */
unsigned tft_port_cpu_features(void)
{
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 }; /* arch/x86/include/uapi/asm/prctl.h */
    return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0 ? TFT_X86_AMX : 0;
}

#elif defined __linux__ && defined __riscv

#include <sys/syscall.h>

/* riscv_hwprobe of Linux 6.5 and later. The older AT_HWCAP names vectors of drafts V, too. */
unsigned tft_port_cpu_features(void)
{
    enum { HWPROBE = 258, IMA_EXT_0 = 4, IMA_V = 1 << 2 }; /* arch/riscv/include/uapi/asm */
    struct {
        int64_t key;
        uint64_t value;
    } pair = {IMA_EXT_0, 0};
    return syscall(HWPROBE, &pair, (size_t)1, (size_t)0, NULL, 0U) == 0 && pair.value & IMA_V
               ? TFT_RISCV_V
               : 0;
}

#else

unsigned tft_port_cpu_features(void)
{
    return 0;
}

#endif
