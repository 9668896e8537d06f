#include "model/load.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "model/keys.h"

/* Bounds on dimensions: far above any model, and so low that no product of two wraps 64 bits. */
enum { MAX_WIDTH = 1 << 24, MAX_CONTEXT = 1 << 28 };

void tft_load_fail(struct tft_load *ld, enum tft_status status, const char *fmt, ...)
{
    if (ld->status != TFT_OK)
        return;
    char text[160];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    ld->status = tft_fail(ld->err, status, "%s: %s", ld->s->name, text);
}

/* --------------------------------------------------------------------------------------- values */

bool tft_load_ignores(const struct tft_load *ld, struct tft_str key)
{
    const char *list = ld->ignore;
    for (size_t n; list && *list; list += n + (list[n] == ',')) {
        n = strcspn(list, ",");
        if (n == key.n && memcmp(list, key.p, n) == 0)
            return true;
    }
    return false;
}

const struct tft_value *tft_load_value(const struct tft_load *ld, const char *key, char full[96])
{
    snprintf(full, 96, "%s.%s", ld->m->arch->name, key);
    const struct tft_value *v = tft_source_value(ld->s, full);
    if (v && tft_load_ignores(ld, v->key))
        return NULL;
    if (v && ld->read)
        ld->read[v - ld->s->value] = 1;
    return v;
}

bool tft_load_has(const struct tft_load *ld, const char *key)
{
    char full[96];
    return tft_load_value(ld, key, full) != NULL;
}

static void fail_at(struct tft_load *ld, const struct tft_value *v, const char *key,
                    const char *what)
{
    if (ld->status == TFT_OK)
        ld->status =
            tft_fail_at(ld->err, TFT_ERR_FORMAT, ld->s->name, v->offset, "%s %s", key, what);
}

uint32_t tft_load_dim(struct tft_load *ld, const char *key, uint32_t def, uint32_t max)
{
    char full[96];
    const struct tft_value *v = tft_load_value(ld, key, full);
    uint64_t n = def;
    if (!v && !def)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is missing", full);
    else if (!v && def > max)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is missing, and its default, %u, is out of range",
                      full, def);
    else if (v && (v->is_array || !tft_value_uint(v, 0, &n) || n < 1 || n > max))
        fail_at(ld, v, full, "is not an integer of a possible size");
    return ld->status == TFT_OK ? (uint32_t)n : 1;
}

uint32_t tft_load_count(struct tft_load *ld, const char *key, uint32_t def, uint32_t max)
{
    char full[96];
    const struct tft_value *v = tft_load_value(ld, key, full);
    uint64_t n = def;
    if (v && (v->is_array || !tft_value_uint(v, 0, &n) || n > max))
        fail_at(ld, v, full, "is not an integer of a possible size");
    return ld->status == TFT_OK ? (uint32_t)n : 0;
}

float tft_load_real(struct tft_load *ld, const char *key, float def)
{
    char full[96];
    const struct tft_value *v = tft_load_value(ld, key, full);
    double x = (double)def;
    if (!v && def == 0)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s is missing", full);
    else if (v && (v->is_array || !tft_value_real(v, 0, &x) || !(x > 0 && x < 1e30)))
        fail_at(ld, v, full, "is not a positive number");
    return ld->status == TFT_OK ? (float)x : 1;
}

float tft_load_factor(struct tft_load *ld, const char *key, float def)
{
    char full[96];
    const struct tft_value *v = tft_load_value(ld, key, full);
    double x;
    bool absent = !v || (!v->is_array && tft_value_real(v, 0, &x) && x == 0);
    return absent ? def : tft_load_real(ld, key, def);
}

bool tft_load_flag(struct tft_load *ld, const char *key, bool def)
{
    char full[96];
    const struct tft_value *v = tft_load_value(ld, key, full);
    uint64_t n = def;
    if (v && (v->is_array || !tft_value_uint(v, 0, &n) || n > 1))
        fail_at(ld, v, full, "is not a bool");
    return n == 1;
}

const char tft_load_not_causal[] =
    "its attention is not causal, as in an encoder: such models are not supported";

bool tft_load_is_encoder(const struct tft_load *ld)
{
    return ld->m->arch->parts & TFT_BIT(TFT_PART_ENCODER);
}

static void load_direction(struct tft_load *ld)
{
    bool encoder = ld->m->encoder = tft_load_is_encoder(ld),
         causal = tft_load_flag(ld, "attention.causal", !encoder);
    if (!causal && !encoder)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "%s", tft_load_not_causal);
    if (causal && encoder)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "%s.attention.causal is true: not supported",
                      ld->m->arch->name);
}

static const char kv_heads_key[] = "attention.head_count_kv", ff_key[] = "feed_forward_length";

const struct tft_value *tft_load_by_layer(struct tft_load *ld, const char *key)
{
    char full[96];
    const struct tft_value *v = tft_load_value(ld, key, full);
    if (!v || !v->is_array)
        return NULL;
    if (v->n != ld->n_block)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s has %llu elements for %u layers", full,
                      (unsigned long long)v->n, ld->n_block);
    return ld->status == TFT_OK ? v : NULL;
}

