/* A session's cache and activations in a GPU's memory. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "inside.h"

static struct up layout_up(const struct on *o, struct tft_arena *a, uint32_t n, uint32_t chunks,
                           uint32_t evictions)
{
    struct up u;
    u.at = tft_arena_take(a, chunks, sizeof *u.at);
    u.tokens = tft_arena_take(a, n, sizeof *u.tokens);
    u.cos = tft_arena_take(a, n, o->s->m->n_rot * sizeof(float));
    u.sin = tft_arena_take(a, n, o->s->m->n_rot * sizeof(float));
    u.order = tft_arena_take(a, evictions, o->slots * sizeof *u.order);
    u.bytes = a->used;
    return u;
}

void tft_cuda_layout_up(struct on *o, uint32_t n, uint32_t chunks, uint32_t evictions)
{
    struct tft_arena from = {.base = o->pinned}, to = {.base = o->memory};
    o->from = layout_up(o, &from, n, chunks, evictions);
    o->up = layout_up(o, &to, n, chunks, evictions);
}

/* Bytes of the records of the device's layers. */
static size_t record_bytes(const struct tft_session *s)
{
    const struct tft_kv *kv = &s->kv;
    const struct tft_coded_layer *first = &kv->layer[s->m->n_host],
                                 *last = &kv->layer[s->m->n_layer - 1];
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
    o->rows = tft_arena_take(a, (size_t)kv->n_head_kv * o->slots,
                             2 * kv->head_dim * sizeof *o->rows);
}

static void layout_device(struct on *o, struct tft_arena *a)
{
    const struct tft_session *s = o->s;
    const struct tft_model *m = s->m;
    struct tft_pass shape = {.m = m};
    o->up = layout_up(o, a, s->n_batch, o->chunks, o->evictions); /* first: tft_cuda_layout_up */
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

    size_t heads = (size_t)(m->n_layer - m->n_host) * m->n_head_kv,
           row = m->head_dim * tft_num_bytes(s->kv.num), slots = 0;
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
    o->parts.done = tft_arena_take(a, m->n_head, sizeof *o->parts.done);
    if (s->kv.policy.coded)
        layout_blocks(o, a, heads);
}

static void layout_host(struct on *o, struct tft_arena *a)
{
    o->from = layout_up(o, a, o->s->n_batch, o->chunks, o->evictions);
    o->s->buf[TFT_LOGITS] = tft_arena_take(a, o->s->n_logits, o->s->m->n_vocab * sizeof(float));
}

/* Room for what a pass may have: some tokens are given up after so many have come, and at first
   perhaps sooner, behind a prompt that was kept whole. */
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
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory for a session of %u tokens",
                        o->s->capacity);
    enum tft_status status = tft_cuda_take(&o->memory, device.used, "a session", err);
    if (status == TFT_OK)
        status = tft_cuda_status(cudaMallocHost(&o->pinned, host.used), "a session", err);
    /* counters; and what rows of bytes have past their end, which meets weights of zero, should be
       numbers of ours all the same */
    if (status == TFT_OK)
        status = tft_cuda_status(cudaMemsetAsync(o->memory, 0, device.used, o->stream), "a session",
                                 err);
    if (status != TFT_OK)
        return status;
    device = (struct tft_arena){.base = o->memory};
    host = (struct tft_arena){.base = o->pinned};
    layout_device(o, &device);
    layout_host(o, &host);
    return TFT_OK;
}

struct tft_cuda_slots tft_cuda_slots_of(const struct on *o, uint32_t layer)
{
    const struct tft_kv *kv = &o->s->kv;
    size_t at = (size_t)(layer - o->s->m->n_host) * kv->n_head_kv * kv->capacity * kv->head_dim *
                tft_num_bytes(kv->num);
    return (struct tft_cuda_slots){(char *)o->k + at, (char *)o->v + at, kv->num,
                                   kv->capacity,      kv->n_head_kv,     kv->head_dim};
}

static struct tft_cuda_side side_of(const struct on *o, uint32_t layer, int side)
{
    const struct tft_kv *kv = &o->s->kv;
    const struct tft_coded_layer *y = &kv->layer[layer];
    size_t base = kv->layer[o->s->m->n_host].k_at,
           head = (size_t)(layer - o->s->m->n_host) * kv->n_head_kv;
    return (struct tft_cuda_side){
        .records = o->records + (side ? y->v_at : y->k_at) - base,
        .bytes = side ? y->v_bytes : y->k_bytes,
        .codes = side ? y->v_codes : y->k_codes,
        .bits = side ? y->v_bits : y->k_bits,
        .by_token = (side ? &kv->policy.v : &kv->policy.k)->axis == TFT_KV_TOKEN,
        .clip = y->clip[side] ? o->clip[side] + head * tft_coded_groups(kv) : NULL,
    };
}

