/*
 * The folder of a cache: images in files, which survive the server. A thread of its own writes the
 * files, so that no request waits for the disk. A file gets its name when it is complete and on
 * disk, so no end of the server leaves a partial one. One server at a time uses a folder.
 *
 *      tuffet-0123456789abcdef.session     an image; the number grows from file to file
 *      tuffet.new                          an image being written
 *      tuffet.lock                         locked by the server that uses the folder
 *
 * All files of such names count towards the bound, also of other models; the least recently used
 * ones are deleted. Other files stay.
 */
#ifndef SERVE_FOLDER_H
#define SERVE_FOLDER_H

#include "image.h"

struct folder;

/* Opens a folder, or makes it, for at most `most` bytes of files. Prints one line if another server
   uses it, and *out is NULL; and one line if some files are not usable. Returns CLI_OK, or
   CLI_FAILED after an error message. path must outlive the folder. */
int folder_open(struct folder **out, const char *path, uint64_t most, const struct image_kind *k,
                struct budget *b);

/* Writes the waiting images, and ends the thread. f may be NULL. */
void folder_close(struct folder *f);

/* Queues an image for writing, and shares it until it is written. */
void folder_put(struct folder *f, struct image *i);

/* Waits until all queued images are written. */
void folder_wait(struct folder *f);

/* The file of the session that has most of the prompt. */
struct folder_match {
    size_t n;        /* number of its tokens; 0: no file has any */
    size_t n_tokens; /* tokens of the session */
    size_t bytes;    /* of the file */
    uint64_t file;
};
struct folder_match folder_find(struct folder *f, const struct trail_prompt *p);

/* Reads a file. NULL: the file is gone or damaged, or the budget has no room. */
struct image *folder_read(struct folder *f, uint64_t file);

/* The session of the file cannot be loaded: the file is deleted. */
void folder_spoiled(struct folder *f, uint64_t file);

/* Bytes of all files that count towards the bound; number of files that sessions can be loaded
   from. */
void folder_counts(struct folder *f, uint64_t *bytes, size_t *n_files);

#endif
