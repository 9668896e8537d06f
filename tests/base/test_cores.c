/* The cores of machines, as Linux describes them: each case writes the folder of a machine. */
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */
#include "test.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "port/cpus.h"

enum { MOST = 64 };

static char machine[64]; /* the folder of this case */

static int begin(void **state)
{
    (void)state;
    snprintf(machine, sizeof machine, "/tmp/tuffet-test-XXXXXX");
    return mkdtemp(machine) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static int end(void **state)
{
    (void)state;
    return nftw(machine, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file of a CPU, and its folders. */
__attribute__((format(printf, 3, 4))) static void put(int cpu, const char *name, const char *fmt,
                                                      ...)
{
    char path[1024];
    int n = snprintf(path, sizeof path, "%s/cpu%d", machine, cpu);
    mkdir(path, 0700);
    snprintf(path + n, sizeof path - (size_t)n, "/%.*s", (int)strcspn(name, "/"), name);
    if (strchr(name, '/'))
        mkdir(path, 0700);
    snprintf(path + n, sizeof path - (size_t)n, "/%s", name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    va_list args;
    va_start(args, fmt);
    assert_true(vfprintf(f, fmt, args) >= 0);
    va_end(args);
    assert_int_equal(fclose(f), 0);
}

static void put_siblings(int cpu, const char *list)
{
    put(cpu, "topology/thread_siblings_list", "%s\n", list);
}

/* A CPU that is the only one of its core. */
static void put_alone(int cpu) { put(cpu, "topology/thread_siblings_list", "%d\n", cpu); }

static void put_capacity(int cpu, int capacity) { put(cpu, "cpu_capacity", "%d\n", capacity); }

static void put_clock(int cpu, int khz) { put(cpu, "cpufreq/cpuinfo_max_freq", "%d\n", khz); }

/* Checks the counts for a process that may use CPU i if bit i of `mask` is set. */
static void check_mask(uint64_t mask, int cores, int fast)
{
    int id[MOST], n = 0;
    for (int cpu = 0; cpu < MOST; cpu++)
        if (mask >> cpu & 1)
            id[n++] = cpu;
    struct tft_cpus found = {.allowed = n, .quota = 7};
    tft_cpus_count(&found, machine, id, n);
    assert_int_equal(found.cores, cores);
    assert_int_equal(found.fast, fast);
    assert_int_equal(found.allowed, n);
    assert_int_equal(found.quota, 7);
}

static uint64_t first(int n) { return n == MOST ? UINT64_MAX : ((uint64_t)1 << n) - 1; }

/* ---- boards and phones */

static void raspberry_pi_5(void **state)
{
    (void)state;
    for (int cpu = 0; cpu < 4; cpu++) {
        put_alone(cpu);
        put_capacity(cpu, 1024);
        put_clock(cpu, 2400000);
    }
    check_mask(first(4), 4, 4);
    check_mask(1 << 2, 1, 1);
}

/* The little cores come first, as on most phones. */
static void write_phone(void)
{
    for (int cpu = 0; cpu < 8; cpu++) {
        put_alone(cpu);
        put_capacity(cpu, cpu < 4 ? 380 : 1024);
        put_clock(cpu, cpu < 4 ? 1900000 : 2300000); /* capacities decide, not these clocks */
    }
}

static void phone_of_4_and_4(void **state)
{
    (void)state;
    write_phone();
    check_mask(first(8), 8, 4);
}

static void phone_with_a_mask(void **state)
{
    (void)state;
    write_phone();
    check_mask(0x0f, 4, 4); /* only little cores: none is slower than the others */
    check_mask(0x1f, 5, 1);
    check_mask(0xf0, 4, 4);
    check_mask(0xc3, 4, 2);
}

/* One core is faster than three fast ones. It does not make these slow. */
static void phone_of_4_and_3_and_1(void **state)
{
    (void)state;
    for (int cpu = 0; cpu < 8; cpu++) {
        put_alone(cpu);
        put_capacity(cpu, cpu < 4 ? 250 : cpu < 7 ? 760 : 1024);
    }
    check_mask(first(8), 8, 4);
}

/* Half of the highest capacity is fast, less is not. */
static void ends_of_the_rule(void **state)
{
    (void)state;
    for (int cpu = 0; cpu < 3; cpu++) {
        put_alone(cpu);
        put_capacity(cpu, (const int[]){1024, 512, 511}[cpu]);
    }
    check_mask(first(3), 3, 2);
    for (int cpu = 8; cpu < 11; cpu++) {
        put_alone(cpu);
        put_clock(cpu, (const int[]){2000000, 1600000, 1599999}[cpu - 8]);
    }
    check_mask(7 << 8, 3, 2);
}

/* ---- laptops and servers */

/* CPUs 0 to 7 are the two threads of 4 cores, CPUs 8 to 15 slower cores of one thread. */
static void write_laptop(void)
{
    for (int cpu = 0; cpu < 16; cpu++) {
        if (cpu < 8)
            put(cpu, "topology/thread_siblings_list", "%d-%d\n", cpu / 2 * 2, cpu / 2 * 2 + 1);
        else
            put_alone(cpu);
        put_clock(cpu, cpu < 8 ? 4700000 - 100000 * (cpu / 6) : 3400000);
    }
}

static void laptop_of_fast_and_slow_cores(void **state)
{
    (void)state;
    write_laptop();
    check_mask(first(16), 12, 4);
    check_mask(0xff, 4, 4);
    check_mask(0xff00, 8, 8);
    check_mask(0x5555, 8, 4); /* one thread of each fast core */
    check_mask(0x0003, 1, 1); /* both threads of one core */
    check_mask(0x0002, 1, 1); /* the second of them alone */
    check_mask(0x000e, 2, 2);
}

/* Newer kernels write a capacity on such machines too, which may be the same everywhere. */
static void laptop_with_equal_capacities(void **state)
{
    (void)state;
    write_laptop();
    for (int cpu = 0; cpu < 16; cpu++)
        put_capacity(cpu, 1024);
    check_mask(first(16), 12, 4);
}

/* Two sockets of 16 cores: the second threads of all cores follow the first ones. */
static void server_of_two_sockets(void **state)
{
    (void)state;
    for (int cpu = 0; cpu < 64; cpu++) {
        put(cpu, "topology/thread_siblings_list", "%d,%d\n", cpu % 32, cpu % 32 + 32);
        put(cpu, "topology/physical_package_id", "%d\n", cpu % 32 / 16);
        put_clock(cpu, 3800000);
    }
    check_mask(first(64), 32, 32);
    check_mask(first(16), 16, 16);
    check_mask((uint64_t)0xffff << 32, 16, 16); /* second threads alone */
    check_mask((uint64_t)0xffff << 32 | 0xff, 16, 16);
}

/* ---- folders that say less */

/* A CPU that is offline has no files of topology and clocks; its core's other thread is alone. */
static void cpus_that_are_offline(void **state)
{
    (void)state;
    for (int cpu = 0; cpu < 8; cpu++)
        put_capacity(cpu, 1024);
    for (int cpu = 0; cpu < 6; cpu++) {
        put_siblings(cpu, cpu < 4 ? (cpu < 2 ? "0-1" : "2-3") : cpu == 4 ? "4" : "5");
        put_clock(cpu, cpu < 4 ? 4000000 : 3000000);
    }
    check_mask(0x3f, 4, 2);
    check_mask(0xff, 6, 6); /* without a clock for each, none counts */
}

static void nothing_there(void **state)
{
    (void)state;
    check_mask(first(5), 5, 5);
    check_mask(1, 1, 1);
}

/* A folder with a longer name than any of Linux is not read: it has files that would say 1 core. */
static void long_name(void **state)
{
    (void)state;
    put_siblings(0, "0-1");
    put_siblings(1, "0-1");
    check_mask(3, 1, 1);
    char name[600];
    int n = snprintf(name, sizeof name, "%s", machine);
    memset(name + n, '/', sizeof name - (size_t)n - 1);
    name[sizeof name - 1] = 0;
    struct tft_cpus found = {0};
    tft_cpus_count(&found, name, (const int[]){0, 1}, 2);
    assert_int_equal(found.cores, 2);
}

/* One file is missing: the others do not count, as they cannot be compared. */
static void one_capacity_is_missing(void **state)
{
    (void)state;
    for (int cpu = 0; cpu < 4; cpu++)
        put_alone(cpu);
    for (int cpu = 0; cpu < 3; cpu++)
        put_capacity(cpu, cpu ? 1024 : 300);
    check_mask(first(4), 4, 4);
    check_mask(first(3), 3, 2);
}

static void nonsense_in_lists(void **state)
{
    (void)state;
    static const char *const lists[] = {"",
                                        ",",
                                        "0",
                                        "0-",
                                        "0-1-2",
                                        "1-0",
                                        "-1-1",
                                        "0,1x",
                                        "x",
                                        "0;1",
                                        "0, 1",
                                        "0,1,",
                                        "0-99999999999999999999999999",
                                        "99999999999999999999,0,1",
                                        "0x0-1",
                                        "\n0-1"};
    put_siblings(0, "0-1");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        put_siblings(1, lists[i]);
        check_mask(3, 2, 2);
    }
    put_siblings(1, "0,1");
    check_mask(3, 1, 1);
    put_siblings(1, "0-1000000000");
    check_mask(3, 1, 1);
}

/* A list that is longer than any that Linux writes counts as absent, wherever it is cut. */
static void endless_list(void **state)
{
    (void)state;
    char list[4096] = "0,1";
    while (strlen(list) + 3 < sizeof list)
        strcat(list, ",1");
    put_siblings(0, "0-1");
    for (int zeros = 0; zeros < 3; zeros++) {
        put(1, "topology/thread_siblings_list", "%0*d%s\n", zeros + 1, 0, list + 1);
        check_mask(3, 2, 2);
    }
}

static void nonsense_in_numbers(void **state)
{
    (void)state;
    static const char *const numbers[] = {"",      "0",    "-5",         "-1024",
                                          "1e3",   "fast", " 300",       "0x",
                                          "300 ",  "+300", "2000000000", "99999999999999999999",
                                          "300\nx"};
    for (int cpu = 0; cpu < 2; cpu++)
        put_alone(cpu);
    put_capacity(0, 1024);
    for (size_t i = 0; i + 1 < sizeof numbers / sizeof *numbers; i++) {
        put(1, "cpu_capacity", "%s\n", numbers[i]);
        check_mask(3, 2, 2);
    }
    put(1, "cpu_capacity", "%s", numbers[sizeof numbers / sizeof *numbers - 1]);
    check_mask(3, 2, 1);           /* the first line counts */
    put(1, "cpu_capacity", "300"); /* without a newline */
    check_mask(3, 2, 1);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(raspberry_pi_5),
        CASE(phone_of_4_and_4),
        CASE(phone_with_a_mask),
        CASE(phone_of_4_and_3_and_1),
        CASE(ends_of_the_rule),
        CASE(laptop_of_fast_and_slow_cores),
        CASE(laptop_with_equal_capacities),
        CASE(server_of_two_sockets),
        CASE(cpus_that_are_offline),
        CASE(nothing_there),
        CASE(long_name),
        CASE(one_capacity_is_missing),
        CASE(nonsense_in_lists),
        CASE(endless_list),
        CASE(nonsense_in_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
