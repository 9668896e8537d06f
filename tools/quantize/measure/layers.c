#include "tools/quantize/measure/layers.h"

#include <string.h>

#include "base/error.h"
#include "kv/kv.h"
#include "tools/quantize/round/pack.h"

struct tft_linear *layers_linear(struct tft_block *b, int which)
{
    struct tft_linear *const all[LAYER_MATS] = {&b->q,    &b->k,  &b->v,   &b->o,
                                                &b->gate, &b->up, &b->down};
    return all[which]->w.rows ? all[which] : NULL;
}

float *layers_numbers(const struct tft_linear *l)
{
    return (float *)(uintptr_t)l->w.data;
}

size_t layers_readers(struct tft_block *b, uint32_t which, struct tft_linear *l[3])
{
    if (which == TFT_IN_ATTN) {
        l[0] = &b->q, l[1] = &b->k, l[2] = &b->v;
        return 3;
    }
    l[0] = &b->up, l[1] = &b->gate;
    return b->gate.w.rows ? 2 : 1;
}

static size_t layer_numbers(struct tft_block *b)
{
    size_t n = 0;
    for (int i = 0; i < LAYER_MATS; i++) {
        const struct tft_linear *l = layers_linear(b, i);
        n += l ? (size_t)l->w.rows * l->w.cols : 0;
    }
    return n;
}

/* -------------------------------------------------------------------------------------- weights */

struct expand_job {
    const struct tft_model *m;
    struct tft_block *from;
    float *to;
};

static void expand(void *arg, int tid, int n_threads)
{
    const struct expand_job *j = arg;
    float *to = j->to;
    for (int i = 0; i < LAYER_MATS; i++) {
        const struct tft_linear *l = layers_linear(j->from, i);
        if (!l)
            continue;
        for (uint32_t row = (uint32_t)tid; row < l->w.rows; row += (uint32_t)n_threads)
            tft_mat_row(j->m, &l->w, row, to + (size_t)row * l->w.cols);
        to += (size_t)l->w.rows * l->w.cols;
    }
}

void layers_load(struct layers *y, uint32_t l)
{
    struct tft_block *b = &y->m->block[l];
    float *at = y->weights;
    y->kept = *b;
    tft_port_team(y->s->n_threads, expand, &(struct expand_job){y->m, &y->kept, y->weights});
    for (int i = 0; i < LAYER_MATS; i++)
        if (layers_linear(b, i)) {
            struct tft_mat *w = &layers_linear(b, i)->w;
            *w = (struct tft_mat){
                .format = &tft_format_f32, .rows = w->rows, .cols = w->cols, .data = at};
            at += (size_t)w->rows * w->cols;
        }
}

void layers_unload(struct layers *y, uint32_t l)
{
    y->m->block[l] = y->kept;
}

/* ------------------------------------------------------------------------------------- integers */

/* A matrix as panels, and behind them its row sums and scales: a multiple of 64 bytes. */
static size_t packed_bytes(const struct tft_mat *w)
{
    return (size_t)tft_format_i8.bytes(w);
}

static size_t layer_packed_bytes(struct tft_block *b)
{
    size_t n = 0;
    for (int i = 0; i < LAYER_MATS; i++)
        n += layers_linear(b, i) ? packed_bytes(&layers_linear(b, i)->w) : 0;
    return n;
}

struct pack_job {
    const struct tft_mat *w;
    int8_t *data;
    int32_t *rowsum;
    float *scale;
    bool bad[TFT_PORT_THREADS]; /* has seen a number that is not finite */
};

static void pack(void *arg, int tid, int n_threads)
{
    struct pack_job *j = arg;
    const struct tft_mat *w = j->w;
    size_t cols = tft_panel_cols(w->cols);
    for (size_t n = (size_t)tid * TFT_PANEL; n < w->rows; n += (size_t)n_threads * TFT_PANEL) {
        size_t rows = w->rows - n < TFT_PANEL ? w->rows - n : TFT_PANEL;
        const float *from = (const float *)w->data + n * w->cols;
        j->bad[tid] |= pack_matrix(j->data + n * cols, j->rowsum + n, j->scale + n, from, w->cols,
                                   rows, w->cols, false) != rows;
    }
}

