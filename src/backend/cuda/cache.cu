/* Kernels that change the cache: they store tokens in slots (kv/kv.h), quantize tokens into blocks
   of codes (kv/quantize.c), and drop tokens. Codes and scales have the CPU's bits. */
#include <float.h>
#include <math.h>

#include "codes.cuh"
#include "simd/fit.h"

static constexpr uint32_t THREADS = 256;

/* *to = v, rounded to the type of *to. */
static __device__ void narrow(float *to, float v)
{
    *to = v;
}
static __device__ void narrow(uint16_t *to, float v)
{
    *to = tft_f32_to_f16(v);
}

/* ---------------------------------------------------------------------------------------- slots */

/* tft_kv_store_key, tft_kv_store_value. A thread block has one panel of slots of a head: blockIdx.x
   is the panel, counted from the first slot's panel, blockIdx.y the head. */
template <typename Num>
static __global__ void store(struct tft_cuda_slots to, const float *k, const float *v, size_t ld,
                             uint32_t M, const struct tft_cuda_start *start)
{
    uint32_t dim = to.dim, slot[2];
    for (uint32_t s = 0; s < 2; s++)
        slot[s] = (start->slot[s] / TFT_KEY_PANEL + blockIdx.x) * TFT_KEY_PANEL;
    Num *keys = (Num *)to.k + ((size_t)blockIdx.y * to.capacity[0] + slot[0]) * dim,
        *values = (Num *)to.v + ((size_t)blockIdx.y * to.capacity[1] + slot[1]) * dim;
    for (uint32_t i = threadIdx.x; i < dim * TFT_KEY_PANEL; i += blockDim.x) {
        /* m wraps to a huge number in slots before the first */
        uint32_t c = i % TFT_KEY_PANEL, d = i / TFT_KEY_PANEL, m = slot[0] + c - start->slot[0];
        if (m < M)
            narrow(&keys[i], k[m * ld + blockIdx.y * dim + d]);
    }
    for (uint32_t i = threadIdx.x; i < dim * TFT_KEY_PANEL; i += blockDim.x) {
        uint32_t c = i / dim, d = i % dim, m = slot[1] + c - start->slot[1];
        if (m < M)
            narrow(&values[i], v[m * ld + blockIdx.y * dim + d]);
    }
}

void tft_cuda_put(cudaStream_t stream, const struct tft_cuda_slots *to, const float *k,
                  const float *v, size_t ld, uint32_t M, const struct tft_cuda_start *start)
{
    /* the most panels that M slots can touch, from any first slot */
    dim3 blocks((M + 2 * TFT_KEY_PANEL - 2) / TFT_KEY_PANEL, to->heads);
    if (to->num == TFT_NUM_F16)
        launch(stream, store<uint16_t>, blocks, THREADS, 0, *to, k, v, ld, M, start);
    else
        launch(stream, store<float>, blocks, THREADS, 0, *to, k, v, ld, M, start);
}

/* tft_kv_drop_slots. A thread moves one channel of every 16th slot, in order: blockIdx.x is the
   channel, blockIdx.y the head, threadIdx.x the column in the panels of keys. */
template <typename Num>
static __global__ void drop(struct tft_cuda_slots s, uint32_t from, uint32_t n, uint32_t used)
{
    uint32_t c = threadIdx.x, d = blockIdx.x, dim = s.dim,
             slot = from + (c + TFT_KEY_PANEL - from % TFT_KEY_PANEL) % TFT_KEY_PANEL;
    Num *keys = (Num *)s.k + (size_t)blockIdx.y * s.capacity[0] * dim,
        *values = (Num *)s.v + (size_t)blockIdx.y * s.capacity[1] * dim;
    for (; slot + n < used; slot += TFT_KEY_PANEL) {
        uint32_t old = slot + n;
        keys[(slot / TFT_KEY_PANEL * dim + d) * TFT_KEY_PANEL + c] =
            keys[(old / TFT_KEY_PANEL * dim + d) * TFT_KEY_PANEL + c];
        values[(size_t)slot * dim + d] = values[(size_t)old * dim + d];
    }
}

