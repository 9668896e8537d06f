#define _POSIX_C_SOURCE 200809L
#include "slash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attached.h"
#include "other_model.h"
#include "saved.h"

/* arg: the text after the name, without the white space around it. what: for the list of /help;
   NULL: another name of a command in it. */
struct command {
    const char *name, *arg, *what;
    enum slash (*run)(struct conversation *c, const char *arg);
};

static enum slash done(int status) { return status == CLI_OK ? SLASH_DONE : SLASH_FAILED; }

static enum slash set_system(struct conversation *c, const char *arg)
{
    const struct cli_text *now = messages_system(&c->x.said);
    if (*arg)
        return done(context_set_system(&c->x, arg));
    if (now)
        cli_put_escaped(stderr, now->p, now->n);
    fputs(now ? "\n" : "there is no system message\n", stderr);
    return SLASH_DONE;
}

static enum slash undo(struct conversation *c, const char *arg)
{
    (void)arg;
    return done(conversation_undo(c));
}

static enum slash retry(struct conversation *c, const char *arg)
{
    (void)c;
    (void)arg;
    return SLASH_AGAIN;
}

static enum slash clear(struct conversation *c, const char *arg)
{
    (void)arg;
    return done(conversation_clear(c));
}

static enum slash save(struct conversation *c, const char *arg)
{
    return done(*arg ? saved_write(c, arg) : cli_fail("/save needs the name of a file"));
}

static enum slash load(struct conversation *c, const char *arg)
{
    return done(*arg ? saved_read(c, arg) : cli_fail("/load needs the name of a file"));
}

static enum slash attach(struct conversation *c, const char *arg)
{
    return done(*arg ? attached_read(c, arg) : cli_fail("/file needs the name of a file"));
}

static enum slash change_model(struct conversation *c, const char *arg)
{
    return done(*arg ? other_model(c, arg) : cli_fail("/model needs the name of a file"));
}

/* ---- /set */

/* Makes the sampler of the changed options. The random generator goes on, unless the seed is
   new. */
static int resample(struct conversation *c, bool seed)
{
    uint64_t state = c->sampler.seed;
    cli_close_sampling();
    int status = cli_open_sampling(c->x.m);
    c->sampler = cli_sampler();
    c->sampler.seed = seed ? c->sampler.seed : state;
    c->min_tokens = c->sampler.min_tokens;
    return status;
}

static enum slash set(struct conversation *c, const char *arg)
{
    size_t n = strcspn(arg, " \t");
    const struct cli_option *o = cli_find_in(cli_sampling_option_list, arg, n);
    const char *value = arg + n + strspn(arg + n, " \t");
    if (!*arg || !*value)
        return done(cli_fail("/set needs an option of sampling and its value: /set temp 0.2"));
    if (!o || o->type == CLI_TEXTS)
        return done(cli_fail("/set: there is no option \"%.*s\" to set: tuffet chat --help all "
                             "lists those of sampling",
                             (int)n, arg));
    return done(cli_set_option(o, value, "/set") == CLI_OK ? resample(c, o->type == CLI_SEED)
                                                           : CLI_FAILED);
}

/* ---- /stats */

static double rate(double n, double seconds) { return seconds > 0 ? n / seconds : 0; }

static void print_memory(const struct conversation *c)
{
    size_t n = tft_pos(c->x.s), token = tft_kv_bytes(c->x.m, cli_session_options.kv, NULL);
    fprintf(stderr, "context  %zu of %zu tokens\n", n, tft_capacity(c->x.s));
    fprintf(stderr, "cache    %zu bytes a token, %.1f MB\n", token, (double)(token * n) / 1e6);
    fprintf(stderr, "session  %.1f MB, however many tokens it holds\n", (double)c->x.bytes / 1e6);
}

/* Of files that fix ranges of 8 bits. */
static void print_ends(const struct conversation *c)
{
    double share = cli_session_ends(c->x.s), calibrated = tft_calibrated_ends(c->x.m);
    if (isnan(share))
        return;
    fprintf(stderr, "8 bits   %.3f %% of the inputs' numbers at the ends of their ranges",
            100 * share);
    fprintf(stderr, isnan(calibrated) ? "\n" : " (%.3f %% at calibration)\n", 100 * calibrated);
    if (cli_unlike_calibration(c->x.m, c->x.s))
        fprintf(stderr, "         %s\n", CLI_UNLIKE_CALIBRATION);
}

static enum slash stats(struct conversation *c, const char *arg)
{
    const struct conversation_answer *a = &c->last;
    size_t computed = a->n_prompt - a->n_held;
    (void)arg;
    if (a->stop) {
        fprintf(stderr, "prompt   %zu tokens, %zu reused; %zu in %.2f s, %.1f tokens/s\n",
                a->n_prompt, a->n_held, computed, a->prompt_seconds,
                rate((double)computed, a->prompt_seconds));
        fprintf(stderr, "answer   %u tokens in %.2f s, %.1f tokens/s\n", a->n_tokens, a->seconds,
                rate(a->n_tokens, a->seconds));
    }
    print_memory(c);
    print_ends(c);
    return SLASH_DONE;
}

