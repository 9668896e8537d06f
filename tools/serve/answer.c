#include "answer.h"

#include <string.h>

static const char think[] = "<think>", think_end[] = "</think>";

static void put(struct job *j, enum item_kind kind, size_t index, const char *p, size_t n)
{
    if (!j->answer.put(j->answer.user, j, kind, index, p, n))
        j->answer.failed = true;
}

static void keep(struct job *j, struct cli_text *t, const char *p, size_t n)
{
    if (!cli_text_append(t, p, n))
        j->answer.failed = true;
}

static void drop(struct cli_text *t, size_t n)
{
    memmove(t->p, t->p + n, t->n - n);
    t->n -= n;
}

/* ---- the text, up to a stop */

static void put_text(struct job *j, const char *p, size_t n)
{
    if (n)
        put(j, ITEM_TEXT, 0, p, n);
}

/* Start of the first stop in p[n]; n: no stop. */
static size_t find_stop(struct job *j, const char *p, size_t n)
{
    for (size_t at = 0; at < n; at++)
        for (char **stop = j->stop; *stop; stop++) {
            size_t len = strlen(*stop);
            if (len <= n - at && memcmp(p + at, *stop, len) == 0) {
                j->answer.stopped = *stop;
                return at;
            }
        }
    return n;
}

/* Number of bytes at the end of p[n] that may be the beginning of a stop. */
static size_t maybe_stop(const struct job *j, const char *p, size_t n)
{
    size_t most = 0;
    for (char *const *stop = j->stop; *stop; stop++) {
        size_t len = strlen(*stop) - 1;
        for (len = len < n ? len : n; len > most; len--)
            if (memcmp(p + n - len, *stop, len) == 0)
                most = len;
    }
    return most;
}

static void take_text(struct job *j, const char *p, size_t n)
{
    struct answer *a = &j->answer;
    if (!*j->stop || a->stopped) {
        put_text(j, p, a->stopped ? 0 : n);
        return;
    }
    keep(j, &a->held, p, n);
    size_t end = find_stop(j, a->held.p, a->held.n);
    if (!a->stopped)
        end -= maybe_stop(j, a->held.p, a->held.n);
    put_text(j, a->held.p, end);
    drop(&a->held, a->stopped ? a->held.n : end);
}

/* ---- calls */

static void take_event(void *user, const struct tft_chat_event *e)
{
    struct job *j = user;
    switch (e->kind) {
    case TFT_CHAT_TEXT:
        if (!j->calls_only) /* a mark that max_tokens cut */
            take_text(j, e->p, e->n);
        break;
    case TFT_CHAT_CALL: put(j, ITEM_CALL, e->index, e->p, e->n); break;
    case TFT_CHAT_ARGUMENTS: put(j, ITEM_ARGUMENTS, e->index, e->p, e->n); break;
    case TFT_CHAT_CALL_END: j->answer.called = true; break;
    }
}

/* Text that is no call of the format is text all the same, but no text may be missing. */
static void check(struct job *j, enum tft_status status)
{
    j->answer.failed |= status == TFT_ERR_NOMEM;
}

/* Text outside thoughts. */
static void take_content(struct job *j, const char *p, size_t n)
{
    if (j->answer.calls)
        check(j, tft_chat_answer_push(j->answer.calls, p, n));
    else
        take_text(j, p, n);
}

/* ---- thoughts */

/* Number of bytes to take before the next tag, or before a possible beginning of the tag. *found:
   the tag follows. */
static size_t before_tag(const char *tag, const char *p, size_t n, bool *found)
{
    size_t len = strlen(tag);
    for (size_t at = 0; at < n; at++) {
        size_t rest = n - at < len ? n - at : len;
        if (memcmp(p + at, tag, rest) == 0) {
            *found = rest == len;
            return at;
        }
    }
    *found = false;
    return n;
}

static size_t spaces(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && (p[i] == ' ' || p[i] == '\n'))
        i++;
    return i;
}

