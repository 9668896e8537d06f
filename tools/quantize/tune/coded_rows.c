#include "tools/quantize/tune/coded_rows.h"

#include <stdlib.h>
#include <string.h>

#include "kv/kv.h"
#include "port/port.h"
#include "run/session.h"
#include "simd/codes.h"
#include "simd/half.h"

struct coded_rows {
    const struct tft_model *m;
    uint32_t n;
    int n_threads;
    bool any; /* some tokens are quantized before the last query that sees them */
    struct tft_kv kv;
    void *memory; /* of kv and of all arrays below */

    real *row[TFT_KV_SIDES];       /* [n, G, E] */
    uint32_t *since[TFT_KV_SIDES]; /* [n] */
    struct coded_view view;        /* of these two */
    uint32_t *token[TFT_KV_SIDES]; /* [n] of each place in the blocks, one block after another */
    uint32_t *slot, *moved;        /* [slots] workspace: the tokens of slots */
    float *scales;                 /* [n_threads, 2 scales] */
    float *one;                    /* [n_threads, E] a key or a value */
};

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Room of a thread for the scales and the mids of a block. */
static size_t scales_of(const struct coded_rows *r)
{
    uint32_t dim = r->kv.head_dim;
    return 2 * max_size(tft_kv_scales(&r->kv, &r->kv.policy.k, dim),
                        tft_kv_scales(&r->kv, &r->kv.policy.v, dim));
}

static size_t slots_of(const struct coded_rows *r)
{
    return max_size(r->kv.capacity[TFT_KV_K], r->kv.capacity[TFT_KV_V]);
}

/* ---------------------------------------------------------------------------- a block's numbers */

/* A block of a head, and where its numbers go. */
struct block {
    struct tft_coded codes;
    bool keys;
    const uint16_t *channel; /* [E] the order of channels; NULL: unchanged */
    const uint32_t *token;   /* [tokens] */
    real *to;                /* row `t` begins at t stride */
    size_t stride;
};

static void put(const struct block *b, size_t place, size_t d, float x)
{
    b->to[b->token[place] * b->stride + (b->channel ? b->channel[d] : d)] = (real)x;
}

/* Decodes a block: kernels.h, struct tft_coded, describes the layout of codes and their numbers:
   scale (c - (L - 1) / 2) + mid. */
static void read_codes(const struct block *b)
{
    const struct tft_coded *c = &b->codes;
    uint8_t code[TFT_QUAD_CODES * TFT_CODED_DIM / TFT_QUAD];
    const uint8_t *from = c->codes;
    for (size_t first = 0; first < (b->keys ? c->tokens : c->dim); first += TFT_PANEL) {
        size_t column = 0;
        for (enum tft_bits bits = 0; bits < TFT_BITS_COUNT; bits++) {
            size_t quads = c->quads[bits];
            float middle = (float)(tft_bits_levels(bits) - 1) / 2;
            tft_codes_unpack(code, from, bits, quads);
            from += tft_codes_bytes(bits, quads);
            for (size_t i = 0; i < quads * TFT_QUAD_CODES; i++) {
                size_t row = first + i % TFT_QUAD_CODES / TFT_QUAD,
                       at = column + i / TFT_QUAD_CODES * TFT_QUAD + i % TFT_QUAD,
                       place = b->keys ? row : at, d = b->keys ? at : row;
                if (d >= c->dim)
                    continue;
                size_t g = c->group ? d / c->group * c->tokens + place : d;
                put(b, place, d, ((float)code[i] - middle) * c->scale[g] + c->mid[g]);
            }
            column += quads * TFT_QUAD;
        }
    }
}

/* x: keys [tokens / 16, E, 16], values [tokens, E] */
static void read_f16(const struct block *b, const uint16_t *x, size_t tokens, size_t dim)
{
    for (size_t t = 0; t < tokens; t++)
        for (size_t d = 0; d < dim; d++)
            put(b, t, d,
                tft_f16_to_f32(b->keys ? x[(t / TFT_KEY_PANEL * dim + d) * TFT_KEY_PANEL +
                                           t % TFT_KEY_PANEL]
                                       : x[t * dim + d]));
}

