#include "model/model.h"

#include <stdio.h>

#include "base/error.h"
#include "base/options.h"
#include "grammar/grammar.h"
#include "model/file_type.h"

static bool has_classifier(const struct tft_model *m)
{
    return m->arch ? m->pooled.n_labels != 0
                   : tft_source_tensor(&m->source, "cls.output.weight") ||
                         tft_source_tensor(&m->source, "cls.weight");
}

/* `pooling_type` of llama.cpp's files. Most files of rerankers have none. */
enum tft_pooling tft_model_pooling(const struct tft_model *m)
{
    static const enum tft_pooling types[] = {TFT_POOLING_NONE, TFT_POOLING_MEAN, TFT_POOLING_CLS,
                                             TFT_POOLING_LAST, TFT_POOLING_RANK};
    uint64_t type = 0;
    char key[128];
    if (!m->kind)
        return TFT_POOLING_NONE;
    snprintf(key, sizeof key, "%s.pooling_type", m->kind->name);
    const struct tft_value *v = tft_source_value(&m->source, key);
    if (!v || v->ignored)
        return has_classifier(m) ? TFT_POOLING_RANK : TFT_POOLING_NONE;
    bool known = tft_value_uint(v, 0, &type) && type < sizeof types / sizeof *types;
    return known ? types[type] : TFT_POOLING_OTHER;
}

/* If the vocabulary alone is open: the number in the file, or 0. */
static uint32_t context(const struct tft_model *m)
{
    uint64_t n = 0;
    char key[128];
    if (m->arch || !m->kind)
        return m->n_ctx - m->n_prefix;
    snprintf(key, sizeof key, "%s.context_length", m->kind->name);
    const struct tft_value *v = tft_source_value(&m->source, key);
    return v && tft_value_uint(v, 0, &n) && n <= INT32_MAX ? (uint32_t)n : 0;
}

/* Of the linear layers; an encoder has no head. */
static enum tft_weights weights(const struct tft_model *m)
{
    const struct tft_linear *l = m->encoder && m->layer ? &m->layer[0].o : &m->output;
    return l->w.format ? l->w.format->weights : TFT_WEIGHTS_STORED;
}

bool tft_model_only_windows(const struct tft_model *m)
{
    uint32_t l = 0;
    while (l < m->n_kv_layer && tft_model_kv_window(m, l))
        l++;
    return l == m->n_kv_layer;
}

const char *tft_model_kv(const struct tft_model *m)
{
    return m->kv_text ? m->kv_text : tft_model_only_windows(m) ? "f16" : "i8";
}

void tft_model_describe(const struct tft_model *m, struct tft_model_info *info)
{
    struct tft_model_info all = {
        .size = info->size,
        .arch = m->kind ? m->kind->name : "",
        .name = m->name ? m->name : "",
        .n_params = m->n_params,
        .weight_bytes = m->weight_bytes,
        .matmul_macs = m->matmul_macs,
        .kv_width = 2 * m->kv_numbers,
        .n_vocab = m->tokenizer ? tft_tokenizer_size(m->tokenizer) : m->n_vocab,
        .n_ctx = context(m),
        .n_embd = m->n_embd,
        .n_layer = m->n_layer,
        .n_head = m->n_head,
        .n_head_kv = m->n_head_kv,
        .head_dim = m->head_dim,
        .n_ff = m->n_ff,
        .weights = weights(m),
        .n_prefix = m->n_prefix,
        .prefix_bos = m->prefix_bos,
        .state_bytes = m->state_size * sizeof(float),
        .n_expert = m->n_expert,
        .n_expert_used = m->n_expert_used,
        .n_device = m->n_layer - m->n_host,
        .pooling = tft_model_pooling(m),
        .add_eos = m->tokenizer && tft_tokenizer_adds_eos(m->tokenizer),
        .encoder = m->encoder,
        .kv = m->encoder ? "" : tft_model_kv(m),
        .file_type = tft_file_type(&m->source),
    };
    tft_options_give(info, &all, sizeof all);
}

const char *tft_model_chat_template(const struct tft_model *m)
{
    return m->chat_template;
}

const char *tft_model_tool_template(const struct tft_model *m)
{
    return m->tool_template ? m->tool_template : m->chat_template;
}

/* A string of the file; NULL: there is none. */
static const char *text_of_file(const struct tft_model *m, const char *key, size_t *len)
{
    const struct tft_value *v = tft_source_value(&m->source, key);
    struct tft_str s = {0};
    *len = 0;
    if (!v || !tft_value_str(v, &s))
        return NULL;
    *len = s.n;
    return s.p;
}

