#include "activations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "backend/cpu/cpu.h"
#include "models/layer_embed.h"
#include "run/session.h"

struct run {
    struct activations *a;
    const struct activations_opts *o;
    const struct tft_model *m;
    struct tft_model plain; /* m, but its layers end before the per-layer embeddings; no layers: m
                               has no such embeddings */
    struct tft_session *s;
    uint32_t window, layer; /* being computed */
    size_t widest;          /* numbers of the longest measured row */
    size_t positions;       /* of keys, in whole panels */
    float *row;             /* [threads, widest] */
    float *score;           /* [threads, positions] */
    float *panel;           /* [threads, E, TFT_KEY_PANEL] */
    struct cache_cost_room **room; /* [threads] */
    struct tft_kv_chunk chunk;
    struct tft_kv_plan plan; /* of a window */
};

/* ----------------------------------------------------------------------------------- magnitudes */

/* The rows of a buffer: floats, or bytes if linear layer l of a W8A8 model takes bytes. l: NULL for
   the residual stream. */
static struct magnitudes_rows rows_of(const struct tft_pass *p, enum tft_buf buf,
                                      const struct tft_linear *l)
{
    struct magnitudes_rows r = {.n = p->n, .width = l ? l->in->width : tft_pass_width(p, buf)};
    if (!p->work->buf[buf] && l->in->range == TFT_RANGE_GROUPS) {
        r.bytes = tft_pass_bytes(p, buf, 0);
        r.stride = tft_pass_byte_stride(p, buf);
        return r;
    }
    if (!l || !l->w.format->takes_bytes) {
        r.x = tft_pass_row(p, buf, 0);
        r.stride = tft_pass_stride(p, buf);
        return r;
    }
    bool fixed = l->in->range == TFT_RANGE_STATIC;
    r.bytes = tft_pass_bytes(p, buf, 0);
    r.stride = tft_pass_byte_stride(p, buf);
    r.q = fixed ? &l->in->affine : p->work->affine[buf];
    r.step = !fixed;
    return r;
}

/* Adds the magnitudes of one window. */
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

/* Counts the bytes at the ends of a static range. */
static void add_ends(struct activations_input *in, const struct magnitudes_rows *r)
{
    in->numbers += r->n * r->width;
    for (size_t i = 0; i < r->n; i++)
        for (size_t k = 0; k < r->width; k++) {
            uint8_t byte = r->bytes[i * r->stride + k];
            in->at_ends += byte == 0 || byte == UINT8_MAX;
        }
}

/* Measures a buffer: the input of linear layer l, or, if l is NULL, the residual stream at layer
   k->layer. */
static void measure(struct run *k, const struct tft_pass *p, enum tft_buf buf,
                    const struct tft_linear *l)
{
    struct activations *a = k->a;
    struct magnitudes_rows r = rows_of(p, buf, l);
    bool tops = !l && k->window == 0;
    struct magnitudes m = magnitudes_of(&r, k->row + (size_t)p->tid * k->widest,
                                        tops ? a->token_top + (size_t)k->layer * a->window : NULL);
    add(l ? &a->linear[l->in->index] : &a->stream[k->layer], &m, k->window, a->n_window);
    if (l && r.bytes && l->in->range == TFT_RANGE_STATIC)
        add_ends(&a->linear[l->in->index], &r);
}

/* ------------------------------------------------------------------------------------ attention */

