/* Errors, and the command line. */
#include "cli.h"
#include "config.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const char *command = ""; /* the current one, for the hint after a usage error */
static const char *place;         /* of a setting that is no argument; NULL: an argument */
static struct {
    const struct cli_option *p[128];
    size_t n;
} given; /* the options of the command line */

/* --------------------------------------------------------------------------------------- errors */

static _Thread_local char last_error[512];

static void complain(const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    vsnprintf(last_error, sizeof last_error, fmt, again);
    va_end(again);
    fflush(stdout);
    fprintf(stderr, "tuffet: %s%s", place ? place : "", place ? ": " : "");
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
}

const char *cli_last_error(void) { return last_error; }

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
    if (!place)
        fprintf(stderr, "Try: tuffet %s%s--help\n", command, *command ? " " : "");
    return CLI_USAGE;
}

/* -------------------------------------------------------------------------------------- options */

const struct cli_option *cli_find_in(const struct cli_option *list, const char *name, size_t len)
{
    for (const struct cli_option *o = list; o->help; o++)
        if ((len == 1 && name[0] == o->letter) ||
            (len > 1 && strlen(o->name) == len && memcmp(o->name, name, len) == 0))
            return o;
    return NULL;
}

const struct cli_option *cli_find_option(const struct cli_command *c, const char *name, size_t len)
{
    const struct cli_option *o = NULL;
    for (const struct cli_option_group *g = c->groups; g->list && !o; g++)
        o = cli_find_in(g->list, name, len);
    return o;
}

static int take_real(const struct cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    float x = strtof(text, &end);
    bool number = !*end && end != text && !errno;
    if (o->type == CLI_SHARE && !(number && x >= 0 && x <= 1))
        return cli_usage("--%s needs a number from 0 to 1, not \"%s\"", o->name, text);
    if (!(number && x >= 0 && x < 1e30f))
        return cli_usage("--%s needs a number that is 0 or more, not \"%s\"", o->name, text);
    *(float *)o->value = x;
    return CLI_OK;
}

static int take_limit(const struct cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 0);
    if (*end || end == text || errno || n < -1 || n > INT32_MAX)
        return cli_usage("--%s needs a whole number, or -1, not \"%s\"", o->name, text);
    *(int32_t *)o->value = (int32_t)n;
    return CLI_OK;
}

static int take_number(const struct cli_option *o, const char *text)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 0);
    bool small = o->type != CLI_SEED;
    if (!small && strcmp(text, "-1") == 0) {
        *(uint64_t *)o->value = CLI_ANY_SEED;
        return CLI_OK;
    }
    if (*end || end == text || errno || text[0] == '-' || (small && n > INT32_MAX))
        return cli_usage("--%s needs a whole number%s, not \"%s\"", o->name,
                         small ? "" : " below 2^64, or -1", text);
    if (o->type == CLI_COUNT && !n && *(uint32_t *)o->value)
        return cli_usage("--%s must be at least 1", o->name);
    if (small)
        *(uint32_t *)o->value = (uint32_t)n;
    else
        *(uint64_t *)o->value = n;
    return CLI_OK;
}

static int take_bytes(const struct cli_option *o, const char *text)
{
    static const char units[] = "KMG";
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    const char *unit = *end ? strchr(units, *end) : NULL;
    int shift = unit ? 10 * (int)(unit - units + 1) : 0;
    if (*text < '0' || *text > '9' || errno || (*end && (!unit || end[1])) ||
        n > UINT64_MAX >> shift)
        return cli_usage("--%s needs a number of bytes such as 500M or 2G, not \"%s\"", o->name,
                         text);
    *(uint64_t *)o->value = (uint64_t)n << shift;
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
    return cli_usage("--%s must be one of %s, not \"%s\"", o->name, o->arg, text);
}

static int take_text(const struct cli_option *o, const char *text)
{
    struct cli_texts *all = o->value;
    if (all->n == CLI_MOST_TEXTS)
        return cli_usage("--%s is there more than %d times", o->name, CLI_MOST_TEXTS);
    all->p[all->n++] = text;
    return CLI_OK;
}

static int take_value(const struct cli_option *o, const char *text)
{
    switch (o->type) {
    case CLI_FLAG: *(bool *)o->value = true; return CLI_OK;
    case CLI_TEXT: *(const char **)o->value = text; return CLI_OK;
    case CLI_TEXTS: return take_text(o, text);
    case CLI_WORD: return take_word(o, text);
    case CLI_BYTES: return take_bytes(o, text);
    case CLI_LIMIT: return take_limit(o, text);
    case CLI_REAL:
    case CLI_SHARE: return take_real(o, text);
    default: return take_number(o, text);
    }
}

