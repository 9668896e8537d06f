/* A session's cache and activations in the memory of a GPU. */
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "inside.h"
#include "run/session.h"

static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* -------------------------------------------------------------------------------------- layouts */

/* The first chunk may find a long prompt in slots; later chunks follow a quantization. */
size_t tft_cuda_owners_at(const struct device_session *ds, uint32_t side, uint32_t i)
{
    const struct tft_kv *kv = &ds->session->kv;
    if (!i || !tft_kv_split(&kv->policy))
        return 0;
    return kv->capacity[side] + (i - 1) * (size_t)(kv->n_prefix + kv->stay[side]);
}

static struct upload layout_upload(const struct device_session *ds, struct tft_arena *a, uint32_t n,
                                   uint32_t chunks, uint32_t n_order)
{
    struct upload u;
    uint32_t n_rot = ds->session->m->n_rot;
    u.start = tft_arena_take(a, chunks, sizeof *u.start);
    u.tokens = tft_arena_take(a, n, sizeof *u.tokens);
    u.cos = tft_arena_take(a, n, n_rot * sizeof(float));
    u.sin = tft_arena_take(a, n, n_rot * sizeof(float));
    u.order = tft_arena_take(a, n_order, sizeof *u.order);
    for (uint32_t side = 0; side < 2; side++)
        u.owner[side] =
            tft_arena_take(a, tft_cuda_owners_at(ds, side, chunks), sizeof *u.owner[side]);
    u.bytes = a->used;
    return u;
}

void tft_cuda_layout_upload(struct device_session *ds, uint32_t n, uint32_t chunks,
                            uint32_t n_order)
{
    struct tft_arena host = {.base = ds->pinned}, device = {.base = ds->memory};
    ds->staged = layout_upload(ds, &host, n, chunks, n_order);
    ds->uploaded = layout_upload(ds, &device, n, chunks, n_order);
}

/* Bytes of the records of the device's layers. */
static size_t all_record_bytes(const struct tft_session *s)
{
    const struct tft_kv *kv = &s->kv;
    const struct tft_kv_layer *first = &kv->layer[s->m->n_host],
                                 *last = &kv->layer[s->m->n_layer - 1];
    return last->v_at + (size_t)kv->n_head_kv * kv->n_blocks * last->v_bytes - first->k_at;
}

/* heads: KV heads of all layers */
static void layout_blocks(struct device_session *ds, struct tft_arena *a, size_t heads)
{
    const struct tft_kv *kv = &ds->session->kv;
    ds->records = tft_arena_take(a, all_record_bytes(ds->session), 1);
    ds->quads = tft_arena_take(a, heads, sizeof *ds->quads);
    ds->channel_order = tft_arena_take(a, heads, kv->head_dim * sizeof *ds->channel_order);
    for (int side = 0; side < 2; side++)
        ds->clip[side] = tft_arena_take(a, heads, tft_kv_groups(kv, kv->head_dim) * sizeof(float));
    uint32_t stay = max_u32(kv->stay[TFT_KV_K], kv->stay[TFT_KV_V]);
    ds->quantize_rows =
        tft_arena_take(a, (size_t)kv->n_head_kv * stay, tft_kv_row_bytes(kv, kv->head_dim));
}

/* Bytes of a head's key, or value, in a slot. */
static size_t slot_bytes(const struct tft_kv *kv)
{
    return tft_kv_number_bytes(&kv->policy, false, kv->head_dim);
}

/* Rows of scores: a row has the scores of a query for all tokens. A pass of any length uses this
   room piece by piece. */
enum { SPLIT_ROWS = 512 };

static void layout_split(struct device_session *ds, struct tft_arena *a)
{
    const struct tft_kv *kv = &ds->session->kv;
    uint32_t heads = ds->session->m->n_head;
    ds->split_tokens = max_u32(SPLIT_ROWS / heads, 1);
    size_t rows = (size_t)ds->split_tokens * heads;
    for (int side = 0; side < 2; side++)
        ds->block_owner[side] =
            tft_arena_take(a, kv->n_blocks, kv->block * sizeof *ds->block_owner[side]);
    ds->scores = tft_arena_take(a, rows, kv->max_tokens * sizeof *ds->scores);
    ds->sum = tft_arena_take(a, rows, sizeof *ds->sum);
}

