#include "tools/quantize/tune/kv_fisher.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rope.h"
#include "kv/fisher.h"
#include "port/port.h"
#include "tools/quantize/array.h"
#include "tools/quantize/tune/kv_fisher_table.h"
#include "tools/quantize/tune/kv_loss.h"
#include "tools/quantize/tune/row_ops.h"
#include "tools/quantize/tune/sequence_loss.h"

/* Tokens that are read; those of them that make the tables of a layer; and the queries in which
   losses are measured. */
enum { TOKENS = 4096, SAMPLES = KV_FISHER_SAMPLES, QUERIES = 1024 };

/* ----------------------------------------------------------------------------------------- text */

struct meter {
    const struct tft_model *m;
    const struct kv_fisher_opts *o;
    struct tft_kv_heads kv;       /* G and E of layers without a window: full layers */
    uint32_t *full, n_full;       /* [n_layer] a full layer's number among these */
    uint32_t n_windows;           /* of text, read */
    size_t width, q_width;        /* G E, H E */
    uint32_t window;              /* the number of the current one */
    const int32_t *token;         /* its tokens */
    float *x[TFT_KV_SIDES];       /* [n_full, n_windows, window, G E], keys before RoPE */
    bool *exact;                  /* [n_full, n_windows, window] tokens that are left out */
    double *square[TFT_KV_SIDES]; /* [n_full, G E] sums of squared gradients */
    float *q, *dy;                /* [n_full, n_windows, n_query, H E] */
    uint32_t *at, n_query;        /* [n_query] the queries of a window */
    int n_threads;
    float *norm, *sorted;         /* [window] squares of a token's value over all heads */
    float *cos, *sin;             /* [window, n_rot] of the tokens' positions */
    float *row;                   /* [G E] */
    float *params, *gradient;     /* of the prefix */
    struct sequence *s;
};

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Sets z->norm; returns the least square of a token that is not left out. */
static float least_norm(struct meter *z, const float *v)
{
    uint32_t n = z->o->window;
    for (uint32_t t = 0; t < n; t++) {
        double sum = 0;
        for (size_t i = 0; i < z->width; i++)
            sum += (double)v[t * z->width + i] * (double)v[t * z->width + i];
        z->norm[t] = (float)sum;
    }
    memcpy(z->sorted, z->norm, n * sizeof *z->sorted);
    qsort(z->sorted, n, sizeof *z->sorted, ascending);
    return 0.45f * 0.45f * z->sorted[n / 2];
}

/* Whether the layer's own keys and values become codes. */
static bool has_codes(const struct tft_layer *b) { return !b->window && tft_layer_has_kv(b); }

static void add_squares(double *to, const float *g, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] += (double)g[i] * (double)g[i];
}

static bool is_special(const struct tft_model *m, int32_t token)
{
    size_t len;
    return m->tokenizer && !(tft_token_text(m, token, false, &len) && len);
}

/* A token's key, or the gradient of it, [G E], before RoPE: turned back. */
static const float *turned_back(struct meter *z, const struct tft_layer *b, const float *k,
                                uint32_t t)
{
    const struct tft_model *m = z->m;
    size_t at = (size_t)t * m->n_rot;
    const struct row_angles angles = {z->cos + at, z->sin + at, m->n_rot, z->kv.dim,
                                      m->rope_halves};
    memcpy(z->row, k + t * z->width, z->width * sizeof *k);
    if (!b->no_rope)
        row_rope(z->row, z->width, &angles, true);
    return z->row;
}

static void take_queries(struct meter *z, size_t layer, const struct block_rows *x)
{
    size_t at = (layer * z->n_windows + z->window) * z->n_query;
    for (uint32_t i = 0; i < z->n_query; i++) {
        size_t to = (at + i) * z->q_width, from = z->at[i] * z->q_width;
        memcpy(z->q + to, x->q + from, z->q_width * sizeof *z->q);
        memcpy(z->dy + to, x->dy + from, z->q_width * sizeof *z->dy);
    }
}

