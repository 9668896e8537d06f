/*
 * The CUDA backend (device.h): a model's weights and a session's cache and activations in a GPU's
 * memory, and the operations of a pass queued on its stream. Per pass, tokens and the angles of
 * their positions go there, and logits come back; with layers on the CPU before, rows of TFT_X go
 * instead of tokens. One token after the other is the same work each time but for what is in `up`,
 * so it is recorded once as a graph.
 */
#include <assert.h>
#include <string.h>

#include "inside.h"
#include "model/rope.h"

/* ----------------------------------------------------------------------------------- operations */

static struct on *on(const struct tft_pass *p)
{
    return p->s->on;
}

/* Tokens that operations work on. */
static uint32_t some(const struct tft_pass *p)
{
    return p->n - p->first;
}

static float *row(const struct tft_pass *p, enum tft_buf buf)
{
    return on(p)->buf[buf] + (buf == TFT_LOGITS ? 0 : (size_t)p->first * tft_pass_stride(p, buf));
}

/* The rows of buf as `in` has them: of a static range, bytes from the start; else floats, which
   quantize() makes bytes of. */
static struct tft_cuda_rows rows(const struct tft_pass *p, enum tft_buf buf,
                                 const struct tft_input *in)
{
    if (in->range == TFT_RANGE_STATIC)
        return (struct tft_cuda_rows){
            .bytes = on(p)->bytes[buf] + (size_t)p->first * tft_pass_byte_stride(p, buf),
            .ld = tft_pass_byte_stride(p, buf),
            .q = on(p)->d->affine + in->index,
        };
    return (struct tft_cuda_rows){.floats = row(p, buf), .ld = tft_pass_stride(p, buf)};
}

static struct tft_cuda_rows dynamic_rows(const struct tft_pass *p, enum tft_buf buf)
{
    struct on *o = on(p);
    size_t ld = tft_pass_byte_stride(p, buf);
    return (struct tft_cuda_rows){.bytes = o->bytes[buf] + (size_t)p->first * ld,
                                  .ld = ld,
                                  .q = o->affine[buf] + p->first,
                                  .step = 1};
}

static void quantize(const struct tft_pass *p, enum tft_buf buf, const struct tft_input *in)
{
    struct on *o = on(p);
    if (in->range == TFT_RANGE_STATIC)
        return;
    struct tft_cuda_rows to = dynamic_rows(p, buf);
    tft_cuda_quantize(o->stream, to.bytes, to.ld, row(p, buf), tft_pass_stride(p, buf), some(p),
                      tft_pass_width(p, buf), o->affine[buf] + p->first, o->range,
                      in->range == TFT_RANGE_TENSOR);
}

static void norm(struct tft_pass *p, const struct tft_norm *w, const struct tft_linear *l)
{
    struct on *o = on(p);
    struct tft_cuda_rows y = rows(p, TFT_H, l->in);
    if (!some(p))
        return;
    tft_cuda_norm(o->stream, &y, row(p, TFT_X), tft_pass_stride(p, TFT_X),
                  tft_cuda_there(o->d, w->w), tft_cuda_there(o->d, w->b), some(p), p->m->n_embd,
                  p->m->norm_eps);
    quantize(p, TFT_H, l->in);
}

static struct tft_cuda_heads heads(const struct tft_pass *p)
{
    uint32_t dim = p->m->head_dim;
    return (struct tft_cuda_heads){
        .x = {row(p, TFT_Q), row(p, TFT_K)},
        .ld = {tft_pass_stride(p, TFT_Q), tft_pass_stride(p, TFT_K)},
        .heads = {p->m->n_head, p->m->n_head_kv},
        .dim = dim,
    };
}

static void rmsnorm_heads(struct tft_pass *p, const struct tft_block *b)
{
    struct on *o = on(p);
    struct tft_cuda_heads x = heads(p);
    const float *const w[] = {tft_cuda_there(o->d, b->q_norm.w), tft_cuda_there(o->d, b->k_norm.w)};
    tft_cuda_rmsnorm_heads(o->stream, &x, w, some(p), p->m->norm_eps);
}

static struct tft_cuda_product product(const struct tft_pass *p, enum tft_buf to,
                                       const struct tft_linear *l)
{
    const struct device *d = on(p)->d;
    return (struct tft_cuda_product){
        .y = row(p, to),
        .ldy = tft_pass_stride(p, to),
        .w = {
            .data = tft_cuda_there(d, l->w.data),
            .scale = tft_cuda_there(d, l->w.scale),
            .rowsum = tft_cuda_there(d, l->w.rowsum),
            .bias = tft_cuda_there(d, l->bias),
            .rows = l->w.rows,
            .cols = (uint32_t)tft_panel_cols(l->w.cols),
        },
    };
}

