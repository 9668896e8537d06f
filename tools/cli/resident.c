#include "resident.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "system.h"

enum { PIECE = 1 << 20, SPLIT = sizeof "-00001-of-00002.gguf" - 1 };

/* The number of the path's files: NAME-00001-of-0000N.gguf has N. */
static unsigned files_of(const char *path)
{
    size_t n = strlen(path);
    unsigned part, all;
    int end = 0;
    return n > SPLIT && sscanf(path + n - SPLIT, "-%5u-of-%5u.gguf%n", &part, &all, &end) == 2 &&
                   end == SPLIT
               ? all
               : 1;
}

/* The path of part i of all, from 1 on; the caller frees it. */
static char *part_of(const char *path, unsigned i, unsigned all)
{
    size_t n = strlen(path);
    char *part = malloc(n + 1), name[SPLIT + 16];
    if (!part)
        return NULL;
    memcpy(part, path, n + 1);
    snprintf(name, sizeof name, "-%05u-of-%05u.gguf", i, all);
    if (all > 1)
        memcpy(part + n - SPLIT, name, SPLIT);
    return part;
}

/* Reads a file, which the system then keeps in memory while there is room. before: of `all` files
 */
static int read_file(struct cli_progress *p, const char *path, unsigned before, unsigned all)
{
    FILE *f = fopen(path, "rb");
    char *piece = malloc(PIECE);
    int64_t size = f ? system_file_size(f) : -1;
    if (!piece || size < 0) {
        int status = piece ? cli_fail("%s: %s", path, strerror(errno)) : cli_fail("out of memory");
        free(piece);
        if (f)
            fclose(f);
        return status;
    }
    uint64_t done = 0;
    for (size_t n; (n = fread(piece, 1, PIECE, f)) > 0 && !cli_interrupted(); done += n)
        cli_progress_at(p, (before + (double)done / (double)(size ? size : 1)) / all);
    bool failed = ferror(f);
    free(piece);
    fclose(f);
    return cli_interrupted() ? CLI_INTERRUPTED
           : failed          ? cli_fail("%s: cannot be read", path)
                             : CLI_OK;
}

static int preload(const char *path)
{
    struct cli_progress p;
    unsigned all = files_of(path);
    int status = CLI_OK;
    cli_progress_begin(&p, "reading the model");
    for (unsigned i = 0; i < all && status == CLI_OK; i++) {
        char *part = part_of(path, i + 1, all);
        status = part ? read_file(&p, part, i, all) : cli_fail("out of memory");
        free(part);
    }
    cli_progress_end(&p);
    return status;
}

int resident_begin(const char *path)
{
    const struct cli_model_options *o = &cli_model_options;
    int status = o->preload ? preload(path) : CLI_OK;
    if (status == CLI_OK && o->lock && !system_lock_memory())
        return cli_fail("--mlock: the system does not let this process keep so much memory: %s "
                        "(see ulimit -l)",
                        strerror(errno));
    return status;
}
