/*
 * Attention within one span of the cache, 256 slots or 256 tokens of blocks, by a thread block: the
 * scores of the span's keys and the mix of its values, for a tile of queries (backend/cpu/span.c).
 * attend.cu and split.cu combine the spans.
 *
 *      scores         tft_score_fn: a thread has one position and sums over the channels in order
 *      softmax        tft_softmax_fn: a warp has one row; 16 lanes sum in dot16's order
 *      mix            tft_mix_fn: a thread has one channel and sums over the positions in order
 *      merge          tft_blend_fn: joins the span with the earlier spans, in order of positions
 *
 * On codes, scores and mix are exact sums of integers (tft_score_codes_fn, tft_mix_codes_fn): first
 * the queries or the probabilities are folded to integers. int8.cuh does it for slots of bytes.
 *
 * A row is one query: row i of a KV head is query head i % group of token i / group; `group` query
 * heads share the KV head. A thread block has a tile: ROWS rows of one KV head of a chunk's tokens.
 */
#ifndef TFT_CUDA_SPAN_CUH
#define TFT_CUDA_SPAN_CUH

#include <math.h>

#include "simd/affine.h"
#include "codes.cuh"
#include "slots.cuh"

static constexpr uint32_t SPAN = 256, THREADS = SPAN, WARP = 32, LANES = 16;

static inline __device__ float to_float(const float *x)
{
    return *x;
}
static inline __device__ float to_float(const uint16_t *x)
{
    return tft_f16_to_f32(*x);
}

/* ------------------------------------------------------------------------ work of thread blocks */

/* The arguments of tft_cuda_attend and tft_cuda_attend_split. */
struct attention {
    struct tft_cuda_rows y;
    struct tft_cuda_slots slots;
    struct tft_cuda_blocks blocks;
    const float *q;
    size_t ldq;
    uint32_t H, M, skip;
    const struct tft_cuda_start *start;
};

/* Keys and values, as indices. */
static constexpr uint32_t K = 0, V = 1;

/* The most folded vectors of a row in a span: one for each block or for each group of channels, of
   at least 16 tokens or channels. */
static constexpr uint32_t FOLDS = 16;

/* Shared memory of a thread block. Rows are read four at a time: ROWS is a multiple of 4. */
template <uint32_t ROWS> struct workspace {
    float (*p)[SPAN];               /* [ROWS, SPAN] scores, then probabilities */
    float *q;                       /* [E, ROWS] queries */
    float *o;                       /* [ROWS, E] result of the spans so far */
    float *max, *sum;               /* [ROWS] of the spans so far */
    float *old_weight, *new_weight; /* [ROWS] weights of the spans so far and of the new span */

    /* If slots are bytes: */
    float *query_step, *weight_step; /* [ROWS] */
    float *lacking;  /* [ROWS] what the scores of slots lack beside those of blocks */
    int8_t *query;   /* [E / 4 rounded up, ROWS, 4] bytes of the queries, less their zero point */
    uint8_t *weight; /* [ROWS, SPAN] bytes of the weights of values */

    /* If the cache has codes: vectors folded to integers x = 128 high + low. Only 8-bit codes use
       `low`. A folded vector means x * step. */
    int8_t *high, *low;           /* [ROWS, folded] */
    float (*step)[FOLDS];         /* [ROWS] */
    float (*base)[FOLDS];         /* [ROWS] the sum of the numbers times their mids */
    int32_t (*correction)[FOLDS]; /* [ROWS] the sum of x (L - 1): the sum of x (2 c - (L - 1)) is
                                     the sum of 2 x c less the correction */
    uint32_t folded;
};

/* The folded numbers of a row in a span. Queries: one vector of channels, or a vector for each
   block if scales are per channel. Probabilities: one vector of positions, or a vector for each
   group of channels if scales are per token. */
static inline __host__ __device__ uint32_t folded_numbers(const struct tft_cuda_blocks &b)
{
    if (!b.dim)
        return 0;
    uint32_t k = b.k.per_token ? b.dim : SPAN / b.block_tokens * b.dim,
             v = b.v.per_token ? channel_groups(b) * SPAN : SPAN;
    return k > v ? k : v;
}