/* The largest element of an array with one for each layer; 0 after an error. 0 means that the layer
   has none. All other elements must be equal, unless `differ` is set. */
static uint32_t most_of(struct tft_load *ld, const struct tft_value *v, const char *key,
                        uint32_t max, bool differ, const char *what)
{
    uint64_t n, most = 0;
    for (uint32_t l = 0; l < ld->m->n_layer && ld->status == TFT_OK; l++)
        if (!tft_value_uint(v, l, &n) || n > max)
            fail_at(ld, v, key, "has an element that is not an integer of a possible size");
        else if (n && most && n != most && !differ)
            tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                          "layers with %llu and with %llu %s in one model are not supported",
                          (unsigned long long)most, (unsigned long long)n, what);
        else
            most = n > most ? n : most;
    return ld->status == TFT_OK ? (uint32_t)most : 0;
}

static uint32_t load_kv_heads(struct tft_load *ld, bool differ)
{
    const struct tft_model *m = ld->m;
    const struct tft_value *v = tft_load_by_layer(ld, kv_heads_key);
    if (!v)
        return tft_load_dim(ld, kv_heads_key, m->n_head, m->n_head);
    uint32_t most = most_of(ld, v, kv_heads_key, m->n_head, differ, "KV heads");
    if (!most)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "no layer has attention");
    return ld->status == TFT_OK ? most : 1;
}

static uint32_t load_ff(struct tft_load *ld, bool differ)
{
    const struct tft_value *v = tft_load_by_layer(ld, ff_key);
    bool may_lack = ld->m->arch->parts & TFT_BIT(TFT_PART_HALF_BLOCKS);
    if (!v && may_lack)
        return tft_load_count(ld, ff_key, 0, MAX_WIDTH);
    if (!v) { /* a file in which all layers have experts may have their width alone */
        uint32_t width = tft_load_count(ld, "expert_feed_forward_length", 0, MAX_WIDTH);
        return tft_load_dim(ld, ff_key, width, MAX_WIDTH);
    }
    uint32_t most = most_of(ld, v, ff_key, MAX_WIDTH, differ, "hidden activations");
    for (uint32_t l = 0; l < ld->m->n_layer && ld->status == TFT_OK && !may_lack; l++)
        if (!tft_load_ff(ld, l))
            fail_at(ld, v, ff_key, "has an element that is 0");
    return ld->status == TFT_OK ? most : 1;
}

/* Element `layer` of the array ARCH.key, which was checked before; `all` if ARCH.key is not an
   array. */
static uint32_t element(const struct tft_load *ld, const char *key, unsigned layer, uint32_t all)
{
    char full[96];
    const struct tft_value *v = tft_load_value(ld, key, full);
    uint64_t n;
    return v && v->is_array && tft_value_uint(v, layer, &n) ? (uint32_t)n : all;
}

uint32_t tft_load_kv_heads(const struct tft_load *ld, unsigned layer)
{
    return element(ld, kv_heads_key, layer, ld->m->n_head_kv);
}

uint32_t tft_load_ff(const struct tft_load *ld, unsigned layer)
{
    return element(ld, ff_key, layer, ld->m->n_ff);
}

void tft_load_head_dim(struct tft_load *ld, uint32_t dim)
{
    struct tft_model *m = ld->m;
    m->head_dim = dim;
    if ((uint64_t)m->n_head * dim > MAX_WIDTH)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%u heads of %u numbers are too many", m->n_head, dim);
    else if (m->n_head * dim > m->mixed_width)
        m->mixed_width = m->n_head * dim;
}

/* 1 in a model without attention, as if no layer used it. */
static uint32_t load_heads(struct tft_load *ld)
{
    const char *key = "attention.head_count";
    uint32_t width = ld->m->n_embd, n = 0;
    if (ld->m->arch->parts & (TFT_BIT(TFT_PART_HALF_BLOCKS) | TFT_BIT(TFT_PART_RWKV)))
        n = tft_load_count(ld, key, 0, width);
    else
        n = tft_load_dim(ld, key, 0, width);
    return n ? n : 1;
}

static void take_layers(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    struct tft_layer *block = tft_arena_take(&ld->arena, m->n_layer, sizeof *block);
    block = block ? block : ld->blocks;
    if (block)
        memset(block, 0, m->n_layer * sizeof *block);
    m->layer = block;
}