static void layout_activations(struct device_session *ds, struct tft_arena *a)
{
    const struct tft_session *s = ds->session;
    const struct tft_model *m = s->m;
    struct tft_pass shape = {.m = m};
    for (enum tft_buf b = 0; b < TFT_N_BUF; b++) {
        if (b == TFT_Y || b == TFT_Z) /* of operations that this backend does not support */
            continue;
        bool feeds_linear = b == TFT_XN || b == TFT_A || b == TFT_G;
        size_t rows = b == TFT_LOGITS ? s->out.n_logits : s->n_batch;
        /* G holds the gate's floats before the activation turns them into bytes */
        if (m->float_inputs || b == TFT_G || !feeds_linear)
            ds->buf[b] = tft_arena_take(a, rows, tft_pass_stride(&shape, b) * sizeof(float));
        if (feeds_linear) {
            ds->bytes[b] = tft_arena_take(a, rows, tft_pass_byte_stride(&shape, b));
            ds->affine[b] = m->float_inputs ? tft_arena_take(a, rows, sizeof *ds->affine[b]) : NULL;
        }
    }
    ds->ranges = tft_arena_take(a, s->n_batch, 2 * sizeof *ds->ranges);
}

/* heads: KV heads of all layers */
static void layout_slots(struct device_session *ds, struct tft_arena *a, size_t heads)
{
    const struct tft_kv *kv = &ds->session->kv;
    size_t slots[2] = {0};
    for (int side = 0; side < 2; side++)
        if (!tft_mul(heads, kv->capacity[side], &slots[side]))
            a->failed = true;
    ds->k = tft_arena_take(a, slots[TFT_KV_K], slot_bytes(kv));
    ds->v = tft_arena_take(a, slots[TFT_KV_V], slot_bytes(kv));
    for (int side = 0; side < 2; side++)
        ds->scale[side] =
            kv->policy.i8 ? tft_arena_take(a, slots[side], sizeof *ds->scale[side]) : NULL;
    ds->key_offset =
        kv->key_offset ? tft_arena_take(a, heads, kv->head_dim * sizeof *ds->key_offset) : NULL;
}

static void layout_cache(struct device_session *ds, struct tft_arena *a)
{
    const struct tft_kv *kv = &ds->session->kv;
    const struct tft_model *m = ds->session->m;
    size_t heads = (size_t)(m->n_layer - m->n_host) * m->n_head_kv;
    layout_slots(ds, a, heads);
    ds->slot_spans = tft_spans(kv->capacity[TFT_KV_K]);
    ds->block_spans = tft_spans(kv->n_blocks * kv->block);
    size_t partials = (size_t)m->n_head * (ds->slot_spans + ds->block_spans);
    ds->partials.o = tft_arena_take(a, partials, m->head_dim * sizeof(float));
    ds->partials.max = tft_arena_take(a, partials, sizeof(float));
    ds->partials.sum = tft_arena_take(a, partials, sizeof(float));
    ds->partials.done = tft_arena_take(a, m->n_head, sizeof *ds->partials.done);
    if (tft_kv_quantizes(&kv->policy))
        layout_blocks(ds, a, heads);
    if (tft_kv_split(&kv->policy))
        layout_split(ds, a);
}

static void layout_device(struct device_session *ds, struct tft_arena *a)
{
    const struct tft_kv *kv = &ds->session->kv;
    /* first, since tft_cuda_layout_upload repeats this layout from the start of the memory */
    ds->uploaded = layout_upload(ds, a, ds->session->n_batch, kv->max_chunks, kv->n_order);
    layout_activations(ds, a);
    layout_cache(ds, a);
}

