#define _POSIX_C_SOURCE 200809L
#include "conversation.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- messages */

static bool add(struct conversation *c, enum template_role role, const char *p, size_t n)
{
    if (c->n == c->room) {
        size_t room = c->room ? c->room * 2 : 16;
        struct template_message *more = realloc(c->message, room * sizeof *more);
        if (!more)
            return false;
        c->message = more;
        c->room = room;
    }
    c->message[c->n++] = (struct template_message){.role = role};
    return cli_text_append(&c->message[c->n - 1].text, p, n);
}

/* Drops message `first` and the one after it. */
static void drop_two(struct conversation *c, size_t first)
{
    free(c->message[first].text.p);
    free(c->message[first + 1].text.p);
    c->n -= 2;
    memmove(&c->message[first], &c->message[first + 2], (c->n - first) * sizeof *c->message);
}

/* The index of the first message of the user. */
static size_t first_of_user(const struct conversation *c)
{
    return c->n && c->message[0].role == TEMPLATE_SYSTEM;
}

static struct cli_text *answer_text(struct conversation *c) { return &c->message[c->n - 1].text; }

/* ---- the prefix */

const char *conversation_named_prefix(void)
{
    const char *name = cli_session_options.prefix;
    return name && strcmp(name, "main") != 0 ? name : NULL;
}

/* The prefix for a conversation that begins with ids[n]: the one that --prefix names, if it
   includes some of the tokens. */
static const char *prefix_for(const struct conversation *c, const int32_t *ids, size_t n)
{
    const char *name = conversation_named_prefix();
    bool holds = name && tft_prefix_held(c->m, name, ids, n) > tft_prefix_held(c->m, NULL, ids, n);
    return cli_session_options.prefix && !name ? NULL
           : holds                             ? name
                                               : tft_prefix_best(c->m, ids, n);
}

static int open_session(struct conversation *c, const char *prefix)
{
    struct tft_session_opts so = {.prefix = prefix};
    tft_session_close(c->s);
    c->s = NULL;
    c->prefix = prefix;
    int status = cli_open_session(&c->s, c->m, &so);
    c->bytes = status == CLI_OK ? tft_session_bytes(c->m, &so, NULL) : 0;
    return status;
}

/* Makes the session begin with the best prefix for the tokens, and removes the tokens that the
   prefix includes. The session seldom has to change: only if a message merges with the last token
   of the format's markup, or if the conversation lost its first messages. */
static int skip_prefix(struct conversation *c, int32_t *ids, size_t *n)
{
    const char *name = prefix_for(c, ids, *n);
    size_t held = tft_prefix_held(c->m, name, ids, *n);
    bool same = name && c->prefix ? strcmp(name, c->prefix) == 0 : name == c->prefix;
    int status = same && c->s ? CLI_OK : open_session(c, name);
    *n -= held;
    memmove(ids, ids + held, *n * sizeof *ids);
    return status;
}

/* ---- an answer */

/* Whether the text ends in <think> and white space. */
static bool ends_in_thought(const struct tft_chat_text *t)
{
    static const char think[] = "<think>";
    size_t n = t->n;
    while (n && strchr(" \n", t->p[n - 1]))
        n--;
    return n >= sizeof think - 1 &&
           memcmp(t->p + n - (sizeof think - 1), think, sizeof think - 1) == 0;
}

/* The tokens behind the prefix, up to where the answer continues. The caller frees them. NULL after
   an error message. */
static int32_t *prompt(struct conversation *c, struct conversation_answer *a, size_t *n)
{
    bool text_goes_on;
    struct tft_chat_text text;
    if (!template_render(&text, c->format, c->m, c->message, c->n, c->no_think))
        return NULL;
    int32_t *ids = template_tokenize(&text, c->m, n, &text_goes_on);
    a->in_thought = ends_in_thought(&text);
    tft_chat_text_free(&text);
    a->state = (struct tft_text){.started = text_goes_on};
    if (ids && skip_prefix(c, ids, n) != CLI_OK) {
        free(ids);
        return NULL;
    }
    return ids;
}

/* The same for the system message and the last two messages alone. */
static int32_t *shortest_prompt(struct conversation *c, struct conversation_answer *a, size_t *n)
{
    struct template_message few[3], *all = c->message;
    size_t n_all = c->n, first = first_of_user(c);
    few[0] = all[0];
    few[first] = all[n_all - 2];
    few[first + 1] = all[n_all - 1];
    c->message = few;
    c->n = first + 2;
    int32_t *ids = prompt(c, a, n);
    c->message = all;
    c->n = n_all;
    return ids;
}

/* Drops the oldest message and its answer, then further pairs until a quarter of the context is
   free. Replaces *ids by the tokens of the messages that stay. Returns false if nothing could be
   dropped. */
