#define _POSIX_C_SOURCE 200809L
#include "prompt.h"

#include <stdlib.h>
#include <string.h>

#include "aside.h"
#include "cut.h"

/* ---- messages in the form of templates */

/* Whether the part of a content is text and no more. */
static bool is_text(const json_t *part)
{
    static const char *const types[] = {"text", "input_text", "output_text"};
    const char *type = json_string_value(json_object_get(part, "type"));
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return json_is_string(json_object_get(part, "text"));
    return false;
}

/* The text of a list of parts. */
static json_t *join(struct fields *f, const json_t *parts, size_t at)
{
    struct cli_text t = {0};
    size_t i;
    json_t *part;
    json_array_foreach((json_t *)(uintptr_t)parts, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *text = json_object_get(part, "text");
        if (!is_text(part)) {
            fields_fail(f, "messages[%zu].content[%zu]: only parts of text are supported, not %s",
                        at, i, type ? type : "this");
            break;
        }
        if (!cli_text_append(&t, json_string_value(text), json_string_length(text)))
            fields_fail(f, "out of memory");
    }
    json_t *all = json_stringn(t.n ? t.p : "", t.n);
    free(t.p);
    return all;
}

/* Checks the parts of a content that the template takes as a list. */
static void check_parts(struct fields *f, const json_t *parts, size_t at)
{
    size_t i;
    json_t *part;
    json_decref(join(f, parts, at));
    json_array_foreach((json_t *)(uintptr_t)parts, i, part)
        json_object_set_new(part, "type", json_string("text"));
}

/* Clients send earlier answers back as they dump them, with members that are null or empty, and
   templates ask whether a member is there. */
static void drop_void(json_t *of)
{
    const char *name;
    json_t *v;
    void *next;
    json_object_foreach_safe(of, next, name, v)
        if (json_void(v) && strcmp(name, "content") != 0)
            json_object_del(of, name);
}

/* The calls of an earlier answer; no arguments are {}. */
static void read_calls(struct fields *f, json_t *message, size_t at)
{
    size_t i;
    json_t *call, *calls = json_object_get(message, "tool_calls");
    if (calls && !json_is_array(calls))
        fields_fail(f, "messages[%zu].tool_calls must be a list", at);
    json_array_foreach(calls, i, call)
    {
        drop_void(call);
        json_t *of = json_object_get(call, "function");
        drop_void(of);
        const json_t *arguments = json_object_get(of, "arguments");
        if (!json_is_string(json_object_get(of, "name")))
            fields_fail(f, "messages[%zu].tool_calls[%zu].function has no name", at, i);
        else if (!arguments)
            json_object_set_new(of, "arguments", json_string("{}"));
        else if (!json_is_string(arguments) && !json_is_object(arguments))
            fields_fail(f,
                        "messages[%zu].tool_calls[%zu].function.arguments must be an object, or "
                        "its JSON as a string",
                        at, i);
    }
}

/* What an answer says in other members than those that templates know. */
static void read_answer(struct fields *f, json_t *message, size_t at)
{
    static const char *const unknown[] = {"function_call", "audio"};
    json_t *refusal = json_object_get(message, "refusal");
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        if (json_object_get(message, unknown[i]))
            fields_fail(f, "messages[%zu].%s is not supported%s", at, unknown[i],
                        i ? "" : ", but tool_calls is");
    if (!json_is_string(refusal))
        return;
    if (!json_object_get(message, "content") || json_void(json_object_get(message, "content")))
        json_object_set(message, "content", refusal);
    json_object_del(message, "refusal");
}

static void read_content(struct fields *f, json_t *message, size_t at, bool takes_parts)
{
    const json_t *content = json_object_get(message, "content");
    const char *role = json_string_value(json_object_get(message, "role"));
    bool may_lack = strcmp(role, "assistant") == 0 || strcmp(role, "tool") == 0;
    bool user = strcmp(role, "user") == 0; /* templates print lists of others as they are */
    if (json_array_size(content) && takes_parts && user)
        check_parts(f, content, at);
    else if (json_is_array(content))
        json_object_set_new(message, "content", join(f, content, at));
    else if ((!content || json_is_null(content)) && may_lack)
        json_object_set_new(message, "content", json_string(""));
    else if (!json_is_string(content))
        fields_fail(f, "messages[%zu].content must be a string or a list of parts", at);
}

