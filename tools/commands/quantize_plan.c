#include "tools/commands/quantize_plan.h"

#include <unistd.h>

#include "tools/bench/limits.h"
#include "tools/cli/system.h"

#define SHORT 1e12 /* less work takes seconds */

/* An estimate in seconds; 0: less than a minute, or not known. */
static double seconds(double work, int threads)
{
    struct limits limits;
    bool known = work > SHORT && measure_limits(&limits, threads ? threads : tft_cpu_threads());
    return known && limits.fma_gflops > 0 ? work / limits.fma_gflops / 1e9 : 0;
}

static double gb(uint64_t bytes) { return (double)bytes / 1e9; }

static void print(const struct tft_quantize_plan *p, double time)
{
    char how_long[48] = "less than a minute", folder[64] = "";
    if (time > 60)
        snprintf(how_long, sizeof how_long, "about %.0f minutes", time / 60);
    if (p->imported)
        snprintf(folder, sizeof folder, ", %.2f GB of it for a copy of the model", gb(p->imported));
    fprintf(stderr,
            "this takes %s, longer with a search or --tune; about %.2f GB of disk%s, %.2f GB at "
            "the end; about %.2f GB of memory\n",
            how_long, gb(p->imported + p->disk), folder, gb(p->file), gb(p->memory));
}

int quantize_plan(const struct tft_quantize_plan *p, const char *out, int threads, bool quiet)
{
    uint64_t left;
    if (system_disk_left(out, &left) && left < p->disk)
        return cli_fail("%s: the disk has %.2f GB left, and making the file takes %.2f GB", out,
                        gb(left), gb(p->disk));
    if (!quiet && p->file && (p->operations > SHORT || system_is_terminal(STDERR_FILENO)))
        print(p, seconds(p->operations, threads));
    return CLI_OK;
}
