#define _POSIX_C_SOURCE 200809L
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const sections[] = {"run", "chat", "serve"};
enum { SECTIONS = sizeof sections / sizeof *sections };

struct reading {
    const struct cli_command *c;
    const char *path, *section; /* section: of the line; NULL before the first */
    size_t line;
};

/* As the XDG specification asks, XDG_CONFIG_HOME counts as unset unless it is an absolute path. */
static bool find(char *path, size_t size)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    bool set = config && *config == '/';
    if (!set && !(home && *home == '/'))
        return false;
    int n = snprintf(path, size, "%s%s/tuffet/config", set ? config : home, set ? "" : "/.config");
    return n >= 0 && (size_t)n < size && access(path, F_OK) == 0;
}

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

static int fail(const struct reading *r, const char *what, const char *text)
{
    return cli_fail("%s:%zu: %s \"%s\"", r->path, r->line, what, text);
}

static int take_section(struct reading *r, char *text)
{
    size_t n = strlen(text);
    r->section = NULL;
    for (size_t i = 0; i < SECTIONS; i++)
        if (n == strlen(sections[i]) + 2 && text[n - 1] == ']' &&
            memcmp(text + 1, sections[i], n - 2) == 0)
            r->section = sections[i];
    return r->section ? CLI_OK : fail(r, "a section is [run], [chat] or [serve], not", text);
}

/* text: "name = value", whose value may be between quotes. */
static int take_setting(struct reading *r, char *text)
{
    char *equals = strchr(text, '='), where[4200];
    if (!r->section)
        return fail(r, "a section, such as [chat], comes before", text);
    if (!equals)
        return fail(r, "an option is set by NAME = VALUE, not", text);
    *equals = 0;
    const char *name = trim(text);
    char *value = trim(equals + 1);
    size_t n = strlen(value);
    if (n > 1 && *value == '"' && value[n - 1] == '"') {
        value[n - 1] = 0;
        value++;
    }
    if (strcmp(r->section, r->c->name) != 0)
        return CLI_OK;
    size_t len = strlen(name);
    const struct cli_option *o = len > 1 ? cli_find_option(r->c, name, len) : NULL;
    if (!o)
        return cli_fail("%s:%zu: tuffet %s has no option \"%s\"", r->path, r->line, r->c->name,
                        name);
    snprintf(where, sizeof where, "%s:%zu", r->path, r->line);
    return cli_set_option(o, value, where);
}

static int take_line(struct reading *r, char *line)
{
    char *text = trim(line);
    if (!*text || *text == '#' || *text == ';')
        return CLI_OK;
    return *text == '[' ? take_section(r, text) : take_setting(r, text);
}

int config_read(const struct cli_command *c)
{
    static char *text; /* the options point to it */
    char path[4096];
    size_t n;
    if (!c->has_config || !find(path, sizeof path))
        return CLI_OK;
    text = cli_read(path, &n);
    if (!text)
        return CLI_FAILED;
    if (strlen(text) != n)
        return cli_fail("%s: the file has a NUL", path);
    struct reading r = {.c = c, .path = path};
    int status = CLI_OK;
    for (char *line = text, *end; status == CLI_OK && *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*end)
            *end++ = 0;
        r.line++;
        status = take_line(&r, line);
    }
    return status;
}

const char *config_model(void)
{
    const char *model = getenv("TUFFET_MODEL");
    return model && *model ? model : NULL;
}
