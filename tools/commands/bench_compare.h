/* tuffet bench --compare: the command line that both programs get. */
#ifndef BENCH_COMPARE_H
#define BENCH_COMPARE_H

#include "tools/cli/cli.h"

struct bench_compare {
    const char *other, *path;         /* the other program; the model */
    const struct cli_option *options; /* of bench, beside the options of models and sessions */
    const char *const *left_out;      /* names of `options` that stay here; NULL ends them */
    uint32_t pairs;
    bool json;
};

/* Returns a status of tools/cli/cli.h. */
int bench_compare(const struct bench_compare *o);

#endif
