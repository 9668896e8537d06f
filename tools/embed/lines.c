#define _POSIX_C_SOURCE 200809L
#include "lines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/system.h"
#include "tools/json/read.h"

/* Without its quotes and escapes, a string of JSON is shorter: it gets the place of its line. */
static int decode(const struct lines *l, struct cli_text *t, size_t number)
{
    json_error_t error;
    json_t *v = read_json(t->p, t->n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    bool is = json_is_string(v);
    if (is) {
        t->n = json_string_length(v);
        memcpy(t->p, json_string_value(v), t->n);
    }
    json_decref(v);
    return is ? CLI_OK : cli_fail("%s: line %zu is not a string of JSON", l->path, number);
}

int lines_read(struct lines *l, const char *path, bool json)
{
    size_t len, room = 0;
    bool in = !path || strcmp(path, "-") == 0;
    *l = (struct lines){.path = in ? "standard input" : path};
    if (!path && system_is_terminal(STDIN_FILENO))
        return cli_usage("there is no text: name a file, or give the text through a pipe");
    l->all = cli_read(in ? "-" : path, &len);
    if (!l->all)
        return CLI_FAILED;
    for (size_t i = 0; i < len; i++)
        room += l->all[i] == '\n';
    l->text = calloc(room + 1, sizeof *l->text);
    if (!l->text)
        return cli_fail("out of memory");
    for (size_t at = 0; at < len;) {
        struct cli_text *t = &l->text[l->n++];
        const char *end = memchr(l->all + at, '\n', len - at);
        *t = (struct cli_text){.p = l->all + at, .n = (end ? (size_t)(end - l->all) : len) - at};
        at += t->n + 1;
        if (t->n && t->p[t->n - 1] == '\r')
            t->n--;
        if (json && decode(l, t, l->n) != CLI_OK)
            return CLI_FAILED;
    }
    return l->n ? CLI_OK : cli_fail("%s: there is no text", l->path);
}

void lines_free(struct lines *l)
{
    free(l->text);
    free(l->all);
    *l = (struct lines){0};
}