void tft_load_shape(struct tft_load *ld, bool differ)
{
    struct tft_model *m = ld->m;
    if (!ld->s->n_tensor)
        tft_load_fail(ld, TFT_ERR_FORMAT, "there are no weights in it");
    load_direction(ld);
    m->n_ctx = tft_load_dim(ld, "context_length", 0, MAX_CONTEXT);
    m->n_embd = tft_load_dim(ld, "embedding_length", 0, MAX_WIDTH);
    m->n_head = load_heads(ld);
    /* every layer has tensors of its own, so a file has no more layers than tensors */
    m->n_layer = m->n_host = tft_load_dim(ld, "block_count", 0, (uint32_t)ld->s->n_tensor);
    ld->n_block = m->n_layer;
    m->n_kv_layer = m->n_shared = m->mixer_width = 0; /* until blocks are loaded */
    m->n_round = 0;
    m->kv_numbers = 0;
    m->n_ff_dense = 0;
    m->mamba_beside = false;
    m->qkv_bound = 0;
    m->state_size = m->mixed_width = 0;
    m->parts = 0;
    m->kv_window = NULL;
    m->kv_heads = NULL;
    m->n_head_kv = load_kv_heads(ld, differ);
    m->n_ff = load_ff(ld, differ);

    if (!tft_load_has(ld, "attention.key_length") && m->n_embd % m->n_head)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%u heads do not divide a width of %u", m->n_head,
                      m->n_embd);
    tft_load_head_dim(
        ld, tft_load_dim(ld, "attention.key_length", m->n_embd / m->n_head, TFT_MAX_HEAD_DIM));
    bool latent = m->arch->parts & TFT_BIT(TFT_PART_LATENT), /* see models/latent.h */
        own = latent || m->arch->parts & TFT_BIT(TFT_PART_SHORT_VALUES);
    if (!own &&
        tft_load_dim(ld, "attention.value_length", m->head_dim, TFT_MAX_HEAD_DIM) != m->head_dim)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "heads whose values are not as long as their keys are not supported");
    if (m->n_head % m->n_head_kv)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%u KV heads do not divide %u heads", m->n_head_kv,
                      m->n_head);
    m->attn_scale = 1.0f / sqrtf((float)m->head_dim);
    m->embed_scale = m->residual_scale = m->logit_scale = 1;
    if (m->n_head / m->n_head_kv > TFT_MAX_GROUP && !latent)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "more than %d heads share a KV head", TFT_MAX_GROUP);
    take_layers(ld);
}

void tft_load_rounds(struct tft_load *ld, uint32_t n)
{
    struct tft_model *m = ld->m;
    if (ld->status != TFT_OK || n < 2)
        return;
    m->n_round = m->n_layer;
    m->n_layer = m->n_host = ld->n_block = n * m->n_round;
    take_layers(ld);
}

struct tft_layer *tft_load_layer(struct tft_load *ld, unsigned layer)
{
    return ld->m->layer ? &ld->m->layer[layer] : &ld->block;
}

/* -------------------------------------------------------------------------------------- tensors */

void tft_load_convert_later(struct tft_load *ld, const struct tft_conversion *c)
{
    if (ld->conversion)
        ld->conversion[ld->n_conversion] = *c;
    ld->n_conversion++;
}

/* "rows x cols", with more dimensions in front if there are any. */
static const char *shape_text(char out[96], const uint64_t ne[4])
{
    int dims = ne[3] > 1 ? 4 : ne[2] > 1 ? 3 : 2, n = 0;
    for (int i = dims - 1; i >= 0; i--)
        n += snprintf(out + n, 96 - (size_t)n, "%llu%s", (unsigned long long)ne[i], i ? " x " : "");
    return out;
}

/* The tensor of this name and shape, marked as used; NULL after an error. */
static const struct tft_tensor *find(struct tft_load *ld, const char *name, const uint64_t ne[4])
{
    const struct tft_tensor *t = ld->status == TFT_OK ? tft_source_tensor(ld->s, name) : NULL;
    char is[96], should[96];
    if (!t) {
        tft_load_fail(ld, TFT_ERR_FORMAT, "the tensor %s is missing", name);
        return NULL;
    }
    if (memcmp(t->ne, ne, sizeof t->ne) != 0) {
        ld->status = tft_fail_at(ld->err, TFT_ERR_FORMAT, tft_source_file(ld->s, t->data),
                                 t->offset, "the tensor %s is %s and should be %s", name,
                                 shape_text(is, t->ne), shape_text(should, ne));
        return NULL;
    }
    if (ld->used)
        ld->used[t - ld->s->tensor] = 1;
    return t;
}

static void wrong_type(struct tft_load *ld, const struct tft_tensor *t, const char *wanted)
{
    ld->status = tft_fail_at(ld->err, TFT_ERR_UNSUPPORTED, tft_source_file(ld->s, t->data),
                             t->offset, "the tensor %.*s has type %s and should have %s",
                             TFT_STR_ARG(t->name), tft_dtype_info(t->type)->name, wanted);
}

uint32_t tft_load_kv_layer(struct tft_load *ld, struct tft_kv_heads heads)
{
    ld->m->kv_numbers += (uint64_t)heads.n * heads.dim;
    return ld->m->n_kv_layer++;
}

const void *tft_load_exactly(struct tft_load *ld, const char *name, enum tft_dtype type,
                             const uint64_t ne[4])
{
    const struct tft_tensor *t = find(ld, name, ne);
    if (t && t->type != type)
        wrong_type(ld, t, tft_dtype_info(type)->name);
    return t ? t->data : NULL;
}

enum use {
    FOR_PRODUCTS, /* in place if a format is for the tensor's type, else packed or expanded */
    AS_F32,       /* in place if the tensor is f32, else expanded */
    AS_FLOATS,    /* in place if the tensor is floats, else expanded */
    BY_ROW,       /* always in place, for tft_mat_row alone */
};

/* Which rows of which tensor; of each of its matrices, if it has several. */
struct part {
    const char *name;
    uint32_t tensor_rows, first, rows, cols, experts; /* experts: matrices; 0: it is one */
};

