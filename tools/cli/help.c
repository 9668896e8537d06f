/* The two forms of a command's documentation: the text of --help, and the manual page. */
#include "cli.h"

#include <ctype.h>
#include <string.h>

/* Number of bytes of o->arg in the help, without names that only completion offers. */
static int arg_length(const struct cli_option *o) { return (int)strcspn(o->arg, ":"); }

/* The default of an option, which is its value before the command line is parsed: " (default 512)";
   empty if there is none to show. */
static void default_of(const struct cli_option *o, char out[64])
{
    out[0] = 0;
    if ((o->type == CLI_COUNT || o->type == CLI_NUMBER) && *(uint32_t *)o->value)
        snprintf(out, 64, " (default %u)", *(uint32_t *)o->value);
    else if (o->type == CLI_LIMIT && *(int32_t *)o->value > 0)
        snprintf(out, 64, " (default %d)", *(int32_t *)o->value);
    else if ((o->type == CLI_REAL || o->type == CLI_SHARE) && *(float *)o->value > 0)
        snprintf(out, 64, " (default %g)", (double)*(float *)o->value);
    else if (o->type == CLI_WORD && *(int *)o->value >= 0) {
        const char *word = o->arg;
        for (int i = *(int *)o->value; i > 0; i--)
            word += strcspn(word, "|") + 1;
        snprintf(out, 64, " (default %.*s)", (int)strcspn(word, "|"), word);
    }
}

/* Splits the first line from *text: false at the end. n: its length without the newline. */
static bool next_line(const char **text, const char **line, size_t *n)
{
    if (!*text || !**text)
        return false;
    *line = *text;
    *n = strcspn(*text, "\n");
    *text += *n + ((*text)[*n] == '\n');
    return true;
}

/* ----------------------------------------------------------------------------------------- help */

enum { WIDTH = 80, OPTION_COLUMN = 28 };

/* Prints n bytes of text word by word, from column `column` on. A line that would be longer than
   WIDTH is continued at column `indent` of the next. Returns the column after the last word. */
