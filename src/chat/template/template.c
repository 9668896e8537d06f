/* The public interface of templates. */
#include "chat/tuffet_chat.h"

#include <string.h>

#include "base/alloc.h"
#include "base/options.h"
#include "chat/calls/call.h"
#include "chat/jinja/tree.h"
#include "input.h"

enum {
    MOST_SOURCE = 1 << 20,       /* bytes of a template */
    TEMPLATE_MEMORY = 256 << 20, /* bytes for reading it */
    MOST_DEPTH = 100,            /* of nested statements and expressions */
};

struct tft_chat_template {
    struct jinja pool; /* of the tree */
    const struct jinja_token *token;
    const struct jinja_node *body;
    enum chat_content content;
};

enum tft_status tft_chat_open(struct tft_chat_template **out, const char *source, size_t n,
                              struct tft_error *err)
{
    struct tft_chat_template *t = tft_alloc(NULL, sizeof *t);
    *out = NULL;
    if (!t)
        return tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    *t = (struct tft_chat_template){0};
    t->pool.what = "template";
    t->pool.max_memory = TEMPLATE_MEMORY;
    t->pool.max_steps = UINT64_MAX / 2;
    t->pool.max_depth = MOST_DEPTH;
    if (n > MOST_SOURCE)
        tft_jinja_fail(&t->pool, TFT_ERR_FULL, "the chat template has more than %d bytes",
                       MOST_SOURCE);
    else
        t->token = tft_jinja_lex(&t->pool, source, n);
    if (t->token)
        t->body = tft_jinja_parse(&t->pool, t->token);
    if (t->pool.status == TFT_OK && tft_chat_probe(&t->content, t) != TFT_OK)
        tft_jinja_fail(&t->pool, TFT_ERR_NOMEM, "out of memory");
    if (t->pool.status == TFT_OK) {
        *out = t;
        return TFT_OK;
    }
    enum tft_status status = t->pool.status;
    if (err)
        *err = t->pool.err;
    tft_chat_close(t);
    return status;
}

void tft_chat_close(struct tft_chat_template *t)
{
    if (!t)
        return;
    tft_jinja_free(&t->pool);
    tft_free(NULL, t, sizeof *t);
}

bool tft_chat_uses(const struct tft_chat_template *t, const char *variable)
{
    for (const struct jinja_token *k = t->token; k->kind != TOKEN_END; k++)
        if (k->kind == TOKEN_NAME && tft_jinja_is(k->name, variable))
            return true;
    return false;
}

bool tft_chat_takes_parts(const struct tft_chat_template *t) { return t->content != CHAT_TEXT; }

const char *tft_chat_call_format(const struct tft_chat_template *t)
{
    return tft_call_shown(t->token);
}

/* ---- running */

/* Copies the text, and turns its marks into spans. */
static enum tft_status finish(struct tft_chat_text *out, const struct jinja_buffer *b)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n; i++)
        n += b->mark[i] && (!i || !b->mark[i - 1]);
    out->p = tft_alloc(NULL, b->n + 1);
    out->trusted = tft_alloc(NULL, n * sizeof *out->trusted);
    out->n = b->n;
    if (!out->p || !out->trusted)
        return TFT_ERR_NOMEM;
    if (b->n)
        memcpy(out->p, b->p, b->n);
    out->p[b->n] = 0;
    for (size_t i = 0; i < b->n; i++) {
        if (b->mark[i] && (!i || !b->mark[i - 1]))
            out->trusted[out->n_trusted++].begin = i;
        if (b->mark[i])
            out->trusted[out->n_trusted - 1].end = i + 1;
    }
    return TFT_OK;
}

enum tft_status tft_chat_render(struct tft_chat_text *out, const struct tft_chat_template *t,
                                const struct tft_chat_input *in, struct tft_error *err)
{
    struct jinja_buffer text = {0};
    struct jinja_scope scope = {0};
    struct tft_chat_input i;
    *out = (struct tft_chat_text){0};
    enum tft_status status = tft_options_take(&i, sizeof i, in, "tft_chat_input", err);
    if (status != TFT_OK)
        return status;
    struct jinja x = tft_chat_pool(&i);
    x.scope = &scope;
    x.out = &text;
    struct jinja_value messages = tft_chat_set_variables(&x, &i, t->content);
    const struct jinja_string *last = tft_chat_last_text(&x, messages);
    if (x.status == TFT_OK)
        tft_jinja_run(&x, t->body);
    if (i.continue_last)
        tft_chat_cut_after_last(&x, &text, last);
    if (i.answer)
        tft_jinja_add_text(&x, &text, i.answer, i.n_answer, false);
    status = x.status;
    if (status != TFT_OK && err)
        *err = x.err;
    if (status == TFT_OK && finish(out, &text) != TFT_OK) {
        tft_chat_text_free(out);
        status = tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    }
    tft_jinja_free(&x);
    return status;
}

struct name {
    char *p; /* [n] and a NUL; NULL if the token has no name */
    size_t n;
};

/* Copies the name of a token, which the caller frees; false if memory is short. */
static bool copy_name(struct name *out, const struct tft_model *m, int32_t id)
{
    size_t n;
    const char *p = tft_token_text(m, id, true, &n);
    *out = (struct name){.p = p ? tft_alloc(NULL, n + 1) : NULL, .n = n + 1};
    if (out->p) {
        memcpy(out->p, p, n);
        out->p[n] = 0;
    }
    return !p || out->p;
}

enum tft_status tft_chat_render_for(struct tft_chat_text *out, const struct tft_chat_template *t,
                                    const struct tft_model *m, const struct tft_chat_input *in,
                                    struct tft_error *err)
{
    struct tft_chat_input with;
    *out = (struct tft_chat_text){0};
    enum tft_status status = tft_options_take(&with, sizeof with, in, "tft_chat_input", err);
    if (status != TFT_OK)
        return status;
    with.size = sizeof with;
    struct name bos = {0}, eos = {0};
    if (copy_name(&bos, m, tft_token_bos(m)) && copy_name(&eos, m, tft_token_eos(m))) {
        with.bos = with.bos ? with.bos : bos.p;
        with.eos = with.eos ? with.eos : eos.p;
        status = tft_chat_render(out, t, &with, err);
    } else {
        status = tft_fail(err, TFT_ERR_NOMEM, "out of memory");
    }
    tft_free(NULL, bos.p, bos.n);
    tft_free(NULL, eos.p, eos.n);
    return status;
}

void tft_chat_text_free(struct tft_chat_text *t)
{
    tft_free(NULL, t->p, t->n + 1);
    tft_free(NULL, t->trusted, t->n_trusted * sizeof *t->trusted);
    *t = (struct tft_chat_text){0};
}
