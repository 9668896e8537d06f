#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "arch.h"

void import_fail(struct import *im, enum tft_status code, const char *fmt, ...)
{
    va_list args;
    if (im->status != TFT_OK)
        return;
    va_start(args, fmt);
    im->status = import_error_args(im->err, code, fmt, args);
    va_end(args);
}

const char *import_key(struct import *im, const char *name)
{
    snprintf(im->key, sizeof im->key, "%s.%s", im->arch->name, name);
    return im->key;
}

/* ---------------------------------------------------------------------------------- config.json */

bool import_ignores(const struct import *im, const char *name)
{
    const char *list = im->ignore;
    for (size_t n; list && *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        if (n == strlen(name) && memcmp(list, name, n) == 0)
            return true;
    }
    return false;
}

static const json_t *member(const struct import *im, const json_t *object, const char *names)
{
    while (*names) {
        size_t n = strcspn(names, "|");
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)n, names);
        const json_t *v = json_object_get(object, name);
        if (v && !json_is_null(v) && !import_ignores(im, name))
            return v;
        names += n + (names[n] == '|');
    }
    return NULL;
}

const json_t *import_find(const struct import *im, const char *names)
{
    char name[64];
    const json_t *from[] = {im->text, im->folder.config, im->defaults}, *v = NULL;
    for (const char *at = names; *at; at += strcspn(at, "|"), at += *at == '|') {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at, "|"), at);
        json_object_set_new(im->seen, name, json_true());
    }
    for (size_t i = 0; i < sizeof from / sizeof *from && !v; i++)
        v = member(im, from[i], names);
    return v;
}

static void fail(struct import *im, const char *names, const char *what)
{
    import_fail(im, TFT_ERR_FORMAT, "%s/config.json: \"%.*s\" %s", im->folder.path,
                (int)strcspn(names, "|"), names, what);
}

static double number(struct import *im, const json_t *v, const char *names, double def)
{
    if (json_is_real(v))
        return json_real_value(v);
    if (v || def == IMPORT_NEEDED)
        fail(im, names, v ? "is not a number" : "is missing");
    return def;
}

double import_real(struct import *im, const char *names, double def)
{
    return number(im, import_find(im, names), names, def);
}

double import_member(struct import *im, const json_t *object, const char *names, double def)
{
    return number(im, member(im, object, names), names, def);
}

uint64_t import_whole(struct import *im, const char *names, int64_t def)
{
    const json_t *v = import_find(im, names);
    uint64_t n = def < 0 ? 0 : (uint64_t)def;
    if (v && !import_json_whole(v, INT32_MAX, &n))
        fail(im, names, "is not a whole number below 2^31");
    else if (!v && def == IMPORT_NEEDED)
        fail(im, names, "is missing");
    return n;
}

bool import_flag(struct import *im, const char *names, bool def)
{
    const json_t *v = import_find(im, names);
    if (v && !json_is_boolean(v))
        fail(im, names, "is neither true nor false");
    return v ? json_is_true(v) : def;
}

/* ----------------------------------------------------------------------------------- dimensions */

enum { MOST_HEAD_DIM = 65536 };

static uint64_t dimension(struct import *im, const char *names, int64_t def)
{
    uint64_t n = import_whole(im, names, def);
    if (!n)
        fail(im, names, "is 0");
    return n ? n : 1;
}

/* The activation must be the one that the architecture computes. */
static void check_activation(struct import *im)
{
    const char *names = "hidden_activation|hidden_act|activation_function|activation",
               *act = json_string_value(import_find(im, names));
    char word[40];
    if (!act)
        return;
    snprintf(word, sizeof word, " %s ", act);
    if (!strstr(im->arch->activations, word))
        import_fail(im, TFT_ERR_UNSUPPORTED, "%s/config.json: activation \"%s\" is not supported",
                    im->folder.path, act);
}

/* F, or that of the first layer if there is a list. */
static uint64_t hidden_width(struct import *im)
{
    const char *names = "block_ff_dim|intermediate_size|n_inner|ffn_hidden_size|"
                        "moe_intermediate_size|moe_ffn_hidden_size";
    const json_t *list = import_find(im, "intermediate_size");
    uint64_t first = 0;
    if (json_is_array(list) && import_json_whole(json_array_get(list, 0), INT32_MAX, &first) &&
        first)
        return first;
    return dimension(im, im->arch->encoder ? "intermediate_size|n_inner|hidden_dim" : names,
                     im->arch->ff_is_4d ? 4 * (int64_t)im->n_embd : IMPORT_NEEDED);
}

