#include "embeddings.h"

#include <stdlib.h>
#include <string.h>

#include "lost.h"
#include "request.h"
#include "vector.h"

/* ---- a request in progress */

/* Names of members in requests and replies. */
struct style {
    const char *member;          /* of the request: the texts */
    const char *head;            /* of the reply, before the first vector */
    const char *before, *behind; /* each vector */
    bool numbered;               /* ,"index":N} comes after `behind` */
};

struct call {
    struct exchange *x;
    struct served *served;
    struct job *job;
    const struct style *style;
    struct cli_text prompt; /* before each text; the model's */
    size_t n_tokens, n_dims, n_cut;
    bool base64, raw; /* vectors are written in base64; unscaled, of any length */
    bool failed;      /* out of memory */
    struct cli_text reply;
    void (*finish)(struct call *c); /* writes the part after the vectors */
};

static void free_call(struct call *c)
{
    job_free(c->job);
    free(c->reply.p);
    free(c);
}

/* ---- the reply */

static void say(struct call *c, const char *p)
{
    c->failed |= !cli_text_append(&c->reply, p, strlen(p));
}

/* Adds the members of `all` to the object being written. Takes the reference. */
static void say_members(struct call *c, json_t *all)
{
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;
    c->failed |= !text;
    if (text)
        say(c, text + 1); /* after the brace */
    free(text);
    json_decref(all);
}

/* Items are formatted as they come, so that many vectors do not block other clients at the end. */
static void say_vector(struct call *c, const struct item *item)
{
    const struct style *s = c->style;
    float *v = malloc(item->n);
    char number[48];
    if (!v) {
        c->failed = true;
        return;
    }
    memcpy(v, item->p, item->n);
    if (!c->raw)
        vector_normalise(v, c->n_dims);
    say(c, item->index ? "," : s->head);
    say(c, s->before);
    c->failed |= !(c->base64 ? vector_write_base64(&c->reply, v, c->n_dims)
                             : vector_write(&c->reply, v, c->n_dims));
    say(c, s->behind);
    snprintf(number, sizeof number, ",\"index\":%zu}", item->index);
    if (s->numbered)
        say(c, number);
    free(v);
}

static void gone(void *user)
{
    struct call *c = user;
    engine_cancel(c->served->engine, c->job);
}

static void end(struct call *c)
{
    const struct job *j = c->job;
    c->x->n_prompt = c->n_tokens;
    if (j->finish && strcmp(j->finish, "cancelled") != 0)
        c->finish(c);
    if (!j->finish)
        reply_error(c->x, 500, "server_error", "%s", j->error);
    else if (strcmp(j->finish, "cancelled") == 0)
        reply_error(c->x, 503, "unavailable_error", "the request was cancelled");
    else if (c->failed)
        reply_error(c->x, 500, "server_error", "out of memory");
    else
        reply_text(c->x, 200, "application/json; charset=utf-8", c->reply.p, c->reply.n);
    free_call(c);
}

static void take(void *user, const struct item *item)
{
    struct call *c = user;
    lost_watch(&c->x->lost);
    if (item->kind == ITEM_END)
        end(c);
    else if (!c->failed)
        say_vector(c, item);
}

/* ---- requests */

/* The token that ends a text: EOS, or [SEP] of BERT. False: none does. */
static bool end_token(const struct tft_model *m, int32_t *id)
{
    size_t n = 0;
    return tft_tokenize(m, "", 0, TFT_ADD_EOS, id, 1, &n) == TFT_OK && n == 1;
}

/* Reads the text of a string after the prompt. */
static void read_string(struct call *c, struct fields *f, struct prompt *p, const json_t *from,
                        bool special)
{
    const char *text = json_string_value(from);
    size_t n = json_string_length(from);
    struct cli_text all = {0};
    if (!c->prompt.n) {
        prompt_text(p, c->served, f, text, n, special);
        return;
    }
    if (cli_text_append(&all, c->prompt.p, c->prompt.n) && cli_text_append(&all, text, n))
        prompt_text(p, c->served, f, all.p, all.n, special);
    else
        fields_fail(f, "out of memory");
    free(all.p);
}

