#include "task.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/json/read.h"

struct reader {
    json_t *object;
    struct task_item *item;
    char *why;
};

struct span {
    const char *p;
    size_t n;
};

/* Writes the error of the line. Returns false. */
CLI_PRINTF(2, 3) static bool wrong(struct reader *r, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(r->why, TASK_WHY, fmt, args);
    va_end(args);
    return false;
}

/* -------------------------------------------------------------------------------------- members */

static bool take_text(struct reader *r, json_t *value, const char *name, struct span *out)
{
    *out = (struct span){json_string_value(value), json_string_length(value)};
    return out->p || wrong(r, value ? "%s is not a string" : "%s is missing", name);
}

static bool text(struct reader *r, const char *key, struct span *out)
{
    char name[32];
    snprintf(name, sizeof name, "\"%s\"", key);
    return take_text(r, json_object_get(r->object, key), name, out);
}

static bool texts(struct reader *r, const char *key, struct span out[TASK_OPTIONS])
{
    json_t *list = json_object_get(r->object, key);
    size_t n = json_array_size(list);
    if (!json_is_array(list))
        return wrong(r, list ? "\"%s\" is not an array" : "\"%s\" is missing", key);
    if (n < 2 || n > TASK_OPTIONS)
        return wrong(r, "\"%s\" has %zu strings, not 2 to %d", key, n, TASK_OPTIONS);
    for (size_t i = 0; i < n; i++) {
        char name[32];
        snprintf(name, sizeof name, "\"%s\"[%zu]", key, i);
        if (!take_text(r, json_array_get(list, i), name, &out[i]))
            return false;
    }
    r->item->n = n;
    return true;
}

/* The index of the right option. */
static bool right(struct reader *r, const char *key)
{
    json_t *value = json_object_get(r->object, key);
    json_int_t n = json_integer_value(value);
    const char *digit = json_string_value(value); /* some copies of HellaSwag have a string */
    if (digit && digit[0] >= '0' && digit[0] <= '9' && !digit[1])
        n = digit[0] - '0';
    else if (!json_is_integer(value))
        return wrong(r, value ? "\"%s\" is not a whole number" : "\"%s\" is missing", key);
    if (n < 0 || (uint64_t)n >= r->item->n)
        return wrong(r, "\"%s\" is %" JSON_INTEGER_FORMAT ", but there are %zu options", key, n,
                     r->item->n);
    r->item->right = (size_t)n;
    return true;
}

/* ---------------------------------------------------------------------------------------- texts */

static bool add(struct reader *r, struct cli_text *t, struct span s)
{
    return cli_text_append(t, s.p, s.n) || wrong(r, "%s", tft_status_text(TFT_ERR_NOMEM));
}

static struct span words(const char *p)
{
    return (struct span){p, strlen(p)};
}

/* White space of ASCII. Python's strip() also removes other scripts' white space, but the texts of
   these tasks do not begin or end with any. */
static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static struct span trimmed_end(struct span s)
{
    while (s.n && is_space(s.p[s.n - 1]))
        s.n--;
    return s;
}

static struct span trimmed(struct span s)
{
    s = trimmed_end(s);
    while (s.n && is_space(*s.p)) {
        s.p++;
        s.n--;
    }
    return s;
}

static size_t characters(struct span s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += (s.p[i] & 0xc0) != 0x80; /* UTF-8: all but continuation bytes */
    return n;
}

/* Makes option i: context, `ask`, delimiter, answer. White space at the end of the context counts
   as part of the continuation, because tokens begin with it (_encode_pair of lm_eval/api/model.py).
   */
static bool add_option(struct reader *r, size_t i, struct span context, const char *ask,
                       const char *delimiter, struct span answer)
{
    struct task_option *o = &r->item->option[i];
    if (!add(r, &o->text, context) || !add(r, &o->text, words(ask)))
        return false;
    o->context = trimmed_end((struct span){o->text.p, o->text.n}).n;
    if (!o->context)
        return wrong(r, "the context is empty");
    if (!answer.n)
        return wrong(r, "an answer is empty");
    o->length = characters(answer);
    return add(r, &o->text, words(delimiter)) && add(r, &o->text, answer);
}

