#define _POSIX_C_SOURCE 200809L
#include "catalog.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"

/* ---- names */

static struct served *find(const struct server *s, const char *name, size_t n)
{
    for (size_t i = 0; i < s->n_models; i++)
        if (strlen(s->models[i].id) == n && memcmp(s->models[i].id, name, n) == 0)
            return &s->models[i];
    return NULL;
}

/* Likewise by an alias, NEW=NAME. */
static struct served *find_any(const struct server *s, const char *name, size_t n)
{
    struct served *found = find(s, name, n);
    for (uint32_t i = 0; i < s->o.aliases.n && !found; i++) {
        const char *alias = s->o.aliases.p[i], *old = strchr(alias, '=') + 1;
        if ((size_t)(old - 1 - alias) == n && memcmp(alias, name, n) == 0)
            found = find(s, old, strlen(old));
    }
    return found;
}

struct served *catalog_find(const struct server *s, const char *name)
{
    static const char latest[] = ":latest";
    size_t n = strlen(name), tail = sizeof latest - 1;
    struct served *found = find_any(s, name, n);
    if (!found && n > tail && strcmp(name + n - tail, latest) == 0)
        found = find_any(s, name, n - tail);
    return found;
}

int catalog_check_aliases(const struct server *s)
{
    for (uint32_t i = 0; i < s->o.aliases.n; i++) {
        const char *alias = s->o.aliases.p[i], *old = strchr(alias, '=');
        if (!old || old == alias)
            return cli_usage("--alias must be NEW=NAME, not \"%s\"", alias);
        if (!find(s, old + 1, strlen(old + 1)))
            return cli_usage("--alias %s: there is no model %s", alias, old + 1);
        if (find(s, alias, (size_t)(old - alias)))
            return cli_usage("--alias %s: a model has this name", alias);
    }
    return CLI_OK;
}

/* ---- the list */

/* The file's name, without .gguf, as UTF-8. */
static char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    size_t n = strlen(file);
    bool gguf = n > 5 && strcmp(file + n - 5, ".gguf") == 0;
    json_t *text = json_bytes(file, gguf ? n - 5 : n);
    char *name = text ? strdup(json_string_value(text)) : NULL;
    json_decref(text);
    return name;
}

/* Takes both texts. */
static int add(struct server *s, char *id, char *path)
{
    struct served *all = realloc(s->models, (s->n_models + 1) * sizeof *all);
    int status = CLI_OK;
    s->models = all ? all : s->models;
    const struct served *old = id ? find(s, id, strlen(id)) : NULL;
    if (!id || !path || !all)
        status = cli_fail("out of memory");
    else if (old)
        status = cli_usage("two models have the name %s, %s and %s: give one another name, by "
                           "NAME=FILE",
                           id, old->path, path);
    else if (s->n_models == CATALOG_MOST)
        status = cli_fail("there are more than %d models", CATALOG_MOST);
    if (status == CLI_OK) {
        s->models[s->n_models++] = (struct served){.id = id, .path = path, .keep = SERVED_FOREVER};
        return CLI_OK;
    }
    free(id);
    free(path);
    return status;
}

int catalog_add(struct server *s, const char *name, size_t n, const char *path)
{
    return add(s, n ? cli_copy(name, n) : name_of(path), strdup(path));
}

static int is_model(const struct dirent *d)
{
    size_t n = strlen(d->d_name);
    return n > 5 && *d->d_name != '.' && strcmp(d->d_name + n - 5, ".gguf") == 0;
}

/* In the order of bytes, whatever the locale. */
static int compare(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int catalog_add_folder(struct server *s, const char *folder)
{
    struct dirent **all;
    int n = scandir(folder, &all, is_model, compare), status = CLI_OK;
    if (n < 0)
        return cli_fail("%s: %s", folder, strerror(errno));
    for (int i = 0; i < n; i++) {
        size_t room = strlen(folder) + strlen(all[i]->d_name) + 2;
        char *path = malloc(room);
        if (path)
            snprintf(path, room, "%s/%s", folder, all[i]->d_name);
        if (status == CLI_OK)
            status = add(s, name_of(all[i]->d_name), path);
        else
            free(path);
        free(all[i]);
    }
    free(all);
    return status;
}

void catalog_free(struct server *s)
{
    for (size_t i = 0; i < s->n_models; i++) {
        free(s->models[i].id);
        free(s->models[i].path);
        free(s->models[i].jinja);
    }
    free(s->models);
}
