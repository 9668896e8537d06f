#define _POSIX_C_SOURCE 200809L
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const sections[] = {"run", "chat", "serve"};
enum { SECTIONS = sizeof sections / sizeof *sections };

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

static int check_section(const struct ini_line *l)
{
    for (size_t i = 0; l->section && i < SECTIONS; i++)
        if (strcmp(l->section, sections[i]) == 0)
            return CLI_OK;
    return l->section ? cli_fail("%s:%zu: a section is [run], [chat] or [serve], not \"[%s]\"",
                                 l->path, l->line, l->section)
                      : cli_fail("%s:%zu: a section, such as [chat], comes before \"%s\"", l->path,
                                 l->line, l->name);
}

const struct cli_option *config_option(const struct cli_command *c, const struct ini_line *l)
{
    size_t n = strlen(l->name);
    const struct cli_option *o = n > 1 ? cli_find_option(c, l->name, n) : NULL;
    if (!o)
        cli_fail("%s:%zu: tuffet %s has no option \"%s\"", l->path, l->line, c->name, l->name);
    return o;
}

static int take(void *user, const struct ini_line *l)
{
    const struct cli_command *c = *(const struct cli_command **)user;
    char where[INI_WHERE];
    int status = check_section(l);
    if (status != CLI_OK || !l->name || strcmp(l->section, c->name) != 0)
        return status;
    const struct cli_option *o = config_option(c, l);
    return o ? cli_set_option(o, l->value, ini_where(l, where)) : CLI_FAILED;
}

int config_read(const struct cli_command *c)
{
    static char *text; /* the options point to it */
    char path[4096];
    size_t n;
    if (!c->has_config || !find(path, sizeof path))
        return CLI_OK;
    text = cli_read_most(path, INI_MOST, &n);
    return text ? ini_read(path, text, n, take, &c) : CLI_FAILED;
}

const char *config_model(void)
{
    const char *model = getenv("TUFFET_MODEL");
    return model && *model ? model : NULL;
}
