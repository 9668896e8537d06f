/*
 * Cuts the part of a process from a model. If the part begins with a panel, rows of a matrix are
 * used in place in the file. Other rows, and columns, are copied. So a process reads only its part
 * of the file.
 */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "inside.h"
#include "kv/fisher.h"

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* The range of process r among n numbers, distributed in units. */
static struct range range_of(const struct link *link, int r, uint32_t n, uint32_t unit)
{
    uint64_t units = (n + unit - 1) / unit, size = (uint64_t)link->size, at = (uint64_t)r;
    return (struct range){min_u32((uint32_t)(units * at / size) * unit, n),
                          min_u32((uint32_t)(units * (at + 1) / size) * unit, n)};
}

static struct range own_range(const struct part *part, uint32_t n, uint32_t unit)
{
    return range_of(&part->link, part->link.rank, n, unit);
}

/* The range of heads, in numbers: `each` for a head. */
static struct range times(struct range r, uint32_t each)
{
    return (struct range){r.from * each, r.to * each};
}

static uint32_t length(struct range r) { return r.to - r.from; }

/* --------------------------------------------------------------------------------------- copies */

/* The number at a row and column of a matrix of int8 or of codes. */
static int8_t number(const struct tft_mat *w, uint32_t row, uint32_t col)
{
    if (w->format->low)
        return (int8_t)tft_low_at(w->data, w->format->low, row, col, w->cols);
    return ((const int8_t *)w->data)[tft_panel_at(row, col, tft_panel_cols(w->cols))];
}

/* Whether columns from `from` on can be copied as whole bytes of panels. */
static bool cuts_at(const struct tft_mat *w, uint32_t from)
{
    return from % (w->format->low ? w->format->low->group : TFT_QUAD) == 0;
}

/* Bytes of a panel of w. */
static size_t panel_bytes(const struct tft_mat *w)
{
    return w->format->low ? tft_low_panel(w->format->low, w->cols)
                          : TFT_PANEL * tft_panel_cols(w->cols);
}

/* The first byte, in a panel, of a column that cuts_at allows. */
static size_t column_at(const struct tft_mat *w, uint32_t col)
{
    return w->format->low ? col / w->format->low->group * tft_low_group_bytes(w->format->low)
                          : (size_t)col * TFT_PANEL;
}

/* to->data = columns from `from` on of w; cuts_at must allow `from`. Codes of padding are
   arbitrary; int8 is padded with zeros. */
static void copy_panels(const struct tft_mat *to, const struct tft_mat *w, uint32_t from)
{
    size_t size = panel_bytes(to), begin = column_at(w, from),
           n = to->format->low ? size : column_at(to, to->cols);
    for (uint32_t p = 0; p * TFT_PANEL < to->rows; p++) {
        char *panel = (char *)to->data + p * size;
        memcpy(panel, (const char *)w->data + p * panel_bytes(w) + begin, n);
        memset(panel + n, 0, size - n);
    }
}

/* to->data = numbers of w, from a row and a column on, as int8. */
static void copy_numbers(const struct tft_mat *to, const struct tft_mat *w, uint32_t row,
                         uint32_t col)
{
    size_t cols = tft_panel_cols(to->cols);
    int8_t *data = (int8_t *)to->data;
    memset(data, 0, tft_panel_rows(to->rows) * cols);
    for (uint32_t r = 0; r < to->rows; r++)
        for (uint32_t c = 0; c < to->cols; c++)
            data[tft_panel_at(r, c, cols)] = number(w, row + r, col + c);
}

/* The sums of the rows of `to`. */
static void add_rows(const struct tft_mat *to, int32_t *rowsum)
{
    for (uint32_t r = 0; r < to->rows; r++) {
        rowsum[r] = 0;
        for (uint32_t c = 0; c < to->cols; c++)
            rowsum[r] += number(to, r, c);
    }
}

/* ------------------------------------------------------------------------------------- matrices */

/* Every cut runs twice: the arena first counts, then places. */
struct cut {
    struct part *part;
    const struct tft_model *whole;
    struct tft_arena arena;
    float *ones; /* scales, as many as a piece has rows */
};

/* Copies an array [rows padded] beside the panels of w, from `from` on. */
static void *copy_beside(struct cut *c, const struct tft_mat *w, const void *from)
{
    uint32_t *to = tft_arena_take(&c->arena, tft_panel_rows(w->rows), sizeof *to);
    if (to) {
        memset(to, 0, tft_panel_rows(w->rows) * sizeof *to);
        memcpy(to, from, w->rows * sizeof *to);
    }
    return to;
}

