/* Writes the grammar of an answer with calls. */
#include "call.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

struct writer {
    struct schema *c;
    const struct tft_chat_tools *t;
    const struct call_format *f;
    size_t only; /* the tool that may be called; SIZE_MAX: any */
};

/* The special token of the name; -1: the name is an ordinary token, or absent. */
static int32_t special(const struct tft_model *m, const char *name)
{
    int32_t ids[2];
    size_t n, len;
    if (!m || tft_tokenize(m, name, strlen(name), TFT_PARSE_SPECIAL, ids, 2, &n) != TFT_OK ||
        n != 1)
        return -1;
    const char *p = tft_token_text(m, ids[0], true, &len);
    bool named = p && len == strlen(name) && memcmp(p, name, len) == 0;
    tft_token_text(m, ids[0], false, &len);
    return named && !len ? ids[0] : -1;
}

static void write_marks(struct writer *w, const struct tft_model *m)
{
    for (unsigned k = 0; k < CALL_MARKS && w->f->mark[k]; k++) {
        int32_t id = special(m, w->f->mark[k]);
        tft_schema_put(w->c, "mark%u ::= ", k);
        if (id >= 0)
            tft_schema_put(w->c, "<[%d]>", (int)id);
        else
            tft_schema_literal(w->c, w->f->mark[k], strlen(w->f->mark[k]));
        tft_schema_put(w->c, "\n");
    }
}

/* The mark at the start of a pattern; CALL_MARKS: none. */
static unsigned mark_at(const struct call_format *f, const char *p)
{
    unsigned k = 0;
    while (k < CALL_MARKS && !(f->mark[k] && strncmp(p, f->mark[k], strlen(f->mark[k])) == 0))
        k++;
    return k;
}

/* Writes the expression of a pattern. */
static void put_pattern(struct writer *w, const char *p, const struct call_tool *tool)
{
    tft_schema_put(w->c, " \"\"");
    while (*p && w->c->x->status == TFT_OK) {
        unsigned mark = mark_at(w->f, p);
        size_t n = 0;
        tft_schema_put(w->c, " ");
        if (mark < CALL_MARKS) {
            tft_schema_put(w->c, "mark%u", mark);
            p += strlen(w->f->mark[mark]);
            continue;
        }
        if (*p == '%') {
            if (p[1] == 'n')
                tft_schema_literal(w->c, tool->name, strlen(tool->name));
            else if (p[1] == 'i')
                tft_schema_put(w->c, " [a-zA-Z0-9]{9}");
            else
                tft_schema_put(w->c, "r%u", (unsigned)tool->rule);
            p += 2;
            continue;
        }
        if (*p == '~') {
            tft_schema_put(w->c, "\" \"?");
            p++;
            continue;
        }
        while (p[n] && p[n] != '%' && p[n] != '~' && mark_at(w->f, p + n) == CALL_MARKS)
            n++;
        tft_schema_literal(w->c, p, n);
        p += n;
    }
}

/* Writes the rules `call` (of one tool) and `section`. */
static void write_section(struct writer *w, bool one)
{
    tft_schema_put(w->c, "call ::=");
    for (size_t i = 0; i < w->t->n; i++)
        if (w->only == SIZE_MAX || w->only == i) {
            tft_schema_put(w->c, i && w->only == SIZE_MAX ? " |" : "");
            put_pattern(w, w->f->call, &w->t->tool[i]);
        }
    tft_schema_put(w->c, "\nsection ::=");
    if (w->f->at_start && w->f->mark[0])
        tft_schema_put(w->c, " mark0?");
    put_pattern(w, w->f->open, NULL);
    tft_schema_put(w->c, " call");
    if (w->f->comma && !one) {
        tft_schema_put(w->c, " (");
        put_pattern(w, w->f->comma, NULL);
        tft_schema_put(w->c, " call)*");
    }
    put_pattern(w, w->f->close, NULL);
    tft_schema_put(w->c, "\n");
}

/* Writes a rule for each i: text after the first i characters of the mark. The rule is a character
   that breaks the mark, then `other`. not_first: the mark's first character is excluded too. */
static void write_segments(struct schema *c, const char *rule, const char *mark, bool not_first,
                           const char *other)
{
    for (unsigned i = 1; mark[i]; i++) {
        tft_schema_put(c, "%s%u ::= ([^\\x00\\U%08x", rule, i, (unsigned)mark[i]);
        if (not_first)
            tft_schema_put(c, "\\U%08x", (unsigned)mark[0]);
        tft_schema_put(c, "] %s", other);
        if (mark[i + 1]) {
            tft_schema_put(c, " | ");
            tft_schema_literal(c, &mark[i], 1);
            tft_schema_put(c, " %s%u", rule, i + 1);
        }
        tft_schema_put(c, ")?\n");
    }
}

void tft_call_write_without(struct schema *c, const char *rule, const char *mark)
{
    char other[16];
    snprintf(other, sizeof other, "%s0", rule);
    tft_schema_put(c, "%s ::= [^\\x00\\U%08x]*\n", other, (unsigned)mark[0]);
    tft_schema_put(c, "%s ::= %s (", rule, other);
    tft_schema_literal(c, mark, 1);
    tft_schema_put(c, " %s1)*\n", rule);
    write_segments(c, rule, mark, true, other);
}

