/* Completion for bash, zsh and fish: scripts that a shell reads, made from the tables of options
   like the help and the manual pages. */
#include "cli.h"

#include <string.h>

enum kind { NOTHING, WORDS, FILES, FOLDERS };

static const char *words_of(const struct cli_option *o)
{
    const char *names = o->arg ? strchr(o->arg, ':') : NULL;
    return names ? names + 1 : o->type == CLI_WORD ? o->arg : "";
}

static enum kind kind_of(const char *arg)
{
    return strstr(arg, "FOLDER")                                  ? FOLDERS
           : strstr(arg, "MODEL") || strncmp(arg, "FILE", 4) == 0 ? FILES
                                                                  : NOTHING;
}

static enum kind kind_of_option(const struct cli_option *o)
{
    return *words_of(o) ? WORDS : kind_of(o->arg);
}

/* Prints the words of "a|b" or "a, b" with spaces between them. */
static void put_words(const char *words)
{
    for (size_t n; *words; words += n) {
        n = strcspn(words, "|, ");
        fwrite(words, 1, n, stdout);
        words += n;
        n = strspn(words, "|, ");
        if (words[n])
            putchar(' ');
    }
}

/* The part of a help text that fits beside an option: up to a list, a remark or a default. */
static size_t brief(const char *help)
{
    size_t n = strcspn(help, ";:(");
    while (n && help[n - 1] == ' ')
        n--;
    return n;
}

/* Prints text for single quotes. before: characters that get a backslash; quote: replaces a single
   quote. */
static void put_quoted(const char *text, size_t n, const char *before, const char *quote)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\'') {
            fputs(quote, stdout);
        } else {
            if (strchr(before, text[i]))
                putchar('\\');
            putchar(text[i]);
        }
}

/* Calls each(c, o) for the options of a command. */
static void each_option(const struct cli_command *c,
                        void (*each)(const struct cli_command *, const struct cli_option *))
{
    for (const struct cli_option_group *g = c->groups; g->list; g++)
        for (const struct cli_option *o = g->list; o->help; o++)
            each(c, o);
}

static void put_commands(const struct cli_program *p)
{
    for (const struct cli_command *const *c = p->commands; *c; c++)
        printf("%s ", (*c)->name);
}

/* ----------------------------------------------------------------------------------------- bash */

/* A branch of "case" for an option with a value. */
static void bash_value(const struct cli_command *c, const struct cli_option *o)
{
    if (o->type == CLI_FLAG)
        return;
    fputs("    ", stdout);
    if (o->letter)
        printf("%s:-%c | ", c->name, o->letter);
    printf("%s:--%s) ", c->name, o->name);
    switch (kind_of_option(o)) {
    case NOTHING: fputs("_tuffet_words", stdout); break;
    case WORDS:
        fputs("_tuffet_words ", stdout);
        put_words(words_of(o));
        break;
    case FILES: fputs("_tuffet_files", stdout); break;
    case FOLDERS: fputs("_tuffet_folders", stdout); break;
    }
    puts("; return ;;");
}

static void bash_name(const struct cli_command *c, const struct cli_option *o)
{
    (void)c;
    if (o->letter)
        printf("-%c ", o->letter);
    printf("--%s ", o->name);
}

static const char *bash_operand(enum kind kind)
{
    return kind == FOLDERS ? "_tuffet_folders" : kind == FILES ? "_tuffet_files" : "_tuffet_words";
}

