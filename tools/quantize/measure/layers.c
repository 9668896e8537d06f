#include "tools/quantize/measure/layers.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "backend/cpu/cpu.h"
#include "kv/kv.h"
#include "models/layer_embed.h"
#include "simd/half.h"
#include "tools/quantize/round/pack.h"

struct tft_linear *layers_linear(struct tft_layer *b, int which)
{
    struct tft_linear *const after[] = {&b->o,    &b->gate, &b->up,  &b->down,
                                        &b->gate, &b->up,   &b->down},
                      *const of_experts[] = {&b->experts.gate, &b->experts.up, &b->experts.down};
    bool experts = tft_layer_has_experts(b);
    if (which < MAT_O && which >= (int)tft_layer_reads(b))
        return NULL;
    if (which > MAT_O && which < MAT_GATE && !experts)
        return which == MAT_SHARED_DOWN && b->side_out.w.rows ? &b->side_out : NULL;
    struct tft_linear *l = which < MAT_O                  ? &b->reads[which]
                           : which >= MAT_GATE && experts ? of_experts[which - MAT_GATE]
                                                          : after[which - MAT_O];
    return l->w.rows ? l : NULL;
}

float *layers_weights(const struct tft_linear *l)
{
    return (float *)(uintptr_t)l->w.data;
}

size_t layers_readers(struct tft_layer *b, uint32_t which, struct tft_linear *l[LAYER_READERS])
{
    size_t n = 0;
    for (int i = 0; i < LAYER_MATS; i++)
        if (quantize_matrix_input(b, i) == which && layers_linear(b, i))
            l[n++] = layers_linear(b, i);
    return n;
}

enum { LOADED = LAYER_MATS + 7 };

/* Matrices that are expanded: layers_linear's, then those that are never rounded: of the per-layer
   embeddings, of latent attention's queries, of Laurel, and around experts of a width of their own.
   NULL if the block has none. */
static struct tft_mat *loaded(struct tft_layer *b, int which)
{
    struct tft_linear *const kept[] = {&b->embed_gate, &b->embed_out, &b->latent.q_b,
                                       &b->altup.left, &b->altup.right,
                                       &b->experts.latent_down, &b->experts.latent_up},
                      *l = which < LAYER_MATS ? layers_linear(b, which) : kept[which - LAYER_MATS];
    return l && l->w.rows ? &l->w : NULL;
}

static uint64_t layer_numbers(struct tft_layer *b)
{
    uint64_t n = 0;
    for (int i = 0; i < LOADED; i++) {
        const struct tft_mat *w = loaded(b, i);
        n += w ? (uint64_t)tft_mat_all_rows(w) * w->cols : 0;
    }
    return n;
}

/* -------------------------------------------------------------------------------------- weights */

struct expand_task {
    const struct tft_model *m;
    struct tft_layer *from;
    float *to;
};

/* This thread's share of the rows. */
static void expand_matrix(const struct tft_model *m, const struct tft_mat *all, float *to, int tid,
                          int n_threads)
{
    for (size_t row = (size_t)tid; row < tft_mat_all_rows(all); row += (size_t)n_threads) {
        struct tft_mat w = tft_mat_expert(all, (uint32_t)(row / all->rows));
        tft_mat_row(m, &w, (uint32_t)(row % w.rows), to + row * w.cols);
    }
}

static void expand(void *arg, int tid, int n_threads)
{
    const struct expand_task *task = arg;
    float *to = task->to;
    for (int i = 0; i < LOADED; i++) {
        const struct tft_mat *w = loaded(task->from, i);
        if (!w)
            continue;
        expand_matrix(task->m, w, to, tid, n_threads);
        to += tft_mat_all_rows(w) * w->cols;
    }
}

/* w becomes its expanded copy. */
static void use_expanded(struct tft_mat *w, const float *data)
{
    *w = (struct tft_mat){.format = &tft_format_f32,
                          .rows = w->rows,
                          .cols = w->cols,
                          .data = data,
                          .experts = w->experts,
                          .apart = w->rows};
}

/* Multiplies the rows of each expert's `down` by its factor, which applies before the sum of
   experts: panels have a scale for each row. */