const char *tft_model_prompt(const struct tft_model *m, const char *name, size_t *len)
{
    char key[96];
    int n = snprintf(key, sizeof key, "tuffet.prompt.%s", name);
    *len = 0;
    return n > 0 && (size_t)n < sizeof key ? text_of_file(m, key, len) : NULL;
}

const char *tft_model_rerank_template(const struct tft_model *m, size_t *len)
{
    return text_of_file(m, "tokenizer.chat_template.rerank", len);
}

/* --------------------------------------------------------------------------------------- tokens */

/* The caller's flags for the tokenizer: the model's prefix may have BOS. */
static unsigned with_prefix(const struct tft_model *m, unsigned flags)
{
    if (flags & TFT_HAS_BOS) /* not a public flag */
        return ~0u;
    bool has = m->prefix_bos && (flags & TFT_ADD_BOS);
    return has ? (flags & ~(unsigned)TFT_ADD_BOS) | TFT_HAS_BOS : flags;
}

enum tft_status tft_tokenize(const struct tft_model *m, const char *text, size_t len,
                             unsigned flags, int32_t *ids, size_t cap, size_t *n)
{
    *n = 0;
    if (!m->tokenizer)
        return TFT_ERR_UNSUPPORTED;
    enum tft_status status = tft_tokenizer_encode(m->tokenizer, text, len, with_prefix(m, flags),
                                                  ids, ids ? cap : 0, n);
    return status == TFT_OK && ids && *n > cap ? TFT_ERR_FULL : status;
}

enum tft_status tft_tokenize_spans(const struct tft_model *m, const char *text, size_t len,
                                   const struct tft_span *spans, size_t n_spans, unsigned flags,
                                   int32_t *ids, size_t cap, size_t *n)
{
    *n = 0;
    if (!m->tokenizer)
        return TFT_ERR_UNSUPPORTED;
    enum tft_status status =
        tft_tokenizer_encode_spans(m->tokenizer, text, len, spans, n_spans, with_prefix(m, flags),
                                   ids, ids ? cap : 0, n);
    return status == TFT_OK && ids && *n > cap ? TFT_ERR_FULL : status;
}

enum tft_status tft_tokenize_pair(const struct tft_model *m, const char *a, size_t len_a,
                                  const char *b, size_t len_b, unsigned flags, int32_t *ids,
                                  unsigned char *types, size_t cap, size_t *n)
{
    *n = 0;
    if (!m->tokenizer)
        return TFT_ERR_UNSUPPORTED;
    if (flags & ~(unsigned)TFT_PARSE_SPECIAL)
        return TFT_ERR_ARG;
    enum tft_status status = tft_tokenizer_encode_pair(
        m->tokenizer, (struct tft_str){a, len_a}, (struct tft_str){b, len_b},
        with_prefix(m, flags | TFT_ADD_BOS), ids, types, ids ? cap : 0, n);
    return status == TFT_OK && ids && *n > cap ? TFT_ERR_FULL : status;
}

const char *tft_token_text(const struct tft_model *m, int32_t id, bool special, size_t *len)
{
    *len = 0;
    return m->tokenizer ? tft_tokenizer_text(m->tokenizer, id, special, len) : NULL;
}

int32_t tft_token_bos(const struct tft_model *m)
{
    return m->tokenizer ? tft_tokenizer_bos(m->tokenizer) : -1;
}

int32_t tft_token_eos(const struct tft_model *m)
{
    return m->tokenizer ? tft_tokenizer_eos(m->tokenizer) : -1;
}

int32_t tft_token_fim(const struct tft_model *m, enum tft_fim part)
{
    return m->tokenizer ? tft_tokenizer_fim(m->tokenizer, part) : -1;
}

bool tft_token_ends(const struct tft_model *m, int32_t id)
{
    return m->tokenizer && tft_tokenizer_ends(m->tokenizer, id);
}

size_t tft_text_push(struct tft_text *t, const struct tft_model *m, int32_t id,
                     char out[TFT_TEXT_MAX])
{
    return m->tokenizer ? tft_tokenizer_push(m->tokenizer, t, id, out) : 0;
}

enum tft_status tft_lexicon_open(struct tft_lexicon **out, const struct tft_model *m,
                                 struct tft_error *err)
{
    *out = NULL;
    if (!m->tokenizer)
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "%s: has no tokenizer", m->source.name);
    return tft_lexicon_make(out, m->tokenizer, m->allocator, err);
}