void tft_cuda_drop_slots(cudaStream_t stream, const struct tft_cuda_slots *s, uint32_t from,
                         uint32_t n, uint32_t used)
{
    dim3 blocks(s->dim, s->heads);
    if (s->num == TFT_NUM_F16)
        launch(stream, drop<uint16_t>, blocks, TFT_KEY_PANEL, 0, *s, from, n, used);
    else
        launch(stream, drop<float>, blocks, TFT_KEY_PANEL, 0, *s, from, n, used);
}

/* --------------------------------------------------------------------------------------- blocks */

/* The arguments of a quantization. */
struct quantization {
    struct tft_cuda_blocks to;
    struct tft_cuda_slots from;
    struct tft_cuda_clips clips;
    const uint32_t *order; /* slots of the tokens to quantize, block by block */
    uint32_t first_block;  /* the first block to fill */
    bool keys;             /* else values */
};

/* The keys or the values of a head for one block. */
struct source {
    const uint16_t *k, *v;         /* the head's slots: one of the two, the other is NULL */
    const uint32_t *order;         /* [block_tokens] slots */
    const uint16_t *channel_order; /* [dim] of keys, or NULL */
    uint32_t dim;
};

static __device__ struct source source_of(const struct quantization &ev, uint32_t head,
                                          const uint32_t *order)
{
    size_t at = (size_t)head * ev.from.capacity[!ev.keys] * ev.from.dim;
    struct source x = {};
    x.k = ev.keys ? (const uint16_t *)ev.from.k + at : NULL;
    x.v = ev.keys ? NULL : (const uint16_t *)ev.from.v + at;
    x.order = order;
    x.channel_order =
        ev.keys && ev.to.channel_order ? ev.to.channel_order + head * ev.from.dim : NULL;
    x.dim = ev.from.dim;
    return x;
}

static __device__ size_t key_at(uint32_t slot, uint32_t d, uint32_t dim)
{
    return ((size_t)(slot / TFT_KEY_PANEL) * dim + d) * TFT_KEY_PANEL + slot % TFT_KEY_PANEL;
}

/* Number d of token t; d counts channels in the order of blocks. */
static __device__ float number(const struct source &x, uint32_t t, uint32_t d)
{
    uint32_t slot = x.order[t];
    return tft_f16_to_f32(x.k ? x.k[key_at(slot, x.channel_order ? x.channel_order[d] : d, x.dim)]
                              : x.v[(size_t)slot * x.dim + d]);
}

/* The numbers that share a scale: channels first .. first + n - 1 of a token if scales are per
   token; else all n tokens of channel `first`. */
struct group {
    uint32_t token, first, n;
    bool per_token;
};

/* The group of scale number `at` of a record. */
static __device__ struct group group_of(const struct tft_cuda_blocks &b, bool per_token,
                                        uint32_t at)
{
    uint32_t first = per_token ? at / b.block_tokens * b.group_channels : at, left = b.dim - first;
    return {at % b.block_tokens, first,
            !per_token                ? b.block_tokens
            : left < b.group_channels ? left
                                      : b.group_channels,
            per_token};
}

/* Number i of a group. */
static __device__ float member(const struct source &x, const struct group &g, uint32_t i)
{
    return g.per_token ? number(x, g.token, g.first + i) : number(x, i, g.first);
}

/* tft_fit_fn of one group: its scale and middle. half: (L - 1) / 2 */
static __device__ struct tft_fitted fit(const struct source &x, const struct group &g, float half,
                                        const struct tft_fit *how)
{
    float low = INFINITY, high = -INFINITY, least = 0;
    struct tft_fitted best = {};
    for (uint32_t i = 0; i < g.n; i++) {
        float v = member(x, g, i);
        low = v < low ? v : low;
        high = v > high ? v : high;
    }
    for (size_t c = 0; c < how->n_clip; c++) {
        struct tft_fitted f = tft_fitted_of(low, high, half, c, how);
        float error = 0;
        for (uint32_t i = 0; i < g.n && how->n_clip > 1; i++) {
            float v = member(x, g, i), e = v - fmaf(tft_fitted_code(v, &f) - half, f.scale, f.mid);
            error = fmaf(e, e, error);
        }
        if (c == 0 || error < least) {
            best = f;
            least = error;
        }
    }
    return best;
}

/* The fit of a group: by the first n clip ratios of the policy; or, if `own`, by the group's ratio
   in the model file, if the file has one. */