/* The weights of token t's head after softmax, before division by their sum. Returns the sum. */
static double weights_of(const struct run *k, const struct tft_pass *p, uint32_t t, uint32_t head,
                         float *score)
{
    const struct tft_model *m = k->m;
    const struct tft_kv *kv = &k->s->kv;
    const struct tft_layer *b = &m->layer[k->layer];
    uint32_t group = m->n_head / b->kv.n, n = p->pos + t + 1;
    const float *q = tft_pass_row(p, TFT_Q, t) + (size_t)head * b->kv.dim;
    float max, sum;
    m->kern.score[kv->num](&(struct tft_score){
        .s = score,
        .lds = k->positions,
        .q = q,
        .ldq = b->kv.dim,
        .k = tft_kv_keys(kv, b->kv_layer, head / group, 0),
        .nq = 1,
        .n = n,
        .head_dim = b->kv.dim,
        .scale = m->attn_scale,
    });
    uint32_t window = b->window;
    if (m->score_cap > 0)
        m->kern.softcap(score, n, m->score_cap, 1 / m->score_cap);
    for (uint32_t i = 0; window && i + window < n; i++)
        score[i] = -INFINITY;
    m->kern.softmax(score, n, &max, &sum);
    return (double)sum;
}

/* keys, values: [n, E] of a KV head, as floats. */
static void head_rows(const struct run *k, uint32_t head, uint32_t n, float *panel, float *keys,
                      float *values)
{
    const struct tft_kv *kv = &k->s->kv;
    const struct tft_layer *b = &k->m->layer[k->layer];
    size_t e = b->kv.dim;
    k->m->kern.widen[kv->num](values, tft_kv_values(kv, b->kv_layer, head, 0), n * e);
    for (uint32_t i = 0; i < n; i++) {
        if (i % TFT_KEY_PANEL == 0)
            k->m->kern.widen[kv->num](panel, tft_kv_keys(kv, b->kv_layer, head, i),
                                      e * TFT_KEY_PANEL);
        for (size_t d = 0; d < e; d++)
            keys[i * e + d] = panel[d * TFT_KEY_PANEL + i % TFT_KEY_PANEL];
    }
}

static void measure_head(struct run *k, const struct tft_pass *p, uint32_t head)
{
    struct activations *a = k->a;
    const struct tft_model *m = k->m;
    struct tft_kv_heads heads = m->layer[k->layer].kv;
    struct cache_cost_room *room = k->room[p->tid];
    float *score = k->score + (size_t)p->tid * k->positions;
    uint32_t skip = a->n_prefix ? 0 : 1; /* the first token can attend to itself only */
    uint32_t n_first = a->n_prefix ? a->n_prefix : 1, n = p->pos + p->n;
    size_t at = (size_t)k->layer * a->n_head + head;
    float *keys = cache_cost_begin(room, heads.dim, n, a->n_prefix);
    double total = 0;
    head_rows(k, head / (m->n_head / heads.n), n,
              k->panel + (size_t)p->tid * m->head_dim * TFT_KEY_PANEL, keys,
              keys + (size_t)n * heads.dim);
    for (uint32_t t = 0; t < p->n; t++) {
        double sum = weights_of(k, p, t, head, score), first = 0;
        for (uint32_t i = 0; i < n_first; i++)
            first += (double)score[i];
        total += t < skip ? 0 : first / sum;
        cache_cost_row(room, &a->cost[at], tft_pass_row(p, TFT_Q, t) + (size_t)head * heads.dim,
                       score, p->pos + t + 1, sum);
    }
    a->sink[at] += total / (p->n - skip) / a->n_window;
}

/* -------------------------------------------------------------------------------------- running */

static struct tft_pass pass_of(const struct run *k, int tid, int n_threads)
{
    const struct activations *a = k->a;
    return (struct tft_pass){.ops = &tft_backend_cpu.ops,
                             .m = k->m,
                             .s = k->s,
                             .work = k->s->work,
                             .plan = &k->plan,
                             .tid = tid,
                             .n_threads = n_threads,
                             .tokens = a->tokens + (size_t)k->window * a->window,
                             .n = a->window,
                             .n_logits = a->window,
                             .pos = a->n_prefix};
}

static void run_embed(void *arg, int tid, int n_threads)
{
    struct tft_pass p = pass_of(arg, tid, n_threads);
    tft_pass_positions(&p);
    tft_embed_tokens(&p);
    if (p.m->layer_embed.n)
        tft_layer_embed_begin(&p);
}

