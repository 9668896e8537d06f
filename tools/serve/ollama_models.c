/* The model for clients of Ollama: its name, its numbers, its template. */
#define _POSIX_C_SOURCE 200809L
#include <string.h>
#include <time.h>

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

static const char *const weights[] = {"", "F32", "F16", "BF16", "I8", "PACKED"};

static json_t *details(const struct server *s)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(s->m, &info);
    return json_pack("{s:s, s:s, s:s, s:[s], s:o, s:s}", "parent_model", "", "format", "gguf",
                     "family", info.arch, "families", info.arch, "parameter_size",
                     json_sprintf("%.1fM", (double)info.n_params / 1e6), "quantization_level",
                     weights[info.weights]);
}

void ollama_version(struct exchange *x)
{
    reply_json(x, 200, json_pack("{s:s}", "version", tft_version()));
}

/* 64 hex digits, which name the same file in all runs. Clients show the first 12. */
static json_t *digest(const struct tft_model *m)
{
    struct tft_model_info info = {.size = sizeof info};
    char id[TFT_IDENTITY];
    tft_model_identity(m, id);
    tft_model_describe(m, &info);
    return json_sprintf("%s%016llx", id, (unsigned long long)info.n_params);
}

/* What the lists say of the model. */
static json_t *entry(const struct server *s)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(s->m, &info);
    return json_pack("{s:s, s:s, s:I, s:o, s:o}", "name", s->id, "model", s->id, "size",
                     (json_int_t)info.weight_bytes, "digest", digest(s->m), "details", details(s));
}

static void reply_entry(struct exchange *x, json_t *one)
{
    reply_json(x, 200, json_pack("{s:[o]}", "models", one));
}

void ollama_tags(struct exchange *x)
{
    json_t *one = entry(x->server);
    json_object_set_new(one, "modified_at", ollama_date(x->server->started));
    reply_entry(x, one);
}

/* The model stays as long as the server, whatever keep_alive says. */
void ollama_ps(struct exchange *x)
{
    enum { YEARS = 100 };
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(x->server->m, &info);
    uint64_t on_device = info.weight_bytes * info.n_device / info.n_layer;
    json_t *one = entry(x->server);
    json_object_set_new(one, "size_vram", json_integer((json_int_t)on_device));
    json_object_set_new(one, "context_length",
                        json_integer((json_int_t)engine_capacity(x->server->engine)));
    json_object_set_new(one, "expires_at",
                        ollama_date((int64_t)time(NULL) + YEARS * (int64_t)31556952));
    reply_entry(x, one);
}

/* Numbers of the model, by their names in GGUF files. */
static json_t *model_info(const struct server *s)
{
    struct tft_model_info info = {.size = sizeof info};
    tft_model_describe(s->m, &info);
    const struct {
        const char *name;
        uint32_t value;
    } numbers[] = {{"context_length", info.n_ctx},
                   {"embedding_length", info.n_embd},
                   {"block_count", info.n_layer},
                   {"attention.head_count", info.n_head},
                   {"attention.head_count_kv", info.n_head_kv}};
    json_t *facts = json_pack("{s:s, s:I}", "general.architecture", info.arch,
                              "general.parameter_count", (json_int_t)info.n_params);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s.%s", info.arch, numbers[i].name);
        json_object_set_new(facts, name, json_integer(numbers[i].value));
    }
    return facts;
}

void ollama_show(struct exchange *x)
{
    const struct server *s = x->server;
    const char *jinja = s->template ? template_source(s->template) : NULL;
    json_t *abilities = json_pack("[s]", "completion");
    if (s->tool_template)
        json_array_append_new(abilities, json_string("tools"));
    if (s->template && template_thinks(s->template))
        json_array_append_new(abilities, json_string("thinking"));
    reply_json(x, 200,
               json_pack("{s:s, s:s, s:o, s:o, s:o, s:o}", "modelfile", "", "parameters", "",
                         "template", json_bytes(jinja ? jinja : "", jinja ? strlen(jinja) : 0),
                         "details", details(s), "model_info", model_info(s), "capabilities",
                         abilities));
}