static void take_factors(struct layers *y, struct tft_layer *b)
{
    const struct tft_mat *w = &b->experts.down.w;
    size_t n = (size_t)w->rows * w->cols;
    for (uint32_t e = 0; b->experts.factor && e < w->experts; e++)
        y->m->kern.scale(layers_weights(&b->experts.down) + e * n, b->experts.factor[e], n);
    b->experts.factor = NULL;
}

void layers_load(struct layers *y, uint32_t l)
{
    struct tft_layer *b = &y->m->layer[l];
    float *next = y->weights;
    y->original = *b;
    tft_port_team(y->n_threads, expand, &(struct expand_task){y->m, &y->original, y->weights});
    for (int i = 0; i < LOADED; i++)
        if (loaded(b, i)) {
            struct tft_mat *w = loaded(b, i);
            use_expanded(w, next);
            next += tft_mat_all_rows(w) * w->cols;
        }
    y->n_weights = (size_t)(next - y->weights);
    if (tft_layer_has_experts(b))
        take_factors(y, b);
}

static void leave_out(const struct tft_kernels *kern, const struct tft_mat *w,
                      const struct tft_product *p, size_t begin, size_t end)
{
    (void)kern;
    (void)w;
    for (uint32_t i = 0; i < p->n && !p->add; i++)
        memset(p->y + i * p->ldy, 0, (end - begin) * sizeof *p->y);
}

static const struct tft_format left_out = {
    .name = "none", .type = TFT_F32, .num = TFT_NUM_F32, .product = leave_out};

void layers_compute_until(struct layers *y, uint32_t l, uint32_t end)
{
    struct tft_layer *b = &y->m->layer[l];
    for (int i = 0; i < LAYER_MATS; i++)
        if (layers_linear(b, i))
            layers_linear(b, i)->w.format =
                quantize_matrix_input(b, i) < end ? &tft_format_f32 : &left_out;
}

void layers_swap(struct layers *y, uint32_t l, float **other)
{
    float *own = y->weights;
    for (int i = 0; i < LOADED; i++) {
        struct tft_mat *w = loaded(&y->m->layer[l], i);
        if (w)
            w->data = *other + ((const float *)w->data - own);
    }
    y->weights = *other;
    *other = own;
}

void layers_unload(struct layers *y, uint32_t l)
{
    y->m->layer[l] = y->original;
}

/* ----------------------------------------------------------------------------------------- int8 */

/* Bytes of packed matrices: their panels, then their row sums and scales. A multiple of 64. */
static uint64_t packed_bytes(const struct tft_mat *w)
{
    return tft_format_i8.bytes(w) * (w->experts ? w->experts : 1);
}

static uint64_t layer_packed_bytes(struct tft_layer *b)
{
    uint64_t n = 0;
    for (int i = 0; i < LAYER_MATS; i++)
        n += layers_linear(b, i) ? packed_bytes(&layers_linear(b, i)->w) : 0;
    return n;
}

struct pack_task {
    const struct tft_mat *w;
    int8_t *data;
    int32_t *rowsum;
    float *scale;
    bool bad[TFT_PORT_THREADS]; /* the thread found a weight that is not finite */
};

static void pack(void *arg, int tid, int n_threads)
{
    struct pack_task *task = arg;
    const struct tft_mat *w = task->w;
    size_t cols = tft_panel_cols(w->cols);
    size_t all = tft_mat_all_rows(w);
    for (size_t n = (size_t)tid * TFT_PANEL; n < all; n += (size_t)n_threads * TFT_PANEL) {
        size_t rows = all - n < TFT_PANEL ? all - n : TFT_PANEL;
        const float *from = (const float *)w->data + n * w->cols;
        task->bad[tid] |= pack_matrix(task->data + n * cols, task->rowsum + n, task->scale + n,
                                      from, w->cols, rows, w->cols, false) != rows;
    }
}