/* The shared memory of sm_75. 4 rows always fit, even with 256 channels and 8-bit codes. */
static constexpr size_t MAX_WORKSPACE = 64 << 10;

template <uint32_t ROWS>
static size_t workspace_bytes(const struct attention &a)
{
    size_t own = sizeof(float) * ROWS * (SPAN + 2 * a.slots.dim + 4),
           bytes = ROWS * (3 * sizeof(float) + key_width<int8_t>(a.slots.dim) + SPAN);
    return own + (a.slots.scale[K] ? bytes : 0) +
           (a.blocks.dim ? ROWS * (3 * FOLDS * sizeof(float) + 2 * folded_numbers(a.blocks)) : 0);
}

template <uint32_t ROWS>
static __device__ struct workspace<ROWS> take_workspace(const struct attention &a) {
    struct workspace<ROWS> w;
    uint32_t dim = a.slots.dim;
    float *memory = (float *)tft_shared();
    w.p = (float (*)[SPAN])memory;
    w.q = memory + ROWS * SPAN;
    w.o = w.q + ROWS * dim;
    w.max = w.o + ROWS * dim;
    w.sum = w.max + ROWS;
    w.old_weight = w.sum + ROWS;
    w.new_weight = w.old_weight + ROWS;
    memory = w.new_weight + ROWS;
    if (a.slots.scale[K]) {
        w.query_step = memory;
        w.weight_step = w.query_step + ROWS;
        w.lacking = w.weight_step + ROWS;
        w.query = (int8_t *)(w.lacking + ROWS);
        w.weight = (uint8_t *)w.query + ROWS * key_width<int8_t>(dim);
        memory = (float *)(w.weight + ROWS * SPAN);
    }
    w.step = (float (*)[FOLDS])memory;
    w.base = w.step + ROWS;
    w.correction = (int32_t(*)[FOLDS])(w.base + ROWS);
    w.folded = folded_numbers(a.blocks);
    w.high = (int8_t *)(w.correction + ROWS);
    w.low = w.high + ROWS * w.folded;
    return w;
}

/* The rows of a thread block. */
struct tile {
    uint32_t head;   /* KV head */
    uint32_t row, n; /* rows row .. row + n - 1 */
    uint32_t group;  /* query heads of the KV head */
    uint32_t slot[2]; /* of the key and the value of row 0's token */
};

static __device__ struct tile tile_of(const struct attention &a, uint32_t head, uint32_t row,
                                      uint32_t most)
{
    uint32_t group = a.H / a.slots.heads, left = a.M * group - row;
    return {head,
            row,
            left < most ? left : most,
            group,
            {a.start->slot[K] + a.skip, a.start->slot[V] + a.skip}};
}

/* The number of slots of keys, or of values, from slot `start` on, that row i of the tile attends
   to, at most a span. */
static __device__ uint32_t visible(const struct tile &t, uint32_t side, uint32_t i, uint32_t start)
{
    uint32_t end = t.slot[side] + (t.row + i) / t.group + 1;
    return end <= start ? 0 : end - start < SPAN ? end - start : SPAN;
}

/* Spans of slots that the last row of the tile attends to. */
static __device__ uint32_t slot_spans(const struct tile &t, uint32_t side)
{
    return (t.slot[side] + (t.row + t.n - 1) / t.group) / SPAN + 1;
}

/* The number of spans of blocks that the chunk attends to; next, the blocks of span i. */
static __device__ uint32_t block_spans(const struct attention &a, uint32_t side)
{
    return a.blocks.dim ? (a.start->blocks[side] * a.blocks.block_tokens + SPAN - 1) / SPAN : 0;
}

struct span {
    uint32_t first, n;
};

static __device__ struct span span_of(const struct attention &a, uint32_t side, uint32_t i)
{
    uint32_t most = SPAN / a.blocks.block_tokens, first = i * most,
             left = a.start->blocks[side] - first;
    return {first, left < most ? left : most};
}

