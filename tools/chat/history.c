#define _POSIX_C_SOURCE 200809L
#include "history.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"
#include "tools/cli/cli.h"

/* Writes the path of the file to path[size], and makes its folders if they are missing. As the XDG
   specification asks, XDG_STATE_HOME counts as unset unless it is an absolute path. */
static bool find(char *path, size_t size)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    bool set = state && *state == '/';
    if (!set && !(home && *home == '/'))
        return false;
    int n =
        snprintf(path, size, "%s%s/tuffet/history", set ? state : home, set ? "" : "/.local/state");
    if (n < 0 || (size_t)n >= size)
        return false;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    return true;
}

/* Decodes the escapes of an entry, in place. */
static void decode(char *line)
{
    char *to = line;
    for (const char *p = line; *p; p++) {
        bool escaped = *p == '\\' && p[1];
        p += escaped;
        *to++ = escaped && *p == 'n' ? '\n' : *p;
    }
    *to = 0;
}

/* libedit stops at an entry that is not UTF-8, and does not reach older ones. */
static bool is_utf8(const char *p)
{
    uint32_t c;
    for (size_t n = strlen(p), len; n; p += len, n -= len) {
        len = tft_utf8_next(p, n, &c);
        if (c >= TFT_UTF8_BAD)
            return false;
    }
    return true;
}

/* The start of the last `most` of the n lines of text[len]. */
static const char *newest(const char *text, size_t n, size_t most)
{
    for (; n > most; n--)
        text = strchr(text, '\n') + 1;
    return text;
}

/* Replaces the file by the text. */
static void rewrite(const char *path, const char *text)
{
    char other[4096 + 8];
    snprintf(other, sizeof other, "%s.XXXXXX", path);
    int fd = mkstemp(other); /* mkstemp sets mode 0600 */
    if (fd < 0)
        return;
    size_t n = strlen(text);
    bool written = write(fd, text, n) == (ssize_t)n;
    if (close(fd) != 0 || !written || rename(other, path) != 0)
        unlink(other);
}

void history_load(void (*add)(const char *entry))
{
    char path[4096];
    size_t len, n = 0;
    if (!find(path, sizeof path) || access(path, R_OK) != 0)
        return;
    char *text = cli_read(path, &len);
    if (!text)
        return;
    len = strlen(text); /* a NUL is damage: the rest is ignored */
    for (size_t i = 0; i < len; i++)
        n += text[i] == '\n';
    char *from = text + (newest(text, n, HISTORY_ENTRIES) - text);
    if (n > 2 * HISTORY_ENTRIES)
        rewrite(path, from);
    for (char *end; (end = strchr(from, '\n')); from = end + 1) {
        *end = 0;
        decode(from);
        if (*from && is_utf8(from))
            add(from);
    }
    free(text);
}

void history_append(const char *entry, size_t n)
{
    char path[4096];
    struct cli_text line = {0};
    bool good = n <= HISTORY_LONGEST && find(path, sizeof path);
    for (size_t i = 0; good && i < n; i++)
        good = entry[i] == '\n'   ? cli_text_append(&line, "\\n", 2)
               : entry[i] == '\\' ? cli_text_append(&line, "\\\\", 2)
                                  : cli_text_append(&line, &entry[i], 1);
    if (good && cli_text_append(&line, "\n", 1)) {
        int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
        ssize_t written = fd >= 0 ? write(fd, line.p, line.n) : 0;
        (void)written;
        if (fd >= 0)
            close(fd);
    }
    free(line.p);
}