/* ---------------------------------------------------------------------------------------- heads */

struct coded_task {
    const struct coded_rows *r;
    uint32_t layer;
    const real *x[TFT_KV_SIDES];
};

static void store(const struct coded_task *task, enum tft_kv_which which, uint32_t head,
                  uint32_t slot, uint32_t token, float *one)
{
    const struct tft_kv *kv = &task->r->kv;
    struct tft_kv_heads own = tft_kv_heads(kv, task->layer);
    size_t dim = own.dim;
    const real *x = task->x[which] + (token * own.n + head) * dim;
    for (size_t d = 0; d < dim; d++)
        one[d] = (float)x[d];
    if (which == TFT_KV_K)
        tft_kv_store_key(kv, &task->r->m->kern, task->layer, head, slot, one);
    else
        tft_kv_store_value(kv, &task->r->m->kern, task->layer, head, slot, one);
}

/* Feeds the sequence to a head of the cache. */
static void feed(const struct coded_task *task, enum tft_kv_which which, uint32_t head, int tid)
{
    const struct coded_rows *r = task->r;
    const struct tft_kv_plan *plan = &r->kv.plan;
    for (const struct tft_kv_chunk *c = plan->chunk; c < plan->chunk + plan->n_chunk; c++) {
        const struct tft_kv_place *p = &c->side[which];
        if (p->quantizes)
            tft_kv_quantize(&r->kv, &r->m->kern, task->layer, head, which, &p->quantization, tid);
        for (uint32_t i = c->from; i < c->to; i++)
            store(task, which, head, p->slot + i - c->from, i,
                  r->one + (size_t)tid * r->kv.head_dim);
    }
}

/* Decodes the blocks of a head into r->row. */
static void read_back(const struct coded_task *task, enum tft_kv_which which, uint32_t head,
                      int tid)
{
    const struct coded_rows *r = task->r;
    const struct tft_kv *kv = &r->kv;
    const struct tft_kv_layer *y = &kv->layer[task->layer];
    float *scales = r->scales + (size_t)tid * scales_of(r);
    bool keys = which == TFT_KV_K;
    struct tft_kv_heads own = tft_kv_heads(kv, task->layer);
    struct block b = {.keys = keys,
                      .channel = keys && y->channel ? y->channel + head * own.dim : NULL,
                      .to = r->row[which] + head * own.dim,
                      .stride = (size_t)own.n * own.dim};
    for (uint32_t i = 0; i < kv->plan.after[which].blocks; i++) {
        b.token = r->token[which] + i * kv->block;
        if ((keys ? y->k_bits : y->v_bits) == TFT_KV_BITS_F16) {
            b.channel = NULL;
            read_f16(&b,
                     keys ? tft_kv_f16_keys(kv, task->layer, head, i)
                          : tft_kv_f16_values(kv, task->layer, head, i),
                     kv->block, own.dim);
            continue;
        }
        b.codes = keys ? tft_kv_key_codes(kv, &r->m->kern, task->layer, head, i, scales)
                       : tft_kv_value_codes(kv, &r->m->kern, task->layer, head, i, scales);
        read_codes(&b);
    }
}

static void run(void *arg, int tid, int n_threads)
{
    const struct coded_task *task = arg;
    uint32_t heads = tft_kv_heads(&task->r->kv, task->layer).n;
    for (uint32_t h = (uint32_t)tid; h < heads; h += (uint32_t)n_threads)
        for (enum tft_kv_which which = 0; which < TFT_KV_SIDES; which++) {
            feed(task, which, h, tid);
            read_back(task, which, h, tid);
        }
}

