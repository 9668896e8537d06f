/*
 * tuffet chat: a conversation. Before each answer the whole of it is rendered, and the session
 * computes what it does not hold yet. Where the context ends, the oldest exchange is forgotten,
 * again and again, but never the system message.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/chat/template.h"

static struct {
    const char *prompt, *system, *format;
    uint32_t n;
    bool no_think, json;
} opt;

static const struct cli_option options[] = {
    {'p', "prompt", CLI_TEXT, &opt.prompt, "TEXT", "say only this, and end after the answer"},
    {0, "system", CLI_TEXT, &opt.system, "TEXT", "the system message: how the model is to be"},
    {0, "template", CLI_TEXT, &opt.format, "NAME",
     "chat format, if the model does not tell, or to overrule it"},
    {'n', "tokens", CLI_COUNT, &opt.n, "N",
     "at most N tokens an answer; until the model ends if not given"},
    {0, "no-think", CLI_FLAG, &opt.no_think, NULL, "qwen3: answer without thinking aloud first"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "a JSON object for each answer, one a line: role, content, stop, tokens, tok_s"},
    {0},
};

static const struct cli_command command = {
    "chat",
    "MODEL",
    "a conversation",
    (const struct cli_option *const[]){options, cli_sampling_option_list, cli_session_option_list,
                                       cli_thread_option_list, cli_model_option_list, NULL},
    "Every line is a message. Ctrl-C ends an answer, or the program when it waits for a message; "
    "Ctrl-D ends it too. From a pipe every\n"
    "line is a message as well, and only the answers are written. The formats are chatml, qwen3, "
    "llama2, llama3, zephyr, phi3, gemma\n"
    "and mistral. When the context is full the oldest messages are forgotten, except for the "
    "system message.\n\n"
    "  tuffet chat model.gguf\n"
    "  tuffet chat model.gguf --system \"You answer in verse.\" --temp 0.5\n"
    "  tuffet chat model.gguf -p \"What is a tuffet?\" -n 100 --json\n",
};

struct chat {
    const struct tft_model *m;
    struct tft_session *s;
    struct tft_sampler z;
    const struct template_format *format;
    struct template_message *message; /* the system message first, if there is one; then users' and
                                         answers in turn */
    size_t n, room;
    struct template_text text;
};

/* How an answer, which is the last message, comes about. */
struct answer {
    struct tft_text state;
    const char *stop; /* "end", "length", "context", "interrupt" */
    uint32_t n;
    double seconds;
};

/* ---- messages */

static bool add(struct chat *c, enum template_role role, const char *p, size_t n)
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
    return cli_text_add(&c->message[c->n - 1].text, p, n);
}

/* Two of them from `first` on. */
static void drop(struct chat *c, size_t first)
{
    free(c->message[first].text.p);
    free(c->message[first + 1].text.p);
    c->n -= 2;
    memmove(&c->message[first], &c->message[first + 2], (c->n - first) * sizeof *c->message);
}

static struct cli_text *answer_text(struct chat *c)
{
    return &c->message[c->n - 1].text;
}

/* ---- an answer */

/* The tokens up to where the answer goes on; NULL after an error line. */
static int32_t *prompt(struct chat *c, struct answer *a, size_t *n)
{
    bool text_goes_on;
    if (!template_render(&c->text, c->format, c->m, c->message, c->n, opt.no_think)) {
        cli_fail("out of memory");
        return NULL;
    }
    int32_t *ids = template_tokenize(&c->text, c->m, n, &text_goes_on);
    a->state = (struct tft_text){.started = text_goes_on};
    return ids;
}

/* Forgets the oldest exchange, and more of them until a quarter of the context is free; false if
   there is none. */
static bool forget(struct chat *c, struct answer *a, int32_t **ids, size_t *n)
{
    size_t first = c->message[0].role == TEMPLATE_SYSTEM, before = c->n;
    while (*ids && c->n >= first + 4 && (c->n == before || *n > tft_capacity(c->s) / 4 * 3)) {
        drop(c, first);
        free(*ids);
        *ids = prompt(c, a, n);
    }
    if (c->n < before) {
        bool in_line = answer_text(c)->n && isatty(STDERR_FILENO);
        fprintf(stderr,
                "%stuffet: the context is full: the oldest %zu of the messages are forgotten\n",
                in_line ? "\n" : "", before - c->n);
    }
    return c->n < before;
}

/* What comes first is the format's own space; it is not part of the answer. */
static bool write_on(struct chat *c, const char *p, size_t n)
{
    struct cli_text *text = answer_text(c);
    size_t lead = text->n ? 0 : template_lead(c->format, p, n);
    return cli_text_add(text, p + lead, n - lead) && (opt.json || cli_put(p + lead, n - lead));
}

/* Until the answer ends, or the session is full: a->stop is NULL then. False if it could not be
   written. */
static bool generate(struct chat *c, struct answer *a)
{
    char piece[TFT_TEXT_MAX];
    bool good = true, full = false;
    while (good && !full && !a->stop) {
        int32_t id = tft_sample(&c->z, c->s);
        if (cli_interrupted())
            a->stop = "interrupt";
        else if (tft_token_ends(c->m, id))
            a->stop = "end";
        else {
            good = write_on(c, piece, tft_text_push(&a->state, c->m, id, piece));
            if (++a->n == opt.n)
                a->stop = "length";
            else if (good) /* or else errno, which says why not, would be lost */
                full = tft_decode(c->s, id) != TFT_OK;
        }
    }
    return good;
}

