/* attend.cu, compared with the reference kernels called span by span, in the order of
   backend/cpu/attend.c. */
#include <math.h>
#include <string.h>

#include "data.h"
#include "simd/expf.h"
#include "gpu.h"
#include "kv/kv.h"
#include "simd/half.h"
#include "backend/cuda/launch.h"

enum { SPAN = TFT_CODED_SPAN, MAX_HEADS = 4 };

/* Slots of bytes. */
struct bytes {
    int8_t *number[2]; /* [heads, capacity, dim] of keys, of values; NULL: slots are floats */
    float *scale[2];   /* [heads, capacity] */
    float *offset;     /* [heads, dim] of keys, or NULL */
};

/* The keys or the values of blocks. */
struct side {
    struct tft_cuda_side layout; /* without pointers */
    unsigned char *records;      /* of the host */
    size_t n_scales;
    struct check_block *block; /* [heads, n_blocks]; NULL if the blocks are f16 */
};

struct shape {
    size_t M, skip, dim, heads, group, slot, capacity; /* as in tft_cuda_attend */
    enum tft_num num; /* of slots that are floats */
    struct bytes bytes;

    size_t blocks, n_blocks; /* full, that there is room for */
    size_t block_tokens;     /* 0: no blocks */
    size_t group_channels;
    bool f8;
    uint16_t quads[TFT_BITS_COUNT]; /* of keys */
    uint16_t *channel_order;        /* [heads, dim] or NULL */
    struct side k, v;
};

/* Writes the scales and middles of block b to a record, as f16 or E4M3, and rounds the scales and
   middles of b likewise. */
static void round_scales(const struct shape *s, const struct side *side, struct check_block *b,
                         unsigned char *to)
{
    float *number[] = {(float *)(uintptr_t)b->b.scale, (float *)(uintptr_t)b->b.mid};
    for (size_t which = 0; which < 2; which++)
        for (size_t i = 0; i < side->n_scales; i++) {
            size_t at = which * side->n_scales + i;
            float *x = &number[which][i];
            if (s->f8) {
                int8_t exponent = which ? -3 : -5;
                to[which] = (unsigned char)exponent;
                to[2 + at] = tft_f32_to_f8(fminf(fmaxf(*x / ldexpf(1, exponent), -448), 448));
                *x = tft_f8_to_f32(to[2 + at]) * ldexpf(1, exponent);
            } else {
                uint16_t half = tft_f32_to_f16(*x);
                memcpy(to + 2 * at, &half, 2);
                *x = tft_f16_to_f32(half);
            }
        }
}

/* Fills `side` with records of random blocks. bits: TFT_BITS_COUNT for f16 */
static void make_side(struct check *c, struct shape *s, struct side *side, bool keys, unsigned bits,
                      bool per_token)
{
    size_t panels = keys ? s->block_tokens / TFT_PANEL : (s->dim + TFT_PANEL - 1) / TFT_PANEL,
           scales = 0, n = s->heads * s->n_blocks;
    uint16_t quads[TFT_BITS_COUNT] = {0};
    memset(side, 0, sizeof *side);
    side->layout.bits = bits;
    side->layout.per_token = per_token;
    side->n_scales =
        per_token ? (s->dim + s->group_channels - 1) / s->group_channels * s->block_tokens : s->dim;
    if (keys)
        memcpy(quads, s->quads, sizeof quads);
    else if (bits < TFT_BITS_COUNT)
        quads[bits] = (uint16_t)(s->block_tokens / TFT_QUAD);
    if (bits == TFT_BITS_COUNT) {
        side->layout.code_bytes = s->block_tokens * s->dim * sizeof(uint16_t);
    } else {
        for (enum tft_bits b = 0; b < TFT_BITS_COUNT; b++)
            side->layout.code_bytes += panels * tft_codes_bytes(b, quads[b]);
        scales = s->f8 ? 2 + 2 * side->n_scales : 4 * side->n_scales;
    }
    side->layout.record_bytes = (side->layout.code_bytes + scales + 7) / 8 * 8;
    side->records = check_buf(c, n * side->layout.record_bytes, 1);
    side->block = bits == TFT_BITS_COUNT ? NULL : check_buf(c, n, sizeof *side->block);
    for (size_t i = 0; i < n; i++) {
        unsigned char *to = side->records + i * side->layout.record_bytes;
        size_t group = per_token ? s->group_channels : 0;
        if (!side->block) {
            check_fill_num(c, to, s->block_tokens * s->dim, TFT_NUM_F16);
            continue;
        }
        side->block[i] = keys
                             ? check_keys(c, s->block_tokens, s->dim, group, quads)
                             : check_values(c, s->block_tokens, s->dim, group, (enum tft_bits)bits);
        memcpy(to, side->block[i].b.codes, side->layout.code_bytes);
        round_scales(s, side, &side->block[i], to + side->layout.code_bytes);
    }
}

