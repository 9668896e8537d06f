/*
 * The CUDA backend (run/backend.h). The device's memory holds the weights of a model and the cache
 * and activations of each session; the operations of a pass queue kernels on the session's stream.
 * A pass sends its tokens and the rotation angles of their positions to the device and gets logits
 * back. If the CPU computes the first layers, the pass sends rows of TFT_X instead of tokens.
 * Decoding queues the same kernels for each token, and only `uploaded` differs. So a CUDA graph
 * records the kernels of one token once.
 */
#include <string.h>

#include "inside.h"
#include "base/rope.h"
#include "run/session.h"

/* ----------------------------------------------------------------------------------- operations */

static struct device_session *session_of(const struct tft_pass *p) { return p->state; }

/* The number of active tokens, p->first .. p->n - 1. */
static uint32_t n_active(const struct tft_pass *p) { return p->n - p->first; }

/* The floats of buf, from token p->first on. Logits have no rows for earlier tokens. */
static float *float_rows(const struct tft_pass *p, enum tft_buf buf)
{
    float *rows = session_of(p)->buf[buf];
    return buf == TFT_LOGITS ? rows : rows + (size_t)p->first * tft_pass_stride(p, buf);
}

/* The rows that an operation writes as input of a linear layer: bytes if the range is static; else
   floats, for quantize(). */
static struct tft_cuda_rows output_rows(const struct tft_pass *p, enum tft_buf buf,
                                        const struct tft_input *in)
{
    const struct device_session *ds = session_of(p);
    size_t ld = tft_pass_byte_stride(p, buf);
    if (in->range == TFT_RANGE_STATIC)
        return (struct tft_cuda_rows){
            .bytes = ds->bytes[buf] + (size_t)p->first * ld,
            .ld = ld,
            .affine = ds->device->affine + in->index,
        };
    return (struct tft_cuda_rows){.floats = float_rows(p, buf), .ld = tft_pass_stride(p, buf)};
}

/* The bytes of an input with a dynamic range, different for each token. */
static struct tft_cuda_rows dynamic_rows(const struct tft_pass *p, enum tft_buf buf)
{
    const struct device_session *ds = session_of(p);
    size_t ld = tft_pass_byte_stride(p, buf);
    return (struct tft_cuda_rows){
        .bytes = ds->bytes[buf] + (size_t)p->first * ld,
        .ld = ld,
        .affine = ds->affine[buf] + p->first,
        .affine_step = 1,
    };
}

static void quantize(const struct tft_pass *p, enum tft_buf buf, const struct tft_input *in)
{
    struct device_session *ds = session_of(p);
    if (in->range == TFT_RANGE_STATIC)
        return;
    struct tft_cuda_rows to = dynamic_rows(p, buf);
    tft_cuda_quantize(ds->stream, to.bytes, to.ld, float_rows(p, buf), tft_pass_stride(p, buf),
                      n_active(p), tft_pass_width(p, buf), ds->affine[buf] + p->first, ds->ranges);
}

static void norm(struct tft_pass *p, const struct tft_norm *w, const struct tft_linear *l)
{
    struct device_session *ds = session_of(p);
    struct tft_cuda_rows y = output_rows(p, TFT_XN, l->in);
    if (!n_active(p))
        return;
    tft_cuda_norm(ds->stream, &y, float_rows(p, TFT_X), tft_pass_stride(p, TFT_X),
                  tft_cuda_weight(ds->device, w->w), tft_cuda_weight(ds->device, w->b), n_active(p),
                  p->m->n_embd, p->m->norm_eps);
    quantize(p, TFT_XN, l->in);
}

static struct tft_cuda_heads q_and_k(const struct tft_pass *p)
{
    return (struct tft_cuda_heads){
        .x = {float_rows(p, TFT_Q), float_rows(p, TFT_K)},
        .ld = {tft_pass_stride(p, TFT_Q), tft_pass_stride(p, TFT_K)},
        .heads = {p->m->n_head, p->m->n_head_kv},
        .dim = p->m->head_dim,
    };
}

static void rmsnorm_heads(struct tft_pass *p, const struct tft_layer *b)
{
    struct device_session *ds = session_of(p);
    struct tft_cuda_heads x = q_and_k(p);
    const float *const w[] = {tft_cuda_weight(ds->device, b->q_norm.w),
                              tft_cuda_weight(ds->device, b->k_norm.w)};
    tft_cuda_rmsnorm_heads(ds->stream, &x, w, n_active(p), p->m->norm_eps);
}

