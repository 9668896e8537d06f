#define _POSIX_C_SOURCE 200809L
#include "conversation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- an answer */

/* Adds text to the answer, and prints it. Leaves out the space that some formats put before an
   answer. Returns false with errno if the text could not be printed. */
static bool extend_answer(void *user, int32_t id, const char *p, size_t n)
{
    struct conversation *c = user;
    (void)id;
    struct cli_text *text = context_answer(&c->x);
    size_t lead = text->n ? 0 : template_lead(c->x.format, p, n);
    return cli_text_append(text, p + lead, n - lead) && (!c->print || c->print(p + lead, n - lead));
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
                          .most = c->n_tokens};
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
    if (cli_sync(c->x.s, p->ids, p->n) != TFT_OK)
        return cli_fail_session(c->x.s);
    a->prompt_seconds = (double)(cli_ns() - start) / 1e9;
    start = cli_ns();
    int status = generate(c, a);
    a->seconds += (double)(cli_ns() - start) / 1e9;
    return status;
}

/* Makes the prompt for a session that became full within an answer: drops the oldest turns first.
   *room: the answer can go on. If the answer stopped within a character, the model must see the
   bytes of it so far, which are not text yet, and the answer goes on with the rest of the
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

/* Generates the answer from the prompt. When the session becomes full before the end, drops the
   oldest turns and continues the answer with the others. */
static int answer_from(struct conversation *c, struct conversation_answer *a,
                       struct context_prompt *p)
{
    bool thinks = !c->x.o.no_think && template_thinks(c->x.format), room = true;
    a->in_thought = p->in_thought;
    a->state = (struct tft_text){.started = p->text_goes_on};
    if (form_begin(&c->form, p->ids, p->n, thinks) != CLI_OK)
        return CLI_FAILED;
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

/* Generates the last message, an empty answer, to its end. */
static int answer_to_the_end(struct conversation *c)
{
    char piece[TFT_TEXT_MAX];
    struct conversation_answer *a = &c->last;
    *a = (struct conversation_answer){0};
    int status = answer(c, a);
    if (status == CLI_OK && !extend_answer(c, -1, piece, tft_text_push(&a->state, c->x.m, -1, piece)))
        status = cli_fail("standard output: %s", strerror(errno));
    a->text = *context_answer(&c->x);
    return status;
}

int conversation_say(struct conversation *c, const char *p, size_t n)
{
    struct messages *m = &c->x.said;
    if (!messages_add(m, TEMPLATE_USER, p, n) || !messages_add(m, TEMPLATE_ASSISTANT, NULL, 0))
        return cli_fail("out of memory");
    int status = answer_to_the_end(c);
    if (!c->last.text.n)
        messages_drop(m, messages_last(m), m->n);
    return status;
}

/* ---- going back */

int conversation_retry(struct conversation *c)
{
    if (messages_last(&c->x.said) == c->x.said.n)
        return cli_fail("there is no answer to try again");
    struct cli_text before = *context_answer(&c->x);
    *context_answer(&c->x) = (struct cli_text){0};
    int status = answer_to_the_end(c);
    if (c->last.text.n)
        free(before.p);
    else {
        free(context_answer(&c->x)->p);
        *context_answer(&c->x) = before;
    }
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
    return context_rewind(&c->x);
}

/* ---- opening and closing */

int conversation_open(struct conversation *c, const char *system, const char *path)
{
    return form_open(&c->form, c->x.m) == CLI_OK ? context_open(&c->x, system, path) : CLI_FAILED;
}

void conversation_close(struct conversation *c)
{
    form_close(&c->form);
    context_close(&c->x);
}
