/*
 * A file that gets its name when it is complete: nobody sees half of it, and the file that was
 * there stays until then. If the process is killed before, nothing remains, or PATH.tmpN on systems
 * without unnamed files and in two moments (see tft_port_draft).
 */
#ifndef TFT_NEW_FILE_H
#define TFT_NEW_FILE_H

#include "port/port.h"
#include "tuffet.h"

struct tft_new_file {
    FILE *file;             /* to be written to and closed; then draft.name can be mapped */
    char *path, *target;    /* as given, for messages; the file behind symbolic links */
    struct tft_draft draft;
    size_t size; /* bytes of this allocation: the struct, the two paths, draft.name */
};

/* Starts a file that will replace `path`. On failure *out is NULL. */
enum tft_status tft_new_file_create(struct tft_new_file **out, const char *path,
                                    struct tft_error *err);

/* Closes f->file if it is open, puts the file in its place if `keep`, and frees f. After a failure,
   and without `keep`, no file remains, and a file that was at `path` is unchanged. */
enum tft_status tft_new_file_end(struct tft_new_file *f, bool keep, struct tft_error *err);

#endif
