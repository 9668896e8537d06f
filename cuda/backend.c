/*
 * The CUDA backend (device.h): a model's weights and a session's cache and activations in a GPU's memory, and the operations of a pass queued on
 * its stream. Per pass, tokens and the angles of their positions go there, and logits come back; with layers on the CPU before, rows of TFT_X go
 * instead of tokens. One token after the other is the same work each time but for what is in `up`, so it is recorded once as a graph.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "device.h"
#include "launch.h"
#include "rope.h"

#define BIT(buf) (1u << (buf))

/* -------------------------------------------------------------------------------------------------- errors */

static enum tft_status status_of(cudaError_t e, const char *doing, struct tft_error *err)
{
    if (e == cudaSuccess)
        return TFT_OK;
    cudaGetLastError(); /* it has been told */
    return tft_fail(err, e == cudaErrorMemoryAllocation ? TFT_ERR_NOMEM : TFT_ERR_DEVICE, "cuda: %s: %s", doing, cudaGetErrorString(e));
}

static enum tft_status take(void **out, size_t bytes, const char *what, struct tft_error *err)
{
    cudaError_t e = cudaMalloc(out, bytes ? bytes : 1);
    size_t left = 0, all = 0;
    if (e != cudaErrorMemoryAllocation)
        return status_of(e, what, err);
    cudaGetLastError();
    cudaMemGetInfo(&left, &all);
    return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory for %s: %zu MB, where %zu of %zu MB are free", what, bytes >> 20, left >> 20,
                    all >> 20);
}

/* --------------------------------------------------------------------------------------------------- models */

/* What of a model has been copied: from where to where. */
struct copied {
    const void *from;
    size_t bytes;
    void *to;
};

struct device {
    const struct tft_model *m;
    int which;
    void *memory;
    struct copied *copied; /* [n], by `from` */
    size_t n, room;
    const struct tft_affine *affine; /* [inputs] */
};

/* Counts, or notes. */
static void note(struct device *d, const void *from, size_t bytes)
{
    if (!from)
        return;
    if (d->copied)
        d->copied[d->n] = (struct copied){from, bytes, NULL};
    d->n++;
}

static void note_matrix(struct device *d, const struct tft_mat *w)
{
    size_t rows = tft_panel_rows(w->rows);
    if (!w->data)
        return;
    note(d, w->data, rows * tft_panel_cols(w->cols));
    note(d, w->scale, rows * sizeof *w->scale);
    note(d, w->rowsum, rows * sizeof *w->rowsum);
}

static void note_linear(struct device *d, const struct tft_linear *l)
{
    note_matrix(d, &l->w);
    note(d, l->bias, l->w.rows * sizeof *l->bias);
}

static void note_norm(struct device *d, const struct tft_norm *w, uint32_t n)
{
    note(d, w->w, n * sizeof *w->w);
    note(d, w->b, n * sizeof *w->b);
}

static void note_all(struct device *d)
{
    const struct tft_model *m = d->m;
    d->n = 0;
    for (uint32_t l = m->n_host; l < m->n_layer; l++) {
        const struct tft_block *b = &m->block[l];
        note_norm(d, &b->attn_norm, m->n_embd);
        note_norm(d, &b->ffn_norm, m->n_embd);
        note_norm(d, &b->q_norm, m->head_dim);
        note_norm(d, &b->k_norm, m->head_dim);
        const struct tft_linear *linear[] = {&b->q, &b->k, &b->v, &b->o, &b->gate, &b->up, &b->down};
        for (size_t i = 0; i < sizeof linear / sizeof *linear; i++)
            note_linear(d, linear[i]);
    }
    note_norm(d, &m->out_norm, m->n_embd);
    note_linear(d, &m->output);
    if (m->n_host)
        return;
    note_matrix(d, &m->embed);
    note(d, m->pos_embed.data, (size_t)m->pos_embed.rows * m->pos_embed.cols * sizeof(float));
}

static int by_from(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t)((const struct copied *)a)->from, y = (uintptr_t)((const struct copied *)b)->from;
    return (x > y) - (x < y);
}

