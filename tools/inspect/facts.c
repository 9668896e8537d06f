#define _POSIX_C_SOURCE 200809L
#include "facts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "chat/tuffet_chat.h"
#include "model/keys.h"
#include "model/open.h"
#include "models/registry.h"
#include "tensors.h"
#include "tools/quantize/inside.h"

/* A string, or an empty one. */
static struct tft_str text(const struct tft_source *s, const char *key)
{
    struct tft_str str = {0};
    const struct tft_value *v = tft_source_value(s, key);
    if (v)
        tft_value_str(v, &str);
    return str;
}

/* The number "ARCH.key", or 0. */
static uint64_t number(const struct facts *f, const char *key)
{
    char full[128];
    uint64_t n = 0;
    snprintf(full, sizeof full, "%.*s.%s", TFT_STR_ARG(f->arch), key);
    const struct tft_value *v = tft_source_value(&f->s, full);
    return v && !v->is_array && tft_value_uint(v, 0, &n) ? n : 0;
}

/* Whether the template drops, or refuses, the message at `at` of a conversation. */
static bool drops(const struct tft_chat_template *t, const char *json, size_t at)
{
    struct tft_chat_text text;
    size_t said, result;
    const struct tft_chat_input in = {.size = sizeof in,
                                      .json = json,
                                      .n_json = strlen(json),
                                      .bos = "",
                                      .eos = "",
                                      .has_time = true,
                                      .max_steps = 1 << 20,
                                      .read_arguments = true};
    bool lost = tft_chat_render(&text, t, &in, NULL) != TFT_OK ||
                tft_chat_dropped(&said, &result, &text, &in, NULL) != TFT_OK || said == at ||
                result == at;
    tft_chat_text_free(&text);
    return lost;
}

#define SAID(role, text) "{\"role\": \"" role "\", \"content\": \"" text "\"}"
#define CALLED                                                                                     \
    "{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"type\": \"function\", "      \
    "\"id\": \"call00001\", \"function\": {\"name\": \"f\", \"arguments\": {}}}]}"
#define RESULT                                                                                     \
    "{\"role\": \"tool\", \"name\": \"f\", \"tool_call_id\": \"call00001\", \"content\": \"qx3\"}"
#define TOOL                                                                                       \
    "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"d\", "            \
    "\"parameters\": {\"type\": \"object\", \"properties\": {}}}}"

/* Fills chat_drops. t, tools: the templates of conversations without and with tools; NULL: it does
   not run. */
static void read_drops(struct facts *f, const struct tft_chat_template *t,
                       const struct tft_chat_template *tools)
{
    static const struct {
        const char *role, *json;
        size_t at;
    } rows[FACTS_ROLES] = {
        {"user", "{\"messages\": [" SAID("user", "qx1") "]}", 0},
        {"system", "{\"messages\": [" SAID("system", "qx1") ", " SAID("user", "qx2") "]}", 0},
        {"tool",
         "{\"tools\": [" TOOL "], \"messages\": [" SAID("user", "qx1") ", " CALLED ", " RESULT "]}",
         2},
    };
    for (size_t i = 0; i < FACTS_ROLES; i++) {
        const struct tft_chat_template *of = strcmp(rows[i].role, "tool") == 0 ? tools : t;
        if (of && drops(of, rows[i].json, rows[i].at))
            f->chat_drops[f->n_chat_drops++] = rows[i].role;
    }
}

/* Opens the template of that name. Returns "runs", or the reason in *err, and then *t is NULL;
   NULL: there is none. */
static const char *open_template(struct tft_chat_template **t, struct facts *f, const char *key,
                                 struct tft_error *err)
{
    struct tft_str jinja = text(&f->s, key);
    *t = NULL;
    if (!jinja.n)
        return NULL;
    return tft_chat_open(t, jinja.p, jinja.n, err) == TFT_OK ? "runs" : err->msg;
}

static void read_templates(struct facts *f)
{
    struct tft_chat_template *t, *tools;
    f->chat_template = open_template(&t, f, "tokenizer.chat_template", &f->chat_err);
    f->tool_template =
        open_template(&tools, f, "tokenizer.chat_template.tool_use", &f->tool_template_err);
    read_drops(f, t, f->tool_template ? tools : t);
    tft_chat_close(t);
    tft_chat_close(tools);
}