/* If COMPREPLY stays empty, readline completes file names itself (complete -o default). */
static void print_bash(const struct cli_program *p)
{
    puts("# Completion of tuffet's command line for bash. Made by: tuffet help --completion bash\n"
         "_tuffet_words() {\n"
         "    compopt +o default\n"
         "    COMPREPLY=($(compgen -W \"$*\" -- \"$current\"))\n"
         "}\n"
         "_tuffet_files() { :; }\n"
         "_tuffet_folders() { compopt +o default -o dirnames; }\n"
         "_tuffet() {\n"
         "    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    local command=${COMP_WORDS[1]}\n"
         "    COMPREPLY=()\n"
         "    # \"--name=value\" is three words\n"
         "    if [[ $current == = ]]; then\n"
         "        current=\n"
         "    elif [[ $before == = ]]; then\n"
         "        before=${COMP_WORDS[COMP_CWORD-2]}\n"
         "    fi");
    fputs("    if [[ $COMP_CWORD == 1 ]]; then\n        _tuffet_words ", stdout);
    put_commands(p);
    puts("help --help --version\n        return\n    fi\n    case $command:$before in");
    for (const struct cli_command *const *c = p->commands; *c; c++)
        each_option(*c, bash_value);
    fputs("    help:--completion) _tuffet_words bash zsh fish; return ;;\n"
          "    help:*) _tuffet_words --man --completion ",
          stdout);
    put_commands(p);
    puts("; return ;;\n"
         "    [a-z]*:-h | [a-z]*:--help) _tuffet_words all; return ;;\n"
         "    esac\n    case $command:$current in");
    for (const struct cli_command *const *c = p->commands; *c; c++) {
        printf("    %s:-*) _tuffet_words ", (*c)->name);
        each_option(*c, bash_name);
        puts("-h --help ;;");
        printf("    %s:*) %s ;;\n", (*c)->name, bash_operand(kind_of((*c)->operand)));
    }
    puts("    *) _tuffet_words ;;\n    esac\n}\ncomplete -o default -F _tuffet tuffet");
}

/* ------------------------------------------------------------------------------------------ zsh */

static void zsh_quoted(const char *text, size_t n) { put_quoted(text, n, "[]\\:", "'\\''"); }

static void zsh_action(enum kind kind)
{
    fputs(kind == FILES ? "_files" : kind == FOLDERS ? "_files -/" : " ", stdout);
}

/* A specification for _arguments: '(-k --kv)'{-k+,--kv=}'[text]:CACHE:(f16 f32)'. */
static void zsh_option(const struct cli_command *c, const struct cli_option *o)
{
    bool takes = o->type != CLI_FLAG;
    const char *plus = takes ? "+" : "", *equals = takes ? "=" : "";
    (void)c;
    fputs(" \\\n        ", stdout);
    if (o->letter)
        printf("'(-%c --%s)'{-%c%s,--%s%s}'[", o->letter, o->name, o->letter, plus, o->name,
               equals);
    else
        printf("'%s--%s%s[", o->type == CLI_TEXTS ? "*" : "", o->name, equals);
    zsh_quoted(o->help, brief(o->help));
    putchar(']');
    if (takes) {
        putchar(':');
        zsh_quoted(o->arg, strcspn(o->arg, ":"));
        putchar(':');
        if (kind_of_option(o) == WORDS) {
            putchar('(');
            put_words(words_of(o));
            putchar(')');
        } else {
            zsh_action(kind_of_option(o));
        }
    }
    putchar('\'');
}

static void print_zsh(const struct cli_program *p)
{
    puts("#compdef tuffet\n"
         "# Completion of tuffet's command line for zsh. Made by: tuffet help --completion zsh");
    for (const struct cli_command *const *c = p->commands; *c; c++) {
        printf("_tuffet_%s() {\n    _arguments -S :", (*c)->name);
        each_option(*c, zsh_option);
        printf(" \\\n        '(-h --help)'{-h,--help}'[print help]::WORD:(all)' \\\n        '%s:",
               (*c)->operands ? "*" : "1");
        zsh_quoted((*c)->operand, strlen((*c)->operand));
        putchar(':');
        zsh_action(kind_of((*c)->operand));
        puts("'\n}");
    }
    puts("_tuffet_help() {\n"
         "    _arguments '--man[print the source of a manual page]' \\\n"
         "        '--completion[print a script for a shell]:SHELL:(bash zsh fish)' \\");
    fputs("        '1:COMMAND:(", stdout);
    put_commands(p);
    puts(")'\n}\n_tuffet() {\n    local -a commands=(");
    for (const struct cli_command *const *c = p->commands; *c; c++) {
        printf("        '%s:", (*c)->name);
        zsh_quoted((*c)->summary, strlen((*c)->summary));
        puts("'");
    }
    puts("        'help:print the help of a command'\n    )\n"
         "    if (( CURRENT == 2 )); then\n"
         "        _describe command commands\n"
         "    elif (( $+functions[_tuffet_$words[2]] )); then\n"
         "        shift words\n"
         "        (( CURRENT-- ))\n"
         "        _tuffet_$words[1]\n"
         "    fi\n}\n"
         "# The file is read as a function of $fpath, or by \"source\".\n"
         "if [[ $funcstack[1] == _tuffet ]]; then\n"
         "    _tuffet \"$@\"\n"
         "else\n"
         "    compdef _tuffet tuffet\n"
         "fi");
}

