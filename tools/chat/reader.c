#include "reader.h"

#include <errno.h>
#include <stdlib.h>

static void keep(struct reader *r, struct cli_text *t, const char *p, size_t n)
{
    if (!cli_text_append(t, p, n))
        r->err = ENOMEM;
}

static void take_event(void *user, const struct tft_chat_event *e)
{
    struct reader *r = user;
    if (e->kind == TFT_CHAT_CALL)
        keep(r, &r->name, e->p, e->n);
    else if (e->kind == TFT_CHAT_ARGUMENTS)
        keep(r, &r->arguments, e->p, e->n);
    else if (e->kind == TFT_CHAT_CALL_END)
        r->called = true;
    else if (r->only)
        r->cut = true;
    else if (!r->err && !r->show(r->user, e->p, e->n))
        r->err = errno;
}

int reader_open(struct reader *r, const struct tft_chat_tools *tools)
{
    struct tft_error err;
    return tft_chat_answer_open(&r->a, tools, true, take_event, r, &err) == TFT_OK
               ? CLI_OK
               : cli_fail("%s", err.msg);
}

void reader_close(struct reader *r)
{
    tft_chat_answer_close(r->a);
    free(r->name.p);
    free(r->arguments.p);
}

/* Whether the token has no text. It may be a mark of a call. */
static bool is_special(const struct tft_model *m, int32_t id)
{
    size_t n;
    tft_token_text(m, id, false, &n);
    return !n;
}

static bool succeeded(const struct reader *r)
{
    errno = r->err;
    return !r->err;
}

bool reader_take(struct reader *r, int32_t id, const char *p, size_t n)
{
    if (id < 0)
        return r->show(r->user, p, n);
    tft_chat_answer_push(r->a, p, n);
    if (is_special(r->m, id))
        tft_chat_answer_token(r->a, r->m, id);
    return succeeded(r);
}

bool reader_end(struct reader *r, const char *p, size_t n)
{
    tft_chat_answer_push(r->a, p, n);
    if (tft_chat_answer_end(r->a, NULL) != TFT_OK)
        r->cut = true;
    return succeeded(r);
}