static __device__ struct tft_fit fit_settings(const struct quantization &ev,
                                              const struct tft_cuda_side &s, uint32_t head,
                                              const struct group &g, uint32_t n, bool own)
{
    struct tft_fit how = {};
    how.n_clip = n;
    how.to_zero = ev.clips.to_zero;
    for (int i = 0; i < TFT_FIT_LISTS; i++)
        how.clip[i] = own && s.clip && g.per_token
                          ? s.clip + head * channel_groups(ev.to) + g.first / ev.to.group_channels
                          : ev.clips.ratio[i];
    return how;
}

/* (L - 1) / 2 of channel d. */
static __device__ float half_of(const struct quantization &ev, const struct tft_cuda_side &s,
                                uint32_t head, uint32_t d)
{
    return (float)((ev.keys ? key_levels(ev.to.quads[head], d)
                         : tft_bits_levels((enum tft_bits)s.bits)) -
                   1) /
           2;
}

/* The least e in -100 .. 100 with largest <= 448 * 2^e, for the largest of all threads. */
static __device__ int common_exponent(float largest)
{
    __shared__ float all[THREADS];
    __syncthreads();
    all[threadIdx.x] = largest;
    for (uint32_t half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            all[threadIdx.x] = fmaxf(all[threadIdx.x], all[threadIdx.x + half]);
    }
    __syncthreads();
    int e = -100;
    while (e < 100 && !(all[0] <= TFT_F8_MAX * tft_pow2i(e)))
        e++;
    return e;
}

/* Writes the scales and middles of a record. E4M3: all scales of the record share an exponent, and
   so do all middles. The exponents come first, from fits of the whole range. */
static __device__ void store_scales(const struct quantization &ev, const struct tft_cuda_side &s,
                                    uint32_t head, const struct source &x, unsigned char *to)
{
    uint32_t n = n_scales(ev.to, s);
    int e[2] = {0, 0};
    if (ev.to.f8) {
        float largest[2] = {0, 0}; /* scale, middle */
        for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
            struct group g = group_of(ev.to, s.per_token, i);
            struct tft_fit how = fit_settings(ev, s, head, g, 1, false); /* the whole range */
            struct tft_fitted all = fit(x, g, half_of(ev, s, head, g.first), &how);
            largest[0] = fmaxf(largest[0], fabsf(all.scale));
            largest[1] = fmaxf(largest[1], fabsf(all.mid));
        }
        e[0] = common_exponent(largest[0]);
        e[1] = common_exponent(largest[1]);
    }
    for (uint32_t i = threadIdx.x; i < n; i += THREADS) {
        struct group g = group_of(ev.to, s.per_token, i);
        struct tft_fit how = fit_settings(ev, s, head, g, ev.clips.n, true);
        how.f8 = ev.to.f8;
        how.scale_unit = tft_pow2i(e[0]);
        how.mid_unit = tft_pow2i(e[1]);
        struct tft_fitted own = fit(x, g, half_of(ev, s, head, g.first), &how);
        if (how.f8) {
            to[2 + i] = tft_f32_to_f8(own.scale / how.scale_unit);
            to[2 + n + i] = tft_f32_to_f8(own.mid / how.mid_unit);
        } else {
            ((uint16_t *)to)[i] = tft_f32_to_f16(own.scale);
            ((uint16_t *)to)[n + i] = tft_f32_to_f16(own.mid);
        }
    }
    if (ev.to.f8 && threadIdx.x < 2)
        to[threadIdx.x] = (unsigned char)e[threadIdx.x];
}

/* A record during the packing of its codes. */
struct packing {
    const struct quantization *ev;
    const struct tft_cuda_side *s;
    const struct source *x;
    const unsigned char *scales;
    uint32_t head, panel;
    uint32_t quad; /* the first of a run of quads of equal bits */
};