/* A tied head has the embedding's. */
static void unify(struct device *d)
{
    size_t n = 0;
    qsort(d->copied, d->n, sizeof *d->copied, by_from);
    for (size_t i = 0; i < d->n; i++)
        if (!n || d->copied[n - 1].from != d->copied[i].from)
            d->copied[n++] = d->copied[i];
    d->n = n;
}

/* Where the device has it; NULL for NULL. */
static void *there(const struct device *d, const void *from)
{
    struct copied key = {.from = from};
    const struct copied *c = from ? bsearch(&key, d->copied, d->n, sizeof key, by_from) : NULL;
    return c ? c->to : NULL;
}

static size_t inputs(const struct tft_model *m)
{
    return (size_t)m->n_layer * TFT_LAYER_INPUTS + 1;
}

/* How the bytes of static inputs are held, by their index. */
static enum tft_status copy_affine(struct device *d, void *to, struct tft_error *err)
{
    const struct tft_model *m = d->m;
    struct tft_affine *all = calloc(inputs(m), sizeof *all);
    if (!all)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    for (uint32_t l = 0; l < m->n_layer; l++)
        for (int i = 0; i < TFT_LAYER_INPUTS; i++)
            all[l * TFT_LAYER_INPUTS + (uint32_t)i] = m->block[l].in[i].affine;
    all[m->n_layer * TFT_LAYER_INPUTS] = m->head_in.affine;
    cudaError_t e = cudaMemcpy(to, all, inputs(m) * sizeof *all, cudaMemcpyHostToDevice);
    free(all);
    d->affine = to;
    return status_of(e, "weights", err);
}

static enum tft_status copy_all(struct device *d, struct tft_error *err)
{
    struct tft_arena a = {0};
    for (size_t i = 0; i < d->n; i++)
        tft_arena_take(&a, d->copied[i].bytes, 1);
    tft_arena_take(&a, inputs(d->m), sizeof *d->affine);
    if (a.failed)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    enum tft_status status = take(&d->memory, a.used, "weights", err);
    a = (struct tft_arena){.base = d->memory};
    for (size_t i = 0; i < d->n && status == TFT_OK; i++) {
        struct copied *c = &d->copied[i];
        c->to = tft_arena_take(&a, c->bytes, 1);
        status = status_of(cudaMemcpy(c->to, c->from, c->bytes, cudaMemcpyHostToDevice), "weights", err);
    }
    return status == TFT_OK ? copy_affine(d, tft_arena_take(&a, inputs(d->m), sizeof *d->affine), err) : status;
}

/* The kernels are for sm_75 and newer: tensor cores that multiply bytes. */
static enum tft_status choose(struct device *d, uint32_t which, struct tft_error *err)
{
    int n = 0, major = 0, minor = 0;
    enum tft_status status = status_of(cudaGetDeviceCount(&n), "looking for a GPU", err);
    if (status != TFT_OK)
        return status;
    if (which >= (uint32_t)n)
        return tft_fail(err, TFT_ERR_DEVICE, "cuda:%u: of GPUs there are %d", which, n);
    d->which = (int)which;
    status = status_of(cudaSetDevice(d->which), "using the GPU", err);
    if (status != TFT_OK)
        return status;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d->which);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d->which);
    if (major * 10 + minor < 75)
        return tft_fail(err, TFT_ERR_DEVICE, "cuda:%u: of compute capability %d.%d, where 7.5 is needed", which, major, minor);
    return TFT_OK;
}

static void close_device(void *device)
{
    struct device *d = device;
    cudaSetDevice(d->which);
    cudaFree(d->memory);
    free(d->copied);
    free(d);
}

static enum tft_status open_device(void **out, const struct tft_model *m, uint32_t which, struct tft_error *err)
{
    struct device *d = calloc(1, sizeof *d);
    if (!d)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    d->m = m;
    enum tft_status status = choose(d, which, err);
    note_all(d);
    if (status == TFT_OK && !(d->copied = calloc(d->n, sizeof *d->copied)))
        status = tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    if (status == TFT_OK) {
        note_all(d);
        unify(d);
        status = copy_all(d, err);
    }
    if (status != TFT_OK) {
        close_device(d);
        return status;
    }
    *out = d;
    return TFT_OK;
}

/* ------------------------------------------------------------------------------------------------- sessions */

