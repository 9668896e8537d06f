/*
 * The input is a request to tuffet serve: lines with the method and the path, the headers Host,
 * Origin and Authorization, and the body after them. Each request gets one reply, whole or a stream
 * that ends; an error is one line. An engine that computes nothing takes its jobs, and answers with
 * tokens that the body makes up.
 */
#define _POSIX_C_SOURCE 200809L /* mkdtemp */
#include "models.h"

#include "tools/serve/access.h"
#include "tools/serve/answer.h"
#include "tools/serve/aside.h"
#include "tools/serve/embedder.h"
#include "tools/serve/engine.h"
#include "tools/serve/fields.h"
#include "tools/serve/pool.h"
#include "tools/serve/router.h"

enum { CAPACITY = 500, MOST_ANSWER = 64 };

static struct {
    const char *host, *origin, *key, *body;
    size_t n_body, replies;
} now;

/* ---- exchange.c's part, with evhttp */

static json_t *read_input(struct exchange *x, json_t *read(const char *p, size_t n, char *why))
{
    char why[FIELDS_WHY];
    json_t *body = read(now.body, now.n_body, why);
    if (!body)
        reply_error(x, 400, "invalid_request_error", "%s", why);
    return body;
}

json_t *exchange_json(struct exchange *x) { return read_input(x, json_body); }
json_t *exchange_list(struct exchange *x) { return read_input(x, json_list); }

const char *exchange_header(const struct exchange *x, const char *name)
{
    (void)x;
    return strcmp(name, "Host") == 0            ? now.host
           : strcmp(name, "Origin") == 0        ? now.origin
           : strcmp(name, "Authorization") == 0 ? now.key
                                                : NULL;
}

void exchange_drop(struct exchange *x) { MUST(!x->ended); }

void reply_header(struct exchange *x, const char *name, const char *value)
{
    MUST(!x->streaming && *name && value && !strpbrk(value, "\r\n"));
}

void reply_text(struct exchange *x, int code, const char *type, const char *p, size_t n)
{
    MUST(!x->ended && !x->streaming && code >= 200 && code < 600 && *type);
    touch(p, n);
    x->ended = true;
    now.replies++;
}

static void take_json(json_t *body)
{
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    MUST(text);
    json_decref(body);
    free(text);
}

void reply_json(struct exchange *x, int code, json_t *body)
{
    take_json(body);
    reply_text(x, code, "application/json", "", 0);
}

void reply_begin(struct exchange *x, const char *type)
{
    MUST(!x->ended && !x->streaming && *type);
    x->streaming = true;
}

void reply_part(struct exchange *x, const char *p, size_t n)
{
    MUST(x->streaming && !x->ended);
    touch(p, n);
}

void reply_event(struct exchange *x, json_t *part)
{
    take_json(part);
    reply_part(x, "", 0);
}

void reply_typed(struct exchange *x, json_t *part)
{
    MUST(json_string_length(json_object_get(part, "type")));
    reply_event(x, part);
}

void reply_line(struct exchange *x, json_t *part) { reply_event(x, part); }

void reply_end(struct exchange *x)
{
    MUST(x->streaming && !x->ended);
    x->ended = true;
    now.replies++;
}

/* ---- aside.c's part: there is no loop */

void aside_begin(void) {}
void aside_end(void) {}
bool aside_is_here(void) { return false; }
void aside_run(struct exchange *x, void (*handle)(struct exchange *x)) { handle(x); }

bool aside_uses(const struct server *s, const struct served *m)
{
    (void)s;
    (void)m;
    return false;
}