/* w.q = the tile's queries; zeros in rows past the tile's last. */
template <uint32_t ROWS>
static __device__ void load_queries(const struct workspace<ROWS> &w, const struct attention &a,
                                    const struct tile &t)
{
    uint32_t dim = a.slots.dim;
    for (uint32_t i = threadIdx.x; i < ROWS * dim; i += THREADS) {
        uint32_t r = i / dim, d = i % dim, row = t.row + r;
        w.q[d * ROWS + r] =
            r < t.n ? a.q[row / t.group * a.ldq + (t.head * t.group + row % t.group) * dim + d] : 0;
    }
}

/* By a warp: tft_softmax_fn of the first n numbers of a row's p. If `blend`, *old_weight and
   *new_weight become the weights of the spans so far and of this span. The scores lack the number
   `lacking`. */
static __device__ void softmax(float *p, uint32_t n, bool blend, float *max, float *sum,
                               float *old_weight, float *new_weight, float lacking = 0)
{
    uint32_t lane = threadIdx.x % WARP;
    float top = p[0], total = 0; /* maximum and sum of this span */
    for (uint32_t i = lane; i < n; i += WARP)
        top = p[i] > top ? p[i] : top;
    for (unsigned half = WARP / 2; half; half /= 2) {
        float other = __shfl_xor_sync(0xffffffff, top, half);
        top = other > top ? other : top;
    }
    for (uint32_t i = lane; i < n; i += WARP)
        p[i] = tft_expf(p[i] - top);
    __syncwarp();
    for (uint32_t i = lane; i < n && lane < LANES; i += LANES)
        total += p[i];
    for (unsigned half = LANES / 2; half; half /= 2) /* sum16 of simd/kernels.h */
        total += __shfl_down_sync(0xffffffff, total, half);
    if (lane)
        return;
    top += lacking;
    if (blend) {
        float both = *max > top ? *max : top;
        *old_weight = tft_expf(*max - both);
        *new_weight = tft_expf(top - both);
        *sum = fmaf(total, *new_weight, *sum * *old_weight);
        *max = both;
    } else {
        *sum = total;
        *max = top;
    }
}

/* w.o[i], of row r, = o of this span, blended with the spans so far if `blend`: tft_blend_fn. */
template <uint32_t ROWS>
static __device__ void store_mixed(const struct workspace<ROWS> &w, uint32_t r, uint32_t i, float o,
                                   bool blend)
{
    w.o[i] = blend ? fmaf(o, w.new_weight[r], w.o[i] * w.old_weight[r]) : o;
}

/* --------------------------------------------------------------------------------------- floats */

/* w.p = scores of a span, tft_score_fn: a thread has one position. k: the key of the position, with
   channels TFT_KEY_PANEL apart; NULL: the thread has no position */
template <uint32_t ROWS, typename Num>
static __device__ void score(const struct workspace<ROWS> &w, const Num *k, uint32_t dim)
{
    float factor = 1.0f / sqrtf((float)dim), s[ROWS] = {};
    load_ahead<(ROWS > 8 ? 4 : 16)>(
        k ? dim : 0, [=](uint32_t d) { return k[d * TFT_KEY_PANEL]; },
        [&](uint32_t d, Num stored) {
            float key = to_float(&stored);
            UNROLL
            for (uint32_t r = 0; r < ROWS; r += 4) {
                float4 q = *(const float4 *)(w.q + d * ROWS + r);
                s[r] = fmaf(q.x, key, s[r]);
                s[r + 1] = fmaf(q.y, key, s[r + 1]);
                s[r + 2] = fmaf(q.z, key, s[r + 2]);
                s[r + 3] = fmaf(q.w, key, s[r + 3]);
            }
        });
    UNROLL
    for (uint32_t r = 0; r < ROWS; r++)
        w.p[r][threadIdx.x] = s[r] * factor;
}

/* o[k] = fma(p[k][i], v[i], o[k]) for each of 4 rows k and n positions i in order, n a multiple of
   4: a channel of tft_mix_fn. p: rows SPAN apart; v: positions dim apart */
