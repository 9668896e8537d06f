#include "tools/pack/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "model/convert.h"
#include "model/keys.h"

/* A tensor of the new file. */
struct item {
    const struct tft_tensor *from;
    const struct tft_format *packed; /* NULL: a copy, or `floats` */
    const float *floats;             /* [rows] part of a bias */
    uint64_t first, rows;            /* of `from`, if it is packed; all rows of a copy */
    uint64_t apart, n;               /* number of matrices of `rows` rows, each `apart` rows after
                                        the one before */
    char name[40];                   /* if it differs from the name of `from`, else "" */
};

struct packing {
    const struct tft_model *m;
    const struct pack_opts *o;
    struct pack_result *r;
    struct item *item; /* [r->tensors] in the order of the new file */
    void *piece;       /* of packed rows */
    size_t piece_bytes;
    uint64_t done, total; /* bytes of the old file */
    struct tft_gguf_writer *w;
};

/* ------------------------------------------------------------------------ tensors to be written */

enum { PARTS = 3 }; /* q, k and v may share a tensor, or gate and up */

/* Use of a tensor of the old file. */
struct use {
    const struct tft_format *packed;        /* of a matrix that is packed; NULL for others */
    const struct tft_layer *weights, *bias; /* the layer that has parts of the tensor as its
                                               matrices, or as their biases */
    const struct tft_tensor *of;            /* the tensor of these matrices */
    uint32_t layer;
};

/* The tensor NAME.bias beside the tensor NAME.weight; NULL if there is none. */
static const struct tft_tensor *bias_of(const struct tft_source *s, const struct tft_tensor *t)
{
    char name[80];
    int stem = (int)t->name.n - (int)strlen(".weight");
    snprintf(name, sizeof name, "%.*s.bias", stem > 0 ? stem : 0, t->name.p);
    return tft_source_tensor(s, name);
}

static void note(const struct tft_model *m, struct use *use, const struct tft_mat *w,
                 const struct tft_layer *b, uint32_t layer)
{
    const struct tft_tensor *t = w->tensor;
    const struct tft_format *f =
        t && w->format == &tft_format_stored ? tft_format_packed(t->type) : NULL;
    if (!f)
        return;
    struct use *u = &use[t - m->source.tensor];
    u->packed = f;
    if (w->rows == t->ne[1])
        return;
    const struct tft_tensor *bias = bias_of(&m->source, t);
    u->weights = b;
    u->of = t;
    u->layer = layer;
    if (bias)
        use[bias - m->source.tensor] = (struct use){.bias = b, .of = t, .layer = layer};
}

static void note_all(const struct tft_model *m, struct use *use)
{
    note(m, use, &m->output.w, NULL, 0);
    note(m, use, &m->layer_embed.w.w, NULL, 0);
    uint32_t layers = m->n_round ? m->n_round : m->n_layer; /* later rounds have the same weights */
    for (uint32_t i = 0; i < layers; i++) {
        const struct tft_layer *b = &m->layer[i];
        const struct tft_experts *x = &b->experts;
        const struct tft_linear *all[] = {&b->o,    &b->gate, &b->up,   &b->down,       &x->gate,
                                          &x->up,   &x->down, &b->embed_gate, &b->embed_out,
                                          &b->side_out, &b->latent.q_b,
                                          &b->altup.left, &b->altup.right, &x->latent_down,
                                          &x->latent_up};
        for (uint32_t j = 0; j < tft_layer_reads(b); j++)
            note(m, use, &b->reads[j].w, b, i);
        for (size_t j = 0; j < sizeof all / sizeof *all; j++)
            note(m, use, &all[j]->w, b, i);
    }
}

/* The parts of a tensor that several matrices share become tensors of their own, since a part is
   whole panels. */
static void add_parts(struct packing *p, const struct tft_tensor *t, const struct use *u)
{
    const struct tft_layer *b = u->weights ? u->weights : u->bias;
    bool shared = tft_layer_has_experts(b) && !tft_layer_has_experts_beside(b);
    const struct {
        const char *name;
        const struct tft_linear *l;
    } part[] = {{"attn_q", &b->q},
                {"attn_k", &b->k},
                {"attn_v", &b->v},
                {shared ? "ffn_gate_shexp" : "ffn_gate", &b->gate},
                {shared ? "ffn_up_shexp" : "ffn_up", &b->up},
                {"ffn_gate_exps", &b->experts.gate},
                {"ffn_up_exps", &b->experts.up}};
    for (size_t i = b->mixer == TFT_MIX_ATTENTION ? 0 : 3; i < sizeof part / sizeof *part; i++) {
        const struct tft_mat *w = &part[i].l->w;
        if (w->tensor != u->of)
            continue;
        struct item *to = &p->item[p->r->tensors++];
        *to = (struct item){.from = t, .rows = w->rows, .apart = t->ne[1], .n = t->ne[2]};
        if (u->weights) {
            to->packed = u->packed;
            to->first = w->first;
        } else {
            to->floats = part[i].l->bias;
        }
        snprintf(to->name, sizeof to->name, "blk.%u.%s.%s", u->layer, part[i].name,
                 u->weights ? "weight" : "bias");
    }
}

