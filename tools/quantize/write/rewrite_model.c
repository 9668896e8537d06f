#include "tools/quantize/write/rewrite_model.h"

#include <string.h>

#include "base/error.h"
#include "file/file.h"
#include "kv/fisher.h"
#include "tools/quantize/round/prefix_pack.h"
#include "model/keys.h"

/* --------------------------------------------------------------------------------------- values */

/* Whether a key describes how the old prefix was tuned. */
static bool describes_tuning(struct tft_str key)
{
    static const char *const keys[] = {TFT_KEY_TUNE_LOSS,       TFT_KEY_TUNE_LAMBDA,
                                       TFT_KEY_TUNE_RATE,       TFT_KEY_TUNE_EPOCHS,
                                       TFT_KEY_TUNE_VALIDATION, TFT_KEY_TUNE_KEPT};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (tft_str_is(key, keys[i]))
            return true;
    return false;
}

static void put_named_values(struct tft_gguf_writer *w, const struct rewrite *r)
{
    struct tft_str names[TFT_PREFIX_NAMES];
    char key[TFT_PREFIX_KEY];
    for (uint32_t i = 0; i < r->n_named; i++) {
        const struct named_prefix *p = &r->named[i];
        names[i] = (struct tft_str){p->name, strlen(p->name)};
        tft_prefix_key(key, TFT_KEY_NAMED_TOKENS, names[i]);
        tft_gguf_put_array(w, key, TFT_VALUE_I32, p->tokens, p->n);
        tft_prefix_key(key, TFT_KEY_NAMED_SYSTEM, names[i]);
        if (p->system)
            tft_gguf_put_str(w, key, (struct tft_str){p->system, strlen(p->system)});
    }
    if (r->n_named)
        tft_gguf_put_strs(w, TFT_KEY_PREFIX_NAMES, names, r->n_named);
}

enum { ROW_TENSORS = 4 }; /* k, v, x and, if layers have one, the state of a named prefix */

static uint32_t row_tensors(const struct tft_model *m)
{
    return m->state_size ? ROW_TENSORS : ROW_TENSORS - 1;
}

static bool is_w8a8(const struct tft_model *m) { return m->output.w.format->takes_bytes; }

/* Whether there are new tensors of tables: in a plain file tables are values. */
static bool adds_tables(const struct tft_model *m, const struct rewrite *r)
{
    return is_w8a8(m) && r->fisher[0] && !m->kv_fisher[0];
}

static size_t new_tensors(const struct tft_model *m, const struct rewrite *r)
{
    return (size_t)row_tensors(m) * r->n_named + (adds_tables(m, r) ? TFT_KV_SIDES : 0);
}

/* An array with an element for each tensor, codes or nats: 0 for new tensors. */
static void put_longer(struct tft_gguf_writer *w, const char *key, enum tft_value_type type,
                       const struct tft_value *v, size_t n_new)
{
    uint64_t at = tft_gguf_put_array_later(w, key, type, (size_t)v->n + n_new);
    for (uint64_t i = 0; i < v->n; i++) {
        double x = 0;
        tft_value_real(v, i, &x);
        const void *one = type == TFT_VALUE_I32 ? (const void *)&(int32_t){(int32_t)x}
                                                : (const void *)&(float){(float)x};
        tft_gguf_fill_array(w, at + 4 * i, type, one, 1);
    }
}

static void put_tuning(struct tft_gguf_writer *w, const struct rewrite *r)
{
    if (!r->loss)
        return;
    tft_gguf_put_str(w, TFT_KEY_TUNE_LOSS, (struct tft_str){r->loss, strlen(r->loss)});
    tft_gguf_put_f32(w, TFT_KEY_TUNE_LAMBDA, r->lambda);
    tft_gguf_put_f32(w, TFT_KEY_TUNE_RATE, r->rate);
    tft_gguf_put_u32(w, TFT_KEY_TUNE_EPOCHS, r->epochs);
    tft_gguf_put_array(w, TFT_KEY_TUNE_VALIDATION, TFT_VALUE_F32, r->validation, r->n_validation);
    tft_gguf_put_u32(w, TFT_KEY_TUNE_KEPT, r->kept);
}

