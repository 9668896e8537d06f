/* tuffet list: the models on this machine. */
#include <inttypes.h>
#include <string.h>

#include "tools/commands/commands.h"
#include "tools/pull/found.h"

static bool json;

static const struct cli_option options[] = {
    {0, "json", CLI_FLAG, &json, NULL,
     "print one JSON object a line for each model: model, path, bytes, from, known"},
    {0},
};

static void print_json(const struct found *f)
{
    fputs("{\"model\":", stdout);
    cli_json_string(stdout, f->model, strlen(f->model));
    fputs(",\"path\":", stdout);
    cli_json_string(stdout, f->path, strlen(f->path));
    printf(",\"bytes\":%" PRIu64 ",\"from\":\"%s\",\"known\":", f->bytes, f->from);
    cli_json_string(stdout, f->known, strlen(f->known));
    puts("}");
}

static void print(const struct found *f)
{
    printf("%8.2f GB  %-11s  ", (double)f->bytes / 1e9, f->from);
    cli_put_escaped(stdout, f->model, strlen(f->model));
    if (*f->known) {
        fputs("  ", stdout);
        cli_put_escaped(stdout, f->known, strlen(f->known));
    }
    putchar('\n');
}

struct request {
    const char *part; /* of the name, or NULL */
    size_t shown;
};

static void show(void *user, const struct found *f)
{
    struct request *r = user;
    if (r->part && !strstr(f->model, r->part) && !strstr(f->known, r->part))
        return;
    r->shown++;
    if (json)
        print_json(f);
    else
        print(f);
}

static int list(const char *part)
{
    struct request r = {.part = part};
    int status = found_each(show, &r);
    if (status == CLI_OK && !r.shown && !json)
        fputs("tuffet: there are none; tuffet pull USER/REPO fetches one\n", stderr);
    return status;
}

const struct cli_command command_list = {
    .name = "list",
    .operand = "[NAME]",
    .summary = "list the models on this machine",
    .groups =
        (const struct cli_option_group[]){
            {"Output", options},
            {0},
        },
    .notes = "Prints the size of each model, the program that fetched it, and what other commands "
             "take for MODEL. With NAME, prints only models that have NAME in their names.\n"
             "\n"
             "Models are searched for in the caches of Hugging Face (tuffet, huggingface), "
             "llama.cpp and ollama.\n",
    .examples = "tuffet list Qwen\n"
                "tuffet list --json\n",
    .run = list,
};