static const struct tft_coded *coded(const struct shape *s, const struct side *side, size_t head,
                                     size_t block)
{
    return &side->block[head * s->n_blocks + block].b;
}

static const void *halves(const struct shape *s, const struct side *side, size_t head, size_t block)
{
    return side->records + (head * s->n_blocks + block) * side->layout.record_bytes;
}

/* -------------------------------------------------------------------------------- the reference */

struct part {
    float o[TFT_CODED_SPAN + 16], max, sum;
};

static void merge(const struct tft_kernels *ref, struct part *into, const struct part *b,
                  size_t dim)
{
    float max = into->max > b->max ? into->max : b->max, old = tft_expf(into->max - max),
          now = tft_expf(b->max - max);
    ref->blend(into->o, old, b->o, now, dim);
    into->sum = fmaf(b->sum, now, into->sum * old);
    into->max = max;
}

static void attend_slots(const struct tft_kernels *ref, const struct shape *s, struct part *p,
                         const float *q, const char *k, const char *v, size_t n)
{
    float scores[SPAN];
    memset(p->o, 0, sizeof p->o);
    ref->score[s->num](&(struct tft_score){scores, SPAN, q, s->dim, k, 1, n, s->dim,
                                           1.0f / sqrtf((float)s->dim)});
    ref->softmax(scores, n, &p->max, &p->sum);
    ref->mix[s->num](&(struct tft_mix){p->o, s->dim, scores, SPAN, v, 1, n, s->dim});
}

/* y: [N] = the byte vector x times the rows of W, as backend/cpu/int8.c multiplies. */
static void multiply(const struct tft_kernels *ref, float *y, size_t N, const uint8_t *x,
                     const struct tft_affine *xq, const struct tft_panels *w)
{
    ref->gemm_i8(&(struct tft_gemm_i8){
        .y = y, .ldy = N, .x = x, .ldx = w->cols, .xq = xq, .w = w, .M = 1, .N = N});
}

/* Slots start .. start + n - 1 of a head, which are bytes: backend/cpu/int8.c. */
static void attend_bytes(const struct tft_kernels *ref, const struct shape *s, struct part *p,
                         const float *q, size_t head, size_t start, uint32_t n)
{
    static int8_t keys[SPAN * SPAN], values[SPAN * SPAN];
    size_t at = head * s->capacity + start, cols = tft_panel_cols(s->dim);
    float scores[SPAN], ones[SPAN], step, factor = 1.0f / sqrtf((float)s->dim), lacking = 0;
    int32_t sum[SPAN] = {0}, unused[SPAN] = {0};
    uint8_t query[SPAN], weight[SPAN] = {0};
    struct tft_affine xq = tft_kv_affine(ref, q, s->dim);
    memset(keys, 0, sizeof keys);
    memset(values, 0, sizeof values);
    for (size_t j = 0; j < n; j++)
        for (size_t d = 0; d < s->dim; d++) {
            int8_t k = s->bytes.number[0][(at + j) * s->dim + d];
            keys[tft_panel_at(j, d, cols)] = k;
            values[tft_panel_at(d, j, SPAN)] = s->bytes.number[1][(at + j) * s->dim + d];
            sum[j] += k;
        }
    for (size_t i = 0; i < SPAN; i++)
        ones[i] = 1;
    memset(query, xq.zero, sizeof query);
    ref->quantize(query, q, s->dim, &xq);
    xq.scale *= factor;
    multiply(ref, scores, n, query, &xq,
             &(struct tft_panels){keys, s->bytes.scale[0] + at, sum, cols});
    ref->softmax_u8(&(struct tft_softmax_u8){weight, SPAN, scores, SPAN, s->bytes.scale[1] + at, &n,
                                             1, &p->max, &p->sum, &step});
    multiply(ref, p->o, s->dim, weight, &(struct tft_affine){.scale = step},
             &(struct tft_panels){values, ones, unused, SPAN});
    for (size_t d = 0; d < s->dim && s->bytes.offset && s->blocks; d++)
        lacking += q[d] * s->bytes.offset[head * s->dim + d];
    p->max += lacking * factor;
}

