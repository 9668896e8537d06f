#include "models.h"

#include <event2/http.h>
#include <stdlib.h>
#include <string.h>

#include "catalog.h"
#include "ollama.h"

/* The word of llama.cpp's server for the state. */
static const char *state_of(const struct served *s)
{
    switch (s->state) {
    case SERVED_OPENING: return "loading";
    case SERVED_OPEN: return "loaded";
    default: return "unloaded";
    }
}

/* Most numbers of a model are known once it has been open. */
static json_t *numbers(const struct served *s)
{
    const struct tft_model_info *info = &s->info;
    if (!s->capacity)
        return json_pack("{s:I,s:I}", "n_vocab", (json_int_t)info->n_vocab, "n_ctx_train",
                         (json_int_t)info->n_ctx);
    return json_pack("{s:I,s:I,s:I,s:I,s:I}", "n_vocab", (json_int_t)info->n_vocab, "n_ctx_train",
                     (json_int_t)info->n_ctx, "n_ctx", (json_int_t)s->capacity, "n_embd",
                     (json_int_t)info->n_embd, "n_params", (json_int_t)info->n_params);
}

static json_t *for_openai(const struct server *all, const struct served *s)
{
    return json_pack("{s:s,s:o,s:s,s:I,s:s,s:o,s:{s:s},s:o}", "id", s->id, "aliases",
                     catalog_aliases(all, s), "object", "model", "created",
                     (json_int_t)all->started, "owned_by", "tuffet", "meta", numbers(s), "status",
                     "value", state_of(s), "capabilities", ollama_abilities(s));
}

static json_t *for_anthropic(const struct server *all, const struct served *s)
{
    return json_pack("{s:s,s:s,s:s,s:o}", "type", "model", "id", s->id, "display_name", s->id,
                     "created_at", ollama_date(all->started));
}

static bool is_anthropic(const struct exchange *x)
{
    return exchange_header(x, "anthropic-version");
}

static json_t *describe(const struct exchange *x, const struct served *s)
{
    return is_anthropic(x) ? for_anthropic(x->server, s) : for_openai(x->server, s);
}

void models_list(struct exchange *x)
{
    const struct server *all = x->server;
    const struct served *first = all->models[0], *last = all->models[all->n_models - 1];
    json_t *list = json_array();
    for (size_t i = 0; i < all->n_models; i++)
        json_array_append_new(list, describe(x, all->models[i]));
    reply_json(x, 200,
               is_anthropic(x) ? json_pack("{s:o,s:b,s:s,s:s}", "data", list, "has_more", 0,
                                           "first_id", first->id, "last_id", last->id)
                               : json_pack("{s:s,s:o}", "object", "list", "data", list));
}

void models_one(struct exchange *x)
{
    char *name = evhttp_uridecode(x->path + strlen("/v1/models/"), 0, NULL);
    const struct served *s = name ? catalog_find(x->server, name) : NULL;
    if (is_anthropic(x))
        x->dialect = DIALECT_ANTHROPIC;
    if (!name)
        reply_error(x, 500, "server_error", "out of memory");
    else if (s)
        reply_json(x, 200, describe(x, s));
    else
        reply_error(x, 404, "not_found_error",
                    "there is no such model: /v1/models lists the models");
    free(name);
}