/* block_watch.take */
static void take(void *user, uint32_t l, const struct block_rows *x)
{
    struct meter *z = user;
    const struct tft_layer *b = &z->m->layer[l];
    size_t layer = z->full[l], width = z->width, bytes = width * sizeof *x->k,
           first = (layer * z->n_windows + z->window) * z->o->window;
    if (b->window)
        return;
    take_queries(z, layer, x);
    if (!tft_layer_has_kv(b))
        return;
    float least = least_norm(z, x->v);
    for (uint32_t t = 0; t < z->o->window; t++) {
        memcpy(z->x[TFT_KV_K] + (first + t) * width, turned_back(z, b, x->k, t), bytes);
        memcpy(z->x[TFT_KV_V] + (first + t) * width, x->v + t * width, bytes);
        z->exact[first + t] =
            t < z->o->sinks || z->norm[t] < least || is_special(z->m, z->token[t]);
        if (z->exact[first + t])
            continue;
        add_squares(z->square[TFT_KV_K] + layer * width, turned_back(z, b, x->far_k, t), width);
        add_squares(z->square[TFT_KV_V] + layer * width, x->far_v + t * width, width);
    }
}

/* The queries of a window that are kept: spread evenly over those that read codes. */
static void choose_queries(struct meter *z)
{
    uint32_t read = z->o->window - z->o->far;
    for (uint32_t i = 0; i < z->n_query; i++)
        z->at[i] = z->o->far + (uint32_t)((uint64_t)i * read / z->n_query);
}

/* Numbers the layers without a window. */
static void number_layers(struct meter *z)
{
    for (uint32_t l = 0; l < z->m->n_layer; l++)
        z->full[l] = z->m->layer[l].window ? 0 : z->n_full++;
}

static bool open_meter(struct meter *z)
{
    const struct tft_model *m = z->m;
    const struct kv_fisher_opts *o = z->o;
    size_t params = sequence_params(m);
    size_t tokens = (size_t)z->n_windows * o->window,
           queries = (size_t)z->n_windows * z->n_query;
    z->n_threads = !tft_port_threaded() ? 1 : o->n_threads ? o->n_threads : tft_port_cpus();
    z->full = malloc(m->n_layer * sizeof *z->full);
    if (!z->full)
        return false;
    number_layers(z);
    for (int i = 0; i < TFT_KV_SIDES; i++) {
        z->x[i] = array_alloc(sizeof *z->x[i], z->n_full, tokens, z->width);
        z->square[i] = calloc((size_t)z->n_full * z->width, sizeof *z->square[i]);
    }
    z->exact = calloc(z->n_full * tokens, sizeof *z->exact);
    z->q = array_alloc(sizeof *z->q, z->n_full, queries, z->q_width);
    z->dy = array_alloc(sizeof *z->dy, z->n_full, queries, z->q_width);
    z->at = malloc(z->n_query * sizeof *z->at);
    z->norm = malloc(2 * (size_t)o->window * sizeof *z->norm);
    z->sorted = z->norm ? z->norm + o->window : NULL;
    z->cos = array_alloc(sizeof *z->cos, 2, o->window, m->n_rot + (size_t)1);
    z->sin = z->cos ? z->cos + (size_t)o->window * m->n_rot : NULL;
    z->row = malloc(z->width * sizeof *z->row);
    z->params = calloc(2 * params + 1, sizeof *z->params);
    z->gradient = z->params ? z->params + params : NULL;
    z->s = sequence_open(m, o->window, 0, z->n_threads);
    if (!z->x[0] || !z->x[1] || !z->square[0] || !z->square[1] || !z->exact || !z->q || !z->dy ||
        !z->at || !z->norm || !z->cos ||
        !z->row || !z->params || !z->s)
        return false;
    choose_queries(z);
    for (uint32_t t = 0; t < o->window; t++)
        tft_rope_angles(z->cos + (size_t)t * m->n_rot, z->sin + (size_t)t * m->n_rot, m->rope_freq,
                        m->n_rot, m->rope_halves, m->n_prefix + t);
    m->kern.widen[TFT_NUM_F16](z->params, m->prefix_k, params / 2);
    m->kern.widen[TFT_NUM_F16](z->params + params / 2, m->prefix_v, params / 2);
    return true;
}