static bool add_options(struct reader *r, struct span query, const char *ask, const char *delimiter,
                        const struct span *answer)
{
    for (size_t i = 0; i < r->item->n; i++)
        if (!add_option(r, i, query, ask, delimiter, answer[i]))
            return false;
    return true;
}

/* ---------------------------------------------------------------------------------------- tasks */

/* lambada/lambada_openai.yaml. The last word is everything after the last space, other white space
   included. */
static bool read_lambada(struct reader *r)
{
    struct span s, last;
    if (!text(r, "text", &s))
        return false;
    last = s;
    for (; last.n && last.p[last.n - 1] != ' '; last.n--)
        ;
    if (!last.n)
        return wrong(r, "\"text\" is a single word");
    r->item->n = 1;
    return add_option(r, 0, (struct span){s.p, last.n - 1}, "", " ",
                      (struct span){s.p + last.n, s.n - last.n});
}

/* "query" is the question, "choices" are the answers, "gold" is the index of the right one. */
static bool read_choices(struct reader *r, const char *ask, const char *delimiter)
{
    struct span query, choice[TASK_OPTIONS];
    if (!text(r, "query", &query) || !texts(r, "choices", choice) || !right(r, "gold"))
        return false;
    if (*ask == '\n' && query.n && query.p[query.n - 1] == '\n')
        query.n--;
    return add_options(r, query, ask, delimiter, choice);
}

/* winogrande/preprocess_winogrande.py: the contexts differ, the continuation is the same. */
static bool read_winogrande(struct reader *r)
{
    struct span context[TASK_OPTIONS], rest;
    if (!texts(r, "context_options", context) || !text(r, "continuation", &rest) ||
        !right(r, "gold"))
        return false;
    for (size_t i = 0; i < r->item->n; i++)
        if (!add_option(r, i, context[i], "", " ", trimmed(rest)))
            return false;
    return true;
}

/* ---- hellaswag/utils.py */

static bool begins(const char *p, const char *end, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(end - p) >= n && memcmp(p, with, n) == 0;
}

/* text.replace(" [title]", ". ") */
static char *replace_titles(char *out, const char *p, const char *end)
{
    for (; p < end; p++)
        if (begins(p, end, " [title]")) {
            *out++ = '.';
            *out++ = ' ';
            p += strlen(" [title]") - 1;
        } else {
            *out++ = *p;
        }
    return out;
}

static const char *find(const char *p, const char *end, char c)
{
    const char *found = memchr(p, c, (size_t)(end - p));
    return found ? found : end;
}

/* re.sub("\\[.*?\\]", "", text), where the dot does not match a newline */
static char *drop_brackets(char *out, const char *p, const char *end)
{
    const char *close = find(p, end, ']'), *newline = find(p, end, '\n');
    for (; p < end; p++) {
        close = close < p ? find(p, end, ']') : close;
        newline = newline < p ? find(p, end, '\n') : newline;
        if (*p == '[' && close < newline)
            p = close;
        else
            *out++ = *p;
    }
    return out;
}

/* text.replace("  ", " ") */
static char *halve_spaces(char *out, const char *p, const char *end)
{
    for (; p < end; p++) {
        p += begins(p, end, "  ");
        *out++ = *p;
    }
    return out;
}

/* preprocess(): one step after another, since a step may find the result of the step before. */
static void tidy(struct cli_text *t)
{
    if (!t->n)
        return;
    struct span s = trimmed((struct span){t->p, t->n});
    char *end = replace_titles(t->p, s.p, s.p + s.n);
    end = drop_brackets(t->p, t->p, end);
    end = halve_spaces(t->p, t->p, end);
    t->n = (size_t)(end - t->p);
}

