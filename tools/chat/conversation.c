#define _POSIX_C_SOURCE 200809L
#include "conversation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/cli/verbose.h"

/* ---- an answer */

/* Prints text outside of calls. */
static bool show(void *user, const char *p, size_t n)
{
    struct conversation *c = user;
    return (!c->tools.list || cli_text_append(&c->shown, p, n)) && (!c->print || c->print(p, n));
}

/* Adds text to the answer, and prints it. Leaves out the space that some formats put before an
   answer. Returns false with errno if the text could not be printed. */
static bool extend_answer(void *user, int32_t id, const char *p, size_t n)
{
    struct conversation *c = user;
    struct cli_text *text = context_answer(&c->x);
    size_t lead = text->n ? 0 : template_lead(c->x.format, p, n);
    if (!cli_text_append(text, p + lead, n - lead))
        return false;
    return c->tools.list ? reader_take(&c->reader, id, p + lead, n - lead)
                         : show(c, p + lead, n - lead);
}

/* Generates until the answer ends, or until the session is full; a->stop is then still NULL.
   Returns CLI_OK, or CLI_FAILED after an error message. */
static int generate(struct conversation *c, struct conversation_answer *a)
{
    struct form_text t = {.text = &a->state,
                          .put = extend_answer,
                          .user = c,
                          .in_line = c->print,
                          .n = a->n_tokens,
                          .loops = c->stop_loops ? &c->loops : NULL,
                          .most = c->n_tokens < 0 ? SIZE_MAX : (size_t)c->n_tokens};
    int status = form_generate(&c->form, &c->sampler, c->x.s, &t);
    a->n_tokens = (uint32_t)t.n;
    a->stop = t.stop;
    return status;
}

/* Computes the tokens of the prompt, and generates. */
static int compute_and_generate(struct conversation *c, struct conversation_answer *a,
                                const struct context_prompt *p)
{
    uint64_t start = cli_ns();
    a->n_prompt = p->n;
    a->n_held = cli_held(c->x.s, p->ids, p->n);
    verbose_prompt(c->x.m, p->ids, p->n, c->x.s, a->n_held, true);
    if (cli_sync(c->x.s, p->ids, p->n) != TFT_OK)
        return cli_fail_session(c->x.s);
    if (!cli_interrupted())
        tft_prompt_end(c->x.s);
    a->prompt_seconds = (double)(cli_ns() - start) / 1e9;
    start = cli_ns();
    int status = generate(c, a);
    a->seconds += (double)(cli_ns() - start) / 1e9;
    return status;
}

/* Makes the prompt for a session that became full within an answer: drops the oldest turns first.
   *room: the answer can continue. If the answer stopped within a character, the model must see the
   character's bytes so far, which are not text yet, and the answer continues with the rest of the
   character. Returns false after an error message. */
static bool prompt_again(struct conversation *c, struct conversation_answer *a,
                         struct context_prompt *p, bool *room)
{
    struct tft_text cut = a->state;
    bool in_line = context_answer(&c->x)->n;
    *room = false;
    if (!cli_text_append(context_answer(&c->x), (const char *)cut.bytes, cut.held))
        return cli_fail("out of memory") == CLI_OK;
    if (context_prompt(&c->x, p))
        *room = context_drop_oldest(&c->x, p, in_line) && p->n < tft_capacity(c->x.s);
    context_answer(&c->x)->n -= cut.held;
    a->state.started = cut.started || p->text_goes_on;
    return p->ids;
}

/* Generates the answer from the prompt. If the session becomes full before the end, drops the
   oldest turns and continues the answer with the others. */
