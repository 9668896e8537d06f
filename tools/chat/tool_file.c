#define _POSIX_C_SOURCE 200809L
#include "tool_file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json/read.h"

enum { SECONDS = 30, MOST_SECONDS = 3600, BYTES = 8192, MOST_BYTES = 1 << 20, MOST_WORDS = 256 };

/* Prefix of error messages: member `name` of item `at`. */
struct place {
    const char *path, *name;
    size_t at;
};

static int fail(const struct place *p, const char *what)
{
    return cli_fail("%s: tools: #/%zu/%s: %s", p->path, p->at, p->name, what);
}

/* A program with a slash in its name is looked up from the folder of the file. */
static char *program(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    size_t folder = slash && *name != '/' && strchr(name, '/') ? (size_t)(slash - path) + 1 : 0;
    char *p = malloc(folder + strlen(name) + 1);
    if (p) {
        memcpy(p, path, folder);
        strcpy(p + folder, name);
    }
    return p;
}

static int read_command(struct tool_command *c, const struct place *p, const json_t *list)
{
    size_t n = json_array_size(list);
    bool good = n && n <= MOST_WORDS;
    for (size_t i = 0; i < n && good; i++)
        good = json_is_string(json_array_get(list, i)) &&
               (i || json_string_length(json_array_get(list, i)));
    if (!good)
        return fail(p, "not a list of words, such as [\"date\", \"-u\"]: no shell reads it");
    c->argv = calloc(n + 1, sizeof *c->argv);
    for (size_t i = 0; i < n && c->argv; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        c->argv[i] = i ? strdup(word) : program(p->path, word);
        if (!c->argv[i])
            return cli_fail("out of memory");
    }
    return c->argv ? CLI_OK : cli_fail("out of memory");
}

/* Reads a number from 1 to `most`, and removes it from the declaration. */
static int read_number(json_int_t *value, struct place p, const char *name, json_t *item,
                       json_int_t most)
{
    const json_t *v = json_object_get(item, name);
    char what[64];
    p.name = name;
    if (v && (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > most)) {
        snprintf(what, sizeof what, "not a number from 1 to %ld", (long)most);
        return fail(&p, what);
    }
    *value = v ? json_integer_value(v) : *value;
    json_object_del(item, name);
    return CLI_OK;
}

/* Fails at a member that the declaration cannot have, such as a misspelled one of the command. */
static int check_members(struct place p, json_t *item)
{
    static const char *const framed[] = {"type", "function"};
    static const char *const bare[] = {"type", "name", "description", "parameters", "strict"};
    bool has_frame = json_object_get(item, "function");
    const char *const *names = has_frame ? framed : bare, *name;
    size_t n = has_frame ? sizeof framed / sizeof *framed : sizeof bare / sizeof *bare;
    json_t *value;
    json_object_foreach(item, name, value)
    {
        size_t i = 0;
        while (i < n && strcmp(names[i], name) != 0)
            i++;
        p.name = name;
        if (i == n)
            return fail(&p, "unknown: a tool has command, seconds, bytes and its declaration");
    }
    return CLI_OK;
}

static int read_item(struct tool_command *c, const char *path, size_t at, json_t *item)
{
    struct place p = {path, "command", at};
    json_int_t seconds = SECONDS, bytes = BYTES;
    if (!json_is_object(item))
        return cli_fail("%s: tools: #/%zu: not an object", path, at);
    if (!json_object_get(item, "command"))
        return cli_fail("%s: tools: #/%zu: has no command", path, at);
    int status = read_command(c, &p, json_object_get(item, "command"));
    json_object_del(item, "command");
    if (status == CLI_OK)
        status = read_number(&seconds, p, "seconds", item, MOST_SECONDS);
    if (status == CLI_OK)
        status = read_number(&bytes, p, "bytes", item, MOST_BYTES);
    if (status == CLI_OK)
        status = check_members(p, item);
    c->seconds = (uint32_t)seconds;
    c->bytes = (size_t)bytes;
    return status;
}

/* Gives each function of the list the frame that templates expect, {"type": "function", "function":
   ...}, and returns the text; NULL: out of memory. */
static char *framed(json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i);
        bool has = json_object_get(item, "function");
        json_t *type = json_string("function");
        if (has && json_object_get(item, "type"))
            json_decref(type);
        else if (has ? json_object_set_new(item, "type", type) != 0
                     : json_array_set_new(list, i,
                                          json_pack("{s:o, s:O}", "type", type, "function", item)))
            return NULL;
    }
    return json_dumps(list, 0);
}

static int read_list(struct tool_file *f, const char *path, json_t *list)
{
    int status = CLI_OK;
    size_t n = json_array_size(list);
    if (!n)
        return cli_fail("%s: tools: not a list of tools, or an empty one", path);
    f->command = calloc(n, sizeof *f->command);
    if (!f->command)
        return cli_fail("out of memory");
    while (f->n < n && status == CLI_OK) {
        status = read_item(&f->command[f->n], path, f->n, json_array_get(list, f->n));
        f->n++;
    }
    if (status != CLI_OK)
        return status;
    f->json = json_dumps(list, 0);
    f->n_json = f->json ? strlen(f->json) : 0;
    f->framed = framed(list);
    return f->json && f->framed ? CLI_OK : cli_fail("out of memory");
}

int tool_file_read(struct tool_file *f, const char *path)
{
    json_error_t e;
    size_t n;
    char *text = cli_read(path, &n);
    if (!text)
        return CLI_FAILED;
    json_t *list = read_json(text, n, JSON_REJECT_DUPLICATES, &e);
    free(text);
    if (!list)
        return cli_fail("%s: line %d, column %d: %s", path, e.line, e.column, e.text);
    int status = read_list(f, path, list);
    json_decref(list);
    return status;
}

void tool_file_free(struct tool_file *f)
{
    for (size_t i = 0; i < f->n; i++) {
        for (char **word = f->command[i].argv; word && *word; word++)
            free(*word);
        free(f->command[i].argv);
    }
    free(f->command);
    free(f->json);
    free(f->framed);
}