/* False: out of memory. */
static bool list(struct packing *p)
{
    const struct tft_source *s = &p->m->source;
    struct use *use = calloc(s->n_tensor, sizeof *use);
    p->item = calloc(s->n_tensor, PARTS * sizeof *p->item);
    for (size_t i = 0; use && p->item && i < s->n_tensor; i++) {
        const struct tft_tensor *t = &s->tensor[i];
        if (i == 0)
            note_all(p->m, use);
        if (use[i].weights || use[i].bias)
            add_parts(p, t, &use[i]);
        else
            p->item[p->r->tensors++] =
                (struct item){.from = t, .packed = use[i].packed, .rows = t->ne[1],
                              .apart = t->ne[1], .n = t->ne[2]};
    }
    free(use);
    return use && p->item;
}

/* ----------------------------------------------------------------------------------- the header */

/* Whether a key is about the old file itself. */
static bool describes_file(struct tft_str key)
{
    static const char *const keys[] = {"general.alignment", TFT_CHECKSUM_KEY, TFT_KEY_VOCAB,
                                       TFT_KEY_PACKED_TYPES};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (tft_str_is(key, keys[i]))
            return true;
    return false;
}

static void put_values(struct packing *p)
{
    const struct tft_source *s = &p->m->source;
    tft_gguf_put_u32(p->w, "general.alignment", TFT_PACKED_ALIGNMENT);
    for (size_t i = 0; i < s->n_value; i++)
        if (!s->value[i].ignored && !describes_file(s->value[i].key))
            tft_gguf_put_value(p->w, &s->value[i]);
    tft_gguf_put_checksum(p->w, TFT_CHECKSUM_KEY);
    tft_gguf_put_u32(p->w, TFT_KEY_PACKED, TFT_PACKED_VERSION);
    tft_gguf_put_u32(p->w, TFT_KEY_VOCAB, p->m->n_vocab);
    uint64_t types =
        tft_gguf_put_array_later(p->w, TFT_KEY_PACKED_TYPES, TFT_VALUE_I32, p->r->tensors);
    for (size_t i = 0; i < p->r->tensors; i++) {
        const struct item *t = &p->item[i];
        int32_t type = t->packed ? (int32_t)t->packed->type : -1;
        tft_gguf_fill_array(p->w, types + i * sizeof type, TFT_VALUE_I32, &type, 1);
    }
}

static void put_tensors(struct packing *p)
{
    for (size_t i = 0; i < p->r->tensors; i++) {
        const struct item *t = &p->item[i];
        struct tft_str name =
            t->name[0] ? (struct tft_str){t->name, strlen(t->name)} : t->from->name;
        if (t->packed)
            tft_gguf_put_tensor(
                p->w, name, TFT_I8, t->n > 1 ? 3 : 2,
                (const uint64_t[]){tft_packed_bytes(t->packed, TFT_PANEL, (uint32_t)t->from->ne[0]),
                                   tft_panel_rows((size_t)t->rows) / TFT_PANEL, t->n});
        else if (t->floats)
            tft_gguf_put_tensor(p->w, name, TFT_F32, 1, &t->rows);
        else
            tft_gguf_put_tensor(p->w, name, t->from->type, t->from->n_dims, t->from->ne);
    }
}

/* ------------------------------------------------------------------------------------- the data */

static void step(struct packing *p, uint64_t bytes)
{
    p->done += bytes;
    if (p->o->progress)
        p->r->stopped = !p->o->progress(p->o->user, (double)p->done / (double)p->total);
}

static void put(struct packing *p, const void *data, size_t n)
{
    tft_gguf_put_data(p->w, data, n);
    p->r->bytes += n;
}