static uint32_t matrices(const struct part *p)
{
    return p->experts ? p->experts : 1;
}

/* Converts the matrix w, which cannot be used in place, when the file is opened. The matrices of n
   experts follow one another. */
static void convert(struct tft_load *ld, struct tft_mat *w, uint32_t n, enum use use)
{
    const struct tft_format *packed = NULL;
    if (use == FOR_PRODUCTS && ld->weights == TFT_WEIGHTS_STORED)
        packed = tft_format_packed(w->tensor->type);
    struct tft_conversion c = {.tensor = w->tensor, .first = w->first, .rows = w->rows};
    w->format = c.packed = packed;
    if (!packed) {
        w->format = use == AS_F32 ? &tft_format_f32 : tft_format_of_floats(ld->weights);
        c.num = w->format->num;
    }
    uint64_t rows = packed ? tft_panel_rows(w->rows) / TFT_PANEL : w->rows,
             row = packed ? tft_packed_bytes(packed, TFT_PANEL, w->cols)
                          : (uint64_t)w->cols * tft_num_bytes(c.num);
    char *to = tft_arena_take(&ld->arena, (size_t)rows * n, (size_t)row);
    for (uint32_t e = 0; e < n; e++, c.first += w->apart) {
        c.to = to ? to + (size_t)(e * rows * row) : NULL;
        tft_load_convert_later(ld, &c);
    }
    w->first = 0;
    w->data = to;
    w->apart = packed ? (size_t)(rows * row) : w->rows;
}

/* The format of a packed tensor; NULL: there is no such tensor, or it is not packed. */
static const struct tft_format *packed_format(const struct tft_load *ld, const char *name)
{
    const struct tft_tensor *t = ld->packed ? tft_source_tensor(ld->s, name) : NULL;
    int64_t type = -1;
    if (t)
        tft_value_int(ld->packed, (uint64_t)(t - ld->s->tensor), &type);
    return type < 0 ? NULL : tft_format_packed((enum tft_dtype)type);
}

/* Panels of a packed file, in place. */
static struct tft_mat packed_panels(struct tft_load *ld, const struct part *p, enum use use,
                                    const struct tft_format *f)
{
    struct tft_mat w = {.format = f, .rows = p->rows, .cols = p->cols};
    if (use == AS_F32 || use == AS_FLOATS)
        tft_load_fail(ld, TFT_ERR_FORMAT, "the tensor %s is packed and should have floats",
                      p->name);
    else if (p->rows != p->tensor_rows)
        tft_load_fail(ld, TFT_ERR_FORMAT, "the tensor %s is packed, but several layers share it",
                      p->name);
    else if (p->cols % f->packing->block)
        tft_load_fail(ld, TFT_ERR_FORMAT,
                      "the tensor %s has rows of %u numbers, not a multiple of %u as %s needs",
                      p->name, p->cols, f->packing->block, f->name);
    w.tensor = find(ld, p->name,
                    (const uint64_t[4]){tft_packed_bytes(f, TFT_PANEL, p->cols),
                                        tft_panel_rows(p->rows) / TFT_PANEL, matrices(p), 1});
    if (w.tensor)
        w.data = w.tensor->data;
    w.apart = (size_t)tft_packed_bytes(f, p->rows, p->cols);
    ld->m->n_params += (uint64_t)p->rows * p->cols * matrices(p);
    return w;
}

static struct tft_mat matrix(struct tft_load *ld, const struct part *p, enum use use)
{
    const struct tft_format *packed = packed_format(ld, p->name);
    if (packed)
        return packed_panels(ld, p, use, packed);

    struct tft_mat w = {
        .rows = p->rows, .cols = p->cols, .first = p->first, .apart = p->tensor_rows,
        .tensor_row = p->first};
    const struct tft_tensor *t = w.tensor =
        find(ld, p->name, (const uint64_t[4]){p->cols, p->tensor_rows, matrices(p), 1});
    if (!t)
        return w;
    if (!tft_dtype_info(t->type)->to_f32) {
        wrong_type(ld, t, "floats");
        return w;
    }

    ld->m->n_params += (uint64_t)p->rows * p->cols * matrices(p);
    w.format = tft_format_of(t->type);
    if (w.format && (use != AS_F32 || w.format == &tft_format_f32))
        w.data = t->data;
    else if (use == BY_ROW || (use == FOR_PRODUCTS && ld->unexpanded))
        w.format = &tft_format_stored;
    else
        convert(ld, &w, matrices(p), use);
    return w;
}

/* The format of the matrix in tensor t of a W8A8 file: panels of int8, or of codes. */
static const struct tft_format *w8a8_format(const struct tft_load *ld, const struct tft_tensor *t)
{
    uint64_t code = 0;
    if (ld->codes)
        tft_value_uint(ld->codes, (uint64_t)(t - ld->s->tensor), &code);
    return code ? tft_format_low(code & 255, (unsigned)code >> 8) : &tft_format_i8;
}

