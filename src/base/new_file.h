/*
 * A file that gets its name once it is complete: nobody sees half a file, and the old file stays
 * until then. A process killed earlier leaves nothing, or PATH.tmpN: on systems without unnamed
 * files, and at two moments (see tft_port_temp).
 */
#ifndef TFT_NEW_FILE_H
#define TFT_NEW_FILE_H

#include "port/port.h"
#include "tuffet.h"

struct tft_new_file {
    FILE *file;             /* write and close this file; then temp.name can be mapped */
    char *path, *target;    /* as given, for messages; the target of symbolic links */
    struct tft_temp temp;
    size_t size; /* bytes of this allocation: the struct, the two paths, temp.name */
};

/* Starts a file that will replace `path`. On failure *out is NULL. */
enum tft_status tft_new_file_create(struct tft_new_file **out, const char *path,
                                    struct tft_error *err);

/* Closes f->file if open, replaces `path` if `keep`, and frees f. After a failure, and without
   `keep`, no new file remains, and an old file at `path` is unchanged. */
enum tft_status tft_new_file_end(struct tft_new_file *f, bool keep, struct tft_error *err);

#endif