static const char *const table_names[TFT_KV_SIDES] = {TFT_KEY_KV_FISHER_K, TFT_KEY_KV_FISHER_V};

/* Numbers of the tables of keys, or of values. */
static size_t table_numbers(const struct tft_model *m)
{
    struct tft_kv_heads own = tft_model_coded_heads(m);
    return (size_t)(m->n_kv_layer - tft_model_predicts(m)) * own.n * TFT_FISHER_ROWS * own.dim;
}

/* Whether a key of the old file gets a new value. */
static bool is_replaced(struct tft_str key, const struct rewrite *r)
{
    bool tables = tft_str_is(key, table_names[0]) || tft_str_is(key, table_names[1]);
    return (r->k && describes_tuning(key)) || (r->kv && tft_str_is(key, TFT_KEY_KV)) ||
           (r->fisher[0] && tables);
}

static void put_values(struct tft_gguf_writer *w, const struct tft_model *m,
                       const struct rewrite *r)
{
    const struct tft_source *s = &m->source;
    for (size_t i = 0; i < s->n_value; i++) {
        const struct tft_value *v = &s->value[i];
        if (tft_str_is(v->key, TFT_CHECKSUM_KEY))
            tft_gguf_put_checksum(w, TFT_CHECKSUM_KEY);
        else if (new_tensors(m, r) && tft_str_is(v->key, TFT_KEY_WEIGHT_CODES))
            put_longer(w, TFT_KEY_WEIGHT_CODES, TFT_VALUE_I32, v, new_tensors(m, r));
        else if (new_tensors(m, r) && tft_str_is(v->key, TFT_KEY_WEIGHT_NATS))
            put_longer(w, TFT_KEY_WEIGHT_NATS, TFT_VALUE_F32, v, new_tensors(m, r));
        else if (!is_replaced(v->key, r))
            tft_gguf_put_value(w, v);
    }
    if (!tft_source_value(s, TFT_CHECKSUM_KEY))
        tft_gguf_put_checksum(w, TFT_CHECKSUM_KEY);
    put_tuning(w, r);
    put_named_values(w, r);
    if (r->kv)
        tft_gguf_put_str(w, TFT_KEY_KV, (struct tft_str){r->kv, strlen(r->kv)});
    for (int i = 0; r->fisher[0] && !is_w8a8(m) && i < TFT_KV_SIDES; i++)
        tft_gguf_put_array(w, table_names[i], TFT_VALUE_F32, r->fisher[i], table_numbers(m));
}

/* -------------------------------------------------------------------------------------- tensors */

/* The new numbers of a tensor; NULL: it stays. */
static const uint16_t *replacement(const struct tft_tensor *t, const struct rewrite *r)
{
    return tft_str_is(t->name, TFT_KEY_PREFIX_K)   ? r->k
           : tft_str_is(t->name, TFT_KEY_PREFIX_V) ? r->v
                                                   : NULL;
}

static void describe_named(struct tft_gguf_writer *w, const struct tft_model *m,
                           const struct rewrite *r)
{
    static const char *const keys[ROW_TENSORS] = {TFT_KEY_NAMED_K, TFT_KEY_NAMED_V,
                                                  TFT_KEY_NAMED_X, TFT_KEY_NAMED_STATE};
    char key[TFT_PREFIX_KEY];
    uint32_t n = row_tensors(m);
    for (uint32_t i = 0; i < n * r->n_named; i++) {
        const struct named_prefix *p = &r->named[i / n];
        tft_prefix_key(key, keys[i % n], (struct tft_str){p->name, strlen(p->name)});
        struct tft_str name = {key, strlen(key)};
        uint64_t floats = i % n == 2 ? m->n_embd : m->state_size;
        if (i % n < 2)
            prefix_describe(w, name, m, r->type, p->n);
        else
            tft_gguf_put_tensor(w, name, TFT_F32, 1, &floats);
    }
}