/* Reads a string or a list of tokens as text `at` of the job. special, cut: as in start. */
static void read_text(struct call *c, struct fields *f, const json_t *from, size_t at, bool special,
                      bool cut)
{
    const struct served *s = c->served;
    struct text *t = &c->job->texts->text[at];
    struct prompt p = {0};
    size_t room = engine_capacity(s->engine), ends = 0;
    int32_t end = 0;
    if (json_is_string(from)) {
        read_string(c, f, &p, from, special);
        ends = end_token(s->m, &end);
    } else {
        prompt_tokens(&p, s, f, from);
        if (f->failed) { /* the error names the member differently */
            f->failed = false;
            fields_fail(f, "%s[%zu] is not a list of tokens of the model", c->style->member, at);
        }
    }
    if (p.n_held)
        memmove(p.ids, p.ids + p.n_held, p.n * sizeof *p.ids);
    int32_t *ids = realloc(p.ids, (p.n + 1) * sizeof *ids);
    t->ids = ids ? ids : p.ids;
    t->n = p.n;
    if (!ids)
        fields_fail(f, "out of memory");
    if (cut && !f->failed && p.n + ends > room) {
        t->n = room - ends;
        c->n_cut++;
    }
    if (ends && !f->failed)
        t->ids[t->n++] = end;
    c->n_tokens += t->n + p.n_held;
    if (!t->n)
        fields_fail(f, "%s[%zu] has no tokens", c->style->member, at);
    else if (c->n_tokens > TEXTS_TOKENS)
        fields_fail(f, "%s has more than %d tokens", c->style->member, TEXTS_TOKENS);
}

/* Whether it is one text: a string, or a list of tokens. */
static bool is_text(const json_t *v)
{
    return json_is_string(v) || (json_is_array(v) && json_is_number(json_array_get(v, 0)));
}

static void read_texts(struct call *c, struct fields *f, const json_t *in, bool special, bool cut)
{
    bool one = is_text(in);
    size_t n = one ? 1 : json_array_size(in);
    if (n > TEXTS_MOST)
        fields_fail(f, "%s has more than %d texts", c->style->member, TEXTS_MOST);
    else if (!n)
        fields_fail(f, "%s must be a string, a list of tokens, or a list of these",
                    c->style->member);
    else if (!(c->job->texts = texts_new(n)))
        fields_fail(f, "out of memory");
    for (size_t i = 0; i < n && !f->failed; i++) {
        const json_t *text = one ? in : json_array_get(in, i);
        if (is_text(text))
            read_text(c, f, text, i, special, cut);
        else
            fields_fail(f, "%s[%zu] is neither a string nor a list of tokens", c->style->member, i);
    }
}

static void fail_pooling(struct fields *f, const struct served *s,
                         const struct tft_model_info *info)
{
    if (info->n_device)
        fields_fail(f, "embeddings are not computed on a device: --device cpu");
    else if (s->pooling == TFT_POOLING_RANK)
        fields_fail(f, "the model makes scores of pairs (/v1/rerank), and no vectors");
    else if (s->pooling == TFT_POOLING_OTHER)
        fields_fail(f, "the model's file asks for a pooling other than the mean and the last "
                       "token; tuffet serve --pooling mean or last overrules it");
    f->unsupported = f->failed;
}

/* The first text that does not fit; NULL: all do. */
static const struct text *too_long(const struct texts *all, size_t room)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->text[i].n > room)
            return &all->text[i];
    return NULL;
}

/* The prompt that `prompt_name` names, or `input_type`, which has no effect if the file has none of
   that name. */
