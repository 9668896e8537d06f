/* tuffet chat: a conversation. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tools/chat/calls.h"
#include "tools/chat/conversation.h"
#include "tools/chat/display.h"
#include "tools/chat/input.h"
#include "tools/chat/slash.h"
#include "tools/chat/terminal.h"
#include "tools/cli/power.h"
#include "tools/cli/system.h"
#include "tools/commands/commands.h"
#include "tools/pull/operand.h"

static struct {
    const char *prompt, *system;
    int32_t n_tokens, think;
    int stop_loops;
    bool no_think, no_history, json;
    const char *tools, *tool_choice;
    uint32_t tool_calls;
    bool yes;
} opt = {.n_tokens = -1, .think = -1, .stop_loops = 1, .tool_calls = 8};

static const struct cli_option options[] = {
    {'p', "prompt", CLI_TEXT, &opt.prompt, "TEXT", "send this message, print the answer and exit"},
    {0, "system", CLI_TEXT, &opt.system, "TEXT", "system message: how the model should behave"},
    {0, "no-think", CLI_FLAG, &opt.no_think, NULL,
     "answer without thinking first, if the template knows enable_thinking"},
    {0, "think", CLI_LIMIT, &opt.think, "N",
     "end thoughts after N tokens: write </think>, and let the answer follow; 0: as --no-think, if "
     "the template knows enable_thinking (default no limit)"},
    {0, "stop-loops", CLI_WORD, &opt.stop_loops, "off|on",
     "on: end an answer when the same 8 to 256 tokens come four times in a row"},
    {'n', "tokens", CLI_LIMIT, &opt.n_tokens, "N",
     "stop an answer after N tokens; 0: generate nothing (default when the model ends it)"},
    {0, "no-history", CLI_FLAG, &opt.no_history, NULL,
     "disable the file that keeps messages and commands"},
    {0, "json", CLI_FLAG, &opt.json, NULL,
     "print one JSON object a line for each answer: role, content, stop, tokens, prompt_tokens, "
     "cached_tokens: prompt tokens that the session had, tok_s"},
    {0},
};

static const struct cli_option tool_options[] = {
    {0, "tools", CLI_TEXT, &opt.tools, "FILE",
     "let the model call the tools that FILE declares; the program runs their commands"},
    {0, "yes", CLI_FLAG, &opt.yes, NULL, "run the commands of tools without asking"},
    {0, "tool-choice", CLI_TEXT, &opt.tool_choice, "NAME:auto|required",
     "let the model call a tool (auto), make it call one before it answers a message (required), "
     "or make it call the tool NAME (default auto)"},
    {0, "tool-calls", CLI_COUNT, &opt.tool_calls, "N", "make at most N calls for a message"},
    {0},
};

/* ---- an answer */

/* The calls of the last turn, and their results. */
static void print_calls(const struct messages *m)
{
    const char *before = ",\"calls\":[";
    for (size_t i = messages_last(m); i + 1 < m->n; i++)
        if (m->p[i].name.n && m->p[i].role == TEMPLATE_ASSISTANT) {
            printf("%s{\"name\":", before);
            cli_json_string(stdout, m->p[i].name.p, m->p[i].name.n);
            printf(",\"arguments\":%.*s,\"result\":", (int)m->p[i].arguments.n,
                   m->p[i].arguments.p);
            cli_json_string(stdout, m->p[i + 1].text.p, m->p[i + 1].text.n);
            putchar('}');
            before = ",";
        }
    fputs(*before == ',' && before[1] ? ",\"calls\":[]" : "]", stdout);
}

/* Ends the line of an answer. With --json, prints the answer's object. */
static bool finish(const struct conversation *c)
{
    const struct conversation_answer *a = &c->last;
    if (!opt.json && !cli_put("\n", 1))
        return false;
    if (strcmp(a->stop, "loop") == 0)
        fputs("tuffet: the answer ends here, since it repeats itself; --stop-loops off lets it go "
              "on\n",
              stderr);
    if (!opt.json)
        return true;
    printf("{\"role\":\"assistant\",\"content\":");
    cli_json_string(stdout, a->text.p, a->text.n);
    if (opt.tools)
        print_calls(&c->x.said);
    printf(",\"stop\":\"%s\",\"tokens\":%u,\"prompt_tokens\":%zu,\"cached_tokens\":%zu,"
           "\"tok_s\":%.2f}\n",
           a->stop, a->n_tokens, a->n_prompt, a->n_held,
           a->seconds > 0 ? a->n_tokens / a->seconds : 0);
    return fflush(stdout) == 0;
}

/* Ends the line of an answer that calls a tool. */
static bool end_line(void) { return display_end() && cli_put("\n", 1); }

