/* tuffet chat: a conversation. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/chat/conversation.h"
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

/* Ends the line of an answer; with --json, prints its object. */
static bool finish(const struct conversation_answer *a)
{
    if (!opt.json)
        return cli_put("\n", 1);
    printf("{\"role\":\"assistant\",\"content\":");
    cli_json_string(stdout, a->text.p, a->text.n);
    printf(",\"stop\":\"%s\",\"tokens\":%u,\"tok_s\":%.2f}\n", a->stop, a->n_tokens,
           a->seconds > 0 ? a->n_tokens / a->seconds : 0);
    return fflush(stdout) == 0;
}

/* Takes a message of the user, and answers it. */
static int turn(struct conversation *c, const char *p, size_t n)
{
    cli_catch_interrupts();
    int status = conversation_say(c, p, n);
    if (status == CLI_OK && !finish(&c->last))
        status = cli_fail("standard output: %s", strerror(errno));
    return status == CLI_OK && cli_interrupted() ? CLI_INTERRUPTED : status;
}

static int converse(struct conversation *c)
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

static int converse_with(struct tft_model *m, const char *path)
{
    struct conversation c = {
        .m = m,
        .format = template_choose(m, path),
        .sampler = cli_sampler(),
        .no_think = opt.no_think,
        .n_tokens = opt.n_tokens,
        .print = opt.json ? NULL : cli_put,
    };
    int status = c.format ? CLI_OK : CLI_FAILED;
    if (status == CLI_OK && opt.no_think && !template_thinks(c.format))
        status = cli_fail("--no-think: the chat template %s does not use enable_thinking",
                          template_name(c.format));
    if (status == CLI_OK)
        status = conversation_open(&c, opt.system, path);
    if (status == CLI_OK)
        status = opt.prompt ? turn(&c, opt.prompt, strlen(opt.prompt)) : converse(&c);
    conversation_close(&c);
    return status;
}

static int chat(const char *path)
{
    struct tft_model *m = NULL;
    if (template_check() != CLI_OK || form_check() != CLI_OK)
        return CLI_USAGE;
    if (conversation_named_prefix() && opt.system)
        return cli_usage("--prefix %s has a system message: leave out --system",
                         conversation_named_prefix());

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
            {"Form of each answer", form_option_list},
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