static bool pack_one_matrix(const struct layers *y, const struct tft_mat *w, char *to,
                            struct tft_mat *packed)
{
    size_t rows = tft_panel_rows(tft_mat_all_rows(w)), data = rows * tft_panel_cols(w->cols);
    struct pack_task task = {.w = w,
                             .data = (int8_t *)to,
                             .rowsum = (int32_t *)(to + data),
                             .scale = (float *)(to + data) + rows};
    if (w->cols > TFT_PANEL_MAX_K)
        return false;
    tft_port_team(y->n_threads, pack, &task);
    for (int i = 0; i < y->n_threads; i++)
        if (task.bad[i])
            return false;
    *packed = (struct tft_mat){.format = &tft_format_i8,
                               .rows = w->rows,
                               .cols = w->cols,
                               .experts = w->experts,
                               .apart = w->rows * tft_panel_cols(w->cols),
                               .data = task.data,
                               .scale = task.scale,
                               .rowsum = task.rowsum};
    return true;
}

bool layers_pack(struct layers *y, uint32_t l)
{
    struct tft_layer *b = &y->m->layer[l];
    struct tft_mat packed[LAYER_MATS];
    char *to = y->packed;
    for (int i = 0; i < LAYER_MATS; i++)
        if (layers_linear(b, i)) {
            if (!pack_one_matrix(y, &layers_linear(b, i)->w, to, &packed[i]))
                return false;
            to += (size_t)packed_bytes(&packed[i]);
        }
    for (int i = 0; i < LAYER_MATS; i++)
        if (layers_linear(b, i))
            layers_linear(b, i)->w = packed[i];
    for (int i = 0; i < TFT_INPUT_KINDS; i++)
        b->in[i].range = TFT_RANGE_TOKEN;
    return true;
}

/* ------------------------------------------------------------------------------------- rotation */

/* Rotates the matrices that read a norm's output, and moves the norm's gain into them. */
static void rotate_readers(struct layers *y, struct tft_layer *b, uint32_t which,
                           struct tft_norm *norm)
{
    struct tft_linear *l[LAYER_READERS];
    if (!norm->w) /* the block lacks this half */
        return;
    for (size_t i = 0, n = layers_readers(b, which, l); i < n; i++)
        rotate_residual_rows(&y->rotation, layers_weights(l[i]), l[i]->w.cols, l[i]->w.rows,
                             norm->w);
    norm->w = y->ones;
}

/* l: no rows if the block has no such matrix */
static void rotate_writer(struct layers *y, struct tft_linear *l, float *bias)
{
    if (!l->w.rows)
        return;
    rotate_residual_columns(&y->rotation, layers_weights(l), l->w.cols, l->w.cols);
    if (!l->bias)
        return;
    l->bias = memcpy(bias, l->bias, y->rotation.n * sizeof *bias);
    rotate_residual_rows(&y->rotation, bias, y->rotation.n, 1, NULL);
}

void layers_rotate(struct layers *y, uint32_t l)
{
    struct tft_layer *b = &y->m->layer[l];
    if (!y->rotation.n)
        return;
    rotate_readers(y, b, TFT_IN_ATTN, &b->attn_norm);
    rotate_readers(y, b, TFT_IN_FFN, &b->ffn_norm);
    rotate_writer(y, &b->o, y->bias[0]);
    rotate_writer(y, &b->side_out, y->bias[2]);
    rotate_writer(y, &b->down, y->bias[1]);
}

void layers_rows(const struct layers *y, const struct tft_mat *w, uint32_t first, uint32_t n,
                 float *to)
{
    bool head = w == &y->m->output.w, embedding = w == &y->m->embed;
    for (uint32_t i = 0; i < n; i++)
        tft_mat_row(y->m, w, first + i, to + (size_t)i * w->cols);
    if (y->rotation.n && (head || embedding))
        rotate_residual_rows(&y->rotation, to, w->cols, n, head ? y->original_norm.w : NULL);
}

/* -------------------------------------------------------------------------------------- running */

struct pass_task {
    const struct layers *y;
    const struct layers_pass *pass;
    struct tft_work work; /* the session's, with the pass's residual stream, and the tap */
    struct tft_kv_chunk chunk;
    struct tft_kv_plan plan; /* of each sequence */
    const struct tft_seq *lane; /* NULL: there is one sequence */
};