/* "NAME.weight", "NAME.scale" and "NAME.rowsum" of a W8A8 file, of n matrices. */
static struct tft_mat panels(struct tft_load *ld, const char *stem, uint32_t rows, uint32_t cols,
                             uint32_t n)
{
    char name[80];
    uint64_t padded = tft_panel_rows(rows), width = tft_panel_cols(cols);
    uint64_t panels_ne[4] = {width, padded, n, 1};
    const uint64_t rows_ne[4] = {padded, n, 1, 1};
    struct tft_mat w = {.format = &tft_format_i8, .rows = rows, .cols = cols};
    if (cols > TFT_PANEL_MAX_K)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s has rows of %u numbers; int8 rows have %d at most",
                      stem, cols, TFT_PANEL_MAX_K);

    snprintf(name, sizeof name, "%s.weight", stem);
    w.tensor = tft_source_tensor(ld->s, name);
    if (w.tensor)
        w.format = w8a8_format(ld, w.tensor);
    if (w.format->low) {
        panels_ne[0] = tft_low_panel(w.format->low, width);
        panels_ne[1] = padded / TFT_PANEL;
    }
    w.apart = (size_t)(panels_ne[0] * panels_ne[1]);
    w.data = tft_load_exactly(ld, name, TFT_I8, panels_ne);
    snprintf(name, sizeof name, "%s.scale", stem);
    w.scale = tft_load_exactly(ld, name, TFT_F32, rows_ne);
    snprintf(name, sizeof name, "%s.rowsum", stem);
    w.rowsum = tft_load_exactly(ld, name, TFT_I32, rows_ne);
    ld->m->n_params += (uint64_t)rows * cols * n;
    return w;
}

static void tensor_name(char out[64], const char *fmt, unsigned layer, const char *suffix)
{
    /* fmt is a constant of an architecture, with at most one %u: `layer` may go unused */
    int n = snprintf(out, 64, fmt, layer);
    snprintf(out + n, 64 - (size_t)n, "%s", suffix);
}

static const float *vector(struct tft_load *ld, const char *fmt, unsigned layer, const char *suffix,
                           uint32_t n)
{
    char name[64];
    tensor_name(name, fmt, layer, suffix);
    ld->m->weight_bytes += n * sizeof(float);
    return matrix(ld, &(struct part){name, 1, 0, 1, n, 0}, AS_F32).data;
}

const float *tft_load_vector(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n)
{
    return vector(ld, fmt, layer, "", n);
}

struct tft_norm tft_load_norm(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n,
                              bool bias)
{
    return (struct tft_norm){
        .w = vector(ld, fmt, layer, ".weight", n),
        .b = bias ? vector(ld, fmt, layer, ".bias", n) : NULL,
    };
}

/* A token is multiplied by n matrices like w. */
static void count_products(struct tft_load *ld, const struct tft_mat *w, uint32_t n)
{
    if (ld->status != TFT_OK)
        return;
    ld->m->matmul_macs += n * (uint64_t)w->rows * w->cols;
    ld->m->weight_bytes += n * w->format->bytes(w);
}

bool tft_load_has_linear(const struct tft_load *ld, const char *fmt, unsigned layer)
{
    char name[64];
    tensor_name(name, fmt, layer, ".weight");
    return tft_source_tensor(ld->s, name) != NULL;
}

bool tft_load_has_bias(const struct tft_load *ld, const char *fmt, unsigned layer)
{
    char name[64];
    tensor_name(name, fmt, layer, ".bias");
    return tft_source_tensor(ld->s, name) != NULL;
}

bool tft_load_has_norm(const struct tft_load *ld, const char *fmt, unsigned layer)
{
    return tft_load_has_linear(ld, fmt, layer) || tft_load_has_bias(ld, fmt, layer);
}

const float *tft_load_equal(struct tft_load *ld, uint32_t n, float x)
{
    float *all = tft_arena_take(&ld->arena, n, sizeof *all);
    for (uint32_t i = 0; i < n && all; i++)
        all[i] = x;
    return all;
}

struct tft_norm tft_load_head_norms(struct tft_load *ld, const char *fmt, unsigned layer,
                                    uint32_t heads, uint32_t n)
{
    char name[64];
    tensor_name(name, fmt, layer, ".weight");
    ld->m->weight_bytes += (uint64_t)heads * n * sizeof(float);
    return (struct tft_norm){.w = tft_load_table(ld, name, heads, n).data};
}

struct tft_linear tft_load_linear(struct tft_load *ld, const char *fmt, unsigned layer,
                                  uint32_t rows, uint32_t cols, bool bias)
{
    return tft_load_linear_rows(ld, fmt, layer, rows, 0, rows, cols, bias);
}

static void ignore(struct tft_load *ld, const char *fmt, unsigned layer, const char *suffix)
{
    char name[64];
    tensor_name(name, fmt, layer, suffix);
    const struct tft_tensor *t = tft_source_tensor(ld->s, name);
    if (t && ld->used)
        ld->used[t - ld->s->tensor] = 1;
}

/* The scale of a matrix of NVFP4 is in another tensor: E4M3 covers few powers of two. */
static bool is_nvfp4(const struct tft_mat *w)
{
    return (w->tensor && w->tensor->type == TFT_NVFP4) ||
           (w->format && w->format->type == TFT_NVFP4);
}

