#include "activations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "run/session.h"

struct run {
    struct activations *a;
    const struct activations_opts *o;
    const struct tft_model *m;
    struct tft_session *s;
    uint32_t at;      /* the window in hand */
    uint32_t layer;
    size_t widest;    /* row of the model */
    size_t positions; /* whole panels of keys */
    float *row;       /* [threads, widest] */
    float *score;     /* [threads, positions] */
};

/* ----------------------------------------------------------------------------------- magnitudes */

static struct magnitudes_rows rows_of(const struct tft_pass *p, enum tft_buf buf,
                                      const struct tft_linear *l)
{
    struct magnitudes_rows r = {.n = p->n, .width = tft_pass_width(p, buf)};
    if (!l || !l->w.format->takes_bytes) {
        r.x = tft_pass_row(p, buf, 0);
        r.stride = tft_pass_stride(p, buf);
        return r;
    }
    bool fixed = l->in->range == TFT_RANGE_STATIC;
    r.bytes = tft_pass_bytes(p, buf, 0);
    r.stride = tft_pass_byte_stride(p, buf);
    r.q = fixed ? &l->in->affine : p->s->affine[buf];
    r.step = !fixed;
    return r;
}

static void add(struct activations_input *in, const struct magnitudes *m, uint32_t window,
                uint32_t n_window)
{
    for (int i = 0; i < MAGNITUDES_TOP; i++)
        in->top[i] += (double)m->top[i] / n_window;
    in->tenth += (double)m->tenth / n_window;
    in->median += (double)m->median / n_window;
    if (window && m->top[0] <= in->largest)
        return;
    in->largest = m->top[0];
    in->window = window;
    in->position = (uint32_t)m->row[0];
    in->channel = (uint32_t)m->column[0];
}

/* What is in buf; l: the linear layer that takes it, NULL for the residual stream, which `in`
   belongs to by its own layer. */
static void look(struct run *k, const struct tft_pass *p, enum tft_buf buf,
                 const struct tft_linear *l)
{
    struct activations *a = k->a;
    struct magnitudes_rows r = rows_of(p, buf, l);
    bool tops = !l && k->at == 0;
    struct magnitudes m = magnitudes_of(&r, k->row + (size_t)p->tid * k->widest,
                                        tops ? a->token_top + (size_t)k->layer * a->window : NULL);
    add(l ? &a->linear[l->in->index] : &a->stream[k->layer], &m, k->at, a->n_window);
}

/* ------------------------------------------------------------------------------------ attention */

/* The share that the first `n_first` positions get of the attention of token t's head. */
static double share_of_first(const struct run *k, const struct tft_pass *p, uint32_t t,
                             uint32_t head, uint32_t n_first)
{
    const struct tft_model *m = k->m;
    const struct tft_kv *kv = &k->s->kv;
    uint32_t group = m->n_head / m->n_head_kv, n = p->pos + t + 1;
    float *score = k->score + (size_t)p->tid * k->positions, max, sum;
    const float *q = tft_pass_row(p, TFT_Q, t) + (size_t)head * m->head_dim;
    m->kern.score[kv->num](&(struct tft_score){
        .s = score,
        .lds = k->positions,
        .q = q,
        .ldq = m->head_dim,
        .k = tft_kv_keys(kv, k->layer, head / group, 0),
        .nq = 1,
        .n = n,
        .head_dim = m->head_dim,
        .scale = 1.0f / sqrtf((float)m->head_dim),
    });
    m->kern.softmax(score, n, &max, &sum);
    double first = 0;
    for (uint32_t i = 0; i < n_first; i++)
        first += (double)score[i];
    return first / (double)sum;
}

static void look_at_head(struct run *k, const struct tft_pass *p, uint32_t head)
{
    struct activations *a = k->a;
    uint32_t skip = a->n_prefix ? 0 : 1; /* the first token has no other to attend to */
    double total = 0;
    for (uint32_t t = skip; t < p->n; t++)
        total += share_of_first(k, p, t, head, a->n_prefix ? a->n_prefix : 1);
    a->sink[(size_t)k->layer * a->n_head + head] += total / (p->n - skip) / a->n_window;
}

/* -------------------------------------------------------------------------------------- running */

static struct tft_pass pass_of(const struct run *k, int tid, int n_threads)
{
    const struct activations *a = k->a;
    return (struct tft_pass){.m = k->m,
                             .s = k->s,
                             .tid = tid,
                             .n_threads = n_threads,
                             .tokens = a->tokens + (size_t)k->at * a->window,
                             .n = a->window,
                             .keep = a->window,
                             .pos = a->n_prefix};
}