static int answer_from(struct conversation *c, struct conversation_answer *a,
                       struct context_prompt *p)
{
    bool thinks = !c->x.o.no_think && template_thinks(c->x.format), room = true;
    a->in_thought = p->in_thought;
    a->state = (struct tft_text){.started = p->text_goes_on};
    if (form_begin(&c->form, p->ids, p->n, thinks) != CLI_OK)
        return CLI_FAILED;
    thinking_begin(&c->form.thinking, c->x.m, c->think_budget, p->in_thought);
    c->loops = (struct loops){0};
    c->sampler.min_tokens = c->min_tokens;
    if (c->begin)
        c->begin(a->in_thought);
    while (room) {
        int status = compute_and_generate(c, a, p);
        if (status != CLI_OK || a->stop)
            return status;
        if (!prompt_again(c, a, p, &room))
            return CLI_FAILED;
    }
    a->stop = "context";
    return CLI_OK;
}

static int answer(struct conversation *c, struct conversation_answer *a)
{
    struct context_prompt p = {0};
    int status = context_fit(&c->x, &p) ? answer_from(c, a, &p) : CLI_FAILED;
    free(p.ids);
    return status;
}

/* Prints the rest of the text at the end of an answer. */
static bool finish_answer(struct conversation *c, struct conversation_answer *a)
{
    char piece[TFT_TEXT_MAX];
    size_t n = tft_text_push(&a->state, c->x.m, -1, piece);
    return cli_text_append(context_answer(&c->x), piece, n) &&
           (c->tools.list ? reader_end(&c->reader, piece, n) : show(c, piece, n));
}

/* Generates the last message, an empty answer, to its end. */
static int answer_to_the_end(struct conversation *c)
{
    struct conversation_answer *a = &c->last;
    a->stop = NULL;
    int status = answer(c, a);
    if (status == CLI_OK && !finish_answer(c, a))
        status = cli_fail("standard output: %s", strerror(errno));
    a->text = *context_answer(&c->x);
    return status;
}

/* ---- a turn */

/* Sets the form of an answer after n calls. */
static int choose_form(struct conversation *c, uint32_t n)
{
    const struct conversation_tools *t = &c->tools;
    struct tft_chat_text gbnf;
    struct tft_error err;
    enum tft_chat_choice choice = n >= t->most ? TFT_CHAT_NO_CALL : n ? TFT_CHAT_AUTO : t->choice;
    if (c->calls == (int)choice)
        return CLI_OK;
    if (tft_chat_tools_grammar(&gbnf, t->list->declared, c->x.m, choice,
                               choice == TFT_CHAT_REQUIRED ? t->only : NULL, true, &err) != TFT_OK)
        return cli_fail("%s: %s", t->list->path, err.msg);
    int status = form_replace(&c->form, t->list->path, gbnf.p, gbnf.n);
    tft_chat_text_free(&gbnf);
    c->calls = status == CLI_OK ? (int)choice : -1;
    return status;
}

/* Replaces the text of the answer by its printed part: all but calls. */
static int keep_shown(struct conversation *c)
{
    struct cli_text *text = context_answer(&c->x);
    text->n = 0;
    bool kept = cli_text_append(text, c->shown.p, c->shown.n);
    c->last.text = *text;
    return kept ? CLI_OK : cli_fail("out of memory");
}

/* Gives the answer the call that was read. If the template writes calls itself, or the call was cut
   off, the answer gets only the other text. */
static int take_call(struct conversation *c)
{
    struct template_message *x = &c->x.said.p[c->x.said.n - 1];
    struct reader *r = &c->reader;
    if (r->cut && strcmp(c->last.stop, "interrupt") != 0)
        fputs("tuffet: the answer ends within a call, which is not made\n", stderr);
    if (r->called && !r->cut && strcmp(c->last.stop, "interrupt") != 0) {
        x->name = r->name;
        x->arguments = r->arguments;
        r->name = r->arguments = (struct cli_text){0};
    }
    return r->cut || (x->name.n && !c->tools.list->shown.n_ask) ? keep_shown(c) : CLI_OK;
}

/* Generates an answer that may call a tool. If it does, the last message has the call. */
static int answer_or_call(struct conversation *c, uint32_t n)
{
    c->reader = (struct reader){.m = c->x.m, .show = show, .user = c};
    c->shown.n = 0;
    int status = choose_form(c, n);
    c->reader.only = c->calls == TFT_CHAT_REQUIRED;
    if (status == CLI_OK)
        status = reader_open(&c->reader, c->tools.list->declared);
    if (status == CLI_OK)
        status = answer_to_the_end(c);
    if (status == CLI_OK)
        status = take_call(c);
    reader_close(&c->reader);
    return status;
}