/* NAME.input_scale is for activations of 4 bits. */
static void load_nvfp4(struct tft_load *ld, struct tft_linear *l, const char *fmt, unsigned layer)
{
    if (!is_nvfp4(&l->w))
        return;
    tft_load_weight_factor(ld, l, fmt, layer);
    ignore(ld, fmt, layer, ".input_scale");
}

/* No architecture reads the scales of experts in NVFP4: without them, numbers would be wrong. */
static void refuse_scales_of_experts(struct tft_load *ld, const struct tft_mat *w, const char *fmt,
                                     unsigned layer)
{
    char name[64];
    tensor_name(name, fmt, layer, ".scale");
    if (is_nvfp4(w) && tft_source_tensor(ld->s, name))
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "the tensor %s, of scales of experts in NVFP4, is not supported", name);
}

struct tft_linear tft_load_linear_rows(struct tft_load *ld, const char *fmt, unsigned layer,
                                       uint32_t rows, uint32_t first, uint32_t n, uint32_t cols,
                                       bool bias)
{
    char name[64];
    struct tft_linear l = {0};
    tensor_name(name, fmt, layer, ld->w8a8 ? "" : ".weight");
    l.w = ld->w8a8 ? panels(ld, name, rows, cols, 1)
                   : matrix(ld, &(struct part){name, rows, first, n, cols, 0}, FOR_PRODUCTS);
    count_products(ld, &l.w, 1);
    if (bias)
        l.bias = vector(ld, fmt, layer, ".bias", rows);
    if (l.bias)
        l.bias += first;
    load_nvfp4(ld, &l, fmt, layer);
    return l;
}

struct tft_linear tft_load_plain_linear(struct tft_load *ld, const char *fmt, unsigned layer,
                                        uint32_t rows, uint32_t cols)
{
    char name[64];
    struct tft_linear l = {0};
    tensor_name(name, fmt, layer, ".weight");
    l.w = matrix(ld, &(struct part){name, rows, 0, rows, cols, 0}, FOR_PRODUCTS);
    count_products(ld, &l.w, 1);
    return l;
}

void tft_load_weight_factor(struct tft_load *ld, struct tft_linear *l, const char *fmt,
                            unsigned layer)
{
    char name[64];
    tensor_name(name, fmt, layer, ".scale");
    if (!tft_source_tensor(ld->s, name))
        return;
    const void *data = tft_load_exactly(ld, name, TFT_F32, (const uint64_t[4]){1, 1, 1, 1});
    if (data)
        memcpy(&l->w.factor, data, sizeof l->w.factor);
    if (l->bias)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED, "the tensor %s beside a bias is not supported",
                      name);
    if (data && !(l->w.factor > 0 && l->w.factor < 1e30f))
        tft_load_fail(ld, TFT_ERR_FORMAT, "the tensor %s is not a positive number", name);
    ld->m->n_params++;
    ld->m->weight_bytes += sizeof l->w.factor;
}

/* ------------------------------------------------------------------------------------- experts */

struct tft_linear tft_load_experts(struct tft_load *ld, const char *fmt, unsigned layer,
                                   uint32_t rows, uint32_t first, uint32_t n, uint32_t cols)
{
    char name[64];
    struct tft_linear l = {0};
    const struct tft_model *m = ld->m;
    struct part p = {name, rows, first, n, cols, m->n_expert};
    tensor_name(name, fmt, layer, ld->w8a8 ? "" : ".weight");
    if ((uint64_t)rows * m->n_expert > UINT32_MAX)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%u experts of %u rows in %s are too many", m->n_expert,
                      rows, name);
    l.w = ld->w8a8 ? panels(ld, name, rows, cols, m->n_expert) : matrix(ld, &p, FOR_PRODUCTS);
    l.w.experts = m->n_expert;
    count_products(ld, &l.w, m->n_expert_used);
    refuse_scales_of_experts(ld, &l.w, fmt, layer);
    return l;
}

const float *tft_load_expert_biases(struct tft_load *ld, const char *fmt, unsigned layer,
                                    uint32_t n)
{
    char name[64];
    tensor_name(name, fmt, layer, ".bias");
    ld->m->weight_bytes += (uint64_t)ld->m->n_expert_used * n * sizeof(float);
    return tft_load_table(ld, name, ld->m->n_expert, n).data;
}

struct tft_mat tft_load_router(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t rows)
{
    char name[64];
    tensor_name(name, fmt, layer, ".weight");
    struct tft_mat w = tft_load_table(ld, name, rows, ld->m->n_embd);
    count_products(ld, &w, 1);
    return w;
}

/* --------------------------------------------------------------- several matrices of floats */

/* Whether n matrices have so few rows that a number can count them. */
static bool few_rows(struct tft_load *ld, const char *name, uint32_t n, uint32_t rows)
{
    bool few = (uint64_t)n * rows <= UINT32_MAX;
    if (!few)
        tft_load_fail(ld, TFT_ERR_FORMAT, "%u matrices of %u rows in %s are too many", n, rows,
                      name);
    return few;
}