static void layout_host(struct device_session *ds, struct tft_arena *a)
{
    struct tft_session *s = ds->session;
    ds->staged = layout_upload(ds, a, s->n_batch, s->kv.max_chunks, s->kv.n_order);
    s->out.logits = tft_arena_take(a, s->out.n_logits, s->m->n_vocab * sizeof(float));
}

/* Room for the plan of any pass. */
static enum tft_status alloc_plan(struct device_session *ds, struct tft_error *err)
{
    ds->quantization = calloc(ds->session->kv.max_chunks, sizeof *ds->quantization);
    return ds->quantization ? TFT_OK : tft_fail(err, TFT_ERR_NOMEM, "cuda: out of memory");
}

static enum tft_status alloc_memory(struct device_session *ds, struct tft_error *err)
{
    struct tft_arena device = {0}, host = {0};
    layout_device(ds, &device);
    layout_host(ds, &host);
    if (device.failed || host.failed)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: out of memory for a session of %u tokens",
                        ds->session->capacity);
    enum tft_status status = tft_cuda_alloc(&ds->memory, device.used, "a session", err);
    if (status == TFT_OK)
        status = tft_cuda_status(cudaMallocHost(&ds->pinned, host.used),
                                 "allocating page-locked memory for a session", err);
    /* `done` counters start at 0. Weights of 0 multiply the padding of rows of bytes, but the
       padding should be initialized all the same. */
    if (status == TFT_OK)
        status = tft_cuda_status(cudaMemsetAsync(ds->memory, 0, device.used, ds->stream),
                                 "opening a session", err);
    if (status != TFT_OK)
        return status;
    device = (struct tft_arena){.base = ds->memory};
    host = (struct tft_arena){.base = ds->pinned};
    layout_device(ds, &device);
    layout_host(ds, &host);
    return TFT_OK;
}

/* ---------------------------------------------------------------------------------------- cache */

/* KV heads of the device's layers before `layer`. */
static size_t heads_before(const struct device_session *ds, uint32_t layer)
{
    return (size_t)(layer - ds->session->m->n_host) * ds->session->kv.n_head_kv;
}

struct tft_cuda_slots tft_cuda_slots_of(const struct device_session *ds, uint32_t layer)
{
    const struct tft_kv *kv = &ds->session->kv;
    size_t heads = heads_before(ds, layer), column = heads * slot_bytes(kv);
    struct tft_cuda_slots slots = {
        .k = (char *)ds->k + column * kv->capacity[TFT_KV_K],
        .v = (char *)ds->v + column * kv->capacity[TFT_KV_V],
        .num = kv->num,
        .capacity = {kv->capacity[TFT_KV_K], kv->capacity[TFT_KV_V]},
        .heads = kv->n_head_kv,
        .dim = kv->head_dim,
        .key_offset = ds->key_offset ? ds->key_offset + heads * kv->head_dim : NULL,
    };
    for (int side = 0; side < 2 && kv->policy.i8; side++)
        slots.scale[side] = ds->scale[side] + heads * kv->capacity[side];
    return slots;
}

static struct tft_cuda_side side_of(const struct device_session *ds, uint32_t layer, int side)
{
    const struct tft_kv *kv = &ds->session->kv;
    const struct tft_kv_layer *y = &kv->layer[layer];
    size_t base = kv->layer[ds->session->m->n_host].k_at;
    return (struct tft_cuda_side){
        .records = ds->records + (side ? y->v_at : y->k_at) - base,
        .record_bytes = side ? y->v_bytes : y->k_bytes,
        .code_bytes = side ? y->v_codes : y->k_codes,
        .bits = side ? y->v_bits : y->k_bits,
        .per_token = (side ? &kv->policy.v : &kv->policy.k)->axis == TFT_KV_TOKEN,
        .clip = y->clip[side]
                    ? ds->clip[side] + heads_before(ds, layer) * tft_kv_groups(kv, kv->head_dim)
                    : NULL,
    };
}

