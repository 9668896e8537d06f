/* A machine of more than 1,024 CPUs, played: this sched_getaffinity takes the place of the
   system's, which would refuse a set without room for all of them. */
#define _GNU_SOURCE
#include "test.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "port/port.h"

static size_t cpus_of_machine;

int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    (void)pid;
    if (size * 8 < cpus_of_machine) {
        errno = EINVAL;
        return -1;
    }
    memset(set, 0, size);
    CPU_SET_S(cpus_of_machine - 1, size, set); /* the process may use the last one */
    return 0;
}

static void a_machine_of_many(void **state)
{
    (void)state;
    static const size_t machines[] = {1, 1024, 1025, 5000, 1 << 20};
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++) {
        cpus_of_machine = machines[i];
        assert_int_equal(tft_port_cpus(), 1);
    }
    cpus_of_machine = SIZE_MAX; /* no set is large enough */
    assert_true(tft_port_cpus() >= 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_machine_of_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