static struct tft_cuda_product product(const struct tft_pass *p, enum tft_buf to,
                                       const struct tft_linear *l)
{
    const struct device *d = session_of(p)->device;
    return (struct tft_cuda_product){
        .y = float_rows(p, to),
        .ldy = tft_pass_stride(p, to),
        .w =
            {
                .data = tft_cuda_weight(d, l->w.data),
                .scale = tft_cuda_weight(d, l->w.scale),
                .rowsum = tft_cuda_weight(d, l->w.rowsum),
                .bias = tft_cuda_weight(d, l->bias),
                .rows = l->w.rows,
                .cols = (uint32_t)tft_panel_cols(l->w.cols),
            },
    };
}

/* Multiplies the bytes of `from`, with the range of `in`, by n matrices. */
static void multiply(const struct tft_pass *p, const struct tft_cuda_product *products, uint32_t n,
                     bool add, enum tft_buf from, const struct tft_input *in)
{
    struct device_session *ds = session_of(p);
    struct tft_cuda_rows x =
        in->range == TFT_RANGE_STATIC ? output_rows(p, from, in) : dynamic_rows(p, from);
    if (n_active(p))
        tft_cuda_linear(ds->stream, products, n, add, &x, n_active(p), ds->device->multiprocessors);
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

static void qkv(struct tft_pass *p, const struct tft_layer *b)
{
    struct tft_cuda_product all[] = {product(p, TFT_Q, &b->q), product(p, TFT_K, &b->k),
                                     product(p, TFT_V, &b->v)};
    multiply(p, all, 3, false, TFT_XN, b->q.in);
}

static void rope(struct tft_pass *p, const struct tft_layer *b)
{
    (void)b; /* all layers rotate alike: this backend does not support windows */
    struct device_session *ds = session_of(p);
    const struct tft_model *m = p->m;
    struct tft_cuda_heads x = q_and_k(p);
    size_t offset = (size_t)p->first * m->n_rot;
    tft_cuda_rope(ds->stream, &x, ds->uploaded.cos + offset, ds->uploaded.sin + offset, n_active(p),
                  m->n_rot, m->rope_halves);
}

static uint32_t min_u32(uint32_t a, uint32_t b) { return a < b ? a : b; }

/* Carries out the quantizations of the plan's i-th chunk and stores the chunk's tokens. */
static void store_chunk(struct tft_pass *p, uint32_t layer, uint32_t i)
{
    struct device_session *ds = session_of(p);
    const struct tft_kv_policy *policy = &p->s->kv.policy;
    const struct tft_kv_chunk *c = &p->plan->chunk[i];
    struct tft_cuda_slots slots = tft_cuda_slots_of(ds, layer);
    size_t stride = tft_pass_stride(p, TFT_K);
    for (int side = 0; side < TFT_KV_SIDES; side++) {
        if (!c->side[side].quantizes)
            continue;
        struct tft_cuda_blocks blocks = tft_cuda_blocks_of(ds, layer);
        struct tft_cuda_clips clips = {
            {TFT_KV_CLIPS}, (uint32_t)tft_kv_clips(policy), tft_kv_clips_to_zero(policy)};
        tft_cuda_quantize_kv(ds->stream, &blocks, &slots, &ds->quantization[i][side], &clips,
                             ds->quantize_rows);
    }
    tft_cuda_put(ds->stream, &slots, ds->buf[TFT_K] + c->from * stride,
                 ds->buf[TFT_V] + c->from * stride, stride, c->to - c->from,
                 ds->uploaded.start + i);
}

/* attend() stores the other chunks of the plan. */
static void kv_append(struct tft_pass *p, uint32_t layer)
{
    store_chunk(p, layer, 0);
}

/* Attention of the plan's i-th chunk, from token p->first on, with keys and values apart: as many
   tokens at once as the room for scores allows. */
static void attend_split(const struct tft_pass *p, uint32_t i, const struct tft_input *in,
                         const struct tft_cuda_slots *slots, const struct tft_cuda_blocks *blocks)
{
    struct device_session *ds = session_of(p);
    const struct tft_kv_chunk *c = &p->plan->chunk[i];
    struct tft_cuda_split split = {
        .block_owner = {ds->block_owner[0], ds->block_owner[1]},
        .scores = ds->scores,
        .max_tokens = p->s->kv.max_tokens,
        .sum = ds->sum,
        .slot_spans = ds->partials.slot_spans,
        .block_spans = ds->partials.block_spans,
    };
    for (int side = 0; side < TFT_KV_SIDES; side++)
        split.slot_owner[side] =
            ds->uploaded.owner[side] + tft_cuda_owners_at(ds, side, i);
    struct tft_pass rest = *p;
    for (; rest.first < c->to; rest.first += ds->split_tokens) {
        struct tft_cuda_rows y = output_rows(&rest, TFT_A, in);
        tft_cuda_attend_split(ds->stream, &y, float_rows(&rest, TFT_Q), tft_pass_stride(p, TFT_Q),
                              slots, blocks, p->m->n_head,
                              min_u32(c->to - rest.first, ds->split_tokens), rest.first - c->from,
                              ds->uploaded.start + i, &split);
    }
}

/* A chunk attends before the next chunk is stored, because the next chunk may quantize tokens from
   slots that this chunk attends to. */
static void attend(struct tft_pass *p, uint32_t layer)
{
    const struct tft_input *in = p->m->layer[layer].o.in;
    struct device_session *ds = session_of(p);
    bool quantizes = tft_kv_quantizes(&p->s->kv.policy);
    struct tft_cuda_slots slots = tft_cuda_slots_of(ds, layer);
    struct tft_cuda_blocks blocks = {.dim = 0};
    if (quantizes)
        blocks = tft_cuda_blocks_of(ds, layer);
    for (uint32_t i = 0; i < p->plan->n_chunk; i++) {
        const struct tft_kv_chunk *c = &p->plan->chunk[i];
        uint32_t skip = p->first > c->from ? p->first - c->from : 0, from = c->from + skip;
        if (i)
            store_chunk(p, layer, i);
        if (from >= c->to)
            continue;
        struct tft_pass rest = *p; /* the same pass, with only tokens `from` on active */
        rest.first = from;
        if (tft_kv_split(&p->s->kv.policy)) {
            attend_split(&rest, i, in, &slots, &blocks);
            continue;
        }
        struct tft_cuda_rows y = output_rows(&rest, TFT_A, in);
        tft_cuda_attend(ds->stream, &y, float_rows(&rest, TFT_Q), tft_pass_stride(p, TFT_Q), &slots,
                        quantizes ? &blocks : NULL, p->m->n_head, c->to - from, skip,
                        ds->uploaded.start + i, &ds->partials);
    }
    if (n_active(p))
        quantize(p, TFT_A, in);
}

/* SiLU with a gate, GELU without one: other parts are refused. */
static void hidden(struct tft_pass *p, enum tft_activation a, const struct tft_linear *gate,
                   const struct tft_linear *up, const struct tft_linear *down)
{
    (void)a;
    struct device_session *ds = session_of(p);
    if (!n_active(p))
        return;
    struct tft_cuda_product both[] = {product(p, TFT_G, gate ? gate : up), product(p, TFT_U, up)};
    multiply(p, both, gate ? 2 : 1, false, TFT_XN, up->in);
    struct tft_cuda_rows y = output_rows(p, TFT_G, down->in);
    tft_cuda_activate(ds->stream, &y, float_rows(p, TFT_G), gate ? float_rows(p, TFT_U) : NULL,
                      tft_pass_stride(p, TFT_G), n_active(p), p->m->n_ff, down->in->hadamard);
    quantize(p, TFT_G, down->in);
}

/* --------------------------------------------------------------------------------------- a pass */

/* A quantization of the plan, with the device's pointers. */
static struct tft_cuda_quantization quantization_of(const struct device_session *ds,
                                            const struct tft_kv_quantization *e, bool keys)
{
    return (struct tft_cuda_quantization){
        .keys = keys,
        .order = ds->uploaded.order + (e->order - ds->session->kv.order),
        .n_blocks = e->n_blocks,
        .first_block = e->first,
        .stay = e->stay,
        .first_slot = e->base,
    };
}

/* Writes the plan to `staged`, which has room, and to ds->quantization. */
static void stage_plan(struct tft_pass *p)
{
    struct device_session *ds = session_of(p);
    for (uint32_t i = 0; i < p->plan->n_chunk; i++) {
        const struct tft_kv_chunk *c = &p->plan->chunk[i];
        struct tft_cuda_start *start = &ds->staged.start[i];
        start->position = p->pos + c->from;
        for (int side = 0; side < TFT_KV_SIDES; side++) {
            const struct tft_kv_place *place = &c->side[side];
            start->slot[side] = place->slot;
            start->blocks[side] = place->blocks;
            if (place->quantizes)
                ds->quantization[i][side] =
                    quantization_of(ds, &place->quantization, side == TFT_KV_K);
            if (place->owner)
                memcpy(ds->staged.owner[side] + tft_cuda_owners_at(ds, side, i),
                       place->owner,
                       (place->slot + c->to - c->from) * sizeof *place->owner);
        }
    }
    if (p->plan->n_order)
        memcpy(ds->staged.order, p->s->kv.order, p->plan->n_order * sizeof *p->s->kv.order);
}

/* Sends the owners of blocks that are new in this pass, or since the last pass. */
static void upload_block_owners(const struct tft_pass *p, int side)
{
    struct device_session *ds = session_of(p);
    const struct tft_kv *kv = &p->s->kv;
    uint32_t from = min_u32(ds->n_owned[side], kv->at[side].blocks),
             end = p->plan->after[side].blocks;
    size_t first = (size_t)from * kv->block, n = (size_t)(end - from) * kv->block;
    if (n)
        tft_cuda_upload(ds, ds->block_owner[side] + first, kv->block_owner[side] + first,
                        n * sizeof(uint32_t));
    ds->n_owned[side] = end;
}

/* Sends the inputs of the pass, which begins with layer `layer`, to the device. */
static void upload_pass(struct tft_pass *p, uint32_t layer)
{
    struct device_session *ds = session_of(p);
    const struct tft_model *m = p->m;
    tft_cuda_layout_upload(ds, p->n, p->plan->n_chunk, p->plan->n_order);
    stage_plan(p);
    if (layer == 0)
        memcpy(ds->staged.tokens, p->tokens, p->n * sizeof *p->tokens);
    for (uint32_t t = 0; t < p->n && m->n_rot; t++) {
        size_t row = (size_t)t * m->n_rot;
        tft_rope_angles(ds->staged.cos + row, ds->staged.sin + row, m->rope_freq, m->n_rot,
                        m->rope_halves, p->pos + t);
    }
    tft_cuda_upload(ds, ds->uploaded.start, ds->staged.start, ds->staged.bytes);
    for (int side = 0; tft_kv_split(&p->s->kv.policy) && side < TFT_KV_SIDES; side++)
        upload_block_owners(p, side);
    if (layer > 0)
        tft_cuda_upload(ds, ds->buf[TFT_X], p->work->buf[TFT_X],
                        (size_t)p->n * tft_pass_stride(p, TFT_X) * sizeof(float));
}

static void embed(struct tft_pass *p)
{
    struct device_session *ds = session_of(p);
    const struct tft_model *m = p->m;
    struct tft_cuda_embedding e = {
        .data = tft_cuda_weight(ds->device, m->embed.data),
        .scale = tft_cuda_weight(ds->device, m->embed.scale),
        .pos_embed = tft_cuda_weight(ds->device, m->pos_embed.data),
        .width = m->n_embd,
    };
    tft_cuda_embed(ds->stream, ds->buf[TFT_X], tft_pass_stride(p, TFT_X), ds->uploaded.tokens,
                   ds->uploaded.start, p->n, &e);
}

static void logits(struct tft_pass *p, const struct tft_linear *output)
{
    linear(p, TFT_LOGITS, output, TFT_XN, false);
}

/* Records graph i, a pass of one token, unless it is recorded. */
static void record_graph(struct tft_pass p, uint32_t first, uint32_t end, int i)
{
    struct device_session *ds = session_of(&p);
    cudaGraph_t graph = NULL;
    if (ds->graph[i])
        return;
    cudaError_t e = cudaStreamBeginCapture(ds->stream, cudaStreamCaptureModeThreadLocal);
    if (e == cudaSuccess) {
        tft_pass_layers(&p, first, end);
        e = cudaStreamEndCapture(ds->stream, &graph);
    }
    if (e == cudaSuccess)
        e = cudaGraphInstantiateWithFlags(&ds->graph[i], graph, 0);
    if (graph)
        cudaGraphDestroy(graph);
    if (ds->error == cudaSuccess)
        ds->error = e;
}

/* Waits for all queued work, and makes the previous GPU current again. After any error the device
   is unusable. */
static enum tft_status finish(struct device_session *ds, int before, const char *doing)
{
    tft_cuda_wait(ds);
    tft_cuda_leave(before, ds->device->index);
    if (tft_cuda_status(ds->error, doing, &ds->session->error) == TFT_OK)
        return TFT_OK;
    return ds->session->error.code = TFT_ERR_DEVICE;
}

/* A pass of one token uses a graph, unless a quantization precedes the token. A graph fixes the
   number of thread blocks of attention, one for each span: graph i serves tokens that attend to at
   most 2^i spans, of blocks if the cache has codes, else of slots. */
static enum tft_status run(struct tft_pass *p, uint32_t first, uint32_t end)
{
    struct device_session *ds = session_of(p);
    const struct tft_model *m = p->m;
    int i = 0;
    if (p->plan->n_chunk > p->s->kv.max_chunks) /* no room in ds->quantization and `staged` */
        return tft_fail(&p->s->error, TFT_ERR_DEVICE, "cuda: a pass of %u chunks, more than %u",
                        p->plan->n_chunk, p->s->kv.max_chunks);
    int before = tft_cuda_enter(ds->device->index, &ds->error);
    upload_pass(p, first);
    bool quantizes = tft_kv_quantizes(&p->s->kv.policy);
    bool one_token = p->n == 1 && p->n_logits && first < end;
    uint32_t slot_spans = quantizes ? ds->slot_spans : tft_spans(ds->staged.start->slot[0] + p->n);
    uint32_t block_spans = quantizes ? tft_spans(ds->staged.start->blocks[0] * p->s->kv.block) : 0;
    if (one_token && !tft_kv_chunk_quantizes(p->plan->chunk)) {
        while (1u << i < (quantizes ? block_spans : slot_spans))
            i++;
        ds->partials.slot_spans = quantizes ? slot_spans : min_u32(1u << i, ds->slot_spans);
        ds->partials.block_spans = min_u32(1u << i, ds->block_spans);
        record_graph(*p, first, end, i);
        if (ds->error == cudaSuccess)
            ds->error = cudaGraphLaunch(ds->graph[i], ds->stream);
    } else if (ds->error == cudaSuccess) {
        ds->partials.slot_spans = ds->slot_spans;
        ds->partials.block_spans = ds->block_spans;
        tft_pass_layers(p, first, end);
    }
    if (ds->error == cudaSuccess && n_active(p))
        ds->error = cudaMemcpyAsync(p->s->out.logits, ds->buf[TFT_LOGITS],
                                    (size_t)n_active(p) * m->n_vocab * sizeof(float),
                                    cudaMemcpyDeviceToHost, ds->stream);
    return finish(ds, before, "computing tokens");
}

static enum tft_status drop(void *state, struct tft_session *s, const struct tft_kv_drop *d)
{
    struct device_session *ds = state;
    const struct tft_model *m = s->m;
    uint32_t used[] = {s->kv.at[TFT_KV_K].blocks, s->kv.at[TFT_KV_V].blocks};
    int before = tft_cuda_enter(ds->device->index, &ds->error);
    ds->n_owned[TFT_KV_K] = ds->n_owned[TFT_KV_V] = 0; /* the remaining tokens move up */
    for (uint32_t l = m->n_host; l < m->n_layer; l++)
        if (d->blocks) {
            struct tft_cuda_blocks blocks = tft_cuda_blocks_of(ds, l);
            tft_cuda_drop_blocks(ds->stream, &blocks, d->blocks, used);
        } else {
            struct tft_cuda_slots slots = tft_cuda_slots_of(ds, l);
            tft_cuda_drop_slots(ds->stream, &slots, d->slot, d->n, d->used);
        }
    return finish(ds, before, "dropping tokens");
}

TFT_API tft_device_fn tft_device;

const struct tft_backend *tft_device(void)
{
    static const struct tft_backend cuda = {
        .build_id = tft_build_id,
        .name = "cuda",
        .parts = TFT_BIT(TFT_PART_LATE_QK_NORM) | TFT_BIT(TFT_PART_PARALLEL) |
                  TFT_BIT(TFT_PART_ROPE_LAYERS),
        .ops = {
            .embed = embed,
            .norm = norm,
            .qkv = qkv,
            .rmsnorm_heads = rmsnorm_heads,
            .rope = rope,
            .kv_append = kv_append,
            .attend = attend,
            .hidden = hidden,
            .linear_add = linear_add,
            .logits = logits,
        },
        .open = tft_cuda_open,
        .close = tft_cuda_close,
        .limits = tft_cuda_limits,
        .session_open = tft_cuda_session_open,
        .session_close = tft_cuda_session_close,
        .run = run,
        .drop = drop,
    };
    return &cuda;
}
