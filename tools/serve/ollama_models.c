/* The model for clients of Ollama: its name, its numbers, its template. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <time.h>

#include "catalog.h"
#include "fields.h"
#include "ollama.h"

json_t *ollama_date(int64_t since_1970)
{
    char text[40];
    time_t t = (time_t)since_1970;
    struct tm tm;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
    return json_string(text);
}

static json_t *details(const struct served *s)
{
    double n = (double)s->info.n_params / 1e6; /* 0: it has never been open */
    return json_pack("{s:s, s:s, s:s, s:[s], s:o, s:s}", "parent_model", "", "format", "gguf",
                     "family", s->arch, "families", s->arch, "parameter_size",
                     n > 0 ? json_sprintf("%.1fM", n) : json_string(""), "quantization_level",
                     s->info.file_type);
}

void ollama_version(struct exchange *x)
{
    reply_json(x, 200, json_pack("{s:s}", "version", tft_version()));
}

/* What the lists say of the model. */
static json_t *entry(const struct served *s)
{
    uint64_t size = s->file.size; /* of a split file, the first part */
    size = size > s->info.weight_bytes ? size : s->info.weight_bytes;
    return json_pack("{s:s, s:s, s:I, s:s, s:o}", "name", s->id, "model", s->id, "size",
                     (json_int_t)size, "digest", s->digest, "details", details(s));
}

static json_t *tag(const struct served *s)
{
    json_t *one = entry(s);
    json_object_set_new(one, "modified_at", ollama_date(s->modified));
    return one;
}

/* A model stays until keep_alive or another model ends it: one that has no such end stays long. */
static int64_t expiry(const struct served *s)
{
    const int64_t years = 100 * (int64_t)31556952, second = 1000000000;
    return (int64_t)time(NULL) + (s->keep == SERVED_FOREVER ? years : s->keep / second);
}

static json_t *loaded(const struct served *s)
{
    uint64_t on_device = s->info.weight_bytes * s->info.n_device / s->info.n_layer;
    json_t *one = entry(s);
    json_object_set_new(one, "size_vram", json_integer((json_int_t)on_device));
    json_object_set_new(one, "context_length", json_integer((json_int_t)s->capacity));
    json_object_set_new(one, "expires_at", ollama_date(expiry(s)));
    return one;
}

static void reply_list(struct exchange *x, bool open, json_t *(*make)(const struct served *s))
{
    const struct server *all = x->server;
    json_t *list = json_array();
    for (size_t i = 0; i < all->n_models; i++)
        if (!open || all->models[i]->state == SERVED_OPEN)
            json_array_append_new(list, make(all->models[i]));
    reply_json(x, 200, json_pack("{s:o}", "models", list));
}

void ollama_tags(struct exchange *x) { reply_list(x, false, tag); }
void ollama_ps(struct exchange *x) { reply_list(x, true, loaded); }

/* Numbers of the model, by their names in GGUF files. */
static json_t *model_info(const struct served *s)
{
    const struct tft_model_info *info = &s->info;
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {{"context_length", info->n_ctx},
                   {"embedding_length", info->n_embd},
                   {"block_count", info->n_layer},
                   {"attention.head_count", info->n_head},
                   {"attention.head_count_kv", info->n_head_kv}};
    json_t *facts = json_pack("{s:s}", "general.architecture", s->arch);
    if (info->n_params)
        json_object_set_new(facts, "general.parameter_count",
                            json_integer((json_int_t)info->n_params));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char name[128];
        if (!numbers[i].value) /* is not known before the model has been open */
            continue;
        snprintf(name, sizeof name, "%s.%s", s->arch, numbers[i].name);
        json_object_set_new(facts, name, json_integer(numbers[i].value));
    }
    return facts;
}

json_t *ollama_abilities(const struct served *s)
{
    bool ranks = s->pooling == TFT_POOLING_RANK,
         embeds = s->info.encoder || s->info.pooling != TFT_POOLING_NONE;
    json_t *all = json_pack("[s]", ranks ? "rerank" : embeds ? "embedding" : "completion");
    if (s->calls)
        json_array_append_new(all, json_string("tools"));
    if (s->thinks)
        json_array_append_new(all, json_string("thinking"));
    return all;
}

/* The model that the request names; NULL after a reply. */
static const struct served *shown(struct exchange *x)
{
    const struct server *all = x->server;
    if (all->n_models == 1)
        return *all->models;
    json_t *body = exchange_json(x);
    const char *name = json_string_value(json_object_get(body, "model"));
    name = name ? name : json_string_value(json_object_get(body, "name"));
    const struct served *s = name ? catalog_find(all, name) : NULL;
    if (body && !s)
        reply_error(x, 404, "not_found_error", "model \"%.100s\" not found", name ? name : "");
    json_decref(body);
    return s;
}

void ollama_show(struct exchange *x)
{
    const struct served *s = shown(x);
    const char *jinja = s && s->template ? template_source(s->template) /* --template-file, too */
                        : s && s->jinja  ? s->jinja
                                         : "";
    if (!s)
        return;
    reply_json(x, 200,
               json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "modelfile", "", "parameters", "",
                         "template", json_bytes(jinja, strlen(jinja)), "details", details(s),
                         "model_info", model_info(s), "capabilities", ollama_abilities(s)));
}