/* Code i of quad `quad` of the panel: 4 row + column (simd/codes.h). */
static __device__ uint32_t code(const struct packing &p, uint32_t quad, uint32_t i)
{
    const struct tft_cuda_blocks &b = p.ev->to;
    uint32_t row = p.panel * TFT_PANEL + i / TFT_QUAD, column = quad * TFT_QUAD + i % TFT_QUAD;
    bool keys = p.ev->keys;
    uint32_t t = keys ? row : column, d = keys ? column : row, n = n_scales(b, *p.s);
    if (d >= b.dim)
        return 0;
    uint32_t at = p.s->per_token ? d / b.group_channels * b.block_tokens + t : d;
    struct tft_fitted own = {scale_or_mid(b, p.scales, n, at), scale_or_mid(b, p.scales, n, n + at),
                             0, half_of(*p.ev, *p.s, p.head, d)};
    own.inverse = own.scale >= FLT_MIN ? 1 / own.scale : 0;
    return (uint32_t)tft_fitted_code(number(*p.x, t, d), &own);
}

/* Byte `at` of a run of `quads` quads of equal bits, from p.quad on (simd/codes.h). */
static __device__ uint32_t pack(const struct packing &p, enum tft_bits bits, uint32_t quads,
                                uint32_t at)
{
    uint32_t byte = 0, quad = p.quad;
    if (bits == TFT_BITS_3_LEVELS) {
        uint32_t fives = quads / TFT_TRIT_QUADS;
        if (at < fives * 64) {
            for (uint32_t i = 0; i < TFT_TRIT_QUADS; i++)
                byte = byte * 3 + code(p, quad + at / 64 * TFT_TRIT_QUADS + i, at % 64);
            return (byte * 256 + 242) / 243;
        }
        at -= fives * 64;
        quad += fives * TFT_TRIT_QUADS;
    }
    uint32_t size = (uint32_t)tft_codes_bytes(bits, 1), in = at % size;
    quad += at / size;
    bool upper = bits == TFT_BITS_3 && in >= 16;
    switch (bits) {
    case TFT_BITS_1:
        for (uint32_t l = 0; l < 8; l++)
            byte |= code(p, quad, 8 * l + in) << l;
        break;
    case TFT_BITS_4: byte = code(p, quad, in) | code(p, quad, 32 + in) << 4; break;
    case TFT_BITS_8: byte = code(p, quad, in); break;
    default: /* 2 bits, or the lower two or the upper one of 3 */
        for (uint32_t l = 0; l < 8 && upper; l++)
            byte |= (code(p, quad, 8 * l + in - 16) >> 2) << l;
        for (uint32_t l = 0; l < 4 && !upper; l++)
            byte |= (code(p, quad, 16 * l + in) & 3) << 2 * l;
    }
    return byte;
}

/* Writes the codes of a record, a byte by each thread in turn. */
static __device__ void store_codes(struct packing p, unsigned char *to)
{
    const struct tft_cuda_blocks &b = p.ev->to;
    bool keys = p.ev->keys;
    uint32_t panels = keys ? b.block_tokens / TFT_PANEL : (b.dim + TFT_PANEL - 1) / TFT_PANEL,
             bytes = (uint32_t)p.s->code_bytes / panels;
    for (uint32_t i = threadIdx.x; i < p.s->code_bytes; i += THREADS) {
        uint32_t at = i % bytes, bits = keys ? 0 : p.s->bits,
                 quads = keys ? b.quads[p.head][0] : b.block_tokens / TFT_QUAD;
        p.panel = i / bytes;
        p.quad = 0;
        /* a panel of keys has quads of several widths, fewer bits first */
        while (at >= tft_codes_bytes((enum tft_bits)bits, quads)) {
            at -= (uint32_t)tft_codes_bytes((enum tft_bits)bits, quads);
            p.quad += quads;
            quads = b.quads[p.head][++bits];
        }
        to[i] = (unsigned char)pack(p, (enum tft_bits)bits, quads, at);
    }
}

/* Copies a record of f16. */
static __device__ void store_f16(const struct quantization &ev, const struct source &x,
                                 unsigned char *to)
{
    uint16_t *halves = (uint16_t *)to;
    uint32_t dim = ev.to.dim;
    for (uint32_t i = threadIdx.x; i < ev.to.block_tokens * dim; i += THREADS) {
        uint32_t t = i / dim, d = i % dim;
        if (ev.keys)
            halves[key_at(t, d, dim)] = x.k[key_at(x.order[t], d, dim)];
        else
            halves[i] = x.v[(size_t)x.order[t] * dim + d];
    }
}

/* tft_kv_quantize, the new blocks. A thread block writes one record: blockIdx.x is the block,
   blockIdx.y the head. */