template <uint32_t ROWS, typename Num>
static __device__ void chain(float o[4], const float *p, const Num *v, uint32_t n, uint32_t dim)
{
    struct four {
        Num x[4];
    };
    load_ahead<(ROWS > 8 ? 2 : 4)>(
        n / 4,
        [=](uint32_t i) {
            return four{
                {v[4 * i * dim], v[(4 * i + 1) * dim], v[(4 * i + 2) * dim], v[(4 * i + 3) * dim]}};
        },
        [&](uint32_t i, four x) {
            UNROLL
            for (uint32_t k = 0; k < 4; k++) {
                float4 weight = *(const float4 *)(p + k * SPAN + 4 * i);
                o[k] = fmaf(weight.x, to_float(&x.x[0]), o[k]);
                o[k] = fmaf(weight.y, to_float(&x.x[1]), o[k]);
                o[k] = fmaf(weight.z, to_float(&x.x[2]), o[k]);
                o[k] = fmaf(weight.w, to_float(&x.x[3]), o[k]);
            }
        });
}

/* Mixes the values of a span of slots: a thread has one channel of 4 rows. Rows of different tokens
   see different numbers of slots: slots that all 4 rows see come first, together. */
template <uint32_t ROWS, typename Num>
static __device__ void mix_slots(const struct workspace<ROWS> &w, const struct attention &a,
                                 const struct tile &t, uint32_t start, bool blend)
{
    uint32_t dim = a.slots.dim;
    const Num *values =
        (const Num *)a.slots.v + ((size_t)t.head * a.slots.capacity[V] + start) * dim;
    for (uint32_t unit = threadIdx.x; unit < ROWS / 4 * dim; unit += THREADS) {
        uint32_t d = unit % dim, r = unit / dim * 4, n[4], common = SPAN;
        const Num *v = values + d;
        float o[4] = {};
        if (r >= t.n)
            continue;
        UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            n[k] = r + k < t.n ? visible(t, V, r + k, start) : 0;
            common = r + k < t.n && n[k] < common ? n[k] : common;
        }
        common = common / 4 * 4;
        chain<ROWS>(o, w.p[r], v, common, dim);
        UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            for (uint32_t i = common; i < n[k]; i++)
                o[k] = fmaf(w.p[r + k][i], to_float(v + i * dim), o[k]);
            if (n[k])
                store_mixed(w, r + k, (r + k) * dim + d, o[k], blend);
        }
    }
    __syncthreads();
}

/* w.p = scores of a span of slots, from slot `start` on. */
template <uint32_t ROWS, typename Num>
static __device__ void score_slots(const struct workspace<ROWS> &w, const struct attention &a,
                                   const struct tile &t, uint32_t start)
{
    uint32_t dim = a.slots.dim, slot = start + threadIdx.x, column = slot % TFT_KEY_PANEL;
    const Num *k = (const Num *)a.slots.k +
                   ((size_t)t.head * a.slots.capacity[K] + slot - column) * dim + column;
    score<ROWS, Num>(w, threadIdx.x < visible(t, K, t.n - 1, start) ? k : NULL, dim);
    __syncthreads();
}

/* ---------------------------------------------------------------------------------------- codes */

/* Whether vectors are folded to two bytes. */
static __device__ bool is_wide(unsigned bits)
{
    return bits == TFT_BITS_8;
}

/*
 * fold() of kernels.h, by 16 lanes of a warp, while the other 16 lanes fold another vector. The
 * vector has n numbers value(i, load(i)): `load` only reads memory, so reads can run ahead. n may
 * be 0, for lanes without a vector, which must take part in the shuffles.
 *
 *      levels(i)             L of the codes that multiply number i
 *      add(base, i, load(i)) adds number i's term of the float part, in dot16's order
 */
