#define _POSIX_C_SOURCE 200809L
#include "operand.h"

#include <unistd.h>

#include "cache.h"
#include "imported.h"
#include "pull.h"
#include "tools/cli/cli.h"
#include "tools/quantize/tuffet_quantize.h"

static bool progress(void *user, const char *step, double done)
{
    (void)step;
    cli_progress_at(user, done);
    return !cli_interrupted();
}

static int import(const char *folder, const char *path)
{
    struct cli_progress bar;
    struct tft_error err;
    struct tft_import_opts o = {.size = sizeof o, .progress = progress, .user = &bar};
    cache_make_folders(path);
    cli_catch_interrupts();
    cli_progress_begin(&bar, "importing");
    enum tft_status status = tft_import(folder, path, &o, NULL, &err);
    cli_progress_end(&bar);
    cli_release_interrupts();
    if (status == TFT_ERR_CANCELLED)
        return CLI_INTERRUPTED;
    return status == TFT_OK ? CLI_OK : cli_fail("%s", err.msg);
}

/* path = the GGUF file of a pulled model, which is made once of a folder. */
static int file_of(const struct pull_name *n, const struct pull_result *r, char path[PULL_PATH])
{
    if (!r->folder)
        return pull_path_print(path, "%s", r->path) ? CLI_OK : CLI_FAILED;
    if (!imported_path(n->repo, r->commit, path))
        return cli_fail("no folder for models: set XDG_CACHE_HOME, or HOME");
    return access(path, R_OK) == 0 ? CLI_OK : import(r->path, path);
}

int pull_operand(const char **operand)
{
    static char path[PULL_PATH];
    struct pull_name n;
    struct pull_result r;
    if (!pull_is_name(*operand))
        return CLI_OK;
    if (!pull_name_read(&n, *operand))
        return cli_usage("a model of the hub is hf:USER/REPO or hf:USER/REPO:QUANT, not \"%s\"",
                         *operand);
    int status = pull_find(&n, &r) ? CLI_OK : pull_fetch(&n, &r);
    if (status == CLI_OK)
        status = file_of(&n, &r, path);
    *operand = path;
    return status;
}
