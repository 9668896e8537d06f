#include "power.h"

#include <stdlib.h>
#include <string.h>

#include "system.h"

enum { LEAST = 20000000 }; /* ns of a pause: threads that wait spin first */

static struct {
    const char *share; /* of --power; NULL: all of the time */
    uint32_t nice;
} opt;
static uint32_t percent = 100;

const struct cli_option power_option_list[] = {
    {0, "power", CLI_TEXT, &opt.share, "N%",
     "compute N % of the time, and wait the rest, after each token or part of the prompt: less "
     "heat, the same text (default 100%)"},
    {0, "nice", CLI_NUMBER, &opt.nice, "N",
     "lower the priority by N, at most 19: other programs come first (default 0)"},
    {0},
};

int power_begin(void)
{
    char *end;
    unsigned long n = opt.share ? strtoul(opt.share, &end, 10) : 100;
    if (opt.share && (*opt.share < '0' || *opt.share > '9' || (*end && strcmp(end, "%") != 0) ||
                      n < 1 || n > 100))
        return cli_usage("--power must be a share from 1%% to 100%%, not \"%s\"", opt.share);
    if (opt.nice > 19)
        return cli_usage("--nice must be at most 19, not %u", opt.nice);
    percent = (uint32_t)n;
    return !opt.nice || system_nice((int)opt.nice) ? CLI_OK
                                                   : cli_fail("--nice: the priority cannot be "
                                                              "lowered");
}

bool power_is_shared(void) { return percent < 100; }

static _Thread_local uint64_t due; /* ns to wait */

uint64_t power_due(uint64_t start)
{
    if (percent < 100)
        due += (cli_ns() - start) / percent * (100 - percent);
    return due < LEAST ? 0 : due;
}

void power_waited(uint64_t ns) { due = ns < due ? due - ns : 0; }

void power_rest(uint64_t start)
{
    uint64_t ns = power_due(start), from = cli_ns();
    if (!ns)
        return;
    system_wait(ns);
    power_waited(cli_interrupted() ? ns : cli_ns() - from);
}