static void read_prompt(struct call *c, struct fields *f)
{
    static const char *const types[][2] = {{"search_query", "query"},
                                           {"search_document", "document"}};
    const char *name = field_text(f, "prompt_name", NULL),
               *type = field_text(f, "input_type", NULL);
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i][0]) == 0)
            type = types[i][1];
    const char *of = name ? name : type ? type : "";
    const char *p = *of ? tft_model_prompt(c->served->m, of, &c->prompt.n) : NULL;
    c->prompt.p = (char *)(uintptr_t)p;
    if (name && type)
        fields_fail(f, "prompt_name and input_type both name a prompt: send one of them");
    else if (name && !p)
        fields_fail(f, "prompt_name: the model's file has no prompt of this name");
}

/* Tells the client that texts were cut. */
static void say_cut(const struct call *c)
{
    char text[100];
    if (!c->n_cut)
        return;
    snprintf(text, sizeof text, "%zu of %zu texts were cut to %zu tokens", c->n_cut,
             c->job->texts->n, engine_capacity(c->served->engine));
    reply_header(c->x, "X-Tuffet-Warning", text);
}

/* Reads `dimensions` and the texts `in`, and starts the job. If a member is wrong, also one that
   the caller has read with f, replies with the error. Frees the body. special: texts may name
   special tokens; cut: cuts a text that is too long. */
static void start(struct call *c, struct fields *f, const json_t *in, bool special, bool cut)
{
    struct exchange *x = c->x;
    struct tft_model_info info = {.size = sizeof info};
    const struct text *large = NULL;
    tft_model_describe(x->served->m, &info);
    int64_t width = (int64_t)engine_width(x->served->engine);
    c->n_dims = (size_t)field_integer(f, "dimensions", 1, width, width);
    if (!f->failed)
        fail_pooling(f, x->served, &info);
    if (!f->failed)
        read_prompt(c, f);
    if (!f->failed)
        read_texts(c, f, in, special, cut);
    if (!f->failed)
        large = too_long(c->job->texts, engine_capacity(x->served->engine));
    if (f->failed) {
        request_fail(x, f);
    } else if (large) {
        request_too_long(x, large->n, engine_capacity(x->served->engine));
    } else {
        c->job->client = x->client;
        c->job->take = take;
        c->job->user = c;
        x->gone = gone;
        x->user = c;
        say_cut(c);
        if (engine_put_texts(x->served->engine, c->job))
            c = NULL;
        else
            request_too_many(x);
    }
    if (c)
        free_call(c);
    json_decref(f->body);
}

/* Returns NULL after a reply. */
static struct call *begin(struct exchange *x, const struct style *style,
                          void (*finish)(struct call *c), struct fields *f)
{
    *f = (struct fields){.body = exchange_json(x)};
    if (!f->body)
        return NULL;
    parameters_check(f, f->body, API_EMBED);
    struct call *c = calloc(1, sizeof *c);
    struct job *j = job_new(x->served->m);
    if (c && j) {
        *c = (struct call){.x = x, .served = x->served, .job = j, .style = style, .finish = finish};
        j->loras = x->served->loras;
        return c;
    }
    reply_error(x, 500, "server_error", "out of memory");
    free(c);
    job_free(j);
    json_decref(f->body);
    return NULL;
}

/* Members that other routes honour: an error, unless they ask for the vectors that come. */
static void refuse(struct fields *f, const char *name, bool asks)
{
    if (!asks || f->failed)
        return;
    fields_fail(f, "%s is not supported by this route", name);
    f->unsupported = true;
}

static void refuse_format(struct fields *f)
{
    refuse(f, "encoding_format", strcmp(field_text(f, "encoding_format", "float"), "float") != 0);
}

static void refuse_norm(struct fields *f)
{
    refuse(f, "embd_normalize", field_integer(f, "embd_normalize", -1, INT32_MAX, 2) != 2);
}

/* ---- OpenAI */