template <typename Load, typename Value, typename Levels, typename Add>
static __device__ void fold(int8_t *high, int8_t *low, float *step, float *base,
                            int32_t *correction, uint32_t n, bool wide, Load load, Value value,
                            Levels levels, Add add)
{
    constexpr uint32_t AHEAD = 4;
    uint32_t lane = threadIdx.x % LANES, own = (n + LANES - 1 - lane) / LANES;
    float largest = 0, sum = 0, limit = wide ? TFT_FOLD_I16 : TFT_FOLD_I8;
    int32_t weighted = 0; /* sum of x (L - 1) */
    auto load_own = [&](uint32_t k) { return load(lane + k * LANES); };
    load_ahead<AHEAD>(own, load_own, [&](uint32_t k, const decltype(load(0)) &s) {
        float size = fabsf(value(lane + k * LANES, s));
        largest = size > largest ? size : largest;
        sum = add(sum, lane + k * LANES, s);
    });
    for (unsigned half = LANES / 2; half; half /= 2) {
        float other = __shfl_xor_sync(0xffffffff, largest, half);
        largest = other > largest ? other : largest;
        sum += __shfl_down_sync(0xffffffff, sum, half);
    }
    bool usable = largest >= TFT_FOLD_LEAST && largest <= FLT_MAX;
    float inverse = usable ? limit / largest : 0;
    load_ahead<AHEAD>(own, load_own, [&](uint32_t k, const decltype(load(0)) &s) {
        uint32_t i = lane + k * LANES;
        float v = value(i, s) * inverse;
        v = v > -limit ? v : -limit;
        int32_t x = (int32_t)rintf(v < limit ? v : limit), upper = wide ? (x + 64) >> 7 : x;
        high[i] = (int8_t)upper;
        if (wide)
            low[i] = (int8_t)(x - upper * 128);
        weighted += x * (int32_t)(levels(i) - 1);
    });
    for (unsigned half = LANES / 2; half; half /= 2)
        weighted += __shfl_xor_sync(0xffffffff, weighted, half);
    if (lane || !n)
        return;
    *step = usable ? largest / limit : 0;
    *base = sum;
    *correction = weighted;
}

/* Folds the queries for a span of n blocks, from block `first` on. Scales per channel: a vector for
   each block, the query times its scales. Scales per token: a vector for each group of channels. */
template <uint32_t ROWS>
static __device__ void fold_queries(const struct workspace<ROWS> &w, const struct attention &a,
                                    const struct tile &t, uint32_t first, uint32_t n)
{
    const struct tft_cuda_blocks &b = a.blocks;
    const uint16_t *channel = b.channel_order ? b.channel_order + t.head * b.dim : NULL;
    uint32_t vectors = b.k.per_token ? channel_groups(b) : n, scales = n_scales(b, b.k);
    for (uint32_t unit = threadIdx.x / LANES; unit < (ROWS * vectors + 1) / 2 * 2;
         unit += THREADS / LANES) {
        uint32_t r = unit / vectors, vector = unit % vectors,
                 from = b.k.per_token ? vector * b.group_channels : 0;
        uint32_t length = unit >= ROWS * vectors            ? 0
                          : !b.k.per_token                  ? b.dim
                          : b.dim - from < b.group_channels ? b.dim - from
                                                            : b.group_channels;
        const unsigned char *record_scales =
            record(b, b.k, t.head, b.k.per_token ? first : first + vector) + b.k.code_bytes;
        size_t offset = (size_t)r * w.folded + (b.k.per_token ? from : vector * b.dim);
        auto q = [&](uint32_t i) {
            return w.q[(channel ? channel[from + i] : from + i) * ROWS + r];
        };
        auto levels = [&](uint32_t i) { return key_levels(b.quads[t.head], from + i); };
        auto fold_vector = [&](auto load, auto value, auto add) {
            fold(w.high + offset, w.low + offset, &w.step[r][vector], &w.base[r][vector],
                 &w.correction[r][vector], length, is_wide(b.k.bits), load, value, levels, add);
        };
        if (b.k.per_token)
            fold_vector(
                q, [](uint32_t, float q) { return q; },
                [](float sum, uint32_t, float q) { return sum + q; });
        else
            fold_vector(
                [&](uint32_t i) { return raw_scaling_at(b, record_scales, scales, i); },
                [&](uint32_t i, const struct raw_scaling &s) { return q(i) * scale_of(b, s); },
                [&](float sum, uint32_t i, const struct raw_scaling &s) {
                    return fmaf(q(i), mid_of(b, s), sum);
                });
    }
}