/* What goes to the device for each pass, in one piece. */
struct up {
    struct tft_cuda_at *at; /* [chunks] */
    int32_t *tokens;        /* [n_batch] */
    float *cos, *sin;       /* [n_batch, n_rot] */
    uint32_t *order;        /* [evictions, slots] */
    size_t bytes;
};

/* Tokens of a pass that see the same blocks: retain.h */
struct chunk {
    uint32_t from, to;
    bool evict; /* before they come */
    struct tft_cuda_eviction eviction;
};

enum { GRAPHS = 32 };

struct on {
    struct device *d;
    struct tft_session *s;
    cudaStream_t stream;
    cudaGraphExec_t graph[GRAPHS]; /* of one token that sees up to 2^i spans */
    cudaError_t failed;            /* sticky */
    void *memory;                  /* of the device: everything below but for `from` */
    void *pinned;                  /* of the host */
    struct up from, up;            /* in `pinned`, in `memory` */
    float *buf[TFT_N_BUF];
    uint8_t *bytes[TFT_N_BUF];
    struct tft_affine *affine[TFT_N_BUF];
    float *range;
    void *k, *v; /* [layers, G, ...] slots */
    struct tft_cuda_parts parts;
    uint32_t slot_spans, block_spans; /* that the cache has room for */

    struct chunk *chunk; /* [n_chunk] of the pass; of the host, with room for `chunks` */
    uint32_t *order;     /* [3 slots] as tft_retain_evict wants it; of the host */
    uint32_t n_chunk, chunks, evictions, slots;

    /* where the policy has codes, all [layers, G, ...] */
    unsigned char *records;
    uint16_t (*quads)[TFT_BITS_COUNT];
    uint8_t *channel; /* [E] */
    float *clip[2];   /* [groups] */
    uint16_t *rows;   /* tft_cuda_evict's workspace */
};

static struct up layout_up(const struct on *o, struct tft_arena *a)
{
    const struct tft_session *s = o->s;
    struct up u;
    size_t before = a->used;
    u.at = tft_arena_take(a, o->chunks, sizeof *u.at);
    u.tokens = tft_arena_take(a, s->n_batch, sizeof *u.tokens);
    u.cos = tft_arena_take(a, s->n_batch, s->m->n_rot * sizeof(float));
    u.sin = tft_arena_take(a, s->n_batch, s->m->n_rot * sizeof(float));
    u.order = tft_arena_take(a, o->evictions, o->slots * sizeof *u.order);
    u.bytes = a->used - before;
    return u;
}

/* Bytes of the records of the device's layers. */
static size_t record_bytes(const struct tft_session *s)
{
    const struct tft_kv *kv = &s->kv;
    const struct tft_coded_layer *first = &kv->layer[s->m->n_host], *last = &kv->layer[s->m->n_layer - 1];
    return last->v_at + (size_t)kv->n_head_kv * kv->n_blocks * last->v_bytes - first->k_at;
}

/* heads: over all layers */
static void layout_blocks(struct on *o, struct tft_arena *a, size_t heads)
{
    const struct tft_kv *kv = &o->s->kv;
    o->records = tft_arena_take(a, record_bytes(o->s), 1);
    o->quads = tft_arena_take(a, heads, sizeof *o->quads);
    o->channel = tft_arena_take(a, heads, kv->head_dim);
    for (int side = 0; side < 2; side++)
        o->clip[side] = tft_arena_take(a, heads, tft_coded_groups(kv) * sizeof(float));
    o->rows = tft_arena_take(a, (size_t)kv->n_head_kv * o->slots, 2 * kv->head_dim * sizeof *o->rows);
}

