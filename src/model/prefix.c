#include "model/prefix.h"

#include <stdio.h>
#include <string.h>

#include "base/options.h"
#include "model/keys.h"

/* ----------------------------------------------------------------------------------- the prefix */

/* Keys or values of n positions as f16 [n_kv_layer, n, G, E]: in place, or expanded once, so that
   sessions know f16 alone. In a model whose layers differ, the tensor has one dimension. */
static const uint16_t *rows(struct tft_load *ld, const char *name, uint32_t n)
{
    const struct tft_model *m = ld->m;
    const struct tft_tensor *t = tft_source_tensor(ld->s, name);
    bool coded = t && (t->type == TFT_Q8_0 || t->type == TFT_Q4_1),
         differ = m->parts & TFT_BIT(TFT_PART_LAYER_SIZES);
    uint64_t width = (uint64_t)m->n_head_kv * m->head_dim, all = n * m->kv_numbers;
    const uint64_t one[4] = {all, 1, 1, 1}, by_token[4] = {width, n, m->n_kv_layer, 1},
                   by_head[4] = {m->head_dim, m->n_head_kv, n, m->n_kv_layer};
    const void *data = tft_load_exactly(ld, name, coded ? t->type : TFT_F16,
                                        differ  ? one
                                        : coded ? by_token
                                                : by_head);
    if (!data || !coded)
        return data;
    uint16_t *to = tft_arena_take(&ld->arena, (size_t)all, sizeof *to);
    tft_load_convert_later(ld, &(struct tft_conversion){
                                   .tensor = t,
                                   .rows = all / t->ne[0],
                                   .num = TFT_NUM_F16,
                                   .to = to,
                               });
    return to;
}

/* The residual stream of a prefix's last token; NULL if the file has none. */
static const float *residual(struct tft_load *ld, const char *name)
{
    return tft_source_tensor(ld->s, name)
               ? tft_load_exactly(ld, name, TFT_F32, (const uint64_t[4]){ld->m->n_embd, 1, 1, 1})
               : NULL;
}

/* The states after a prefix; NULL: no layer has one. */
static const float *states(struct tft_load *ld, const char *name)
{
    uint64_t n = ld->m->state_size;
    return n ? tft_load_exactly(ld, name, TFT_F32, (const uint64_t[4]){n, 1, 1, 1}) : NULL;
}

/* The last n elements of v, as tokens. */
static const int32_t *tokens(struct tft_load *ld, const struct tft_value *v, uint64_t n)
{
    int32_t *to = tft_arena_take(&ld->arena, (size_t)n, sizeof *to);
    for (uint64_t i = 0; i < n && ld->status == TFT_OK; i++) {
        int64_t id;
        if (!tft_value_int(v, v->n - n + i, &id) || id < 0 || id >= (int64_t)ld->m->n_vocab)
            tft_load_fail(ld, TFT_ERR_FORMAT, "%.*s has an element that is no token below %u",
                          TFT_STR_ARG(v->key), ld->m->n_vocab);
        else if (to)
            to[i] = (int32_t)id;
    }
    return to;
}

void tft_prefix_bos(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const struct tft_value *v = tft_source_value(ld->s, TFT_KEY_PREFIX_TOKENS);
    int32_t bos = m->tokenizer ? tft_tokenizer_bos(m->tokenizer) : -1;
    m->prefix_bos = false;
    for (uint64_t i = 0; v && i < v->n; i++) {
        int64_t id;
        if (!tft_value_int(v, i, &id))
            tft_load_fail(ld, TFT_ERR_FORMAT, "%s has an element that is not an integer",
                          TFT_KEY_PREFIX_TOKENS);
        else
            m->prefix_bos |= bos >= 0 && id == bos;
    }
}

/* v: the tokens of the prefix */
static void load_text(struct tft_load *ld, const struct tft_value *v)
{
    const struct tft_value *count = tft_source_value(ld->s, TFT_KEY_PREFIX_TEXT);
    uint64_t n = 0;
    if (count && (count->is_array || !tft_value_uint(count, 0, &n) || n > v->n))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not a number of 0 to %u tokens",
                      TFT_KEY_PREFIX_TEXT, ld->m->n_prefix);
    if (ld->status != TFT_OK)
        return;
    ld->m->n_prefix_text = (uint32_t)n;
    ld->m->prefix_text = tokens(ld, v, n);
}

