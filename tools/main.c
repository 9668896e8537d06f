/* The program tuffet: finds the command and runs it. tools/README.md describes the folders. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/system.h"
#include "tools/commands/commands.h"
#include "tools/commands/welcome.h"
#include "tools/pull/operand.h"

static const struct cli_command *const commands[] = {
    &command_demo,
    &command_run,
    &command_chat,
    &command_serve,
#if TUFFET_SERVE
    &command_batch,
#endif
#if TUFFET_JSON
    &command_embed,
    &command_rerank,
#endif
    &command_pull,
    &command_list,
    &command_rm,
    &command_quantize,
    &command_pack,
    &command_ppl,
#if TUFFET_JSON
    &command_eval,
    &command_import,
#endif
    &command_bench,
    &command_inspect,
    &command_tokenize,
    NULL,
};

static const struct cli_program program = {
    .summary = "run small language models on the machine in front of you",
    .notes =
        "MODEL is a GGUF file, hf:USER/REPO[:QUANT], which is fetched from Hugging Face once, or a "
        "llama2.c checkpoint with --tokenizer FILE. The same model, prompt and seed give the same "
        "text on every CPU, with any number of threads.\n"
        "\n"
        "tuffet run, chat and serve take the model of TUFFET_MODEL if the command line has none, "
        "and defaults of options from ~/.config/tuffet/config (or $XDG_CONFIG_HOME/tuffet/config): "
        "lines such as temp = 0.7, or ignore-eos = on, after a line [run], [chat] or [serve].\n"
        "\n"
        "tuffet COMMAND --help, or tuffet help COMMAND, prints the options that most people need; "
        "tuffet COMMAND --help all prints all; tuffet --help all prints the help of every "
        "command.\n"
        "tuffet help --completion SHELL prints a script with which bash, zsh or fish completes "
        "command lines.\n"
        "tuffet --version prints the version, the CPU kernels, the number of threads and the "
        "optional parts of the build.\n",
    .commands = commands,
};

static const struct cli_command *find_command(const char *name)
{
    for (const struct cli_command *const *c = commands; *c; c++)
        if (strcmp((*c)->name, name) == 0)
            return *c;
    return NULL;
}

/* argv: the arguments after "help --completion": a shell. */
static int completion(int argc, char **argv)
{
    const char *shell = argc ? argv[0] : "";
    if (argc > 1)
        return cli_usage("\"%s\" is one argument too many", argv[1]);
    if (!cli_print_completion(&program, shell))
        return cli_usage("--completion must be bash, zsh or fish, not \"%s\"", shell);
    return CLI_OK;
}

/* The help of the program, and that of every command with all its options. */
static void print_all_help(void)
{
    cli_print_program_help(stdout, &program);
    for (const struct cli_command *const *c = commands; *c; c++) {
        putchar('\n');
        cli_print_help(*c, "all");
    }
}

/* argv: "help" [COMMAND [all]], "help" all, "help" --man [COMMAND] or "help" --completion SHELL.
   The build of tuffet makes the manual pages and the scripts for shells with it. */
static int help(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--completion") == 0)
        return completion(argc - 2, argv + 2);
    bool man = argc > 1 && strcmp(argv[1], "--man") == 0;
    const char *name = argc > 1 + man ? argv[1 + man] : NULL;
    const struct cli_command *c = name ? find_command(name) : NULL;
    if (argc > 3)
        return cli_usage("\"%s\" is one argument too many", argv[3]);
    if (argc == 2 && !c && name && strcmp(name, "all") == 0) {
        print_all_help();
        return CLI_OK;
    }
    if (name && !c)
        return cli_usage("there is no command \"%s\"", name);
    if (c && !man)
        return cli_print_help(c, argc > 2 ? argv[2] : "");
    if (man)
        cli_print_man(&program, c);
    else
        cli_print_program_help(stdout, &program);
    return CLI_OK;
}

/* Kernels have rows of 64 KiB on the stack. Commands that were tried succeed with 160 KiB. */
enum { STACK_KIB = 256 };

static int run_command(const struct cli_command *c, int argc, char **argv)
{
    const char *operand;
    if (!system_has_stack((size_t)STACK_KIB << 10))
        return cli_fail("the limit of the stack is below %d KiB: raise it, by ulimit -s 8192",
                        STACK_KIB);
    int status = cli_parse(c, argc, argv, &operand);
    if (status == CLI_HELPED)
        return CLI_OK;
    if (status == CLI_OK && operand && strstr(c->operand, "MODEL") && !c->operands)
        status = pull_operand(&operand);
    return status == CLI_OK ? c->run(operand) : status;
}

static void print_version(void)
{
    static const char *const parts[] = {
        TUFFET_LIBEDIT ? " libedit" : "",
        TUFFET_JSON ? " json" : "",
        TUFFET_SERVE ? " server" : "",
        TUFFET_PULL ? " libcurl" : "",
        TUFFET_MPI ? " mpi" : "",
    };
    printf("tuffet %s (%s, %d threads)\nbuilt with", tft_version(), tft_cpu_name(),
           tft_cpu_threads());
    for (size_t i = 0; tft_feature(i); i++)
        printf(" %s", tft_feature(i));
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        fputs(parts[i], stdout);
    putchar('\n');
}

/* Commands that read JSON are missing in a build without the library for it. */
static int no_command(const char *name)
{
    static const char *const names[] = {"import", "eval", "embed", "rerank"};
    bool known = false;
    if (strcmp(name, "batch") == 0)
        return cli_fail("this build has no batch: it takes libevent, jansson and threads");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        known |= strcmp(name, names[i]) == 0;
    return known ? cli_fail("this build has no %s: it takes jansson (Debian: libjansson-dev)", name)
                 : cli_no_command(name);
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    const struct cli_command *c = find_command(name);
    if (c)
        return run_command(c, argc - 1, argv + 1);
    if (strcmp(name, "help") == 0)
        return help(argc - 1, argv + 1);
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return help(argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0) {
        print_version();
        return CLI_OK;
    }
    if (*name)
        return no_command(name);
    if (argc == 1 && system_is_terminal(STDIN_FILENO) && system_is_terminal(STDOUT_FILENO))
        return welcome();
    cli_print_program_help(stderr, &program);
    return CLI_USAGE;
}

/* Output may still be in a buffer: a full disk shows only when it is flushed. */
int main(int argc, char **argv)
{
    system_begin();
    cli_program_path = system_program_path(argc ? argv[0] : "");
    int status = run(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_OK)
        status = cli_fail("standard output: %s", strerror(errno));
    return status;
}
