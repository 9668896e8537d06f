#include "tools/quantize/command_system.h"

#include <stdlib.h>
#include <string.h>

#include "tools/chat/template.h"
#include "tools/quantize/round/prefix_pack.h"
#include "tools/quantize/write/rewrite_model.h"

static struct {
    struct cli_texts system;
} opt;
_Static_assert((int)CLI_MOST_TEXTS <= (int)TFT_PREFIX_NAMES, "a file has room for all names");

const struct cli_option command_system_option_list[] = {
    {0, "intact-system", CLI_TEXTS, &opt.system, "[NAME=]TEXT",
     "store the beginning of conversations with the system message TEXT, as a prefix called NAME "
     "(default \"system\"); once or more"},
    {0},
};

/* ---- the command line */

/* Start of the text of "NAME=TEXT"; option itself if it is a text. A name has no white space, so
   "Answer with x = 1" is a text. */
static const char *text_of(const char *option)
{
    size_t n = strcspn(option, "= \t\r\n");
    return option[n] == '=' ? option + n + 1 : option;
}

static struct tft_str name_of(const char *option)
{
    static const char usual[] = "system";
    const char *text = text_of(option);
    return text > option ? (struct tft_str){option, (size_t)(text - option) - 1}
                         : (struct tft_str){usual, sizeof usual - 1};
}

static int check_name(uint32_t index)
{
    struct tft_str name = name_of(opt.system.p[index]);
    if (!tft_prefix_name_valid(name.p, name.n))
        return cli_usage("--intact-system: the name \"%.*s\" is not 1 to %d of a-z, 0-9, _ and -, "
                         "or is \"main\"",
                         TFT_STR_ARG(name), TFT_PREFIX_NAME);
    for (uint32_t i = 0; i < index; i++) {
        struct tft_str other = name_of(opt.system.p[i]);
        if (other.n == name.n && memcmp(other.p, name.p, name.n) == 0)
            return cli_usage("--intact-system: two texts have the name \"%.*s\": give NAME=TEXT",
                             TFT_STR_ARG(name));
    }
    return *text_of(opt.system.p[index]) ? CLI_OK
                                         : cli_usage("--intact-system: the text of \"%.*s\" is "
                                                     "empty",
                                                     TFT_STR_ARG(name));
}

int command_system_check(void)
{
    int status = template_check();
    if (status != CLI_OK)
        return status;
    for (uint32_t i = 0; i < opt.system.n && status == CLI_OK; i++)
        status = check_name(i);
    return status;
}

/* ---- before quantize() */

/* Whether ids[n] begin with the prefix's last text, or with BOS and this text. */
static bool begins_with_text(const struct tft_model *m, const int32_t *ids, size_t n,
                             const struct command_prefix *prefix)
{
    size_t at = n && ids[0] == tft_token_bos(m), text = prefix->n_text;
    return !text || (n - at > text && memcmp(ids + at, prefix->ids + prefix->n - text,
                                             text * sizeof *ids) == 0);
}

static int add(struct command_system *c, const struct template_format *f, const char *option,
               const struct command_prefix *prefix, uint32_t room)
{
    struct named_prefix *p = &c->prefix[c->n];
    struct tft_str name = name_of(option);
    const struct template_options plain = {0};
    size_t n;
    char *copy = malloc(name.n + 1);
    if (!copy)
        return cli_fail("out of memory");
    memcpy(copy, name.p, name.n);
    copy[name.n] = 0;
    *p = (struct named_prefix){.name = copy, .system = text_of(option)};
    int32_t *ids = c->ids[c->n++] = template_system_tokens(f, c->m, p->system, &plain, &n);
    if (!ids)
        return CLI_FAILED;
    if (!begins_with_text(c->m, ids, n, prefix))
        return cli_usage("--intact-text and --intact-system exclude each other, unless "
                         "conversations with the system message begin with that text");
    if (n >= room)
        return cli_fail("%s: the system message \"%s\" has %zu tokens, but after the prefix the "
                        "context has room for %u: shorten the message",
                        c->m->source.name, p->name, n, room ? room - 1 : 0);
    p->tokens = ids;
    p->n = (uint32_t)n;
    return CLI_OK;
}