const struct coded_view *coded_rows_run(struct coded_rows *r, uint32_t l, const real *k,
                                        const real *v)
{
    if (!r->any || tft_kv_has_ring(&r->kv, l))
        return NULL;
    tft_port_team(r->n_threads, run, &(struct coded_task){r, l, {k, v}});
    return &r->view;
}

/* -------------------------------------------------------------------------------------- opening */

/* Follows the tokens of a side through the plan of a sequence: when each leaves its slot, and its
   place in the blocks. */
static void follow(struct coded_rows *r, enum tft_kv_which which)
{
    const struct tft_kv_plan *plan = &r->kv.plan;
    memset(r->since[which], 0xff, r->n * sizeof *r->since[which]);
    for (const struct tft_kv_chunk *c = plan->chunk; c < plan->chunk + plan->n_chunk; c++) {
        const struct tft_kv_place *p = &c->side[which];
        const struct tft_kv_quantization *e = &p->quantization;
        uint32_t leave = p->quantizes ? e->n_blocks * r->kv.block : 0;
        for (uint32_t i = 0; i < leave; i++) {
            uint32_t token = r->slot[e->order[i]];
            r->token[which][e->first * r->kv.block + i] = token;
            r->since[which][token] = c->from;
            r->any = true;
        }
        for (uint32_t i = 0; p->quantizes && i < e->stay; i++)
            r->moved[i] = r->slot[e->order[leave + i]];
        for (uint32_t i = 0; p->quantizes && i < e->stay; i++)
            r->slot[e->base + i] = r->moved[i];
        for (uint32_t i = c->from; i < c->to; i++)
            r->slot[p->slot + i - c->from] = i;
    }
}

static void layout(struct coded_rows *r, struct tft_arena *a, const struct tft_kv_shape *shape)
{
    size_t threads = (size_t)r->n_threads, width = (size_t)shape->n_head_kv * shape->head_dim;
    tft_kv_layout(&r->kv, a, shape, &r->m->kv_policy, r->n, r->n, 0, r->n_threads);
    for (int i = 0; i < TFT_KV_SIDES; i++) {
        r->row[i] = tft_arena_take(a, r->n, width * sizeof *r->row[i]);
        r->since[i] = tft_arena_take(a, r->n, sizeof *r->since[i]);
        r->token[i] = tft_arena_take(a, r->n, sizeof *r->token[i]);
    }
    r->slot = tft_arena_take(a, slots_of(r), sizeof *r->slot);
    r->moved = tft_arena_take(a, slots_of(r), sizeof *r->moved);
    r->scales = tft_arena_take(a, threads, scales_of(r) * sizeof *r->scales);
    r->one = tft_arena_take(a, threads, shape->head_dim * sizeof *r->one);
}

struct coded_rows *coded_rows_open(const struct tft_model *m, size_t n, int n_threads)
{
    struct coded_rows *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    *r = (struct coded_rows){.m = m, .n = (uint32_t)n, .n_threads = n_threads};
    if (!tft_kv_quantizes(&m->kv_policy) || tft_kv_is_fisher(&m->kv_policy))
        return r;
    struct tft_kv_shape shape = tft_model_kv_shape(m);
    struct tft_arena a = {0};
    layout(r, &a, &shape);
    r->memory = a.failed ? NULL : tft_port_alloc(a.used, TFT_ALIGN);
    if (!r->memory) {
        coded_rows_close(r);
        return NULL;
    }
    a = (struct tft_arena){.base = r->memory};
    layout(r, &a, &shape);
    tft_kv_open(&r->kv, &shape);
    tft_kv_plan(&r->kv, r->n);
    follow(r, TFT_KV_K);
    follow(r, TFT_KV_V);
    for (int i = 0; i < TFT_KV_SIDES; i++) {
        r->view.row[i] = r->row[i];
        r->view.since[i] = r->since[i];
    }
    return r;
}

void coded_rows_close(struct coded_rows *r)
{
    if (!r)
        return;
    tft_port_free(r->memory);
    free(r);
}