static void run_part(void *arg, int tid, int n_threads)
{
    struct pass_task *task = arg;
    const struct layers_pass *in = task->pass;
    struct tft_pass p = {.ops = &tft_backend_cpu.ops,
                         .m = task->y->m,
                         .s = task->lane ? NULL : task->y->s,
                         .work = &task->work,
                         .plan = &task->plan,
                         .seq = task->lane,
                         .n_seq = task->y->m->encoder ? 1
                                  : task->lane        ? in->n_seq
                                                      : 0,
                         .tid = tid,
                         .n_threads = n_threads,
                         .tokens = in->tokens,
                         .n = in->n,
                         .pos = in->pos,
                         .n_logits = in->n};
    if (in->part == LAYERS_EMBED || in->part == LAYERS_EMBED_LAYERS) {
        tft_embed_tokens(&p);
        if (in->part == LAYERS_EMBED_LAYERS)
            tft_layer_embed_begin(&p);
    } else if (in->part == LAYERS_LAYER) {
        tft_pass_positions(&p);
        p.m->arch->layer(&p, in->layer);
    } else {
        tft_norm(&p, &p.m->out_norm, &p.m->output);
        tft_pass_tap(&p, &p.m->output, TFT_XN);
    }
}

/* A sequence begins with the layer's state after the prefix; the prefix itself, which is at
   position 0, begins with zeros. */
static void begin_state(const struct layers *y, const struct layers_pass *pass,
                        struct tft_session *s)
{
    const struct tft_layer *b = &y->m->layer[pass->layer];
    if (!b->state_size)
        return;
    float *state = s->states.now + b->state;
    if (pass->pos)
        memcpy(state, y->prefix_state + b->state, b->state_size * sizeof *state);
    else
        memset(state, 0, b->state_size * sizeof *state);
}

/* Makes the sequences of the pass. */
static const struct tft_seq *seqs_of(const struct layers *y, const struct layers_pass *pass,
                                       const struct tft_kv_plan *plan)
{
    if (y->m->encoder) {
        y->lane[0] = (struct tft_seq){.n = pass->n};
        return y->lane;
    }
    uint32_t n = pass->n_seq ? pass->n / pass->n_seq : 0;
    for (uint32_t i = 0; i < pass->n_seq; i++)
        y->lane[i] = (struct tft_seq){.s = y->seq[i],
                                       .plan = plan,
                                       .at = i * n,
                                       .n = n,
                                       .pos = pass->pos,
                                       .n_logits = n};
    return pass->n_seq ? y->lane : NULL;
}

/* Computes the per-layer embeddings of the pass's tokens again: storing those of all text would
   take more memory than the text. The first layer computes them by itself. */
static void embed_layers(const struct layers *y, const struct layers_pass *pass)
{
    struct layers_pass embed = *pass;
    if (!y->embed_x || pass->part != LAYERS_LAYER || pass->layer == 0)
        return;
    embed.part = LAYERS_EMBED_LAYERS;
    embed.x = y->embed_x;
    layers_run_pass(y, &embed);
}

void layers_run_pass(const struct layers *y, const struct layers_pass *pass)
{
    const struct tft_layer *b = &y->m->layer[pass->layer];
    struct pass_task task = {.y = y, .pass = pass, .work = *y->work};
    embed_layers(y, pass);
    task.work.buf[TFT_X] = pass->x;
    task.work.tap = y->tap;
    task.plan = tft_kv_plain_plan(&task.chunk, pass->pos,
                                  pass->n_seq ? pass->n / pass->n_seq : pass->n);
    task.lane = seqs_of(y, pass, &task.plan);
    for (uint32_t i = 0; i < pass->n_seq && pass->part == LAYERS_LAYER; i++)
        begin_state(y, pass, y->seq[i]);
    if (!pass->n_seq && pass->part == LAYERS_LAYER)
        begin_state(y, pass, y->s);
    tft_port_team(y->n_threads, run_part, &task);
    if (pass->part == LAYERS_LAYER && !pass->pos && b->state_size)
        memcpy(y->prefix_state + b->state, y->s->states.now + b->state,
               b->state_size * sizeof *y->prefix_state);
    if (pass->part == LAYERS_EMBED && y->rotation.n)
        rotate_residual_rows(&y->rotation, pass->x, y->stride, pass->n, NULL);
}