/* Blocks first .. first + n - 1. q: its channels in the order of the stored keys */
static void attend_blocks(const struct tft_kernels *ref, const struct shape *s, struct part *p,
                          const float *q, size_t head, size_t first, size_t n)
{
    float scores[SPAN], factor = 1.0f / sqrtf((float)s->dim);
    struct tft_coded v[SPAN / TFT_PANEL];
    memset(p->o, 0, sizeof p->o);
    for (size_t b = 0; b < n; b++) {
        float *at = scores + b * s->block_tokens;
        if (s->k.block)
            ref->score_codes(&(struct tft_score_codes){
                at, SPAN, q, s->dim, coded(s, &s->k, head, first + b), 1, factor});
        else
            ref->score[TFT_NUM_F16](&(struct tft_score){at, SPAN, q, s->dim,
                                                        halves(s, &s->k, head, first + b), 1,
                                                        s->block_tokens, s->dim, factor});
    }
    ref->softmax(scores, n * s->block_tokens, &p->max, &p->sum);
    for (size_t b = 0; b < n; b++) {
        if (s->v.block)
            v[b] = *coded(s, &s->v, head, first + b);
        else
            ref->mix[TFT_NUM_F16](&(struct tft_mix){p->o, s->dim, scores + b * s->block_tokens,
                                                    SPAN, halves(s, &s->v, head, first + b), 1,
                                                    s->block_tokens, s->dim});
    }
    if (s->v.block)
        ref->mix_codes(&(struct tft_mix_codes){p->o, s->dim, scores, SPAN, v, n, 1});
}

/* y: [dim], attention of one query over the first `seen` slots and all blocks */
static void attend(const struct tft_kernels *ref, const struct shape *s, float *y, const float *q,
                   const char *k, const char *v, size_t head, size_t seen)
{
    struct part all, p;
    float ordered[TFT_CODED_SPAN + 16];
    size_t size = tft_num_bytes(s->num) * s->dim,
           most = s->block_tokens ? SPAN / s->block_tokens : 0;
    for (size_t start = 0; start < seen; start += SPAN) {
        size_t at = (head * s->capacity + start) * size,
               n = seen - start < SPAN ? seen - start : SPAN;
        if (s->bytes.number[0])
            attend_bytes(ref, s, start ? &p : &all, q, head, start, (uint32_t)n);
        else
            attend_slots(ref, s, start ? &p : &all, q, k + at, v + at, n);
        if (start)
            merge(ref, &all, &p, s->dim);
    }
    for (size_t d = 0; d < s->dim; d++)
        ordered[d] = q[s->channel_order ? s->channel_order[head * s->dim + d] : d];
    for (size_t first = 0; first < s->blocks; first += most) {
        attend_blocks(ref, s, &p, ordered, head, first,
                      s->blocks - first < most ? s->blocks - first : most);
        merge(ref, &all, &p, s->dim);
    }
    ref->scale(all.o, 1.0f / all.sum, s->dim);
    memcpy(y, all.o, s->dim * sizeof *y);
}

/* --------------------------------------------------------------------------------------- shapes */

static struct tft_cuda_blocks put_blocks(const struct shape *s)
{
    struct tft_cuda_blocks b = {.k = s->k.layout,
                                .v = s->v.layout,
                                .n_blocks = (uint32_t)s->n_blocks,
                                .block_tokens = (uint32_t)s->block_tokens};
    size_t n = s->heads * s->n_blocks;
    uint16_t quads[MAX_HEADS][TFT_BITS_COUNT];
    for (size_t h = 0; h < s->heads; h++)
        memcpy(quads[h], s->quads, sizeof quads[h]);
    b.k.records = gpu_copy(s->k.records, n * s->k.layout.record_bytes);
    b.v.records = gpu_copy(s->v.records, n * s->v.layout.record_bytes);
    b.quads = gpu_copy(quads, s->heads * sizeof *quads);
    b.channel_order = s->channel_order
                          ? gpu_copy(s->channel_order, s->heads * s->dim * sizeof *s->channel_order)
                          : NULL;
    b.group_channels = (uint32_t)s->group_channels;
    b.heads = (uint32_t)s->heads;
    b.dim = (uint32_t)s->dim;
    b.f8 = s->f8;
    return b;
}

