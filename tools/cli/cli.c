#define _POSIX_C_SOURCE 200809L
#include "cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

static const char *command = ""; /* the one that runs, for the usage hint */

/* --------------------------------------------------------------------------------------- errors */

static void complain(const char *fmt, va_list args)
{
    fflush(stdout);
    fputs("tuffet: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
}

int cli_fail(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    complain(fmt, args);
    va_end(args);
    return CLI_FAILED;
}

int cli_usage(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    complain(fmt, args);
    va_end(args);
    fprintf(stderr, "Try: tuffet %s%s--help\n", command, *command ? " " : "");
    return CLI_USAGE;
}

/* -------------------------------------------------------------------------------------- options */

static void print_option(const struct cli_option *o)
{
    char left[64];
    snprintf(left, sizeof left, "%c%c%s --%s %s", o->letter ? '-' : ' ',
             o->letter ? o->letter : ' ', o->letter ? "," : " ", o->name, o->arg ? o->arg : "");
    printf("  %-30s %s\n", left, o->help);
}

static void print_help(const struct cli_command *c)
{
    printf("tuffet %s: %s\n\nUsage: tuffet %s [OPTIONS] %s\n\n", c->name, c->summary, c->name,
           c->operands);
    for (const struct cli_option *const *list = c->options; *list; list++)
        for (const struct cli_option *o = *list; o->help; o++)
            print_option(o);
    printf("  %-30s %s\n", "-h, --help", "this text");
    if (c->notes)
        printf("\n%s", c->notes);
}

static const struct cli_option *find_option(const struct cli_command *c, const char *name,
                                            size_t len)
{
    for (const struct cli_option *const *list = c->options; *list; list++)
        for (const struct cli_option *o = *list; o->help; o++)
            if ((len == 1 && name[0] == o->letter) ||
                (len > 1 && strlen(o->name) == len && memcmp(o->name, name, len) == 0))
                return o;
    return NULL;
}

static int take_number(const struct cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    if (o->type == CLI_REAL) {
        float x = strtof(text, &end);
        if (*end || end == text || errno || !(x >= 0 && x < 1e30f))
            return cli_usage("--%s takes a number that is not negative, not \"%s\"", o->name, text);
        *(float *)o->value = x;
        return CLI_OK;
    }
    unsigned long long n = strtoull(text, &end, 0);
    bool count = o->type == CLI_COUNT;
    if (*end || end == text || errno || text[0] == '-' || (count && n > INT32_MAX))
        return cli_usage("--%s takes a whole number, not \"%s\"", o->name, text);
    if (count && !n && *(uint32_t *)o->value)
        return cli_usage("--%s is at least 1", o->name);
    if (count)
        *(uint32_t *)o->value = (uint32_t)n;
    else
        *(uint64_t *)o->value = n;
    return CLI_OK;
}

static int take_word(const struct cli_option *o, const char *text)
{
    const char *word = o->arg;
    for (int i = 0; word; i++) {
        size_t len = strcspn(word, "|");
        if (strlen(text) == len && memcmp(word, text, len) == 0) {
            *(int *)o->value = i;
            return CLI_OK;
        }
        word = word[len] ? word + len + 1 : NULL;
    }
    return cli_usage("--%s is one of %s, not \"%s\"", o->name, o->arg, text);
}

static int take_value(const struct cli_option *o, const char *text)
{
    switch (o->type) {
    case CLI_FLAG: *(bool *)o->value = true; return CLI_OK;
    case CLI_TEXT: *(const char **)o->value = text; return CLI_OK;
    case CLI_WORD: return take_word(o, text);
    default: return take_number(o, text);
    }
}

/* argv[*i] is "-x", "-xVALUE", "--name" or "--name=VALUE"; the value may be the next argument. */
static int take_option(const struct cli_command *c, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *name = arg + (arg[1] == '-' ? 2 : 1), *value = NULL;
    size_t len = arg[1] == '-' ? strcspn(name, "=") : 1;
    if (name[len])
        value = name + len + (arg[1] == '-');
    const struct cli_option *o = find_option(c, name, len);
    if (!o)
        return cli_usage("there is no option %s", arg);
    if (o->type == CLI_FLAG && value)
        return cli_usage("--%s takes no value", o->name);
    if (o->type != CLI_FLAG && !value) {
        if (*i + 1 == argc)
            return cli_usage("--%s needs a value", o->name);
        value = argv[++*i];
    }
    return take_value(o, value);
}

static int count_words(const char *s)
{
    int n = *s != 0;
    for (; *s; s++)
        n += *s == ' ';
    return n;
}

int cli_parse(const struct cli_command *c, int argc, char **argv, const char **operand)
{
    int n = 0, wanted = count_words(c->operands);
    bool options = true;
    command = c->name;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(c);
            return -1;
        }
    for (int i = 1; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            int status = take_option(c, argc, argv, &i);
            if (status != CLI_OK)
                return status;
        } else if (n == wanted) {
            return cli_usage("\"%s\" is one argument too many", argv[i]);
        } else {
            operand[n++] = argv[i];
        }
    }
    bool optional = c->operands[0] == '[';
    return n == wanted || (optional && !n) ? CLI_OK : cli_usage("%s is missing", c->operands);
}

/* -------------------------------------------------------------------------------------- text in */

