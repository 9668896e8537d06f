/* tuffet batch: answers the requests of a file. */
#include <time.h>

#include "tools/cli/power.h"
#include "tools/commands/commands.h"
#include "tools/serve/batch.h"
#include "tools/serve/catalog.h"

static struct server_options opt = {.n_slots = 16, .n_queue = UINT32_MAX / 2, .n_most = -1};
static const char *in, *out;

static const struct cli_option options[] = {
    {'f', "file", CLI_TEXT, &in, "FILE",
     "answer the requests of FILE, lines of JSON in OpenAI's form of a batch"},
    {'o', "output", CLI_TEXT, &out, "FILE",
     "add the replies to FILE; requests that have one there are left out"},
    {0, "slots", CLI_COUNT, &opt.n_slots, "N",
     "compute at most N answers at once, each in its own context"},
    {'n', "tokens", CLI_LIMIT, &opt.n_most, "N",
     "end an answer after N tokens, even if the request asks for more (default when the model ends "
     "it, or the context is full)"},
    {0, "time-limit", CLI_REAL, &opt.seconds, "SECONDS",
     "end an answer SECONDS after its prompt began to be computed (default no limit)"},
    {0, "truncate", CLI_FLAG, &opt.truncate, NULL,
     "drop the oldest turns of a conversation that outgrows the context, unless the request has "
     "\"truncation\": \"disabled\" (default an error, 400)"},
    {0, "pooling", CLI_TEXT, &opt.pooling, "HOW:mean|last",
     "embed a text as the mean of its tokens' vectors (mean) or as the last token's vector (last) "
     "(default by the model file, or else mean)"},
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
            {NULL, template_option_list},
            {NULL, template_file_option_list},
            {"Sampling, where a request does not say it", cli_sampling_option_list},
            {"Context of a slot", cli_session_option_list},
            {NULL, cli_lookup_option_list},
            {NULL, cli_lora_option_list},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {NULL, cli_thread_option_list},
            {NULL, power_option_list},
            {NULL, cli_verbose_option_list},
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