/* Products of the rows of `from`, which are as `in` says. */
static void multiply(const struct tft_pass *p, const struct tft_cuda_product *products, uint32_t n,
                     bool add, enum tft_buf from, const struct tft_input *in)
{
    struct tft_cuda_rows x = in->range == TFT_RANGE_STATIC ? rows(p, from, in)
                                                           : dynamic_rows(p, from);
    if (some(p))
        tft_cuda_linear(on(p)->stream, products, n, add, &x, some(p), on(p)->d->multiprocessors);
}

static void linear(const struct tft_pass *p, enum tft_buf to, const struct tft_linear *l,
                   enum tft_buf from, bool add)
{
    struct tft_cuda_product one = product(p, to, l);
    multiply(p, &one, 1, add, from, l->in);
}

static void linear_add(struct tft_pass *p, enum tft_buf to, const struct tft_linear *l,
                       enum tft_buf from)
{
    linear(p, to, l, from, true);
}

static void qkv(struct tft_pass *p, const struct tft_block *b)
{
    struct tft_cuda_product all[] = {product(p, TFT_Q, &b->q), product(p, TFT_K, &b->k),
                                     product(p, TFT_V, &b->v)};
    multiply(p, all, 3, false, TFT_H, b->q.in);
}

static void rope(struct tft_pass *p)
{
    struct on *o = on(p);
    const struct tft_model *m = p->m;
    struct tft_cuda_heads x = heads(p);
    size_t at = (size_t)p->first * m->n_rot;
    tft_cuda_rope(o->stream, &x, o->up.cos + at, o->up.sin + at, some(p), m->n_rot, m->rope_halves);
}

/* Stores the chunk's tokens, after those before it have been quantized that are due. */
static void append(struct tft_pass *p, uint32_t layer, uint32_t i)
{
    struct on *o = on(p);
    const struct tft_kv_policy *policy = &p->s->kv.policy;
    const struct chunk *c = &o->chunk[i];
    struct tft_cuda_slots slots = tft_cuda_slots_of(o, layer);
    size_t stride = tft_pass_stride(p, TFT_K);
    if (c->evict) {
        struct tft_cuda_blocks blocks = tft_cuda_blocks_of(o, layer);
        struct tft_cuda_clips clips = {
            {TFT_CODED_CLIPS}, (uint32_t)tft_coded_clips(policy), tft_coded_to_zero(policy)};
        tft_cuda_evict(o->stream, &blocks, &slots, &c->eviction, &clips, o->rows);
    }
    tft_cuda_put(o->stream, &slots, o->buf[TFT_K] + c->from * stride,
                 o->buf[TFT_V] + c->from * stride, stride, c->to - c->from, o->up.at + i);
}

/* What does not go into the first chunk waits for attend(). */
static void kv_append(struct tft_pass *p, uint32_t layer)
{
    append(p, layer, 0);
}

/* A chunk of the pass attends before the next one comes, for which tokens that it sees may be
   quantized. */
static void attend(struct tft_pass *p, uint32_t layer, const struct tft_linear *l)
{
    struct on *o = on(p);
    bool coded = p->s->kv.policy.coded;
    struct tft_cuda_slots slots = tft_cuda_slots_of(o, layer);
    struct tft_cuda_blocks blocks = {.dim = 0};
    if (coded)
        blocks = tft_cuda_blocks_of(o, layer);
    for (uint32_t i = 0; i < o->n_chunk; i++) {
        const struct chunk *c = &o->chunk[i];
        uint32_t skip = p->first > c->from ? p->first - c->from : 0, from = c->from + skip;
        if (i)
            append(p, layer, i);
        if (from >= c->to)
            continue;
        struct tft_pass at = *p; /* whose rows begin there */
        at.first = from;
        struct tft_cuda_rows y = rows(&at, TFT_A, l->in);
        tft_cuda_attend(o->stream, &y, row(&at, TFT_Q), tft_pass_stride(p, TFT_Q), &slots,
                        coded ? &blocks : NULL, p->m->n_head, c->to - from, skip, o->up.at + i,
                        &o->parts);
    }
    if (some(p))
        quantize(p, TFT_A, l->in);
}