struct tft_cuda_blocks tft_cuda_blocks_of(const struct device_session *ds, uint32_t layer)
{
    const struct tft_kv *kv = &ds->session->kv;
    size_t heads = heads_before(ds, layer);
    return (struct tft_cuda_blocks){
        .k = side_of(ds, layer, 0),
        .v = side_of(ds, layer, 1),
        .quads = (const uint16_t(*)[TFT_BITS_COUNT])(ds->quads + heads),
        .channel_order = kv->layer[layer].channel ? ds->channel_order + heads * kv->head_dim : NULL,
        .n_blocks = kv->n_blocks,
        .block_tokens = kv->block,
        .group_channels = kv->policy.group,
        .heads = kv->n_head_kv,
        .dim = kv->head_dim,
        .f8 = kv->policy.f8,
    };
}

void tft_cuda_upload(struct device_session *ds, void *to, const void *from, size_t bytes)
{
    if (ds->error == cudaSuccess)
        ds->error = cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, ds->stream);
}

void tft_cuda_wait(struct device_session *ds)
{
    cudaError_t queued = cudaGetLastError(), done = cudaStreamSynchronize(ds->stream);
    if (ds->error == cudaSuccess)
        ds->error = queued != cudaSuccess ? queued : done;
}

/* --------------------------------------------------------------------------- open and close */

/* k, v: [n, stride] = rows first .. first + n - 1 of the prefix in layer l, as floats */
static void widen_prefix(const struct device_session *ds, float *k, float *v, uint32_t l,
                         uint32_t first, uint32_t n, size_t stride)
{
    const struct tft_model *m = ds->session->m;
    size_t width = (size_t)m->n_head_kv * m->head_dim;
    for (uint32_t i = 0; i < n; i++) {
        const uint16_t *keys, *values;
        tft_session_prefix_row(ds->session, l, first + i, &keys, &values);
        m->kern.widen[TFT_NUM_F16](k + i * stride, keys, width);
        m->kern.widen[TFT_NUM_F16](v + i * stride, values, width);
    }
}

/* Stores the session's prefix in the first slots, n_batch rows at a time, like the keys and values
   of a pass. */
static enum tft_status put_prefix(struct device_session *ds, struct tft_error *err)
{
    const struct tft_model *m = ds->session->m;
    struct tft_pass shape = {.m = m};
    size_t stride = tft_pass_stride(&shape, TFT_K);
    uint32_t batch = ds->session->n_batch, n_prefix = ds->session->kv.n_prefix;
    float *k = n_prefix ? malloc(2 * stride * batch * sizeof *k) : NULL;
    if (n_prefix && !k)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: out of memory");
    float *v = k ? k + batch * stride : NULL;
    for (uint32_t l = m->n_host; l < m->n_layer; l++)
        for (uint32_t slot = 0, n; slot < n_prefix; slot += n) {
            struct tft_cuda_slots slots = tft_cuda_slots_of(ds, l);
            n = n_prefix - slot < batch ? n_prefix - slot : batch;
            widen_prefix(ds, k, v, l, slot, n, stride);
            *ds->staged.start = (struct tft_cuda_start){.slot = {slot, slot}};
            tft_cuda_upload(ds, ds->uploaded.start, ds->staged.start, sizeof *ds->staged.start);
            tft_cuda_upload(ds, ds->buf[TFT_K], k, n * stride * sizeof *k);
            tft_cuda_upload(ds, ds->buf[TFT_V], v, n * stride * sizeof *v);
            tft_cuda_put(ds->stream, &slots, ds->buf[TFT_K], ds->buf[TFT_V], stride, n,
                         ds->uploaded.start);
            tft_cuda_wait(ds);
        }
    free(k);
    return tft_cuda_status(ds->error, "copying the session's prefix", err);
}

/* Copies the tables of blocks: widths and order of the keys' channels, and calibrated clip
   ratios. */
