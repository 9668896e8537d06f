#define _POSIX_C_SOURCE 200809L
#include "reload.h"

#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "pool.h"

/* All that the files say. */
struct files {
    struct keys *keys;
    struct setup *setup;
    struct quota *quota;
    struct served **models; /* [CATALOG_ALL]; [n] of them are set */
    size_t n;
};

/* ---- models */

static bool is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static bool is_same(const struct served *s, const struct setup_model *m)
{
    return s->of_setup && strcmp(s->id, m->name) == 0 && strcmp(s->path, m->path) == 0 &&
           served_is_same_file(s) &&
           s->own.ctx == m->own.ctx && s->own.n_slots == m->own.n_slots &&
           is_same_text(s->own.kv, m->own.kv) && is_same_text(s->own.pooling, m->own.pooling);
}

static bool has(struct served *const *list, size_t n, const struct served *s)
{
    for (size_t i = 0; i < n; i++)
        if (list[i] == s)
            return true;
    return false;
}

/* Looks at a model that the server does not have. */
static struct served *look_at(const struct server *s, const struct setup_model *m)
{
    struct served *added = served_new(strdup(m->name), strdup(m->path), &m->own);
    if (added && served_peek(added, s->o.pooling) == CLI_OK)
        return added;
    served_free(added);
    return NULL;
}

/* A model that the file has not named; NULL: none has the name. */
static const struct served *find_other(const struct server *s, const char *name)
{
    for (size_t i = 0; i < s->n_models; i++)
        if (!s->models[i]->of_setup && strcmp(s->models[i]->id, name) == 0)
            return s->models[i];
    return NULL;
}

/* The model of a section: as it is, if nothing has changed. */
static bool add_model(const struct server *s, struct files *f, const struct setup_model *m)
{
    struct served *found = NULL;
    if (find_other(s, m->name)) {
        cli_fail("%s:%zu: another model has the name \"%s\"", f->setup->path, m->line, m->name);
        return false;
    }
    for (size_t i = 0; i < s->n_models && !found; i++)
        found = is_same(s->models[i], m) ? s->models[i] : NULL;
    found = found ? found : look_at(s, m);
    if (found)
        f->models[f->n++] = found;
    return found;
}

/* The models of the command line, of the file, and of the folder, as at the start. */
static bool list_models(const struct server *s, struct files *f)
{
    bool good = true;
    for (; f->n < s->n_named; f->n++)
        f->models[f->n] = s->models[f->n];
    for (size_t i = 0; i < f->setup->n_models && good; i++)
        good = add_model(s, f, &f->setup->models[i]);
    for (size_t i = s->n_named; i < s->n_models && f->n < CATALOG_ALL; i++)
        if (!s->models[i]->of_setup)
            f->models[f->n++] = s->models[i];
    return good;
}

static bool read_models(const struct server *s, struct files *f)
{
    f->models = calloc(CATALOG_ALL, sizeof *f->models);
    if (!f->models) {
        cli_fail("out of memory");
        return false;
    }
    if (!list_models(s, f))
        return false;
    const char *path = f->setup->path;
    size_t all = f->n; /* with the ones that leave the file */
    for (size_t i = 0; i < s->n_all; i++)
        all += !has(f->models, f->n, s->models[i]);
    if (!f->n)
        cli_fail("%s: there is no model to serve", path);
    else if (f->n > CATALOG_MOST)
        cli_fail("%s: there are more than %d models", path, CATALOG_MOST);
    else if (all > CATALOG_ALL)
        cli_fail("%s: too many models that have left the file still answer", path);
    const struct server next = {
        .o = s->o, .setup = f->setup, .models = f->models, .n_models = f->n};
    return f->n && f->n <= CATALOG_MOST && all <= CATALOG_ALL &&
           catalog_check_aliases(&next) == CLI_OK;
}

/* ---- all files */

static bool read_keys(const struct server *s, struct files *f)
{
    char why[KEYS_WHY];
    if (!s->o.key_file)
        return true;
    f->keys = keys_read(s->o.key_file, why);
    if (!f->keys)
        cli_fail("--api-key-file %s: %s", s->o.key_file, why);
    return f->keys;
}

static bool read_setup(const struct server *s, struct files *f)
{
    if (!s->setup)
        return true;
    f->setup = setup_read(s->o.config, s->command, false);
    if (!f->setup || !setup_has_keys(f->setup, f->keys) || !read_models(s, f))
        return false;
    f->quota = quota_open(f->setup, s->quota, cli_ns());
    if (!f->quota)
        cli_fail("out of memory");
    return f->quota;
}

static void drop(const struct server *s, struct files *f)
{
    for (size_t i = 0; i < f->n; i++)
        if (!has(s->models, s->n_all, f->models[i]))
            served_free(f->models[i]);
    free(f->models);
    keys_free(f->keys);
    setup_free(f->setup);
    quota_close(f->quota);
}

/* Models that are no longer in the list come after it. */
static void take_models(struct server *s, struct files *f)
{
    struct served **old = s->models;
    size_t n_old = s->n_all;
    s->models = f->models;
    s->n_models = s->n_all = f->n;
    for (size_t i = 0; i < n_old; i++)
        if (!has(s->models, f->n, old[i])) {
            s->models[s->n_all++] = old[i];
            pool_retire(s->pool, old[i]);
        }
    free(old);
}

static void take(struct server *s, struct files *f)
{
    keys_free(s->o.keys);
    s->o.keys = f->keys;
    if (!f->setup)
        return;
    setup_tell_later(f->setup, s->first_setup);
    if (s->setup != s->first_setup)
        setup_free(s->setup);
    s->setup = f->setup;
    quota_close(s->quota);
    s->quota = f->quota;
    take_models(s, f);
}

void reload(struct server *s)
{
    struct files f = {0};
    if (read_keys(s, &f) && read_setup(s, &f)) {
        take(s, &f);
    } else {
        if (f.keys && s->o.keys) /* a key that was taken away must not wait for the other file */
            keys_revoke(s->o.keys, f.keys);
        fprintf(stderr, "tuffet: the models and keys stay as they were, but for removed keys\n");
        drop(s, &f);
    }
}