/* Computes these tokens, which are freed, and generates. */
static int go_on(struct chat *c, struct answer *a, int32_t *ids, size_t n)
{
    enum tft_status status = cli_feed(c->s, ids, n);
    free(ids);
    if (status != TFT_OK)
        return cli_fail("%s", tft_status_text(status));
    uint64_t start = cli_ns();
    bool good = generate(c, a);
    a->seconds += (double)(cli_ns() - start) / 1e9;
    return good ? CLI_OK : cli_fail("standard output: %s", strerror(errno));
}

static int answer(struct chat *c, struct answer *a)
{
    size_t n;
    int32_t *ids = prompt(c, a, &n);
    if (ids && n >= tft_capacity(c->s))
        forget(c, a, &ids, &n);
    if (ids && n >= tft_capacity(c->s)) {
        free(ids);
        return cli_fail("the message makes a prompt of %zu tokens, and the context holds %zu", n,
                        tft_capacity(c->s));
    }
    int status = CLI_OK;
    while (ids && status == CLI_OK) {
        status = go_on(c, a, ids, n);
        if (status != CLI_OK || a->stop)
            return status;
        ids = prompt(c, a, &n);
        if (ids && (!forget(c, a, &ids, &n) || n >= tft_capacity(c->s))) {
            free(ids);
            a->stop = "context";
            return CLI_OK;
        }
    }
    return CLI_FAILED;
}

/* What ends an answer: bytes that are held back, and a new line; or the object. */
static bool finish(struct chat *c, struct answer *a)
{
    char piece[TFT_TEXT_MAX];
    bool good = write_on(c, piece, tft_text_push(&a->state, c->m, -1, piece));
    if (!opt.json)
        return good && cli_put("\n", 1);
    const struct cli_text *text = answer_text(c);
    printf("{\"role\":\"assistant\",\"content\":");
    cli_json_string(stdout, text->p, text->n);
    printf(",\"stop\":\"%s\",\"tokens\":%u,\"tok_s\":%.2f}\n", a->stop, a->n,
           a->seconds > 0 ? a->n / a->seconds : 0);
    return good && fflush(stdout) == 0;
}

/* A message and its answer. */
static int turn(struct chat *c, const char *p, size_t n)
{
    struct answer a = {0};
    cli_catch_interrupts();
    if (!add(c, TEMPLATE_USER, p, n) || !add(c, TEMPLATE_ASSISTANT, NULL, 0))
        return cli_fail("out of memory");
    int status = answer(c, &a);
    if (status == CLI_OK && !finish(c, &a))
        status = cli_fail("standard output: %s", strerror(errno));
    if (!answer_text(c)->n)
        drop(c, c->n - 2); /* as if it had not been asked */
    return status == CLI_OK && cli_interrupted() ? CLI_INTERRUPTED : status;
}

/* ---- the conversation */

static int converse(struct chat *c)
{
    bool terminal = isatty(STDIN_FILENO);
    char *line = NULL;
    size_t room = 0;
    ssize_t n;
    int status = CLI_OK;
    while (status == CLI_OK) {
        cli_release_interrupts(); /* a flag could be set just before the read begins, and nobody
                                     would look at it */
        if (terminal)
            fputs("> ", stderr);
        n = getline(&line, &room, stdin);
        if (n < 0)
            break;
        while (n && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            n--;
        if (n)
            status = turn(c, line, (size_t)n);
        if (terminal && !ferror(stdout))
            status = CLI_OK; /* what went wrong has been said */
    }
    int err = errno;
    free(line);
    if (terminal)
        fputc('\n', stderr);
    return status == CLI_OK && ferror(stdin) ? cli_fail("standard input: %s", strerror(err))
                                             : status;
}

static int choose_format(struct chat *c, const char *path)
{
    const char *jinja = tft_model_chat_template(c->m);
    c->format = opt.format ? template_named(opt.format) : jinja ? template_recognize(jinja) : NULL;
    if (!c->format)
        return cli_fail("%s: %s; name one with --template: %s", path,
                        jinja ? "its chat template is none that is known"
                              : "it has no chat template",
                        template_names());
    if (opt.no_think && !template_thinks(c->format))
        return cli_fail("--no-think: models of the format %s do not think aloud",
                        template_name(c->format));
    return CLI_OK;
}

static int chat(struct tft_model *m, struct tft_session *s, const char *path)
{
    struct chat c = {.m = m, .s = s, .z = cli_sampler()};
    int status = choose_format(&c, path);
    if (status == CLI_OK && opt.system && !add(&c, TEMPLATE_SYSTEM, opt.system, strlen(opt.system)))
        status = cli_fail("out of memory");
    if (status == CLI_OK)
        status = opt.prompt ? turn(&c, opt.prompt, strlen(opt.prompt)) : converse(&c);
    for (size_t i = 0; i < c.n; i++)
        free(c.message[i].text.p);
    free(c.message);
    template_free(&c.text);
    return status;
}

int cmd_chat(int argc, char **argv)
{
    const char *path;
    struct tft_model *m = NULL;
    struct tft_session *s = NULL;
    struct tft_session_opts so = {0};
    int status = cli_parse(&command, argc, argv, &path);
    if (status != CLI_OK)
        return status < 0 ? CLI_OK : status;
    if (opt.format && !template_named(opt.format))
        return cli_usage("--template is %s, not \"%s\"", template_names(), opt.format);

    status = cli_open_model(&m, path, false);
    if (status == CLI_OK)
        status = cli_open_session(&s, m, &so);
    if (status == CLI_OK)
        status = chat(m, s, path);
    tft_session_close(s);
    tft_model_close(m);
    return status;
}