void import_dimensions(struct import *im)
{
    size_t listed = json_array_size(json_object_get(im->text, "layers_block_type"));
    bool encoder = im->arch->encoder; /* DistilBERT has names of its own */
    im->n_layer = dimension(im, "num_hidden_layers|n_layer|num_layers|n_layers",
                            listed ? (int64_t)listed : IMPORT_NEEDED);
    im->n_ctx = dimension(im, "max_position_embeddings|n_positions|n_ctx", IMPORT_NEEDED);
    im->n_embd =
        dimension(im, encoder ? "hidden_size|n_embd|dim" : "hidden_size|n_embd", IMPORT_NEEDED);
    im->n_head =
        dimension(im, encoder ? "num_attention_heads|n_head|n_heads" : "num_attention_heads|n_head",
                  IMPORT_NEEDED);
    im->n_head_kv = dimension(im, "num_key_value_heads", (int64_t)im->n_head);
    im->n_ff = hidden_width(im);
    im->head_dim = dimension(im, "head_dim|attention_head_dim", (int64_t)(im->n_embd / im->n_head));
    if (!import_find(im, "head_dim|attention_head_dim|qk_nope_head_dim") &&
        im->n_embd % im->n_head)
        fail(im, "hidden_size", "is not a multiple of the number of heads, without a head_dim");
    /* checked before memory and time are spent on them */
    if (im->n_layer > im->folder.n_tensor)
        fail(im, "num_hidden_layers", "exceeds the number of tensors");
    if (im->head_dim > MOST_HEAD_DIM)
        fail(im, "head_dim", "is above 65536");
    const char *mode = json_string_value(json_object_get(
        import_find(im, "quantization_config|compression_config"), "quantization_mode"));
    bool online = mode && strcmp(mode, "online") == 0;
    if (online && !im->arch->ternary)
        import_fail(im, TFT_ERR_UNSUPPORTED,
                    "%s/config.json: \"quantization_mode\" is not supported in %s", im->folder.path,
                    im->arch->name);
    im->is_ternary = online || im->arch->ternary == IMPORT_ALWAYS;
    check_activation(im);
    if (im->arch->dimensions && im->status == TFT_OK)
        im->arch->dimensions(im);
    if (!im->n_head_kv || im->n_head % im->n_head_kv)
        import_fail(im, TFT_ERR_FORMAT,
                    "%s/config.json: %llu heads are not a multiple of %llu KV heads",
                    im->folder.path, (unsigned long long)im->n_head,
                    (unsigned long long)im->n_head_kv);
}

/* --------------------------------------------------------------------------------------- values */

static void put_name(struct import *im)
{
    const char *name = json_string_value(import_find(im, "_name_or_path"));
    if (name && *name)
        tft_gguf_put_str(im->gguf, "general.name", (struct tft_str){name, strlen(name)});
}

/* A number for each layer, or the same for all if there is no list. */
static void put_by_layer(struct import *im, const char *key, const uint32_t *list, uint64_t all)
{
    if (list)
        tft_gguf_put_array(im->gguf, import_key(im, key), TFT_VALUE_U32, list,
                           (size_t)im->n_layer);
    else
        tft_gguf_put_u32(im->gguf, import_key(im, key), (uint32_t)all);
}

void import_values(struct import *im)
{
    const struct {
        const char *key;
        uint64_t n;
    } numbers[] = {
        {"vocab_size", im->n_vocab},
        {"context_length", im->context},
        {"embedding_length", im->n_embd},
        {"block_count", im->n_layer + im->n_predict},
        {"attention.head_count", im->n_head},
        {"attention.key_length", im->head_dim},
        {"attention.value_length", im->latent.value ? im->latent.value : im->head_dim},
    };
    bool layer_norm = im->arch->layer_norm;
    tft_gguf_put_str(im->gguf, "general.architecture",
                     (struct tft_str){im->arch->name, strlen(im->arch->name)});
    put_name(im);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        tft_gguf_put_u32(im->gguf, import_key(im, numbers[i].key), (uint32_t)numbers[i].n);
    put_by_layer(im, "feed_forward_length", im->ffs, im->n_ff);
    put_by_layer(im, "attention.head_count_kv", im->arch->one_kv_number ? NULL : im->kv_heads,
                 im->n_head_kv);
    double eps = import_real(im,
                             layer_norm ? "layer_norm_eps|layer_norm_epsilon|norm_epsilon|norm_eps"
                                        : "rms_norm_eps|norm_eps|layer_norm_epsilon|"
                                          "layernorm_epsilon",
                             IMPORT_NEEDED);
    tft_gguf_put_f32(im->gguf,
                     import_key(im, layer_norm ? "attention.layer_norm_epsilon"
                                               : "attention.layer_norm_rms_epsilon"),
                     (float)eps);
    for (const struct import_number *n = im->arch->numbers; n && n->key; n++)
        if (n->def != IMPORT_OPTIONAL || import_find(im, n->names))
            tft_gguf_put_f32(im->gguf, import_key(im, n->key),
                             (float)import_real(im, n->names, n->def));
    if (im->arch->values)
        im->arch->values(im);
}