static void layout_device(struct on *o, struct tft_arena *a)
{
    const struct tft_session *s = o->s;
    const struct tft_model *m = s->m;
    struct tft_pass shape = {.m = m};
    o->up = layout_up(o, a);
    for (enum tft_buf b = 0; b < TFT_N_BUF; b++) {
        bool feeds = b == TFT_H || b == TFT_A || b == TFT_G;
        size_t rows = b == TFT_LOGITS ? s->n_logits : s->n_batch;
        if (m->floats || b == TFT_G || !(feeds)) /* what becomes G is in floats before */
            o->buf[b] = tft_arena_take(a, rows, tft_pass_stride(&shape, b) * sizeof(float));
        if (feeds) {
            o->bytes[b] = tft_arena_take(a, rows, tft_pass_byte_stride(&shape, b));
            o->affine[b] = m->floats ? tft_arena_take(a, rows, sizeof *o->affine[b]) : NULL;
        }
    }
    o->range = tft_arena_take(a, s->n_batch, 2 * sizeof *o->range);

    size_t heads = (size_t)(m->n_layer - m->n_host) * m->n_head_kv, row = m->head_dim * tft_num_bytes(s->kv.num), slots = 0;
    if (!tft_mul(heads, s->kv.capacity, &slots))
        a->failed = true;
    o->k = tft_arena_take(a, slots, row);
    o->v = tft_arena_take(a, slots, row);
    o->slot_spans = tft_spans(s->kv.capacity);
    o->block_spans = tft_spans(s->kv.n_blocks * s->kv.block);
    size_t parts = (size_t)m->n_head * (o->slot_spans + o->block_spans);
    o->parts.o = tft_arena_take(a, parts, m->head_dim * sizeof(float));
    o->parts.max = tft_arena_take(a, parts, sizeof(float));
    o->parts.sum = tft_arena_take(a, parts, sizeof(float));
    if (s->kv.policy.coded)
        layout_blocks(o, a, heads);
}

static void layout_host(struct on *o, struct tft_arena *a)
{
    o->from = layout_up(o, a);
    o->s->buf[TFT_LOGITS] = tft_arena_take(a, o->s->n_logits, o->s->m->n_vocab * sizeof(float));
}

/* Room for what a pass may have: some tokens are given up after so many have come, and at first perhaps sooner, behind a prompt that was kept
   whole. */
static enum tft_status make_plans(struct on *o, struct tft_error *err)
{
    const struct tft_session *s = o->s;
    const struct tft_kv_policy *p = &s->kv.policy;
    uint32_t room = p->retain == TFT_KV_WINDOW ? s->kv.block : p->window;
    if (p->coded) {
        o->evictions = s->n_batch / (room ? room : 1) + 2;
        o->slots = s->kv.capacity;
    }
    o->chunks = o->evictions + 1;
    o->chunk = calloc(o->chunks, sizeof *o->chunk);
    o->order = calloc(o->slots + 1, 3 * sizeof *o->order);
    return o->chunk && o->order ? TFT_OK : tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
}

static enum tft_status place(struct on *o, struct tft_error *err)
{
    struct tft_arena device = {0}, host = {0};
    layout_device(o, &device);
    layout_host(o, &host);
    if (device.failed || host.failed)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory for a session of %u tokens", o->s->capacity);
    enum tft_status status = take(&o->memory, device.used, "a session", err);
    if (status == TFT_OK)
        status = status_of(cudaMallocHost(&o->pinned, host.used), "a session", err);
    if (status == TFT_OK) /* what rows of bytes have past their end meets weights of zero, but should be numbers of ours all the same */
        status = status_of(cudaMemset(o->memory, 0, device.used), "a session", err);
    if (status != TFT_OK)
        return status;
    device = (struct tft_arena){.base = o->memory};
    host = (struct tft_arena){.base = o->pinned};
    layout_device(o, &device);
    layout_host(o, &host);
    return TFT_OK;
}

static struct tft_cuda_slots slots_of(const struct on *o, uint32_t layer)
{
    const struct tft_kv *kv = &o->s->kv;
    size_t at = (size_t)(layer - o->s->m->n_host) * kv->n_head_kv * kv->capacity * kv->head_dim * tft_num_bytes(kv->num);
    return (struct tft_cuda_slots){(char *)o->k + at, (char *)o->v + at, kv->num, kv->capacity, kv->n_head_kv, kv->head_dim};
}

static struct tft_cuda_side side_of(const struct on *o, uint32_t layer, int side)
{
    const struct tft_kv *kv = &o->s->kv;
    const struct tft_coded_layer *y = &kv->layer[layer];
    size_t base = kv->layer[o->s->m->n_host].k_at, head = (size_t)(layer - o->s->m->n_host) * kv->n_head_kv;
    return (struct tft_cuda_side){
        .records = o->records + (side ? y->v_at : y->k_at) - base,
        .bytes = side ? y->v_bytes : y->k_bytes,
        .codes = side ? y->v_codes : y->k_codes,
        .bits = side ? y->v_bits : y->k_bits,
        .by_token = (side ? &kv->policy.v : &kv->policy.k)->axis == TFT_KV_TOKEN,
        .clip = y->clip[side] ? o->clip[side] + head * tft_coded_groups(kv) : NULL,
    };
}