/* Copy a row of f16 to the slots of a cache of either format, and back; the slots' numbers are
   `apart`. */
static void put_row(enum tft_num num, void *slots, size_t apart, const uint16_t *row, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (num == TFT_NUM_F16)
            ((uint16_t *)slots)[i * apart] = row[i];
        else
            ((float *)slots)[i * apart] = tft_f16_to_f32(row[i]);
}

static void get_row(enum tft_num num, const void *slots, size_t apart, uint16_t *row, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        row[i] = num == TFT_NUM_F16 ? ((const uint16_t *)slots)[i * apart]
                                    : tft_f32_to_f16(((const float *)slots)[i * apart]);
}

/* The first number of a key; the others are TFT_KEY_PANEL apart. */
static void *key_at(const struct tft_kv *kv, uint32_t layer, uint32_t head, uint32_t pos)
{
    uint32_t lane = pos % TFT_KEY_PANEL;
    char *panel = tft_kv_keys(kv, layer, head, pos - lane);
    return panel + lane * tft_num_bytes(kv->num);
}

void layers_put_kv(const struct layers *y, uint32_t l, uint32_t pos, const uint16_t *k,
                   const uint16_t *v)
{
    const struct tft_kv *kv = &y->s->kv;
    struct tft_kv_heads heads = y->m->layer[l].kv;
    uint32_t dim = heads.dim, in = y->m->layer[l].kv_layer;
    for (uint32_t h = 0; h < heads.n; h++, k += dim, v += dim) {
        put_row(kv->num, key_at(kv, in, h, pos), TFT_KEY_PANEL, k, dim);
        put_row(kv->num, tft_kv_values(kv, in, h, pos), 1, v, dim);
    }
}

/* Gives the prefix its tuned keys and values. */
static void put_tuned(const struct layers *y, uint32_t l)
{
    const struct tft_layer *b = &y->m->layer[l];
    uint32_t n = y->o->n_prefix;
    if (!y->o->rows_k || !tft_layer_has_kv(b))
        return;
    size_t width = tft_model_kv_width(y->m, b->kv_layer),
           at = n * tft_model_kv_before(y->m, b->kv_layer);
    for (uint32_t i = 0; i < n; i++, at += width)
        layers_put_kv(y, l, i, y->o->rows_k + at, y->o->rows_v + at);
}

/* The tap does not see the prefix: at run time the prefix is never computed. */
static void run_prefix(struct layers *y, struct layers_pass pass, bool dry)
{
    struct tft_tap tap = y->tap;
    y->tap.see = NULL;
    pass.n = y->o->n_prefix;
    pass.x = dry ? memcpy(y->work->buf[TFT_X], y->prefix, pass.n * y->stride * sizeof *pass.x)
                 : y->prefix;
    pass.tokens = y->o->prefix;
    if (pass.n)
        layers_run_pass(y, &pass);
    if (pass.part == LAYERS_LAYER)
        put_tuned(y, pass.layer);
    y->tap = tap;
}

static void run_windows(const struct layers *y, struct layers_pass pass, bool dry)
{
    const struct tft_layer *b = &y->m->layer[pass.layer];
    size_t rows = y->o->window * y->stride;
    bool layer = pass.part == LAYERS_LAYER;
    pass.n = y->o->window;
    pass.pos = y->o->n_prefix;
    for (size_t i = 0; i < y->n_windows; i++) {
        float *window = y->text + i * rows;
        pass.tokens = y->o->text + i * y->o->window;
        if (layer && y->before_window)
            y->before_window(y->on_window_user, i);
        if (layer && y->s)
            shared_kv_restore(&y->shared, &y->s->kv, b, i);
        pass.x = dry ? memcpy(y->work->buf[TFT_X], window, rows * sizeof *window) : window;
        layers_run_pass(y, &pass);
        if (layer && y->s && !dry)
            shared_kv_keep(&y->shared, &y->s->kv, b, i);
        if (y->on_window &&
            !y->on_window(y->on_window_user, (double)(i + 1) / (double)y->n_windows))
            return;
    }
}