static void hidden(struct tft_pass *p, const struct tft_linear *gate, const struct tft_linear *up,
                   const struct tft_linear *down)
{
    struct on *o = on(p);
    if (!some(p))
        return;
    struct tft_cuda_product both[] = {product(p, TFT_G, gate ? gate : up), product(p, TFT_U, up)};
    multiply(p, both, gate ? 2 : 1, false, TFT_H, up->in);
    struct tft_cuda_rows y = rows(p, TFT_G, down->in);
    tft_cuda_activate(o->stream, &y, row(p, TFT_G), gate ? row(p, TFT_U) : NULL,
                      tft_pass_stride(p, TFT_G), some(p), p->m->n_ff, down->in->hadamard);
    quantize(p, TFT_G, down->in);
}

/* --------------------------------------------------------------------------------------- a pass */

/* What the policy gives up, from r, the nth time in the pass: tft_coded_evict */
static struct tft_cuda_eviction plan_eviction(struct on *o, struct tft_retained r, uint32_t nth)
{
    const struct tft_kv *kv = &o->s->kv;
    bool again = r.waiting || r.blocks;
    uint32_t base = kv->n_prefix + r.sinks + r.named, n = r.waiting + r.kept,
             *order = o->from.order + (size_t)nth * o->slots;
    struct tft_cuda_eviction e = {
        .order = o->up.order + (size_t)nth * o->slots, .first = r.blocks, .base = base};
    uint32_t leave = tft_retain_evict(&kv->policy, &r, o->order);
    for (uint32_t i = 0; i < n; i++)
        order[i] = o->order[i] + base;
    e.blocks = leave / kv->block;
    e.stay = n - leave;
    if (kv->policy.partial) { /* round_old_values */
        uint32_t window = kv->policy.window, first = again ? window / 2 : 0,
                 end = r.kept > window ? r.kept - window : 0;
        e.rounded = end > first ? end - first : 0;
        e.round = kv->n_prefix + r.sinks + r.named + r.waiting + first;
    }
    return e;
}

/* The chunks of the pass. Returns before how many of them tokens are given up. */
static uint32_t plan(struct tft_pass *p)
{
    struct on *o = on(p);
    const struct tft_kv *kv = &p->s->kv;
    struct tft_retained at = kv->at;
    uint32_t evictions = 0;
    o->n_chunk = 0;
    for (uint32_t from = 0; from < p->n; from = o->chunk[o->n_chunk++].to) {
        struct tft_chunk c = {.to = p->n};
        uint32_t slot = p->pos - p->s->dropped;
        if (kv->policy.coded) {
            c = tft_retain_chunk(&kv->policy, &at, from, p->n);
            slot = kv->n_prefix + c.slot;
        }
        evictions += c.evict;
        assert(evictions <= o->evictions && o->n_chunk < o->chunks);
        o->chunk[o->n_chunk] = (struct chunk){.from = from,
                                              .to = c.to,
                                              .slot = slot,
                                              .blocks = c.blocks,
                                              .evict = c.evict,
                                              .before = c.before};
    }
    return evictions;
}

/* What the kernels want to know of the pass. */
static void send_up(struct tft_pass *p, uint32_t layer)
{
    struct on *o = on(p);
    const struct tft_model *m = p->m;
    uint32_t evictions = plan(p);
    tft_cuda_layout_up(o, p->n, o->n_chunk, evictions);
    for (uint32_t i = 0, nth = 0; i < o->n_chunk; i++) {
        struct chunk *c = &o->chunk[i];
        o->from.at[i] = (struct tft_cuda_at){p->pos + c->from, c->slot, c->blocks};
        if (c->evict)
            c->eviction = plan_eviction(o, c->before, nth++);
    }
    if (layer == 0)
        memcpy(o->from.tokens, p->tokens, p->n * sizeof *p->tokens);
    for (uint32_t t = 0; t < p->n && m->n_rot; t++)
        tft_rope_angles(o->from.cos + (size_t)t * m->n_rot, o->from.sin + (size_t)t * m->n_rot,
                        m->rope_freq, m->n_rot, m->rope_halves, p->pos + t);
    tft_cuda_send(o, o->up.at, o->from.at, o->up.bytes);
    if (layer > 0)
        tft_cuda_send(o, o->buf[TFT_X], p->s->buf[TFT_X],
                      (size_t)p->n * tft_pass_stride(p, TFT_X) * sizeof(float));
}