static void close_meter(struct meter *z)
{
    free(z->full);
    for (int i = 0; i < TFT_KV_SIDES; i++) {
        free(z->x[i]);
        free(z->square[i]);
    }
    free(z->exact);
    free(z->q);
    free(z->dy);
    free(z->at);
    free(z->norm);
    free(z->cos);
    free(z->row);
    free(z->params);
    sequence_close(z->s);
}

/* Returns false if the caller stops it. */
static bool read_text(struct meter *z)
{
    const struct kv_fisher_opts *o = z->o;
    uint64_t seed;
    struct block_watch watch = {.far = o->far, .take = take, .user = z};
    sequence_watch(z->s, &watch, &seed);
    for (z->window = 0; z->window < z->n_windows; z->window++) {
        size_t i = (size_t)z->window * o->n_windows / z->n_windows;
        seed = z->window;
        z->token = o->text + i * o->window;
        sequence_run(z->s, z->token, NULL, z->params, z->gradient);
        if (o->progress && !o->progress(o->user, (z->window + 1.0) / z->n_windows))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------ the whole */

bool kv_fisher_wanted(const char *kv)
{
    struct tft_kv_policy policy;
    return kv && tft_kv_parse(&policy, kv, NULL) == TFT_OK && tft_kv_is_fisher(&policy);
}

/* Whether layer a reads the keys and values of layer b. */
static bool reads(const struct tft_layer *a, const struct tft_layer *b)
{
    return !a->window && a->kv_layer == b->kv_layer;
}

/* Adds the columns of one layer's output matrix to u: [G, E]. row: [H E] */
static void output_columns(const struct meter *z, const struct tft_layer *b, float *row, double *u)
{
    const struct tft_model *m = z->m;
    size_t dim = z->kv.dim, group = m->n_head / z->kv.n;
    for (uint32_t r = 0; r < b->o.w.rows; r++) {
        tft_mat_row(m, &b->o.w, r, row);
        for (size_t i = 0; i < m->n_head * dim; i++)
            u[i / dim / group * dim + i % dim] += (double)row[i] * (double)row[i];
    }
}

/* Copies a head's keys, or values, of tokens that are not left out to rows: [SAMPLES, E]. Returns
   their number. */
static size_t sample(const struct meter *z, size_t layer, int side, size_t head, float *rows)
{
    size_t tokens = (size_t)z->n_windows * z->o->window, dim = z->kv.dim, n = 0,
           step = (tokens + SAMPLES - 1) / SAMPLES;
    for (size_t t = 0; t < tokens; t += step) {
        size_t at = layer * tokens + t;
        if (!z->exact[at])
            memcpy(rows + n++ * dim, z->x[side] + at * z->width + head * dim,
                   dim * sizeof *rows);
    }
    return n;
}

/* Of layer l, rows but the losses. row: [H E]; rows: [SAMPLES, E] */
static void make_layer(const struct meter *z, uint32_t l, float *row, float *rows, double *u,
                       struct kv_fisher *r)
{
    const struct tft_model *m = z->m;
    const struct tft_layer *b = &m->layer[l];
    size_t layer = z->full[l], dim = z->kv.dim;
    memset(u, 0, z->width * sizeof *u);
    for (uint32_t i = 0; i < m->n_layer; i++)
        if (reads(&m->layer[i], b))
            output_columns(z, &m->layer[i], row, u);
    for (size_t h = 0; h < z->kv.n; h++)
        for (int side = 0; side < TFT_KV_SIDES; side++) {
            struct kv_fisher_rows x = {
                .x = rows,
                .n = sample(z, layer, side, h, rows),
                .stride = dim,
                .dim = z->kv.dim,
                .square = z->square[side] + layer * z->width + h * dim,
                .output = side == TFT_KV_V ? u + h * dim : NULL,
            };
            size_t head = (size_t)b->kv_layer * z->kv.n + h;
            if (x.n)
                kv_fisher_table(r->table[side] + head * TFT_FISHER_ROWS * dim, &x);
        }
}

/* ---- losses */

struct losses {
    const struct meter *z;
    struct kv_fisher *r;
    struct kv_loss **each;         /* [n_threads] */
    struct kv_loss_reader *reader; /* [n_threads, n_layer] */
};

/* The layers that read the keys and values of layer b, in window w. Returns their number. */
static size_t find_readers(const struct meter *z, const struct tft_layer *b, uint32_t w,
                           struct kv_loss_reader *reader)
{
    const struct tft_model *m = z->m;
    size_t n = 0;
    for (uint32_t l = 0; l < m->n_layer; l++) {
        size_t at = ((size_t)z->full[l] * z->n_windows + w) * z->n_query * z->q_width;
        if (reads(&m->layer[l], b))
            reader[n++] = (struct kv_loss_reader){z->q + at, z->dy + at};
    }
    return n;
}

/* Of a head of layer l, in all windows. */
static void measure_head(const struct losses *a, int tid, uint32_t l, size_t head)
{
    const struct meter *z = a->z;
    const struct tft_model *m = z->m;
    const struct tft_layer *b = &m->layer[l];
    struct kv_loss_reader *reader = a->reader + (size_t)tid * m->n_layer;
    size_t prefix = m->n_prefix * tft_model_kv_before(m, b->kv_layer), dim = z->kv.dim,
           at = ((size_t)b->kv_layer * z->kv.n + head) * TFT_FISHER_ROWS * dim;
    double sums[TFT_KV_SIDES][KV_LOSS_CHOICES * TFT_CODED_DIM] = {{0}};
    struct kv_loss_rows x = {
        .layer = b,
        .head = head,
        .cos = z->cos,
        .sin = z->sin,
        .prefix_k = z->params + prefix,
        .prefix_v = z->params + sequence_params(m) / 2 + prefix,
        .reader = reader,
        .at = z->at,
        .n_query = z->n_query,
        .far = z->o->far,
        .table = {a->r->table[TFT_KV_K] + at, a->r->table[TFT_KV_V] + at},
    };
    for (uint32_t w = 0; w < z->n_windows; w++) {
        size_t tokens = ((size_t)z->full[l] * z->n_windows + w) * z->o->window;
        x.k = z->x[TFT_KV_K] + tokens * z->width;
        x.v = z->x[TFT_KV_V] + tokens * z->width;
        x.exact = z->exact + tokens;
        x.n_reader = find_readers(z, b, w, reader);
        kv_loss_add(a->each[tid], &x, (double *[]){sums[TFT_KV_K], sums[TFT_KV_V]});
    }
    for (int side = 0; side < TFT_KV_SIDES; side++)
        for (size_t i = 0; i < KV_LOSS_CHOICES * dim; i++)
            a->r->table[side][at + TFT_FISHER_LOSS * dim + i] = kv_fisher_held(sums[side][i]);
}

static void measure_heads(void *arg, int tid, int n_threads)
{
    const struct losses *a = arg;
    uint32_t heads = a->z->kv.n;
    for (size_t i = (size_t)tid; i < (size_t)a->z->m->n_layer * heads; i += (size_t)n_threads)
        if (has_codes(&a->z->m->layer[i / heads]))
            measure_head(a, tid, (uint32_t)(i / heads), i % heads);
}

/* False if memory is short. */
static bool measure_losses(const struct meter *z, struct kv_fisher *r)
{
    size_t threads = (size_t)z->n_threads;
    struct losses a = {.z = z,
                       .r = r,
                       .each = calloc(threads, sizeof *a.each),
                       .reader = array_alloc(sizeof *a.reader, threads, z->m->n_layer, 1)};
    bool good = a.each && a.reader;
    for (int i = 0; good && i < z->n_threads; i++)
        good = (a.each[i] = kv_loss_open(z->m, z->o->window)) != NULL;
    if (good)
        tft_port_team(z->n_threads, measure_heads, &a);
    for (int i = 0; a.each && i < z->n_threads; i++)
        kv_loss_close(a.each[i]);
    free(a.each);
    free(a.reader);
    return good;
}

/* False if memory is short. */
static bool make_tables(const struct meter *z, struct kv_fisher *r)
{
    const struct tft_model *m = z->m;
    size_t heads = (size_t)m->n_kv_layer * z->kv.n;
    float *row = malloc(z->q_width * sizeof *row);
    float *rows = array_alloc(sizeof *rows, SAMPLES, z->kv.dim, 1);
    double *u = malloc(z->width * sizeof *u);
    for (int i = 0; i < TFT_KV_SIDES; i++)
        r->table[i] = calloc(heads, (size_t)TFT_FISHER_ROWS * z->kv.dim * sizeof *r->table[i]);
    bool good = row && rows && u && r->table[0] && r->table[1];
    for (uint32_t l = 0; good && l < m->n_layer; l++)
        if (has_codes(&m->layer[l]))
            make_layer(z, l, row, rows, u, r);
    free(row);
    free(rows);
    free(u);
    return good && measure_losses(z, r);
}

enum tft_status kv_fisher_measure(const struct tft_model *m, const struct kv_fisher_opts *o,
                                  struct kv_fisher *r, bool *stopped, struct tft_error *err)
{
    const struct tft_kv_heads kv = tft_model_coded_heads(m);
    uint32_t most = TOKENS / o->window;
    struct meter z = {.m = m,
                      .o = o,
                      .kv = kv,
                      .n_windows = most < 1              ? 1
                                   : most < o->n_windows ? most
                                                         : o->n_windows,
                      .width = (size_t)kv.n * kv.dim,
                      .q_width = (size_t)m->n_head * kv.dim};
    *r = (struct kv_fisher){0};
    *stopped = false;
    if (o->window <= o->far + o->sinks)
        return tft_fail(err, TFT_ERR_ARG,
                        "%s: windows of %u tokens are too short to calibrate a KV cache with a "
                        "window of %u: use a larger --calib-window",
                        m->source.name, o->window, o->far);
    uint32_t queries = (QUERIES + z.n_windows - 1) / z.n_windows, read = o->window - o->far;
    z.n_query = queries < read ? queries : read;
    bool good = open_meter(&z);
    if (good)
        *stopped = !read_text(&z);
    if (good && !*stopped)
        good = make_tables(&z, r);
    close_meter(&z);
    if (good)
        return TFT_OK;
    kv_fisher_free(r);
    return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory to calibrate the KV cache",
                    m->source.name);
}

/* Keys, values and queries of layers without a window; and, of a window of the usual length, the
   residual stream after each layer and the rows of a block, tape.c's and sequence_loss.c's. */
uint64_t kv_fisher_bytes(const struct tft_model *m)
{
    const struct tft_kv_heads kv = tft_model_coded_heads(m);
    uint64_t tokens = 2ull * TOKENS * kv.n * kv.dim,
             queries = 2ull * QUERIES * m->n_head * kv.dim, kept = 0,
             stream = m->n_embd * (m->n_layer + 1ull),
             block = 6ull * m->n_embd + 6ull * m->n_head * m->head_dim +
                     8ull * m->n_head_kv * m->head_dim + 6ull * m->n_ff;
    for (uint32_t l = 0; l < m->n_layer; l++)
        kept += m->layer[l].window ? 0 : queries + (has_codes(&m->layer[l]) ? tokens : 0);
    return sizeof(float) * (kept + 1024 * (stream + block));
}

void kv_fisher_free(struct kv_fisher *r)
{
    free(r->table[0]);
    free(r->table[1]);
    *r = (struct kv_fisher){0};
}
