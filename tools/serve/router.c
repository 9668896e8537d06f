#include "router.h"

#include <string.h>

#include "anthropic.h"
#include "aside.h"
#include "embeddings.h"
#include "loop.h"
#include "lora_adapters.h"
#include "models.h"
#include "native.h"
#include "ollama.h"
#include "openai.h"
#include "page.h"
#include "pool.h"
#include "rerank.h"
#include "responses.h"

struct route {
    const char *method, *path;
    void (*handle)(struct exchange *x);         /* NULL: known to clients, but not supported */
    enum { NO_MODEL, IN_BODY, IN_QUERY } model; /* where the request names its model */
};

static void health(struct exchange *x) { reply_json(x, 200, json_pack("{s:s}", "status", "ok")); }

static const struct route routes[] = {
    {"GET", "/", serve_page, NO_MODEL},
    {"GET", "/health", health, NO_MODEL},
    {"GET", "/v1/health", health, NO_MODEL},
    {"GET", "/v1/models", models_list, NO_MODEL},
    {"GET", "/v1/models/", models_one, NO_MODEL}, /* and its name */
    {"GET", "/models", models_list, NO_MODEL},
    {"POST", "/v1/chat/completions", openai_chat, IN_BODY},
    {"POST", "/chat/completions", openai_chat, IN_BODY},
    {"POST", "/v1/completions", openai_completions, IN_BODY},
    {"POST", "/v1/embeddings", openai_embeddings, IN_BODY},
    {"POST", "/embeddings", openai_embeddings, IN_BODY},
    {"POST", "/v1/rerank", rerank, IN_BODY},
    {"POST", "/v2/rerank", rerank, IN_BODY},
    {"POST", "/rerank", rerank, IN_BODY},

    {"POST", "/v1/responses", responses_create, IN_BODY},
    {"POST", "/v1/responses/input_tokens", responses_count, IN_BODY},
    {"GET", "/v1/responses/", responses_get, NO_MODEL}, /* and a name */
    {"DELETE", "/v1/responses/", responses_delete, NO_MODEL},
    {"POST", "/v1/messages", anthropic_messages, IN_BODY},
    {"POST", "/v1/messages/count_tokens", anthropic_count, IN_BODY},

    {"POST", "/completion", native_completion, IN_BODY},
    {"POST", "/completions", native_completion, IN_BODY},
    {"POST", "/infill", native_infill, IN_BODY},
    {"POST", "/embedding", native_embedding, IN_BODY},
    {"POST", "/tokenize", native_tokenize, IN_BODY},
    {"POST", "/detokenize", native_detokenize, IN_BODY},
    {"POST", "/apply-template", native_apply_template, IN_BODY},
    {"GET", "/props", native_props, IN_QUERY},
    {"GET", "/metrics", native_metrics, NO_MODEL},
    {"GET", "/slots", native_slots, IN_QUERY},
    {"POST", "/slots/", native_slot, IN_QUERY}, /* and a number */

    {"GET", "/api/version", ollama_version, NO_MODEL},
    {"GET", "/api/tags", ollama_tags, NO_MODEL},
    {"GET", "/api/ps", ollama_ps, NO_MODEL},
    {"POST", "/api/show", ollama_show, NO_MODEL},
    {"POST", "/api/chat", ollama_chat, IN_BODY},
    {"POST", "/api/generate", ollama_generate, IN_BODY},
    {"POST", "/api/embed", ollama_embed, IN_BODY},
    {"POST", "/api/embeddings", ollama_embeddings, IN_BODY},

    {"GET", "/lora-adapters", lora_adapters_list, NO_MODEL},
    {"POST", "/lora-adapters", lora_adapters_change, NO_MODEL},

    {"POST", "/v1/audio/transcriptions", NULL, NO_MODEL},
    {"POST", "/models/load", NULL, NO_MODEL},
    {"POST", "/models/unload", NULL, NO_MODEL},
    {"POST", "/api/pull", NULL, NO_MODEL},
    {"POST", "/api/push", NULL, NO_MODEL},
    {"POST", "/api/create", NULL, NO_MODEL},
    {"POST", "/api/copy", NULL, NO_MODEL},
    {"DELETE", "/api/delete", NULL, NO_MODEL},
};
enum { ROUTES = sizeof routes / sizeof *routes };

bool route_is_public(const char *path)
{
    static const char *const all[] = {"/", "/health", "/v1/health"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i], path) == 0)
            return true;
    return false;
}

enum dialect route_dialect(const char *path)
{
    static const struct {
        const char *begins;
        enum dialect is;
    } all[] = {{"/api/", DIALECT_OLLAMA},
               {"/v1/messages", DIALECT_ANTHROPIC},
               {"/v1/responses", DIALECT_RESPONSES}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strncmp(path, all[i].begins, strlen(all[i].begins)) == 0)
            return all[i].is;
    return DIALECT_OPENAI;
}

/* A path that ends in a slash matches all paths that begin with it. */
static bool is_for(const struct route *r, const char *path)
{
    size_t n = strlen(r->path);
    return n > 1 && r->path[n - 1] == '/' ? strncmp(r->path, path, n) == 0
                                          : strcmp(r->path, path) == 0;
}

/* Requests of the exchange's key that are under way. */
static size_t running(const struct exchange *x)
{
    size_t n = 0;
    for (const struct exchange *o = x->server->loop->open; o; o = o->next)
        n += o->counts && !o->ended && strcmp(o->key_name, x->key_name) == 0;
    return n;
}

/* By the limits of its key; false after a reply. */
static bool may_begin(struct exchange *x)
{
    char why[QUOTA_WHY], text[16];
    if (!x->server->quota || !*x->key_name)
        return true;
    unsigned wait = quota_check(x->server->quota, x->key_name, running(x), cli_ns(), why);
    x->counts = !wait;
    if (!wait)
        return true;
    snprintf(text, sizeof text, "%u", wait);
    reply_header(x, "Retry-After", text);
    reply_error(x, 429, "rate_limit_error", "%s: try again in %u seconds", why, wait);
    return false;
}

static void ask_by_body(struct exchange *x) { pool_ask(x, POOL_BODY, x->handle); }
static void ask_by_query(struct exchange *x) { pool_ask(x, POOL_QUERY, x->handle); }

void route(struct exchange *x, const char *method, const char *path)
{
    const struct route *other = NULL;
    const char *asked = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (const struct route *r = routes; r < routes + ROUTES; r++) {
        if (!is_for(r, path))
            continue;
        other = r;
        if (strcmp(r->method, asked) != 0)
            continue;
        if (r->handle && r->model && strcmp(r->method, "POST") == 0 && !may_begin(x))
            return;
        x->handle = r->handle;
        if (r->handle)
            aside_run(x, r->model == IN_BODY    ? ask_by_body
                         : r->model == IN_QUERY ? ask_by_query
                                                : r->handle);
        else
            reply_error(x, 501, "not_supported_error", "this server does not have %s %s", method,
                        path);
        return;
    }
    if (other) {
        reply_header(x, "Allow", other->method);
        reply_error(x, 405, "invalid_request_error", "%s takes %s, not %s", path, other->method,
                    method);
    } else {
        reply_error(x, 404, "not_found_error", "there is no %s here", path);
    }
}