/* Random slots of bytes. The scales of a head differ by a factor of up to 4. */
static void make_bytes(struct check *c, struct shape *s)
{
    size_t slots = s->heads * s->capacity;
    for (int side = 0; side < 2; side++) {
        s->bytes.number[side] = check_buf(c, slots * s->dim, 1);
        s->bytes.scale[side] = check_buf(c, slots, sizeof(float));
        for (size_t i = 0; i < slots * s->dim; i++)
            s->bytes.number[side][i] = (int8_t)((int)check_below(c, 255) - 127);
        for (size_t i = 0; i < slots; i++)
            s->bytes.scale[side][i] = 0.004f * (float)(1 + check_below(c, 4));
    }
    if (check_below(c, 2)) {
        s->bytes.offset = check_buf(c, s->heads * s->dim, sizeof(float));
        check_fill(c, s->bytes.offset, s->heads * s->dim);
    }
}

/* Slots of bytes on the GPU, in the order of launch.h. */
static struct tft_cuda_slots put_bytes(struct check *c, const struct shape *s)
{
    size_t slots = s->heads * s->capacity, width = (s->dim + 3) / 4 * 4;
    int8_t *k = check_buf(c, slots * width, 1), *v = check_buf(c, slots * s->dim, 1);
    memset(k, 0x55, slots * width); /* also the padding, which counts nothing */
    for (size_t i = 0; i < slots; i++)
        for (size_t d = 0; d < s->dim; d++) {
            k[(i / 16 * width + d / 4 * 4) * 16 + i % 16 * 4 + d % 4] =
                s->bytes.number[0][i * s->dim + d];
            v[(i / 4 * s->dim + d) * 4 + i % 4] = s->bytes.number[1][i * s->dim + d];
        }
    return (struct tft_cuda_slots){
        .k = gpu_copy(k, slots * width),
        .v = gpu_copy(v, slots * s->dim),
        .capacity = {(uint32_t)s->capacity, (uint32_t)s->capacity},
        .heads = (uint32_t)s->heads,
        .dim = (uint32_t)s->dim,
        .scale = {gpu_copy(s->bytes.scale[0], slots * sizeof(float)),
                  gpu_copy(s->bytes.scale[1], slots * sizeof(float))},
        .key_offset =
            s->bytes.offset ? gpu_copy(s->bytes.offset, s->heads * s->dim * sizeof(float)) : NULL,
    };
}

static uint32_t spans(size_t n)
{
    return (uint32_t)((n + SPAN - 1) / SPAN);
}

