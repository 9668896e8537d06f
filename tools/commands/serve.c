/* tuffet serve: a server for clients of OpenAI's API. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli/form.h"
#include "tools/commands/commands.h"
#include "tools/serve/fields.h"
#include "tools/serve/server.h"

static struct server_options opt = {.host = "127.0.0.1",
                                    .port = 8080,
                                    .n_slots = 4,
                                    .n_queue = 64,
                                    .store = {.memory = UINT64_MAX, .disk = (uint64_t)4 << 30}};
static const char *port, *pooling;

static const struct cli_option options[] = {
    {0, "host", CLI_TEXT, &opt.host, "ADDRESS",
     "listen at ADDRESS; 0.0.0.0: at all addresses of the machine"},
    {0, "port", CLI_TEXT, &port, "N", "listen at port N; 0: at any free port (default 8080)"},
    {0, "api-key", CLI_TEXT, &opt.key, "KEY",
     "answer only clients that send KEY, as OpenAI's API key (default all clients)"},
    {0, "cors", CLI_TEXT, &opt.origin, "ORIGIN",
     "let web pages of ORIGIN, such as https://example.org, use the server; *: all pages (default "
     "none)"},
    {0, "allow-host", CLI_TEXTS, &opt.allowed, "NAME",
     "answer also requests that call the server by NAME; several times: by several names (default "
     "addresses, localhost and the machine's own name)"},
    {0, "slots", CLI_COUNT, &opt.n_slots, "N",
     "compute at most N answers at once, each in its own context"},
    {0, "slot-save-path", CLI_TEXT, &opt.slot_folder, "FOLDER",
     "let clients save the tokens of slots in files of FOLDER, and restore them (/slots)"},
    {0, "queue", CLI_COUNT, &opt.n_queue, "N",
     "let N answers and N requests for embeddings wait; further clients get the status 429"},
    {0, "pooling", CLI_TEXT, &pooling, "HOW:mean|last|cls",
     "embed a text as the mean of its tokens' vectors (mean), or as the vector of the last (last) "
     "or, "
     "of an encoder, the first token (cls) (default by the model file, or else mean)"},
    {0, "cache-mem", CLI_BYTES, &opt.store.memory, "SIZE",
     "keep sessions that lose their slot in SIZE bytes of memory, such as 500M; 0: keep none "
     "(default a sixteenth of the machine's memory, at most 1G)"},
    {0, "cache-dir", CLI_TEXT, &opt.store.folder, "FOLDER",
     "keep sessions that lose their slot in files of FOLDER too, for the next server (default "
     "none)"},
    {0, "cache-disk", CLI_BYTES, &opt.store.disk, "SIZE",
     "keep at most SIZE bytes in the folder of --cache-dir (default 4G)"},
    {0, "json", CLI_FLAG, &opt.json, NULL, "print the address as one JSON object: url, port"},
    {0},
};

static int read_port(void)
{
    char *end;
    unsigned long n = port ? strtoul(port, &end, 10) : opt.port;
    if (port && (*port < '0' || *port > '9' || *end || n > 65535))
        return cli_usage("--port must be a number up to 65535, not \"%s\"", port);
    opt.port = (uint32_t)n;
    return CLI_OK;
}

/* Sets the memory of the cache, if it was not given. */
static int read_cache(void)
{
    if (opt.store.memory == UINT64_MAX) {
        long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
        uint64_t share = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page / 16 : 0;
        opt.store.memory = share < (uint64_t)1 << 30 ? share : (uint64_t)1 << 30;
    }
    if (opt.store.folder && !opt.store.memory)
        return cli_usage("--cache-dir needs some --cache-mem");
    return CLI_OK;
}

/* The model's name for clients: its file's name, as UTF-8. */
static json_t *name_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    size_t n = strlen(file);
    bool gguf = n > 5 && strcmp(file + n - 5, ".gguf") == 0;
    return json_bytes(file, gguf ? n - 5 : n);
}

static int serve(const char *path)
{
    struct tft_model *m = NULL;
    if (template_check() != CLI_OK)
        return CLI_USAGE;
    if (read_port() != CLI_OK || read_cache() != CLI_OK)
        return CLI_USAGE;
    if (opt.n_slots > 1024)
        return cli_usage("--slots must be at most 1024, not %u", opt.n_slots);
    json_t *id = name_of(path);
    if (!id)
        return cli_fail("out of memory");
    int status = cli_open_model(&m, path, false);
    if (status == CLI_OK)
        status = cli_open_draft(m);
    struct server s = {
        .o = opt, .m = m, .id = json_string_value(id), .started = (int64_t)time(NULL)};
    if (status == CLI_OK && !pooling_choose(&s.o.pooling, pooling, m))
        status = CLI_USAGE;
    if (status == CLI_OK) {
        struct tft_model_info info = {.size = sizeof info};
        tft_model_describe(m, &info);
        if (!info.encoder &&
            s.o.pooling != TFT_POOLING_RANK) /* without a template, there is no chat */
            s.template = template_choose(m, path, false);
        s.tool_template = template_has_tool_use(m) ? template_choose(m, path, true) : s.template;
        status = server_run(&s);
    }
    cli_close_draft();
    tft_model_close(m);
    json_decref(id);
    return status;
}

const struct cli_command command_serve = {
    .name = "serve",
    .operand = "MODEL",
    .summary = "answer over HTTP: a chat in the browser, OpenAI's API and others",
    .groups =
        (const struct cli_option_group[]){
            {"Server", options},
            {NULL, template_option_list},
            {"Sampling, where a request does not say it", cli_sampling_option_list},
            {"Context of a slot", cli_session_option_list},
            {NULL, cli_lookup_option_list},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {NULL, cli_thread_option_list},
            {NULL, cli_verbose_option_list},
            {0},
        },
    .first = (const char *const[]){"host", "port", "api-key", "slots", "ctx", "device", NULL},
    .notes = "Prints the address, and serves until Ctrl-C or SIGTERM: the answers under way are "
             "then completed, and a second signal ends them. The same request with the same seed "
             "gets the same answer, whatever else the server does meanwhile.\n"
             "\n"
             "There is no encryption: put a proxy such as nginx in front of a server that others "
             "can reach.\n",
    .examples = "tuffet serve model.gguf\n"
                "tuffet serve model.gguf --port 9000 --slots 8 --ctx 4096 --api-key secret\n"
                "tuffet serve model.gguf --cache-mem 2G --cache-dir ~/.cache/tuffet/sessions\n"
                "curl http://127.0.0.1:8080/v1/completions -d '{\"prompt\": \"Once upon\"}'\n",
    .run = serve,
};