/* One step through the waiting text; false: more text is needed. */
static bool step(struct job *j)
{
    struct answer *a = &j->answer;
    bool found = false;
    size_t n = a->tag.n, skip = 0;
    const char *p = a->tag.p;
    switch (a->at) {
    case ANSWER_START:
        skip = spaces(p, n);
        n = skip == n ? n : skip + before_tag(think, p + skip, n - skip, &found);
        if (!found && n == skip)
            return false; /* white space, and perhaps the beginning of the tag */
        a->at = found && n == skip ? ANSWER_THOUGHT : ANSWER_TEXT;
        n = a->at == ANSWER_THOUGHT ? n + strlen(think) : 0;
        break;
    case ANSWER_THOUGHT:
        n = before_tag(think_end, p, n, &found);
        if (n)
            put(j, ITEM_THOUGHT, 0, p, n);
        n += found ? strlen(think_end) : 0;
        a->at = found ? ANSWER_BEHIND : a->at;
        break;
    case ANSWER_BEHIND:
        n = spaces(p, n);
        a->at = n < a->tag.n ? ANSWER_TEXT : a->at;
        break;
    case ANSWER_TEXT: take_content(j, p, n); break;
    }
    bool on = n || a->at == ANSWER_TEXT;
    drop(&a->tag, n);
    return on && a->tag.n;
}

static void take(struct job *j, const char *p, size_t n)
{
    struct answer *a = &j->answer;
    if (!n)
        return;
    size_t lead = j->lead && !a->any && *p == ' ';
    a->any = true;
    if (a->at == ANSWER_TEXT) {
        take_content(j, p + lead, n - lead);
        return;
    }
    keep(j, &a->tag, p + lead, n - lead);
    while (!a->failed && a->tag.n && step(j))
        ;
}

/* Puts text that may have been the beginning of a tag. */
static void release(struct job *j)
{
    struct answer *a = &j->answer;
    if (a->at == ANSWER_THOUGHT && a->tag.n)
        put(j, ITEM_THOUGHT, 0, a->tag.p, a->tag.n);
    else if (a->at == ANSWER_START && a->tag.n)
        take_content(j, a->tag.p, a->tag.n);
    a->tag.n = 0;
}

/* ---- tokens */

bool answer_begin(struct job *j, job_put *to, void *user)
{
    j->answer = (struct answer){
        .put = to,
        .user = user,
        .text.started = j->text_goes_on,
        .at = j->plain        ? ANSWER_TEXT
              : j->in_thought ? ANSWER_THOUGHT
                              : ANSWER_START,
    };
    if (!j->tools)
        return true;
    if (tft_chat_answer_open(&j->answer.calls, j->tools, true, take_event, j, NULL) != TFT_OK)
        return false;
    if (j->or_form)
        tft_chat_answer_or_form(j->answer.calls);
    return true;
}

/* A special token has no text, but may be a mark of a call. */
static bool is_mark(const struct job *j, int32_t id)
{
    size_t n;
    tft_token_text(j->form.m, id, false, &n);
    return j->answer.calls && !n && j->answer.at != ANSWER_THOUGHT;
}

/* The tag that a special token stands for, which has no text; NULL: none, or no tag counts here. */
static const char *tag_of(const struct job *j, int32_t id)
{
    size_t n;
    tft_token_text(j->form.m, id, false, &n);
    return n || j->answer.at == ANSWER_TEXT ? NULL
           : id == j->form.think            ? think
           : id == j->form.think_end        ? think_end
                                            : NULL;
}

bool answer_token(struct job *j, int32_t id)
{
    struct answer *a = &j->answer;
    char piece[TFT_TEXT_MAX];
    const char *tag = tag_of(j, id);
    take(j, piece, tft_text_push(&a->text, j->form.m, id, piece));
    if (tag) {
        take(j, tag, strlen(tag));
    } else if (is_mark(j, id)) {
        release(j);
        a->at = ANSWER_TEXT;
        check(j, tft_chat_answer_token(a->calls, j->form.m, id));
    }
    return !a->stopped && !a->failed;
}

bool answer_end(struct job *j)
{
    struct answer *a = &j->answer;
    char piece[TFT_TEXT_MAX];
    take(j, piece, tft_text_push(&a->text, j->form.m, -1, piece));
    release(j);
    if (a->calls)
        check(j, tft_chat_answer_end(a->calls, NULL)); /* a call that was cut off stays incomplete:
                                                          "length" */
    if (!a->stopped)
        put_text(j, a->held.p, a->held.n);
    a->held.n = 0;
    return !a->failed;
}