/* Makes the call of the last message, and adds its result and an empty answer. */
static int make_call(struct conversation *c)
{
    struct messages *m = &c->x.said;
    struct cli_text result = {0};
    if (c->shown.n && c->end && !c->end())
        return cli_fail("standard output: %s", strerror(errno));
    int status = c->tools.call(c->tools.user, &m->p[m->n - 1], &result);
    bool added = status != CLI_OK || (messages_add_result(m, result.p, result.n) &&
                                      messages_add(m, TEMPLATE_ASSISTANT, NULL, 0));
    free(result.p);
    return added ? status : cli_fail("out of memory");
}

/* Generates the last message, an empty answer, and a further answer after each call of a tool. */
static int answer_turn(struct conversation *c)
{
    c->last = (struct conversation_answer){0};
    if (!c->tools.list)
        return answer_to_the_end(c);
    for (uint32_t n = 0;; n++) {
        int status = answer_or_call(c, n);
        if (status != CLI_OK || !c->x.said.p[c->x.said.n - 1].name.n)
            return status;
        status = make_call(c);
        c->last.text = (struct cli_text){0};
        if (status != CLI_OK)
            return status;
    }
}

/* Whether to remove the last turn: its answer stayed empty, and no call was made, or the answer to
   the calls failed. */
static bool is_void(const struct conversation *c, int status)
{
    bool calls = messages_last(&c->x.said) + 2 < c->x.said.n;
    return !c->last.text.n && (status != CLI_OK || !calls);
}

/* Adds a message of the user, after the text of files. */
static bool add_message(struct conversation *c, const char *p, size_t n)
{
    struct cli_text *t = &c->attached;
    bool added = cli_text_append(t, p, n) && messages_add(&c->x.said, TEMPLATE_USER, t->p, t->n);
    t->n = 0;
    return added;
}

int conversation_say(struct conversation *c, const char *p, size_t n)
{
    struct messages *m = &c->x.said;
    if (!add_message(c, p, n) || !messages_add(m, TEMPLATE_ASSISTANT, NULL, 0))
        return cli_fail("out of memory");
    int status = answer_turn(c);
    if (is_void(c, status))
        messages_drop(m, messages_last(m), m->n);
    return status;
}

/* ---- going back */

int conversation_retry(struct conversation *c)
{
    struct messages *m = &c->x.said, before = {0};
    if (messages_last(m) == m->n)
        return cli_fail("there is no answer to try again");
    if (!messages_cut(m, messages_last(m) + 1, &before) ||
        !messages_add(m, TEMPLATE_ASSISTANT, NULL, 0))
        return cli_fail("out of memory");
    int status = answer_turn(c);
    if (is_void(c, status)) {
        messages_drop(m, messages_last(m) + 1, m->n);
        messages_append(m, &before); /* there was room for them */
    }
    messages_free(&before);
    return status;
}

int conversation_undo(struct conversation *c)
{
    struct messages *m = &c->x.said;
    if (messages_last(m) == m->n)
        return cli_fail("there is no message to undo");
    messages_drop(m, messages_last(m), m->n);
    return context_rewind(&c->x);
}

int conversation_clear(struct conversation *c)
{
    messages_drop(&c->x.said, messages_first(&c->x.said), c->x.said.n);
    c->attached.n = 0;
    return context_rewind(&c->x);
}

/* ---- opening and closing */

int conversation_open(struct conversation *c, const char *system, const char *path)
{
    c->calls = -1;
    return form_open(&c->form, c->x.m) == CLI_OK ? context_open(&c->x, system, path) : CLI_FAILED;
}

void conversation_close(struct conversation *c)
{
    free(c->shown.p);
    free(c->attached.p);
    form_close(&c->form);
    context_close(&c->x);
}
