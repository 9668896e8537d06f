#include "template_json.h"

#include <stdlib.h>
#include <string.h>

struct out {
    struct cli_text text;
    bool failed; /* out of memory */
};

static void put_bytes(struct out *f, const char *p, size_t n)
{
    f->failed = f->failed || !cli_text_append(&f->text, p, n);
}

static void put(struct out *f, const char *text) { put_bytes(f, text, strlen(text)); }

static void member(struct out *f, const char *before, const char *p, size_t n)
{
    put(f, before);
    f->failed = f->failed || !cli_text_json(&f->text, n ? p : "", n);
}

/* The number of a call, its message's, in nine letters and digits, as Mistral's template
   requires. */
static void id(struct out *f, const char *before, size_t at)
{
    char text[16];
    snprintf(text, sizeof text, "\"call%05zu\"", at % 100000);
    put(f, before);
    put(f, text);
}

static void begin(struct out *f, const char *role)
{
    put(f, "{\"role\":\"");
    put(f, role);
    put(f, "\"");
}

/* A message in the form of a template with tools. */
static void write_message(struct out *f, const struct template_message *x, size_t at)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    begin(f, roles[x->role]);
    member(f, ",\"content\":", x->text.p, x->text.n);
    if (x->role == TEMPLATE_TOOL) {
        member(f, ",\"name\":", x->name.p, x->name.n);
        id(f, ",\"tool_call_id\":", at - 1);
    } else if (x->name.n) {
        id(f, ",\"tool_calls\":[{\"type\":\"function\",\"id\":", at);
        member(f, ",\"function\":{\"name\":", x->name.p, x->name.n);
        put(f, ",\"arguments\":");
        put_bytes(f, x->arguments.p, x->arguments.n);
        put(f, "}}]");
    }
    put(f, "}");
}

/* The same for a template that does not know tools: the system message describes the tools, and
   results are messages of the user. */
static void write_plainly(struct out *f, const struct template_message *x)
{
    static const char *const roles[] = {"system", "user", "assistant", "user"};
    struct out text = {0};
    if (x->role == TEMPLATE_TOOL) {
        put(&text, "Result of ");
        put_bytes(&text, x->name.p, x->name.n);
        put(&text, ":\n");
    }
    put_bytes(&text, x->text.p, x->text.n);
    begin(f, roles[x->role]);
    member(f, ",\"content\":", text.text.p, text.text.n);
    put(f, "}");
    f->failed = f->failed || text.failed;
    free(text.text.p);
}

/* The system message, and then the description of the tools. */
static void write_asking(struct out *f, const struct cli_text *system,
                         const struct template_tools *t)
{
    struct out text = {0};
    if (system) {
        put_bytes(&text, system->p, system->n);
        put(&text, "\n\n");
    }
    put_bytes(&text, t->ask, t->n_ask);
    write_plainly(f, &(struct template_message){.role = TEMPLATE_SYSTEM, .text = text.text});
    f->failed = f->failed || text.failed;
    free(text.text.p);
}

char *template_json(const struct template_message *message, size_t n,
                    const struct template_options *o, size_t *len)
{
    const struct template_tools *t = o->tools;
    struct out f = {0};
    size_t from = t->n_ask && n && message[0].role == TEMPLATE_SYSTEM;
    put(&f, o->no_think ? "{\"enable_thinking\":false," : "{");
    if (!t->n_ask) {
        put(&f, "\"tools\":");
        put(&f, t->json);
        put(&f, ",");
    }
    put(&f, "\"messages\":[");
    if (t->n_ask)
        write_asking(&f, from ? &message[0].text : NULL, t);
    for (size_t i = from; i < n; i++) {
        if (i || t->n_ask)
            put(&f, ",");
        if (t->n_ask)
            write_plainly(&f, &message[i]);
        else
            write_message(&f, &message[i], i);
    }
    put(&f, "]}");
    *len = f.text.n;
    if (!f.failed)
        return f.text.p;
    free(f.text.p);
    return NULL;
}