/* Writes the rule `text`: text that does not begin a call. */
static void write_text(struct writer *w)
{
    const char *mark = w->f->mark[0];
    struct schema *c = w->c;
    if (!w->f->at_start) {
        tft_call_write_without(c, "text", mark);
        return;
    }
    tft_schema_put(c, "text ::= [ \\t\\r\\n]* ([^\\x00 \\t\\r\\n{");
    if (mark)
        tft_schema_put(c, "\\U%08x", (unsigned)mark[0]);
    tft_schema_put(c, "] any");
    if (mark) {
        tft_schema_put(c, " | ");
        tft_schema_literal(c, mark, 1);
        tft_schema_put(c, " text1");
    }
    tft_schema_put(c, ")?\nany ::= [^\\x00]*\n");
    if (mark)
        write_segments(c, "text", mark, false, "any");
}

static void put_sections(struct writer *w, bool one)
{
    tft_schema_put(w->c, " section");
    if (!w->f->between || one)
        return;
    tft_schema_put(w->c, " (");
    put_pattern(w, w->f->between, NULL);
    tft_schema_put(w->c, " section)*");
}

static void write_root(struct writer *w, enum tft_chat_choice choice, bool one)
{
    struct schema *c = w->c;
    tft_schema_put(c, "root ::=");
    if (choice != TFT_CHAT_REQUIRED)
        tft_schema_put(c, " text");
    if (choice == TFT_CHAT_AUTO)
        tft_schema_put(c, w->f->at_start ? " |" : " (");
    if (choice != TFT_CHAT_NO_CALL)
        put_sections(w, one);
    if (choice == TFT_CHAT_AUTO && !w->f->at_start)
        tft_schema_put(c, ")?");
    tft_schema_put(c, "\n");
}

/* ---- a form beside calls */

/* The length of the text, class, token, comment or bounds at the start of p[n], in which words are
   no names of rules. */
static size_t skip_length(const char *p, size_t n)
{
    static const char opens[] = "\"[<#{", closes[] = "\"]>\n}";
    const char *kind = strchr(opens, *p);
    bool escapes = *p == '"' || *p == '[';
    size_t at = 1;
    if (!kind || !*p)
        return 0;
    while (at < n && p[at] != closes[kind - opens])
        at += escapes && p[at] == '\\' && at + 1 < n ? 2 : 1;
    return at < n ? at + 1 : n;
}

static size_t word_length(const char *p, size_t n)
{
    static const char set[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t len = 0;
    while (len < n && p[len] && strchr(set, p[len]))
        len++;
    return len;
}

/* Writes the rules of a grammar under names that begin with "form-". */
static void write_form(struct schema *c, const char *p, size_t n)
{
    for (size_t at = 0, len; at < n && tft_jinja_spend(c->x, 1); at += len) {
        size_t word = word_length(p + at, n - at), skip = skip_length(p + at, n - at);
        len = word ? word : skip ? skip : 1;
        if (word)
            tft_schema_put(c, "form-");
        tft_jinja_add_text(c->x, &c->out, p + at, len, true);
    }
    tft_schema_put(c, "\n");
}

/* ---- the functions */

static enum tft_status finish(struct writer *w, const struct tft_model *m,
                              struct tft_chat_text *out, struct tft_error *err)
{
    struct schema *c = w->c;
    write_marks(w, m);
    tft_jinja_add_text(c->x, &c->out, w->t->rules.p, w->t->rules.n, true);
    enum tft_status status = tft_schema_finish(out, c, err);
    tft_jinja_free(c->x);
    tft_free(NULL, c, sizeof *c);
    return status;
}

enum tft_status tft_chat_tools_grammar(struct tft_chat_text *out,
                                       const struct tft_chat_tools *tools,
                                       const struct tft_model *m, enum tft_chat_choice choice,
                                       const char *name, bool one, struct tft_error *err)
{
    struct jinja x = tft_schema_pool("tools");
    struct schema *c = tft_alloc(NULL, sizeof *c);
    struct writer w = {.c = c, .t = tools, .f = tools->format};
    *out = (struct tft_chat_text){0};
    if (!c)
        return tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    *c = (struct schema){.x = &x};
    w.only = name ? tft_call_find(tools, name, strlen(name)) : SIZE_MAX;
    if (name && w.only == SIZE_MAX)
        tft_jinja_fail(&x, TFT_ERR_ARG, "tools: no tool has the name %s", name);
    write_root(&w, choice, one);
    if (choice != TFT_CHAT_REQUIRED)
        write_text(&w);
    if (choice != TFT_CHAT_NO_CALL)
        write_section(&w, one);
    return finish(&w, m, out, err);
}

enum tft_status tft_chat_tools_or_form(struct tft_chat_text *out,
                                       const struct tft_chat_tools *tools,
                                       const struct tft_model *m, bool one, const char *form,
                                       size_t n, struct tft_error *err)
{
    struct jinja x = tft_schema_pool("tools");
    struct schema *c = tft_alloc(NULL, sizeof *c);
    struct writer w = {.c = c, .t = tools, .f = tools->format, .only = SIZE_MAX};
    *out = (struct tft_chat_text){0};
    if (!c)
        return tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    *c = (struct schema){.x = &x};
    tft_schema_put(c, "root ::= form-root |");
    put_sections(&w, one);
    tft_schema_put(c, "\n");
    write_section(&w, one);
    write_form(c, form, n);
    return finish(&w, m, out, err);
}