/* The sum of x (2 c - (L - 1)), from the sums of products of c with the bytes of x. */
static __device__ float centered(int32_t high, int32_t low, bool wide, int32_t correction)
{
    uint32_t all = wide ? 128 * (uint32_t)high + (uint32_t)low : (uint32_t)high;
    return (float)(int32_t)(2 * all - (uint32_t)correction);
}

/* w.p = scores of n blocks, tft_score_codes_fn: a thread has one token of a block. */
template <uint32_t ROWS, bool wide, bool per_token>
static __device__ void score_codes(const struct workspace<ROWS> &w, const struct attention &a,
                                   const struct tile &t, uint32_t first, uint32_t n)
{
    const struct tft_cuda_blocks &b = a.blocks;
    uint32_t block = threadIdx.x / b.block_tokens, token = threadIdx.x % b.block_tokens,
             row = token % TFT_PANEL, scales = n_scales(b, b.k);
    float factor = 1.0f / sqrtf((float)b.dim), s[ROWS] = {};
    int32_t high[ROWS] = {}, low[ROWS] = {};
    if (block >= n)
        return;
    const unsigned char *codes = record(b, b.k, t.head, first + block),
                        *own = codes + b.k.code_bytes;
    codes += token / TFT_PANEL * (b.k.code_bytes / (b.block_tokens / TFT_PANEL));
    uint32_t offset = per_token ? 0 : block * b.dim, d = 0;
    for (uint32_t bits = 0; bits < TFT_BITS_COUNT; bits++)
        codes = each_quad<(ROWS > 8 || wide ? 1 : 4)>(
            (enum tft_bits)bits, b.quads[t.head][bits], codes, row, [&](uint32_t, uint32_t four) {
                UNROLL
                for (uint32_t r = 0; r < ROWS; r++) {
                    high[r] = dot4(four, *(const uint32_t *)(w.high + r * w.folded + offset + d),
                                   high[r]);
                    if (wide)
                        low[r] = dot4(four, *(const uint32_t *)(w.low + r * w.folded + offset + d),
                                      low[r]);
                }
                d += TFT_QUAD;
                if (!per_token || (d % b.group_channels && d < b.dim))
                    return;
                uint32_t g = (d - 1) / b.group_channels;
                float scale = scale_or_mid(b, own, scales, g * b.block_tokens + token);
                float mid = scale_or_mid(b, own, scales, scales + g * b.block_tokens + token);
                UNROLL
                for (uint32_t r = 0; r < ROWS; r++) {
                    s[r] = fmaf(centered(high[r], low[r], wide, w.correction[r][g]) *
                                    (w.step[r][g] / 2),
                                scale, s[r]);
                    s[r] = fmaf(w.base[r][g], mid, s[r]);
                    high[r] = low[r] = 0;
                }
            });
    UNROLL
    for (uint32_t r = 0; r < ROWS; r++) {
        if (!per_token)
            s[r] = fmaf(centered(high[r], low[r], wide, w.correction[r][block]),
                        w.step[r][block] / 2, w.base[r][block]);
        w.p[r][threadIdx.x] = s[r] * factor;
    }
}

/* Folds the probabilities for a span of n blocks, from block `first` on. Scales per token: a vector
   for each group of channels, the probabilities times its scales. Scales per channel: a vector for
   each block. */