static struct tft_cuda_blocks blocks_of(const struct on *o, uint32_t layer)
{
    const struct tft_kv *kv = &o->s->kv;
    size_t head = (size_t)(layer - o->s->m->n_host) * kv->n_head_kv;
    return (struct tft_cuda_blocks){
        .k = side_of(o, layer, 0),
        .v = side_of(o, layer, 1),
        .quads = (const uint16_t (*)[TFT_BITS_COUNT])(o->quads + head),
        .channel = kv->layer[layer].channel ? o->channel + head * kv->head_dim : NULL,
        .n_blocks = kv->n_blocks,
        .block = kv->block,
        .group = kv->policy.group,
        .heads = kv->n_head_kv,
        .dim = kv->head_dim,
        .f8 = kv->policy.f8,
    };
}

static void send(struct on *o, void *to, const void *from, size_t bytes)
{
    if (o->failed == cudaSuccess)
        o->failed = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, o->stream);
}

static void wait(struct on *o)
{
    cudaError_t queued = cudaGetLastError(), done = cudaStreamSynchronize(o->stream);
    if (o->failed == cudaSuccess)
        o->failed = queued != cudaSuccess ? queued : done;
}

/* n rows of the prefix from `first` on, as floats, in `rows`: [n, stride] */
static void widen(const struct on *o, float *rows, const uint16_t *from, uint32_t n, size_t stride)
{
    const struct tft_model *m = o->s->m;
    size_t width = (size_t)m->n_head_kv * m->head_dim;
    for (uint32_t i = 0; i < n; i++)
        m->kern.widen[TFT_NUM_F16](rows + i * stride, from + i * width, width);
}

/* The model's keys and values take their places before all others, as if they were tokens of a pass. */
static enum tft_status put_prefix(struct on *o, struct tft_error *err)
{
    const struct tft_model *m = o->s->m;
    struct tft_pass shape = {.m = m};
    size_t stride = tft_pass_stride(&shape, TFT_K), width = (size_t)m->n_head_kv * m->head_dim, most = o->s->n_batch;
    float *rows = m->n_prefix ? malloc(2 * most * stride * sizeof *rows) : NULL;
    if (m->n_prefix && !rows)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    for (uint32_t l = m->n_host; l < m->n_layer; l++)
        for (uint32_t at = 0, n; at < m->n_prefix; at += n) {
            struct tft_cuda_slots slots = slots_of(o, l);
            size_t from = ((size_t)l * m->n_prefix + at) * width;
            n = m->n_prefix - at < most ? m->n_prefix - at : (uint32_t)most;
            widen(o, rows, m->prefix_k + from, n, stride);
            widen(o, rows + most * stride, m->prefix_v + from, n, stride);
            *o->from.at = (struct tft_cuda_at){.slot = at};
            send(o, o->up.at, o->from.at, sizeof *o->up.at);
            send(o, o->buf[TFT_K], rows, n * stride * sizeof *rows);
            send(o, o->buf[TFT_V], rows + most * stride, n * stride * sizeof *rows);
            tft_cuda_put(o->stream, &slots, o->buf[TFT_K], o->buf[TFT_V], stride, n, o->up.at);
            wait(o);
        }
    free(rows);
    return status_of(o->failed, "a session", err);
}

/* What attention knows of the keys' channels, and the parts that ranges are clipped to. */
static enum tft_status send_layers(struct on *o, struct tft_error *err)
{
    const struct tft_kv *kv = &o->s->kv;
    uint32_t heads = kv->n_head_kv, groups = tft_coded_groups(kv);
    for (uint32_t l = o->s->m->n_host, i = 0; l < o->s->m->n_layer; l++, i += heads) {
        const struct tft_coded_layer *y = &kv->layer[l];
        send(o, o->quads + i, y->quads, heads * sizeof *y->quads);
        if (y->channel)
            send(o, o->channel + (size_t)i * kv->head_dim, y->channel, (size_t)heads * kv->head_dim);
        for (int side = 0; side < 2; side++)
            if (y->clip[side])
                send(o, o->clip[side] + (size_t)i * groups, y->clip[side], (size_t)heads * groups * sizeof(float));
    }
    wait(o);
    return status_of(o->failed, "a session", err);
}