struct tft_mat tft_load_matrices(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n,
                                 uint32_t rows, uint32_t cols)
{
    char name[64];
    struct tft_mat w = {0};
    tensor_name(name, fmt, layer, ".weight");
    if (!few_rows(ld, name, n, rows))
        return w;
    w = matrix(ld, &(struct part){name, rows, 0, rows, cols, n}, AS_FLOATS);
    w.experts = n;
    count_products(ld, &w, n);
    return w;
}

/* One head of tft_load_latent_pair. k: [rank, nope], v: [v, rank] get rows of the file, whose type
   reads `rank` numbers; v is scratch first. */
static void split_head(float *k, float *v, const struct tft_tensor *t, size_t row, uint32_t nope,
                       uint32_t n_v, uint32_t rank)
{
    const struct tft_dtype_info *type = tft_dtype_info(t->type);
    size_t bytes = rank / type->block * type->bytes;
    for (uint32_t i = 0; i < nope; i++, row++) {
        type->to_f32(v, t->data + row * bytes, rank);
        for (uint32_t r = 0; r < rank; r++)
            k[(size_t)r * nope + i] = v[r];
    }
    for (uint32_t i = 0; i < n_v; i++, row++)
        type->to_f32(v + (size_t)i * rank, t->data + row * bytes, rank);
}

void tft_load_latent_pair(struct tft_load *ld, const char *fmt, unsigned layer,
                          struct tft_latent *x)
{
    char name[64];
    const struct tft_latent_shape *s = &ld->m->latent;
    uint32_t heads = ld->m->n_head, both = s->nope + s->v_dim;
    tensor_name(name, fmt, layer, ".weight");
    if (!few_rows(ld, name, heads, both))
        return;
    const struct tft_tensor *t =
        find(ld, name, (const uint64_t[4]){s->rank, (uint64_t)heads * both, 1, 1});
    if (t && !tft_dtype_info(t->type)->to_f32)
        wrong_type(ld, t, "floats");
    float *k = tft_arena_take(&ld->arena, (size_t)heads * s->nope, s->rank * sizeof *k),
          *v = tft_arena_take(&ld->arena, (size_t)heads * s->v_dim, s->rank * sizeof *v);
    for (size_t h = 0; k && v && ld->status == TFT_OK && h < heads; h++)
        split_head(k + h * s->nope * s->rank, v + h * s->v_dim * s->rank, t, h * both, s->nope,
                   s->v_dim, s->rank);
    x->k_b = (struct tft_mat){.format = &tft_format_f32,
                              .rows = s->rank,
                              .cols = s->nope,
                              .data = k,
                              .experts = heads,
                              .apart = s->rank,
                              .tensor = t};
    x->v_b = x->k_b;
    x->v_b.rows = s->v_dim;
    x->v_b.cols = s->rank;
    x->v_b.data = v;
    x->v_b.apart = s->v_dim;
    ld->m->n_params += (uint64_t)heads * both * s->rank;
    count_products(ld, &x->k_b, heads);
    count_products(ld, &x->v_b, heads);
}

/* ------------------------------------------------------------------------- layers with a state */

void tft_load_mixer_width(struct tft_load *ld, uint32_t width, uint32_t projected)
{
    struct tft_model *m = ld->m;
    if (width != m->n_head * m->head_dim)
        tft_load_fail(ld, TFT_ERR_UNSUPPORTED,
                      "%u heads of %u numbers, but layers without attention have %u", m->n_head,
                      m->head_dim, width);
    tft_load_mixer_room(ld, width, projected);
}

void tft_load_mixer_room(struct tft_load *ld, uint32_t width, uint32_t projected)
{
    struct tft_model *m = ld->m;
    m->mixer_width = projected > m->mixer_width ? projected : m->mixer_width;
    m->mixed_width = width > m->mixed_width ? width : m->mixed_width;
}

struct tft_taps tft_load_taps(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n,
                              uint32_t channels)
{
    char name[64];
    tensor_name(name, fmt, layer, ".weight");
    const struct tft_tensor *t = find(ld, name, (const uint64_t[4]){n, channels, 1, 1});
    float *w = tft_arena_take(&ld->arena, n, channels * sizeof *w), row[TFT_CONV_TAPS];
    if (t && (tft_dtype_info(t->type)->block != 1 || !tft_dtype_info(t->type)->to_f32))
        wrong_type(ld, t, "floats");
    for (uint32_t c = 0; w && ld->status == TFT_OK && c < channels; c++) {
        const struct tft_dtype_info *type = tft_dtype_info(t->type);
        type->to_f32(row, t->data + (size_t)c * n * type->bytes, n);
        for (uint32_t k = 0; k < n; k++)
            w[(size_t)k * channels + c] = row[k];
    }
    ld->m->n_params += (uint64_t)n * channels;
    ld->m->weight_bytes += (uint64_t)n * channels * sizeof *w;
    return (struct tft_taps){.w = w, .n = n, .channels = channels};
}

const float *tft_load_planes(struct tft_load *ld, const char *fmt, unsigned layer, uint32_t n,
                             uint32_t cols)
{
    char name[64];
    tensor_name(name, fmt, layer, ".weight");
    ld->m->n_params += (uint64_t)n * cols;
    ld->m->weight_bytes += (uint64_t)n * cols * sizeof(float);
    return tft_load_exactly(ld, name, TFT_F32, (const uint64_t[4]){cols, 1, 1, n});
}

