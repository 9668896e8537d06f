/* The bundled model. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <string.h>
#include <unistd.h>

const char *cli_program_path = "";

/* path = the model in folder[n]; NULL if there is none, or its name is too long. */
static const char *model_in(char path[], size_t size, const char *folder, size_t n)
{
    int len = snprintf(path, size, "%.*s/stories2M.gguf", (int)n, folder);
    return len > 0 && (size_t)len < size && access(path, R_OK) == 0 ? path : NULL;
}

/* Beside the program, in the folder of data, or in the sources around a folder of builds. */
static const char *find_model(char path[], size_t size)
{
    static const char *const sources[] = {"../../models/demo", "../../../models/demo"};
    const char *slash = strrchr(cli_program_path, '/'), *found = NULL;
    int n = slash ? (int)(slash - cli_program_path) : 0;
    if (slash)
        found = model_in(path, size, cli_program_path, (size_t)n);
    if (!found)
        found = model_in(path, size, TUFFET_DATA, strlen(TUFFET_DATA));
    for (size_t i = 0; slash && !found && i < sizeof sources / sizeof *sources; i++) {
        char folder[4096];
        int len = snprintf(folder, sizeof folder, "%.*s/%s", n, cli_program_path, sources[i]);
        if (len > 0 && (size_t)len < sizeof folder)
            found = model_in(path, size, folder, (size_t)len);
    }
    return found;
}

const char *cli_find_shipped_model(void)
{
    static char path[4096];
    return find_model(path, sizeof path);
}

const char *cli_shipped_model(void)
{
    const char *found = cli_find_shipped_model();
    if (!found)
        cli_usage(
            "MODEL is missing, and stories2M.gguf is neither beside the program nor in " TUFFET_DATA
            ": name a GGUF file");
    return found;
}
