/* tuffet rm: removes a model that tuffet pull has fetched. */
#include <inttypes.h>

#include "tools/commands/commands.h"
#include "tools/pull/removal.h"

static bool json;

static const struct cli_option options[] = {
    {0, "json", CLI_FLAG, &json, NULL, "print one JSON object: files, bytes"},
    {0},
};

static int rm(const char *text)
{
    struct pull_name n;
    struct removal r;
    if (!pull_name_read(&n, text))
        return cli_usage("a model of the hub is USER/REPO or USER/REPO:QUANT, not \"%s\"", text);
    int status = removal_make(&n, &r);
    if (status == CLI_OK && json)
        printf("{\"files\":%zu,\"bytes\":%" PRIu64 "}\n", r.files, r.bytes);
    else if (status == CLI_OK)
        printf("removed %.2f GB\n", (double)r.bytes / 1e9);
    return status;
}

const struct cli_command command_rm = {
    .name = "rm",
    .operand = "USER/REPO[:QUANT]",
    .summary = "remove a model that tuffet pull has fetched",
    .groups =
        (const struct cli_option_group[]){
            {"Output", options},
            {0},
        },
    .notes = "Removes only files that tuffet pull has written, and the GGUF file that a command "
             "has made of a folder. A file that another program still uses in the same cache "
             "stays. Without QUANT, removes all files of the repository.\n",
    .examples = "tuffet rm Qwen/Qwen3-0.6B-GGUF\n"
                "tuffet rm Qwen/Qwen3-0.6B-GGUF:Q8_0\n",
    .run = rm,
};