char *cli_read(const char *path, size_t *len)
{
    bool in = strcmp(path, "-") == 0;
    FILE *f = in ? stdin : fopen(path, "rb");
    if (!f) {
        cli_fail("%s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = NULL;
    size_t n = 0, room = 0, got = 1;
    while (got) {
        if (n + 1 >= room) {
            room = room ? room * 2 : 65536;
            char *more = realloc(text, room);
            if (!more) {
                errno = ENOMEM;
                break;
            }
            text = more;
        }
        got = fread(text + n, 1, room - n - 1, f);
        n += got;
    }
    bool bad = ferror(f) || got;
    int err = errno;
    if (!in)
        fclose(f);
    if (bad) {
        cli_fail("%s: %s", in ? "standard input" : path, strerror(err));
        free(text);
        return NULL;
    }
    text[n] = 0;
    *len = n;
    return text;
}

char *cli_read_given(const char *text, const char *file, size_t *len)
{
    if (file || (!text && !isatty(STDIN_FILENO)))
        return cli_read(file ? file : "-", len);
    char *copy = strdup(text ? text : "");
    *len = copy ? strlen(copy) : 0;
    if (!copy)
        cli_fail("out of memory");
    return copy;
}

bool cli_text_add(struct cli_text *t, const char *p, size_t n)
{
    if (n > t->room - t->n) {
        size_t room = (t->n + n) * 2;
        char *more = realloc(t->p, room);
        if (!more)
            return false;
        t->p = more;
        t->room = room;
    }
    if (n)
        memcpy(t->p + t->n, p, n);
    t->n += n;
    return true;
}

/* ------------------------------------------------------------------------------------- text out */

/* C0, DEL and C1: what terminals act upon (ECMA-48, sections 5.2 and 5.3). */
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

/* What moves the text around it: line separators, and marks of direction (Unicode Standard Annex 9,
   section 2). */
static bool is_invisible(uint32_t c)
{
    return (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2066 && c <= 0x2069);
}

bool cli_put(const char *p, size_t n)
{
    bool terminal = isatty(STDOUT_FILENO);
    for (size_t i = 0, len; terminal && i < n; i += len) {
        uint32_t c;
        len = tft_utf8_next(p + i, n - i, &c);
        if (c >= TFT_UTF8_BAD || (is_control(c) && c != '\n' && c != '\t'))
            fputs("\xef\xbf\xbd", stdout);
        else
            fwrite(p + i, 1, len, stdout);
    }
    if (!terminal && n)
        fwrite(p, 1, n, stdout);
    return fflush(stdout) == 0 && !ferror(stdout);
}

void cli_put_escaped(FILE *f, const char *p, size_t n)
{
    for (size_t i = 0, len; i < n; i += len) {
        uint32_t c;
        len = tft_utf8_next(p + i, n - i, &c);
        if (c == '\n' || c == '\t' || c == '\\')
            fprintf(f, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : '\\');
        else if (c >= TFT_UTF8_BAD || is_control(c))
            for (size_t j = 0; j < len; j++)
                fprintf(f, "\\x%02x", (unsigned char)p[i + j]);
        else if (is_invisible(c))
            fprintf(f, "\\u{%x}", c);
        else
            fwrite(p + i, 1, len, f);
    }
}

/* ------------------------------------------------------------------------------------- progress */

uint64_t cli_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void cli_progress_begin(struct cli_progress *p, const char *what)
{
    *p = (struct cli_progress){.what = what, .start = cli_ns()};
}

void cli_progress_at(struct cli_progress *p, double done)
{
    enum { WIDTH = 30 };
    const uint64_t second = 1000000000;
    uint64_t now = cli_ns(), spent = now - p->start;
    if (!isatty(STDERR_FILENO) || spent < 2 * second || now - p->shown < second / 10 || !(done > 0))
        return;
    int full = (int)(done * WIDTH);
    double left = (double)spent / 1e9 * (1 - done) / done;
    fprintf(stderr, "\r%s [%.*s%*s] %3.0f %%, %.0f s left \x1b[K", p->what, full,
            "##############################", WIDTH - full, "", done * 100, left);
    p->shown = now;
    p->drawn = true;
}

void cli_progress_end(struct cli_progress *p)
{
    if (p->drawn)
        fputs("\r\x1b[K", stderr);
    p->drawn = false;
}

/* --------------------------------------------------------------------------------------- Ctrl-C */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int sig)
{
    if (interrupted) {
        signal(sig, SIG_DFL);
        raise(sig);
    }
    interrupted = 1;
}

void cli_catch_interrupts(void)
{
    struct sigaction a = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    interrupted = 0;
    sigaction(SIGINT, &a, NULL);
}

void cli_release_interrupts(void)
{
    signal(SIGINT, SIG_DFL);
}

bool cli_interrupted(void)
{
    return interrupted;
}

/* ----------------------------------------------------------------------------------------- JSON */

void cli_json_string(FILE *f, const char *s, size_t len)
{
    fputc('"', f);
    for (size_t i = 0, n; i < len; i += n) {
        uint32_t c;
        n = tft_utf8_next(s + i, len - i, &c);
        if (c >= TFT_UTF8_BAD)
            fputs("\xef\xbf\xbd", f);
        else if (c == '"' || c == '\\')
            fprintf(f, "\\%c", (char)c);
        else if (c == '\n')
            fputs("\\n", f);
        else if (is_control(c) || is_invisible(c))
            fprintf(f, "\\u%04x", c);
        else
            fwrite(s + i, 1, n, f);
    }
    fputc('"', f);
}

void cli_json_number(const char *name, double x)
{
    if (isfinite(x))
        printf(",\"%s\":%.9g", name, x);
    else
        printf(",\"%s\":null", name);
}
