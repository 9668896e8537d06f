#include "ini.h"

#include <string.h>

/* The text without white space at its ends; changes the text. */
static char *trim(char *p)
{
    static const char blank[] = " \t\r";
    p += strspn(p, blank);
    size_t n = strlen(p);
    while (n && strchr(blank, p[n - 1]))
        n--;
    p[n] = 0;
    return p;
}

const char *ini_where(const struct ini_line *l, char where[INI_WHERE])
{
    snprintf(where, INI_WHERE, "%s:%zu", l->path, l->line);
    return where;
}

/* text: "[section]". */
static int take_section(struct ini_line *l, char *text)
{
    size_t n = strlen(text);
    if (text[n - 1] != ']')
        return cli_fail("%s:%zu: a section is a name in brackets, not \"%s\"", l->path, l->line,
                        text);
    text[n - 1] = 0;
    l->section = trim(text + 1);
    l->name = l->value = NULL;
    return CLI_OK;
}

/* text: "name = value", with or without quotes around the value. */
static int take_setting(struct ini_line *l, char *text)
{
    char *equals = strchr(text, '=');
    if (!equals)
        return cli_fail("%s:%zu: an option is set by NAME = VALUE, not \"%s\"", l->path, l->line,
                        text);
    *equals = 0;
    char *value = trim(equals + 1);
    size_t n = strlen(value);
    if (n > 1 && *value == '"' && value[n - 1] == '"') {
        value[n - 1] = 0;
        value++;
    }
    l->name = trim(text);
    l->value = value;
    return CLI_OK;
}

int ini_read(const char *path, char *text, size_t n,
             int (*take)(void *user, const struct ini_line *l), void *user)
{
    struct ini_line l = {.path = path};
    int status = CLI_OK;
    if (strlen(text) != n)
        return cli_fail("%s: the file has a NUL", path);
    for (char *line = text, *end; status == CLI_OK && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = 0;
        l.line++;
        char *p = trim(line);
        if (!*p || *p == '#' || *p == ';')
            continue;
        status = *p == '[' ? take_section(&l, p) : take_setting(&l, p);
        if (status == CLI_OK)
            status = take(user, &l);
    }
    return status;
}
