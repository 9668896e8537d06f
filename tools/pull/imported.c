#define _POSIX_C_SOURCE 200809L
#include "imported.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "settings.h"

/* out = USER--REPO--, with which the names of the files begin. */
static void beginning(const char *repo, char out[PULL_REPO + 16])
{
    char folder[PULL_REPO + 16];
    pull_name_folder(repo, folder);
    snprintf(out, PULL_REPO + 16, "%s--", folder + strlen("models--"));
}

bool imported_path(const char *repo, const char *commit, char path[PULL_PATH])
{
    char folder[PULL_PATH], name[PULL_REPO + 16];
    beginning(repo, name);
    return settings_own_folder(folder) &&
           pull_path_print(path, "%s/%s%s.gguf", folder, name, commit);
}

/* USER--REPO--COMMIT.gguf; the name of another repository may begin in the same way. */
static bool is_of(const char *file, const char *begins)
{
    size_t n = strlen(begins);
    return strncmp(file, begins, n) == 0 && strspn(file + n, "0123456789abcdef") == 40 &&
           strcmp(file + n + 40, ".gguf") == 0;
}

size_t imported_remove(const char *repo, uint64_t *bytes)
{
    char folder[PULL_PATH], begins[PULL_REPO + 16];
    struct stat s;
    size_t n = 0;
    beginning(repo, begins);
    DIR *d = settings_own_folder(folder) ? opendir(folder) : NULL;
    for (struct dirent *e; d && (e = readdir(d));)
        if (is_of(e->d_name, begins) &&
            fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
            unlinkat(dirfd(d), e->d_name, 0) == 0) {
            *bytes += (uint64_t)s.st_size;
            n++;
        }
    if (d)
        closedir(d);
    return n;
}