/* Measures the residual stream and the input of l, on two threads if there are two. The barriers
   keep other threads from changing the buffers meanwhile. */
static void measure_before(struct run *k, const struct tft_pass *p, const struct tft_linear *l)
{
    tft_port_barrier();
    if (p->tid == 0)
        measure(k, p, TFT_X, NULL);
    if (p->tid == p->n_threads - 1)
        measure(k, p, TFT_XN, l);
    tft_port_barrier();
}

/* A layer with a state has no heads to be measured. */
static void leave_out_heads(struct run *k)
{
    struct activations *a = k->a;
    for (uint32_t h = 0; h < a->n_head; h++)
        a->sink[(size_t)k->layer * a->n_head + h] = NAN;
}

/* Measures the buffers of the layer that has just run, and its attention. */
static void measure_after(struct run *k, const struct tft_pass *p, const struct tft_layer *b)
{
    const struct tft_linear *const linear[] = {&b->down, &b->up, &b->o};
    const enum tft_buf buf[] = {TFT_G, TFT_XN, TFT_A};
    enum { LINEAR = sizeof buf / sizeof *buf };
    bool attends = b->mixer == TFT_MIX_ATTENTION;
    uint32_t n = LINEAR + (attends ? k->m->n_head : 0);
    tft_port_barrier();
    if (!attends && p->tid == 0)
        leave_out_heads(k);
    for (uint32_t i = (uint32_t)p->tid; i < n; i += (uint32_t)p->n_threads)
        if (i < LINEAR)
            measure(k, p, buf[i], linear[i]);
        else
            measure_head(k, p, i - LINEAR);
}

/* The layer computes the input of attention itself, and overwrites it later, so it is computed here
   again to be measured. The inputs of the other linear layers, and the queries, stay in their
   buffers until the end of the layer, or until its per-layer embedding. */
static void run_layer(void *arg, int tid, int n_threads)
{
    struct run *k = arg;
    struct tft_pass p = pass_of(k, tid, n_threads);
    const struct tft_layer *b = &k->m->layer[k->layer];
    tft_norm(&p, &b->attn_norm, &b->reads[0]);
    measure_before(k, &p, &b->reads[0]);
    p.m = k->plain.layer ? &k->plain : k->m;
    p.m->arch->layer(&p, k->layer);
    measure_after(k, &p, b);
    if (!k->plain.layer)
        return;
    tft_port_barrier();
    p.m = k->m;
    tft_layer_embed_add(&p, k->layer, b->scale);
}

/* Fills k->plain. False if memory is short. */
static bool leave_embeds_out(struct run *k)
{
    const struct tft_model *m = k->m;
    if (!m->layer_embed.n)
        return true;
    k->plain = *m;
    k->plain.layer_embed.n = 0;
    k->plain.layer = malloc(m->n_layer * sizeof *m->layer);
    for (uint32_t l = 0; k->plain.layer && l < m->n_layer; l++) {
        k->plain.layer[l] = m->layer[l];
        k->plain.layer[l].scale = NULL; /* it comes after the embedding */
    }
    return k->plain.layer;
}

static void run_head(void *arg, int tid, int n_threads)
{
    struct run *k = arg;
    struct tft_pass p = pass_of(k, tid, n_threads);
    tft_norm(&p, &k->m->out_norm, &k->m->output);
    measure_before(k, &p, &k->m->output);
}

/* Returns false if the caller's progress function stopped the run. */
static bool run_window(struct run *k)
{
    const struct activations *a = k->a;
    tft_states_reset(&k->s->states);
    tft_port_team(k->s->n_threads, run_embed, k);
    for (k->layer = 0; k->layer < a->n_layer; k->layer++) {
        tft_port_team(k->s->n_threads, run_layer, k);
        double done = (k->layer + 1.0) / a->n_layer;
        if (k->o->progress && !k->o->progress(k->o->user, (k->window + done) / a->n_window))
            return false;
    }
    tft_port_team(k->s->n_threads, run_head, k);
    return true;
}