static void session_close(void *on)
{
    struct on *o = on;
    cudaSetDevice(o->d->which);
    for (int i = 0; i < GRAPHS; i++)
        if (o->graph[i])
            cudaGraphExecDestroy(o->graph[i]);
    if (o->stream)
        cudaStreamDestroy(o->stream);
    cudaFree(o->memory);
    cudaFreeHost(o->pinned);
    free(o->chunk);
    free(o->order);
    free(o);
}

static enum tft_status session_open(void **out, void *device, struct tft_session *s, struct tft_error *err)
{
    struct on *o = calloc(1, sizeof *o);
    if (!o)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    o->d = device;
    o->s = s;
    enum tft_status status = status_of(cudaSetDevice(o->d->which), "using the GPU", err);
    if (status == TFT_OK)
        status = make_plans(o, err);
    if (status == TFT_OK)
        status = place(o, err);
    if (status == TFT_OK)
        status = status_of(cudaStreamCreateWithFlags(&o->stream, cudaStreamNonBlocking), "a session", err);
    if (status == TFT_OK)
        status = put_prefix(o, err);
    if (status == TFT_OK && s->kv.policy.coded)
        status = send_layers(o, err);
    if (status != TFT_OK) {
        session_close(o);
        return status;
    }
    *out = o;
    return TFT_OK;
}

/* ----------------------------------------------------------------------------------------------- operations */

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

/* The rows of buf as `in` has them: of a static range, bytes from the start; else floats, which quantize() makes bytes of. */
static struct tft_cuda_rows rows(const struct tft_pass *p, enum tft_buf buf, const struct tft_input *in)
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
    return (struct tft_cuda_rows){.bytes = o->bytes[buf] + (size_t)p->first * ld, .ld = ld, .q = o->affine[buf] + p->first, .step = 1};
}

static void quantize(const struct tft_pass *p, enum tft_buf buf, const struct tft_input *in)
{
    struct on *o = on(p);
    if (in->range == TFT_RANGE_STATIC)
        return;
    struct tft_cuda_rows to = dynamic_rows(p, buf);
    tft_cuda_quantize(o->stream, to.bytes, to.ld, row(p, buf), tft_pass_stride(p, buf), some(p), tft_pass_width(p, buf),
                      o->affine[buf] + p->first, o->range, in->range == TFT_RANGE_TENSOR);
}

static void norm(struct tft_pass *p, const struct tft_norm *w, const struct tft_linear *l)
{
    struct on *o = on(p);
    struct tft_cuda_rows y = rows(p, TFT_H, l->in);
    if (!some(p))
        return;
    tft_cuda_norm(o->stream, &y, row(p, TFT_X), tft_pass_stride(p, TFT_X), there(o->d, w->w), there(o->d, w->b), some(p), p->m->n_embd,
                  p->m->norm_eps);
    quantize(p, TFT_H, l->in);
}

static void rmsnorm_heads(struct tft_pass *p, enum tft_buf buf, const struct tft_norm *w)
{
    struct on *o = on(p);
    uint32_t dim = p->m->head_dim;
    tft_cuda_rmsnorm_heads(o->stream, row(p, buf), tft_pass_stride(p, buf), there(o->d, w->w), some(p), tft_pass_width(p, buf) / dim, dim,
                           p->m->norm_eps);
}

static void linear(struct tft_pass *p, enum tft_buf to, const struct tft_linear *l, enum tft_buf from, bool add)
{
    struct on *o = on(p);
    struct tft_cuda_rows x = l->in->range == TFT_RANGE_STATIC ? rows(p, from, l->in) : dynamic_rows(p, from);
    struct tft_cuda_matrix w = {
        .data = there(o->d, l->w.data),
        .scale = there(o->d, l->w.scale),
        .rowsum = there(o->d, l->w.rowsum),
        .bias = there(o->d, l->bias),
        .rows = l->w.rows,
        .cols = (uint32_t)tft_panel_cols(l->w.cols),
    };
    if (some(p))
        tft_cuda_linear(o->stream, row(p, to), tft_pass_stride(p, to), add, &x, &w, some(p));
}