void reply_error(struct exchange *x, int code, const char *type, const char *fmt, ...)
{
    char message[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    MUST(code >= 400 && *type && *message && !strchr(message, '\n'));
    if (x->streaming)
        reply_end(x);
    else
        reply_text(x, code, type, message, strlen(message));
}

/* ---- an engine that computes nothing */

/* No list of models is made or freed. */
struct served *served_new(char *id, char *path, const struct setup_own *own)
{
    MUST(!id && !path && !own);
    return NULL;
}

void served_free(struct served *s) { MUST(!s); }

size_t engine_capacity(const struct engine *e)
{
    (void)e;
    return CAPACITY;
}

struct engine_counts engine_counts(struct engine *e)
{
    (void)e;
    return (struct engine_counts){0};
}

struct store_counts engine_stored(struct engine *e)
{
    (void)e;
    return (struct store_counts){0};
}

void engine_cancel(struct engine *e, struct job *j)
{
    (void)e;
    atomic_store(&j->cancelled, true);
}

size_t engine_width(const struct engine *e)
{
    (void)e;
    return 8; /* n_embd of the toy */
}

bool engine_put_texts(struct engine *e, struct job *j)
{
    (void)e;
    MUST(j->texts->n);
    return false; /* too many wait */
}

void engine_do(struct engine *e, struct chore *c)
{
    (void)e;
    MUST(c->slot < 4 && memchr(c->path, 0, sizeof c->path));
    c->status = TFT_ERR_NOMEM;
    c->done(c);
}

static bool put(void *user, struct job *j, enum item_kind kind, size_t index, const char *p,
                size_t n)
{
    struct item *item = malloc(sizeof *item + n + 1);
    (void)user;
    MUST(item);
    *item = (struct item){.job = j, .kind = kind, .index = index, .n = n};
    if (n)
        memcpy(item->p, p, n);
    item->p[n] = 0;
    j->take(j->user, item);
    free(item);
    return true;
}

/* The answer: tokens of the model by the last bytes of the body. */
static void answer(struct job *j)
{
    size_t n = now.n_body < MOST_ANSWER ? now.n_body : MOST_ANSWER;
    bool more = true;
    MUST(answer_begin(j, put, NULL));
    for (size_t i = 0; i < n && more; i++) {
        int32_t id = (unsigned char)now.body[now.n_body - 1 - i] * 5 / 3 % TOY_VOCAB;
        struct tft_choice chosen = {id, -1};
        if (j->logprobs >= 0)
            put(NULL, j, ITEM_TOKEN, 0, (const char *)&chosen, sizeof chosen);
        more = answer_token(j, id);
        j->n_tokens++;
    }
    MUST(answer_end(j));
    j->finish = atomic_load(&j->cancelled) ? "cancelled" : more ? "length" : "stop";
    put(NULL, j, ITEM_END, 0, NULL, 0);
}

enum { MOST_JOBS = 64 };
static struct job *taken[MOST_JOBS];
static size_t n_taken;

bool engine_put(struct engine *e, struct job **jobs, size_t n)
{
    (void)e;
    MUST(n && n <= MOST_JOBS && !n_taken);
    if (now.n_body % 16 == 7)
        return false; /* too many wait */
    for (size_t i = 0; i < n; i++) {
        MUST(jobs[i]->n_ids <= CAPACITY);
        for (size_t k = 0; k < jobs[i]->n_ids; k++)
            MUST(jobs[i]->ids[k] >= 0 && jobs[i]->ids[k] < TOY_VOCAB);
        taken[n_taken++] = jobs[i];
    }
    return true;
}

/* ---- one model, which is open */

void pool_ask(struct exchange *x, enum pool_place place, void (*handle)(struct exchange *x))
{
    (void)place;
    x->served = *x->server->models;
    handle(x);
}

/* ---- requests */

#define JINJA                                                                                      \
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.tool_calls %}"                  \
    "{{ m.tool_calls | tojson }}{% endif %}{% endfor %}{% if tools %}{{ tools | tojson }}"         \
    "{% endif %}<|assistant|>"

static struct server *server(void)
{
    static char name[] = "toy";
    static struct served served = {
        .id = name, .path = name, .pooling = TFT_POOLING_MEAN, .info.file_type = "F32"};
    static struct served *models = &served;
    static struct server s = {.o = {.host = "127.0.0.1",
                                    .n_most = -1,
                                    .key = "secret",
                                    .origin = "https://a.org",
                                    .slot_folder = "/tmp",
                                    .n_slots = 4,
                                    .n_queue = 4},
                              .models = &models,
                              .n_models = 1};
    static const struct toy toy = {.arch = "llama",
                                   .n_vocab = TOY_VOCAB,
                                   .n_ctx = 512,
                                   .n_embd = 8,
                                   .n_layer = 1,
                                   .n_head = 1,
                                   .n_head_kv = 1,
                                   .head_dim = 8,
                                   .n_ff = 8,
                                   .n_rot = 8,
                                   .type = TFT_F32,
                                   .vocab = "llama",
                                   .fim = true,
                                   .chat_template = JINJA};
    if (!served.m) {
        static char engine; /* the functions above do not look at it */
        served.engine = (struct engine *)(void *)&engine;
        served.m = fuzz_toy(&toy);
        served.template = template_choose(served.m, "toy", false);
        served.tool_template = served.template;
        MUST(served.template);
    }
    return &s;
}

/* The next line, which ends in a NUL from here on; NULL: there is none. */
static char *line(char **at, char *end)
{
    char *start = *at, *stop = start < end ? memchr(start, '\n', (size_t)(end - start)) : NULL;
    if (!stop)
        return NULL;
    *stop = 0;
    *at = stop + 1;
    return start;
}

static void serve(char *method, char *path)
{
    struct server *s = server();
    struct exchange x = {.server = s, .client = 1};
    char *query = strchr(path, '?');
    if (query)
        *query++ = 0;
    x.path = path;
    x.query = query;
    x.dialect = route_dialect(path);
    now.replies = n_taken = 0;
    const struct claims c = {.bearer = now.key, .host = now.host, .origin = now.origin};
    if (!access_is_foreign(&s->o, &c) && (access_has_key(&s->o, &c) || route_is_public(path)))
        route(&x, method, path);
    else
        reply_error(&x, 403, "permission_error", "no");
    size_t n = n_taken;
    MUST(now.replies + (n > 0) == 1);
    for (size_t i = 0; i < n; i++)
        answer(taken[i]);
    MUST(now.replies == 1 && x.ended);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *all = malloc(size + 1), *at = all, *end = all + size;
    MUST(all);
    memcpy(all, data, size);
    *end = 0;
    char *method = line(&at, end), *path = method ? strchr(method, ' ') : NULL;
    now.host = line(&at, end);
    now.origin = line(&at, end);
    now.key = line(&at, end);
    now.host = now.host && *now.host ? now.host : NULL;
    now.origin = now.origin && *now.origin ? now.origin : NULL;
    now.key = now.key && *now.key ? now.key : NULL;
    now.body = at;
    now.n_body = (size_t)(end - at);
    if (path) {
        *path++ = 0;
        serve(method, path);
    }
    free(all);
    return 0;
}
