/*
 * tuffet chat: a conversation. Before each answer, the whole conversation is turned into tokens
 * again, and the session computes only what it does not hold yet. When the context is full, the
 * oldest messages are dropped, two at a time, but never the system message.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/chat/template.h"
#include "tools/commands/commands.h"

static struct {
    const char *prompt, *system;
    uint32_t n_tokens;
    bool no_think, json;
} opt;

static const struct cli_option options[] = {
    {'p', "prompt", CLI_TEXT, &opt.prompt, "TEXT", "send this message, print the answer and exit"},
    {0, "system", CLI_TEXT, &opt.system, "TEXT", "system message: how the model should behave"},
    {0, "no-think", CLI_FLAG, &opt.no_think, NULL,
     "answer without thinking first, if the template knows enable_thinking"},
    {'n', "tokens", CLI_COUNT, &opt.n_tokens, "N",
     "stop an answer after N tokens (default when the model ends it)"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object a line for each answer: role, content, stop, tokens, tok_s"},
    {0},
};

struct chat {
    const struct tft_model *m;
    struct tft_session *s;
    const char *prefix; /* of the session; NULL: the model's own */
    struct tft_sampler sampler;
    const struct template_format *format;
    struct template_message *message; /* [n] the system message, if there is one; then the user's
                                         messages and the answers in turn */
    size_t n, room;
};

/* The answer that is being generated. Its text is the last message. */
struct answer {
    struct tft_text state;
    const char *stop; /* "end", "length", "context", "interrupt" */
    uint32_t n_tokens;
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
    return cli_text_append(&c->message[c->n - 1].text, p, n);
}

/* Drops message `first` and the one after it. */
static void drop_two(struct chat *c, size_t first)
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

/* ---- the prefix */

/* What --prefix names, but for the model's own prefix; or NULL. */
static const char *named_prefix(void)
{
    const char *name = cli_session_options.prefix;
    return name && strcmp(name, "main") != 0 ? name : NULL;
}

/* The prefix for a conversation that begins with ids[n]: that of --prefix if it holds some of
   them. */
static const char *prefix_for(const struct chat *c, const int32_t *ids, size_t n)
{
    const char *name = named_prefix();
    bool holds = name && tft_prefix_held(c->m, name, ids, n) > tft_prefix_held(c->m, NULL, ids, n);
    return cli_session_options.prefix && !name ? NULL
           : holds                             ? name
                                               : tft_prefix_best(c->m, ids, n);
}

static int open_session(struct chat *c, const char *prefix)
{
    struct tft_session_opts so = {.prefix = prefix};
    tft_session_close(c->s);
    c->s = NULL;
    c->prefix = prefix;
    return cli_open_session(&c->s, c->m, &so);
}

/* Makes the session begin with the prefix that is best for the tokens, and removes those that it
   holds. Nearly always the session does already: a message with which the last token of the
   format's markup merges asks for another one, as may a conversation that lost its first
   messages. */
static int skip_prefix(struct chat *c, int32_t *ids, size_t *n)
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

/* The tokens of the conversation behind the prefix, up to where the answer continues, which the
   caller frees; NULL after an error message. */
static int32_t *prompt(struct chat *c, struct answer *a, size_t *n)
{
    bool text_goes_on;
    struct tft_chat_text text;
    if (!template_render(&text, c->format, c->m, c->message, c->n, opt.no_think))
        return NULL;
    int32_t *ids = template_tokenize(&text, c->m, n, &text_goes_on);
    tft_chat_text_free(&text);
    a->state = (struct tft_text){.started = text_goes_on};
    if (ids && skip_prefix(c, ids, n) != CLI_OK) {
        free(ids);
        return NULL;
    }
    return ids;
}

/* Drops the oldest message and its answer, and further pairs until a quarter of the context is
   free. Replaces *ids by the tokens of what is left. Returns false if nothing could be dropped. */