template <uint32_t ROWS>
static __device__ void fold_probabilities(const struct workspace<ROWS> &w,
                                          const struct attention &a, const struct tile &t,
                                          uint32_t first, uint32_t n)
{
    const struct tft_cuda_blocks &b = a.blocks;
    uint32_t vectors = b.v.per_token ? channel_groups(b) : n, scales = n_scales(b, b.v);
    for (uint32_t unit = threadIdx.x / LANES; unit < (ROWS * vectors + 1) / 2 * 2;
         unit += THREADS / LANES) {
        uint32_t r = unit / vectors, vector = unit % vectors,
                 from = b.v.per_token ? 0 : vector * b.block_tokens;
        uint32_t length = unit >= ROWS * vectors ? 0
                          : b.v.per_token        ? n * b.block_tokens
                                                 : b.block_tokens;
        size_t offset = (size_t)r * w.folded + (b.v.per_token ? vector * SPAN : from);
        auto p = [&](uint32_t i) { return w.p[r][from + i]; };
        auto levels = [&](uint32_t) { return tft_bits_levels((enum tft_bits)b.v.bits); };
        auto fold_vector = [&](auto load, auto value, auto add) {
            fold(w.high + offset, w.low + offset, &w.step[r][vector], &w.base[r][vector],
                 &w.correction[r][vector], length, is_wide(b.v.bits), load, value, levels, add);
        };
        auto load_scaling = [&](uint32_t i) {
            return raw_scaling_at(
                b, record(b, b.v, t.head, first + i / b.block_tokens) + b.v.code_bytes, scales,
                vector * b.block_tokens + i % b.block_tokens);
        };
        if (b.v.per_token)
            fold_vector(
                load_scaling,
                [&](uint32_t i, const struct raw_scaling &s) { return p(i) * scale_of(b, s); },
                [&](float sum, uint32_t i, const struct raw_scaling &s) {
                    return fmaf(p(i), mid_of(b, s), sum);
                });
        else
            fold_vector(
                p, [](uint32_t, float p) { return p; },
                [](float sum, uint32_t, float p) { return sum + p; });
    }
}

/* Mixes the values of n blocks, tft_mix_codes_fn: a thread has one channel of 4 rows. */
template <uint32_t ROWS, bool wide>
static __device__ void mix_codes(const struct workspace<ROWS> &w, const struct attention &a,
                                 const struct tile &t, uint32_t first, uint32_t n, bool blend)
{
    const struct tft_cuda_blocks &b = a.blocks;
    uint32_t dim = b.dim, panels = (dim + TFT_PANEL - 1) / TFT_PANEL, scales = n_scales(b, b.v);
    for (uint32_t unit = threadIdx.x; unit < ROWS / 4 * dim; unit += THREADS) {
        uint32_t d = unit % dim, r = unit / dim * 4, g = d / b.group_channels;
        float o[4] = {};
        int32_t high[4] = {}, low[4] = {};
        const int8_t *x = w.high + r * w.folded + (b.v.per_token ? g * SPAN : 0),
                     *x_low = x + (w.low - w.high);
        for (uint32_t i = 0; i < n; i++, x += b.block_tokens, x_low += b.block_tokens) {
            const unsigned char *codes = record(b, b.v, t.head, first + i),
                                *own = codes + b.v.code_bytes;
            const unsigned char *panel = codes + d / TFT_PANEL * (b.v.code_bytes / panels);
            each_quad<(ROWS > 8 || wide ? 1 : 4)>(
                (enum tft_bits)b.v.bits, b.block_tokens / TFT_QUAD, panel, d % TFT_PANEL,
                [&](uint32_t q, uint32_t four) {
                    UNROLL
                    for (uint32_t k = 0; k < 4; k++) {
                        high[k] = dot4(four, *(const uint32_t *)(x + k * w.folded + q * TFT_QUAD),
                                       high[k]);
                        if (wide)
                            low[k] = dot4(four,
                                          *(const uint32_t *)(x_low + k * w.folded + q * TFT_QUAD),
                                          low[k]);
                    }
                });
            if (b.v.per_token)
                continue;
            float scale = scale_or_mid(b, own, scales, d),
                  mid = scale_or_mid(b, own, scales, scales + d);
            UNROLL
            for (uint32_t k = 0; k < 4; k++) {
                o[k] = fmaf(centered(high[k], low[k], wide, w.correction[r + k][i]) *
                                (w.step[r + k][i] / 2),
                            scale, o[k]);
                o[k] = fmaf(w.base[r + k][i], mid, o[k]);
                high[k] = low[k] = 0;
            }
        }
        UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            if (b.v.per_token)
                o[k] = o[k] + fmaf(centered(high[k], low[k], wide, w.correction[r + k][g]),
                                   w.step[r + k][g] / 2, w.base[r + k][g]);
            if (r + k < t.n)
                store_mixed(w, r + k, (r + k) * dim + d, o[k], blend);
        }
    }
}