/* ---- /tools */

static enum slash list_tools(struct conversation *c, const char *arg)
{
    const struct tools *t = c->tools.list;
    (void)arg;
    for (size_t i = 0; t && i < t->file.n; i++) {
        fprintf(stderr, "%s:", tft_chat_tools_name(t->declared, i));
        for (char **word = t->file.command[i].argv; *word; word++) {
            fputc(' ', stderr);
            cli_put_escaped(stderr, *word, strlen(*word));
        }
        fputc('\n', stderr);
    }
    if (!t)
        fputs("there are no tools: --tools FILE declares some\n", stderr);
    return SLASH_DONE;
}

static enum slash quit(struct conversation *c, const char *arg)
{
    (void)c;
    (void)arg;
    return SLASH_END;
}

/* ---- all commands */

static enum slash help(struct conversation *c, const char *arg);

static const struct command commands[] = {
    {"help", "", "list the commands", help},
    {"system", " TEXT", "give the model another system message; without TEXT, show it", set_system},
    {"undo", "", "forget the last message and its answer", undo},
    {"retry", "", "answer the last message again, with other random numbers", retry},
    {"clear", "", "forget all messages but the system message", clear},
    {"save", " FILE", "save the conversation, to go on with it another time", save},
    {"load", " FILE", "go on with a saved conversation instead of this one", load},
    {"file", " FILE", "put the text of a file before the next message", attach},
    {"model", " FILE", "go on with another model: it gets the messages", change_model},
    {"set", " NAME N", "set an option of sampling, such as temp", set},
    {"stats", "", "show speed, context, memory and the numbers that 8 bits clip", stats},
    {"tools", "", "list the tools that the model may call", list_tools},
    {"quit", "", "end the conversation, as /exit, /bye and Ctrl-D do", quit},
    {"exit", "", NULL, quit},
    {"bye", "", NULL, quit},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static enum slash help(struct conversation *c, const char *arg)
{
    (void)c;
    (void)arg;
    for (int i = 0; i < N_COMMANDS; i++)
        if (commands[i].what)
            fprintf(stderr, "/%s%-*s %s\n", commands[i].name, (int)(13 - strlen(commands[i].name)),
                    commands[i].arg, commands[i].what);
    fputs("//...          send a message that begins with a slash\n"
          "...\\           go on in the next line\n"
          "\"\"\"...\"\"\"      send the text between, of any number of lines, as it is\n",
          stderr);
    return SLASH_DONE;
}

static const struct command *find(const char *name, size_t n)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strlen(commands[i].name) == n && memcmp(commands[i].name, name, n) == 0)
            return &commands[i];
    return NULL;
}

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

/* Copies the text after a command's name. In a file's name, HOME replaces the ~ of ~/, as in a
   shell. */
static char *copy_arg(const struct command *command, const char *p, size_t n)
{
    const char *home = getenv("HOME");
    struct cli_text path = {0};
    if (strcmp(command->arg, " FILE") != 0 || n < 2 || memcmp(p, "~/", 2) != 0 || !home || !*home)
        return cli_copy(p, n);
    if (cli_text_append(&path, home, strlen(home)) && cli_text_append(&path, p + 1, n - 1) &&
        cli_text_append(&path, "", 1))
        return path.p;
    free(path.p);
    return NULL;
}

/* Runs the command with the text after its name. */
static enum slash run(struct conversation *c, const struct command *command, const char *p,
                      size_t n)
{
    for (; n && is_space(*p); p++)
        n--;
    while (n && is_space(p[n - 1]))
        n--;
    if (n && !*command->arg)
        return done(cli_fail("/%s takes no text after it", command->name));
    if (memchr(p, 0, n))
        return done(cli_fail("/%s: the text has a NUL", command->name));
    char *arg = copy_arg(command, p, n);
    enum slash result = arg ? command->run(c, arg) : done(cli_fail("out of memory"));
    free(arg);
    return result;
}

enum slash slash(struct conversation *c, const char **p, size_t *n)
{
    size_t name = 1;
    if (!*n || **p != '/')
        return SLASH_NONE;
    while (name < *n && !is_space((*p)[name]))
        name++;
    const struct command *command = find(*p + 1, name - 1);
    if (command)
        return run(c, command, *p + name, *n - name);
    if (memchr(*p, '\n', *n))
        return SLASH_NONE;
    if (*n > 1 && (*p)[1] == '/') {
        ++*p;
        --*n;
        return SLASH_NONE;
    }
    fputs("tuffet: there is no command ", stderr);
    cli_put_escaped(stderr, *p, name < 32 ? name : 32);
    fputs(": /help lists them, // sends a message that begins with a slash\n", stderr);
    return SLASH_FAILED;
}