static __global__ void __launch_bounds__(THREADS) fill_blocks(struct quantization ev)
{
    uint32_t head = blockIdx.y;
    const struct tft_cuda_side &s = ev.keys ? ev.to.k : ev.to.v;
    unsigned char *to = record(ev.to, s, head, ev.first_block + blockIdx.x);
    struct source x = source_of(ev, head, ev.order + blockIdx.x * ev.to.block_tokens);
    if (s.bits == TFT_BITS_COUNT) {
        store_f16(ev, x, to);
        return;
    }
    store_scales(ev, s, head, x, to + s.code_bytes);
    __syncthreads();
    store_codes({&ev, &s, &x, to + s.code_bytes, head, 0, 0}, to);
}

/* tft_kv_quantize, the tokens that stay: gather copies slots order[0 .. n - 1] to `rows`, scatter
   copies them back to the slots from `first` on. rows: [G, n, E]. A thread block has one slot
   (blockIdx.x) of one head (blockIdx.y). */
static __device__ uint16_t *stored(const struct tft_cuda_slots &s, bool keys, uint32_t slot,
                                   uint32_t d)
{
    size_t head = (size_t)blockIdx.y * s.capacity[!keys] * s.dim;
    return keys ? (uint16_t *)s.k + head + key_at(slot, d, s.dim)
                : (uint16_t *)s.v + head + (size_t)slot * s.dim + d;
}

static __global__ void gather(uint16_t *rows, struct tft_cuda_slots s, bool keys,
                              const uint32_t *order, uint32_t n)
{
    size_t at = ((size_t)blockIdx.y * n + blockIdx.x) * s.dim;
    for (uint32_t d = threadIdx.x; d < s.dim; d += blockDim.x)
        rows[at + d] = *stored(s, keys, order[blockIdx.x], d);
}

static __global__ void scatter(struct tft_cuda_slots s, const uint16_t *rows, bool keys,
                               uint32_t first, uint32_t n)
{
    size_t at = ((size_t)blockIdx.y * n + blockIdx.x) * s.dim;
    for (uint32_t d = threadIdx.x; d < s.dim; d += blockDim.x)
        *stored(s, keys, first + blockIdx.x, d) = rows[at + d];
}

void tft_cuda_quantize_kv(cudaStream_t stream, const struct tft_cuda_blocks *to,
                    const struct tft_cuda_slots *from, const struct tft_cuda_quantization *e,
                    const struct tft_cuda_clips *clips, uint16_t *workspace)
{
    struct quantization ev = {*to, *from, *clips, e->order, e->first_block, e->keys};
    if (e->n_blocks)
        launch(stream, fill_blocks, dim3(e->n_blocks, to->heads), THREADS, 0, ev);
    if (e->stay) {
        launch(stream, gather, dim3(e->stay, to->heads), 64, 0, workspace, *from, e->keys,
               e->order + e->n_blocks * to->block_tokens, e->stay);
        launch(stream, scatter, dim3(e->stay, to->heads), 64, 0, *from, workspace, e->keys,
               e->first_slot, e->stay);
    }
}

/* tft_kv_drop_blocks: drops the first n of `used` records. A thread moves 8 bytes of each record,
   in order: blockIdx.y is the head. head_bytes: from one head's records to the next */
static __global__ void drop_records(unsigned char *records, size_t bytes, size_t head_bytes,
                                    uint32_t n, uint32_t used)
{
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t *words = (uint64_t *)(records + blockIdx.y * head_bytes);
    size_t step = bytes / sizeof *words;
    if (at >= step)
        return;
    for (uint32_t b = 0; b + n < used; b++)
        words[b * step + at] = words[(b + n) * step + at];
}

void tft_cuda_drop_blocks(cudaStream_t stream, const struct tft_cuda_blocks *b, uint32_t n,
                          const uint32_t used[2])
{
    const struct tft_cuda_side *sides[] = {&b->k, &b->v};
    for (int i = 0; i < 2; i++) {
        const struct tft_cuda_side *s = sides[i];
        launch(stream, drop_records,
               dim3((unsigned)((s->record_bytes / 8 + THREADS - 1) / THREADS), b->heads), THREADS,
               0, s->records, s->record_bytes, s->record_bytes * b->n_blocks, n, used[i]);
    }
}