void layers_run_prefix(struct layers *y, uint32_t l, bool dry)
{
    run_prefix(y, (struct layers_pass){.part = LAYERS_LAYER, .layer = l}, dry);
}

void layers_run_text(struct layers *y, uint32_t l, bool dry)
{
    run_windows(y, (struct layers_pass){.part = LAYERS_LAYER, .layer = l}, dry);
}

void layers_run(struct layers *y, uint32_t l, bool dry)
{
    layers_run_prefix(y, l, dry); /* even if dry: the text attends to its keys and values */
    layers_run_text(y, l, dry);
}

void layers_run_head(struct layers *y)
{
    run_windows(y, (struct layers_pass){.part = LAYERS_HEAD}, false);
}

void layers_kv(const struct layers *y, uint32_t l, uint32_t first, uint32_t n, uint16_t *k,
               uint16_t *v)
{
    const struct tft_kv *kv = &y->s->kv;
    struct tft_kv_heads heads = y->m->layer[l].kv;
    uint32_t dim = heads.dim, in = y->m->layer[l].kv_layer;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t h = 0; h < heads.n; h++) {
            size_t at = ((size_t)i * heads.n + h) * dim;
            get_row(kv->num, key_at(kv, in, h, first + i), TFT_KEY_PANEL, k + at, dim);
            get_row(kv->num, tft_kv_values(kv, in, h, first + i), 1, v + at, dim);
        }
}

void layers_prefix_kv(const struct layers *y, uint32_t l, uint16_t *k, uint16_t *v)
{
    layers_kv(y, l, 0, y->o->n_prefix, k, v);
}

const float *layers_prefix_x(const struct layers *y)
{
    return y->prefix + (y->o->n_prefix ? y->o->n_prefix - 1 : 0) * y->stride;
}

/* -------------------------------------------------------------------------------------- opening */

/* n elements of `size` bytes. NULL if memory is short or the size overflows size_t: weights of 2
   bits take sixteen times as many bytes as floats. */
static void *alloc_aligned(uint64_t n, size_t size)
{
    size_t bytes;
    return n <= SIZE_MAX && tft_mul((size_t)n, size, &bytes) ? tft_port_alloc(bytes, 64) : NULL;
}

static float *alloc_floats(size_t rows, size_t stride)
{
    size_t n;
    return tft_mul(rows, stride, &n) ? alloc_aligned(n, sizeof(float)) : NULL;
}

static bool open_rotation(struct layers *y)
{
    size_t n = y->m->n_embd;
    y->ones = alloc_floats(n, 1);
    y->bias[0] = alloc_floats(n, 1);
    y->bias[1] = alloc_floats(n, 1);
    y->bias[2] = alloc_floats(n, 1);
    if (!y->ones || !y->bias[0] || !y->bias[1] || !y->bias[2] ||
        !rotate_residual_open(&y->rotation, n, y->n_threads))
        return false;
    for (size_t i = 0; i < n; i++)
        y->ones[i] = 1;
    y->original_norm = y->m->out_norm;
    y->m->out_norm.w = y->ones;
    return true;
}

static void expand_embed(void *arg, int tid, int n_threads)
{
    const struct layers *y = arg;
    expand_matrix(y->m, &y->original_embed, y->embed, tid, n_threads);
}

/* The matrix of per-layer embeddings, which is not in any layer's weights, and room for the
   embeddings that it multiplies. */
