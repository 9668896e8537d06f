/*
 * The folder of a cache: images in files, which survive the server. A thread of its own writes
 * them, so that nobody waits for the disk. A file gets its name when it is complete and on disk,
 * so that it is whole whenever the server ends. One server at a time uses a folder.
 *
 *      tuffet-0123456789abcdef.session     an image; the number grows from file to file
 *      tuffet.new                          the one that is being written
 *      tuffet.lock                         locked by the server that uses the folder
 *
 * All files of such names count towards the bound, those of other models too; the ones that have
 * not been used for longest are deleted. Other files are left alone.
 */
#ifndef SERVE_FOLDER_H
#define SERVE_FOLDER_H

#include "image.h"

struct folder;

/* Opens a folder, or makes it, for at most `most` bytes of files. Prints one line if another server
   uses it, and *out is NULL; and one line if there are files that are of no use. Returns CLI_OK, or
   CLI_FAILED after an error message. path must outlive the folder. */
int folder_open(struct folder **out, const char *path, uint64_t most, const struct image_kind *k,
                struct budget *b);

/* Writes the images that wait, and ends the thread. f may be NULL. */
void folder_close(struct folder *f);

/* Queues an image for writing, and shares it until it is written. */
void folder_put(struct folder *f, struct image *i);

/* Waits until all queued images are written. */
void folder_wait(struct folder *f);

/* The file whose session has most of ids[n]. */
struct folder_match {
    size_t n;        /* so many of them; 0: no file has any */
    size_t n_tokens; /* tokens of the session */
    size_t bytes;    /* of the file */
    uint64_t file;
};
struct folder_match folder_find(struct folder *f, const int32_t *ids, size_t n);

/* Reads a file. NULL: it is gone, or damaged, or there is no room in the budget. */
struct image *folder_read(struct folder *f, uint64_t file);

/* The session of the file cannot be loaded: the file is deleted. */
void folder_spoiled(struct folder *f, uint64_t file);

/* Bytes of all files that count towards the bound; files that sessions can be loaded from. */
void folder_counts(struct folder *f, uint64_t *bytes, size_t *n_files);

#endif