/* Cuts *l to the rows of the range, with their scales, sums and biases. */
static void cut_rows(struct cut *c, struct tft_linear *l, struct range r)
{
    struct tft_mat all = l->w, *w = &l->w;
    if (!all.rows)
        return;
    w->rows = length(r);
    l->bias = l->bias ? l->bias + r.from : NULL;
    if (r.from % TFT_PANEL == 0) {
        w->data = (const char *)all.data + r.from / TFT_PANEL * panel_bytes(&all);
        w->scale += r.from;
        w->rowsum += r.from;
        return;
    }
    w->format = &tft_format_i8;
    w->scale = copy_beside(c, w, all.scale + r.from);
    w->rowsum = copy_beside(c, w, all.rowsum + r.from);
    void *data = tft_arena_take(&c->arena, tft_panel_rows(w->rows), tft_panel_cols(w->cols));
    w->data = data;
    if (data)
        copy_numbers(w, &all, r.from, 0);
}

static void cut_piece(struct cut *c, struct tft_mat *to, const struct tft_mat *w, uint32_t from,
                      uint32_t n)
{
    bool as_it_is = cuts_at(w, from);
    *to = (struct tft_mat){.format = as_it_is ? w->format : &tft_format_i8,
                           .rows = w->rows,
                           .cols = n,
                           .scale = c->ones};
    size_t panels = tft_panel_rows(w->rows) / TFT_PANEL;
    int32_t *rowsum = tft_arena_take(&c->arena, tft_panel_rows(w->rows), sizeof *rowsum);
    to->data = tft_arena_take(&c->arena, panels, panel_bytes(to));
    to->rowsum = rowsum;
    if (!rowsum)
        return;
    memset(rowsum, 0, tft_panel_rows(w->rows) * sizeof *rowsum);
    if (as_it_is)
        copy_panels(to, w, from);
    else
        copy_numbers(to, w, 0, from);
    add_rows(to, rowsum);
}

static struct columns cut_columns(struct cut *c, const struct tft_mat *w, struct range r)
{
    uint32_t n = (length(r) + TFT_MPI_PIECE - 1) / TFT_MPI_PIECE;
    struct tft_mat *piece = tft_arena_take(&c->arena, n, sizeof *piece), counted;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from = r.from + i * TFT_MPI_PIECE;
        cut_piece(c, piece ? &piece[i] : &counted, w, from, min_u32(r.to - from, TFT_MPI_PIECE));
    }
    return (struct columns){n, piece};
}

/* ---------------------------------------------------------------------------------------- heads */

/* The part's heads of [n, G, each] items of `size` bytes; NULL: NULL. */
static void *cut_heads(struct cut *c, const void *all, uint32_t n, uint32_t each, size_t size)
{
    const struct part *part = c->part;
    uint32_t heads = length(part->kv);
    size_t row = (size_t)each * size;
    if (!all)
        return NULL;
    char *to = tft_arena_take(&c->arena, (size_t)n * heads, row);
    for (size_t i = 0; i < n && to; i++)
        memcpy(to + i * heads * row,
               (const char *)all + (i * c->whole->n_head_kv + part->kv.from) * row, heads * row);
    return to;
}

static void cut_prefixes(struct cut *c)
{
    const struct tft_model *w = c->whole;
    struct tft_model *m = &c->part->m;
    uint32_t layers = w->n_kv_layer, dim = w->head_dim;
    m->prefix_k = cut_heads(c, w->prefix_k, layers * w->n_prefix, dim, sizeof *w->prefix_k);
    m->prefix_v = cut_heads(c, w->prefix_v, layers * w->n_prefix, dim, sizeof *w->prefix_v);
    struct tft_named_prefix *named = tft_arena_take(&c->arena, w->n_named, sizeof *named);
    for (uint32_t i = 0; i < w->n_named; i++) {
        struct tft_named_prefix own = w->named[i];
        own.k = cut_heads(c, own.k, layers * own.n, dim, sizeof *own.k);
        own.v = cut_heads(c, own.v, layers * own.n, dim, sizeof *own.v);
        if (named)
            named[i] = own;
    }
    m->named = named;
}

/* Cuts the calibrated tables of a cache. */
static void cut_calibrated(struct cut *c)
{
    const struct tft_model *w = c->whole;
    struct tft_model *m = &c->part->m;
    uint32_t dim = w->head_dim, group = w->kv_policy.group,
             groups = group ? (dim + group - 1) / group : 0;
    m->key_importance =
        cut_heads(c, w->key_importance, w->n_kv_layer, dim, sizeof *w->key_importance);
    m->key_order = cut_heads(c, w->key_order, w->n_kv_layer, dim, sizeof *w->key_order);
    for (int i = 0; i < TFT_KV_SIDES; i++) {
        m->kv_clip[i] =
            cut_heads(c, w->kv_clip[i], w->n_kv_layer, groups, sizeof *w->kv_clip[i]);
        m->kv_fisher[i] = cut_heads(c, w->kv_fisher[i], w->n_kv_layer, TFT_FISHER_ROWS * dim,
                                    sizeof *w->kv_fisher[i]);
    }
}