static bool pack_one(const struct layers *y, const struct tft_mat *w, char *to,
                     struct tft_mat *packed)
{
    size_t rows = tft_panel_rows(w->rows), data = rows * tft_panel_cols(w->cols);
    struct pack_job j = {.w = w,
                         .data = (int8_t *)to,
                         .rowsum = (int32_t *)(to + data),
                         .scale = (float *)(to + data) + rows};
    if (w->cols > TFT_PANEL_MAX_K)
        return false;
    tft_port_team(y->s->n_threads, pack, &j);
    for (int i = 0; i < y->s->n_threads; i++)
        if (j.bad[i])
            return false;
    *packed = (struct tft_mat){.format = &tft_format_i8,
                               .rows = w->rows,
                               .cols = w->cols,
                               .data = j.data,
                               .scale = j.scale,
                               .rowsum = j.rowsum};
    return true;
}

bool layers_pack(struct layers *y, uint32_t l)
{
    struct tft_block *b = &y->m->block[l];
    struct tft_mat packed[LAYER_MATS];
    char *to = y->packed;
    for (int i = 0; i < LAYER_MATS; i++)
        if (layers_linear(b, i)) {
            if (!pack_one(y, &layers_linear(b, i)->w, to, &packed[i]))
                return false;
            to += packed_bytes(&packed[i]);
        }
    for (int i = 0; i < LAYER_MATS; i++)
        if (layers_linear(b, i))
            layers_linear(b, i)->w = packed[i];
    for (int i = 0; i < TFT_LAYER_INPUTS; i++)
        b->in[i].range = TFT_RANGE_TOKEN;
    return true;
}

/* ------------------------------------------------------------------------------------- rotation */

/* The layers that read what comes out of a norm take up its gain. */
static void rotate_readers(struct layers *y, struct tft_block *b, uint32_t which,
                           struct tft_norm *norm)
{
    struct tft_linear *l[3];
    for (size_t i = 0, n = layers_readers(b, which, l); i < n; i++)
        rotate_residual_rows(&y->q, layers_numbers(l[i]), l[i]->w.cols, l[i]->w.rows, norm->w);
    norm->w = y->ones;
}

static void rotate_writer(struct layers *y, struct tft_linear *l, float *bias)
{
    rotate_residual_columns(&y->q, layers_numbers(l), l->w.cols, l->w.cols);
    if (!l->bias)
        return;
    l->bias = memcpy(bias, l->bias, y->q.n * sizeof *bias);
    rotate_residual_rows(&y->q, bias, y->q.n, 1, NULL);
}

void layers_rotate(struct layers *y, uint32_t l)
{
    struct tft_block *b = &y->m->block[l];
    if (!y->q.n)
        return;
    rotate_readers(y, b, TFT_IN_ATTN, &b->attn_norm);
    rotate_readers(y, b, TFT_IN_FFN, &b->ffn_norm);
    rotate_writer(y, &b->o, y->bias[0]);
    rotate_writer(y, &b->down, y->bias[1]);
}

void layers_rows(const struct layers *y, const struct tft_mat *w, uint32_t first, uint32_t n,
                 float *to)
{
    bool head = w == &y->m->output.w, embedding = w == &y->m->embed;
    for (uint32_t i = 0; i < n; i++)
        tft_mat_row(y->m, w, first + i, to + (size_t)i * w->cols);
    if (y->q.n && (head || embedding))
        rotate_residual_rows(&y->q, to, w->cols, n, head ? y->kept_norm.w : NULL);
}

/* -------------------------------------------------------------------------------------- running */

struct run {
    const struct layers *y;
    const struct layers_job *job;
};

