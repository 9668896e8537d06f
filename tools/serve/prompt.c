#include "prompt.h"

#include <stdlib.h>
#include <string.h>

#include "aside.h"
#include "cut.h"
#include "messages.h"

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
    bool plain = strcmp(template_calls(p->template), "json") == 0;
    c->messages = messages_read(c->f, template_takes_parts(p->template) && !plain);
    if (!c->f->failed)
        read_last(p, c->f, c->messages);
    bool cuts = may_cut(c->f, c->x->server) && !c->f->failed;
    if (cuts && !cuts_find(&c->cuts, c->messages))
        fields_fail(c->f, "out of memory");
    if (!c->f->failed && plain)
        messages_write_plainly(c->f, c->messages);
    if (!c->f->failed && plain && tools)
        c->first = messages_describe_tools(c->f, c->messages, tools);
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
