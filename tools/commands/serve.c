/* tuffet serve: a server for clients of OpenAI's API. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/cli/form.h"
#include "tools/cli/system.h"
#include "tools/commands/commands.h"
#include "tools/pull/operand.h"
#include "tools/serve/catalog.h"
#include "tools/serve/pool.h"
#include "tools/serve/shared_options.h"

static struct server_options opt = {.host = "127.0.0.1",
                                    .port = 8080,
                                    .n_slots = 4,
                                    .n_queue = 64,
                                    .memory = UINT64_MAX,
                                    .store = {.memory = UINT64_MAX, .disk = (uint64_t)4 << 30}};
static const char *port, *folder, *log_path;
static int log_form;
static struct cli_texts files;

static const struct cli_option options[] = {
    {0, "config", CLI_TEXT, &opt.config, "FILE",
     "take options, models and limits of keys from FILE, which SIGHUP reads again"},
    {0, "models", CLI_TEXT, &folder, "FOLDER",
     "serve the files *.gguf of FOLDER too, each under its file's name"},
    {0, "alias", CLI_TEXTS, &opt.aliases, "NEW=NAME",
     "answer requests for the model NEW with the model NAME; several times: several aliases"},
    {0, "mem", CLI_BYTES, &opt.memory, "SIZE",
     "keep the open models within SIZE bytes, such as 8G, with the caches of all their slots: the "
     "least recently used one is closed first (default no limit)"},
    {0, "host", CLI_TEXT, &opt.host, "ADDRESS",
     "listen at ADDRESS; 0.0.0.0: at all addresses of the machine"},
    {0, "port", CLI_TEXT, &port, "N", "listen at port N; 0: at any free port (default 8080)"},
    {0, "api-key", CLI_TEXT, &opt.key, "KEY",
     "answer only clients that send KEY, as OpenAI's API key (default all clients)"},
    {0, "api-key-file", CLI_TEXT, &opt.key_file, "FILE",
     "answer also clients with a key of FILE: one \"name:key\" a line; SIGHUP reads FILE again"},
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
    {0, "cache-mem", CLI_BYTES, &opt.store.memory, "SIZE",
     "keep sessions that lose their slot in SIZE bytes of memory, such as 500M; 0: keep none "
     "(default a sixteenth of the machine's memory, at most 1G)"},
    {0, "cache-dir", CLI_TEXT, &opt.store.folder, "FOLDER",
     "keep sessions that lose their slot in files of FOLDER too, for the next server (default "
     "none)"},
    {0, "cache-disk", CLI_BYTES, &opt.store.disk, "SIZE",
     "keep at most SIZE bytes in the folder of --cache-dir (default 4G)"},
    {0, "log", CLI_WORD, &log_form, "none|text|json",
     "log each request: time, route, status, model, the key's name, tokens, milliseconds; never "
     "its contents"},
    {0, "log-file", CLI_TEXT, &log_path, "FILE",
     "append the log to FILE, which SIGHUP opens again (default standard error)"},
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
        uint64_t share = system_memory() / 16;
        opt.store.memory = share < (uint64_t)1 << 30 ? share : (uint64_t)1 << 30;
    }
    if (opt.store.folder && !opt.store.memory)
        return cli_usage("--cache-dir needs some --cache-mem");
    return CLI_OK;
}

static int read_keys(struct server_options *o)
{
    char why[KEYS_WHY];
    o->keys = o->key_file ? keys_read(o->key_file, why) : NULL;
    if (o->key_file && !o->keys)
        return cli_fail("--api-key-file %s: %s", o->key_file, why);
    return log_path && log_form == LOG_NONE ? cli_usage("--log-file needs --log text or json")
                                            : CLI_OK;
}

/* FILE, or NAME=FILE. A model of the hub is fetched first. */
static int add_file(struct server *s, const char *text)
{
    const char *is = strchr(text, '=');
    bool named = is && is > text && access(text, F_OK) != 0;
    const char *path = named ? is + 1 : text;
    int status = pull_operand(&path);
    return status == CLI_OK ? catalog_add(s, text, named ? (size_t)(is - text) : 0, path) : status;
}

static int add_models(struct server *s)
{
    int status = CLI_OK;
    for (uint32_t i = 0; i < files.n && status == CLI_OK; i++)
        status = add_file(s, files.p[i]);
    s->n_named = s->n_models;
    if (status == CLI_OK)
        status = catalog_add_setup(s);
    size_t n_asked = s->n_models;
    s->several = folder || s->setup || n_asked > 1;
    if (status == CLI_OK && folder)
        status = catalog_add_folder(s, folder);
    if (status == CLI_OK && s->several)
        status = pool_peek(s, n_asked);
    return status == CLI_OK ? catalog_check_aliases(s) : status;
}

