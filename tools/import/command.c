#include "command.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "port/port.h"
#include "tools/import/import.h"

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

int import_command(const char *folder, const char *path, struct import_opts o,
                   struct import_result *r)
{
    struct cli_progress bar;
    struct tft_error err;
    o.progress = progress;
    o.user = &bar;
    cli_progress_begin(&bar, "importing");
    enum tft_status status = import_model(folder, path, &o, r, &err);
    cli_progress_end(&bar);
    if (status != TFT_OK)
        return cli_fail("%s", err.msg);
    return r->stopped ? CLI_INTERRUPTED : CLI_OK;
}

bool import_is_folder(const char *path)
{
    struct tft_map map;
    int os = tft_port_map(&map, path);
    if (!os)
        tft_port_unmap(&map);
    return os == EISDIR;
}

static int open_models(struct tft_model **m, struct tft_model **runs, const char *path,
                       const struct tft_model_opts *opts)
{
    struct tft_error err;
    bool opened = tft_model_open_unexpanded(m, path, opts, &err) == TFT_OK &&
                  (!runs || tft_model_open(runs, path, opts, &err) == TFT_OK);
    return opened ? CLI_OK : cli_fail("%s", err.msg);
}

int import_open_unexpanded(struct tft_model **m, struct tft_model **runs, const char *path,
                           const char *out, const struct tft_model_opts *opts)
{
    static const char end[] = ".import";
    struct import_result r;
    if (!import_is_folder(path))
        return open_models(m, runs, path, opts);
    char *file = malloc(strlen(out) + sizeof end);
    if (!file)
        return cli_fail("out of memory");
    strcpy(file, out);
    strcat(file, end);
    struct tft_map there;
    int os = tft_port_map(&there, file);
    if (!os)
        tft_port_unmap(&there);
    int status = os == ENOENT ? import_command(path, file, (struct import_opts){0}, &r)
                              : cli_fail("%s: this file is in the way: rename or remove it", file);
    if (status == CLI_OK) {
        status = open_models(m, runs, file, opts);
        remove(file);
    }
    if (status == CLI_OK)
        (*m)->source.name = path; /* for messages */
    free(file);
    return status;
}
