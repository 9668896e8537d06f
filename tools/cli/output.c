/* The file that a command writes, beside the files that it reads. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "system.h"

static bool ends(const char *name, const char *end)
{
    size_t n = strlen(name), len = strlen(end);
    return n >= len && strcmp(name + n - len, end) == 0;
}

/* Whether `out` is a file of the folder that may be read: any but a GGUF file, which an earlier run
   may have written there. */
static bool is_in_folder(const char *out, const char *folder)
{
    bool found = false;
    DIR *d = opendir(folder);
    for (struct dirent *e; d && !found && (e = readdir(d));) {
        size_t room = strlen(folder) + strlen(e->d_name) + 2;
        char *path = malloc(room);
        if (path)
            snprintf(path, room, "%s/%s", folder, e->d_name);
        found = !path || (!ends(e->d_name, ".gguf") && system_is_same_file(out, path));
        free(path);
    }
    if (d)
        closedir(d);
    return found;
}

int cli_check_output(const char *out, const char *input)
{
    if (!input || !(system_is_same_file(out, input) || is_in_folder(out, input)))
        return CLI_OK;
    return cli_fail("%s: -o names a file that is read, and would replace it: give another name",
                    out);
}
