/* Limits of cgroups, played: of /proc and /sys this fopen has only the files that the table names,
   and this sched_getaffinity a machine of 64 CPUs. */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "port/port.h"

struct file {
    const char *path, *text;
};
static const struct file *files; /* up to one without a path */

static bool starts(const char *path, const char *with)
{
    return strncmp(path, with, strlen(with)) == 0;
}

FILE *fopen(const char *path, const char *mode)
{
    if (!starts(path, "/proc/self/cgroup") && !starts(path, "/sys/")) {
        int fd = open(path, *mode == 'r' ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC, 0666);
        return fd < 0 ? NULL : fdopen(fd, *mode == 'r' ? "r" : "w");
    }
    for (const struct file *f = files; f->path; f++)
        if (strcmp(f->path, path) == 0)
            return fmemopen((void *)(uintptr_t)f->text, strlen(f->text), "r");
    errno = ENOENT;
    return NULL;
}

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    memset(set, 0, size);
    for (size_t i = 0; i < 64; i++)
        CPU_SET_S(i, size, set);
    return 0;
}

static int cpus_with(const struct file *these)
{
    files = these;
    return tft_port_cpus();
}

#define V1 "/sys/fs/cgroup/cpu"

static void version_1(void **state)
{
    (void)state;
    assert_int_equal(cpus_with((const struct file[]){
                         {"/proc/self/cgroup", "5:memory:/m\n4:cpu,cpuacct:/job\n3:cpuset:/other\n"
                                               "1:name=systemd:/s\n0::/u\n"},
                         {V1 "/job/cpu.cfs_quota_us", "100000\n"},
                         {V1 "/job/cpu.cfs_period_us", "100000\n"},
                         {NULL, NULL}}),
                     1);
    /* a quota above that of the job counts too, and -1 is none */
    assert_int_equal(cpus_with((const struct file[]){
                         {"/proc/self/cgroup", "0::/u\n2:cpuset:/x\n1:cpuacct,cpu:/a/b\n"},
                         {V1 "/a/b/cpu.cfs_quota_us", "-1\n"},
                         {V1 "/a/b/cpu.cfs_period_us", "100000\n"},
                         {V1 "/a/cpu.cfs_quota_us", "350000\n"},
                         {V1 "/a/cpu.cfs_period_us", "100000\n"},
                         {NULL, NULL}}),
                     3);
    /* in a container, the folder of the job is the root */
    assert_int_equal(cpus_with((const struct file[]){{"/proc/self/cgroup", "1:cpu:/docker/x\n"},
                                                     {V1 "/cpu.cfs_quota_us", "200000\n"},
                                                     {V1 "/cpu.cfs_period_us", "100000\n"},
                                                     {NULL, NULL}}),
                     2);
    assert_int_equal(cpus_with((const struct file[]){{"/proc/self/cgroup", "1:cpuset:/x\n"},
                                                     {V1 "/x/cpu.cfs_quota_us", "100000\n"},
                                                     {V1 "/x/cpu.cfs_period_us", "100000\n"},
                                                     {NULL, NULL}}),
                     64);
}

static void version_2(void **state)
{
    (void)state;
    assert_int_equal(
        cpus_with((const struct file[]){{"/proc/self/cgroup", "0::/user.slice/job\n"},
                                        {"/sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n"},
                                        {"/sys/fs/cgroup/user.slice/cpu.max", "250000 100000\n"},
                                        {NULL, NULL}}),
        2);
    assert_int_equal(cpus_with((const struct file[]){{"/proc/self/cgroup", "0::/\n"},
                                                     {"/sys/fs/cgroup/cpu.max", "50000 100000\n"},
                                                     {NULL, NULL}}),
                     1);
    assert_int_equal(
        cpus_with((const struct file[]){{"/proc/self/cgroup", "0::/\n"}, {NULL, NULL}}), 64);
    assert_int_equal(cpus_with((const struct file[]){{NULL, NULL}}), 64);
}

static uint64_t memory_with(const struct file *these)
{
    files = these;
    return tft_port_memory();
}

static void memory(void **state)
{
    (void)state;
    uint64_t all = memory_with((const struct file[]){{NULL, NULL}});
    assert_in_range(all, 1 << 20, SIZE_MAX);
    assert_int_equal(
        memory_with((const struct file[]){{"/proc/self/cgroup", "0::/user.slice/job\n"},
                                          {"/sys/fs/cgroup/user.slice/job/memory.max", "max\n"},
                                          {"/sys/fs/cgroup/user.slice/memory.max", "300000\n"},
                                          {"/sys/fs/cgroup/memory.max", "400000\n"},
                                          {NULL, NULL}}),
        300000);
    /* v1 has a number near the largest for no limit */
    assert_int_equal(
        memory_with((const struct file[]){
            {"/proc/self/cgroup", "4:memory:/a/b\n1:cpu:/c\n"},
            {"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"},
            {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "200000\n"},
            {"/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "100000\n"},
            {NULL, NULL}}),
        200000);
    assert_true(memory_with((const struct file[]){
                    {"/proc/self/cgroup", "4:memory:/a\n"},
                    {"/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"},
                    {NULL, NULL}}) == all);
}

#define CPU "/sys/devices/system/cpu/cpu"

/* CPUs 0 and 1 are one core of 63. The quota counts if it is less than the cores. */
static void quota_and_cores(void **state)
{
    (void)state;
    const struct file wide[] = {{"/proc/self/cgroup", "0::/\n"},
                                {"/sys/fs/cgroup/cpu.max", "6450000 100000\n"},
                                {CPU "0/topology/thread_siblings_list", "0-1\n"},
                                {CPU "1/topology/thread_siblings_list", "0-1\n"},
                                {NULL, NULL}};
    struct tft_cpus found;
    assert_int_equal(cpus_with(wide), 63);
    tft_port_count_cpus(&found);
    assert_int_equal(found.allowed, 64);
    assert_int_equal(found.cores, 63);
    assert_int_equal(found.fast, 63);
    assert_int_equal(found.quota, 64);
    const struct file narrow[] = {wide[0],
                                  {"/sys/fs/cgroup/cpu.max", "6250000 100000\n"},
                                  wide[2],
                                  wide[3],
                                  {NULL, NULL}};
    assert_int_equal(cpus_with(narrow), 62);
    const struct file none[] = {wide[0], wide[2], wide[3], {NULL, NULL}};
    assert_int_equal(cpus_with(none), 63);
    tft_port_count_cpus(&found);
    assert_int_equal(found.quota, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(version_1), cmocka_unit_test(version_2),
                                       cmocka_unit_test(quota_and_cores),
                                       cmocka_unit_test(memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