static void read_message(struct fields *f, json_t *message, size_t at, bool takes_parts)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    const char *role = json_string_value(json_object_get(message, "role"));
    bool known = false;
    if (role && strcmp(role, "developer") == 0) {
        role = "system";
        json_object_set_new(message, "role", json_string(role));
    }
    for (size_t i = 0; role && i < sizeof roles / sizeof *roles; i++)
        known |= strcmp(role, roles[i]) == 0;
    if (!json_is_object(message))
        fields_fail(f, "messages[%zu] is not an object", at);
    else if (!known)
        fields_fail(f, "messages[%zu].role must be system, user, assistant or tool", at);
    if (f->failed)
        return;
    drop_void(message);
    read_calls(f, message, at);
    read_answer(f, message, at);
    if (!f->failed)
        read_content(f, message, at, takes_parts);
}

static json_t *read_messages(struct fields *f, bool takes_parts)
{
    json_t *list = json_object_get(f->body, "messages"), *message;
    size_t i;
    if (!json_is_array(list) || !json_array_size(list))
        fields_fail(f, "messages must be a list, and not empty");
    json_array_foreach(list, i, message) read_message(f, message, i, takes_parts);
    return list;
}

/* ---- an answer to continue */

/* The text of the last message, if that is an answer without calls; else NULL. */
static const char *last_answer(const json_t *messages)
{
    const json_t *last = json_array_get(messages, json_array_size(messages) - 1),
                 *content = json_object_get(last, "content");
    const char *role = json_string_value(json_object_get(last, "role"));
    if (strcmp(role, "assistant") != 0 || json_object_get(last, "tool_calls"))
        return NULL;
    return json_string_value(content);
}

static bool is_blank(const char *text) { return !text[strspn(text, " \t\r\n")]; }

/* Whether the text ends within a thought. */
static bool is_in_thought(const char *text)
{
    bool inside = false;
    for (const char *at = text; at; inside = !inside) {
        at = strstr(at, inside ? "</think>" : "<think>");
        if (!at)
            break;
        at++;
    }
    return inside;
}

/* Finds out whether the prompt ends in an answer that the model continues. An empty answer at the
   end is the one to come. */
static void read_last(struct prompt *p, struct fields *f, json_t *messages)
{
    bool asked = field_flag(f, "continue_final_message", true);
    const char *text = f->failed ? NULL : last_answer(messages);
    if (text && is_blank(text) && json_array_size(messages) > 1) {
        json_array_remove(messages, json_array_size(messages) - 1);
        text = NULL;
    }
    p->goes_on = asked && text && !is_blank(text);
    p->in_thought = p->goes_on && is_in_thought(text);
    if (asked && field(f, "continue_final_message") && !p->goes_on)
        fields_fail(f, "continue_final_message: the last message is not an answer with text");
}

/* ---- tools, if templates do not know tools */

static void say(struct fields *f, struct cli_text *t, const char *p)
{
    if (!cli_text_append(t, p, strlen(p)))
        fields_fail(f, "out of memory");
}

/* A call in the form that tft_chat_tools_ask describes. */
static void say_calls(struct fields *f, struct cli_text *t, const json_t *calls)
{
    size_t i;
    json_t *call;
    say(f, t, "{\"tool_calls\": [");
    json_array_foreach((json_t *)(uintptr_t)calls, i, call)
    {
        const json_t *of = json_object_get(call, "function"),
                     *arguments = json_object_get(of, "arguments");
        char *name = json_dumps(json_object_get(of, "name"), JSON_ENCODE_ANY),
             *text = json_is_string(arguments) ? strdup(json_string_value(arguments))
                                               : json_dumps(arguments, JSON_ENCODE_ANY);
        say(f, t, i ? ", {\"name\": " : "{\"name\": ");
        say(f, t, name ? name : "\"\"");
        say(f, t, ", \"arguments\": ");
        say(f, t, text ? text : "{}");
        say(f, t, "}");
        free(name);
        free(text);
    }
    say(f, t, "]}");
}

/* Calls become text, and results messages of the user. */
static void write_plainly(struct fields *f, json_t *message)
{
    struct cli_text t = {0};
    const json_t *calls = json_object_get(message, "tool_calls");
    const char *role = json_string_value(json_object_get(message, "role")),
               *name = json_string_value(json_object_get(message, "name"));
    bool result = strcmp(role, "tool") == 0;
    if (!result && !json_array_size(calls))
        return;
    if (result) {
        say(f, &t, "Result of ");
        say(f, &t, name ? name : "the call");
        say(f, &t, ":\n");
        json_object_set_new(message, "role", json_string("user"));
    }
    say(f, &t, json_string_value(json_object_get(message, "content")));
    if (json_array_size(calls))
        say_calls(f, &t, calls);
    json_object_set_new(message, "content", json_stringn(t.p, t.n));
    json_object_del(message, "tool_calls");
    free(t.p);
}

