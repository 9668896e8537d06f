/* lab_quantize: tuffet quantize with settings for comparisons with papers, which are no part of the
   product. It has all options of tuffet quantize. It is built beside tuffet, by
   commands/quantize.c with this lab_quantize in place of tft_quantize (tools/meson.build). */
#include <stdlib.h>
#include <string.h>

#include "tools/cli/system.h"
#include "tools/commands/commands.h"
#include "tools/quantize/inside.h"

static struct {
    int method, per_tensor;
    float percentile;
    bool equal_columns, paper;
} opt = {.method = RANGE_MSE, .percentile = 99.99f};

static const struct cli_option options[] = {
    {0, "range", CLI_WORD, &opt.method, "min-max|percentile|mse",
     "choose static ranges by all numbers, by a percentile, or by the least squared error"},
    {0, "percentile", CLI_REAL, &opt.percentile, "P",
     "cover P percent of the numbers, with --range percentile"},
    {0, "weights", CLI_WORD, &opt.per_tensor, "per-channel|per-tensor",
     "give each row of a weight matrix a scale, or each matrix"},
    {0, "equal-columns", CLI_FLAG, &opt.equal_columns, NULL,
     "with --gguf, count errors of all columns of a matrix alike"},
    {0, "paper", CLI_FLAG, &opt.paper, NULL,
     "search for a cushion by algorithm 1 to the letter, with --cushion exhaustive: from BOS, "
     "every "
     "token on the whole of one sample, at the end, by --cushion-tau alone"},
    {0},
};

enum tft_status lab_quantize(const char *model, const char *out,
                             const struct tft_quantize_opts *opts,
                             struct tft_quantize_result **result, struct tft_error *err)
{
    struct quantize_lab lab = {.method = (enum range_method)opt.method,
                               .percentile = (double)opt.percentile,
                               .per_tensor = opt.per_tensor,
                               .equal_columns = opt.equal_columns,
                               .paper = opt.paper};
    return quantize_with(model, out, opts, &lab, result, err);
}

/* The groups of the command after that of the lab; NULL: out of memory. */
static struct cli_option_group *groups(void)
{
    size_t n = 0;
    while (command_quantize.groups[n].list)
        n++;
    struct cli_option_group *all = malloc((n + 2) * sizeof *all);
    if (!all)
        return NULL;
    all[0] = (struct cli_option_group){"The lab", options};
    memcpy(all + 1, command_quantize.groups, (n + 1) * sizeof *all);
    return all;
}

int main(int argc, char **argv)
{
    struct cli_command c = command_quantize;
    struct cli_option_group *all = groups();
    const char *model;
    system_begin();
    if (!all)
        return cli_fail("out of memory");
    c.groups = all;
    c.first = NULL;
    int status = cli_parse(&c, argc, argv, &model);
    if (status == CLI_OK && (opt.percentile > 100 || opt.percentile == 0))
        status = cli_usage("--percentile must be above 0 and at most 100");
    if (status == CLI_OK)
        status = c.run(model);
    free(all);
    return status == CLI_HELPED ? CLI_OK : status;
}