/* Python's capitalize(), of ASCII. */
static void capitalize(char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (i == 0 ? p[i] >= 'a' && p[i] <= 'z' : p[i] >= 'A' && p[i] <= 'Z')
            p[i] ^= 'a' ^ 'A';
}

/* Copies of the task without ctx_a and ctx_b have both joined in "ctx". */
static bool hellaswag_query(struct reader *r, struct cli_text *t)
{
    struct span topic, a, b = {"", 0};
    bool parts = json_object_get(r->object, "ctx_a"),
         has_topic = json_object_get(r->object, "activity_label");
    if (!text(r, parts ? "ctx_a" : "ctx", &a) || (parts && !text(r, "ctx_b", &b)) ||
        (has_topic && !text(r, "activity_label", &topic)))
        return false;
    if (has_topic && (!add(r, t, topic) || !add(r, t, words(": "))))
        return false;
    if (!add(r, t, a) || !add(r, t, words(" ")) || !add(r, t, b))
        return false;
    capitalize(t->p + t->n - b.n, b.n);
    tidy(t);
    return true;
}

static bool read_hellaswag(struct reader *r)
{
    struct span ending[TASK_OPTIONS];
    struct cli_text query = {0}, tidied[TASK_OPTIONS] = {{0}};
    bool ok = texts(r, "endings", ending) && right(r, "label") && hellaswag_query(r, &query);
    for (size_t i = 0; i < r->item->n && ok; i++) {
        ok = add(r, &tidied[i], ending[i]);
        tidy(&tidied[i]);
        ending[i] = (struct span){tidied[i].p, tidied[i].n};
    }
    ok = ok && add_options(r, (struct span){query.p, query.n}, "", " ", ending);
    for (size_t i = 0; i < r->item->n; i++)
        free(tidied[i].p);
    free(query.p);
    return ok;
}

static bool read_object(enum task task, struct reader *r)
{
    switch (task) {
    case TASK_LAMBADA: return read_lambada(r);
    case TASK_PIQA:
        /* piqa/piqa.yaml; "query" contains "Question: " and the newline */
        return read_choices(r, "\nAnswer:", " ");
    case TASK_WINOGRANDE: return read_winogrande(r);
    case TASK_OPENBOOKQA: return read_choices(r, "", " "); /* openbookqa/openbookqa.yaml */
    case TASK_COPA:
        /* super_glue/copa: a choice begins with a space, and the delimiter is another one */
        return read_choices(r, "", "  ");
    case TASK_HELLASWAG: return read_hellaswag(r);
    }
    return false;
}

/* ---------------------------------------------------------------------------------------- lines */

/* The message of jansson, without the text at which it stopped: that text may be anything, of any
   length. */
static bool not_json(struct reader *r, json_error_t *err)
{
    char *near = strstr(err->text, " near ");
    if (near)
        *near = 0;
    if (!*err->text) /* the line is valid, but memory is short */
        return wrong(r, "%s", tft_status_text(TFT_ERR_NOMEM));
    return wrong(r, "byte %d: %s", err->position, err->text);
}

bool task_read(enum task task, const char *line, size_t len, struct task_item *item,
               char why[TASK_WHY])
{
    json_error_t err;
    struct reader r = {
        .item = item, .why = why, .object = read_json(line, len, JSON_REJECT_DUPLICATES, &err)};
    if (!r.object)
        return not_json(&r, &err);
    bool ok = json_is_object(r.object) ? read_object(task, &r)
                                       : wrong(&r, "the line is not a JSON object");
    json_decref(r.object);
    return ok;
}

void task_free(struct task_item *item)
{
    for (size_t i = 0; i < TASK_OPTIONS; i++)
        free(item->option[i].text.p);
    *item = (struct task_item){0};
}

const char *task_name(enum task task)
{
    static const char *const names[] = {"lambada",    "piqa", "winogrande",
                                        "openbookqa", "copa", "hellaswag"};
    return names[task];
}

bool task_normalized(enum task task)
{
    return task == TASK_PIQA || task == TASK_OPENBOOKQA || task == TASK_HELLASWAG;
}