static int take_switch(const struct cli_option *o, const char *text)
{
    bool on = strcmp(text, "on") == 0;
    if (!on && strcmp(text, "off") != 0)
        return cli_usage("--%s must be on or off, not \"%s\"", o->name, text);
    *(bool *)o->value = on;
    return CLI_OK;
}

int cli_set_option(const struct cli_option *o, const char *text, const char *where)
{
    place = where;
    int status = o->type == CLI_FLAG ? take_switch(o, text) : take_value(o, text);
    place = NULL;
    return status;
}

bool cli_is_given(const struct cli_option *o)
{
    for (size_t i = 0; i < given.n; i++)
        if (given.p[i] == o)
            return true;
    return false;
}

static void note_given(const struct cli_option *o)
{
    if (!cli_is_given(o) && given.n < sizeof given.p / sizeof *given.p)
        given.p[given.n++] = o;
}

/* argv[*i] is "-x", "-xVALUE", "--name" or "--name=VALUE"; the value may be the next argument. */
static int take_option(const struct cli_command *c, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *name = arg + (arg[1] == '-' ? 2 : 1), *value = NULL;
    size_t len = arg[1] == '-' ? strcspn(name, "=") : 1;
    if (name[len])
        value = name + len + (arg[1] == '-');
    const struct cli_option *o = cli_find_option(c, name, len);
    /* "-ngl" is not -n with the value "gl" */
    const char *habit = !o || arg[1] != '-' ? cli_option_habit(c, arg) : NULL;
    if (habit && (!o || (name[1] && o->type != CLI_TEXT)))
        return cli_usage("tuffet %s has no option %s: %s", c->name, arg, habit);
    if (!o)
        return cli_usage("tuffet %s has no option %s", c->name, arg);
    if (o->type == CLI_FLAG && value)
        return cli_usage("--%s takes no value", o->name);
    if (o->type != CLI_FLAG && !value) {
        if (*i + 1 == argc)
            return cli_usage("--%s needs a value", o->name);
        value = argv[++*i];
    }
    note_given(o);
    return take_value(o, value);
}

/* The word after --help or -h, "" without one; NULL: neither option is there. */
static const char *help_word(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--help=", 7) == 0)
            return argv[i] + 7;
        else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return i + 1 < argc && argv[i + 1][0] != '-' ? argv[i + 1] : "";
    return NULL;
}

/* A second operand. After -p stands a text, in most commands. */
static int too_many(const struct cli_command *c, const char *arg)
{
    const struct cli_option *p = cli_find_option(c, "p", 1);
    if (p && p->type == CLI_TEXT)
        return cli_usage("\"%s\" is one argument too many: a text goes after -p", arg);
    return cli_usage("\"%s\" is one argument too many", arg);
}

/* The operand of a command line without one. */
static void take_model(const struct cli_command *c, const char **operand)
{
    *operand = config_model();
    if (*operand && c->operands)
        c->operands->p[c->operands->n++] = *operand;
}

int cli_parse(const struct cli_command *c, int argc, char **argv, const char **operand)
{
    bool options = true;
    command = c->name;
    *operand = NULL;
    const char *help = help_word(argc, argv);
    if (help)
        return cli_print_help(c, help) == CLI_OK ? CLI_HELPED : CLI_USAGE;
    int status = config_read(c);
    for (int i = 1; i < argc && status == CLI_OK; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && argv[i][0] == '-' && argv[i][1]) {
            status = take_option(c, argc, argv, &i);
        } else if (*operand && !c->operands) {
            return too_many(c, argv[i]);
        } else if (c->operands && c->operands->n == CLI_MOST_TEXTS) {
            return cli_usage("there are more than %d operands", CLI_MOST_TEXTS);
        } else {
            *operand = *operand ? *operand : argv[i];
            if (c->operands)
                c->operands->p[c->operands->n++] = argv[i];
        }
    }
    if (status == CLI_OK && !*operand && c->has_config)
        take_model(c, operand);
    if (status != CLI_OK)
        return status;
    return *operand || c->operand[0] == '[' ? CLI_OK : cli_usage("%s is missing", c->operand);
}