static void read_values(struct facts *f)
{
    const struct tft_source *s = &f->s;
    f->name = text(s, "general.name");
    f->arch = text(s, "general.architecture");
    f->vocab = text(s, "tokenizer.ggml.model");
    read_templates(f);
    f->context = number(f, "context_length");
    f->width = number(f, "embedding_length");
    f->layers = number(f, "block_count");
    f->heads = number(f, "attention.head_count");
    f->kv_heads = number(f, "attention.head_count_kv");
    f->head = number(f, "attention.key_length");
    f->feed_forward = number(f, "feed_forward_length");
    for (size_t i = 0; i < s->n_tensor; i++)
        f->parameters += s->tensor[i].ne[0] * s->tensor[i].ne[1] * s->tensor[i].ne[2] *
                         s->tensor[i].ne[3];
}

/* The number `key`, or 0. */
static uint64_t uint_of(const struct facts *f, const char *key)
{
    uint64_t n;
    const struct tft_value *v = tft_source_value(&f->s, key);
    return v && !v->is_array && tft_value_uint(v, 0, &n) ? n : 0;
}

/* Reads input i. The loader has checked everything but the error. */
static void read_input(struct facts *f, uint32_t i)
{
    const struct tft_value *errors = tft_source_value(&f->s, TFT_KEY_INPUT_ERROR);
    double scale = 1, error = 0;
    uint64_t zero = 0, range = TFT_RANGE_STATIC;
    tft_value_uint(tft_source_value(&f->s, TFT_KEY_INPUT_RANGE), i, &range);
    tft_value_real(tft_source_value(&f->s, TFT_KEY_INPUT_SCALE), i, &scale);
    tft_value_uint(tft_source_value(&f->s, TFT_KEY_INPUT_ZERO), i, &zero);
    if (errors)
        tft_value_real(errors, i, &error);
    f->inputs[range]++;
    if (range == TFT_RANGE_STATIC)
        worst_inputs_add(&f->worst_inputs,
                  (struct input_error){i, error, {(float)scale, 1 / (float)scale, (int32_t)zero}});
}

uint64_t facts_named_tokens(const struct facts *f, struct tft_str name)
{
    char key[TFT_PREFIX_KEY];
    const struct tft_value *v =
        tft_source_value(&f->s, tft_prefix_key(key, TFT_KEY_NAMED_TOKENS, name));
    return v ? v->n : 0;
}

/* A file has the numbers of each group; an older one has the first two, of text. */
static void read_held_out(struct facts *f)
{
    const struct tft_value *v = tft_source_value(&f->s, TFT_KEY_HELD_OUT);
    bool old = v && v->is_array && v->n == 2;
    f->checked = v && v->is_array && (old || v->n == CHECK_GROUPS * HELD_OUT_NUMBERS);
    for (int g = 0; g < CHECK_GROUPS && f->checked; g++) {
        double x[HELD_OUT_NUMBERS] = {0, 0, 0, (double)NAN, (double)NAN};
        if (old && g != CHECK_TEXT)
            continue;
        for (size_t i = old; i < (old ? 3 : HELD_OUT_NUMBERS); i++)
            tft_value_real(v, old ? i - 1 : g * HELD_OUT_NUMBERS + i, &x[i]);
        x[0] = old ? x[1] != 0 : fmin(fmax(x[0], 0), UINT32_MAX);
        f->held_out[g] = (struct check_loss){(uint32_t)x[0], x[1], x[2], x[3], x[4]};
    }
}

static void read_quantized(struct facts *f, const struct tft_model *m)
{
    const struct tft_value *smooth = tft_source_value(&f->s, TFT_KEY_SMOOTH);
    f->quantized = true;
    f->weights_are = text(&f->s, TFT_KEY_WEIGHTS);
    f->prefix_method = text(&f->s, TFT_KEY_PREFIX_METHOD);
    f->prefix_loss = text(&f->s, TFT_KEY_TUNE_LOSS);
    f->prefix = tft_source_value(&f->s, TFT_KEY_PREFIX_TOKENS);
    f->names = tft_source_value(&f->s, TFT_KEY_PREFIX_NAMES);
    if (f->names && (!f->names->is_array || f->names->type != TFT_VALUE_STRING))
        f->names = NULL;
    f->calibration_method = text(&f->s, TFT_KEY_CALIBRATION_METHOD);
    f->calibration_tokens = uint_of(f, TFT_KEY_CALIBRATION_TOKENS);
    f->calibration_window = uint_of(f, TFT_KEY_CALIBRATION_WINDOW);
    f->rotate_values = uint_of(f, TFT_KEY_ROTATE_VALUES);
    f->rotate_down = uint_of(f, TFT_KEY_HADAMARD);
    f->rotate_residual = uint_of(f, TFT_KEY_ROTATE_RESIDUAL);
    if (smooth)
        tft_value_real(smooth, 0, &f->smooth);
    read_held_out(f);
    for (uint32_t i = 0; i < tft_model_inputs(m); i++)
        read_input(f, i);
}