static void rope(struct tft_pass *p, enum tft_buf buf)
{
    struct on *o = on(p);
    const struct tft_model *m = p->m;
    size_t at = (size_t)p->first * m->n_rot;
    tft_cuda_rope(o->stream, row(p, buf), tft_pass_stride(p, buf), o->up.cos + at, o->up.sin + at, some(p),
                  tft_pass_width(p, buf) / m->head_dim, m->head_dim, m->n_rot, m->rope_halves);
}

/* Stores the chunk's tokens, after those before it have been quantized that are due. */
static void append(struct tft_pass *p, uint32_t layer, uint32_t i)
{
    struct on *o = on(p);
    const struct tft_kv_policy *policy = &p->s->kv.policy;
    const struct chunk *c = &o->chunk[i];
    struct tft_cuda_slots slots = slots_of(o, layer);
    size_t stride = tft_pass_stride(p, TFT_K);
    if (c->evict) {
        struct tft_cuda_blocks blocks = blocks_of(o, layer);
        struct tft_cuda_clips clips = {{TFT_CODED_CLIPS}, (uint32_t)tft_coded_clips(policy), tft_coded_to_zero(policy)};
        tft_cuda_evict(o->stream, &blocks, &slots, &c->eviction, &clips, o->rows);
    }
    tft_cuda_put(o->stream, &slots, o->buf[TFT_K] + c->from * stride, o->buf[TFT_V] + c->from * stride, stride, c->to - c->from, o->up.at + i);
}

/* What does not go into the first chunk waits for attend(). */
static void kv_append(struct tft_pass *p, uint32_t layer)
{
    append(p, layer, 0);
}

/* A chunk of the pass attends before the next one comes, for which tokens that it sees may be quantized. */
static void attend(struct tft_pass *p, uint32_t layer, const struct tft_linear *l)
{
    struct on *o = on(p);
    bool coded = p->s->kv.policy.coded;
    struct tft_cuda_slots slots = slots_of(o, layer);
    struct tft_cuda_blocks blocks = {.dim = 0};
    if (coded)
        blocks = blocks_of(o, layer);
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
        tft_cuda_attend(o->stream, &y, row(&at, TFT_Q), tft_pass_stride(p, TFT_Q), &slots, coded ? &blocks : NULL, p->m->n_head, c->to - from,
                        skip, o->up.at + i, &o->parts);
    }
    if (some(p))
        quantize(p, TFT_A, l->in);
}

static void hidden(struct tft_pass *p, const struct tft_linear *gate, const struct tft_linear *up, const struct tft_linear *down)
{
    struct on *o = on(p);
    if (!some(p))
        return;
    linear(p, TFT_G, gate ? gate : up, TFT_H, false);
    if (gate)
        linear(p, TFT_U, up, TFT_H, false);
    struct tft_cuda_rows y = rows(p, TFT_G, down->in);
    tft_cuda_activate(o->stream, &y, row(p, TFT_G), gate ? row(p, TFT_U) : NULL, tft_pass_stride(p, TFT_G), some(p), p->m->n_ff,
                      down->in->hadamard);
    quantize(p, TFT_G, down->in);
}

/* ------------------------------------------------------------------------------------------------- a pass */

/* What the policy gives up before chunk i: tft_coded_evict */
static struct tft_cuda_eviction plan_eviction(struct on *o, struct tft_retained r, uint32_t nth)
{
    const struct tft_kv *kv = &o->s->kv;
    bool again = r.waiting || r.blocks;
    uint32_t base = kv->n_prefix + r.sinks + r.named, n = r.waiting + r.kept, *order = o->from.order + (size_t)nth * o->slots;
    struct tft_cuda_eviction e = {.order = o->up.order + (size_t)nth * o->slots, .first = r.blocks, .base = base};
    uint32_t leave = tft_retain_evict(&kv->policy, &r, o->order);
    for (uint32_t i = 0; i < n; i++)
        order[i] = o->order[i] + base;
    e.blocks = leave / kv->block;
    e.stay = n - leave;
    if (kv->policy.partial) { /* round_old_values */
        uint32_t window = kv->policy.window, first = again ? window / 2 : 0, end = r.kept > window ? r.kept - window : 0;
        e.rounded = end > first ? end - first : 0;
        e.round = kv->n_prefix + r.sinks + r.named + r.waiting + first;
    }
    return e;
}