static bool open_embed(struct layers *y)
{
    struct tft_mat *w = &y->m->layer_embed.w.w;
    if (!y->m->layer_embed.n)
        return true;
    y->embed = alloc_floats(w->rows, w->cols);
    if (!y->embed)
        return false;
    y->original_embed = *w;
    tft_port_team(y->n_threads, expand_embed, y);
    use_expanded(w, y->embed);
    y->embed_x = alloc_floats(y->work->n_batch, y->stride);
    return y->embed_x;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static bool alloc_buffers(struct layers *y, const struct layers_capacity *capacity)
{
    uint64_t most = 0, most_packed = 0; /* of any layer */
    y->stride = tft_buf_stride(y->m, TFT_X);
    for (uint32_t l = 0; l < y->m->n_layer; l++) {
        most = larger(most, layer_numbers(&y->m->layer[l]));
        most_packed = larger(most_packed, layer_packed_bytes(&y->m->layer[l]));
    }
    y->prefix_state = alloc_floats(y->m->state_size + 1, 1);
    if (y->s)
        y->s->states.first = y->prefix_state;
    y->prefix = alloc_floats((size_t)y->o->n_prefix + 1, y->stride);
    y->text = alloc_floats(capacity->rows, y->stride);
    y->weights = alloc_aligned(most, sizeof *y->weights);
    y->packed = capacity->int8 ? alloc_aligned(most_packed, 1) : NULL;
    return y->prefix_state && y->prefix && y->text && y->weights &&
           (y->packed || !capacity->int8) && open_embed(y) &&
           (y->o->rotate != QUANTIZE_ROTATE_ALL || open_rotation(y));
}

/* The cache has a slot for each token of a pass. A pass may hold many sequences, and so more tokens
   than the model's context. */
static enum tft_status open_session(struct layers *y, struct tft_session **s, uint32_t slots,
                                    struct tft_error *err)
{
    uint32_t n_ctx = y->m->n_ctx;
    struct tft_session_opts so = {.size = sizeof so,
                                  .capacity = slots,
                                  .n_threads = y->o->n_threads,
                                  .checkpoints = 1,
                                  .kv = quantize_float_cache(y->m->kv_text),
                                  .batch = y->batch};
    y->m->n_ctx = so.capacity > n_ctx ? so.capacity : n_ctx;
    const uint32_t *windows = y->m->kv_window;
    y->m->kv_window = NULL; /* a mask is enough: slots are read from outside, too */
    enum tft_status status = tft_session_open(s, y->m, &so, err);
    y->m->n_ctx = n_ctx;
    y->m->kv_window = windows;
    return status;
}

/* An encoder has no sessions: a workspace, and one sequence, which is a whole text. */
static enum tft_status open_encoder(struct layers *y, uint32_t batch, struct tft_error *err)
{
    struct tft_arena a = {0};
    int n = y->o->n_threads;
    if (n < 0 || n > TFT_PORT_THREADS)
        return tft_fail(err, TFT_ERR_ARG, "%d threads: not within 0 .. %d", n, TFT_PORT_THREADS);
    y->n_threads = !tft_port_threaded() ? 1 : n ? n : tft_port_cpus();
    tft_work_layout(&a, y->m, batch, y->n_threads);
    y->lane = calloc(1, sizeof *y->lane);
    y->memory = a.failed ? NULL : tft_port_alloc(a.used, 64);
    if (!y->lane || !y->memory) {
        layers_close(y);
        return tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory for a text of %u tokens",
                        y->m->source.name, batch);
    }
    a = (struct tft_arena){.base = y->memory};
    y->work = tft_work_layout(&a, y->m, batch, y->n_threads);
    tft_work_open(y->work);
    return TFT_OK;
}

/* If layers may be packed, passes need the buffers of a model with 8-bit inputs: m->byte_inputs. */
static enum tft_status open_sessions(struct layers *y, const struct layers_capacity *capacity,
                                     struct tft_error *err)
{
    uint32_t n_prefix = y->o->n_prefix, batch = capacity->batch;
    struct tft_batch_opts bo = {.size = sizeof bo,
                                .n_sessions = 1,
                                .n_tokens = batch > n_prefix ? batch : n_prefix,
                                .n_threads = y->o->n_threads};
    y->m->byte_inputs = capacity->int8;
    enum tft_status status = tft_batch_open(&y->batch, y->m, &bo, err);
    y->m->byte_inputs = false;
    if (status != TFT_OK)
        return status;
    status = open_session(y, &y->s, capacity->slots ? capacity->slots : n_prefix + batch, err);
    if (status != TFT_OK) {
        tft_batch_close(y->batch);
        y->batch = NULL; /* layers_close may follow */
        return status;
    }
    y->work = y->s->work;
    y->n_threads = y->s->n_threads;
    return TFT_OK;
}