/* --------------------------------------------------------------------------------------- layers */

/* The unit that distributes the hidden activations: whole blocks of the Hadamard transform, and
   whole groups of down's codes. */
static uint32_t hidden_unit(const struct tft_layer *b)
{
    const struct tft_low *low = b->down.w.format->low;
    return max_u32(max_u32(b->down.in->hadamard, TFT_PANEL), low ? low->group : 0);
}

static void cut_block(struct cut *c, struct tft_layer *b, uint32_t layer)
{
    struct part *part = c->part;
    const struct tft_layer *whole = &c->whole->layer[layer];
    uint32_t dim = c->whole->head_dim, group = c->whole->n_head / c->whole->n_head_kv;
    struct range keys = times(part->kv, dim), queries = times(keys, group),
                 hidden = own_range(part, whole->down.w.cols, hidden_unit(whole));
    struct columns o = cut_columns(c, &whole->o.w, queries),
                   down = cut_columns(c, &whole->down.w, hidden);
    if (part->o) {
        part->o[layer] = o;
        part->down[layer] = down;
    }
    cut_rows(c, &b->q, queries);
    cut_rows(c, &b->k, keys);
    cut_rows(c, &b->v, keys);
    cut_rows(c, &b->gate, hidden);
    cut_rows(c, &b->up, hidden);
    b->kv.n = length(part->kv);
    if (c->whole->parts & TFT_BIT(TFT_PART_OWN_QK_NORM) && b->q_norm.w) {
        b->q_norm.w += queries.from;
        b->k_norm.w += keys.from;
    }
    part->m.n_ff = max_u32(part->m.n_ff, length(hidden)); /* units may differ from layer to layer */
}

static void cut_all(struct cut *c)
{
    const struct tft_model *w = c->whole;
    struct part *part = c->part;
    size_t rows = tft_panel_rows(w->n_embd);
    c->ones = tft_arena_take(&c->arena, rows, sizeof *c->ones);
    for (size_t i = 0; i < rows && c->ones; i++)
        c->ones[i] = 1;
    part->vocab_ends = tft_arena_take(&c->arena, (size_t)part->link.size, sizeof *part->vocab_ends);
    for (int r = 0; r < part->link.size && part->vocab_ends; r++)
        part->vocab_ends[r] = range_of(&part->link, r, w->n_vocab, TFT_PANEL).to;
    part->m.n_ff = 0;
    part->o = tft_arena_take(&c->arena, w->n_layer, sizeof *part->o);
    part->down = tft_arena_take(&c->arena, w->n_layer, sizeof *part->down);
    struct tft_layer *block = tft_arena_take(&c->arena, w->n_layer, sizeof *block), counted;
    for (uint32_t l = 0; l < w->n_layer; l++) {
        struct tft_layer *b = block ? &block[l] : &counted;
        *b = w->layer[l];
        cut_block(c, b, l);
    }
    part->m.layer = block;
    part->m.output = w->output;
    cut_rows(c, &part->m.output, part->vocab);
    cut_prefixes(c);
    cut_calibrated(c);
}

/* --------------------------------------------------------------------------------------- checks */

static enum tft_status check(const struct tft_model *m, int size, struct tft_error *err)
{
    if (m->n_host)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: mpi computes all layers: leave gpu_layers out", m->source.name);
    if ((uint32_t)size > m->n_head_kv)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: %d processes, but %u KV heads: start at most one for each",
                        m->source.name, size, m->n_head_kv);
    return TFT_OK;
}

enum tft_status tft_mpi_cut(struct part *part, const struct tft_model *whole,
                            struct tft_error *err)
{
    enum tft_status status = check(whole, part->link.size, err);
    if (status != TFT_OK)
        return status;
    part->m = *whole;
    part->m.whole = whole;
    part->m.n_host = whole->n_layer;
    part->m.n_stage = 0;
    part->kv = own_range(part, whole->n_head_kv, 1);
    part->vocab = own_range(part, whole->n_vocab, TFT_PANEL);
    part->m.n_head_kv = length(part->kv);
    part->m.n_head = part->m.n_head_kv * (whole->n_head / whole->n_head_kv);
    part->m.kv_numbers = (uint64_t)whole->n_kv_layer * part->m.n_head_kv * whole->head_dim;
    part->m.mixed_width = part->m.n_head * part->m.head_dim;
    part->m.n_vocab = length(part->vocab);

    struct cut c = {.part = part, .whole = whole};
    cut_all(&c);
    part->memory = c.arena.failed ? NULL : aligned_alloc(TFT_ALIGN, tft_round_up(c.arena.used));
    if (!part->memory)
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory for %zu MB of weights",
                        whole->source.name, c.arena.used >> 20);
    c.arena = (struct tft_arena){.base = part->memory};
    cut_all(&c);
    return TFT_OK;
}
