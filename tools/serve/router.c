#include "router.h"

#include <string.h>

#include "anthropic.h"
#include "embeddings.h"
#include "native.h"
#include "ollama.h"
#include "openai.h"
#include "page.h"
#include "rerank.h"
#include "responses.h"

struct route {
    const char *method, *path;
    void (*handle)(struct exchange *x); /* NULL: known to clients, but not supported */
};

static void health(struct exchange *x) { reply_json(x, 200, json_pack("{s:s}", "status", "ok")); }

static const struct route routes[] = {
    {"GET", "/", serve_page},
    {"GET", "/health", health},
    {"GET", "/v1/health", health},
    {"GET", "/v1/models", openai_models},
    {"GET", "/v1/models/", openai_model}, /* and its name */
    {"GET", "/models", openai_models},
    {"POST", "/v1/chat/completions", openai_chat},
    {"POST", "/chat/completions", openai_chat},
    {"POST", "/v1/completions", openai_completions},
    {"POST", "/v1/embeddings", openai_embeddings},
    {"POST", "/embeddings", openai_embeddings},
    {"POST", "/v1/rerank", rerank},
    {"POST", "/v2/rerank", rerank},
    {"POST", "/rerank", rerank},

    {"POST", "/v1/responses", responses_create},
    {"POST", "/v1/responses/input_tokens", responses_count},
    {"GET", "/v1/responses/", responses_get}, /* and a name */
    {"DELETE", "/v1/responses/", responses_delete},
    {"POST", "/v1/messages", anthropic_messages},
    {"POST", "/v1/messages/count_tokens", anthropic_count},

    {"POST", "/completion", native_completion},
    {"POST", "/completions", native_completion},
    {"POST", "/infill", native_infill},
    {"POST", "/embedding", native_embedding},
    {"POST", "/tokenize", native_tokenize},
    {"POST", "/detokenize", native_detokenize},
    {"POST", "/apply-template", native_apply_template},
    {"GET", "/props", native_props},
    {"GET", "/metrics", native_metrics},
    {"GET", "/slots", native_slots},
    {"POST", "/slots/", native_slot}, /* and a number */

    {"GET", "/api/version", ollama_version},
    {"GET", "/api/tags", ollama_tags},
    {"GET", "/api/ps", ollama_ps},
    {"POST", "/api/show", ollama_show},
    {"POST", "/api/chat", ollama_chat},
    {"POST", "/api/generate", ollama_generate},
    {"POST", "/api/embed", ollama_embed},
    {"POST", "/api/embeddings", ollama_embeddings},

    {"POST", "/v1/audio/transcriptions", NULL},
    {"GET", "/lora-adapters", NULL},
    {"POST", "/lora-adapters", NULL},
    {"POST", "/models/load", NULL},
    {"POST", "/models/unload", NULL},
    {"POST", "/api/pull", NULL},
    {"POST", "/api/push", NULL},
    {"POST", "/api/create", NULL},
    {"POST", "/api/copy", NULL},
    {"DELETE", "/api/delete", NULL},
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
        if (r->handle)
            r->handle(x);
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