/* One of the matrices of a tensor. */
static enum tft_status put_panels(struct packing *p, const struct item *t, uint64_t which,
                                  struct tft_error *err)
{
    uint64_t panel = tft_packed_bytes(t->packed, TFT_PANEL, (uint32_t)t->from->ne[0]),
             row = t->from->bytes / (t->from->ne[1] * t->from->ne[2]),
             rows = p->piece_bytes / panel * TFT_PANEL;
    struct tft_model_opts o = {.n_threads = p->o->n_threads};
    enum tft_status status = TFT_OK;
    for (uint64_t i = 0; i < t->rows && status == TFT_OK && !p->r->stopped; i += rows) {
        struct tft_conversion c = {
            .tensor = t->from, .packed = t->packed, .to = p->piece};
        c.first = which * t->apart + t->first + i;
        c.rows = t->rows - i < rows ? t->rows - i : rows;
        status = tft_convert(&p->m->kern, &p->m->source, &c, 1, &o, err);
        if (status == TFT_OK)
            put(p, p->piece, (size_t)(tft_panel_rows((size_t)c.rows) / TFT_PANEL * panel));
        step(p, c.rows * row);
    }
    return status;
}

static enum tft_status put_packed(struct packing *p, const struct item *t, struct tft_error *err)
{
    enum tft_status status = TFT_OK;
    for (uint64_t e = 0; e < t->n && status == TFT_OK && !p->r->stopped; e++)
        status = put_panels(p, t, e, err);
    p->r->packed++;
    return status;
}

static void put_copy(struct packing *p, const struct tft_tensor *t)
{
    for (uint64_t i = 0, n; i < t->bytes && !p->r->stopped; i += n) {
        n = t->bytes - i < p->piece_bytes ? t->bytes - i : p->piece_bytes;
        put(p, t->data + i, (size_t)n);
        tft_source_forget(&p->m->source, t->data + i, n);
        step(p, n);
    }
}

static enum tft_status put_all(struct packing *p, struct tft_error *err)
{
    enum tft_status status = TFT_OK;
    for (size_t i = 0; i < p->r->tensors && status == TFT_OK && !p->r->stopped; i++) {
        const struct item *t = &p->item[i];
        if (t->packed)
            status = put_packed(p, t, err);
        else if (t->floats)
            put(p, t->floats, (size_t)t->rows * sizeof *t->floats);
        else
            put_copy(p, t->from);
    }
    return status;
}

/* ------------------------------------------------------------------------------------ the whole */

static enum tft_status write_file(struct packing *p, const char *path, struct tft_error *err)
{
    enum tft_status status = tft_gguf_create(&p->w, path, err);
    if (status != TFT_OK)
        return status;
    put_values(p);
    put_tensors(p);
    status = put_all(p, err);
    bool whole = status == TFT_OK && !p->r->stopped;
    enum tft_status closed = tft_gguf_close(p->w, whole, whole ? err : NULL);
    return whole ? closed : status;
}

/* Whole panels, or a few MB of panels if there are that many. */
static size_t piece_bytes(const struct packing *p)
{
    enum { PIECE = 4 << 20 };
    size_t most = PIECE;
    for (size_t i = 0; i < p->r->tensors; i++) {
        const struct item *t = &p->item[i];
        uint64_t panel =
            t->packed ? tft_packed_bytes(t->packed, TFT_PANEL, (uint32_t)t->from->ne[0]) : 0;
        most = panel > most ? (size_t)panel : most;
    }
    return most;
}

static enum tft_status check(const struct packing *p, struct tft_error *err)
{
    const char *name = p->m->source.name;
    size_t n = 0;
    for (size_t i = 0; i < p->r->tensors; i++)
        n += p->item[i].packed != NULL;
    if (p->m->embed.format->takes_bytes)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: is a W8A8 model, which runs as it is: there is nothing to pack", name);
    return n ? TFT_OK
             : tft_fail(err, TFT_ERR_ARG, "%s: has no quantized matrices: there is nothing to pack",
                        name);
}

enum tft_status pack(const struct tft_model *m, const char *path, const struct pack_opts *o,
                     struct pack_result *r, struct tft_error *err)
{
    struct packing p = {.m = m, .o = o, .r = r};
    *r = (struct pack_result){0};
    enum tft_status status = TFT_OK;
    if (list(&p)) {
        status = check(&p, err);
        p.piece_bytes = piece_bytes(&p);
        p.piece = status == TFT_OK ? malloc(p.piece_bytes) : NULL;
    }
    for (size_t i = 0; i < m->source.n_tensor; i++)
        p.total += m->source.tensor[i].bytes;
    if (status == TFT_OK)
        status = p.piece ? write_file(&p, path, err)
                         : tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory", m->source.name);
    free(p.piece);
    free(p.item);
    return status;
}
