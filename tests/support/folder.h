/* A temporary folder for the files of a test: make_folder() is the group's setup, remove_folder()
   its teardown. Define _POSIX_C_SOURCE 200809L before the first include. */
#ifndef TFT_TEST_FOLDER_H
#define TFT_TEST_FOLDER_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef _WIN32 /* MinGW has no mkdtemp */
static inline char *mkdtemp(char *name)
{
    return mktemp(name) && mkdir(name) == 0 ? name : NULL;
}
#endif

static char folder[] = "/tmp/tuffet-test-XXXXXX";

static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static inline const char *in_folder(const char *name)
{
    static char path[4][64]; /* several may be in use at once */
    static unsigned next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* The number of files in the folder; removes them if `clear`. */
static inline int files_in_folder(bool clear)
{
    DIR *d = opendir(folder);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.' && strspn(e->d_name, ".") == strlen(e->d_name))
            continue;
        n++;
        char path[sizeof folder + sizeof e->d_name + 1];
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if (clear)
            remove(path);
    }
    if (d)
        closedir(d);
    return n;
}

static inline int remove_folder(void **state)
{
    (void)state;
    files_in_folder(true);
    return rmdir(folder);
}

static inline bool write_file(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    bool whole = fwrite(p, 1, n, f) == n;
    return fclose(f) == 0 && whole;
}

#endif
