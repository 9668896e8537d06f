/* tuffet pull, list and rm, of a build without libcurl, OpenSSL or jansson. */
#include "tools/commands/commands.h"

static bool json;

static const struct cli_option options[] = {
    {0, "json", CLI_FLAG, &json, NULL, "print the result as JSON"},
    {0},
};

static const struct cli_option_group groups[] = {
    {"Output", options},
    {0},
};

static int none(const char *operand)
{
    (void)operand;
    return cli_fail("this build fetches no models: it takes libcurl, OpenSSL and jansson (Debian: "
                    "libcurl4-openssl-dev, libssl-dev, libjansson-dev)");
}

const struct cli_command command_pull = {
    .name = "pull",
    .operand = "USER/REPO[:QUANT]",
    .summary = "fetch a model from Hugging Face (not in this build)",
    .groups = groups,
    .notes = "",
    .examples = "tuffet pull Qwen/Qwen3-0.6B-GGUF\n",
    .run = none,
};

const struct cli_command command_list = {
    .name = "list",
    .operand = "[NAME]",
    .summary = "list the models on this machine (not in this build)",
    .groups = groups,
    .notes = "",
    .examples = "tuffet list --json\n",
    .run = none,
};

const struct cli_command command_rm = {
    .name = "rm",
    .operand = "USER/REPO[:QUANT]",
    .summary = "remove a model that tuffet pull has fetched (not in this build)",
    .groups = groups,
    .notes = "",
    .examples = "tuffet rm Qwen/Qwen3-0.6B-GGUF\n",
    .run = none,
};
