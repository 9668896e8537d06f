#define _POSIX_C_SOURCE 200809L
#include "elsewhere.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hash.h"
#include "settings.h"
#include "tools/cli/cli.h"

static bool go_on(void *user, size_t n)
{
    (void)user, (void)n;
    return !cli_interrupted();
}

/* Whether the file has the contents. Most files of another size are never read. */
static bool is_same(const char *path, const struct pull_file *f)
{
    struct stat s;
    struct hash h = {0};
    char digits[65] = "";
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    bool same = fd >= 0 && fstat(fd, &s) == 0 && S_ISREG(s.st_mode) &&
                (uint64_t)s.st_size == f->size && hash_begin(&h, strlen(f->hash), f->size) &&
                hash_add_file(&h, fd, f->size, go_on, NULL) && hash_end(&h, digits) &&
                strcmp(digits, f->hash) == 0;
    hash_close(&h);
    if (fd >= 0)
        close(fd);
    return same;
}

/* llama.cpp's cache of 2025: USER_REPO_FILE, with "_" for each "/". */
static bool of_llama(const char *repo, const struct pull_file *f, char path[PULL_PATH])
{
    char folder[PULL_PATH];
    if (!settings_llama_folder(folder) || !pull_path_print(path, "%s/%s_%s", folder, repo, f->path))
        return false;
    for (char *p = path + strlen(folder) + 1; *p; p++)
        if (*p == '/')
            *p = '_';
    return true;
}

static bool of_ollama(const struct pull_file *f, char path[PULL_PATH])
{
    char folder[PULL_PATH];
    return strlen(f->hash) == 64 && settings_ollama_folder(folder) &&
           pull_path_print(path, "%s/blobs/sha256-%s", folder, f->hash);
}

bool elsewhere_take(const struct cache *c, const char *repo, const struct pull_file *f)
{
    char path[PULL_PATH];
    return (of_llama(repo, f, path) && is_same(path, f) && cache_adopt(c, f->hash, path)) ||
           (of_ollama(f, path) && is_same(path, f) && cache_adopt(c, f->hash, path));
}
