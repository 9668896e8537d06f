/* Reads declarations of tools: OpenAI's `tools`. */
#include "call.h"

#include <string.h>

#include "base/alloc.h"

static const char object_only[] = "{\"type\": \"object\"}",
                  nothing[] = "{\"type\": \"object\", \"additionalProperties\": false}";

static const struct schema_place *constant(struct schema *c, const char *json)
{
    struct jinja_string s = {.p = json, .n = strlen(json)};
    return tft_schema_place(c, NULL, NULL, 0, tft_jinja_read_json(c->x, &s));
}

/* Member `name`, of a kind, of the object `at`; NULL: absent or null, a failure if the member is
   needed. */
static const struct schema_place *member(struct schema *c, const struct schema_place *at,
                                         const char *name, enum jinja_kind kind, bool needed)
{
    const struct schema_place *m = tft_schema_member(c, at, name);
    m = m && m->v.kind != JINJA_NONE ? m : NULL;
    if (!m && needed)
        tft_schema_fail(c, at, TFT_ERR_ARG, "has no %s", name);
    else if (m && m->v.kind != kind)
        tft_schema_fail(c, m, TFT_ERR_ARG, "not %s",
                        kind == JINJA_STRING ? "a string" : "an object");
    return c->x->status == TFT_OK ? m : NULL;
}

static void read_name(struct schema *c, struct tft_chat_tools *t, const struct schema_place *at)
{
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    const struct jinja_string *s = at->v.string;
    char *name = t->tool[t->n].name;
    bool good = s->n >= 1 && s->n <= CALL_NAME;
    for (size_t i = 0; i < s->n && good; i++)
        good = s->p[i] && strchr(set, s->p[i]);
    if (!good) {
        tft_schema_fail(c, at, TFT_ERR_ARG,
                        "a name has 1 to %d characters of A-Z, a-z, 0-9, _ and -", CALL_NAME);
        return;
    }
    if (tft_call_find(t, s->p, s->n) != SIZE_MAX)
        tft_schema_fail(c, at, TFT_ERR_ARG, "another tool has this name");
    memcpy(name, s->p, s->n);
}

/* Whether the schema `at` itself declares no members of its objects. */
static bool lists_nothing(struct schema *c, const struct schema_place *at)
{
    static const char *const says[] = {"additionalProperties", "patternProperties", "$ref",
                                       "anyOf", "oneOf", "allOf", "const", "enum"};
    const struct schema_place *list = tft_schema_member(c, at, "properties"),
                              *required = tft_schema_member(c, at, "required");
    for (size_t i = 0; i < sizeof says / sizeof *says; i++)
        if (tft_schema_member(c, at, says[i]))
            return false;
    if (required && !(required->v.kind == JINJA_LIST && !required->v.list->n))
        return false;
    return !list || (list->v.kind == JINJA_DICT && !list->v.dict->n);
}

/* Finds the arguments, by the schemas `all`, that are strings without quotes and escapes. */
static void read_members(struct schema *c, struct call_tool *tool, const struct schema_all *all)
{
    struct schema_shape s;
    struct schema_all rest, own;
    bool open;
    tft_schema_read(c, all, &s);
    tool->member = tft_schema_names(c, &s, &open, &rest);
    tool->raw = tft_jinja_take(c->x, tool->member ? tool->member->n : 0, sizeof *tool->raw);
    for (size_t i = 0; tool->raw && i < tool->member->n; i++) {
        tft_schema_property(c, &s, tool->member->item[i].string, &own);
        tool->raw[i] = tft_schema_is_raw(c, &own);
    }
}

/* Fails if a declaration without `parameters` has them by another API's name. */
static void check_other_names(struct schema *c, const struct schema_place *at)
{
    static const char *const names[] = {"input_schema", "inputSchema"}; /* Anthropic's, MCP's */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct schema_place *m = tft_schema_member(c, at, names[i]);
        if (m)
            tft_schema_fail(c, m, TFT_ERR_UNSUPPORTED, "the schema of arguments is `parameters`");
    }
}

/* Writes the rules of a function's arguments: an object. Without declared members the object is
   empty, since a model that may write any member would invent some. */
static void read_parameters(struct schema *c, struct tft_chat_tools *t,
                            const struct schema_place *at)
{
    struct schema_all all = {0};
    const struct schema_place *p = member(c, at, "parameters", JINJA_DICT, false);
    if (!p)
        check_other_names(c, at);
    if (c->x->status != TFT_OK)
        return;
    tft_schema_add(c, &all, p, 0);
    bool listed = p && !lists_nothing(c, p);
    const struct schema_place *own = constant(c, listed ? object_only : nothing);
    tft_schema_add(c, &all, own, 0);
    p = p ? p : own;
    t->tool[t->n].rule = t->format->members.middle
                             ? tft_schema_write_members(c, p, &all, &t->format->members)
                             : tft_schema_write(c, p, &all);
    if (t->format->members.until)
        read_members(c, &t->tool[t->n], &all);
}

static void read_tool(struct schema *c, struct tft_chat_tools *t, const struct schema_place *at)
{
    if (at->v.kind != JINJA_DICT) {
        tft_schema_fail(c, at, TFT_ERR_ARG, "not an object");
        return;
    }
    const struct schema_place *type = member(c, at, "type", JINJA_STRING, false),
                              *f = member(c, at, "function", JINJA_DICT, false);
    if (type && !tft_jinja_is(type->v.string, "function"))
        tft_schema_fail(c, type, TFT_ERR_UNSUPPORTED, "only tools of the type function");
    f = f ? f : at;
    const struct schema_place *name = member(c, f, "name", JINJA_STRING, true);
    member(c, f, "description", JINJA_STRING, false);
    if (!name)
        return;
    read_name(c, t, name);
    read_parameters(c, t, f);
    t->n++;
}

