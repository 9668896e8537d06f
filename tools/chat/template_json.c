#define _POSIX_C_SOURCE 200809L
#include "template_json.h"

#include <stdlib.h>

static void member(FILE *f, const char *before, const char *p, size_t n)
{
    fputs(before, f);
    cli_json_string(f, n ? p : "", n);
}

/* The number of a call, which the template of Mistral wants to have nine letters and digits: that
   of its message. */
static void id(FILE *f, const char *before, size_t at)
{
    fprintf(f, "%s\"call%05zu\"", before, at % 100000);
}

/* A message as a template with tools takes it. */
static void write_message(FILE *f, const struct template_message *x, size_t at)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    fprintf(f, "{\"role\":\"%s\"", roles[x->role]);
    member(f, ",\"content\":", x->text.p, x->text.n);
    if (x->role == TEMPLATE_TOOL) {
        member(f, ",\"name\":", x->name.p, x->name.n);
        id(f, ",\"tool_call_id\":", at - 1);
    } else if (x->name.n) {
        id(f, ",\"tool_calls\":[{\"type\":\"function\",\"id\":", at);
        member(f, ",\"function\":{\"name\":", x->name.p, x->name.n);
        fprintf(f, ",\"arguments\":%.*s}}]", (int)x->arguments.n, x->arguments.p);
    }
    fputc('}', f);
}

/* The same where the template does not know tools: the system message describes them, and results
   are messages of the user. */
static void write_plainly(FILE *f, const struct template_message *x)
{
    static const char *const roles[] = {"system", "user", "assistant", "user"};
    struct cli_text text = {0};
    bool good = x->role != TEMPLATE_TOOL ||
                (cli_text_append(&text, "Result of ", 10) &&
                 cli_text_append(&text, x->name.p, x->name.n) && cli_text_append(&text, ":\n", 2));
    if (good && cli_text_append(&text, x->text.p, x->text.n)) {
        fprintf(f, "{\"role\":\"%s\"", roles[x->role]);
        member(f, ",\"content\":", text.p, text.n);
        fputc('}', f);
    }
    free(text.p);
}

/* The system message, and behind it what describes the tools. */
static void write_asking(FILE *f, const struct cli_text *system, const struct template_tools *t)
{
    struct template_message x = {.role = TEMPLATE_SYSTEM};
    if (!system ||
        (cli_text_append(&x.text, system->p, system->n) && cli_text_append(&x.text, "\n\n", 2)))
        if (cli_text_append(&x.text, t->ask, t->n_ask))
            write_plainly(f, &x);
    free(x.text.p);
}

char *template_json(const struct template_message *message, size_t n,
                    const struct template_options *o, size_t *len)
{
    const struct template_tools *t = o->tools;
    char *text = NULL;
    FILE *f = open_memstream(&text, len);
    if (!f)
        return NULL;
    size_t from = t->n_ask && n && message[0].role == TEMPLATE_SYSTEM;
    fputs(o->no_think ? "{\"enable_thinking\":false," : "{", f);
    if (!t->n_ask)
        fprintf(f, "\"tools\":%s,", t->json);
    fputs("\"messages\":[", f);
    if (t->n_ask)
        write_asking(f, from ? &message[0].text : NULL, t);
    for (size_t i = from; i < n; i++) {
        if (i || t->n_ask)
            fputc(',', f);
        if (t->n_ask)
            write_plainly(f, &message[i]);
        else
            write_message(f, &message[i], i);
    }
    fputs("]}", f);
    bool good = !ferror(f);
    if (fclose(f) == 0 && good)
        return text;
    free(text);
    return NULL;
}