static bool drop_oldest(struct chat *c, struct answer *a, int32_t **ids, size_t *n)
{
    size_t first = c->message[0].role == TEMPLATE_SYSTEM, before = c->n;
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

/* Adds text to the answer, and prints it. The space that some formats have before an answer is not
   part of it. Returns false with errno if the text could not be printed. */
static bool extend_answer(struct chat *c, const char *p, size_t n)
{
    struct cli_text *text = answer_text(c);
    size_t lead = text->n ? 0 : template_lead(c->format, p, n);
    return cli_text_append(text, p + lead, n - lead) && (opt.json || cli_put(p + lead, n - lead));
}

/* Generates until the answer ends, or until the session is full: a->stop stays NULL then. Returns
   CLI_OK, or CLI_FAILED after an error message. */
static int generate(struct chat *c, struct answer *a)
{
    char piece[TFT_TEXT_MAX];
    enum tft_status status = TFT_OK;
    bool written = true;
    while (written && status == TFT_OK && !a->stop) {
        int32_t id = tft_sample(&c->sampler, c->s);
        if (cli_interrupted())
            a->stop = "interrupt";
        else if (tft_token_ends(c->m, id))
            a->stop = "end";
        else {
            written = extend_answer(c, piece, tft_text_push(&a->state, c->m, id, piece));
            if (++a->n_tokens == opt.n_tokens)
                a->stop = "length";
            else if (written) /* a failed write leaves its reason in errno: call nothing more */
                status = tft_decode(c->s, id);
        }
    }
    if (!written)
        return cli_fail("standard output: %s", strerror(errno));
    if (status == TFT_OK || status == TFT_ERR_FULL)
        return CLI_OK;
    if (!opt.json && isatty(STDERR_FILENO))
        putchar('\n'); /* the answer is on this line */
    return cli_fail_session(c->s);
}

/* Computes the tokens, frees them, and generates. */
static int compute_and_generate(struct chat *c, struct answer *a, int32_t *ids, size_t n)
{
    enum tft_status computed = cli_sync(c->s, ids, n);
    free(ids);
    if (computed != TFT_OK)
        return cli_fail_session(c->s);
    uint64_t start = cli_ns();
    int status = generate(c, a);
    a->seconds += (double)(cli_ns() - start) / 1e9;
    return status;
}

/* Generates the answer. When the session becomes full before the end, drops the oldest messages and
   continues the answer with the others. */
static int answer(struct chat *c, struct answer *a)
{
    size_t n;
    int32_t *ids = prompt(c, a, &n);
    if (ids && n >= tft_capacity(c->s))
        drop_oldest(c, a, &ids, &n);
    if (ids && n >= tft_capacity(c->s)) {
        free(ids);
        return cli_fail("the message makes a prompt of %zu tokens, but the context holds only %zu: "
                        "shorten the message",
                        n, tft_capacity(c->s));
    }
    while (ids) {
        int status = compute_and_generate(c, a, ids, n);
        if (status != CLI_OK || a->stop)
            return status;
        ids = prompt(c, a, &n);
        if (ids && (!drop_oldest(c, a, &ids, &n) || n >= tft_capacity(c->s))) {
            free(ids);
            a->stop = "context";
            return CLI_OK;
        }
    }
    return CLI_FAILED;
}

/* Prints the bytes that the text state still holds, and a newline; with --json, the object. */
static bool finish(struct chat *c, struct answer *a)
{
    char piece[TFT_TEXT_MAX];
    bool written = extend_answer(c, piece, tft_text_push(&a->state, c->m, -1, piece));
    if (!opt.json)
        return written && cli_put("\n", 1);
    const struct cli_text *text = answer_text(c);
    printf("{\"role\":\"assistant\",\"content\":");
    cli_json_string(stdout, text->p, text->n);
    printf(",\"stop\":\"%s\",\"tokens\":%u,\"tok_s\":%.2f}\n", a->stop, a->n_tokens,
           a->seconds > 0 ? a->n_tokens / a->seconds : 0);
    return written && fflush(stdout) == 0;
}

/* Takes a message of the user, and answers it. */
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
        drop_two(c, c->n - 2); /* as if the message had not been sent */
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
        /* Ctrl-C ends the program while it waits: a flag set just before getline would be seen only
           after it. */
        cli_release_interrupts();
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
            status = CLI_OK; /* the error is on the screen; the next message may work */
    }
    int err = errno;
    free(line);
    if (terminal)
        fputc('\n', stderr);
    return status == CLI_OK && ferror(stdin) ? cli_fail("standard input: %s", strerror(err))
                                             : status;
}