int command_system_choose(struct command_system *c, struct tft_model *m,
                          const struct command_prefix *prefix)
{
    struct tft_error err;
    uint32_t most_prefix = command_prefix_most(prefix),
             room = most_prefix < m->n_ctx ? m->n_ctx - most_prefix : 0;
    int status = CLI_OK;
    if (!opt.system.n)
        return CLI_OK;
    if (tft_model_has_states(m))
        return cli_fail("%s: %s cannot have named prefixes (--intact-system): its layers have a "
                        "state",
                        m->source.name, m->arch->name);
    c->m = m;
    c->type = command_prefix_type();
    const struct template_format *f = template_choose(m, m->source.name);
    if (!f)
        return CLI_FAILED;
    if (prefix_check_type(m, c->type, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    c->prefix = calloc(opt.system.n, sizeof *c->prefix);
    c->ids = calloc(opt.system.n, sizeof *c->ids);
    if (!c->prefix || !c->ids)
        return cli_fail("out of memory");
    for (uint32_t i = 0; i < opt.system.n && status == CLI_OK; i++)
        status = add(c, f, opt.system.p[i], prefix, room);
    return status;
}

/* Removes given[n] from the start of a prefix, unless nothing else is there. */
static void drop(struct named_prefix *p, const int32_t *given, uint32_t n)
{
    if (p->n <= n || (n && memcmp(p->tokens, given, n * sizeof *given) != 0))
        return;
    p->tokens += n;
    p->n -= n;
}

/* Named rows follow the file's prefix, and a prompt is not fed the tokens that the prefix holds:
   BOS, and its text. */
static void drop_held(struct command_system *c)
{
    const struct quantize_opts *o = c->o;
    int32_t bos = tft_token_bos(c->m);
    bool given = false;
    for (uint32_t i = 0; i < o->n_prefix; i++)
        given |= o->prefix[i] == bos;
    for (uint32_t i = 0; i < c->n; i++) {
        drop(&c->prefix[i], &bos, given);
        drop(&c->prefix[i], o->prefix + o->n_prefix - o->n_prefix_text, o->n_prefix_text);
    }
}

int command_system_begin(struct command_system *c, struct quantize_opts *o, const char **path)
{
    static const char suffix[] = ".unnamed";
    if (!c->n)
        return CLI_OK;
    c->o = o;
    drop_held(c);
    c->unnamed = malloc(strlen(*path) + sizeof suffix);
    if (!quantize_values_open(&c->values, c->m) || !c->unnamed)
        return cli_fail("out of memory");
    o->values = &c->values;
    strcpy(c->unnamed, *path);
    strcat(c->unnamed, suffix);
    *path = c->unnamed;
    return CLI_OK;
}

/* ---- after quantize() */

static bool progress(void *user, double done)
{
    cli_progress_at(user, done);
    return !cli_interrupted();
}

static int compute(struct command_system *c, const struct tft_model *made)
{
    struct cli_progress bar;
    struct tft_error err;
    struct quantize_opts o = *c->o;
    bool stopped;
    o.progress = progress;
    o.user = &bar;
    cli_progress_begin(&bar, "computing system messages");
    enum tft_status status = named_rows(c->m, made, &o, c->prefix, c->n, &stopped, &err);
    cli_progress_end(&bar);
    return status != TFT_OK ? cli_fail("%s", err.msg) : stopped ? CLI_INTERRUPTED : CLI_OK;
}

int command_system_finish(struct command_system *c, const char *path)
{
    struct tft_model *made;
    struct tft_error err;
    if (!c->n)
        return CLI_OK;
    struct tft_model_opts mo = {.size = sizeof mo, .tokenizer = cli_model_options.tokenizer};
    if (tft_model_open(&made, c->unnamed, &mo, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    remove(c->unnamed); /* it stays mapped, and nothing is left if the process is killed */
    struct rewrite r = {.type = c->type, .named = c->prefix, .n_named = c->n};
    int status = compute(c, made);
    if (status == CLI_OK && rewrite_model(made, path, &r, &err) != TFT_OK)
        status = cli_fail("%s", err.msg);
    tft_model_close(made);
    return status;
}

void command_system_free(struct command_system *c)
{
    if (c->unnamed)
        remove(c->unnamed);
    named_rows_free(c->prefix, c->n);
    for (uint32_t i = 0; i < c->n; i++) {
        free(c->ids[i]);
        free((char *)(uintptr_t)c->prefix[i].name);
    }
    free(c->ids);
    free(c->prefix);
    free(c->unnamed);
    quantize_values_close(&c->values);
}

/* ---- the report */

void command_system_report(const struct command_system *c)
{
    for (uint32_t i = 0; i < c->n; i++)
        fprintf(stderr, "prefix %s: %u tokens\n", c->prefix[i].name, c->prefix[i].n);
}

void command_system_json(const struct command_system *c)
{
    if (!c->n) {
        fputs("null", stdout);
        return;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        printf("%s\"%s\":[", i ? "," : "{", c->prefix[i].name);
        for (uint32_t t = 0; t < c->prefix[i].n; t++)
            printf(t ? ",%d" : "%d", (int)c->prefix[i].tokens[t]);
        putchar(']');
    }
    putchar('}');
}