static void run(void *arg, int tid, int n_threads)
{
    const struct run *r = arg;
    const struct layers_job *j = r->job;
    struct tft_pass p = {.m = r->y->m,
                         .s = r->y->s,
                         .tid = tid,
                         .n_threads = n_threads,
                         .tokens = j->tokens,
                         .n = j->n,
                         .pos = j->pos,
                         .each = j->each,
                         .keep = j->n};
    if (j->what == LAYERS_EMBED) {
        tft_embed(&p);
    } else if (j->what == LAYERS_LAYER) {
        tft_pass_positions(&p);
        p.m->arch->layer(&p, j->layer);
    } else {
        tft_norm(&p, &p.m->out_norm, &p.m->output);
        tft_pass_tap(&p, &p.m->output, TFT_H);
    }
}

void layers_pass(const struct layers *y, const struct layers_job *j)
{
    float *own = y->s->buf[TFT_X];
    y->s->buf[TFT_X] = j->x;
    tft_port_team(y->s->n_threads, run, &(struct run){y, j});
    y->s->buf[TFT_X] = own;
    if (j->what == LAYERS_EMBED && y->q.n)
        rotate_residual_rows(&y->q, j->x, y->stride, j->n, NULL);
}

/* Nothing is to be learned from the prefix: at run time it is never computed. */
static void run_prefix(const struct layers *y, struct layers_job j, bool dry)
{
    tft_tap_fn *tap = y->s->tap;
    y->s->tap = NULL;
    j.n = y->o->n_prefix;
    j.x = dry ? memcpy(y->s->buf[TFT_X], y->prefix, j.n * y->stride * sizeof *j.x) : y->prefix;
    j.tokens = y->o->prefix;
    if (j.n)
        layers_pass(y, &j);
    y->s->tap = tap;
}

static void run_windows(const struct layers *y, struct layers_job j, bool dry)
{
    size_t rows = y->o->window * y->stride;
    j.n = y->o->window;
    j.pos = y->o->n_prefix;
    for (size_t i = 0; i < y->n_windows; i++) {
        float *window = y->text + i * rows;
        j.tokens = y->o->text + i * y->o->window;
        j.x = dry ? memcpy(y->s->buf[TFT_X], window, rows * sizeof *window) : window;
        layers_pass(y, &j);
        if (y->step && !y->step(y->step_user, (double)(i + 1) / (double)y->n_windows))
            return;
    }
}

void layers_run(struct layers *y, uint32_t l, bool dry)
{
    struct layers_job j = {.what = LAYERS_LAYER, .layer = l};
    run_prefix(y, j, dry); /* in any case: the text sees its keys and values */
    run_windows(y, j, dry);
}

void layers_run_head(struct layers *y)
{
    run_windows(y, (struct layers_job){.what = LAYERS_HEAD}, false);
}

void layers_prefix(const struct layers *y, uint32_t l, uint16_t *k, uint16_t *v)
{
    const struct tft_kv *kv = &y->s->kv;
    uint32_t dim = y->m->head_dim, heads = y->m->n_head_kv;
    for (uint32_t pos = 0; pos < y->o->n_prefix; pos++)
        for (uint32_t h = 0; h < heads; h++) {
            size_t at = ((size_t)pos * heads + h) * dim;
            const uint16_t *panel = tft_kv_keys(kv, l, h, pos - pos % TFT_KEY_PANEL);
            for (uint32_t d = 0; d < dim; d++)
                k[at + d] = panel[d * TFT_KEY_PANEL + pos % TFT_KEY_PANEL];
            memcpy(v + at, tft_kv_values(kv, l, h, pos), dim * sizeof *v);
        }
}

const float *layers_prefix_x(const struct layers *y)
{
    return y->prefix + (y->o->n_prefix ? y->o->n_prefix - 1 : 0) * y->stride;
}

/* -------------------------------------------------------------------------------------- opening */

/* NULL where the product does not fit too. */
static float *take(size_t rows, size_t stride)
{
    size_t bytes;
    return tft_mul(rows, stride * sizeof(float), &bytes) ? tft_port_alloc(bytes, 64) : NULL;
}