/* The system message describes the tools. Returns whether it is a new message. */
static bool describe_tools(struct fields *f, json_t *messages, const struct tft_chat_tools *tools)
{
    struct tft_chat_text ask;
    struct tft_error err;
    struct cli_text t = {0};
    json_t *first = json_array_get(messages, 0);
    bool had = strcmp(json_string_value(json_object_get(first, "role")), "system") == 0;
    if (tft_chat_tools_ask(&ask, tools, &err) != TFT_OK) {
        fields_fail(f, "tools: %s", err.msg);
        return false;
    }
    if (had) {
        say(f, &t, json_string_value(json_object_get(first, "content")));
        say(f, &t, "\n\n");
    } else {
        first = json_pack("{s:s}", "role", "system");
        json_array_insert_new(messages, 0, first);
    }
    say(f, &t, ask.p);
    json_object_set_new(first, "content", json_stringn(t.p, t.n));
    free(t.p);
    json_object_del(f->body, "tools");
    tft_chat_text_free(&ask);
    return !had;
}

/* ---- tokens */

void prompt_hold(struct prompt *p, const struct served *s)
{
    p->n_held = tft_prefix_held(s->m, NULL, p->ids, p->n);
    p->n -= p->n_held;
}

static bool ends_in_thought(const struct tft_chat_text *t)
{
    static const char think[] = "<think>";
    size_t n = t->n, len = sizeof think - 1;
    while (n && (t->p[n - 1] == ' ' || t->p[n - 1] == '\n'))
        n--;
    return n >= len && memcmp(t->p + n - len, think, len) == 0;
}

static void tokenize(struct prompt *p, const struct served *s, struct fields *f,
                     const struct tft_chat_text *t)
{
    size_t most = cli_most_tokens(t->n);
    enum tft_status status = TFT_ERR_NOMEM;
    p->ids = malloc(most * sizeof *p->ids);
    aside_begin();
    if (p->ids)
        status = tft_chat_tokenize(t, s->m, p->ids, most, &p->n, &p->text_goes_on);
    aside_end();
    p->in_thought = p->goes_on ? p->in_thought : ends_in_thought(t);
    if (status != TFT_OK)
        fields_fail(f, "the conversation cannot be tokenized: %s", tft_status_text(status));
    else
        prompt_hold(p, s);
}

/* The template's input. */
static char *template_input(struct fields *f, const json_t *messages, bool *thinks)
{
    const json_t *more = field(f, "chat_template_kwargs"), *tools = field(f, "tools");
    json_t *in = json_is_object(more) ? json_deep_copy(more) : json_object();
    if (more && !json_is_object(more))
        fields_fail(f, "chat_template_kwargs must be an object");
    if (json_object_get(more, "messages"))
        fields_fail(f, "chat_template_kwargs must not have messages");
    json_object_set(in, "messages", (json_t *)(uintptr_t)messages);
    if (!field_flag(f, "add_generation_prompt", true))
        json_object_set_new(in, "add_generation_prompt", json_false());
    if (tools)
        json_object_set(in, "tools", (json_t *)(uintptr_t)tools);
    if (!params_think_budget(f) && !json_object_get(in, "enable_thinking"))
        json_object_set_new(in, "enable_thinking", json_false());
    *thinks = !json_is_false(json_object_get(in, "enable_thinking"));
    char *text = json_dumps(in, 0);
    json_decref(in);
    if (!text)
        fields_fail(f, "out of memory");
    return text;
}

enum { QUIET = 60 }; /* seconds between two lines about the same */

/* Says the text on stderr, unless something was said in the last minute. said: when; of the
   clients' thread alone. */
static void say_rarely(uint64_t *said, const char *text)
{
    uint64_t now = cli_ns() / 1000000000u + 1;
    if (*said && now - *said < QUIET)
        return;
    fprintf(stderr, "tuffet: %s\n", text);
    *said = now;
}

/* The template dropped a result of a tool: says so in the reply and, now and then, on stderr. */
static void warn_of_result(struct exchange *x, const struct fields *f, size_t at)
{
    static uint64_t said;
    char text[100], room[FIELDS_PLACE];
    snprintf(text, sizeof text, "%s: the chat template drops this result of a tool",
             fields_message(f, at, room));
    reply_header(x, "X-Tuffet-Warning", text);
    say_rarely(&said, text);
}

/* Says in the reply which of the members that become variables have no effect. */
static void warn_of_variables(struct exchange *x, const struct fields *f,
                              const struct template_format *template)
{
    static const char *const names[] = {"enable_thinking", "reasoning_effort"};
    const json_t *more = field(f, "chat_template_kwargs");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[80];
        if (!json_object_get(more, names[i]) || template_uses(template, names[i]))
            continue;
        snprintf(text, sizeof text, "the chat template does not use %s", names[i]);
        reply_header(x, "X-Tuffet-Warning", text);
    }
}

