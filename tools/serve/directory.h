/*
 * Files in a folder that others may write to, too: by a name in the folder. No link is followed.
 * directory_posix.c and directory_windows.c implement this header. Functions return 0 or an errno;
 * those that open a file return its descriptor, or -1 with errno set.
 */
#ifndef SERVE_DIRECTORY_H
#define SERVE_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/cli/system.h"

struct directory;

/* Makes a folder for the user alone, unless it is there. */
int directory_make(const char *path);

int directory_open(struct directory **out, const char *path);
void directory_close(struct directory *d); /* NULL is fine */

/* Locks the folder for one process, by a file in it. EBUSY: another process has it. Closing the
   folder ends the lock. */
int directory_lock(struct directory *d, const char *name);

/* Calls take(user, name) for all names in the folder, until it returns false. */
int directory_list(const struct directory *d, bool (*take)(void *user, const char *name),
                   void *user);

/* Whether the name is a regular file. */
bool directory_find(const struct directory *d, const char *name, struct system_file *out);

int directory_read(const struct directory *d, const char *name);   /* opens a file */
int directory_create(const struct directory *d, const char *name); /* opens a new file, for writing,
                                                                      for the user alone */
int directory_sync(int fd);   /* what was written is on the disk then */
void directory_touch(int fd); /* the file was used now */

/* Renames a closed file. The new name may be taken. */
int directory_replace(const struct directory *d, const char *from, const char *to);
void directory_remove(const struct directory *d, const char *name);

#endif