static bool drop_oldest(struct conversation *c, struct conversation_answer *a, int32_t **ids,
                        size_t *n)
{
    size_t first = first_of_user(c), before = c->n;
    while (*ids && c->n >= first + 4 && (c->n == before || *n > tft_capacity(c->s) / 4 * 3)) {
        drop_two(c, first);
        free(*ids);
        *ids = prompt(c, a, n);
    }
    if (c->n < before) {
        bool in_line = answer_text(c)->n && isatty(STDERR_FILENO);
        fprintf(stderr, "%stuffet: the context is full: the oldest %zu messages are dropped\n",
                in_line ? "\n" : "", before - c->n);
    }
    return c->n < before;
}

/* Adds text to the answer, and prints it. Leaves out the space that some formats put before an
   answer. Returns false with errno if the text could not be printed. */
static bool extend_answer(void *user, const char *p, size_t n)
{
    struct conversation *c = user;
    struct cli_text *text = answer_text(c);
    size_t lead = text->n ? 0 : template_lead(c->format, p, n);
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
    int status = form_generate(&c->form, &c->sampler, c->s, &t);
    a->n_tokens = (uint32_t)t.n;
    a->stop = t.stop;
    return status;
}

/* Computes the tokens of the prompt, frees them, and generates. */
static int compute_and_generate(struct conversation *c, struct conversation_answer *a, int32_t *ids,
                                size_t n)
{
    uint64_t start = cli_ns();
    a->n_prompt = n;
    a->n_held = cli_held(c->s, ids, n);
    enum tft_status computed = cli_sync(c->s, ids, n);
    free(ids);
    if (computed != TFT_OK)
        return cli_fail_session(c->s);
    a->prompt_seconds = (double)(cli_ns() - start) / 1e9;
    start = cli_ns();
    int status = generate(c, a);
    a->seconds += (double)(cli_ns() - start) / 1e9;
    return status;
}

/* prompt() for a session that became full within an answer: drops the oldest messages first. *room:
   the answer can go on. If the answer stopped within a character, the model must see the bytes of
   it so far, which are not text yet, and the answer goes on with the rest of the character. */
static int32_t *prompt_again(struct conversation *c, struct conversation_answer *a, size_t *n,
                             bool *room)
{
    struct tft_text cut = a->state;
    *room = false;
    if (!cli_text_append(answer_text(c), (const char *)cut.bytes, cut.held)) {
        cli_fail("out of memory");
        return NULL;
    }
    int32_t *ids = prompt(c, a, n);
    if (ids)
        *room = drop_oldest(c, a, &ids, n) && *n < tft_capacity(c->s);
    answer_text(c)->n -= cut.held;
    cut.started = cut.started || a->state.started;
    a->state = cut;
    return ids;
}

/* Generates the answer. When the session becomes full before the end, drops the oldest messages and
   continues the answer with the others. */
static int answer(struct conversation *c, struct conversation_answer *a)
{
    size_t n;
    int32_t *ids = prompt(c, a, &n);
    if (ids && n >= tft_capacity(c->s)) { /* a message that can never fit must not make older ones
                                             be dropped */
        free(ids);
        ids = shortest_prompt(c, a, &n);
        if (ids && n < tft_capacity(c->s))
            drop_oldest(c, a, &ids, &n);
    }
    if (ids && n >= tft_capacity(c->s)) {
        free(ids);
        return cli_fail("the message makes a prompt of %zu tokens, but the context holds only %zu: "
                        "shorten the message",
                        n, tft_capacity(c->s));
    }
    bool thinks = !c->no_think && template_thinks(c->format);
    if (ids && form_begin(&c->form, ids, n, thinks) != CLI_OK) {
        free(ids);
        return CLI_FAILED;
    }
    if (ids && c->begin)
        c->begin(a->in_thought);
    while (ids) {
        int status = compute_and_generate(c, a, ids, n);
        if (status != CLI_OK || a->stop)
            return status;
        bool room;
        ids = prompt_again(c, a, &n, &room);
        if (ids && !room) {
            free(ids);
            a->stop = "context";
            return CLI_OK;
        }
    }
    return CLI_FAILED;
}

/* Generates the last message, an empty answer, to its end. */
static int answer_to_the_end(struct conversation *c)
{
    char piece[TFT_TEXT_MAX];
    struct conversation_answer *a = &c->last;
    *a = (struct conversation_answer){0};
    int status = answer(c, a);
    if (status == CLI_OK && !extend_answer(c, piece, tft_text_push(&a->state, c->m, -1, piece)))
        status = cli_fail("standard output: %s", strerror(errno));
    a->text = *answer_text(c);
    return status;
}

