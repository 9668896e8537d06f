/* Reads an answer while it is generated: text, and tool calls. */
#include "call.h"

#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

enum { HELD = 64, OUT = 256 };

struct tft_chat_answer {
    const struct tft_chat_tools *t;
    const struct call_format *f;
    void (*event)(void *user, const struct tft_chat_event *e);
    void *user;
    struct tft_text text; /* of tokens */
    char part[4];         /* [n_part] the start of a character */
    size_t n_part;
    enum place {
        START,   /* white space, in a format with calls at the start of an answer only */
        LEAD,    /* within mark[0] at the start: `matched` characters of it */
        TEXT,    /* text; within mark[0] if matched > 0 */
        PATTERN, /* at `at` of the pattern of `piece` */
        NAME,    /* of a tool */
        ID,      /* of a call; no event reports it */
        VALUE,   /* arguments */
        LISTED,  /* after a call in a list of calls */
        FORM,    /* text to the end of the answer */
    } place;
    enum piece { OPEN, CALL, COMMA, CLOSE } piece;
    const char *at;
    unsigned matched;
    char held[HELD]; /* [n_held] white space: dropped if a call follows, else text */
    size_t n_held;
    char name[CALL_NAME]; /* [n_name] */
    size_t n_name;
    size_t calls; /* complete calls and the current one */
    struct call_members arguments; /* in a format of JSON, `value` reads all arguments */
    bool undecided; /* calls or a form, until arguments of a tool or other text comes */
    bool is_form;   /* other text has come */
    char start[OUT]; /* [n_start] the answer while undecided */
    size_t n_start;
    char out[OUT]; /* [n_out] the text of the next event */
    size_t n_out;
    enum tft_chat_event_kind kind; /* of `out` */
    struct tft_error err;          /* code: TFT_OK, or the reason that the answer is invalid */
};

/* ---- events */

static void flush(struct tft_chat_answer *a)
{
    struct tft_chat_event e = {
        .size = sizeof e, .kind = a->kind, .index = a->calls, .p = a->out, .n = a->n_out};
    if (a->n_out)
        a->event(a->user, &e);
    a->n_out = 0;
}

/* Adds the whole characters p[n] to an event of text or arguments. */
static void put(struct tft_chat_answer *a, enum tft_chat_event_kind kind, const char *p, size_t n)
{
    if (a->undecided) {
        a->is_form |= n > 0;
        return;
    }
    if (a->kind != kind || n > OUT - a->n_out)
        flush(a);
    a->kind = kind;
    if (n)
        memcpy(a->out + a->n_out, p, n);
    a->n_out += n;
}

static void report(struct tft_chat_answer *a, enum tft_chat_event_kind kind, const char *p,
                   size_t n)
{
    struct tft_chat_event e = {.size = sizeof e, .kind = kind, .index = a->calls, .p = p, .n = n};
    flush(a);
    a->event(a->user, &e);
}

static void fail(struct tft_chat_answer *a, const char *what)
{
    if (a->err.code == TFT_OK)
        tft_fail(&a->err, TFT_ERR_FORMAT, "the answer is not a call in the format %s: %s",
                 a->f->name, what);
}

/* ---- text */

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static void put_held(struct tft_chat_answer *a)
{
    put(a, TFT_CHAT_TEXT, a->held, a->n_held);
    a->n_held = 0;
}

static void begin_piece(struct tft_chat_answer *a, enum piece piece)
{
    const char *patterns[] = {a->f->open, a->f->call, a->f->comma, a->f->close};
    a->place = PATTERN;
    a->piece = piece;
    a->at = patterns[piece];
}

/* Leaves a pattern at its end. */
static void go_on(struct tft_chat_answer *a)
{
    while (a->place == PATTERN && !*a->at)
        if (a->piece == OPEN || a->piece == COMMA) {
            begin_piece(a, CALL);
        } else if (a->piece == CLOSE) {
            a->place = TEXT;
        } else {
            report(a, TFT_CHAT_CALL_END, "", 0);
            a->calls++;
            if (a->f->comma)
                a->place = LISTED;
            else
                begin_piece(a, CLOSE);
        }
}

/* Begins a section, after mark[0] if sections begin with mark[0]. */
static void begin_section(struct tft_chat_answer *a)
{
    a->n_held = a->matched = 0;
    begin_piece(a, OPEN);
    if (!a->f->at_start)
        a->at += strlen(a->f->mark[0]);
    go_on(a);
}

