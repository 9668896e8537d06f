#include "setup.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/cli/config.h"

static struct setup_model model; /* the section that is read */
static struct setup_key key;

static const struct cli_option model_options[] = {
    {0, "path", CLI_TEXT, &model.path, "FILE", "the model's file"},
    {0, "alias", CLI_TEXTS, &model.aliases, "NAME", "another name"},
    {0, "ctx", CLI_COUNT, &model.own.ctx, "N", "as --ctx"},
    {0, "kv", CLI_TEXT, &model.own.kv, "CACHE", "as --kv"},
    {0, "slots", CLI_COUNT, &model.own.n_slots, "N", "as --slots"},
    {0, "pooling", CLI_TEXT, &model.own.pooling, "HOW", "as --pooling"},
    {0},
};

static const struct cli_option key_options[] = {
    {0, "requests", CLI_COUNT, &key.requests, "N", "requests at once"},
    {0, "tokens-per-minute", CLI_COUNT, &key.tokens, "N", "tokens of prompts and answers"},
    {0},
};

enum kind { NO_SECTION, OF_COMMAND, OF_MODEL, OF_KEY };

struct reading {
    struct setup *s;
    const struct cli_command *c;
    bool first;
    enum kind kind;
};

static int fail(const char *path, size_t line, const char *what, const char *text)
{
    return cli_fail("%s:%zu: %s \"%s\"", path, line, what, text);
}

/* ---- sections */

/* Whether a model of the file has the name, or an alias that is the name. */
static bool has_name(const struct setup_model *m, const char *name)
{
    for (uint32_t i = 0; i < m->aliases.n; i++)
        if (strcmp(m->aliases.p[i], name) == 0)
            return true;
    return strcmp(m->name, name) == 0;
}

static bool is_taken(const struct setup *s, const char *name)
{
    for (size_t i = 0; i < s->n_models; i++)
        if (has_name(&s->models[i], name))
            return true;
    return false;
}

static int check_model(const char *path)
{
    if (!model.path)
        return fail(path, model.line, "no path for the model", model.name);
    if (model.own.n_slots > 1024)
        return fail(path, model.line, "more than 1024 slots for the model", model.name);
    return CLI_OK;
}

static int end_model(struct reading *r)
{
    struct setup *s = r->s;
    int status = check_model(s->path);
    struct setup_model *all = realloc(s->models, (s->n_models + 1) * sizeof *all);
    if (!all)
        return cli_fail("out of memory");
    s->models = all;
    s->models[s->n_models++] = model;
    return status;
}

static int end_key(struct reading *r)
{
    struct setup *s = r->s;
    struct setup_key *all = realloc(s->keys, (s->n_keys + 1) * sizeof *all);
    if (!all)
        return cli_fail("out of memory");
    s->keys = all;
    s->keys[s->n_keys++] = key;
    return CLI_OK;
}

static int end_section(struct reading *r)
{
    enum kind kind = r->kind;
    r->kind = NO_SECTION;
    return kind == OF_MODEL ? end_model(r) : kind == OF_KEY ? end_key(r) : CLI_OK;
}

bool setup_is_utf8(const char *p)
{
    for (size_t n = strlen(p), i = 0; i < n;) {
        uint32_t c;
        i += tft_utf8_next(p + i, n - i, &c);
        if (c >= TFT_UTF8_BAD)
            return false;
    }
    return true;
}

static int begin_model(struct reading *r, const struct ini_line *l, const char *name)
{
    model = (struct setup_model){.name = name, .line = l->line};
    r->kind = OF_MODEL;
    if (!setup_is_utf8(name))
        return fail(l->path, l->line, "a name that is not UTF-8:", name);
    if (is_taken(r->s, name))
        return fail(l->path, l->line, "a section above has the model", name);
    return r->s->n_models < SETUP_MODELS ? CLI_OK
                                         : fail(l->path, l->line, "too many models before", name);
}

static int begin_key(struct reading *r, const struct ini_line *l, const char *name)
{
    key = (struct setup_key){.name = name, .line = l->line};
    r->kind = OF_KEY;
    for (size_t i = 0; i < r->s->n_keys; i++)
        if (strcmp(r->s->keys[i].name, name) == 0)
            return fail(l->path, l->line, "a section above has the key", name);
    return r->s->n_keys < SETUP_KEYS ? CLI_OK
                                     : fail(l->path, l->line, "too many keys before", name);
}

/* The name after the word in a section's text; NULL: the section has another word, or no name. */
static const char *name_after(const char *section, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(section, word, n) != 0 || !section[n] || !strchr(" \t", section[n]))
        return NULL;
    return section + n + strspn(section + n, " \t");
}

static int begin_section(struct reading *r, const struct ini_line *l)
{
    int status = end_section(r);
    const char *of_model = name_after(l->section, "model"), *of_key = name_after(l->section, "key");
    if (status != CLI_OK)
        return status;
    if (of_model)
        return begin_model(r, l, of_model);
    if (of_key)
        return begin_key(r, l, of_key);
    if (strcmp(l->section, r->c->name) != 0)
        return fail(l->path, l->line, "a section is [serve], [model NAME] or [key NAME], not",
                    l->section);
    r->kind = OF_COMMAND;
    return CLI_OK;
}