int conversation_say(struct conversation *c, const char *p, size_t n)
{
    if (!add(c, TEMPLATE_USER, p, n) || !add(c, TEMPLATE_ASSISTANT, NULL, 0))
        return cli_fail("out of memory");
    int status = answer_to_the_end(c);
    if (!c->last.text.n)
        drop_two(c, c->n - 2);
    return status;
}

/* ---- going back */

/* Rewinds the session to the tokens that it shares with the remaining messages. The next message
   would do that too, but until then the others would count as part of the context. */
static int rewind_session(struct conversation *c)
{
    size_t n = 0, first = first_of_user(c), same = 0;
    struct conversation_answer a = {0};
    int32_t *ids = NULL;
    if (c->n > first)
        ids = prompt(c, &a, &n);
    else if (first) {
        char *system = strndup(c->message[0].text.p, c->message[0].text.n);
        ids = system ? template_system_tokens(c->format, c->m, system, &n) : NULL;
        free(system);
        if (ids && skip_prefix(c, ids, &n) != CLI_OK)
            n = 0;
    }
    if (!c->s || (c->n && !ids)) {
        free(ids);
        return CLI_FAILED;
    }
    while (same < n && same < tft_pos(c->s) && tft_tokens(c->s)[same] == ids[same])
        same++;
    free(ids);
    return tft_rewind(c->s, same) == TFT_OK ? CLI_OK : cli_fail_session(c->s);
}

int conversation_retry(struct conversation *c)
{
    if (c->n < first_of_user(c) + 2)
        return cli_fail("there is no answer to try again");
    struct cli_text before = *answer_text(c);
    *answer_text(c) = (struct cli_text){0};
    int status = answer_to_the_end(c);
    if (c->last.text.n)
        free(before.p);
    else {
        free(answer_text(c)->p);
        *answer_text(c) = before;
    }
    return status;
}

int conversation_undo(struct conversation *c)
{
    if (c->n < first_of_user(c) + 2)
        return cli_fail("there is no message to undo");
    drop_two(c, c->n - 2);
    return rewind_session(c);
}

int conversation_clear(struct conversation *c)
{
    while (c->n > first_of_user(c))
        drop_two(c, c->n - 2);
    return rewind_session(c);
}

const struct cli_text *conversation_system(const struct conversation *c)
{
    return first_of_user(c) ? &c->message[0].text : NULL;
}

/* Adds a system message in front of all others. */
static bool add_system(struct conversation *c, const char *p, size_t n)
{
    if (!add(c, TEMPLATE_SYSTEM, p, n))
        return false;
    struct template_message system = c->message[c->n - 1];
    memmove(c->message + 1, c->message, (c->n - 1) * sizeof *c->message);
    c->message[0] = system;
    return true;
}

int conversation_set_system(struct conversation *c, const char *system)
{
    size_t n = strlen(system), n_ids;
    int32_t *ids = template_system_tokens(c->format, c->m, system, &n_ids);
    if (!ids)
        return CLI_FAILED;
    free(ids);
    struct cli_text text = {0};
    if (first_of_user(c) && cli_text_append(&text, system, n)) {
        free(c->message[0].text.p);
        c->message[0].text = text;
    } else if (first_of_user(c) || !add_system(c, system, n))
        return cli_fail("out of memory");
    return rewind_session(c);
}

/* ---- opening and closing */

int conversation_open(struct conversation *c, const char *system, const char *path)
{
    const char *name;
    struct tft_prefix_info wanted;
    int32_t *ids = NULL;
    size_t n = 0;
    if (form_open(&c->form, c->m) != CLI_OK)
        return CLI_FAILED;
    if (conversation_named_prefix() && !cli_find_prefix(c->m, conversation_named_prefix(), &wanted))
        return open_session(c, conversation_named_prefix()); /* its error lists the prefixes of the
                                                                file */
    if (conversation_named_prefix())
        system = wanted.system;
    if (conversation_named_prefix() && !system)
        return cli_fail("%s: the prefix %s has no system message to chat with", path, wanted.name);
    if (system) {
        ids = template_system_tokens(c->format, c->m, system, &n);
        if (!ids)
            return CLI_FAILED;
    }
    name = prefix_for(c, ids, n);
    free(ids);
    if (conversation_named_prefix() && (!name || strcmp(name, wanted.name) != 0))
        return cli_fail("%s: the prefix %s was made with another chat template or date: give the "
                        "--template and --date that it was made with",
                        path, wanted.name);
    if (system && !add(c, TEMPLATE_SYSTEM, system, strlen(system)))
        return cli_fail("out of memory");
    return open_session(c, name);
}

void conversation_close(struct conversation *c)
{
    for (size_t i = 0; i < c->n; i++)
        free(c->message[i].text.p);
    free(c->message);
    form_close(&c->form);
    tft_session_close(c->s);
}