/* Takes a character that is not white space in START, LEAD or TEXT; false: the caller takes the
   character again. */
static bool take_text(struct tft_chat_answer *a, const char *p, size_t n)
{
    const char *mark = a->f->at_start && a->place == TEXT ? NULL : a->f->mark[0];
    if (mark && *p == mark[a->matched]) {
        a->place = a->place == START ? LEAD : a->place;
        if (!mark[++a->matched])
            begin_section(a);
        return true;
    }
    put_held(a);
    a->place = TEXT;
    if (a->matched) {
        put(a, TFT_CHAT_TEXT, mark, a->matched);
        a->matched = 0;
        return false;
    }
    put(a, TFT_CHAT_TEXT, p, n);
    return true;
}

/* Holds white space back: a call drops it. */
static bool take_space(struct tft_chat_answer *a, const char *p)
{
    if (a->matched)
        return take_text(a, p, 1);
    if (a->n_held == HELD)
        put_held(a);
    a->held[a->n_held++] = *p;
    return true;
}

/* ---- calls */

/* Arguments follow the name of a tool: the answer is a call. */
static void decide(struct tft_chat_answer *a)
{
    const char *name = a->arguments.tool->name;
    a->undecided = false;
    report(a, TFT_CHAT_CALL, name, strlen(name));
}

static void take_name(struct tft_chat_answer *a)
{
    size_t tool = tft_call_find(a->t, a->name, a->n_name);
    if (tool == SIZE_MAX) {
        fail(a, "it names an undeclared tool");
        return;
    }
    a->arguments = (struct call_members){.f = a->f, .tool = &a->t->tool[tool]};
    if (!a->undecided)
        report(a, TFT_CHAT_CALL, a->t->tool[tool].name, a->n_name);
    a->place = PATTERN;
    a->at += 2;
}

