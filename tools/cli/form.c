#define _POSIX_C_SOURCE 200809L
#include "form.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat/tuffet_chat.h"
#include "power.h"
#include "system.h"

static struct {
    const char *grammar, *regex, *schema;
    bool any_order;
} opt;

const struct cli_option form_option_list[] = {
    {0, "grammar", CLI_TEXT, &opt.grammar, "FILE",
     "write only text that matches the grammar in FILE, in llama.cpp's GBNF"},
    {0, "regex", CLI_TEXT, &opt.regex, "TEXT",
     "write only text that this regular expression matches from its start to its end"},
    {0, "json-schema", CLI_TEXT, &opt.schema, "FILE|TEXT",
     "write only JSON that is valid by this JSON Schema, given as its text or as a file"},
    {0, "any-order", CLI_FLAG, &opt.any_order, NULL,
     "let the properties of objects come in any order (default: the order of the schema)"},
    {0},
};

int form_check(void)
{
    if (!!opt.grammar + !!opt.regex + !!opt.schema > 1)
        return cli_usage("--grammar, --regex and --json-schema give different forms: use one");
    return opt.any_order && !opt.schema ? cli_usage("--any-order goes with --json-schema") : CLI_OK;
}

const char *form_option(void)
{
    return opt.grammar ? "--grammar" : opt.regex ? "--regex" : opt.schema ? "--json-schema" : NULL;
}

/* ---- opening */

/* The token `name`; -1: the vocabulary does not have it as one token. */
static int32_t token_named(const struct tft_model *m, const char *name)
{
    int32_t ids[2];
    size_t n, len;
    if (tft_tokenize(m, name, strlen(name), TFT_PARSE_SPECIAL, ids, 2, &n) != TFT_OK || n != 1)
        return -1;
    const char *p = tft_token_text(m, ids[0], true, &len);
    return len == strlen(name) && memcmp(p, name, len) == 0 ? ids[0] : -1;
}

/* where: the file or the option, for messages */
static int compile(struct form *f, const char *where, enum tft_grammar_kind kind, const char *text,
                   size_t len)
{
    struct tft_error err;
    if (!f->lexicon && tft_lexicon_open(&f->lexicon, f->m, &err) != TFT_OK)
        return cli_fail("%s", err.msg);
    if (tft_grammar_open(&f->grammar, f->lexicon, kind, text, len, &err) != TFT_OK ||
        tft_grammar_begin(&f->fresh, f->grammar, &err) != TFT_OK ||
        tft_grammar_begin(&f->now, f->grammar, &err) != TFT_OK)
        return cli_fail("%s: %s", where, err.msg);
    return CLI_OK;
}

/* Whether the argument of --json-schema is a schema, not a file: it begins with a brace, or is true
   or false. */
static bool is_schema(const char *text)
{
    text += strspn(text, " \t\r\n");
    return *text == '{' || strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
}

static int compile_schema(struct form *f)
{
    struct tft_chat_text grammar;
    struct tft_error err;
    bool text = is_schema(opt.schema);
    size_t len = strlen(opt.schema);
    char *read = text ? NULL : cli_read(opt.schema, &len);
    const char *where = text ? "--json-schema" : opt.schema;
    int status = CLI_FAILED;
    if (!text && !read)
        return CLI_FAILED;
    if (tft_chat_schema(&grammar, text ? opt.schema : read, len,
                        opt.any_order ? TFT_SCHEMA_ANY_ORDER : 0, &err) == TFT_OK) {
        status = compile(f, where, TFT_GBNF, grammar.p, grammar.n);
        tft_chat_text_free(&grammar);
    } else {
        cli_fail("%s: %s", where, err.msg);
    }
    free(read);
    return status;
}

void form_none(struct form *f, const struct tft_model *m)
{
    *f = (struct form){
        .m = m, .think = token_named(m, "<think>"), .think_end = token_named(m, "</think>")};
}

int form_open(struct form *f, const struct tft_model *m)
{
    form_none(f, m);
    if (opt.schema)
        return compile_schema(f);
    if (opt.regex)
        return compile(f, "--regex", TFT_REGEX, opt.regex, strlen(opt.regex));
    size_t len;
    char *text = opt.grammar ? cli_read(opt.grammar, &len) : NULL;
    int status = !opt.grammar ? CLI_OK
                 : !text      ? CLI_FAILED
                              : compile(f, opt.grammar, TFT_GBNF, text, len);
    free(text);
    return status;
}

static void close_grammar(struct form *f)
{
    tft_grammar_end(f->now);
    tft_grammar_end(f->fresh);
    if (!f->borrowed)
        tft_grammar_close(f->grammar);
    f->now = f->fresh = NULL;
    f->grammar = NULL;
}

int form_replace(struct form *f, const char *where, const char *gbnf, size_t n)
{
    close_grammar(f);
    return compile(f, where, TFT_GBNF, gbnf, n);
}

void form_close(struct form *f)
{
    close_grammar(f);
    tft_lexicon_close(f->lexicon);
}

/* ---- a text */

static bool is_space(const struct tft_model *m, int32_t id)
{
    size_t n;
    const char *p = tft_token_text(m, id, false, &n);
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\n')
            return false;
    return n > 0;
}

int form_begin(struct form *f, const int32_t *ids, size_t n, bool thinks)
{
    if (!f->grammar)
        return CLI_OK;
    if (tft_grammar_copy(f->now, f->fresh) != TFT_OK)
        return cli_fail("out of memory");
    bool knows = f->think >= 0 && f->think_end >= 0;
    while (n && is_space(f->m, ids[n - 1]))
        n--;
    f->phase = knows && n && ids[n - 1] == f->think ? FORM_THINKING
               : knows && thinks                    ? FORM_OPEN
                                                    : FORM_TEXT;
    return CLI_OK;
}