static size_t wrap(FILE *f, const char *p, size_t n, size_t column, size_t indent)
{
    for (size_t i = 0, len; i < n; i += len) {
        i += strspn(p + i, " ");
        len = strcspn(p + i, " ");
        len = len < n - i ? len : n - i;
        bool first = column == indent;
        if (!first && column + 1 + len > WIDTH) {
            fprintf(f, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', f);
            column++;
        }
        fwrite(p + i, 1, len, f);
        column += len;
    }
    return column;
}

static void help_option(const struct cli_option *o)
{
    char left[96], value[64];
    int n = o->letter ? snprintf(left, sizeof left, "  -%c, --%s", o->letter, o->name)
                      : snprintf(left, sizeof left, "      --%s", o->name);
    if (o->arg)
        n += snprintf(left + n, sizeof left - (size_t)n, " %.*s", arg_length(o), o->arg);
    if (n + 2 <= OPTION_COLUMN)
        printf("%-*s", OPTION_COLUMN, left);
    else
        printf("%s\n%*s", left, OPTION_COLUMN, "");
    size_t column = wrap(stdout, o->help, strlen(o->help), OPTION_COLUMN, OPTION_COLUMN);
    default_of(o, value);
    wrap(stdout, value, strlen(value), column, OPTION_COLUMN);
    putchar('\n');
}

static void help_notes(FILE *f, const char *notes)
{
    const char *line;
    size_t n;
    while (next_line(&notes, &line, &n)) {
        if (*line == ' ')
            fwrite(line, 1, n, f);
        else
            wrap(f, line, n, 0, 0);
        fputc('\n', f);
    }
}

/* --help itself, for the list of a command's options. */
static const struct cli_option *help_of(const struct cli_command *c)
{
    static const struct cli_option
        whole = {'h', "help", CLI_FLAG, NULL, NULL, "print every option"},
        parts = {'h', "help", CLI_FLAG, NULL, "[all]",
                 "print the options that most people need; all: print every option"};
    return c->first ? &parts : &whole;
}

static void help_first(const struct cli_command *c)
{
    putchar('\n');
    for (const char *const *name = c->first; *name; name++)
        help_option(cli_find_option(c, *name, strlen(*name)));
    printf("\nMore: tuffet %s --help all\n", c->name);
}

static void help_all(const struct cli_command *c)
{
    const char *line, *examples = c->examples;
    size_t n;
    for (const struct cli_option_group *g = c->groups; g->list; g++) {
        if (g->title)
            printf("\n%s:\n", g->title);
        for (const struct cli_option *o = g->list; o->help; o++)
            help_option(o);
    }
    putchar('\n');
    help_option(help_of(c));
    if (c->notes)
        putchar('\n');
    help_notes(stdout, c->notes);
    puts("\nExamples:");
    while (next_line(&examples, &line, &n))
        printf("  %.*s\n", (int)n, line);
}

int cli_print_help(const struct cli_command *c, const char *word)
{
    bool all = strcmp(word, "all") == 0;
    if (*word && !all)
        return cli_usage("--help may be followed by the word all, not by \"%s\"", word);
    printf("tuffet %s - %s\n\nUsage: tuffet %s [OPTIONS] %s\n", c->name, c->summary, c->name,
           c->operand);
    if (c->first && !all)
        help_first(c);
    else
        help_all(c);
    return CLI_OK;
}

void cli_print_program_help(FILE *f, const struct cli_program *p)
{
    fprintf(f, "tuffet - %s\n\nUsage: tuffet COMMAND [OPTIONS] MODEL\n\nCommands:\n", p->summary);
    for (const struct cli_command *const *c = p->commands; *c; c++)
        fprintf(f, "  %-10s %s\n", (*c)->name, (*c)->summary);
    fputc('\n', f);
    help_notes(f, p->notes);
}

/* ---------------------------------------------------------------------------------- manual page */

/* Text for troff. Unescaped, "-" becomes a hyphen, quotes become typographic ones, and a line that
   begins with "." is a request. */
static void put_troff(const char *p, size_t n)
{
    if (n && *p == '.')
        fputs("\\&", stdout);
    for (size_t i = 0; i < n; i++)
        switch (p[i]) {
        case '\\': fputs("\\e", stdout); break;
        case '-': fputs("\\-", stdout); break;
        case '\'': fputs("\\(aq", stdout); break;
        case '`': fputs("\\(ga", stdout); break;
        case '^': fputs("\\(ha", stdout); break;
        case '~': fputs("\\(ti", stdout); break;
        default: putchar(p[i]);
        }
}

/* font: B is bold, for text to type; I is italic, for placeholders. */
static void put_font_n(char font, const char *text, size_t n)
{
    printf("\\f%c", font);
    put_troff(text, n);
    fputs("\\fR", stdout);
}

static void put_font(char font, const char *text) { put_font_n(font, text, strlen(text)); }

static void man_line(const char *text)
{
    put_troff(text, strlen(text));
    putchar('\n');
}

/* Paragraphs, and verbatim lines. A heading begins a paragraph itself. */
struct man_lines {
    bool after_heading, verbatim; /* verbatim: between .EX and .EE */
};

static void man_verbatim(struct man_lines *m, const char *line, size_t n)
{
    if (!m->verbatim)
        puts(m->after_heading ? ".EX" : ".PP\n.EX");
    *m = (struct man_lines){.verbatim = true};
    put_troff(line, n);
    putchar('\n');
}

static void man_end_verbatim(struct man_lines *m)
{
    if (m->verbatim)
        puts(".EE");
    m->verbatim = false;
}

static void man_paragraph(struct man_lines *m, const char *line, size_t n)
{
    if (!m->after_heading)
        puts(".PP");
    m->after_heading = false;
    put_troff(line, n);
    putchar('\n');
}

static void man_notes(struct man_lines *m, const char *notes)
{
    const char *line;
    size_t n;
    while (next_line(&notes, &line, &n)) {
        if (*line == ' ') {
            man_verbatim(m, line, n);
            continue;
        }
        man_end_verbatim(m);
        if (n)
            man_paragraph(m, line, n);
    }
    man_end_verbatim(m);
}

static void man_examples(const char *examples)
{
    struct man_lines m = {.after_heading = true};
    const char *line;
    size_t n;
    puts(".SH EXAMPLES");
    while (next_line(&examples, &line, &n))
        man_verbatim(&m, line, n);
    man_end_verbatim(&m);
}

static void man_option(const struct cli_option *o)
{
    char letter[] = {'-', o->letter, 0}, name[64], value[64];
    puts(".TP");
    if (o->letter) {
        put_font('B', letter);
        fputs(", ", stdout);
    }
    snprintf(name, sizeof name, "--%s", o->name);
    put_font('B', name);
    if (o->arg) {
        putchar(' ');
        put_font_n('I', o->arg, (size_t)arg_length(o));
    }
    putchar('\n');
    put_troff(o->help, strlen(o->help));
    default_of(o, value);
    man_line(value);
}

static void man_command(const struct cli_command *c)
{
    printf(".SH SYNOPSIS\n\\fBtuffet %s\\fR [\\fIOPTIONS\\fR] ", c->name);
    put_font('I', c->operand);
    printf("\n.SH DESCRIPTION\n%c", toupper(*c->summary));
    put_troff(c->summary + 1, strlen(c->summary + 1));
    puts(".");
    man_notes(&(struct man_lines){0}, c->notes);
    puts(".SH OPTIONS");
    for (const struct cli_option_group *g = c->groups; g->list; g++) {
        if (g->title)
            printf(".SS %s\n", g->title);
        for (const struct cli_option *o = g->list; o->help; o++)
            man_option(o);
    }
    puts(".SS Help");
    man_option(help_of(c));
    man_examples(c->examples);
}

static void man_program(const struct cli_program *p)
{
    puts(".SH SYNOPSIS\n\\fBtuffet\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] \\fIMODEL\\fR\n.br\n"
         "\\fBtuffet help\\fR [\\fICOMMAND\\fR] [\\fBall\\fR]\n.br\n"
         "\\fBtuffet help \\-\\-man\\fR [\\fICOMMAND\\fR]\n.br\n"
         "\\fBtuffet help \\-\\-completion\\fR \\fISHELL\\fR\n.br\n"
         "\\fBtuffet \\-\\-version\\fR\n"
         ".SH DESCRIPTION");
    man_notes(&(struct man_lines){.after_heading = true}, p->notes);
    puts(".SH COMMANDS");
    for (const struct cli_command *const *c = p->commands; *c; c++) {
        puts(".TP");
        put_font('B', (*c)->name);
        putchar('\n');
        man_line((*c)->summary);
    }
    puts(".TP\n\\fBhelp\\fR [\\fICOMMAND\\fR] [\\fBall\\fR]\n"
         "print the help of a command, or of the program: the options that most people need, or "
         "with \\fBall\\fR every option\n"
         ".TP\n\\fBhelp \\-\\-man\\fR [\\fICOMMAND\\fR]\n"
         "print the source of a manual page\n"
         ".TP\n\\fBhelp \\-\\-completion\\fR \\fISHELL\\fR\n"
         "print the script with which bash, zsh or fish completes command lines");
}

/* The pages of the program and of all other commands. */
static void man_see_also(const struct cli_program *p, const struct cli_command *this)
{
    const char *separator = "";
    puts(".SH SEE ALSO");
    if (this) {
        fputs("\\fBtuffet\\fR(1)", stdout);
        separator = ", ";
    }
    for (const struct cli_command *const *c = p->commands; *c; c++)
        if (*c != this) {
            printf("%s\\fBtuffet\\-%s\\fR(1)", separator, (*c)->name);
            separator = ", ";
        }
    putchar('\n');
}

void cli_print_man(const struct cli_program *p, const struct cli_command *c)
{
    const char *dash = c ? "\\-" : "", *name = c ? c->name : "";
    printf(".TH \"tuffet%s%s\" \"1\" \"\" \"tuffet %s\" \"User Commands\"\n", dash, name,
           tft_version());
    printf(".SH NAME\ntuffet%s%s \\- ", dash, name);
    man_line(c ? c->summary : p->summary);
    if (c)
        man_command(c);
    else
        man_program(p);
    puts(".SH EXIT STATUS\n"
         ".TP\n0\nThe command succeeded.\n"
         ".TP\n1\nThe command failed. One line on standard error says why.\n"
         ".TP\n2\nThe command line is wrong. Standard error says why, and how to get help.\n"
         ".TP\n130\nCtrl\\-C ended the command.");
    man_see_also(p, c);
}