/* ---- settings */

static int keep_option(struct setup *s, const struct ini_line *l)
{
    struct setup_option *all = realloc(s->options, (s->n_options + 1) * sizeof *all);
    if (!all)
        return cli_fail("out of memory");
    s->options = all;
    s->options[s->n_options++] = (struct setup_option){l->name, l->value, l->line};
    return CLI_OK;
}

static int set_of_command(const struct reading *r, const struct ini_line *l)
{
    char where[INI_WHERE];
    const struct cli_option *o = config_option(r->c, l);
    if (!o)
        return CLI_FAILED;
    if (strcmp(o->name, "config") == 0)
        return fail(l->path, l->line, "a file has no further", o->name);
    if (cli_is_given(o)) /* the command line counts more */
        return CLI_OK;
    if (keep_option(r->s, l) != CLI_OK)
        return CLI_FAILED;
    return r->first ? cli_set_option(o, l->value, ini_where(l, where)) : CLI_OK;
}

static int set_in(const struct cli_option *list, const struct ini_line *l)
{
    char where[INI_WHERE];
    size_t n = strlen(l->name);
    const struct cli_option *o = n > 1 ? cli_find_in(list, l->name, n) : NULL;
    if (!o)
        return fail(l->path, l->line, "the section has no option", l->name);
    return cli_set_option(o, l->value, ini_where(l, where));
}

/* The alias has just become the model's last one. */
static bool is_alias_taken(const struct setup *s, const char *name)
{
    struct setup_model before = model;
    before.aliases.n--;
    return has_name(&before, name) || is_taken(s, name);
}

static int set_of_model(const struct reading *r, const struct ini_line *l)
{
    struct tft_error err;
    int status = set_in(model_options, l);
    if (status != CLI_OK)
        return status;
    if (strcmp(l->name, "alias") == 0 && is_alias_taken(r->s, l->value))
        return fail(l->path, l->line, "a model of the file already has the name", l->value);
    if (strcmp(l->name, "kv") == 0 && tft_kv_check(l->value, &err) != TFT_OK)
        return cli_fail("%s:%zu: %s", l->path, l->line, err.msg);
    return CLI_OK;
}

static int set_of_key(const struct ini_line *l)
{
    int status = set_in(key_options, l);
    const uint32_t *set = strcmp(l->name, "requests") == 0 ? &key.requests : &key.tokens;
    return status != CLI_OK || *set
               ? status
               : fail(l->path, l->line, "a limit is 1 or more; without the line there is none. Not",
                      l->value);
}

static int take(void *user, const struct ini_line *l)
{
    struct reading *r = user;
    if (!l->name)
        return begin_section(r, l);
    switch (r->kind) {
    case OF_COMMAND: return set_of_command(r, l);
    case OF_MODEL: return set_of_model(r, l);
    case OF_KEY: return set_of_key(l);
    default: return fail(l->path, l->line, "a section, such as [serve], comes before", l->name);
    }
}

struct setup *setup_read(const char *path, const struct cli_command *c, bool first)
{
    size_t n = 0;
    struct setup *s = calloc(1, sizeof *s);
    if (!s) {
        cli_fail("out of memory");
        return NULL;
    }
    s->path = path;
    s->text = cli_read_most(path, INI_MOST, &n);
    struct reading r = {.s = s, .c = c, .first = first};
    if (s->text && ini_read(path, s->text, n, take, &r) == CLI_OK && end_section(&r) == CLI_OK)
        return s;
    setup_free(s);
    return NULL;
}

bool setup_has_keys(const struct setup *s, const struct keys *k)
{
    for (size_t i = 0; i < s->n_keys; i++)
        if (!k || !keys_has_name(k, s->keys[i].name)) {
            fail(s->path, s->keys[i].line, "--api-key-file has no key", s->keys[i].name);
            return false;
        }
    return true;
}

/* Whether s sets the option to this value, for an option that is given once or several times. */
static bool sets(const struct setup *s, const struct setup_option *o)
{
    for (size_t i = 0; i < s->n_options; i++)
        if (strcmp(s->options[i].name, o->name) == 0 && strcmp(s->options[i].value, o->value) == 0)
            return true;
    return false;
}

/* Lines that set the option. */
static size_t count(const struct setup *s, const char *name)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_options; i++)
        n += strcmp(s->options[i].name, name) == 0;
    return n;
}

void setup_tell_later(const struct setup *s, const struct setup *old)
{
    for (size_t i = 0; i < s->n_options; i++)
        if (!sets(old, &s->options[i]))
            fprintf(stderr, "tuffet: %s:%zu: %s counts when the server starts again\n", s->path,
                    s->options[i].line, s->options[i].name);
    for (size_t i = 0; i < old->n_options; i++)
        if (!sets(s, &old->options[i]) &&
            count(s, old->options[i].name) < count(old, old->options[i].name))
            fprintf(stderr,
                    "tuffet: %s: without %s = %s, which counts until the server starts again\n",
                    s->path, old->options[i].name, old->options[i].value);
}

void setup_free(struct setup *s)
{
    if (!s)
        return;
    free(s->options);
    free(s->text);
    free(s->models);
    free(s->keys);
    free(s);
}
