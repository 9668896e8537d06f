/*
 * A repository's folder in the cache of Hugging Face: blobs/HASH has contents, refs/main the
 * newest commit, snapshots/COMMIT/PATH leads to a blob by a relative link. Other programs read and
 * write there too. What tuffet has made is recorded in the file .tuffet, so that `tuffet rm`
 * removes nothing else.
 *
 * No function goes through a link inside the folder, so that a link that someone has put there
 * makes nobody write elsewhere.
 */
#ifndef PULL_CACHE_H
#define PULL_CACHE_H

#include "files.h"
#include "name.h"

struct cache {
    char folder[PULL_PATH], locks[PULL_PATH]; /* the repository's, and the folder of its locks */
    int fd;                                   /* of the folder; -1: closed */
};

/* Opens the folder, and makes it if `make`. Returns CLI_OK, or CLI_FAILED after a message; without
   `make`, a missing folder is CLI_FAILED without a message. */
int cache_open(struct cache *c, const char *repo, bool make);
void cache_close(struct cache *c);

/* Makes the folders of a path; the last part is a file's name unless the path ends with "/". */
void cache_make_folders(const char *path);

/* A folder under another one, and the folders between, made if `make`; -1: errno says why. The
   caller closes it. */
int cache_folder(int under, const char *path, bool make);

/* Whether the blob is there, with this size. */
bool cache_has(const struct cache *c, const struct pull_file *f);

/* Waits until no other process fetches the blob. Returns CLI_OK, CLI_FAILED or CLI_INTERRUPTED;
   *lock: to be closed. */
int cache_lock(const struct cache *c, const char *hash, int *lock);

/* Opens the file in which a blob grows, with all that an earlier try has left. -1 after a message.
   *held: its bytes. */
int cache_open_part(const struct cache *c, const char *hash, uint64_t *held);

/* Makes the part a blob (keep), or removes it. Returns CLI_OK or CLI_FAILED. */
int cache_end_part(const struct cache *c, const char *hash, bool keep);

/* Makes a blob of another program's file, without a copy. false: that cannot be done. */
bool cache_adopt(const struct cache *c, const char *hash, const char *path);

/* Lets the file of a snapshot lead to its blob. Returns CLI_OK or CLI_FAILED. */
int cache_link(const struct cache *c, const char *commit, const struct pull_file *f);

/* The commit of refs/main. Returns false if there is none. */
bool cache_commit(const struct cache *c, char commit[41]);
int cache_set_commit(const struct cache *c, const char *commit);

/* The files of a snapshot that are whole, with their sizes, without hashes. Returns CLI_OK or
   CLI_FAILED. */
int cache_files(const struct cache *c, const char *commit, struct pull_files *files);

/* The record, one path a line, which the caller frees; NULL: there is none. */
char *cache_record(const struct cache *c);

#endif
