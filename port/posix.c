#define _GNU_SOURCE /* sched_getaffinity */
#include "port.h"

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

/* Weights and caches are streamed through: in huge pages that takes fewer walks of the page table. */
void *tft_port_alloc(size_t size, size_t align)
{
    enum { HUGE = 2 << 20 };
    void *p;
    if (posix_memalign(&p, size >= 2 * HUGE ? HUGE : align, size) != 0)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (size >= 2 * HUGE)
        madvise(p, size, MADV_HUGEPAGE); /* a wish: nothing is lost where it fails */
#endif
    return p;
}

void tft_port_free(void *ptr)
{
    free(ptr);
}

int tft_port_map(struct tft_map *out, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* O_NONBLOCK: do not wait for the writer of a FIFO */
    if (fd < 0)
        return errno;

    struct stat st;
    int err = 0;
    if (fstat(fd, &st) != 0)
        err = errno;
    else if (S_ISDIR(st.st_mode))
        err = EISDIR;
    else if (!S_ISREG(st.st_mode))
        err = EINVAL;
    else if ((uintmax_t)st.st_size > SIZE_MAX)
        err = EFBIG;
    else if (st.st_size == 0)
        *out = (struct tft_map){0};
    else {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (p == MAP_FAILED)
            err = errno;
        else
            *out = (struct tft_map){p, (size_t)st.st_size};
    }
    close(fd); /* the mapping keeps the file */
    return err;
}

void tft_port_unmap(struct tft_map *map)
{
    if (map->data)
        munmap((void *)(uintptr_t)map->data, map->size);
    *map = (struct tft_map){0};
}

/* The rename is durable only when the folder is written too. */
static int sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *dir = slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
    if (!dir)
        return ENOMEM;
    int fd = open(dir, O_RDONLY | O_CLOEXEC | O_DIRECTORY);
    free(dir);
    if (fd < 0)
        return errno;
    int err = fsync(fd) == 0 || errno == EINVAL ? 0 : errno; /* EINVAL: a file system without folders to sync */
    close(fd);
    return err;
}

int tft_port_replace(const char *tmp, const char *path)
{
    int fd = open(tmp, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int err = fsync(fd) == 0 ? 0 : errno;
    close(fd);
    if (!err && rename(tmp, path) != 0)
        err = errno;
    return err ? err : sync_folder_of(path);
}

uint64_t tft_port_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#if defined __linux__

/* cgroup v2 writes "QUOTA PERIOD" or "max PERIOD" into cpu.max; v1 has a file for each, with -1 for no limit. */
static long quota_of(const char *folder)
{
    char path[512], line[64];
    long quota = -1, period = -1;

    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", folder);
    FILE *f = fopen(path, "re");
    if (f) {
        if (fgets(line, sizeof line, f) && sscanf(line, "%ld %ld", &quota, &period) != 2)
            quota = -1;
        fclose(f);
    } else {
        static const char *const part[2] = {"cfs_quota_us", "cfs_period_us"};
        long *value[2] = {&quota, &period};
        for (int i = 0; i < 2; i++) {
            snprintf(path, sizeof path, "/sys/fs/cgroup/cpu%s/cpu.%s", folder, part[i]);
            f = fopen(path, "re");
            if (!f)
                return 0;
            if (!fgets(line, sizeof line, f) || sscanf(line, "%ld", value[i]) != 1)
                *value[i] = -1;
            fclose(f);
        }
    }
    if (quota <= 0 || period <= 0)
        return 0;
    return quota < period ? 1 : quota / period;
}

/* The tightest quota of our cgroup and those above it, in CPUs; 0 if there is none. */
static long cgroup_cpus(void)
{
    char line[512], folder[512] = "";
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f)) {
        char *name = strchr(line, ':'), *path = name ? strchr(name + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = 0;
        path[strcspn(path, "\n")] = 0;
        if (strcmp(name, ":") == 0 || strstr(name, "cpu"))
            memcpy(folder, path, strlen(path) + 1);
    }
    fclose(f);

    long least = 0;
    for (;;) {
        long q = quota_of(strcmp(folder, "/") == 0 ? "" : folder);
        if (q && (!least || q < least))
            least = q;
        char *slash = strrchr(folder, '/');
        if (!slash)
            return least;
        *slash = 0;
    }
}

int tft_port_cpus(void)
{
    cpu_set_t set;
    long n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : sysconf(_SC_NPROCESSORS_ONLN);
    long quota = cgroup_cpus();
    if (quota && quota < n)
        n = quota;
    return n < 1 ? 1 : (int)n;
}

#else

int tft_port_cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : (int)n;
}

#endif

#if defined __linux__ && defined __aarch64__

#include <sys/auxv.h>

unsigned tft_port_arm_features(void)
{
    enum { DOTPROD = 1 << 20, I8MM = 1 << 13 }; /* HWCAP_ASIMDDP, HWCAP2_I8MM of Linux, arch/arm64/include/uapi/asm/hwcap.h */
    return (getauxval(AT_HWCAP) & DOTPROD ? TFT_ARM_DOTPROD : 0) | (getauxval(AT_HWCAP2) & I8MM ? TFT_ARM_I8MM : 0);
}

#elif defined __APPLE__ && defined __aarch64__

#include <sys/sysctl.h>

static bool has(const char *name)
{
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) == 0 && value;
}

unsigned tft_port_arm_features(void)
{
    return (has("hw.optional.arm.FEAT_DotProd") ? TFT_ARM_DOTPROD : 0) | (has("hw.optional.arm.FEAT_I8MM") ? TFT_ARM_I8MM : 0);
}

#else

unsigned tft_port_arm_features(void)
{
    return 0;
}

#endif