void tft_load_state(struct tft_load *ld, struct tft_layer *b, uint64_t n)
{
    struct tft_model *m = ld->m;
    if (n > SIZE_MAX / sizeof(float) - m->state_size) { /* can happen where size_t has 32 bits */
        ld->arena.failed = true;
        return;
    }
    b->state = m->state_size;
    b->state_size = (size_t)n;
    m->state_size += b->state_size;
}

void tft_load_embedding(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    const char *name = "token_embd.weight";
    const struct tft_tensor *t = tft_source_tensor(ld->s, name);
    const struct tft_value *tokens = tft_source_value(ld->s, TFT_KEY_VOCAB);
    bool by_panel = packed_format(ld, name) || (t && ld->w8a8 && w8a8_format(ld, t)->low);
    uint64_t n = t ? t->ne[1] : 0;
    if (!t)
        tft_load_fail(ld, TFT_ERR_FORMAT, "the tensor %s is missing", name);
    else if (n > (INT32_MAX - TFT_PANEL) / (by_panel ? TFT_PANEL : 1))
        tft_load_fail(ld, TFT_ERR_FORMAT, "a vocabulary of %llu tokens is too large",
                      (unsigned long long)n);
    else if ((ld->w8a8 || by_panel) &&
             (!tokens || tokens->is_array || !tft_value_uint(tokens, 0, &n) || n < 1 ||
              n > INT32_MAX ||
              tft_panel_rows((size_t)n) != t->ne[1] * (by_panel ? TFT_PANEL : 1)))
        tft_load_fail(ld, TFT_ERR_FORMAT, "%s does not fit the %llu %s of %s", TFT_KEY_VOCAB,
                      (unsigned long long)t->ne[1], by_panel ? "panels" : "rows", name);
    if (ld->status != TFT_OK)
        return;
    m->n_vocab = (uint32_t)n;
    m->embed = ld->w8a8 ? panels(ld, "token_embd", m->n_vocab, m->n_embd, 1)
                        : matrix(ld, &(struct part){name, m->n_vocab, 0, m->n_vocab, m->n_embd, 0},
                                 BY_ROW);
}

void tft_load_head(struct tft_load *ld)
{
    struct tft_model *m = ld->m;
    bool may_have = m->arch->parts & TFT_BIT(TFT_PART_HEAD_BIAS),
         bias = may_have && tft_load_has_bias(ld, "output", 0);
    if (tft_source_tensor(ld->s, "output.weight")) {
        m->output = tft_load_linear(ld, "output", 0, m->n_vocab, m->n_embd, bias);
        return;
    }
    m->output = (struct tft_linear){.w = m->embed};
    if (!ld->w8a8) {
        uint64_t n_params = m->n_params; /* the embedding is counted already */
        m->output.w =
            matrix(ld,
                   &(struct part){"token_embd.weight", m->n_vocab, 0, m->n_vocab, m->n_embd, 0},
                   FOR_PRODUCTS);
        m->n_params = n_params;
    }
    count_products(ld, &m->output.w, 1);
    if (bias)
        m->output.bias = vector(ld, "output", 0, ".bias", m->n_vocab);
}

struct tft_mat tft_load_rows(struct tft_load *ld, const char *name, uint32_t rows, uint32_t cols)
{
    return matrix(ld, &(struct part){name, rows, 0, rows, cols, 0}, BY_ROW);
}

void tft_load_ignore(struct tft_load *ld, const char *fmt, unsigned layer)
{
    ignore(ld, fmt, layer, ".weight");
}

struct tft_mat tft_load_table(struct tft_load *ld, const char *name, uint32_t rows, uint32_t cols)
{
    return matrix(ld, &(struct part){name, rows, 0, rows, cols, 0}, AS_F32);
}

/* Whether it is "blk.N.", of a block that is not computed. */
static bool is_beyond(const struct tft_load *ld, const struct tft_tensor *t)
{
    static const char blk[] = "blk.";
    uint64_t n = 0;
    size_t i = sizeof blk - 1;
    if (t->name.n <= i || memcmp(t->name.p, blk, i))
        return false;
    for (; i < t->name.n && t->name.p[i] >= '0' && t->name.p[i] <= '9' && n < UINT32_MAX; i++)
        n = n * 10 + (uint64_t)(t->name.p[i] - '0');
    return n >= ld->m->n_layer && n < ld->n_block;
}

void tft_load_check_all_used(struct tft_load *ld)
{
    for (size_t i = 0; i < ld->s->n_tensor && ld->status == TFT_OK; i++)
        if (!ld->used[i] && !is_beyond(ld, &ld->s->tensor[i])) {
            const struct tft_tensor *t = &ld->s->tensor[i];
            ld->status = tft_fail_at(ld->err, TFT_ERR_UNSUPPORTED, tft_source_file(ld->s, t->data),
                                     t->offset,
                                     "the tensor %.*s is unknown to the architecture %s",
                                     (int)t->name.n, t->name.p, ld->m->arch->name);
        }
}
