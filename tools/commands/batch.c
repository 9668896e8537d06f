/* tuffet batch: answers the requests of a file. */
#include <time.h>

#include "tools/commands/commands.h"
#include "tools/serve/batch.h"
#include "tools/serve/catalog.h"
#include "tools/serve/shared_options.h"

static struct server_options opt = {.n_slots = 16, .n_queue = UINT32_MAX / 2};
static const char *in, *out;

static const struct cli_option options[] = {
    {'f', "file", CLI_TEXT, &in, "FILE",
     "answer the requests of FILE, lines of JSON in OpenAI's form of a batch"},
    {'o', "output", CLI_TEXT, &out, "FILE",
     "add the replies to FILE; requests that have one there are left out"},
    {0, "slots", CLI_COUNT, &opt.n_slots, "N",
     "compute at most N answers at once, each in its own context"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object at the end: requests, replies, new_errors"},
    {0},
};

static int batch(const char *path)
{
    if (template_check() != CLI_OK)
        return CLI_USAGE;
    if (!in || !out)
        return cli_usage("%s is missing", in ? "-o FILE" : "-f FILE");
    if (opt.n_slots > 1024)
        return cli_usage("--slots must be at most 1024, not %u", opt.n_slots);
    shared_options_put(&opt);
    struct server s = {.o = opt, .started = (int64_t)time(NULL)};
    int status = power_begin();
    if (status == CLI_OK)
        status = cli_check_output(out, in);
    if (status == CLI_OK)
        status = template_open_file();
    if (status == CLI_OK)
        status = catalog_add(&s, path, 0, path);
    if (status == CLI_OK)
        status = batch_run(&s, in, out);
    cli_close_draft();
    catalog_free(&s);
    return status;
}

const struct cli_command command_batch = {
    .name = "batch",
    .operand = "MODEL",
    .summary = "answer the requests of a file",
    .groups =
        (const struct cli_option_group[]){
            {"Requests and replies", options},
            SHARED_OPTION_GROUPS,
            {0},
        },
    .first = (const char *const[]){"file", "output", "slots", "tokens", "ctx", "device", NULL},
    .notes = "A line of FILE is an object with custom_id, method, url and body, as for OpenAI's "
             "batches; the url is /v1/chat/completions, /v1/completions, /v1/embeddings or "
             "/v1/responses. All lines are checked first. Replies come in the order in which they "
             "are ready, each with its custom_id. Ctrl-C stops; the same command goes on from "
             "there.\n",
    .examples = "tuffet batch model.gguf -f requests.jsonl -o replies.jsonl\n",
    .run = batch,
};
