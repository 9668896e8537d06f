#define _POSIX_C_SOURCE 200809L
#include "context.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/system.h"
#include "tools/cli/verbose.h"

struct cli_text *context_answer(struct context *x) { return &x->said.p[x->said.n - 1].text; }

/* ---- the prefix */

const char *context_named_prefix(void)
{
    const char *name = cli_session_options.prefix;
    return name && strcmp(name, "main") != 0 ? name : NULL;
}

/* The prefix for a conversation that begins with ids[n]: the prefix of --prefix, if it includes
   some of the tokens. */
static const char *prefix_for(const struct context *x, const int32_t *ids, size_t n)
{
    const char *name = context_named_prefix();
    bool holds = name && tft_prefix_held(x->m, name, ids, n) > tft_prefix_held(x->m, NULL, ids, n);
    return cli_session_options.prefix && !name ? NULL
           : holds                             ? name
                                               : tft_prefix_best(x->m, ids, n);
}

static void close_sessions(struct context *x)
{
    tft_session_close(x->s);
    tft_session_close(x->draft);
    x->s = x->draft = NULL;
}

static int open_session(struct context *x, const char *prefix)
{
    struct tft_session_opts so = {.prefix = prefix,
                                  .lookup = cli_session_options.lookup,
                                  .count_ends = true};
    close_sessions(x);
    x->prefix = prefix;
    int status = cli_open_session(&x->s, x->m, &so);
    x->draft = so.draft;
    x->bytes = status == CLI_OK ? tft_session_bytes(x->m, &so, NULL) : 0;
    return status;
}

/* Makes the session begin with the best prefix for the tokens, and removes the tokens that the
   prefix includes. The session seldom has to change: only if a message merges with the last token
   of the format's markup, or if the conversation lost its first messages. */
static int skip_prefix(struct context *x, int32_t *ids, size_t *n)
{
    const char *name = prefix_for(x, ids, *n);
    size_t held = tft_prefix_held(x->m, name, ids, *n);
    bool same = name && x->prefix ? strcmp(name, x->prefix) == 0 : name == x->prefix;
    int status = same && x->s ? CLI_OK : open_session(x, name);
    *n -= held;
    memmove(ids, ids + held, *n * sizeof *ids);
    return status;
}

/* ---- the prompt */

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

/* The prompt of message[n]. */
static bool prompt_of(struct context *x, struct context_prompt *p,
                      const struct template_message *message, size_t n)
{
    struct tft_chat_text text;
    free(p->ids);
    *p = (struct context_prompt){0};
    if (!template_render(&text, x->format, x->m, message, n, &x->o))
        return false;
    p->ids = template_tokenize(&text, x->m, &p->n, &p->text_goes_on);
    p->in_thought = ends_in_thought(&text);
    tft_chat_text_free(&text);
    if (p->ids && skip_prefix(x, p->ids, &p->n) != CLI_OK) {
        free(p->ids);
        p->ids = NULL;
    }
    return p->ids;
}

bool context_prompt(struct context *x, struct context_prompt *p)
{
    return prompt_of(x, p, x->said.p, x->said.n);
}

/* The prompt of the system message and the last turn alone. */
static bool shortest_prompt(struct context *x, struct context_prompt *p)
{
    const struct messages *m = &x->said;
    size_t first = messages_first(m), last = messages_last(m), n = first + m->n - last;
    struct template_message *few = malloc(n * sizeof *few);
    if (!few)
        return cli_fail("out of memory") == CLI_OK;
    memcpy(few, m->p, first * sizeof *few);
    memcpy(few + first, m->p + last, (m->n - last) * sizeof *few);
    bool made = prompt_of(x, p, few, n);
    free(few);
    return made;
}

bool context_drop_oldest(struct context *x, struct context_prompt *p, bool in_line)
{
    struct messages *m = &x->said;
    size_t first = messages_first(m), before = m->n;
    while (p->ids && first < messages_last(m) &&
           (m->n == before || p->n > tft_capacity(x->s) / 4 * 3)) {
        messages_drop(m, first, messages_next(m, first));
        context_prompt(x, p);
    }
    if (m->n < before)
        fprintf(stderr, "%stuffet: the context is full: the oldest %zu messages are dropped\n",
                in_line && system_is_terminal(STDERR_FILENO) ? "\n" : "", before - m->n);
    return m->n < before;
}

