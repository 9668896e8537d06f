/* Text in, text out, and JSON. */
#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "file/file.h"

/* -------------------------------------------------------------------------------------- text in */

char *cli_read(const char *path, size_t *len)
{
    bool in = strcmp(path, "-") == 0;
    FILE *f = in ? stdin : fopen(path, "rb");
    if (!f) {
        cli_fail("%s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = NULL;
    size_t n = 0, room = 0, got = 1;
    while (got) {
        if (n + 1 >= room) {
            room = room ? room * 2 : 65536;
            char *more = realloc(text, room);
            if (!more) {
                errno = ENOMEM;
                break;
            }
            text = more;
        }
        got = fread(text + n, 1, room - n - 1, f);
        n += got;
    }
    bool bad = ferror(f) || got;
    int err = errno;
    if (!in)
        fclose(f);
    if (bad) {
        cli_fail("%s: %s", in ? "standard input" : path, strerror(err));
        free(text);
        return NULL;
    }
    text[n] = 0;
    *len = n;
    return text;
}

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
    if (file || (!text && !isatty(STDIN_FILENO)))
        return cli_read(file ? file : "-", len);
    char *copy = strdup(text ? text : "");
    *len = copy ? strlen(copy) : 0;
    if (!copy)
        cli_fail("out of memory");
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

/* C0, DEL and C1, which control a terminal (ECMA-48, sections 5.2 and 5.3). */
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* Line separators and direction marks: nothing is drawn, but the text around them moves (Unicode
   Standard Annex 9, section 2). */
static bool is_invisible(uint32_t c)
{
    return (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

bool cli_put(const char *p, size_t n)
{
    bool terminal = isatty(STDOUT_FILENO);
    for (size_t i = 0, len; terminal && i < n; i += len) {
        uint32_t c;
        len = tft_utf8_next(p + i, n - i, &c);
        if (c >= TFT_UTF8_BAD || (is_control(c) && c != '\n' && c != '\t'))
            fputs("\xef\xbf\xbd", stdout);
        else
            fwrite(p + i, 1, len, stdout);
    }
    if (!terminal && n)
        fwrite(p, 1, n, stdout);
    return fflush(stdout) == 0 && !ferror(stdout);
}

void cli_put_escaped(FILE *f, const char *p, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t c;
        len = tft_utf8_next(p + i, n - i, &c);
        if (c == '\n' || c == '\t' || c == '\\')
            fprintf(f, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : '\\');
        else if (c >= TFT_UTF8_BAD || is_control(c))
            for (size_t j = 0; j < len; j++)
                fprintf(f, "\\x%02x", (unsigned char)p[i + j]);
        else if (is_invisible(c))
            fprintf(f, "\\u{%x}", c);
        else
            fwrite(p + i, 1, len, f);
    }
}

/* ----------------------------------------------------------------------------------------- JSON */

void cli_json_string(FILE *f, const char *s, size_t len)
{
    fputc('"', f);
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t c;
        n = tft_utf8_next(s + i, len - i, &c);
        if (c >= TFT_UTF8_BAD)
            fputs("\xef\xbf\xbd", f);
        else if (c == '"' || c == '\\')
            fprintf(f, "\\%c", (char)c);
        else if (c == '\n')
            fputs("\\n", f);
        else if (is_control(c) || is_invisible(c))
            fprintf(f, "\\u%04x", c);
        else
            fwrite(s + i, 1, n, f);
    }
    fputc('"', f);
}

void cli_json_number(const char *name, double x)
{
    if (isfinite(x))
        printf(",\"%s\":%.9g", name, x);
    else
        printf(",\"%s\":null", name);
}