/* Answers a message of the user. p NULL: answers the last message again. */
static int turn(struct conversation *c, const char *p, size_t n)
{
    cli_catch_interrupts();
    int status = p ? conversation_say(c, p, n) : conversation_retry(c);
    bool written = opt.json || display_end();
    if (status == CLI_OK && !(written && finish(c)))
        status = cli_fail("standard output: %s", strerror(errno));
    return status == CLI_OK && cli_interrupted() ? CLI_INTERRUPTED : status;
}

/* Runs a command, or answers a message. *over: the command ends the conversation. */
static int take(struct conversation *c, const struct input *in, bool *over)
{
    const char *p = in->text.p;
    size_t n = in->text.n;
    enum slash found = n && !in->quoted ? slash(c, &p, &n) : SLASH_NONE;
    *over = found == SLASH_END;
    return found == SLASH_FAILED  ? CLI_FAILED
           : found == SLASH_DONE  ? CLI_OK
           : *over                ? CLI_OK
           : found == SLASH_AGAIN ? turn(c, NULL, 0)
           : n                    ? turn(c, p, n)
                                  : CLI_OK;
}

/* At a terminal, an error does not end the conversation: the user sees it, and the next message
   may work. Ctrl-C ends the conversation if the last thing typed was Ctrl-C too, and the line is
   empty. */
static int converse(struct conversation *c, struct input *in)
{
    enum input_kind found = INPUT_MESSAGE;
    int status = CLI_OK;
    bool idle = false; /* the last thing typed was Ctrl-C, on an empty line */
    bool over = false;
    if (in->terminal)
        fputs("/help lists what can be typed, /quit or Ctrl-D ends the conversation\n", stderr);
    while (status == CLI_OK && found != INPUT_END && !over) {
        found = input_next(in);
        bool again = idle;
        idle = found == INPUT_INTERRUPT && !in->text.n;
        if (found == INPUT_MESSAGE)
            status = take(c, in, &over);
        else if (found == INPUT_FAILED)
            status = CLI_FAILED;
        else if (idle && again)
            status = CLI_INTERRUPTED;
        else if (idle)
            fputs("Ctrl-C once more, or Ctrl-D, ends the conversation\n", stderr);
        if (in->terminal && found == INPUT_MESSAGE && !ferror(stdout))
            status = CLI_OK;
    }
    return status;
}

/* ---- tools */

static int check_tools(void)
{
    if (!opt.tools)
        return opt.yes           ? cli_usage("--yes goes with --tools")
               : opt.tool_choice ? cli_usage("--tool-choice goes with --tools")
                                 : CLI_OK;
    if (form_option())
        return cli_usage("--tools and %s give different forms to an answer: use one",
                         form_option());
    if (context_named_prefix())
        return cli_usage("--prefix %s has a system message without tools: leave out --tools",
                         context_named_prefix());
    return opt.yes || (system_is_terminal(STDIN_FILENO) && system_is_terminal(STDERR_FILENO))
               ? CLI_OK
               : cli_usage("--tools asks before it runs a command, but there is no terminal to ask "
                           "at: give --yes to run the commands of %s without asking",
                           opt.tools);
}

/* Sets *t by --tool-choice. */
static int choose(struct conversation_tools *t, const struct tools *tools)
{
    const char *name = opt.tool_choice;
    if (!name || strcmp(name, "auto") == 0)
        return CLI_OK;
    t->choice = TFT_CHAT_REQUIRED;
    if (strcmp(name, "required") == 0)
        return CLI_OK;
    t->only = name;
    return tools_find(tools, name, strlen(name)) < tools->file.n
               ? CLI_OK
               : cli_fail("--tool-choice: %s declares no tool \"%s\"", opt.tools, name);
}

/* Reads the tools, and gives them to the conversation. */
static int add_tools(struct conversation *c, struct tools *t, struct calls *calls)
{
    if (tools_open(t, opt.tools, c->x.format) != CLI_OK || calls_open(calls) != CLI_OK)
        return CLI_FAILED;
    c->x.o.tools = &t->shown;
    c->tools = (struct conversation_tools){
        .list = t, .most = opt.tool_calls, .call = calls_make, .user = calls};
    return choose(&c->tools, t);
}

/* ---- the command */