void tft_prefix_load(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const struct tft_value *v = tft_source_value(ld->s, TFT_KEY_PREFIX_TOKENS);
    m->n_prefix = m->n_prefix_text = 0;
    m->prefix_state = NULL;
    if (!v || ld->status != TFT_OK)
        return;
    if (!v->is_array || v->n < 1 || v->n >= m->n_ctx)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not an array of 1 to %u tokens",
                      TFT_KEY_PREFIX_TOKENS, m->n_ctx - 1);
    if (ld->status != TFT_OK)
        return;
    m->n_prefix = (uint32_t)v->n;
    m->prefix_k = rows(ld, TFT_KEY_PREFIX_K, m->n_prefix);
    m->prefix_v = rows(ld, TFT_KEY_PREFIX_V, m->n_prefix);
    m->prefix_x = residual(ld, TFT_KEY_PREFIX_X);
    m->prefix_state = states(ld, TFT_KEY_PREFIX_STATE);
    load_text(ld, v);
}

/* ------------------------------------------------------------------------------- named prefixes */

bool tft_prefix_name_valid(const char *name, size_t n)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    for (size_t i = 0; i < n; i++)
        if (!name[i] || !strchr(letters, name[i]))
            return false;
    return n >= 1 && n <= TFT_PREFIX_NAME && !(n == 4 && memcmp(name, "main", 4) == 0);
}

static const char *copy_text(struct tft_load *ld, struct tft_str s)
{
    char *text = tft_arena_take(&ld->arena, s.n + 1, 1);
    if (text) {
        memcpy(text, s.p, s.n);
        text[s.n] = 0;
    }
    return text;
}

const char *tft_prefix_key(char to[TFT_PREFIX_KEY], const char *key, struct tft_str name)
{
    const char *at = strstr(key, "%s");
    snprintf(to, TFT_PREFIX_KEY, "%.*s%.*s%s", (int)(at - key), key, TFT_STR_ARG(name), at + 2);
    return to;
}

static struct tft_named_prefix named_prefix(struct tft_load *ld, struct tft_str name)
{
    const struct tft_model *m = ld->m;
    char key[TFT_PREFIX_KEY];
    struct tft_named_prefix p = {.name = copy_text(ld, name)};
    struct tft_str system;
    uint32_t room = m->n_ctx - 1 - m->n_prefix;
    const struct tft_value *v =
        tft_source_value(ld->s, tft_prefix_key(key, TFT_KEY_NAMED_TOKENS, name));
    if (!v || !v->is_array || v->n < 1 || v->n > room)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is missing, or not an array of 1 to %u tokens", key,
                      room);
    if (ld->status != TFT_OK)
        return p;
    p.n = (uint32_t)v->n;
    p.tokens = tokens(ld, v, v->n);
    p.k = rows(ld, tft_prefix_key(key, TFT_KEY_NAMED_K, name), p.n);
    p.v = rows(ld, tft_prefix_key(key, TFT_KEY_NAMED_V, name), p.n);
    p.x = residual(ld, tft_prefix_key(key, TFT_KEY_NAMED_X, name));
    p.state = states(ld, tft_prefix_key(key, TFT_KEY_NAMED_STATE, name));
    v = tft_source_value(ld->s, tft_prefix_key(key, TFT_KEY_NAMED_SYSTEM, name));
    if (v && !tft_value_str(v, &system))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not a string", key);
    else if (v)
        p.system = copy_text(ld, system);
    return p;
}

/* Whether one of the first n strings of v is `name`. */
static bool named_before(const struct tft_value *v, uint64_t n, struct tft_str name)
{
    const unsigned char *at = v->data;
    for (uint64_t i = 0; i < n; i++) {
        struct tft_str s = tft_value_next_str(&at);
        if (s.n == name.n && memcmp(s.p, name.p, s.n) == 0)
            return true;
    }
    return false;
}

