#include "new_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "alloc.h"
#include "error.h"

/* Returns 0, or an errno if `path` exists and is not a regular file: a rename over /dev/null would
   do harm, and a rename over a folder would fail after all the work. */
static int check_replaceable(const char *path)
{
    struct tft_map map = {0};
    int os = tft_port_map(&map, path);
    tft_port_unmap(&map);
    return os == EISDIR || os == EINVAL ? os : 0;
}

enum tft_status tft_new_file_create(struct tft_new_file **out, const char *path,
                                    struct tft_error *err)
{
    *out = NULL;
    if (!path)
        return tft_fail(err, TFT_ERR_ARG, "no path: the name of the file is NULL");
    int os = check_replaceable(path);
    if (os)
        return tft_fail_os(err, os, path, "cannot be replaced");

    char *target = tft_port_target(path);
    size_t len = strlen(path), target_len = target ? strlen(target) : 0,
           size = sizeof(struct tft_new_file) + len + 1 + 2 * (target_len + 1) + TFT_TEMP_ROOM;
    struct tft_new_file *f = target ? tft_alloc(NULL, size) : NULL;
    if (!f) {
        free(target);
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", path);
    }
    *f = (struct tft_new_file){.size = size};
    f->path = memcpy(f + 1, path, len + 1);
    f->target = memcpy(f->path + len + 1, target, target_len + 1);
    f->temp.name = f->target + target_len + 1;
    free(target);
    os = tft_port_temp(&f->temp, &f->file, f->target);
    if (os) {
        tft_free(NULL, f, size);
        return tft_fail_os(err, os, path, "cannot be created");
    }
    *out = f;
    return TFT_OK;
}

enum tft_status tft_new_file_end(struct tft_new_file *f, bool keep, struct tft_error *err)
{
    enum tft_status status = TFT_OK;
    errno = 0;
    if (f->file && fclose(f->file) != 0 && keep)
        status = tft_fail_os(err, errno ? errno : EIO, f->path, "cannot be written");
    if (keep && status == TFT_OK) {
        int os = tft_port_keep(&f->temp, f->target);
        if (os)
            status = tft_fail_os(err, os, f->path,
                                 *f->temp.name ? "cannot be replaced"
                                                : "is written, but its folder cannot be synced");
    }
    if (!keep || status != TFT_OK)
        tft_port_discard(&f->temp);
    tft_free(NULL, f, f->size);
    return status;
}