/* Mixes the values of n blocks of f16. */
template <uint32_t ROWS>
static __device__ void mix_f16(const struct workspace<ROWS> &w, const struct attention &a,
                               const struct tile &t, uint32_t first, uint32_t n, bool blend)
{
    uint32_t dim = a.blocks.dim, block = a.blocks.block_tokens;
    for (uint32_t unit = threadIdx.x; unit < ROWS / 4 * dim; unit += THREADS) {
        uint32_t d = unit % dim, r = unit / dim * 4;
        float o[4] = {};
        for (uint32_t i = 0; i < n; i++)
            chain<ROWS>(o, w.p[r] + i * block,
                        (const uint16_t *)record(a.blocks, a.blocks.v, t.head, first + i) + d,
                        block, dim);
        UNROLL
        for (uint32_t k = 0; k < 4; k++)
            if (r + k < t.n)
                store_mixed(w, r + k, (r + k) * dim + d, o[k], blend);
    }
}

/* The scores of n blocks of f16 keys. */
template <uint32_t ROWS>
static __device__ void score_f16(const struct workspace<ROWS> &w, const struct attention &a,
                                 const struct tile &t, uint32_t first, uint32_t n)
{
    uint32_t block = threadIdx.x / a.blocks.block_tokens,
             token = threadIdx.x % a.blocks.block_tokens, dim = a.blocks.dim;
    const uint16_t *k = (const uint16_t *)record(a.blocks, a.blocks.k, t.head, first + block);
    score<ROWS, uint16_t>(
        w, block < n ? k + (token - token % TFT_KEY_PANEL) * dim + token % TFT_KEY_PANEL : NULL,
        dim);
}

/* w.p = scores of span i of the blocks. Every row attends to all tokens in blocks. */
template <uint32_t ROWS>
static __device__ void score_blocks(const struct workspace<ROWS> &w, const struct attention &a,
                                    const struct tile &t, uint32_t i)
{
    struct span span = span_of(a, K, i);
    if (a.blocks.k.bits == TFT_BITS_COUNT) {
        score_f16<ROWS>(w, a, t, span.first, span.n);
    } else {
        bool wide = is_wide(a.blocks.k.bits), per_token = a.blocks.k.per_token;
        fold_queries<ROWS>(w, a, t, span.first, span.n);
        __syncthreads();
        if (wide && per_token)
            score_codes<ROWS, true, true>(w, a, t, span.first, span.n);
        else if (wide)
            score_codes<ROWS, true, false>(w, a, t, span.first, span.n);
        else if (per_token)
            score_codes<ROWS, false, true>(w, a, t, span.first, span.n);
        else
            score_codes<ROWS, false, false>(w, a, t, span.first, span.n);
    }
    __syncthreads();
}

/* Mixes the values of span i of the blocks. */
template <uint32_t ROWS>
static __device__ void mix_blocks(const struct workspace<ROWS> &w, const struct attention &a,
                                  const struct tile &t, uint32_t i, bool blend)
{
    struct span span = span_of(a, V, i);
    if (a.blocks.v.bits == TFT_BITS_COUNT) {
        mix_f16<ROWS>(w, a, t, span.first, span.n, blend);
    } else {
        fold_probabilities<ROWS>(w, a, t, span.first, span.n);
        __syncthreads();
        if (is_wide(a.blocks.v.bits))
            mix_codes<ROWS, true>(w, a, t, span.first, span.n, blend);
        else
            mix_codes<ROWS, false>(w, a, t, span.first, span.n, blend);
    }
    __syncthreads();
}

/* --------------------------------------------------------------------------------------- result */


/* y[m][i] = o / sum, as a float or quantized to a byte. */
static __device__ void store_output(const struct tft_cuda_rows &y, uint32_t m, uint32_t i, float o,
                                    float sum)
{
    float v = o * (1.0f / sum);
    if (y.bytes)
        y.bytes[m * y.ld + i] = tft_affine_byte(v, &y.affine[m * y.affine_step]);
    else
        y.floats[m * y.ld + i] = v;
}

#endif