static void run_embed(void *arg, int tid, int n_threads)
{
    struct tft_pass p = pass_of(arg, tid, n_threads);
    tft_pass_positions(&p);
    tft_embed(&p);
}

/* Looks at two things, by two threads if there are as many. Nobody changes anything meanwhile. */
static void look_before(struct run *k, const struct tft_pass *p, const struct tft_linear *l)
{
    tft_port_barrier();
    if (p->tid == 0)
        look(k, p, TFT_X, NULL);
    if (p->tid == p->n_threads - 1)
        look(k, p, TFT_H, l);
    tft_port_barrier();
}

static void look_after(struct run *k, const struct tft_pass *p, const struct tft_block *b)
{
    const struct tft_linear *const linear[] = {&b->down, &b->up, &b->o};
    const enum tft_buf buf[] = {TFT_G, TFT_H, TFT_A};
    enum { LINEAR = sizeof buf / sizeof *buf };
    tft_port_barrier();
    for (uint32_t i = (uint32_t)p->tid; i < LINEAR + k->m->n_head; i += (uint32_t)p->n_threads)
        if (i < LINEAR)
            look(k, p, buf[i], linear[i]);
        else
            look_at_head(k, p, i - LINEAR);
}

/* The layer makes attention's input itself, and something else in its place later: here it is made
   to be looked at. What feeds the other linear layers, and the queries, stay until the layer's
   end. */
static void run_layer(void *arg, int tid, int n_threads)
{
    struct run *k = arg;
    struct tft_pass p = pass_of(k, tid, n_threads);
    const struct tft_block *b = &k->m->block[k->layer];
    tft_norm(&p, &b->attn_norm, &b->q);
    look_before(k, &p, &b->q);
    k->m->arch->layer(&p, k->layer);
    look_after(k, &p, b);
}

static void run_head(void *arg, int tid, int n_threads)
{
    struct run *k = arg;
    struct tft_pass p = pass_of(k, tid, n_threads);
    tft_norm(&p, &k->m->out_norm, &k->m->output);
    look_before(k, &p, &k->m->output);
}

/* False: stopped. */
static bool run_window(struct run *k)
{
    const struct activations *a = k->a;
    tft_port_team(k->s->n_threads, run_embed, k);
    for (k->layer = 0; k->layer < a->n_layer; k->layer++) {
        tft_port_team(k->s->n_threads, run_layer, k);
        double done = (k->layer + 1.0) / a->n_layer;
        if (k->o->progress && !k->o->progress(k->o->user, (k->at + done) / a->n_window))
            return false;
    }
    tft_port_team(k->s->n_threads, run_head, k);
    return true;
}

/* --------------------------------------------------------------------------------------- memory */

static void fill_tokens(struct activations *a, const struct activations_opts *o, int32_t bos)
{
    uint32_t own = a->window - o->window; /* tokens of a window that are not the text's */
    for (uint32_t w = 0; w < a->n_window; w++) {
        int32_t *to = a->tokens + (size_t)w * a->window;
        to[0] = bos;
        memcpy(to + own, o->text + (size_t)w * o->window, o->window * sizeof *to);
    }
}