void tft_prefix_load_named(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const struct tft_value *v = tft_source_value(ld->s, TFT_KEY_PREFIX_NAMES);
    m->n_named = 0;
    m->named = NULL;
    if (!v || ld->status != TFT_OK)
        return;
    if (!v->is_array || v->type != TFT_VALUE_STRING || v->n < 1 || v->n > TFT_PREFIX_NAMES) {
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is not an array of 1 to %d strings",
                      TFT_KEY_PREFIX_NAMES, TFT_PREFIX_NAMES);
        return;
    }
    m->n_named = (uint32_t)v->n;
    struct tft_named_prefix *list = tft_arena_take(&ld->arena, m->n_named, sizeof *list);
    const unsigned char *at = v->data;
    for (uint32_t i = 0; i < m->n_named && ld->status == TFT_OK; i++) {
        struct tft_str name = tft_value_next_str(&at);
        if (!tft_prefix_name_valid(name.p, name.n) || named_before(v, i, name)) {
            tft_load_fail(ld, TFT_ERR_FORMAT,
                          "%s: name %u is given twice, or not 1 to %d of a-z, 0-9, _ and -",
                          TFT_KEY_PREFIX_NAMES, i, TFT_PREFIX_NAME);
            return;
        }
        struct tft_named_prefix p = named_prefix(ld, name);
        if (list)
            list[i] = p;
    }
    m->named = list;
}

const struct tft_named_prefix *tft_model_prefix(const struct tft_model *m, const char *name)
{
    for (uint32_t i = 0; name && i < m->n_named; i++)
        if (strcmp(m->named[i].name, name) == 0)
            return &m->named[i];
    return NULL;
}

enum tft_status tft_prefix_describe(const struct tft_model *m, size_t index,
                                    struct tft_prefix_info *info)
{
    if (index >= m->n_named)
        return TFT_ERR_ARG;
    const struct tft_named_prefix *p = &m->named[index];
    struct tft_prefix_info all = {
        .size = info->size,
        .name = p->name,
        .system = p->system,
        .tokens = p->tokens,
        .n_tokens = p->n,
        .positions = m->n_prefix + p->n,
    };
    tft_options_give(info, &all, sizeof all);
    return TFT_OK;
}

/* -------------------------------------------------------------------------- text of a prompt */

static bool begins(const int32_t *ids, size_t n, const int32_t *with, size_t n_with)
{
    return n >= n_with && (!n_with || memcmp(ids, with, n_with * sizeof *ids) == 0);
}

/* p: NULL for the model's own prefix. A prompt need not begin with the own prefix's text to go on
   with the text of a named one: the tokens of a prompt come after the own prefix in either case. */
static size_t held(const struct tft_model *m, const struct tft_named_prefix *p, const int32_t *ids,
                   size_t n)
{
    if (!n)
        return 0;
    size_t at = m->prefix_bos && ids[0] == tft_token_bos(m), own = 0, more = p ? p->n : 0;
    if (begins(ids + at, n - at, m->prefix_text, m->n_prefix_text))
        own = m->n_prefix_text;
    if (begins(ids + at + own, n - at - own, p ? p->tokens : NULL, more))
        at += own + more;
    bool logits = p ? p->x : m->prefix_x;
    return at < n || logits ? at : 0;
}

size_t tft_prefix_held(const struct tft_model *m, const char *name, const int32_t *ids, size_t n)
{
    const struct tft_named_prefix *p = tft_model_prefix(m, name);
    return name && !p ? 0 : held(m, p, ids, n);
}

const char *tft_prefix_best(const struct tft_model *m, const int32_t *ids, size_t n)
{
    const char *best = NULL;
    size_t most = held(m, NULL, ids, n);
    for (uint32_t i = 0; i < m->n_named; i++) {
        size_t here = held(m, &m->named[i], ids, n);
        best = here > most ? m->named[i].name : best;
        most = here > most ? here : most;
    }
    return best;
}