/* Queues everything from there on. */
static void forward(struct tft_pass *p, uint32_t layer)
{
    struct on *o = on(p);
    const struct tft_model *m = p->m;
    if (layer == 0) {
        struct tft_cuda_embedding e = {tft_cuda_there(o->d, m->embed.data),
                                       tft_cuda_there(o->d, m->embed.scale),
                                       tft_cuda_there(o->d, m->pos_embed.data), m->n_embd};
        tft_cuda_embed(o->stream, o->buf[TFT_X], tft_pass_stride(p, TFT_X), o->up.tokens, o->up.at,
                       p->n, &e);
    }
    for (uint32_t l = layer; l < m->n_layer; l++)
        m->arch->layer(p, l);
    norm(p, &m->out_norm, &m->output);
    linear(p, TFT_LOGITS, &m->output, TFT_H, false);
}

/* A token's graph for as many spans, from there on, is recorded if there is none yet. */
static void record(struct tft_pass p, uint32_t layer, int i)
{
    struct on *o = on(&p);
    cudaGraph_t graph = NULL;
    if (o->graph[i])
        return;
    cudaError_t e = cudaStreamBeginCapture(o->stream, cudaStreamCaptureModeThreadLocal);
    if (e == cudaSuccess) {
        forward(&p, layer);
        e = cudaStreamEndCapture(o->stream, &graph);
    }
    if (e == cudaSuccess)
        e = cudaGraphInstantiateWithFlags(&o->graph[i], graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    if (o->failed == cudaSuccess)
        o->failed = e;
}

static uint32_t at_most(uint32_t n, uint32_t most)
{
    return n < most ? n : most;
}

static enum tft_status run(struct tft_pass *p, uint32_t layer)
{
    struct on *o = on(p);
    const struct tft_model *m = p->m;
    int i = 0;
    if (o->failed == cudaSuccess)
        o->failed = cudaSetDevice(o->d->which);
    send_up(p, layer);
    bool coded = p->s->kv.policy.coded;
    uint32_t slots = coded ? o->slot_spans : tft_spans(o->from.at->slot + p->n);
    uint32_t blocks = coded ? tft_spans(o->from.at->blocks * p->s->kv.block) : 0;
    if (p->n == 1 && p->keep && !o->chunk->evict && layer == m->n_host && layer < m->n_layer) {
        while (1u << i < (coded ? blocks : slots))
            i++;
        o->parts.slots = coded ? slots : at_most(1u << i, o->slot_spans);
        o->parts.blocks = at_most(1u << i, o->block_spans);
        record(*p, layer, i);
        if (o->failed == cudaSuccess)
            o->failed = cudaGraphLaunch(o->graph[i], o->stream);
    } else if (o->failed == cudaSuccess) {
        o->parts.slots = o->slot_spans;
        o->parts.blocks = o->block_spans;
        forward(p, layer);
    }
    if (o->failed == cudaSuccess && some(p))
        o->failed = cudaMemcpyAsync(p->s->buf[TFT_LOGITS], o->buf[TFT_LOGITS],
                                    (size_t)some(p) * m->n_vocab * sizeof(float),
                                    cudaMemcpyDeviceToHost, o->stream);
    tft_cuda_wait(o);
    return o->failed == cudaSuccess ? TFT_OK : TFT_ERR_DEVICE;
}

static enum tft_status drop(struct tft_session *s, uint32_t from, uint32_t n, uint32_t used)
{
    struct on *o = s->on;
    const struct tft_model *m = s->m;
    if (o->failed == cudaSuccess)
        o->failed = cudaSetDevice(o->d->which);
    for (uint32_t l = m->n_host; l < m->n_layer; l++)
        if (s->kv.policy.coded) {
            struct tft_cuda_blocks blocks = tft_cuda_blocks_of(o, l);
            tft_cuda_drop_blocks(o->stream, &blocks, n / s->kv.block, s->kv.at.blocks);
        } else {
            struct tft_cuda_slots slots = tft_cuda_slots_of(o, l);
            tft_cuda_drop(o->stream, &slots, from, n, used);
        }
    tft_cuda_wait(o);
    return o->failed == cudaSuccess ? TFT_OK : TFT_ERR_DEVICE;
}

TFT_API tft_device_fn tft_device;

const struct tft_device *tft_device(void)
{
    static const struct tft_device cuda = {
        .version = TFT_PLUGIN_VERSION,
        .inside = TFT_DEVICE_INSIDE,
        .open = tft_cuda_open,
        .close = tft_cuda_close,
        .limits = tft_cuda_limits,
        .session_open = tft_cuda_session_open,
        .session_close = tft_cuda_session_close,
        .run = run,
        .drop = drop,
        .norm = norm,
        .qkv = qkv,
        .rmsnorm_heads = rmsnorm_heads,
        .rope = rope,
        .linear_add = linear_add,
        .kv_append = kv_append,
        .attend = attend,
        .hidden = hidden,
    };
    return &cuda;
}