static void one_shape(struct gpu *g, const struct shape *s)
{
    struct check *c = g->c;
    size_t rows = s->heads * s->capacity, size = tft_num_bytes(s->num), H = s->heads * s->group,
           width = H * s->dim;
    size_t ldq = width + check_below(c, 4), ldy = width + check_below(c, 4);
    void *k = check_buf(c, rows * s->dim, size), *v = check_buf(c, rows * s->dim, size);
    float *q = check_buf(c, s->M * ldq, sizeof *q), *want = check_buf(c, width, sizeof *want);
    bool bytes = check_below(c, 2);
    struct tft_affine affine = {0.01f, 100, 120};
    check_fill_num(c, k, rows * s->dim, s->num);
    check_fill_num(c, v, rows * s->dim, s->num);
    for (size_t i = 0; i < s->M * ldq; i++)
        q[i] = check_float(c) * 0.2f; /* small, so that one position does not outweigh the others */

    struct tft_cuda_slots slots = {.k = gpu_copy(k, rows * s->dim * size),
                                   .v = gpu_copy(v, rows * s->dim * size),
                                   .num = s->num,
                                   .capacity = {(uint32_t)s->capacity, (uint32_t)s->capacity},
                                   .heads = (uint32_t)s->heads,
                                   .dim = (uint32_t)s->dim};
    if (s->bytes.number[0])
        slots = put_bytes(c, s);
    struct tft_cuda_blocks blocks = {.dim = 0};
    struct tft_cuda_start start = {.slot = {(uint32_t)s->slot, (uint32_t)s->slot},
                                   .blocks = {(uint32_t)s->blocks, (uint32_t)s->blocks}};
    struct tft_cuda_partials partials = {.slot_spans = spans(s->capacity),
                                         .block_spans = spans(s->n_blocks * s->block_tokens)};
    struct tft_cuda_rows y = {.ld = ldy};
    size_t n_partials = H * (partials.slot_spans + partials.block_spans);
    uint32_t none[MAX_HEADS * 16] = {0};
    if (s->block_tokens)
        blocks = put_blocks(s);
    partials.o = gpu_alloc(n_partials * s->dim * sizeof(float));
    partials.max = gpu_alloc(n_partials * sizeof(float));
    partials.sum = gpu_alloc(n_partials * sizeof(float));
    partials.done = gpu_copy(none, H * sizeof *none);
    if (bytes)
        y.bytes = gpu_alloc(s->M * ldy);
    else
        y.floats = gpu_alloc(s->M * ldy * sizeof(float));
    y.affine = gpu_copy(&affine, sizeof affine);
    tft_cuda_attend(g->stream, &y, gpu_copy(q, s->M * ldq * sizeof *q), ldq, &slots,
                    s->block_tokens ? &blocks : NULL, (uint32_t)H, (uint32_t)s->M,
                    (uint32_t)s->skip, gpu_copy(&start, sizeof start), &partials);

    for (size_t m = 0; m < s->M; m++) {
        uint8_t *want_bytes = check_buf(c, width, 1);
        for (size_t h = 0; h < H; h++)
            attend(c->ref, s, want + h * s->dim, q + m * ldq + h * s->dim, k, v, h / s->group,
                   s->slot + s->skip + m + 1);
        c->ref->quantize(want_bytes, want, width, &affine);
        gpu_same(g, bytes ? (void *)want_bytes : want,
                 bytes ? (void *)(y.bytes + m * ldy) : y.floats + m * ldy,
                 bytes ? width : width * 4,
                 "token %zu of %zu after %zu slots, %zu x %zu heads of %zu; %zu blocks of %zu, "
                 "bits %u and %u, by token %d and %d, f8 %d, slots of bytes %d",
                 m, s->M, s->slot + s->skip, s->heads, s->group, s->dim, s->blocks, s->block_tokens,
                 s->k.layout.bits, s->v.layout.bits, s->k.layout.per_token, s->v.layout.per_token,
                 s->f8, s->bytes.number[0] != NULL);
    }
    gpu_same(g, none, partials.done, H * sizeof *none, "counters of %zu heads", H);
    gpu_free(g);
}

/* A random shape without blocks, of tokens after up to `before` others. */
static struct shape random_slots(struct check *c, size_t before)
{
    struct shape s = {.M = check_below(c, 2) ? 1 : 1 + check_below(c, 40),
                      .skip = check_below(c, 4),
                      .heads = 1 + check_below(c, MAX_HEADS)};
    s.group = 1 + check_below(c, check_below(c, 3) ? 4 : 12);
    s.slot = check_below(c, 3) ? check_below(c, before) : 250 + check_below(c, 10);
    s.dim = check_size(c, 140);
    s.num = check_below(c, 3) ? TFT_NUM_F16 : TFT_NUM_F32;
    s.capacity = (s.slot + s.skip + s.M + check_below(c, 40) + 15) / 16 * 16;
    return s;
}

static void floats(struct gpu *g)
{
    if (!check_named(g->c, "attend_slots"))
        return;
    for (int i = 0; i < (g->c->thorough ? 30 : 15); i++) {
        struct shape s = random_slots(g->c, 600); /* one to three spans */
        one_shape(g, &s);
    }
}

static void bytes(struct gpu *g)
{
    if (!check_named(g->c, "attend_bytes"))
        return;
    for (int i = 0; i < (g->c->thorough ? 30 : 15); i++) {
        struct shape s = random_slots(g->c, 600);
        make_bytes(g->c, &s);
        one_shape(g, &s);
    }
}

/* A permutation of each head's channels. */
static uint16_t *shuffled(struct check *c, size_t heads, size_t dim)
{
    uint16_t *channel = check_buf(c, heads * dim, sizeof *channel);
    for (size_t h = 0; h < heads; h++)
        for (size_t d = 0, other; d < dim; d++) {
            other = check_below(c, d + 1);
            channel[h * dim + d] = channel[h * dim + other];
            channel[h * dim + other] = (uint16_t)d;
        }
    return channel;
}