static void put_named(struct tft_gguf_writer *w, const struct tft_model *m,
                      const struct rewrite *r)
{
    for (uint32_t i = 0; i < r->n_named; i++) {
        const struct named_prefix *p = &r->named[i];
        prefix_put(w, m, r->type, p->n, p->k);
        prefix_put(w, m, r->type, p->n, p->v);
        tft_gguf_put_data(w, p->x, m->n_embd * sizeof *p->x);
        if (m->state_size)
            tft_gguf_put_data(w, p->state, m->state_size * sizeof *p->state);
    }
}

static void describe_tables(struct tft_gguf_writer *w, const struct tft_model *m,
                            const struct rewrite *r)
{
    struct tft_kv_heads own = tft_model_coded_heads(m);
    const uint64_t shape[] = {own.dim, TFT_FISHER_ROWS, own.n,
                              m->n_kv_layer - tft_model_predicts(m)};
    for (int i = 0; adds_tables(m, r) && i < TFT_KV_SIDES; i++)
        tft_gguf_put_tensor(w, (struct tft_str){table_names[i], strlen(table_names[i])}, TFT_F32, 4,
                            shape);
}

static void put_table(struct tft_gguf_writer *w, const struct tft_model *m, const float *table)
{
    tft_gguf_put_data(w, table, table_numbers(m) * sizeof *table);
}

/* The new numbers of a tensor of tables; NULL: it stays, or is another one. */
static const float *new_table(const struct tft_tensor *t, const struct rewrite *r)
{
    for (int i = 0; i < TFT_KV_SIDES; i++)
        if (tft_str_is(t->name, table_names[i]))
            return r->fisher[i];
    return NULL;
}

static void put_tensors(struct tft_gguf_writer *w, const struct tft_model *m,
                        const struct rewrite *r)
{
    const struct tft_source *s = &m->source;
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        if (replacement(t, r))
            prefix_describe(w, t->name, m, r->type, m->n_prefix);
        else
            tft_gguf_put_tensor(w, t->name, t->type, t->n_dims, t->ne);
    }
    describe_named(w, m, r);
    describe_tables(w, m, r);
    for (size_t i = 0; i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        if (replacement(t, r))
            prefix_put(w, m, r->type, m->n_prefix, replacement(t, r));
        else if (new_table(t, r))
            put_table(w, m, new_table(t, r));
        else
            tft_gguf_put_data(w, t->data, (size_t)t->bytes);
    }
    put_named(w, m, r);
    for (int i = 0; adds_tables(m, r) && i < TFT_KV_SIDES; i++)
        put_table(w, m, r->fisher[i]);
}

/* ------------------------------------------------------------------------------------ the whole */

enum tft_status rewrite_temp(const struct tft_model *m, const char *path, const struct rewrite *r,
                              struct tft_new_file **temp, struct tft_error *err)
{
    struct tft_gguf_writer *w;
    *temp = NULL;
    if (((r->k || r->n_named) && !is_w8a8(m)) || (r->k && !m->n_prefix))
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: is not a W8A8 model%s: make one with tuffet quantize", m->source.name,
                        r->k ? " with a prefix" : "");
    if (r->k && m->n_named)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: has named prefixes, computed after the prefix that would change",
                        m->source.name);
    enum tft_status status = r->k || r->n_named ? prefix_check_type(m, r->type, err) : TFT_OK;
    if (r->k && status == TFT_OK)
        status = prefix_check_numbers(m, m->n_prefix, r->k, r->v, err);
    for (uint32_t i = 0; i < r->n_named && status == TFT_OK; i++)
        status = prefix_check_numbers(m, r->named[i].n, r->named[i].k, r->named[i].v, err);
    if (status == TFT_OK)
        status = tft_gguf_create(&w, path, err);
    if (status != TFT_OK)
        return status;
    put_values(w, m, r);
    put_tensors(w, m, r);
    return tft_gguf_complete(w, temp, err);
}

enum tft_status rewrite_model(const struct tft_model *m, const char *path, const struct rewrite *r,
                              struct tft_error *err)
{
    struct tft_new_file *temp;
    enum tft_status status = rewrite_temp(m, path, r, &temp, err);
    return temp ? tft_new_file_end(temp, true, err) : status;
}