/* ---- the prompt for calls */

static void put_ask(struct tft_chat_tools *t, const char *p)
{
    tft_jinja_add_text(&t->pool, &t->ask, p, strlen(p), false);
}

static void write_ask(struct tft_chat_tools *t, struct jinja_value list)
{
    const struct jinja_args none = {0};
    put_ask(t, "You can call functions. To call some, answer with this JSON and nothing else:\n"
               "{\"tool_calls\": [{\"name\": NAME, \"arguments\": OBJECT}]}\n"
               "If no function helps, answer in plain text. The functions, with JSON Schemas of "
               "their arguments:\n");
    for (size_t i = 0; i < list.list->n && t->pool.status == TFT_OK; i++) {
        struct jinja_value text = tft_jinja_tojson(&t->pool, list.list->item[i], &none);
        if (text.kind == JINJA_STRING)
            tft_jinja_add(&t->pool, &t->ask, text.string);
        put_ask(t, "\n");
    }
}

/* ---- the object */

static void read_tools(struct schema *c, struct tft_chat_tools *t, const char *json, size_t n)
{
    struct jinja *x = c->x;
    struct jinja_value v = tft_schema_read_text(x, json, n);
    if (x->status != TFT_OK)
        return;
    const struct schema_place *list = tft_schema_place(c, NULL, NULL, 0, v);
    if (v.kind != JINJA_LIST || !v.list->n)
        tft_jinja_fail(x, TFT_ERR_ARG, "tools: not a list of tools, or an empty one");
    else if (v.list->n > CALL_TOOLS)
        tft_jinja_fail(x, TFT_ERR_FULL, "tools: more than %d tools", CALL_TOOLS);
    else
        t->tool = tft_jinja_take(x, v.list->n, sizeof *t->tool);
    for (size_t i = 0; x->status == TFT_OK && i < v.list->n; i++)
        read_tool(c, t, tft_schema_item(c, list, i));
    tft_schema_write_shared(c);
    const char *until = c->until ? c->until : t->format->members.until;
    if (until) {
        tft_schema_put(c, "plain ::= [^\\x00<]\n");
        tft_call_write_without(c, "raw", until);
    }
    t->rules = c->out;
    if (x->status == TFT_OK && strcmp(t->format->name, "json") == 0)
        write_ask(t, v);
}

enum tft_status tft_chat_tools_open(struct tft_chat_tools **out, const char *json, size_t n,
                                    const char *format, unsigned flags, struct tft_error *err)
{
    struct tft_chat_tools *t = tft_alloc(NULL, sizeof *t);
    struct schema *c = tft_alloc(NULL, sizeof *c);
    *out = NULL;
    if (!t || !c) {
        tft_free(NULL, t, sizeof *t);
        tft_free(NULL, c, sizeof *c);
        return tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    }
    *t = (struct tft_chat_tools){.pool = tft_schema_pool("tools"),
                                 .format = tft_call_format(format ? format : "json")};
    *c = (struct schema){.x = &t->pool,
                         .as = t->format ? t->format->spelling : NULL,
                         .until = t->format && t->format->spelling ? t->format->spelling->mark
                                                                   : NULL,
                         .any_order = flags & TFT_SCHEMA_ANY_ORDER};
    if (flags & ~(unsigned)TFT_SCHEMA_ANY_ORDER)
        tft_jinja_fail(&t->pool, TFT_ERR_ARG, "tools: unknown flags");
    else if (!t->format)
        tft_jinja_fail(&t->pool, TFT_ERR_ARG, "tools: no format of calls has the name %s", format);
    else
        read_tools(c, t, json, n);
    tft_free(NULL, c, sizeof *c);
    enum tft_status status = t->pool.status;
    if (status == TFT_OK)
        *out = t;
    else if (err)
        *err = t->pool.err;
    if (status != TFT_OK)
        tft_chat_tools_close(t);
    return status;
}

void tft_chat_tools_close(struct tft_chat_tools *t)
{
    if (!t)
        return;
    tft_jinja_free(&t->pool);
    tft_free(NULL, t, sizeof *t);
}

enum tft_status tft_chat_tools_ask(struct tft_chat_text *out, const struct tft_chat_tools *t,
                                   struct tft_error *err)
{
    *out = (struct tft_chat_text){.p = tft_alloc(NULL, t->ask.n + 1), .n = t->ask.n};
    if (!out->p) {
        out->n = 0;
        return tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    }
    if (t->ask.n)
        memcpy(out->p, t->ask.p, t->ask.n);
    out->p[t->ask.n] = 0;
    return TFT_OK;
}

size_t tft_chat_tools_count(const struct tft_chat_tools *t) { return t->n; }

const char *tft_chat_tools_name(const struct tft_chat_tools *t, size_t i)
{
    return i < t->n ? t->tool[i].name : NULL;
}

size_t tft_call_find(const struct tft_chat_tools *t, const char *name, size_t n)
{
    for (size_t i = 0; i < t->n; i++)
        if (strlen(t->tool[i].name) == n && memcmp(t->tool[i].name, name, n) == 0)
            return i;
    return SIZE_MAX;
}