/* A random shape with blocks. k_bits, v_bits: enum tft_bits, or TFT_BITS_COUNT for f16; k_bits:
   TFT_BITS_COUNT + 1 for keys of mixed bits */
static void codes_shape(struct gpu *g, unsigned k_bits, unsigned v_bits)
{
    static const size_t blocks[] = {16, 32, 64, 128, 256}, channels[] = {16, 32, 48, 64, 128};
    struct check *c = g->c;
    struct shape s = random_slots(c, 100);
    bool mixed = k_bits > TFT_BITS_COUNT;
    s.num = TFT_NUM_F16;
    s.dim = 4 * (1 + check_below(c, check_below(c, 4) ? 20 : 64));
    s.heads = s.heads < 3 ? s.heads : 2;
    s.block_tokens = blocks[check_below(c, 5)];
    s.group_channels = channels[check_below(c, 5)];
    s.blocks = check_below(c, 1 + 600 / s.block_tokens);
    s.n_blocks = s.blocks + 1 + check_below(c, 3);
    s.f8 = check_below(c, 2);
    check_quads(c, s.quads, s.dim,
                mixed ? TFT_BITS_COUNT : (enum tft_bits)(k_bits < TFT_BITS_COUNT ? k_bits : 0));
    s.channel_order =
        k_bits != TFT_BITS_COUNT && check_below(c, 2) ? shuffled(c, s.heads, s.dim) : NULL;
    bool wide = s.quads[TFT_BITS_8];
    unsigned side_bits = mixed ? (wide ? TFT_BITS_8 : TFT_BITS_4) : k_bits;
    make_side(c, &s, &s.k, true, side_bits, !mixed && check_below(c, 2));
    make_side(c, &s, &s.v, false, v_bits, check_below(c, 2));
    if (check_below(c, 3) == 0)
        make_bytes(c, &s);
    one_shape(g, &s);
}

static void codes(struct gpu *g)
{
    if (!check_named(g->c, "attend_codes"))
        return;
    for (unsigned k = 0; k <= TFT_BITS_COUNT + 1; k++)
        for (unsigned v = 0; v <= TFT_BITS_COUNT; v++)
            if (g->c->thorough || (k + v) % 3 < 2)
                codes_shape(g, k, v);
}

/* --------------------------------------------------------------------------------------- timing */

struct timed {
    struct tft_cuda_slots slots[100];
    struct tft_cuda_blocks blocks[100];
    struct tft_cuda_partials partials;
    struct tft_cuda_rows y;
    const float *q;
    const struct tft_cuda_start *start;
    uint32_t H, M;
    bool coded;
};

static void launch(struct gpu *g, void *arg, size_t copy)
{
    const struct timed *t = arg;
    tft_cuda_attend(g->stream, &t->y, t->q, (size_t)t->H * t->slots->dim, &t->slots[copy],
                    t->coded ? &t->blocks[copy] : NULL, t->H, t->M, 0, t->start, &t->partials);
}

/* A layer of Llama 3.2 1B: M tokens after `slots` slots, of f16 or bytes, and `coded` tokens in
   blocks of `bits`, scales per token. */