static void openai_end(struct call *c)
{
    json_int_t n = (json_int_t)c->n_tokens;
    say(c, "],");
    say_members(c, json_pack("{s:s, s:{s:I, s:I}}", "model", c->served->id, "usage",
                             "prompt_tokens", n, "total_tokens", n));
}

void openai_embeddings(struct exchange *x)
{
    static const struct style style = {"input", "{\"object\":\"list\",\"data\":[",
                                       "{\"object\":\"embedding\",\"embedding\":", "", true};
    struct fields f;
    struct call *c = begin(x, &style, openai_end, &f);
    if (!c)
        return;
    const char *format = field_text(&f, "encoding_format", "float");
    c->base64 = strcmp(format, "base64") == 0;
    if (!c->base64 && strcmp(format, "float") != 0)
        fields_fail(&f, "encoding_format must be float or base64");
    refuse_norm(&f);
    bool cut = field_flag(&f, "truncate", false);
    start(c, &f, field(&f, "input"), false, cut);
}

/* ---- llama.cpp */

static void native_end(struct call *c) { say(c, "]"); }

void native_embedding(struct exchange *x)
{
    static const struct style style = {"content", "[", "{\"embedding\":[", "]", true};
    struct fields f;
    struct call *c = begin(x, &style, native_end, &f);
    if (!c)
        return;
    const json_t *in = field(&f, "input"); /* llama.cpp reads `input` and `content` */
    int64_t norm = field_integer(&f, "embd_normalize", -1, 2, 2);
    if (norm != -1 && norm != 2)
        fields_fail(&f, "embd_normalize must be -1 or 2");
    c->raw = norm == -1;
    refuse_format(&f);
    if (in && field(&f, "content"))
        fields_fail(&f, "input and content are both texts: send one of them");
    start(c, &f, in ? in : field(&f, "content"), true, false);
}

/* ---- Ollama */

static void embed_end(struct call *c)
{
    say(c, "],");
    say_members(c, json_pack("{s:s, s:I, s:I, s:I}", "model", c->served->id, "total_duration",
                             (json_int_t)(c->job->prompt_seconds * 1e9), "load_duration",
                             (json_int_t)0, "prompt_eval_count", (json_int_t)c->n_tokens));
}

/* Whether a request without a text has been answered: it only loads the model, which is there. */
static bool only_loads(struct call *c, struct fields *f, json_t *none)
{
    const json_t *in = field(f, c->style->member);
    bool empty = !in || (json_is_string(in) && !json_string_length(in)) ||
                 (json_is_array(in) && !json_array_size(in));
    if (!empty || f->failed) {
        json_decref(none);
        return false;
    }
    reply_json(c->x, 200, none);
    free_call(c);
    json_decref(f->body);
    return true;
}

void ollama_embed(struct exchange *x)
{
    static const struct style style = {"input", "{\"embeddings\":[", "", "", false};
    struct fields f;
    struct call *c = begin(x, &style, embed_end, &f);
    if (!c)
        return;
    bool cut = field_flag(&f, "truncate", true);
    refuse_format(&f);
    refuse_norm(&f);
    if (only_loads(c, &f, json_pack("{s:s, s:[]}", "model", x->served->id, "embeddings")))
        return;
    start(c, &f, field(&f, "input"), false, cut);
}

static void embeddings_end(struct call *c) { say(c, "}"); }

/* The older route: one text; the vector is not normalised. */
void ollama_embeddings(struct exchange *x)
{
    static const struct style style = {"prompt", "{\"embedding\":", "", "", false};
    struct fields f;
    struct call *c = begin(x, &style, embeddings_end, &f);
    if (!c)
        return;
    bool cut = field_flag(&f, "truncate", true);
    c->raw = true;
    refuse_format(&f);
    refuse_norm(&f);
    if (only_loads(c, &f, json_pack("{s:[]}", "embedding")))
        return;
    if (!json_is_string(field(&f, "prompt")))
        fields_fail(&f, "prompt must be a string");
    start(c, &f, field(&f, "prompt"), false, cut);
}
