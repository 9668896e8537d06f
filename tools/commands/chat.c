/* tuffet chat: a conversation. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <string.h>

#include "tools/chat/conversation.h"
#include "tools/chat/display.h"
#include "tools/chat/input.h"
#include "tools/chat/slash.h"
#include "tools/commands/commands.h"

static struct {
    const char *prompt, *system;
    uint32_t n_tokens;
    bool no_think, no_history, json;
} opt;

static const struct cli_option options[] = {
    {'p', "prompt", CLI_TEXT, &opt.prompt, "TEXT", "send this message, print the answer and exit"},
    {0, "system", CLI_TEXT, &opt.system, "TEXT", "system message: how the model should behave"},
    {0, "no-think", CLI_FLAG, &opt.no_think, NULL,
     "answer without thinking first, if the template knows enable_thinking"},
    {'n', "tokens", CLI_COUNT, &opt.n_tokens, "N",
     "stop an answer after N tokens (default when the model ends it)"},
    {0, "no-history", CLI_FLAG, &opt.no_history, NULL,
     "do not read or write the file that keeps messages and commands"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object a line for each answer: role, content, stop, tokens, tok_s"},
    {0},
};

/* Ends the line of an answer. With --json, prints the answer's object. */
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

/* Answers a message of the user. p NULL: answers the last message again. */
static int turn(struct conversation *c, const char *p, size_t n)
{
    cli_catch_interrupts();
    int status = p ? conversation_say(c, p, n) : conversation_retry(c);
    bool written = opt.json || display_end();
    if (status == CLI_OK && !(written && finish(&c->last)))
        status = cli_fail("standard output: %s", strerror(errno));
    return status == CLI_OK && cli_interrupted() ? CLI_INTERRUPTED : status;
}

/* Runs a command, or answers a message. */
static int take(struct conversation *c, const struct input *in)
{
    const char *p = in->text.p;
    size_t n = in->text.n;
    enum slash found = n && !in->quoted ? slash(c, &p, &n) : SLASH_NONE;
    return found == SLASH_FAILED  ? CLI_FAILED
           : found == SLASH_DONE  ? CLI_OK
           : found == SLASH_AGAIN ? turn(c, NULL, 0)
           : n                    ? turn(c, p, n)
                                  : CLI_OK;
}

/* At a terminal, an error does not end the conversation: the user sees it, and the next message
   may work. Ctrl-C ends the conversation if the last thing typed was Ctrl-C too, and the line is
   empty. */
static int converse(struct conversation *c)
{
    struct input in;
    enum input_kind found = INPUT_MESSAGE;
    int status = CLI_OK;
    bool idle = false; /* the last thing typed was Ctrl-C, on an empty line */
    input_open(&in, !opt.no_history);
    if (in.terminal)
        fputs("/help lists what can be typed\n", stderr);
    while (status == CLI_OK && found != INPUT_END) {
        found = input_next(&in);
        bool again = idle;
        idle = found == INPUT_INTERRUPT && !in.text.n;
        if (found == INPUT_MESSAGE)
            status = take(c, &in);
        else if (found == INPUT_FAILED)
            status = CLI_FAILED;
        else if (idle && again)
            status = CLI_INTERRUPTED;
        else if (idle)
            fputs("Ctrl-C once more, or Ctrl-D, ends the conversation\n", stderr);
        if (in.terminal && found == INPUT_MESSAGE && !ferror(stdout))
            status = CLI_OK;
    }
    input_close(&in);
    return status;
}

static int converse_with(struct tft_model *m, const char *path)
{
    struct conversation c = {
        .x = {.m = m, .format = template_choose(m, path), .o.no_think = opt.no_think},
        .sampler = cli_sampler(),
        .n_tokens = opt.n_tokens,
        .begin = opt.json ? NULL : display_begin,
        .print = opt.json ? NULL : display_print,
    };
    int status = c.x.format ? CLI_OK : CLI_FAILED;
    if (status == CLI_OK && opt.no_think && !template_thinks(c.x.format))
        status = cli_fail("--no-think: the chat template %s does not use enable_thinking",
                          template_name(c.x.format));
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
    if (context_named_prefix() && opt.system)
        return cli_usage("--prefix %s has a system message: leave out --system",
                         context_named_prefix());

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
    .notes =
        "A line of input is a message. A line that ends in a backslash goes on in the next; the "
        "text between \"\"\" and \"\"\" is one message as it is, and so is a paste. Lines that "
        "begin with a slash are commands:\n"
        "\n"
        "  /help          list them\n"
        "  /system TEXT   give the model another system message; without TEXT, show it\n"
        "  /undo          forget the last message and its answer\n"
        "  /retry         answer the last message again, with other random numbers\n"
        "  /clear         forget all messages but the system message\n"
        "  /stats         show speed, context and memory\n"
        "  //...          send a message that begins with a slash\n"
        "\n"
        "Ctrl-C stops an answer, and keeps its text; at the prompt it drops the line, and "
        "twice without anything typed between, it ends the program, as Ctrl-D does. From a pipe, "
        "only answers go to standard output, and a command that fails ends the program.\n"
        "\n"
        "With libedit, lines can be edited, and what was typed is kept in "
        "$XDG_STATE_HOME/tuffet/history, or in ~/.local/state: 1000 messages, which only their "
        "user may read. Thoughts (<think>) are dim, unless NO_COLOR is set.\n"
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
