#define _POSIX_C_SOURCE 200809L
#include "calls.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define DIM "\x1b[2m"
#define PLAIN "\x1b[0m"

enum { SHOWN = 400 }; /* bytes of a result */

int calls_open(struct calls *c)
{
    c->always = calloc(c->tools->file.n, sizeof *c->always);
    return c->always ? CLI_OK : cli_fail("out of memory");
}

void calls_close(struct calls *c) { free(c->always); }

static void put_style(const char *style)
{
    if (terminal_styles(STDERR_FILENO))
        fputs(style, stderr);
}

/* The whole call is shown, since the user decides on it. */
static void show_call(const struct template_message *call)
{
    put_style(DIM);
    cli_put_escaped(stderr, call->name.p, call->name.n);
    fputc(' ', stderr);
    cli_put_escaped(stderr, call->arguments.p, call->arguments.n);
    put_style(PLAIN);
    fputc('\n', stderr);
}

static void show_result(const struct cli_text *out)
{
    bool cut = out->n > SHOWN;
    put_style(DIM);
    fputs("-> ", stderr);
    cli_put_escaped(stderr, out->p, cut ? SHOWN : out->n);
    fputs(cut ? "...\n" : "\n", stderr);
    put_style(PLAIN);
}

static bool is(const char *line, size_t n, const char *word)
{
    return strlen(word) == n && strncasecmp(line, word, n) == 0;
}

/* The whole line must be an answer: "also ..." is not "always". */
static bool is_allowed(struct calls *c, size_t tool)
{
    const char *line;
    size_t n;
    if (c->yes || c->always[tool])
        return true;
    if (!input_ask(c->in, "run it? [y/N/always] ", &line, &n))
        return false;
    c->always[tool] = is(line, n, "a") || is(line, n, "always");
    return c->always[tool] || is(line, n, "y") || is(line, n, "yes");
}

int calls_make(void *user, const struct template_message *call, struct cli_text *out)
{
    static const char declined[] = "[the user did not allow this call]";
    struct calls *c = user;
    size_t tool = tools_find(c->tools, call->name.p, call->name.n);
    show_call(call);
    bool made = is_allowed(c, tool) ? tools_run(c->tools, tool, &call->arguments, out)
                                    : cli_text_append(out, declined, sizeof declined - 1);
    if (!made)
        return cli_fail("out of memory");
    show_result(out);
    return CLI_OK;
}
