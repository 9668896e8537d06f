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

const char *cli_shipped_model(void)
{
    static char path[4096];
    const char *slash = strrchr(cli_program_path, '/'), *found = NULL;
    if (slash)
        found = model_in(path, sizeof path, cli_program_path, (size_t)(slash - cli_program_path));
    if (!found)
        found = model_in(path, sizeof path, TUFFET_DATA, strlen(TUFFET_DATA));
    if (!found)
        cli_usage("MODEL is missing, and stories2M.gguf is neither beside the program nor in "
                  TUFFET_DATA);
    return found;
}
