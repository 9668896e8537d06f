/* tuffet serve, of a build without libevent, jansson or threads. */
#include "tools/commands/commands.h"

static bool json;

static const struct cli_option options[] = {
    {0, "json", CLI_FLAG, &json, NULL, "print the address as one JSON object"},
    {0},
};

static int serve(const char *path)
{
    (void)path;
    return cli_fail("this build has no server: it takes libevent, jansson (Debian: libevent-dev, "
                    "libjansson-dev) and threads");
}

const struct cli_command command_serve = {
    .name = "serve",
    .operand = "[MODEL...]",
    .summary = "answer over HTTP (not in this build)",
    .groups =
        (const struct cli_option_group[]){
            {"Server", options},
            {"Context", cli_session_option_list},
            {"Model and machine", cli_model_option_list},
            {NULL, cli_thread_option_list},
            {NULL, cli_verbose_option_list},
            {0},
        },
    .notes = "",
    .examples = "tuffet serve model.gguf\n",
    .run = serve,
};