static bool take(struct run *k)
{
    struct activations *a = k->a;
    const struct tft_model *m = k->m;
    size_t q = (size_t)m->n_head * m->head_dim, threads = (size_t)k->s->n_threads;
    k->widest = m->n_embd > m->n_ff ? m->n_embd : m->n_ff;
    k->widest = k->widest > q ? k->widest : q;
    k->positions = ((size_t)m->n_prefix + a->window + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL *
                   TFT_KEY_PANEL;
    k->row = calloc(threads, k->widest * sizeof *k->row);
    k->score = calloc(threads, k->positions * sizeof *k->score);
    a->tokens = calloc(a->n_window, a->window * sizeof *a->tokens);
    a->stream = calloc(a->n_layer + 1, sizeof *a->stream);
    a->linear = calloc((size_t)a->n_layer * TFT_LAYER_INPUTS + 1, sizeof *a->linear);
    a->token_top = calloc(a->n_layer + 1, a->window * sizeof *a->token_top);
    a->sink = calloc(a->n_layer, a->n_head * sizeof *a->sink);
    return k->row && k->score && a->tokens && a->stream && a->linear && a->token_top && a->sink;
}

bool activations_bos(const struct tft_model *m)
{
    size_t n = 0;
    return tft_tokenize(m, "", 0, TFT_ADD_BOS, NULL, 0, &n) == TFT_OK && n;
}

enum tft_status activations_run(struct activations *a, const struct tft_model *m,
                                const struct activations_opts *o, bool *stopped,
                                struct tft_error *err)
{
    struct run k = {.a = a, .o = o, .m = m};
    uint32_t window = o->window + activations_bos(m);
    *stopped = false;
    *a = (struct activations){.n_layer = m->n_layer, .n_head = m->n_head, .n_prefix = m->n_prefix,
                              .n_window = (uint32_t)(o->n_text / o->window), .window = window};
    struct tft_session_opts so = {.size = sizeof so,
                                  .capacity = window,
                                  .n_batch = window,
                                  .n_threads = o->n_threads,
                                  .kv = o->kv ? o->kv : "f16"};
    enum tft_status status = tft_session_open(&k.s, m, &so, err);
    if (status == TFT_OK && k.s->kv.policy.coded)
        status = tft_fail(err, TFT_ERR_ARG, "attention is shown of caches of floats, f16 or f32");
    if (status == TFT_OK && !take(&k))
        status = tft_fail(err, TFT_ERR_NOMEM, "%s: no memory for what %u windows of %u tokens show",
                          m->source.name, a->n_window, window);
    if (status == TFT_OK) {
        fill_tokens(a, o, tft_token_bos(m));
        for (; k.at < a->n_window && !*stopped; k.at++)
            *stopped = !run_window(&k);
    }
    free(k.row);
    free(k.score);
    tft_session_close(k.s);
    return status;
}

void activations_close(struct activations *a)
{
    free(a->tokens);
    free(a->stream);
    free(a->linear);
    free(a->token_top);
    free(a->sink);
    *a = (struct activations){0};
}

/* ------------------------------------------------------------------------------------ no prefix */

static void free_range(struct tft_input *in)
{
    if (in->range == TFT_RANGE_STATIC)
        in->range = TFT_RANGE_TOKEN;
}

static void own_inputs(struct tft_block *b)
{
    b->q.in = b->k.in = b->v.in = &b->in[TFT_IN_ATTN];
    b->o.in = &b->in[TFT_IN_O];
    b->gate.in = b->up.in = &b->in[TFT_IN_FFN];
    b->down.in = &b->in[TFT_IN_DOWN];
    for (int i = 0; i < TFT_LAYER_INPUTS; i++)
        free_range(&b->in[i]);
}

bool activations_bare(struct tft_model *bare, const struct tft_model *m)
{
    *bare = *m;
    bare->n_prefix = 0;
    bare->prefix_x = NULL;
    bare->prefix_bos = false;
    bare->floats = true;
    bare->block = malloc(m->n_layer * sizeof *bare->block);
    for (uint32_t l = 0; bare->block && l < m->n_layer; l++) {
        bare->block[l] = m->block[l];
        own_inputs(&bare->block[l]);
    }
    bare->output.in = &bare->head_in;
    free_range(&bare->head_in);
    return bare->block;
}

/* -------------------------------------------------------------------------------------- looking */

static double outliers(const struct activations_input *in)
{
    double sum = 0;
    for (int i = 0; i < MAGNITUDES_TOP; i++)
        sum += in->top[i];
    return sum;
}

uint32_t activations_worst(const struct activations *a)
{
    uint32_t worst = 0;
    for (uint32_t l = 1; l < a->n_layer; l++)
        if (outliers(&a->stream[l]) > outliers(&a->stream[worst]))
            worst = l;
    return worst;
}

void activations_pivots(const struct activations *a, uint32_t layer, bool *pivot)
{
    const float *top = a->token_top + (size_t)layer * a->window;
    struct magnitudes m =
        magnitudes_of(&(struct magnitudes_rows){.n = 1, .width = a->window, .x = top}, NULL, NULL);
    for (uint32_t i = 0; i < a->window; i++)
        pivot[i] = top[i] > ACTIVATIONS_PIVOT * m.median;
}

double activations_sink(const struct activations *a, uint32_t layer)
{
    double sum = 0;
    for (uint32_t h = 0; h < a->n_head; h++)
        sum += a->sink[(size_t)layer * a->n_head + h];
    return sum / a->n_head;
}