/* --------------------------------------------------------------------------------------- memory */

static void fill_tokens(struct activations *a, const struct activations_opts *o, int32_t bos)
{
    uint32_t bos_tokens = a->window - o->window; /* 1 if a window begins with BOS */
    for (uint32_t w = 0; w < a->n_window; w++) {
        int32_t *to = a->tokens + (size_t)w * a->window;
        to[0] = bos;
        memcpy(to + bos_tokens, o->text + (size_t)w * o->window, o->window * sizeof *to);
    }
}

static bool allocate(struct run *k)
{
    struct activations *a = k->a;
    const struct tft_model *m = k->m;
    size_t threads = (size_t)k->s->n_threads;
    k->widest = m->n_embd > m->n_ff ? m->n_embd : m->n_ff;
    k->widest = k->widest > m->mixed_width ? k->widest : m->mixed_width;
    k->positions = ((size_t)m->n_prefix + a->window + TFT_KEY_PANEL - 1) / TFT_KEY_PANEL *
                   TFT_KEY_PANEL;
    k->row = calloc(threads, k->widest * sizeof *k->row);
    k->score = calloc(threads, k->positions * sizeof *k->score);
    a->tokens = calloc(a->n_window, a->window * sizeof *a->tokens);
    a->stream = calloc(a->n_layer + 1, sizeof *a->stream);
    a->linear = calloc((size_t)a->n_layer * TFT_LAYER_INPUTS + 1, sizeof *a->linear);
    a->token_top = calloc(a->n_layer + 1, a->window * sizeof *a->token_top);
    a->sink = calloc(a->n_layer, a->n_head * sizeof *a->sink);
    a->cost = calloc(a->n_layer, a->n_head * sizeof *a->cost);
    k->room = calloc(threads, sizeof *k->room);
    k->panel = calloc(threads * TFT_KEY_PANEL, m->head_dim * sizeof *k->panel);
    bool rooms = k->room && k->panel;
    for (size_t i = 0; rooms && i < threads; i++)
        rooms = (k->room[i] = cache_cost_open(m->n_prefix + a->window, m->head_dim,
                                            (double)m->attn_scale)) != NULL;
    return rooms && leave_embeds_out(k) && k->row && k->score && a->tokens && a->stream &&
           a->linear && a->token_top && a->sink && a->cost;
}

bool activations_bos(const struct tft_model *m)
{
    size_t n = 0;
    return tft_tokenize(m, "", 0, TFT_ADD_BOS, NULL, 0, &n) == TFT_OK && n;
}

/* Slots of the shortest ring: fewer than the number of tokens if the prefix is far longer than
   it. */
static uint32_t shortest(const struct tft_kv *kv)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t l = 0; l < kv->n_layer; l++)
        if (kv->ring[l].slots[TFT_KV_K] < least)
            least = kv->ring[l].slots[TFT_KV_K];
    return least;
}

