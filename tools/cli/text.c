/* Text in, text out, and JSON. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "port/port.h"
#include "system.h"

/* -------------------------------------------------------------------------------------- text in */

/* Reads at most `most` bytes of f, or one more if there are more, to *text, which the caller frees
   in any case. Returns 0 or errno. */
static int read_all(FILE *f, size_t most, char **text, size_t *n)
{
    size_t room = 0, got = 1;
    *text = NULL;
    *n = 0;
    while (got && *n <= most) {
        if (*n + 1 >= room) {
            room = room ? room * 2 : 65536;
            room = room < most + 2 ? room : most + 2;
            char *more = realloc(*text, room);
            if (!more)
                return ENOMEM;
            *text = more;
        }
        got = fread(*text + *n, 1, room - *n - 1, f);
        *n += got;
    }
    (*text)[*n] = 0;
    return ferror(f) ? errno : 0;
}

/* Removes a byte order mark. Returns false for UTF-16, whose mark has the same character. */
static bool take_mark(char *text, size_t *n)
{
    size_t mark = tft_utf8_mark(text, *n);
    memmove(text, text + mark, *n + 1 - mark);
    *n -= mark;
    return *n < 2 || (memcmp(text, "\xff\xfe", 2) != 0 && memcmp(text, "\xfe\xff", 2) != 0);
}

int cli_fail_endless(const char *name, size_t most)
{
    return cli_fail("%s has more than %zu MiB, or no end: it is not read", name, most >> 20);
}

char *cli_read_most(const char *path, size_t most, size_t *len)
{
    bool in = strcmp(path, "-") == 0;
    const char *name = in ? "standard input" : path;
    FILE *f = in ? stdin : fopen(path, "rb");
    char *text;
    if (!f) {
        cli_fail("%s: %s", path, strerror(errno));
        return NULL;
    }
    int err = read_all(f, most, &text, len);
    if (!in)
        fclose(f);
    if (err)
        cli_fail("%s: %s", name, strerror(err));
    else if (*len > most)
        cli_fail_endless(name, most);
    else if (!take_mark(text, len))
        cli_fail("%s: the text is UTF-16: save it as UTF-8", name);
    else
        return text;
    free(text);
    return NULL;
}

char *cli_read(const char *path, size_t *len) { return cli_read_most(path, CLI_MOST_READ, len); }

bool cli_may_replace(const char *path, const char *magic)
{
    struct tft_map map = {0};
    int os = tft_port_map(&map, path); /* does not wait at a FIFO */
    bool may = os ? os != EACCES : !map.size || (map.size >= 8 && memcmp(map.data, magic, 8) == 0);
    tft_port_unmap(&map);
    return may;
}

char *cli_read_input(const char *text, const char *file, size_t *len)
{
    if (file || (!text && !system_is_terminal(STDIN_FILENO)))
        return cli_read(file ? file : "-", len);
    *len = text ? strlen(text) : 0;
    char *copy = cli_copy(text, *len);
    if (!copy)
        cli_fail("out of memory");
    return copy;
}

char *cli_copy(const char *p, size_t n)
{
    char *copy = malloc(n + 1);
    if (copy) {
        if (n)
            memcpy(copy, p, n);
        copy[n] = 0;
    }
    return copy;
}

bool cli_text_append(struct cli_text *t, const char *p, size_t n)
{
    if (n > t->room - t->n) {
        size_t room = (t->n + n) * 2;
        char *more = realloc(t->p, room);
        if (!more)
            return false;
        t->p = more;
        t->room = room;
    }
    if (n)
        memcpy(t->p + t->n, p, n);
    t->n += n;
    return true;
}

/* ------------------------------------------------------------------------------------- text out */

bool cli_put(const char *p, size_t n)
{
    bool terminal = system_is_terminal(STDOUT_FILENO);
    for (size_t i = 0, len; terminal && i < n; i += len) {
        uint32_t c;
        len = tft_utf8_next(p + i, n - i, &c);
        if (c >= TFT_UTF8_BAD || (tft_utf8_is_control(c) && c != '\n' && c != '\t'))
            fputs("\xef\xbf\xbd", stdout);
        else
            fwrite(p + i, 1, len, stdout);
    }
    if (!terminal && n)
        fwrite(p, 1, n, stdout);
    return fflush(stdout) == 0 && !ferror(stdout);
}

struct cli_amount cli_amount(uint64_t bytes)
{
    struct cli_amount a;
    double x = (double)bytes;
    const char *unit = x < 1e6 ? "kB" : x < 1e9 ? "MB" : "GB";
    snprintf(a.text, sizeof a.text, "%.1f %s", x / (x < 1e6 ? 1e3 : x < 1e9 ? 1e6 : 1e9), unit);
    return a;
}

enum { MOST_OUT = TFT_UTF8_ESCAPED };

void cli_put_escaped(FILE *f, const char *p, size_t n)
{
    char out[MOST_OUT];
    for (size_t i = 0, used; i < n; i += used)
        fwrite(out, 1, tft_utf8_escape(out, p + i, n - i, &used), f);
}

bool cli_text_escaped(struct cli_text *t, const char *p, size_t n)
{
    char out[MOST_OUT];
    bool good = true;
    for (size_t i = 0, used; i < n && good; i += used)
        good = cli_text_append(t, out, tft_utf8_escape(out, p + i, n - i, &used));
    return good;
}

/* ----------------------------------------------------------------------------------------- JSON */

/* The same for a string of JSON. */
static size_t json_escape(char out[MOST_OUT], const char *p, size_t n, size_t *used)
{
    uint32_t c;
    *used = tft_utf8_next(p, n, &c);
    if (c >= TFT_UTF8_BAD)
        return (size_t)snprintf(out, MOST_OUT, "\xef\xbf\xbd");
    if (c == '"' || c == '\\' || c == '\n')
        return (size_t)snprintf(out, MOST_OUT, "\\%c", c == '\n' ? 'n' : (char)c);
    if (tft_utf8_is_control(c) || tft_utf8_is_invisible(c))
        return (size_t)snprintf(out, MOST_OUT, "\\u%04x", c);
    memcpy(out, p, *used);
    return *used;
}

void cli_json_string(FILE *f, const char *s, size_t len)
{
    char out[MOST_OUT];
    fputc('"', f);
    for (size_t i = 0, used; i < len; i += used)
        fwrite(out, 1, json_escape(out, s + i, len - i, &used), f);
    fputc('"', f);
}

bool cli_text_json(struct cli_text *t, const char *s, size_t len)
{
    char out[MOST_OUT];
    bool good = cli_text_append(t, "\"", 1);
    for (size_t i = 0, used; i < len && good; i += used)
        good = cli_text_append(t, out, json_escape(out, s + i, len - i, &used));
    return good && cli_text_append(t, "\"", 1);
}

void cli_json_number(const char *name, double x)
{
    if (isfinite(x))
        printf(",\"%s\":%.9g", name, x);
    else
        printf(",\"%s\":null", name);
}