/* Takes the system message from --system, or from the prefix that --prefix names, and opens the
   session. */
static int begin(struct chat *c, const char *path)
{
    const char *system = opt.system, *name;
    struct tft_prefix_info wanted;
    int32_t *ids = NULL;
    size_t n = 0;
    if (named_prefix() && !cli_find_prefix(c->m, named_prefix(), &wanted))
        return open_session(c, named_prefix()); /* which says what there is */
    if (named_prefix())
        system = wanted.system;
    if (named_prefix() && !system)
        return cli_fail("%s: the prefix %s has no system message to chat with", path, wanted.name);
    if (system) {
        ids = template_system_tokens(c->format, c->m, system, &n);
        if (!ids)
            return CLI_FAILED;
    }
    name = prefix_for(c, ids, n);
    free(ids);
    if (named_prefix() && (!name || strcmp(name, wanted.name) != 0))
        return cli_fail("%s: the prefix %s was made with another chat template or date: give the "
                        "--template and --date that it was made with",
                        path, wanted.name);
    if (system && !add(c, TEMPLATE_SYSTEM, system, strlen(system)))
        return cli_fail("out of memory");
    return open_session(c, name);
}

static int converse_with(struct tft_model *m, const char *path)
{
    struct chat c = {.m = m, .sampler = cli_sampler()};
    c.format = template_choose(m, path);
    int status = c.format ? CLI_OK : CLI_FAILED;
    if (status == CLI_OK && opt.no_think && !template_thinks(c.format))
        status = cli_fail("--no-think: the chat template %s does not use enable_thinking",
                          template_name(c.format));
    if (status == CLI_OK)
        status = begin(&c, path);
    if (status == CLI_OK)
        status = opt.prompt ? turn(&c, opt.prompt, strlen(opt.prompt)) : converse(&c);
    for (size_t i = 0; i < c.n; i++)
        free(c.message[i].text.p);
    free(c.message);
    tft_session_close(c.s);
    return status;
}

static int chat(const char *path)
{
    struct tft_model *m = NULL;
    if (template_check() != CLI_OK)
        return CLI_USAGE;
    if (named_prefix() && opt.system)
        return cli_usage("--prefix %s has a system message: leave out --system", named_prefix());

    int status = cli_open_model(&m, path, false);
    if (status == CLI_OK)
        status = converse_with(m, path);
    tft_model_close(m);
    return status;
}

const struct cli_command command_chat = {
    .name = "chat",
    .operand = "MODEL",
    .summary = "chat with a model",
    .groups =
        (const struct cli_option_group[]){
            {"Conversation and output", options},
            {NULL, template_option_list},
            {"Sampling", cli_sampling_option_list},
            {"Context", cli_session_option_list},
            {NULL, cli_prefix_option_list},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {NULL, cli_thread_option_list},
            {0},
        },
    .notes = "Every line of input is one message. Ctrl-C stops an answer; at the prompt, Ctrl-C or "
             "Ctrl-D ends the program. If the input is a pipe, only the answers are printed.\n"
             "\n"
             "When the context is full, the oldest messages are dropped, but not the system "
             "message.\n"
             "\n"
             "A system message for which MODEL has a prefix, as tuffet quantize makes them, is not "
             "computed. --prefix NAME takes the message from MODEL.\n",
    .examples = "tuffet chat model.gguf\n"
                "tuffet chat model.gguf --system \"You answer in verse.\" --temp 0.5\n"
                "tuffet chat model.gguf -p \"What is a tuffet?\" -n 100 --json\n",
    .run = chat,
};