/* Options that belong to one model. */
static int check_several(const struct setup *setup)
{
    const char *draft = cli_session_options.draft, *device = cli_model_options.device;
    if (!files.n && !folder && !setup)
        return cli_usage("MODEL is missing");
    if (files.n < 2 && !folder && !setup)
        return CLI_OK;
    if (draft && strcmp(draft, "mtp") != 0)
        return cli_usage("--draft goes with one model, not with several");
    if (device && strcmp(device, "mpi") == 0)
        return cli_usage("--device mpi goes with one model, not with several");
    if (cli_asked_loras())
        return cli_usage("--lora goes with one model, not with several");
    return CLI_OK;
}

/* The limits of keys. */
static int open_quota(struct server *s)
{
    if (!s->setup || !setup_has_keys(s->setup, s->o.keys))
        return s->setup ? CLI_FAILED : CLI_OK;
    s->quota = quota_open(s->setup, NULL, cli_ns());
    return s->quota ? CLI_OK : cli_fail("out of memory");
}

static int serve_all(struct server *s)
{
    int status = read_keys(&s->o);
    if (status == CLI_OK)
        status = open_quota(s);
    if (status == CLI_OK)
        status = template_open_file();
    if (status == CLI_OK)
        status = log_open(&s->log);
    if (status == CLI_OK)
        status = add_models(s);
    if (status == CLI_OK)
        status = server_run(s);
    cli_close_draft();
    catalog_free(s);
    quota_close(s->quota);
    keys_free(s->o.keys);
    log_close(&s->log);
    return status;
}

static int check(const struct setup *setup)
{
    if (template_check() != CLI_OK || check_several(setup) != CLI_OK)
        return CLI_USAGE;
    if (read_port() != CLI_OK || read_cache() != CLI_OK)
        return CLI_USAGE;
    if (opt.n_slots > 1024)
        return cli_usage("--slots must be at most 1024, not %u", opt.n_slots);
    return CLI_OK;
}

static int serve(const char *first)
{
    if (opt.config && strcmp(opt.config, "-") == 0)
        return cli_usage("--config takes a file, which SIGHUP reads again, not standard input");
    struct setup *setup = opt.config ? setup_read(opt.config, &command_serve, true) : NULL;
    (void)first;
    if (opt.config && !setup)
        return CLI_FAILED;
    int status = check(setup);
    if (status == CLI_OK)
        status = power_begin();
    shared_options_put(&opt);
    struct server s = {.o = opt,
                       .started = (int64_t)time(NULL),
                       .command = &command_serve,
                       .setup = setup,
                       .first_setup = setup,
                       .log = {.form = log_form, .path = log_path}};
    if (status == CLI_OK)
        status = serve_all(&s);
    if (s.setup != setup)
        setup_free(s.setup);
    setup_free(setup);
    return status;
}

const struct cli_command command_serve = {
    .name = "serve",
    .operand = "[MODEL...]",
    .operands = &files,
    .summary = "answer over HTTP: a chat in the browser, OpenAI's API and others",
    .groups =
        (const struct cli_option_group[]){
            {"Server", options},
            SHARED_OPTION_GROUPS,
            {0},
        },
    .first = (const char *const[]){"host", "port", "api-key", "models", "slots", "ctx", NULL},
    .notes = "Prints the address, and serves until Ctrl-C or SIGTERM: the answers under way are "
             "then completed, and a second signal ends them. The same request with the same seed "
             "gets the same answer, whatever else the server does meanwhile.\n"
             "\n"
             "With several models, or --models, a request names its model: MODEL is a file, whose "
             "name counts, or NAME=FILE. A model is opened when a request asks for it.\n"
             "\n"
             "There is no encryption: put a proxy such as nginx in front of a server that others "
             "can reach.\n",
    .examples = "tuffet serve model.gguf\n"
                "tuffet serve model.gguf --port 9000 --slots 8 --ctx 4096 --api-key secret\n"
                "tuffet serve model.gguf --lora adapter.gguf\n"
                "tuffet serve small=a.gguf large=b.gguf --mem 8G\n"
                "tuffet serve --config serve.ini\n"
                "tuffet serve model.gguf --cache-mem 2G --cache-dir ~/.cache/tuffet/sessions\n"
                "curl http://127.0.0.1:8080/v1/completions -d '{\"prompt\": \"Once upon\"}'\n",
    .run = serve,
    .has_config = true,
};
