#define _POSIX_C_SOURCE 200809L
#include "catalog.h"

#include <stdlib.h>
#include <string.h>

#include "directory.h"
#include "fields.h"

/* ---- names */

static struct served *find(const struct server *s, const char *name, size_t n)
{
    for (size_t i = 0; i < s->n_models; i++)
        if (strlen(s->models[i]->id) == n && memcmp(s->models[i]->id, name, n) == 0)
            return s->models[i];
    return NULL;
}

/* Likewise by an alias, NEW=NAME. */
static struct served *find_given(const struct server *s, const char *name, size_t n)
{
    struct served *found = find(s, name, n);
    for (uint32_t i = 0; i < s->o.aliases.n && !found; i++) {
        const char *alias = s->o.aliases.p[i], *old = strchr(alias, '=') + 1;
        if ((size_t)(old - 1 - alias) == n && memcmp(alias, name, n) == 0)
            found = find(s, old, strlen(old));
    }
    return found;
}

/* Likewise by an alias of the file of --config. */
static struct served *find_in_setup(const struct server *s, const char *name, size_t n)
{
    for (size_t i = 0; s->setup && i < s->setup->n_models; i++) {
        const struct setup_model *m = &s->setup->models[i];
        for (uint32_t k = 0; k < m->aliases.n; k++)
            if (strlen(m->aliases.p[k]) == n && memcmp(m->aliases.p[k], name, n) == 0)
                return find(s, m->name, strlen(m->name));
    }
    return NULL;
}

static struct served *find_any(const struct server *s, const char *name, size_t n)
{
    struct served *found = find_given(s, name, n);
    return found ? found : find_in_setup(s, name, n);
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

json_t *catalog_aliases(const struct server *s, const struct served *m)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < s->o.aliases.n; i++) {
        const char *alias = s->o.aliases.p[i], *old = strchr(alias, '=');
        if (strcmp(old + 1, m->id) == 0)
            json_array_append_new(list, json_stringn(alias, (size_t)(old - alias)));
    }
    for (size_t i = 0; s->setup && i < s->setup->n_models; i++) {
        const struct setup_model *of = &s->setup->models[i];
        for (uint32_t k = 0; k < of->aliases.n && strcmp(of->name, m->id) == 0; k++)
            json_array_append_new(list, json_string(of->aliases.p[k]));
    }
    return list;
}

/* The file itself has no name twice (setup.c). */
static int check_setup_aliases(const struct server *s)
{
    for (size_t i = 0; i < s->setup->n_models; i++) {
        const struct setup_model *m = &s->setup->models[i];
        for (uint32_t k = 0; k < m->aliases.n; k++)
            if (find_given(s, m->aliases.p[k], strlen(m->aliases.p[k])))
                return cli_fail("%s:%zu: a model has the name \"%s\" already", s->setup->path,
                                m->line, m->aliases.p[k]);
    }
    return CLI_OK;
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
    return s->setup ? check_setup_aliases(s) : CLI_OK;
}

/* ---- the list */

/* The file's name, without .gguf, as UTF-8. */
static char *name_of(const char *path)
{
    const char *file = system_file_name(path);
    size_t n = strlen(file);
    bool gguf = n > 5 && strcmp(file + n - 5, ".gguf") == 0;
    json_t *text = json_bytes(file, gguf ? n - 5 : n);
    char *name = text ? strdup(json_string_value(text)) : NULL;
    json_decref(text);
    return name;
}

/* The line of the file that names the model; or "". */
static const char *place_of(const struct server *s, const struct served *m, char *room, size_t size)
{
    *room = 0;
    for (size_t i = 0; m->of_setup && i < s->setup->n_models; i++)
        if (strcmp(s->setup->models[i].name, m->id) == 0)
            snprintf(room, size, "%s:%zu: ", s->setup->path, s->setup->models[i].line);
    return room;
}

int catalog_take(struct server *s, struct served *m)
{
    char place[4200];
    struct served **all = realloc(s->models, (s->n_models + 1) * sizeof *all);
    int status = CLI_OK;
    s->models = all ? all : s->models;
    const struct served *old = find(s, m->id, strlen(m->id));
    if (!all)
        status = cli_fail("out of memory");
    else if (old)
        status = cli_usage("%stwo models have the name %s, %s and %s: give one another name, by "
                           "NAME=FILE",
                           place_of(s, m, place, sizeof place), m->id, old->path, m->path);
    else if (s->n_models == CATALOG_MOST)
        status = cli_fail("there are more than %d models", CATALOG_MOST);
    if (status == CLI_OK)
        s->models[s->n_models++] = m;
    else
        served_free(m);
    s->n_all = s->n_models;
    return status;
}

/* Takes both texts. */
static int add(struct server *s, char *id, char *path, const struct setup_own *own)
{
    struct served *m = served_new(id, path, own);
    return m ? catalog_take(s, m) : CLI_FAILED;
}

int catalog_add(struct server *s, const char *name, size_t n, const char *path)
{
    char *own = n ? cli_copy(name, n) : name_of(path);
    if (!own || setup_is_utf8(own))
        return add(s, own, strdup(path), NULL);
    free(own);
    return cli_usage("the name before = in \"%s\" is not UTF-8", name);
}

int catalog_add_setup(struct server *s)
{
    int status = CLI_OK;
    for (size_t i = 0; s->setup && i < s->setup->n_models && status == CLI_OK; i++) {
        const struct setup_model *m = &s->setup->models[i];
        status = add(s, strdup(m->name), strdup(m->path), &m->own);
    }
    return status;
}

/* ---- a folder of models */

struct names {
    char **name; /* [n] */
    size_t n;
    bool full; /* out of memory */
};

static bool take_name(void *user, const char *name)
{
    struct names *all = user;
    size_t n = strlen(name);
    if (n <= 5 || *name == '.' || strcmp(name + n - 5, ".gguf") != 0)
        return true;
    char **more = realloc(all->name, (all->n + 1) * sizeof *more);
    char *copy = more ? strdup(name) : NULL;
    all->name = more ? more : all->name;
    all->full = !copy;
    if (copy)
        all->name[all->n++] = copy;
    return copy;
}

/* In the order of bytes, whatever the locale. */
static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int find_models(struct names *all, const char *folder)
{
    struct directory *d = NULL;
    int os = directory_open(&d, folder);
    if (!os)
        os = directory_list(d, take_name, all);
    directory_close(d);
    if (os)
        return cli_fail("%s: %s", folder, strerror(os));
    if (all->n)
        qsort(all->name, all->n, sizeof *all->name, compare);
    return all->full ? cli_fail("out of memory") : CLI_OK;
}

int catalog_add_folder(struct server *s, const char *folder)
{
    struct names all = {0};
    int status = find_models(&all, folder);
    for (size_t i = 0; i < all.n; i++) {
        size_t room = strlen(folder) + strlen(all.name[i]) + 2;
        char *path = status == CLI_OK ? malloc(room) : NULL;
        if (path)
            snprintf(path, room, "%s/%s", folder, all.name[i]);
        if (status == CLI_OK)
            status = add(s, name_of(all.name[i]), path, NULL);
        free(all.name[i]);
    }
    free(all.name);
    return status;
}

void catalog_free(struct server *s)
{
    for (size_t i = 0; i < s->n_all; i++)
        served_free(s->models[i]);
    free(s->models);
}