/* /model may replace *m. */
static int converse_with(struct tft_model **of, const char *path)
{
    struct tft_model *m = *of;
    struct tools tools = {0};
    struct input in = {0};
    struct calls calls = {.tools = &tools, .yes = opt.yes, .in = &in};
    struct conversation c = {
        .x = {.m = m, .format = template_choose(m, path, opt.tools), .o.no_think = opt.no_think},
        .model = m,
        .find_model = pull_operand,
        .n_tokens = opt.n_tokens,
        .think_budget = opt.think,
        .stop_loops = opt.stop_loops,
        .begin = opt.json ? NULL : display_begin,
        .print = opt.json ? NULL : display_print,
        .end = opt.json ? NULL : end_line,
    };
    int status = c.x.format ? cli_open_sampling(m) : CLI_FAILED;
    c.sampler = cli_sampler();
    c.min_tokens = c.sampler.min_tokens;
    if (status == CLI_OK && !opt.think && template_thinks(c.x.format))
        c.x.o.no_think = true;
    if (status == CLI_OK && opt.no_think && !template_thinks(c.x.format))
        status = cli_fail("--no-think: the chat template %s does not use enable_thinking",
                          template_name(c.x.format));
    if (status == CLI_OK && opt.tools)
        status = add_tools(&c, &tools, &calls);
    if (status == CLI_OK)
        status = conversation_open(&c, opt.system, path);
    if (status == CLI_OK && !opt.json)
        terminal_write();
    if (status == CLI_OK && (!opt.prompt || (opt.tools && !opt.yes)))
        input_open(&in, !opt.no_history && !opt.prompt);
    if (status == CLI_OK)
        status = opt.prompt ? turn(&c, opt.prompt, strlen(opt.prompt)) : converse(&c, &in);
    input_close(&in);
    conversation_close(&c);
    *of = c.model;
    calls_close(&calls);
    tools_close(&tools);
    cli_close_sampling();
    return status;
}

static int chat(const char *path)
{
    struct tft_model *m = NULL;
    if (template_check() != CLI_OK || form_check() != CLI_OK || check_tools() != CLI_OK)
        return CLI_USAGE;
    if (context_named_prefix() && opt.system)
        return cli_usage("--prefix %s has a system message: leave out --system",
                         context_named_prefix());

    int status = power_begin();
    if (status == CLI_OK)
        status = template_open_file();
    if (status == CLI_OK)
        status = cli_open_model(&m, path, false);
    if (status == CLI_OK)
        status = cli_open_draft(m);
    if (status == CLI_OK)
        status = cli_open_loras(m);
    if (status == CLI_OK)
        status = converse_with(&m, path);
    cli_close_draft();
    cli_close_loras();
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
            {NULL, template_file_option_list},
            {"Form of each answer", form_option_list},
            {"Tools", tool_options},
            {"Sampling", cli_sampling_option_list},
            {"Context", cli_session_option_list},
            {NULL, cli_prefix_option_list},
            {NULL, cli_lookup_option_list},
            {NULL, cli_lora_option_list},
            {"Model and machine", cli_tokenizer_option_list},
            {NULL, cli_model_option_list},
            {NULL, cli_thread_option_list},
            {NULL, power_option_list},
            {NULL, cli_verbose_option_list},
            {0},
        },
    .first = (const char *const[]){"system", "tools", "no-think", "temp", "ctx", "device", NULL},
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
        "  /model FILE    go on with another model, which gets the conversation\n"
        "  /save FILE     save the conversation, to go on with it another time\n"
        "  /load FILE     go on with a saved conversation instead of this one\n"
        "  /file FILE     put the text of a file before the next message\n"
        "  /set NAME N    set an option of sampling, such as temp\n"
        "  /stats         show speed, context, memory and the numbers that 8 bits clip\n"
        "  /tools         list the tools that the model may call\n"
        "  /quit          end the conversation, as /exit, /bye and Ctrl-D do\n"
        "  //...          send a message that begins with a slash\n"
        "\n"
        "Ctrl-C stops an answer, and keeps its text; at the prompt it drops the line, and "
        "twice without anything typed between, it ends the program, as Ctrl-D does. From a pipe, "
        "only answers go to standard output, and a command that fails ends the program.\n"
        "\n"
        "With libedit, lines can be edited, and messages are kept in "
        "$XDG_STATE_HOME/tuffet/history, or in ~/.local/state: 1000 messages, which only their "
        "user may read. Thoughts (<think>) are dim, unless NO_COLOR is set.\n"
        "\n"
        "FILE of --tools is a JSON list of OpenAI's declarations of functions, each with a member "
        "\"command\", a list of words. The program shows a call that the model makes, asks, and "
        "runs the command, which gets the arguments as JSON on its standard input and writes the "
        "result to its standard output. \"always\" allows all calls of the tool. Ctrl-C ends the "
        "command.\n"
        "\n"
        "When the context is full, the oldest messages are dropped, but not the system "
        "message.\n"
        "\n"
        "A system message for which MODEL has a prefix, as tuffet quantize makes them, is not "
        "computed. --prefix NAME takes the message from MODEL.\n",
    .examples = "tuffet chat model.gguf\n"
                "tuffet chat model.gguf --system \"You answer in verse.\" --temp 0.5\n"
                "tuffet chat model.gguf --tools examples/tools/tools.json\n"
                "tuffet chat model.gguf -p \"What is a tuffet?\" -n 100 --json\n",
    .run = chat,
    .has_config = true,
};