enum tft_status layers_open_sequences(struct layers *y, uint32_t n, uint32_t slots,
                                      struct tft_error *err)
{
    enum tft_status status = TFT_OK;
    y->seq = calloc(n, sizeof *y->seq);
    y->lane = calloc(n, sizeof *y->lane);
    if (!y->seq || !y->lane)
        status = tft_fail(err, TFT_ERR_NOMEM, "%s: out of memory for %u sequences",
                          y->m->source.name, n);
    for (y->n_seq = 0; y->n_seq < n && status == TFT_OK; y->n_seq++)
        status = open_session(y, &y->seq[y->n_seq], slots, err);
    return status;
}

void layers_close_sequences(struct layers *y)
{
    for (uint32_t i = 0; i < y->n_seq; i++)
        tft_session_close(y->seq[i]);
    free(y->seq);
    free(y->lane);
    y->seq = NULL;
    y->lane = NULL;
    y->n_seq = 0;
}

/* Refuses experts whose panels would not follow each other without padding. */
static enum tft_status check_experts(const struct tft_model *m, struct tft_error *err)
{
    for (uint32_t l = 0; l < m->n_layer; l++) {
        uint32_t up = m->layer[l].experts.up.w.rows, down = m->layer[l].experts.down.w.rows;
        if (up % TFT_PANEL || down % TFT_PANEL)
            return tft_fail(
                err, TFT_ERR_UNSUPPORTED,
                "%s: experts of %u and %u rows, not multiples of %d, cannot be quantized",
                m->source.name, up, down, TFT_PANEL);
    }
    return TFT_OK;
}

enum tft_status layers_open_empty(struct layers *y, struct tft_model *m,
                                  const struct quantize_opts *o,
                                  const struct layers_capacity *capacity, struct tft_error *err)
{
    *y = (struct layers){.m = m, .o = o};
    enum tft_status status = check_experts(m, err);
    if (status == TFT_OK)
        status =
            m->encoder ? open_encoder(y, capacity->batch, err) : open_sessions(y, capacity, err);
    if (status != TFT_OK)
        return status;
    if (alloc_buffers(y, capacity))
        return TFT_OK;
    layers_close(y);
    return tft_fail(err, TFT_ERR_NOMEM,
                    "%s: out of memory for a layer's weights and %zu tokens of text",
                    m->source.name, capacity->rows);
}

enum tft_status layers_open(struct layers *y, struct tft_model *m, const struct quantize_opts *o,
                            struct tft_error *err)
{
    size_t n_windows = o->n_text / o->window;
    enum tft_status status = layers_open_empty(
        y, m, o, &(struct layers_capacity){.batch = o->window, .rows = n_windows * o->window}, err);
    if (status != TFT_OK)
        return status;
    y->n_windows = n_windows;
    if (y->s && !shared_kv_open(&y->shared, m, &y->s->kv, n_windows)) {
        layers_close(y);
        return tft_fail(err, TFT_ERR_NOMEM,
                        "%s: out of memory for keys and values of %zu tokens of text",
                        m->source.name, n_windows * o->window);
    }
    struct layers_pass pass = {.part = LAYERS_EMBED};
    run_prefix(y, pass, false);
    run_windows(y, pass, false);
    return TFT_OK;
}

void layers_close(struct layers *y)
{
    if (y->rotation.n)
        y->m->out_norm = y->original_norm;
    if (y->embed)
        y->m->layer_embed.w.w = y->original_embed;
    shared_kv_close(&y->shared);
    tft_session_close(y->s);
    tft_batch_close(y->batch);
    if (y->m && y->m->encoder)
        free(y->lane);
    tft_port_free(y->memory);
    tft_port_free(y->prefix_state);
    tft_port_free(y->prefix);
    tft_port_free(y->text);
    tft_port_free(y->weights);
    tft_port_free(y->packed);
    tft_port_free(y->embed);
    tft_port_free(y->embed_x);
    tft_port_free(y->ones);
    tft_port_free(y->bias[0]);
    tft_port_free(y->bias[1]);
    tft_port_free(y->bias[2]);
    rotate_residual_close(&y->rotation);
    *y = (struct layers){0};
}
