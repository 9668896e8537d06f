#include "rerank.h"

#include <stdlib.h>
#include <string.h>

#include "aside.h"
#include "lost.h"
#include "request.h"
#include "tools/cli/inputs.h"

struct scored {
    size_t index;
    float score;
};

struct call {
    struct exchange *x;
    struct served *served;
    struct job *job;
    json_t *body;
    const char *member; /* of the documents: "documents", or "texts" of TEI */
    bool tei, with_text, cut;
    size_t n, n_tokens, n_cut, top;
    struct scored *scored; /* [n] */
};

static void free_call(struct call *c)
{
    job_free(c->job);
    json_decref(c->body);
    free(c->scored);
    free(c);
}

/* A document: a string, or an object with a text. */
static const json_t *text_of(const json_t *document)
{
    return json_is_object(document) ? json_object_get(document, "text") : document;
}

/* ---- the reply */

/* The best first; of equal ones, the first. */
static int compare(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static json_t *result(const struct call *c, const struct scored *s)
{
    json_t *one = json_pack("{s:I, s:f}", "index", (json_int_t)s->index,
                            c->tei ? "score" : "relevance_score", (double)s->score);
    const json_t *list = json_object_get(c->body, c->member);
    json_t *text = (json_t *)(uintptr_t)text_of(json_array_get(list, s->index));
    if (c->with_text && c->tei)
        json_object_set(one, "text", text);
    else if (c->with_text)
        json_object_set_new(one, "document", json_pack("{s:O}", "text", text));
    return one;
}

static json_t *reply(struct call *c)
{
    json_t *all = json_array();
    json_int_t n = (json_int_t)c->n_tokens;
    qsort(c->scored, c->n, sizeof *c->scored, compare);
    for (size_t i = 0; i < c->top; i++)
        json_array_append_new(all, result(c, &c->scored[i]));
    return c->tei
               ? all
               : json_pack("{s:s, s:s, s:{s:I, s:I}, s:o}", "model", c->served->id, "object",
                           "list", "usage", "prompt_tokens", n, "total_tokens", n, "results", all);
}

static void gone(void *user)
{
    struct call *c = user;
    engine_cancel(c->served->engine, c->job);
}

static void take(void *user, const struct item *item)
{
    struct call *c = user;
    lost_watch(&c->x->lost);
    if (item->kind != ITEM_END) {
        c->scored[item->index].index = item->index;
        memcpy(&c->scored[item->index].score, item->p, sizeof c->scored->score);
        return;
    }
    const char *finish = c->job->finish;
    c->x->n_prompt = c->n_tokens;
    if (!finish || strcmp(finish, "cancelled") == 0)
        reply_failure(c->x, c->job);
    else
        reply_json(c->x, 200, reply(c));
    free_call(c);
}

/* ---- the request */

static struct cli_text text(const json_t *v)
{
    return (struct cli_text){.p = (char *)(uintptr_t)json_string_value(v),
                             .n = json_string_length(v)};
}

static void fail_pair(struct call *c, struct fields *f, size_t i, const struct input *in,
                      enum tft_status status)
{
    size_t room = engine_capacity(c->served->engine);
    if (status == TFT_ERR_FULL && c->cut)
        fields_fail(f, "query leaves no room in the %zu tokens of a pair", room);
    else if (status == TFT_ERR_FULL)
        fields_fail(f, "%s[%zu] and the query have %zu tokens, but a pair holds only %zu",
                    c->member, i, in->whole, room);
    else if (status == TFT_ERR_NOMEM)
        fields_fail(f, "out of memory");
    else if (status == TFT_ERR_UNSUPPORTED)
        fields_fail(f, "the model has no tokenizer, or no token between the texts of a pair");
    else
        fields_fail(f, "%s[%zu] cannot be tokenized: %s", c->member, i, tft_status_text(status));
}

static void read_pair(struct call *c, struct fields *f, const json_t *query, size_t i)
{
    const json_t *document = text_of(json_array_get(json_object_get(c->body, c->member), i));
    struct text *t = &c->job->texts->text[i];
    struct input in = {0};
    if (!json_is_string(document)) {
        fields_fail(f, "%s[%zu] has no text", c->member, i);
        return;
    }
    size_t capacity = engine_capacity(c->served->engine);
    aside_begin();
    enum tft_status status =
        input_pair(&in, c->served->m, text(query), text(document), capacity, c->cut);
    aside_end();
    *t = (struct text){.ids = in.ids, .types = in.types, .n = in.n};
    c->n_tokens += in.n;
    c->n_cut += in.whole > in.n;
    if (status != TFT_OK)
        fail_pair(c, f, i, &in, status);
    else if (c->n_tokens > TEXTS_TOKENS)
        fields_fail(f, "%s has more than %d tokens", c->member, TEXTS_TOKENS);
}

static void read_pairs(struct call *c, struct fields *f)
{
    const json_t *query = field(f, "query"), *list = field(f, c->member);
    c->n = json_array_size(list);
    if (!json_is_string(query))
        fields_fail(f, "query must be a string");
    else if (!c->n)
        fields_fail(f, "%s must be a list of texts, and not empty", c->member);
    else if (c->n > TEXTS_MOST)
        fields_fail(f, "%s has more than %d texts", c->member, TEXTS_MOST);
    if (f->failed)
        return;
    c->job->texts = texts_new(c->n);
    c->scored = calloc(c->n, sizeof *c->scored);
    if (!c->job->texts || !c->scored)
        fields_fail(f, "out of memory");
    for (size_t i = 0; i < c->n && !f->failed; i++)
        read_pair(c, f, query, i);
}

/* Services that take `documents` cut too long ones; TEI refuses a text unless it is
   asked to cut it. */
static void read_request(struct call *c, struct fields *f)
{
    c->tei = field(f, "texts");
    c->member = c->tei ? "texts" : "documents";
    c->cut = field_flag(f, "truncate", !c->tei);
    c->with_text = field_flag(f, c->tei ? "return_text" : "return_documents", false);
    int64_t top = field_integer(f, "top_n", 1, INT32_MAX, INT32_MAX);
    if (c->tei && field(f, "documents"))
        fields_fail(f, "documents and texts are both texts: send one of them");
    if (!f->failed && c->served->pooling != TFT_POOLING_RANK) {
        f->unsupported = true;
        fields_fail(f, "the model is no reranker: it makes no scores of pairs");
    }
    if (!f->failed)
        read_pairs(c, f);
    c->top = (size_t)top < c->n ? (size_t)top : c->n;
}

static void start(struct call *c)
{
    struct exchange *x = c->x;
    char text[100];
    c->job->client = x->client;
    c->job->take = take;
    c->job->user = c;
    x->gone = gone;
    x->user = c;
    snprintf(text, sizeof text, "%zu of %zu texts were cut to %zu tokens", c->n_cut, c->n,
             engine_capacity(c->served->engine));
    if (c->n_cut)
        reply_header(x, "X-Tuffet-Warning", text);
    if (engine_put_texts(c->served->engine, c->job))
        return;
    request_too_many(x);
    free_call(c);
}

void rerank(struct exchange *x)
{
    struct fields f = {.body = exchange_json(x)};
    if (!f.body)
        return;
    struct call *c = calloc(1, sizeof *c);
    struct job *j = job_new(x->served->m);
    if (!c || !j) {
        reply_error(x, 500, "server_error", "out of memory");
        free(c);
        job_free(j);
        json_decref(f.body);
        return;
    }
    *c = (struct call){.x = x, .served = x->served, .job = j, .body = f.body};
    parameters_check(&f, f.body, API_RERANK);
    if (!f.failed)
        read_request(c, &f);
    if (!f.failed) {
        start(c);
        return;
    }
    request_fail(x, &f);
    free_call(c);
}