/* The chunks of the pass. */
static void plan(struct tft_pass *p)
{
    struct on *o = on(p);
    const struct tft_kv *kv = &p->s->kv;
    struct tft_retained at = kv->at;
    uint32_t evictions = 0;
    o->n_chunk = 0;
    for (uint32_t from = 0; from < p->n; o->n_chunk++) {
        struct tft_chunk c = {.to = p->n};
        uint32_t slot = p->pos - p->s->dropped;
        if (kv->policy.coded) {
            c = tft_retain_chunk(&kv->policy, &at, from, p->n);
            slot = kv->n_prefix + c.slot;
        }
        struct chunk *to = &o->chunk[o->n_chunk];
        *to = (struct chunk){.from = from, .to = c.to, .evict = c.evict};
        if (c.evict)
            to->eviction = plan_eviction(o, c.before, evictions++);
        o->from.at[o->n_chunk] = (struct tft_cuda_at){p->pos + from, slot, c.blocks};
        from = c.to;
    }
}

/* What the kernels want to know of the pass. */
static void send_up(struct tft_pass *p, uint32_t layer)
{
    struct on *o = on(p);
    const struct tft_model *m = p->m;
    plan(p);
    if (layer < m->n_layer) {
        if (layer == 0)
            memcpy(o->from.tokens, p->tokens, p->n * sizeof *p->tokens);
        for (uint32_t t = 0; t < p->n && m->n_rot; t++)
            tft_rope_angles(o->from.cos + (size_t)t * m->n_rot, o->from.sin + (size_t)t * m->n_rot, m->rope_freq, m->n_rot, m->rope_halves,
                            p->pos + t);
    }
    send(o, o->up.at, o->from.at, o->up.bytes);
    if (layer > 0)
        send(o, o->buf[TFT_X], p->s->buf[TFT_X], (size_t)p->n * tft_pass_stride(p, TFT_X) * sizeof(float));
}

/* Queues everything from there on. */
static void forward(struct tft_pass *p, uint32_t layer)
{
    struct on *o = on(p);
    const struct tft_model *m = p->m;
    if (layer == 0) {
        struct tft_cuda_embedding e = {there(o->d, m->embed.data), there(o->d, m->embed.scale), there(o->d, m->pos_embed.data), m->n_embd};
        tft_cuda_embed(o->stream, o->buf[TFT_X], tft_pass_stride(p, TFT_X), o->up.tokens, o->up.at, p->n, &e);
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
    uint32_t slots = coded ? o->slot_spans : tft_spans(o->from.at->slot + p->n), blocks = coded ? tft_spans(o->from.at->blocks * p->s->kv.block) : 0;
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
        o->failed = cudaMemcpyAsync(p->s->buf[TFT_LOGITS], o->buf[TFT_LOGITS], (size_t)some(p) * m->n_vocab * sizeof(float),
                                    cudaMemcpyDeviceToHost, o->stream);
    wait(o);
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
            struct tft_cuda_blocks blocks = blocks_of(o, l);
            tft_cuda_drop_blocks(o->stream, &blocks, n / s->kv.block, s->kv.at.blocks);
        } else {
            struct tft_cuda_slots slots = slots_of(o, l);
            tft_cuda_drop(o->stream, &slots, from, n, used);
        }
    wait(o);
    return o->failed == cudaSuccess ? TFT_OK : TFT_ERR_DEVICE;
}

TFT_API tft_device_fn tft_device;

const struct tft_device *tft_device(void)
{
    static const struct tft_device cuda = {
        .version = TFT_PLUGIN_VERSION,
        .inside = TFT_DEVICE_INSIDE,
        .open = open_device,
        .close = close_device,
        .session_open = session_open,
        .session_close = session_close,
        .run = run,
        .drop = drop,
        .norm = norm,
        .rmsnorm_heads = rmsnorm_heads,
        .linear = linear,
        .rope = rope,
        .kv_append = kv_append,
        .attend = attend,
        .hidden = hidden,
    };
    return &cuda;
}