static bool take_rotation(struct layers *y)
{
    size_t n = y->m->n_embd;
    y->ones = take(n, 1);
    y->bias[0] = take(n, 1);
    y->bias[1] = take(n, 1);
    if (!y->ones || !y->bias[0] || !y->bias[1] || !rotate_residual_open(&y->q, n, y->s->n_threads))
        return false;
    for (size_t i = 0; i < n; i++)
        y->ones[i] = 1;
    y->kept_norm = y->m->out_norm;
    y->m->out_norm.w = y->ones;
    return true;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool take_all(struct layers *y, const struct layers_room *room)
{
    struct tft_pass shape = {.m = y->m, .s = y->s};
    size_t most = 0, most_packed = 0;
    y->stride = tft_pass_stride(&shape, TFT_X);
    for (uint32_t l = 0; l < y->m->n_layer; l++) {
        most = larger(most, layer_numbers(&y->m->block[l]));
        most_packed = larger(most_packed, layer_packed_bytes(&y->m->block[l]));
    }
    y->prefix = take((size_t)y->o->n_prefix + 1, y->stride);
    y->text = take(room->rows, y->stride);
    y->weights = take(most, 1);
    y->packed = room->bytes ? tft_port_alloc(most_packed, 64) : NULL;
    return y->prefix && y->text && y->weights && (y->packed || !room->bytes) &&
           (y->o->rotate != QUANTIZE_ROTATE_ALL || take_rotation(y));
}

/* The cache has a slot for each token of a pass, which may be of many sequences: more than a
   context. The session is that of a model which takes bytes if a layer may do so. */
static enum tft_status open_session(struct layers *y, const struct layers_room *room,
                                    struct tft_error *err)
{
    uint32_t n_ctx = y->m->n_ctx, n_prefix = y->o->n_prefix, batch = room->batch;
    struct tft_session_opts so = {.size = sizeof so,
                                  .capacity = n_prefix + batch,
                                  .n_batch = batch > n_prefix ? batch : n_prefix,
                                  .n_threads = y->o->n_threads,
                                  .kv = "f16"};
    y->m->n_ctx = so.capacity > n_ctx ? so.capacity : n_ctx;
    y->m->bytes = room->bytes;
    enum tft_status status = tft_session_open(&y->s, y->m, &so, err);
    y->m->n_ctx = n_ctx;
    y->m->bytes = false;
    return status;
}

enum tft_status layers_take(struct layers *y, struct tft_model *m, const struct quantize_opts *o,
                            const struct layers_room *room, struct tft_error *err)
{
    *y = (struct layers){.m = m, .o = o};
    enum tft_status status = open_session(y, room, err);
    if (status != TFT_OK)
        return status;
    if (take_all(y, room))
        return TFT_OK;
    layers_close(y);
    return tft_fail(err, TFT_ERR_NOMEM,
                    "%s: no memory for a layer's weights and %zu tokens of text", m->source.name,
                    room->rows);
}

enum tft_status layers_open(struct layers *y, struct tft_model *m, const struct quantize_opts *o,
                            struct tft_error *err)
{
    size_t n_windows = o->n_text / o->window;
    enum tft_status status = layers_take(
        y, m, o, &(struct layers_room){.batch = o->window, .rows = n_windows * o->window}, err);
    if (status != TFT_OK)
        return status;
    y->n_windows = n_windows;
    struct layers_job j = {.what = LAYERS_EMBED};
    run_prefix(y, j, false);
    run_windows(y, j, false);
    return TFT_OK;
}

void layers_close(struct layers *y)
{
    if (y->q.n)
        y->m->out_norm = y->kept_norm;
    tft_session_close(y->s);
    tft_port_free(y->prefix);
    tft_port_free(y->text);
    tft_port_free(y->weights);
    tft_port_free(y->packed);
    tft_port_free(y->ones);
    tft_port_free(y->bias[0]);
    tft_port_free(y->bias[1]);
    rotate_residual_close(&y->q);
    *y = (struct layers){0};
}
