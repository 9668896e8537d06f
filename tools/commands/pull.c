/* tuffet pull: fetches a model of the hub. */
#include <inttypes.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/pull/pull.h"

static bool json;

static const struct cli_option options[] = {
    {0, "json", CLI_FLAG, &json, NULL,
     "print one JSON object: path, commit, files, bytes, fetched: bytes that came from the hub, "
     "seconds"},
    {0},
};

static void report(const struct pull_result *r, double seconds)
{
    if (!json) {
        puts(r->path);
        return;
    }
    fputs("{\"path\":", stdout);
    cli_json_string(stdout, r->path, strlen(r->path));
    printf(",\"commit\":\"%s\",\"files\":%zu,\"bytes\":%" PRIu64 ",\"fetched\":%" PRIu64
           ",\"seconds\":%.3f}\n",
           r->commit, r->files, r->bytes, r->fetched, seconds);
}

static int pull(const char *text)
{
    struct pull_name n;
    struct pull_result r;
    uint64_t start = cli_ns();
    if (!pull_name_read(&n, text))
        return cli_usage("a model of the hub is USER/REPO or USER/REPO:QUANT, not \"%s\"", text);
    int status = pull_fetch(&n, &r);
    if (status == CLI_OK)
        report(&r, (double)(cli_ns() - start) / 1e9);
    return status;
}

const struct cli_command command_pull = {
    .name = "pull",
    .operand = "USER/REPO[:QUANT]",
    .summary = "fetch a model from Hugging Face, and print its path",
    .groups =
        (const struct cli_option_group[]){
            {"Output", options},
            {0},
        },
    .notes =
        "QUANT is a part of the file's name, such as Q4_K_M, or the whole name. Without QUANT, the "
        "file is Q4_K_M, or else Q8_0, or else the only GGUF file, or else the folder of "
        "safetensors. All parts of a split file are fetched.\n"
        "\n"
        "Files go to the cache of Hugging Face, ~/.cache/huggingface/hub, where other programs "
        "find them. Files that are there, in llama.cpp's cache or in ollama's are not fetched "
        "again. Ctrl-C stops; the next pull continues. Each file must have the hash that the hub "
        "names.\n"
        "\n"
        "Commands that take MODEL take hf:USER/REPO[:QUANT] too: they use the model that is here, "
        "or fetch it first.\n"
        "\n"
        "The environment: HF_TOKEN or HF_TOKEN_PATH, HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, "
        "HF_HUB_OFFLINE, HF_HUB_DOWNLOAD_TIMEOUT, and https_proxy as in other programs.\n",
    .examples = "tuffet pull Qwen/Qwen3-0.6B-GGUF\n"
                "tuffet pull Qwen/Qwen3-0.6B-GGUF:Q8_0 --json\n"
                "HF_TOKEN=... tuffet pull google/gemma-3-1b-it-qat-q4_0-gguf\n",
    .run = pull,
};