bool context_fit(struct context *x, struct context_prompt *p)
{
    if (context_prompt(x, p) && p->n >= tft_capacity(x->s)) { /* a message that can never fit must
                                                                 not cause older messages to be
                                                                 dropped */
        if (shortest_prompt(x, p) && p->n < tft_capacity(x->s))
            context_drop_oldest(x, p, false);
    }
    if (!p->ids || p->n < tft_capacity(x->s))
        return p->ids;
    bool calls = messages_last(&x->said) + 2 < x->said.n;
    return cli_fail("the message %s a prompt of %zu tokens, but the context holds only %zu: %s",
                    calls ? "and its calls make" : "makes", p->n, tft_capacity(x->s),
                    calls ? "let the tools write less (\"bytes\")" : "shorten the message") ==
           CLI_OK;
}

/* ---- going back */

/* The tokens with which every conversation with the system message begins, after the prefix. */
static bool system_prompt(struct context *x, struct context_prompt *p)
{
    const struct cli_text *text = messages_system(&x->said);
    char *system = cli_copy(text->p, text->n);
    p->ids = system ? template_system_tokens(x->format, x->m, system, &x->o, &p->n) : NULL;
    free(system);
    return p->ids && skip_prefix(x, p->ids, &p->n) == CLI_OK;
}

int context_rewind(struct context *x)
{
    struct context_prompt p = {0};
    size_t same = 0, first = messages_first(&x->said);
    bool made = x->said.n > first ? context_prompt(x, &p) : !first || system_prompt(x, &p);
    made = made && x->s;
    while (made && same < p.n && same < tft_pos(x->s) && tft_tokens(x->s)[same] == p.ids[same])
        same++;
    if (made && same < p.n && same < tft_pos(x->s)) /* the next prompt will not see it */
        verbose_prompt(x->m, p.ids, p.n, x->s, same, true);
    free(p.ids);
    if (!made)
        return CLI_FAILED;
    return tft_rewind(x->s, same) == TFT_OK ? CLI_OK : cli_fail_session(x->s);
}

int context_set_system(struct context *x, const char *system)
{
    size_t n;
    int32_t *ids = template_system_tokens(x->format, x->m, system, &x->o, &n);
    if (!ids)
        return CLI_FAILED;
    free(ids);
    if (!messages_set_system(&x->said, system, strlen(system)))
        return cli_fail("out of memory");
    return context_rewind(x);
}

/* ---- opening and closing */

int context_open(struct context *x, const char *system, const char *path)
{
    const char *name;
    struct tft_prefix_info wanted;
    int32_t *ids = NULL;
    size_t n = 0;
    if (context_named_prefix() && !cli_find_prefix(x->m, context_named_prefix(), &wanted))
        return open_session(x, context_named_prefix()); /* its error lists the file's prefixes */
    if (context_named_prefix())
        system = wanted.system;
    if (context_named_prefix() && !system)
        return cli_fail("%s: the prefix %s has no system message to chat with", path, wanted.name);
    if (system) {
        ids = template_system_tokens(x->format, x->m, system, &x->o, &n);
        if (!ids)
            return CLI_FAILED;
    }
    name = prefix_for(x, ids, n);
    free(ids);
    if (context_named_prefix() && (!name || strcmp(name, wanted.name) != 0))
        return cli_fail("%s: the prefix %s was made with another chat template or date: give the "
                        "--template and --date that it was made with",
                        path, wanted.name);
    if (system && !messages_add(&x->said, TEMPLATE_SYSTEM, system, strlen(system)))
        return cli_fail("out of memory");
    return open_session(x, name);
}

int context_reopen(struct context *x)
{
    return x->said.n ? context_rewind(x) : open_session(x, prefix_for(x, NULL, 0));
}

void context_close(struct context *x)
{
    messages_free(&x->said);
    close_sessions(x);
}
