#include "drawing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/cli.h"

int drawing_begin(struct drawing *d, const char *prefix, const char *suffix)
{
    size_t n = strlen(prefix) + strlen(suffix) + 1;
    d->path = malloc(2 * n + TFT_TEMP_ROOM);
    if (!d->path)
        return cli_fail("out of memory");
    snprintf(d->path, n, "%s%s", prefix, suffix);
    d->temp.name = d->path + n;
    int os = tft_port_temp(&d->temp, &d->file, d->path);
    return os ? cli_fail("%s: %s", d->path, strerror(os)) : CLI_OK;
}

int drawing_finish(struct drawing *d)
{
    bool bad = ferror(d->file);
    errno = 0;
    bad |= fclose(d->file) != 0;
    d->file = NULL;
    int os = bad ? errno ? errno : EIO : tft_port_keep(&d->temp, d->path);
    if (os)
        tft_port_discard(&d->temp);
    return os ? cli_fail("%s: %s", d->path, strerror(os)) : CLI_OK;
}

void drawing_end(struct drawing *d)
{
    if (d->file) {
        fclose(d->file);
        tft_port_discard(&d->temp);
    }
    free(d->path);
    *d = (struct drawing){0};
}

const char *drawing_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