static enum tft_status upload_layers(struct device_session *ds, struct tft_error *err)
{
    const struct tft_kv *kv = &ds->session->kv;
    uint32_t heads = kv->n_head_kv, groups = tft_kv_groups(kv, kv->head_dim);
    for (uint32_t l = ds->session->m->n_host; l < ds->session->m->n_layer; l++) {
        const struct tft_kv_layer *y = &kv->layer[l];
        size_t first = heads_before(ds, l);
        tft_cuda_upload(ds, ds->quads + first, y->quads, heads * sizeof *y->quads);
        if (y->channel)
            tft_cuda_upload(ds, ds->channel_order + first * kv->head_dim, y->channel,
                            (size_t)heads * kv->head_dim * sizeof *y->channel);
        for (int side = 0; side < 2; side++)
            if (y->clip[side])
                tft_cuda_upload(ds, ds->clip[side] + first * groups, y->clip[side],
                                (size_t)heads * groups * sizeof(float));
    }
    tft_cuda_wait(ds);
    return tft_cuda_status(ds->error, "opening a session", err);
}

/* The offsets of the keys of the device's layers. */
static enum tft_status upload_offsets(struct device_session *ds, struct tft_error *err)
{
    const struct tft_kv *kv = &ds->session->kv;
    const struct tft_model *m = ds->session->m;
    if (!ds->key_offset)
        return TFT_OK;
    tft_cuda_upload(ds, ds->key_offset, tft_kv_key_offset(kv, m->n_host, 0),
                    heads_before(ds, m->n_layer) * kv->head_dim * sizeof *ds->key_offset);
    tft_cuda_wait(ds);
    return tft_cuda_status(ds->error, "opening a session", err);
}

void tft_cuda_session_close(void *session)
{
    struct device_session *ds = session;
    cudaError_t ignored = cudaSuccess;
    int before = tft_cuda_enter(ds->device->index, &ignored);
    for (int i = 0; i < GRAPHS; i++)
        if (ds->graph[i])
            cudaGraphExecDestroy(ds->graph[i]);
    if (ds->stream)
        cudaStreamDestroy(ds->stream);
    cudaFree(ds->memory);
    cudaFreeHost(ds->pinned);
    tft_cuda_leave(before, ds->device->index);
    free(ds->quantization);
    free(ds);
}

/* CUDA limits a grid to 65535 in y. Kernels on rows have one token there. Attention has a tile of
   at least 4 rows, and a row is a query of one token and KV head. */
static uint32_t max_pass_tokens(const struct tft_model *m)
{
    uint32_t group = m->n_head / m->n_head_kv;
    return group > 4 ? 65535 / group * 4 : 65535;
}

enum tft_status tft_cuda_session_open(void **out, void *device, struct tft_session *s,
                                      struct tft_error *err)
{
    if (s->n_batch > max_pass_tokens(s->m))
        return tft_fail(err, TFT_ERR_UNSUPPORTED,
                        "cuda: passes of up to %u tokens are not supported: use at most %u",
                        s->n_batch, max_pass_tokens(s->m));
    struct device_session *ds = calloc(1, sizeof *ds);
    if (!ds)
        return tft_fail(err, TFT_ERR_NOMEM, "cuda: out of memory");
    ds->device = device;
    ds->session = s;
    int before = tft_cuda_enter(ds->device->index, &ds->error);
    enum tft_status status = tft_cuda_status(ds->error, "selecting the GPU", err);
    if (status == TFT_OK)
        status = alloc_plan(ds, err);
    if (status == TFT_OK)
        status = tft_cuda_status(cudaStreamCreateWithFlags(&ds->stream, cudaStreamNonBlocking),
                                 "opening a session", err);
    if (status == TFT_OK)
        status = alloc_memory(ds, err);
    if (status == TFT_OK)
        status = upload_offsets(ds, err);
    if (status == TFT_OK)
        status = put_prefix(ds, err);
    if (status == TFT_OK && tft_kv_quantizes(&s->kv.policy))
        status = upload_layers(ds, err);
    tft_cuda_leave(before, ds->device->index);
    if (status != TFT_OK) {
        tft_cuda_session_close(ds);
        return status;
    }
    *out = ds;
    return TFT_OK;
}