static bool is_name(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static bool take_pattern(struct tft_chat_answer *a, const char *p)
{
    while (is_space(*a->at) || *a->at == '~')
        a->at++;
    if (is_space(*p))
        return true;
    if (!*a->at) {
        go_on(a);
        return false;
    }
    if (*a->at == '%') {
        a->place = a->at[1] == 'n' ? NAME : a->at[1] == 'i' ? ID : VALUE;
        if (a->place == VALUE && a->undecided)
            decide(a);
        a->n_name = 0;
        return false;
    }
    if (*p != *a->at)
        fail(a, "another text is expected");
    a->at++;
    go_on(a);
    return true;
}

/* Takes a character of arguments; false: the arguments ended, and the caller takes the character
   again. */
static bool take_value(struct tft_chat_answer *a, const char *p, size_t n)
{
    bool json = !a->f->members.middle;
    struct call_members *m = &a->arguments;
    enum call_took took = json ? tft_call_take(&m->value, p, n) : tft_call_take_member(m, p, n);
    if (took == CALL_BAD) {
        fail(a, "its arguments are not of the format");
        return true;
    }
    put(a, TFT_CHAT_ARGUMENTS, json ? m->value.out : m->out, json ? m->value.n_out : m->n_out);
    if (took != CALL_MORE) {
        a->place = PATTERN;
        a->at += 2;
        go_on(a);
    }
    return took != CALL_BEFORE;
}

/* Takes a character; false: the place changed, and the caller takes the character again. */
static bool take(struct tft_chat_answer *a, const char *p, size_t n)
{
    switch (a->place) {
    case START:
        if (*p == *a->f->open || (!*a->f->open && *p == *a->f->call)) {
            begin_section(a);
            return false;
        }
        /* fall through */
    case TEXT: return is_space(*p) ? take_space(a, p) : take_text(a, p, n);
    case LEAD: return take_text(a, p, n);
    case PATTERN: return take_pattern(a, p);
    case NAME:
        if (is_name(*p) && a->n_name < CALL_NAME)
            a->name[a->n_name++] = *p;
        else
            take_name(a);
        return a->place == NAME;
    case ID:
        if (is_name(*p))
            return true;
        a->place = PATTERN;
        a->at += 2;
        return false;
    case VALUE: return take_value(a, p, n);
    case FORM: put(a, TFT_CHAT_TEXT, p, n); return true;
    default:
        if (!is_space(*p))
            begin_piece(a, *p == *a->f->comma ? COMMA : CLOSE);
        return is_space(*p);
    }
}

/* The answer, from its start, is a form and no call. */
static void begin_form(struct tft_chat_answer *a)
{
    a->undecided = false;
    a->err = (struct tft_error){0};
    a->n_held = a->matched = 0;
    a->place = FORM;
    put(a, TFT_CHAT_TEXT, a->start, a->n_start);
}

static void take_character(struct tft_chat_answer *a, const char *p, size_t n)
{
    if (a->undecided && n > OUT - a->n_start)
        begin_form(a);
    if (a->undecided) {
        memcpy(a->start + a->n_start, p, n);
        a->n_start += n;
    }
    while (a->err.code == TFT_OK && !take(a, p, n))
        ;
    if (a->undecided && (a->is_form || a->err.code != TFT_OK))
        begin_form(a);
}

/* Takes the characters of part[n_part]. all: no bytes follow, so an incomplete last character is
   taken too. */
static void take_part(struct tft_chat_answer *a, bool all)
{
    while (a->n_part && a->err.code == TFT_OK) {
        uint32_t c;
        size_t n = tft_utf8_next(a->part, a->n_part, &c);
        if (c == TFT_UTF8_CUT && !all)
            return;
        if (c >= TFT_UTF8_BAD)
            take_character(a, "\xef\xbf\xbd", 3);
        else
            take_character(a, a->part, n);
        memmove(a->part, a->part + n, a->n_part - n);
        a->n_part -= n;
    }
}

/* ---- the functions */

enum tft_status tft_chat_answer_push(struct tft_chat_answer *a, const char *p, size_t n)
{
    for (size_t i = 0; i < n && a->err.code == TFT_OK; i++) {
        a->part[a->n_part++] = p[i];
        take_part(a, false);
    }
    flush(a);
    return a->err.code;
}

static bool is_mark(const struct call_format *f, const char *name, size_t n)
{
    for (size_t k = 0; k < CALL_MARKS && f->mark[k]; k++)
        if (strlen(f->mark[k]) == n && memcmp(f->mark[k], name, n) == 0)
            return true;
    return false;
}

enum tft_status tft_chat_answer_token(struct tft_chat_answer *a, const struct tft_model *m,
                                      int32_t id)
{
    char out[TFT_TEXT_MAX];
    size_t n, len;
    const char *text = tft_token_text(m, id, false, &n), *name = tft_token_text(m, id, true, &len);
    enum tft_status status = tft_chat_answer_push(a, out, tft_text_push(&a->text, m, id, out));
    bool marks = !(text && n) && name && is_mark(a->f, name, len);
    return marks ? tft_chat_answer_push(a, name, len) : status;
}

enum tft_status tft_chat_answer_end(struct tft_chat_answer *a, struct tft_error *err)
{
    take_part(a, true);
    if (a->undecided)
        begin_form(a);
    if (a->place == LEAD || a->place == TEXT || a->place == START || a->place == FORM) {
        if (a->matched || !a->calls)
            put_held(a);
        put(a, TFT_CHAT_TEXT, a->f->mark[0], a->matched);
        a->matched = 0;
    } else {
        fail(a, "it ends within a call");
    }
    flush(a);
    if (a->err.code != TFT_OK && err)
        *err = a->err;
    return a->err.code;
}

enum tft_status tft_chat_answer_open(struct tft_chat_answer **out,
                                     const struct tft_chat_tools *tools, bool text_goes_on,
                                     void (*event)(void *user, const struct tft_chat_event *e),
                                     void *user, struct tft_error *err)
{
    struct tft_chat_answer *a = *out = tft_alloc(NULL, sizeof *a);
    if (!a)
        return tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    *a = (struct tft_chat_answer){.t = tools,
                                  .f = tools->format,
                                  .event = event,
                                  .user = user,
                                  .text.started = text_goes_on,
                                  .place = tools->format->at_start ? START : TEXT};
    return TFT_OK;
}

void tft_chat_answer_or_form(struct tft_chat_answer *a) { a->undecided = true; }

void tft_chat_answer_close(struct tft_chat_answer *a) { tft_free(NULL, a, sizeof *a); }
