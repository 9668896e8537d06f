#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tools/cli/cli.h"

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    {"run", "write on from a prompt", cmd_run},
    {"chat", "a conversation", cmd_chat},
    {"quantize", "floats to int8", cmd_quantize},
    {"ppl", "perplexity of a text", cmd_ppl},
#if TUFFET_EVAL
    {"eval", "zero-shot accuracy in a task", cmd_eval},
#endif
    {"bench", "speed, and how near it is to the machine's limits", cmd_bench},
    {"inspect", "what is in a file, and the outliers of what goes through it", cmd_inspect},
    {"tokenize", "text to tokens, and back", cmd_tokenize},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void help(FILE *f)
{
    fputs("tuffet runs small language models on the machine in front of you.\n\nUsage: tuffet "
          "COMMAND [OPTIONS] MODEL\n\n",
          f);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(f, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n"
          "MODEL is a GGUF file, or a llama2.c checkpoint with --tokenizer FILE.\n"
          "tuffet COMMAND --help tells more. tuffet --version tells the version and the CPU's "
          "kernels.\n",
          f);
}

static int run(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        help(stdout);
        return CLI_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("tuffet %s (%s, %d threads)\n", tft_version(), tft_cpu_name(), tft_cpu_threads());
        return CLI_OK;
    }
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    if (*name)
        return cli_usage("there is no command \"%s\"", name);
    help(stderr);
    return CLI_USAGE;
}

/* What was written is still in a buffer, and a full disk shows only when it is not. */
int main(int argc, char **argv)
{
    int status = run(argc, argv);
    if ((fflush(stdout) != 0 || ferror(stdout)) && status == CLI_OK)
        status = cli_fail("standard output: %s", strerror(errno));
    return status;
}