/* ----------------------------------------------------------------------------------------- fish */

static void fish_quoted(const char *text, size_t n) { put_quoted(text, n, "\\", "\\'"); }

static void fish_option(const struct cli_command *c, const struct cli_option *o)
{
    printf("complete -c tuffet -n '__tuffet_command %s'", c->name);
    if (o->letter)
        printf(" -s %c", o->letter);
    printf(" -l %s", o->name);
    if (o->type != CLI_FLAG)
        switch (kind_of_option(o)) {
        case NOTHING: fputs(" -x", stdout); break;
        case WORDS:
            fputs(" -x -a '", stdout);
            put_words(words_of(o));
            putchar('\'');
            break;
        case FILES: fputs(" -r -F", stdout); break;
        case FOLDERS: fputs(" -x -a '(__fish_complete_directories)'", stdout); break;
        }
    fputs(" -d '", stdout);
    fish_quoted(o->help, brief(o->help));
    puts("'");
}

/* Without a line, fish offers nothing. */
static void fish_operand(const struct cli_command *c)
{
    enum kind kind = kind_of(c->operand);
    if (kind != NOTHING)
        printf("complete -c tuffet -n '__tuffet_command %s' %s\n", c->name,
               kind == FOLDERS ? "-a '(__fish_complete_directories)'" : "-F");
}

static void print_fish(const struct cli_program *p)
{
    puts("# Completion of tuffet's command line for fish. Made by: tuffet help --completion fish\n"
         "function __tuffet_command\n"
         "    set -l words (commandline -opc)\n"
         "    test \"$words[2]\" = \"$argv\"\n"
         "end\n"
         "complete -c tuffet -f\n"
         "complete -c tuffet -n '__tuffet_command \"\"' -l version -d 'print the version'");
    for (const struct cli_command *const *c = p->commands; *c; c++) {
        printf("complete -c tuffet -n '__tuffet_command \"\"' -a %s -d '", (*c)->name);
        fish_quoted((*c)->summary, strlen((*c)->summary));
        puts("'");
        fish_operand(*c);
        each_option(*c, fish_option);
        printf("complete -c tuffet -n '__tuffet_command %s' -s h -l help -x -a all "
               "-d 'print help'\n",
               (*c)->name);
    }
    puts("complete -c tuffet -n '__tuffet_command \"\"' -s h -l help -d 'print help'\n"
         "complete -c tuffet -n '__tuffet_command \"\"' -a help -d 'print the help of a command'\n"
         "complete -c tuffet -n '__tuffet_command help' -l man "
         "-d 'print the source of a manual page'\n"
         "complete -c tuffet -n '__tuffet_command help' -l completion -x -a 'bash zsh fish' "
         "-d 'print a script for a shell'");
    fputs("complete -c tuffet -n '__tuffet_command help' -a '", stdout);
    put_commands(p);
    puts("'");
}

bool cli_print_completion(const struct cli_program *p, const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        print_bash(p);
    else if (strcmp(shell, "zsh") == 0)
        print_zsh(p);
    else if (strcmp(shell, "fish") == 0)
        print_fish(p);
    else
        return false;
    return true;
}