/* A conversation that becomes a prompt. */
struct making {
    struct prompt *p;
    struct exchange *x;
    struct fields *f;
    struct tft_chat_text *t;
    json_t *messages; /* in the form of templates */
    size_t first;     /* how many of these the client did not send; they come before all others */
    struct cuts cuts;
    struct cut cut; /* of the text */
    struct template_dropped dropped;
};

static void check_dropped(struct making *c)
{
    char room[FIELDS_PLACE];
    size_t said = c->dropped.said, result = c->dropped.result;
    said = said == SIZE_MAX ? said : cut_place(&c->cut, said);
    const json_t *message = json_array_get(c->messages, said);
    if (message && said < c->first)
        fields_fail(c->f, "the chat template drops the description of the tools");
    else if (message)
        fields_fail(c->f, "%s: the chat template drops this message of the role %s",
                    fields_message(c->f, said - c->first, room),
                    json_string_value(json_object_get(message, "role")));
    else if (result != SIZE_MAX)
        warn_of_result(c->x, c->f, cut_place(&c->cut, result) - c->first);
}

/* Renders the messages that the cut leaves. */
static void render(struct making *c, struct cut cut)
{
    struct prompt *p = c->p;
    const struct served *s = c->x->served;
    struct tft_error err;
    json_t *rest = cut_apply(&cut, c->messages);
    char *in = rest ? template_input(c->f, rest, &p->thinks) : NULL;
    tft_chat_text_free(c->t);
    *c->t = (struct tft_chat_text){0};
    c->cut = cut;
    if (!rest)
        fields_fail(c->f, "out of memory");
    aside_begin();
    if (!c->f->failed && template_render_json(c->t, &c->dropped, p->template, s->m, in, strlen(in),
                                              p->goes_on, &err) != TFT_OK)
        fields_fail(c->f, "%s", err.msg);
    aside_end();
    json_decref(rest);
    free(in);
}

/* ---- a conversation that outgrows the context */

static bool may_cut(struct fields *f, const struct server *s)
{
    const char *word = field_text(f, "truncation", s->o.truncate ? "auto" : "disabled");
    bool may = strcmp(word, "auto") == 0;
    if (!may && strcmp(word, "disabled") != 0)
        fields_fail(f, "truncation must be auto or disabled");
    return may;
}

/* Makes the prompt with cut number k; 0: with all messages. Returns its tokens; 0 after an
   error. */
static size_t make_prompt(struct making *c, size_t k)
{
    render(c, k ? c->cuts.p[k - 1] : (struct cut){0});
    free(c->p->ids);
    c->p->ids = NULL;
    if (!c->f->failed)
        tokenize(c->p, c->x->served, c->f, c->t);
    return c->f->failed ? 0 : c->p->n;
}

static void note_cut(struct prompt *p, const struct cut *cut, size_t n)
{
    static uint64_t said;
    char text[120];
    p->n_dropped = cut_size(cut);
    if (!p->n_dropped)
        return;
    snprintf(text, sizeof text,
             "a prompt of %zu tokens outgrows the context: its oldest messages, %zu, are dropped",
             n, p->n_dropped);
    say_rarely(&said, text);
}

/* Drops messages until the prompt has at most `room` tokens, or as many as can be dropped. Tokens
   are dropped in steps of a quarter of the room: the next requests of a conversation then drop the
   same messages, and find the others in the cache. */
static void shorten(struct making *c, size_t room)
{
    size_t low = 0, high = c->cuts.n, made = high, step = room / 4 + 1, all = make_prompt(c, 0);
    if (all <= room || !high)
        return;
    size_t over = (all - room + step - 1) / step * step, least = make_prompt(c, high);
    size_t wanted = all > over && least <= all - over ? all - over : room;
    while (low + 1 < high && least <= room && !c->f->failed) {
        made = low + (high - low) / 2; /* cut `low` leaves too much, cut `high` does not */
        if (make_prompt(c, made) <= wanted)
            high = made;
        else
            low = made;
    }
    if (made != high && !c->f->failed)
        make_prompt(c, high);
    if (!c->f->failed)
        note_cut(c->p, &c->cut, all);
}

/* Tokens of a prompt beside an answer: half of the context at least, and seven eighths beside an
   answer of any length. */