enum tft_status activations_run(struct activations *a, const struct tft_model *m,
                                const struct activations_opts *o, bool *stopped,
                                struct tft_error *err)
{
    struct run k = {.a = a, .o = o, .m = m};
    uint32_t window = o->window + activations_bos(m);
    *stopped = false;
    *a = (struct activations){0};
    if (m->n_expert)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: activations of a mixture of experts cannot be shown", m->source.name);
    if (m->parts & TFT_BIT(TFT_PART_MAMBA))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: activations of %s, with Mamba-2, cannot be shown", m->source.name,
                        m->arch->name);
    if (m->parts & TFT_BIT(TFT_PART_RWKV))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: activations of %s, where layers read mixes of two tokens, cannot be "
                        "shown",
                        m->source.name, m->arch->name);
    if (m->altup.n)
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "%s: activations of %s, with several residual streams, cannot be shown",
                        m->source.name, m->arch->name);
    *a = (struct activations){.n_layer = m->n_layer, .n_head = m->n_head, .n_prefix = m->n_prefix,
                              .n_window = (uint32_t)(o->n_text / o->window), .window = window};
    struct tft_session_opts so = {.size = sizeof so,
                                  .capacity = window,
                                  .n_batch = window,
                                  .n_threads = o->n_threads,
                                  .kv = o->kv ? o->kv : "f16"};
    enum tft_status status = tft_session_open(&k.s, m, &so, err);
    if (status == TFT_OK && (tft_kv_quantizes(&k.s->kv.policy) || k.s->kv.policy.i8))
        status = tft_fail(err, TFT_ERR_ARG, "attention can be measured with --kv f16 or f32 only");
    if (status == TFT_OK && k.s->kv.ring && tft_kv_panels(k.s->kv.max_tokens) > shortest(&k.s->kv))
        status = tft_fail(err, TFT_ERR_UNSUPPORTED,
                          "%s: its prefix of %u tokens is too long for its sliding windows to be "
                          "measured", m->source.name, m->n_prefix);
    if (status == TFT_OK && !allocate(&k))
        status = tft_fail(err, TFT_ERR_NOMEM,
                          "%s: out of memory for the measurements of %u windows of %u tokens",
                          m->source.name, a->n_window, window);
    if (status == TFT_OK) {
        fill_tokens(a, o, tft_token_bos(m));
        k.plan = tft_kv_plain_plan(&k.chunk, m->n_prefix, window);
        for (; k.window < a->n_window && !*stopped; k.window++)
            *stopped = !run_window(&k);
    }
    for (int i = 0; k.room && i < k.s->n_threads; i++)
        cache_cost_close(k.room[i]);
    free(k.room);
    free(k.panel);
    free(k.plain.layer);
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
    free(a->cost);
    *a = (struct activations){0};
}

/* --------------------------------------------------------------------- the model without prefix */

/* A static range becomes one for each token. */
static void release_range(struct tft_input *in)
{
    if (in->range == TFT_RANGE_STATIC)
        in->range = TFT_RANGE_TOKEN;
}

/* Points the linear layers of a copied block to the copy's inputs. */
static void own_inputs(struct tft_layer *b)
{
    for (uint32_t i = 0; i < tft_layer_reads(b); i++)
        b->reads[i].in = &b->in[TFT_IN_ATTN];
    b->o.in = &b->in[TFT_IN_O];
    b->gate.in = b->up.in = &b->in[TFT_IN_FFN];
    b->down.in = &b->in[TFT_IN_DOWN];
    for (int i = 0; i < TFT_LAYER_INPUTS; i++)
        release_range(&b->in[i]);
}

bool activations_bare(struct tft_model *bare, const struct tft_model *m)
{
    *bare = *m;
    bare->n_prefix = 0;
    bare->prefix_x = bare->prefix_state = NULL;
    bare->prefix_bos = false;
    bare->float_inputs = bare->float_hidden = true;
    bare->layer = malloc(m->n_layer * sizeof *bare->layer);
    for (uint32_t l = 0; bare->layer && l < m->n_layer; l++) {
        bare->layer[l] = m->layer[l];
        own_inputs(&bare->layer[l]);
    }
    bare->output.in = &bare->head_in;
    release_range(&bare->head_in);
    return bare->layer;
}

/* -------------------------------------------------------------------------------------- results */

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

double activations_ends(const struct activations_input *in, uint32_t n)
{
    uint64_t numbers = 0, at_ends = 0;
    for (uint32_t i = 0; i < n; i++) {
        numbers += in[i].numbers;
        at_ends += in[i].at_ends;
    }
    return numbers ? (double)at_ends / (double)numbers : NAN;
}

double activations_sink(const struct activations *a, uint32_t layer)
{
    double sum = 0;
    for (uint32_t h = 0; h < a->n_head; h++)
        sum += a->sink[(size_t)layer * a->n_head + h];
    return sum / a->n_head;
}
