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

static void print(const struct tft_quantize_plan *p, double time)
{
    char how_long[48] = "less than a minute", folder[64] = "";
    if (time > 60)
        snprintf(how_long, sizeof how_long, "about %.0f minutes", time / 60);
    if (p->imported)
        snprintf(folder, sizeof folder, ", %s of it for a copy of the model",
                 cli_amount(p->imported).text);
    fprintf(stderr,
            "this takes %s, longer with a search or --tune; about %s of disk%s, %s at the end; "
            "about %s of memory\n",
            how_long, cli_amount(p->imported + p->disk).text, folder, cli_amount(p->file).text,
            cli_amount(p->memory).text);
}

int quantize_plan(const struct tft_quantize_plan *p, const char *out, int threads, bool quiet)
{
    uint64_t left;
    if (system_disk_left(out, &left) && left < p->disk)
        return cli_fail("%s: the disk has %s left, and making the file takes %s", out,
                        cli_amount(left).text, cli_amount(p->disk).text);
    if (!quiet && p->file && (p->operations > SHORT || system_is_terminal(STDERR_FILENO)))
        print(p, seconds(p->operations, threads));
    return CLI_OK;
}