/* Follows a token that was sampled outside the form, and returns the token to use. -1: sample
   again, within the form. If a model ends its answer within its thoughts, the thoughts end
   instead. */
static int32_t take_free(struct form *f, int32_t id)
{
    enum form_phase before = f->phase;
    f->phase = FORM_TEXT;
    if (before == FORM_OPEN && id == f->think)
        f->phase = FORM_THINKING;
    else if (before == FORM_CLOSED)
        return is_space(f->m, id) ? id : -1;
    else if (before == FORM_OPEN)
        return -1;
    else if (id != f->think_end && !tft_token_ends(f->m, id))
        f->phase = FORM_THINKING;
    else {
        f->phase = FORM_CLOSED;
        return f->think_end;
    }
    return id;
}

static int32_t draw(const struct form *f, struct tft_sampler *z, struct tft_session *s)
{
    return f->logits ? tft_sample_logits(z, s, f->logits) : tft_sample(z, s);
}

static int32_t sample(struct form *f, struct tft_sampler *z, struct tft_session *s)
{
    const struct tft_sampler before = *z;
    z->grammar = f->phase == FORM_TEXT ? f->now : NULL;
    int32_t id = draw(f, z, s);
    if (f->phase == FORM_TEXT || id < 0)
        return id;
    id = take_free(f, id);
    f->outside = id >= 0;
    if (id >= 0)
        return id;
    *z = before; /* the first token does not count */
    z->grammar = f->now;
    return draw(f, z, s);
}

/* The tokens that the form forces next. */
static size_t forced(struct form *f, int32_t *ids, size_t most)
{
    return f->grammar && f->phase == FORM_TEXT ? tft_grammar_forced(f->now, ids, most) : 0;
}

/* The tokens that end thoughts, if the budget is spent. A form that has begun has no thoughts. */
static size_t end_thoughts(struct form *f, int32_t *ids)
{
    size_t n = f->grammar && f->phase != FORM_THINKING ? 0 : thinking_forced(&f->thinking, ids);
    if (!n)
        return 0;
    if (f->grammar)
        f->phase = FORM_CLOSED;
    f->thinking.at = THINKING_OVER; /* once, whatever the tokens' text is */
    f->outside = true;
    return n;
}

/* Counts forced tokens for the sampler. */
static void count(struct tft_sampler *z, size_t n)
{
    if (z->min_tokens < UINT32_MAX)
        z->min_tokens -= n < z->min_tokens ? (uint32_t)n : z->min_tokens;
}

const char *form_error(const struct tft_session *s)
{
    const struct tft_error *err = tft_session_error(s);
    return err->code != TFT_OK
               ? err->msg
               : "no token can come: there are more than 4096 ways to read the text by the "
                 "grammar, or the vocabulary has no token that fits";
}

bool form_is_done(const struct form *f)
{
    return f->grammar && f->phase == FORM_TEXT && tft_grammar_is_done(f->now);
}

int form_next(struct form *f, struct tft_sampler *z, struct tft_session *s, int32_t ids[FORM_MOST],
              size_t *n)
{
    size_t come = 0; /* tokens that the sampler has counted */
    *n = 0;
    f->outside = false;
    if (form_is_done(f))
        return 0;
    *n = end_thoughts(f, ids);
    if (!*n)
        *n = forced(f, ids, FORM_MOST);
    if (!*n) {
        *ids = sample(f, z, s);
        if (*ids < 0)
            return -1;
        if (tft_token_ends(f->m, *ids))
            return 0;
        *n = 1 + forced(f, ids + 1, FORM_MOST - 1);
        come = 1;
    }
    for (size_t i = 0; i < *n; i++)
        thinking_take(&f->thinking, ids[i]);
    count(z, *n - come);
    return 1;
}

int form_generate(struct form *f, struct tft_sampler *z, struct tft_session *s, struct form_text *t)
{
    char piece[TFT_TEXT_MAX];
    enum tft_status status = TFT_OK;
    bool written = true;
    int more = 1;
    if (t->n >= t->most)
        t->stop = "length";
    while (written && more > 0 && status == TFT_OK && !t->stop) {
        int32_t ids[FORM_MOST];
        size_t n;
        more = form_next(f, z, s, ids, &n);
        if (cli_interrupted())
            t->stop = "interrupt";
        else if (!more)
            t->stop = "end";
        for (size_t i = 0; i < n && written && !t->stop; i++) {
            size_t len = tft_text_push(t->text, f->m, ids[i], piece);
            written = t->put(t->user, f->outside && !i ? -1 : ids[i], piece, len);
            if (++t->n == t->most)
                t->stop = "length";
            else if (t->loops && loops_take(t->loops, ids[i]))
                t->stop = "loop";
        }
        if (written && more > 0 && !t->stop && !form_is_done(f)) {
            uint64_t start = cli_ns();
            status = tft_prefill(s, ids, n); /* not if !written: errno has the reason */
            power_rest(start);
        }
    }
    if (!written)
        return cli_fail("standard output: %s", strerror(errno));
    if (t->stop || (more > 0 && status == TFT_ERR_FULL))
        return CLI_OK;
    if (t->in_line && system_is_terminal(STDERR_FILENO))
        putchar('\n');
    if (more > 0)
        return cli_fail_session(s);
    return cli_fail("%s", form_error(s));
}