static void bench(struct gpu *g, const char *what, uint32_t M, uint32_t slots, bool in_bytes,
                  uint32_t coded, enum tft_bits bits)
{
    enum { H = 32, HEADS = 8, DIM = 64, GROUP = 64, BLOCK = 128 };
    uint32_t capacity = (slots + M + 15) / 16 * 16, n_blocks = coded / BLOCK, zero[H] = {0};
    struct timed t = {.H = H, .M = M, .y = {.ld = H * DIM}, .coded = coded};
    struct tft_cuda_start start = {.slot = {slots, slots}, .blocks = {n_blocks, n_blocks}};
    struct tft_affine affine = {0.01f, 100, 120};
    struct tft_cuda_side side = {.code_bytes =
                                     BLOCK / TFT_PANEL * tft_codes_bytes(bits, DIM / TFT_QUAD),
                                 .bits = bits,
                                 .per_token = true};
    uint16_t quads[HEADS][TFT_BITS_COUNT] = {{0}};
    side.record_bytes = side.code_bytes + 4 * BLOCK;
    for (size_t h = 0; h < HEADS; h++)
        quads[h][bits] = DIM / TFT_QUAD;
    size_t of_slots = (size_t)HEADS * capacity * DIM * (in_bytes ? 1 : sizeof(uint16_t)),
           of_blocks = HEADS * n_blocks * side.record_bytes;
    size_t most = of_slots > of_blocks ? of_slots : of_blocks,
           copies = gpu_copies(2 * (double)(of_slots + of_blocks));
    unsigned char *numbers = check_buf(g->c, most, 1);
    float *q = check_buf(g->c, (size_t)M * H * DIM, sizeof *q);
    memset(numbers, 0x21, most); /* a small number as f16 */
    check_fill(g->c, q, (size_t)M * H * DIM);
    const uint16_t(*device_quads)[TFT_BITS_COUNT] = gpu_copy(quads, sizeof quads);
    copies = copies < 50 ? copies : 50; /* each has four allocations */
    float *scale = in_bytes ? gpu_copy(numbers, HEADS * capacity * sizeof(float)) : NULL;
    for (size_t i = 0; i < copies; i++) {
        t.slots[i] = (struct tft_cuda_slots){.k = gpu_copy(numbers, of_slots),
                                             .v = gpu_copy(numbers, of_slots),
                                             .num = TFT_NUM_F16,
                                             .capacity = {capacity, capacity},
                                             .heads = HEADS,
                                             .dim = DIM,
                                             .scale = {scale, scale}};
        if (!coded)
            continue;
        t.blocks[i] = (struct tft_cuda_blocks){.k = side,
                                               .v = side,
                                               .n_blocks = n_blocks,
                                               .block_tokens = BLOCK,
                                               .group_channels = GROUP,
                                               .heads = HEADS,
                                               .dim = DIM};
        t.blocks[i].k.records = gpu_copy(numbers, of_blocks);
        t.blocks[i].v.records = gpu_copy(numbers, of_blocks);
        t.blocks[i].quads = device_quads;
    }
    t.partials =
        (struct tft_cuda_partials){.slot_spans = spans(capacity), .block_spans = spans(coded)};
    size_t n_partials = H * (t.partials.slot_spans + t.partials.block_spans);
    t.partials.o = gpu_alloc(n_partials * DIM * sizeof(float));
    t.partials.max = gpu_alloc(n_partials * sizeof(float));
    t.partials.sum = gpu_alloc(n_partials * sizeof(float));
    t.partials.done = gpu_copy(zero, sizeof zero);
    t.y.bytes = gpu_alloc((size_t)M * H * DIM);
    t.y.affine = gpu_copy(&affine, sizeof affine);
    t.q = gpu_copy(q, (size_t)M * H * DIM * sizeof *q);
    t.start = gpu_copy(&start, sizeof start);
    double seen = slots + coded + (M + 1) / 2.0;
    gpu_time(g, &(struct gpu_timed){what, launch, &t, copies, 2 * (double)(of_slots + of_blocks),
                                    4.0 * M * H * DIM * seen, coded || in_bytes});
    gpu_free(g);
}

void gpu_attention(struct gpu *g)
{
    floats(g);
    bytes(g);
    codes(g);
    if (!g->c->bench || !check_named(g->c, "attend"))
        return;
    bench(g, "attend: 1 token, 512 slots", 1, 511, false, 0, TFT_BITS_2);
    bench(g, "attend: 1 token, 8192 slots", 1, 8191, false, 0, TFT_BITS_2);
    bench(g, "attend: 1 token, 8192 slots of bytes", 1, 8191, true, 0, TFT_BITS_2);
    bench(g, "attend: 1 token, 128 slots, 8064 by 2 bits", 1, 127, false, 8064, TFT_BITS_2);
    bench(g, "attend: 1 token, 128 slots, 8064 by 4 bits", 1, 127, false, 8064, TFT_BITS_4);
    bench(g, "attend: 512 tokens", 512, 0, false, 0, TFT_BITS_2);
    bench(g, "attend: 512 tokens behind 3584", 512, 3584, false, 0, TFT_BITS_2);
    bench(g, "attend: 512 tokens behind 3584 in bytes", 512, 3584, true, 0, TFT_BITS_2);
    bench(g, "attend: 512 tokens behind 3584 by 2 bits", 512, 0, false, 3584, TFT_BITS_2);
}