/* The cache of a session with these options. */
static void choose_cache(struct facts *f, const struct tft_model *m,
                         const struct tft_session_opts *so)
{
    const struct tft_value *v = tft_source_value(&f->s, TFT_KEY_KV);
    struct tft_str text;
    if (so->kv)
        snprintf(f->kv, sizeof f->kv, "%s", so->kv);
    else if (v && tft_value_str(v, &text))
        snprintf(f->kv, sizeof f->kv, "%.*s", (int)(text.n < sizeof f->kv ? text.n : sizeof f->kv),
                 text.p);
    else
        snprintf(f->kv, sizeof f->kv, "%s", tft_model_kv(m));
}

static void plan_session(struct facts *f, const struct tft_model *m,
                         const struct tft_session_opts *so)
{
    f->kv_per_token = tft_kv_bytes(m, so->kv, NULL);
    f->cached = m->n_kv_layer;
    for (uint32_t l = 0; l < m->n_kv_layer; l++)
        f->windows += tft_model_kv_window(m, l) != 0;
    f->session_context = so->capacity ? so->capacity : m->n_ctx - m->n_prefix;
    f->encoder = m->encoder;
    struct tft_embedder_opts eo = {.size = sizeof eo, .max_text = so->capacity};
    f->session = m->encoder ? tft_embedder_bytes(m, &eo, NULL) : tft_session_bytes(m, so, NULL);
}

static void free_room(struct tft_plan_room *room)
{
    free(room->windows);
    free(room->heads);
    free(room->tables);
}

/* Finds out whether the model runs, and how much memory it takes. */
static void plan(struct facts *f, enum tft_weights weights, const struct tft_session_opts *given)
{
    if (f->vocab.n && tft_tokenizer_open(&f->tokenizer, &f->s, NULL, &f->why_not) != TFT_OK)
        return;
    struct tft_model m = {.source = f->s, .tokenizer = f->tokenizer};
    struct tft_plan_room room = {
        .windows = malloc(f->s.n_tensor * sizeof *room.windows + 1),
        .heads = malloc(f->s.n_tensor * sizeof *room.heads + 1),
        .tables = malloc(tft_open_plan_tables(&f->s) * sizeof *room.tables + 1)};
    if (!room.windows || !room.heads || !room.tables) {
        free_room(&room);
        tft_fail(&f->why_not, TFT_ERR_NOMEM, "%s: out of memory", f->s.name);
        return;
    }
    f->runs = tft_open_plan(&m, tft_archs, weights, &room, &f->why_not) == TFT_OK;
    choose_cache(f, &m, given);
    m.kv_text = f->kv; /* which a plan does not keep */
    if (f->runs)
        plan_session(f, &m, given);
    if (f->runs && !fisher_bits_read(&f->fisher, &m, f->kv))
        f->runs = tft_fail(&f->why_not, TFT_ERR_NOMEM, "%s: out of memory", f->s.name) == TFT_OK;
    free_room(&room);
    if (!f->runs)
        return;
    f->kv_heads = m.n_head_kv;
    f->head = m.head_dim;
    f->weights = m.memory_size;
    f->parameters = m.n_params; /* without padding, scales and the prefix */
    f->bits = 8.0 * (double)tensors_bytes(&f->s) / (double)f->parameters;
    if (tft_source_value(&f->s, TFT_KEY_PACKED))
        f->packed = tft_source_value(&f->s, TFT_KEY_PACKED_TYPES);
    if (m.embed.format->takes_bytes)
        read_quantized(f, &m);
}

void facts_read(struct facts *f, enum tft_weights weights, const struct tft_session_opts *so)
{
    read_values(f);
    plan(f, weights, so);
}

size_t facts_packed(const struct facts *f, uint32_t type)
{
    size_t n = 0;
    int64_t packed;
    for (uint64_t i = 0; i < f->packed->n; i++)
        n += tft_value_int(f->packed, i, &packed) && packed == type;
    return n;
}

void facts_close(struct facts *f)
{
    fisher_bits_free(&f->fisher);
    tft_tokenizer_close(f->tokenizer);
    tft_source_close(&f->s);
}