static size_t room_beside(const struct exchange *x, int64_t most)
{
    size_t capacity = engine_capacity(x->served->engine), half = capacity / 2;
    int64_t bound = x->server->o.n_most;
    most = bound >= 0 && (most < 0 || most > bound) ? bound : most;
    size_t answer = most < 0 ? capacity / 8 : (size_t)most;
    return capacity - (answer < half ? answer : half);
}

/* ---- a conversation */

/* Makes the text of c->messages, in the form of the template. */
static void make_text(struct making *c, const struct tft_chat_tools *tools, int64_t most)
{
    struct prompt *p = c->p;
    size_t i;
    json_t *message;
    bool plain = strcmp(template_calls(p->template), "json") == 0;
    c->messages = read_messages(c->f, template_takes_parts(p->template) && !plain);
    if (!c->f->failed)
        read_last(p, c->f, c->messages);
    bool cuts = may_cut(c->f, c->x->server) && !c->f->failed;
    if (cuts && !cuts_find(&c->cuts, c->messages))
        fields_fail(c->f, "out of memory");
    if (!c->f->failed && plain)
        json_array_foreach(c->messages, i, message) write_plainly(c->f, message);
    if (!c->f->failed && plain && tools)
        c->first = describe_tools(c->f, c->messages, tools);
    cuts_shift(&c->cuts, c->first);
    if (c->f->failed)
        return;
    if (cuts)
        shorten(c, room_beside(c->x, most));
    else
        render(c, (struct cut){0});
}

void prompt_render(struct tft_chat_text *t, struct prompt *p, struct exchange *x, struct fields *f,
                   const struct tft_chat_tools *tools, int64_t most)
{
    const struct served *s = x->served;
    struct making c = {.p = p, .x = x, .f = f, .t = t};
    *t = (struct tft_chat_text){0};
    *p = (struct prompt){.template =
                             json_array_size(field(f, "tools")) ? s->tool_template : s->template};
    if (!p->template) {
        fields_fail(f, NO_TEMPLATE);
        return;
    }
    make_text(&c, tools, most);
    if (!f->failed)
        check_dropped(&c);
    if (!f->failed)
        warn_of_variables(x, f, p->template);
    p->thinks = !f->failed && p->thinks && !p->goes_on && template_thinks(p->template);
    free(c.cuts.p);
}

void prompt_chat(struct prompt *p, struct exchange *x, struct fields *f,
                 const struct tft_chat_tools *tools, int64_t most)
{
    struct tft_chat_text t;
    prompt_render(&t, p, x, f, tools, most);
    if (!f->failed && !p->ids)
        tokenize(p, x->served, f, &t);
    tft_chat_text_free(&t);
}

void prompt_text(struct prompt *p, const struct served *s, struct fields *f, const char *text,
                 size_t n, bool special)
{
    unsigned flags = TFT_ADD_BOS | (special ? TFT_PARSE_SPECIAL : 0);
    *p = (struct prompt){.text_goes_on = n};
    size_t most = cli_most_tokens(n);
    enum tft_status status = TFT_ERR_NOMEM;
    p->ids = malloc(most * sizeof *p->ids);
    aside_begin();
    if (p->ids)
        status = tft_tokenize(s->m, text, n, flags, p->ids, most, &p->n);
    aside_end();
    if (status != TFT_OK)
        fields_fail(f, "the prompt cannot be tokenized: %s", tft_status_text(status));
    else
        prompt_hold(p, s);
}

void prompt_tokens(struct prompt *p, const struct served *s, struct fields *f, const json_t *list)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(s->m, &info);
    *p = (struct prompt){.n = json_array_size(list)};
    p->ids = malloc((p->n + 1) * sizeof *p->ids);
    if (!p->ids)
        fields_fail(f, "out of memory");
    for (size_t i = 0; i < p->n && !f->failed; i++) {
        int64_t value;
        if (!json_whole(json_array_get(list, i), &value) || value < 0 || value >= info.n_vocab)
            fields_fail(f, "prompt[%zu] is not a token of the model", i);
        else
            p->ids[i] = (int32_t)value;
    }
    size_t len = 0;
    if (!f->failed && p->n) {
        tft_token_text(s->m, p->ids[p->n - 1], false, &len);
        p->text_goes_on = len;
        prompt_hold(p, s);
    }
}

bool prompt_put(const struct prompt *p, struct job *j)
{
    j->ids = malloc((p->n + 1) * sizeof *j->ids);
    if (!j->ids)
        return false;
    memcpy(j->ids, p->ids + p->n_held, p->n * sizeof *p->ids);
    j->n_ids = p->n;
    j->text_goes_on = p->text_goes_on;
    j->in_thought = p->in_thought;
    return true;
}
