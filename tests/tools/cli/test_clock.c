/* The clock of CPUs, as Linux tells it: each case writes the folder of a machine. */
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */
#include "test.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/cli/clock.h"

static char machine[64];

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

static void put(int cpu, const char *name, const char *text)
{
    char path[256];
    int n = snprintf(path, sizeof path, "%s/cpu%d", machine, cpu);
    mkdir(path, 0700);
    n += snprintf(path + n, sizeof path - (size_t)n, "/cpufreq");
    mkdir(path, 0700);
    snprintf(path + n, sizeof path - (size_t)n, "/%s", name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void put_cpu(int cpu, const char *now, const char *most)
{
    put(cpu, "scaling_cur_freq", now);
    put(cpu, "cpuinfo_max_freq", most);
}

static void check(double mhz, double most)
{
    struct clock c;
    assert_true(clock_read(&c, machine));
    assert_float_equal(c.mhz, mhz, 1e-6);
    assert_float_equal(c.most_mhz, most, 1e-6);
}

static void a_mean(void **state)
{
    (void)state;
    put_cpu(0, "600000\n", "1500000\n");
    check(600, 1500);
    put_cpu(1, "1800000\n", "2500000\n");
    check(1200, 2000);
}

/* CPU 0 is offline, CPU 2 tells half: the others count. */
static void gaps(void **state)
{
    (void)state;
    put_cpu(1, "1000000", "2000000");
    put(2, "scaling_cur_freq", "3000000\n");
    put_cpu(40, "3000000\n", "4000000\n");
    check(2000, 3000);
}

static void unknown(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "\n", "<unknown>\n", "0\n", "-5\n"};
    struct clock c;
    assert_false(clock_read(&c, machine));
    assert_false(clock_read(&c, "/no/such/folder"));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        put_cpu(0, wrong[i], "1500000\n");
        assert_false(clock_read(&c, machine));
    }
    char name[600];
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    assert_false(clock_read(&c, name));
    put_cpu(1, "900000\n", "1500000\n");
    check(900, 1500);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {CASE(a_mean), CASE(gaps), CASE(unknown)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