struct tft_cuda_blocks tft_cuda_blocks_of(const struct on *o, uint32_t layer)
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

void tft_cuda_send(struct on *o, void *to, const void *from, size_t bytes)
{
    if (o->failed == cudaSuccess)
        o->failed = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, o->stream);
}

void tft_cuda_wait(struct on *o)
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

/* The model's keys and values take their places before all others, as if they were tokens of a
   pass. */
static enum tft_status put_prefix(struct on *o, struct tft_error *err)
{
    const struct tft_model *m = o->s->m;
    struct tft_pass shape = {.m = m};
    size_t stride = tft_pass_stride(&shape, TFT_K), width = (size_t)m->n_head_kv * m->head_dim,
           most = o->s->n_batch;
    float *rows = m->n_prefix ? malloc(2 * most * stride * sizeof *rows) : NULL;
    if (m->n_prefix && !rows)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    for (uint32_t l = m->n_host; l < m->n_layer; l++)
        for (uint32_t at = 0, n; at < m->n_prefix; at += n) {
            struct tft_cuda_slots slots = tft_cuda_slots_of(o, l);
            size_t from = ((size_t)l * m->n_prefix + at) * width;
            n = m->n_prefix - at < most ? m->n_prefix - at : (uint32_t)most;
            widen(o, rows, m->prefix_k + from, n, stride);
            widen(o, rows + most * stride, m->prefix_v + from, n, stride);
            *o->from.at = (struct tft_cuda_at){.slot = at};
            tft_cuda_send(o, o->up.at, o->from.at, sizeof *o->up.at);
            tft_cuda_send(o, o->buf[TFT_K], rows, n * stride * sizeof *rows);
            tft_cuda_send(o, o->buf[TFT_V], rows + most * stride, n * stride * sizeof *rows);
            tft_cuda_put(o->stream, &slots, o->buf[TFT_K], o->buf[TFT_V], stride, n, o->up.at);
            tft_cuda_wait(o);
        }
    free(rows);
    return tft_cuda_status(o->failed, "a session", err);
}

/* What attention knows of the keys' channels, and the parts that ranges are clipped to. */
static enum tft_status send_layers(struct on *o, struct tft_error *err)
{
    const struct tft_kv *kv = &o->s->kv;
    uint32_t heads = kv->n_head_kv, groups = tft_coded_groups(kv);
    for (uint32_t l = o->s->m->n_host, i = 0; l < o->s->m->n_layer; l++, i += heads) {
        const struct tft_coded_layer *y = &kv->layer[l];
        tft_cuda_send(o, o->quads + i, y->quads, heads * sizeof *y->quads);
        if (y->channel)
            tft_cuda_send(o, o->channel + (size_t)i * kv->head_dim, y->channel,
                          (size_t)heads * kv->head_dim);
        for (int side = 0; side < 2; side++)
            if (y->clip[side])
                tft_cuda_send(o, o->clip[side] + (size_t)i * groups, y->clip[side],
                              (size_t)heads * groups * sizeof(float));
    }
    tft_cuda_wait(o);
    return tft_cuda_status(o->failed, "a session", err);
}

void tft_cuda_session_close(void *on)
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

/* Of a pass: a grid is not higher than that, and attention's has a tile of at least 4 rows, queries
   of a KV head, in each line. */
static uint32_t most_tokens(const struct tft_model *m)
{
    uint32_t group = m->n_head / m->n_head_kv;
    return group > 4 ? 65535 / group * 4 : 65535;
}

enum tft_status tft_cuda_session_open(void **out, void *device, struct tft_session *s,
                                      struct tft_error *err)
{
    struct on *o = calloc(1, sizeof *o);
    if (!o)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: no memory");
    if (s->n_batch > most_tokens(s->m)) {
        free(o);
        return tft_fail(err, TFT_ERR_UNSUPPORTED, "cuda: passes of %u tokens, where %u is the most",
                        s->n_batch, most_tokens(s->m));
    }
    o->d = device;
    o->s = s;
    enum tft_status status = tft_cuda_status(cudaSetDevice(o->d->which), "using the GPU", err);
    if (status == TFT_OK)
        status = make_plans(o, err);
    if (status == TFT_OK)
        status = tft_cuda_status(cudaStreamCreateWithFlags(&o->stream, cudaStreamNonBlocking),
                                 "a session", err);
    if (status == TFT_OK)
        status = place(o, err);
    if (status == TFT_OK)
        status = put_prefix(o, err);
    if (status == TFT_OK && s->kv.policy.coded)
        status = send_layers(o, err);
    if (status != TFT_OK) {
        tft_cuda_session_close(o);
        return status;
    }
    *out = o;
    return TFT_OK;
}
