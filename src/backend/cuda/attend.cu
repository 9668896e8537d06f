/*
 * Attention over the slots and the blocks of codes of the cache (kv/kv.h), with the bits of
 * backend/cpu/attend.c. Positions are taken in spans of 256. For each span:
 *
 *      scores         tft_score_fn: a thread has one position and sums over the channels in order
 *      softmax        tft_softmax_fn: a warp has one row; 16 lanes sum in dot16's order
 *      mix            tft_mix_fn: a thread has one channel and sums over the positions in order
 *      merge          tft_blend_fn: the span joins the spans before it, in the order of positions
 *
 * On codes, scores and mix are exact sums of integers (tft_score_codes_fn, tft_mix_codes_fn), after
 * the queries or the probabilities have been folded to integers.
 *
 * A row is one query: row i of a KV head is query head i % group of token i / group, where `group`
 * query heads share the KV head. A thread block has ROWS rows of one KV head, a tile, of the tokens
 * of a chunk. The two kernels are at the end:
 *
 *      attend_tiles   more tokens: a thread block goes through all spans of its tile
 *      attend_split   one token: a thread block has one span, and the last one merges all of them
 */
#include <math.h>

#include "simd/affine.h"
#include "codes.cuh"

static constexpr uint32_t SPAN = 256, THREADS = SPAN, WARP = 32, LANES = 16;

template <typename Num>
static __device__ float to_float(const Num *x);
template <>
__device__ float to_float<float>(const float *x)
{
    return *x;
}
template <>
__device__ float to_float<uint16_t>(const uint16_t *x)
{
    return tft_f16_to_f32(*x);
}

/* ------------------------------------------------------------------------ work of thread blocks */

/* The arguments of tft_cuda_attend. */
struct attention {
    struct tft_cuda_rows y;
    struct tft_cuda_slots slots;
    struct tft_cuda_blocks blocks;
    struct tft_cuda_partials partials;
    const float *q;
    size_t ldq;
    uint32_t H, M, skip;
    const struct tft_cuda_start *start;
};

/* The most vectors of a row that are folded for a span: one for each block or for each group of
   channels, of at least 16 tokens or channels. */
static constexpr uint32_t FOLDS = 16;

/* Shared memory of a thread block. Rows are read four at a time: ROWS is a multiple of 4. */
template <uint32_t ROWS> struct workspace {
    float (*p)[SPAN];               /* [ROWS, SPAN] scores, then probabilities */
    float *q;                       /* [E, ROWS] queries */
    float *o;                       /* [ROWS, E] result of the spans so far */
    float *max, *sum;               /* [ROWS] of the spans so far */
    float *old_weight, *new_weight; /* [ROWS] factors of the spans so far and of the new span */

    /* If the cache has codes: vectors folded to integers x = 128 high + low. `low` is used only if
       codes have 8 bits. A folded vector stands for x * step. */
    int8_t *high, *low;           /* [ROWS, folded] */
    float (*step)[FOLDS];         /* [ROWS] */
    float (*base)[FOLDS];         /* [ROWS] the part of the result that the middles make */
    int32_t (*correction)[FOLDS]; /* [ROWS] the sum of x (L - 1), since the sum of
                                     x (2 c - (L - 1)) is that of 2 x c less the correction */
    uint32_t folded;
};

/* Numbers of a row that are folded for a span. Queries: one vector of channels, or one for each
   block if scales are per channel. Probabilities: one vector of positions, or one for each group of
   channels if scales are per token. */
static inline __host__ __device__ uint32_t folded_numbers(const struct tft_cuda_blocks &b)
{
    if (!b.dim)
        return 0;
    uint32_t k = b.k.per_token ? b.dim : SPAN / b.block_tokens * b.dim,
             v = b.v.per_token ? channel_groups(b) * SPAN : SPAN;
    return k > v ? k : v;
}

template <uint32_t ROWS>
static size_t workspace_bytes(const struct attention &a)
{
    size_t own = sizeof(float) * ROWS * (SPAN + 2 * a.slots.dim + 4);
    return own +
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
    w.step = (float (*)[FOLDS])(w.new_weight + ROWS);
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
    uint32_t slot;   /* of the token of row 0 */
};

/* How many slots, from slot `start` on and at most a span, row i of the tile attends to. */
static __device__ uint32_t visible(const struct tile &t, uint32_t i, uint32_t start)
{
    uint32_t end = t.slot + (t.row + i) / t.group + 1;
    return end <= start ? 0 : end - start < SPAN ? end - start : SPAN;
}

/* w.q = the tile's queries; zeros for rows that it does not have. */
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
   *new_weight become the factors by which the spans so far and this span are blended. */
static __device__ void softmax(float *p, uint32_t n, bool blend, float *max, float *sum,
                               float *old_weight, float *new_weight)
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

/* w.p = scores of a span, tft_score_fn: a thread has one position. k: the key of that position,
   whose channels are TFT_KEY_PANEL apart; NULL if the thread has none */
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
   see different numbers of slots: those that all 4 see come first, together. */
template <uint32_t ROWS, typename Num>
static __device__ void mix_slots(const struct workspace<ROWS> &w, const struct attention &a,
                                 const struct tile &t, uint32_t start, bool blend)
{
    uint32_t dim = a.slots.dim;
    const Num *values = (const Num *)a.slots.v + ((size_t)t.head * a.slots.capacity + start) * dim;
    for (uint32_t unit = threadIdx.x; unit < ROWS / 4 * dim; unit += THREADS) {
        uint32_t d = unit % dim, r = unit / dim * 4, n[4], common = SPAN;
        const Num *v = values + d;
        float o[4] = {};
        if (r >= t.n)
            continue;
        UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            n[k] = r + k < t.n ? visible(t, r + k, start) : 0;
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
}

/* All of a span of slots, from slot `start` on. */
template <uint32_t ROWS, typename Num>
static __device__ void attend_slots(const struct workspace<ROWS> &w, const struct attention &a,
                                    const struct tile &t, uint32_t start, bool blend)
{
    uint32_t dim = a.slots.dim, slot = start + threadIdx.x, column = slot % TFT_KEY_PANEL;
    const Num *k =
        (const Num *)a.slots.k + ((size_t)t.head * a.slots.capacity + slot - column) * dim + column;
    score<ROWS, Num>(w, threadIdx.x < visible(t, t.n - 1, start) ? k : NULL, dim);
    __syncthreads();
    for (uint32_t r = threadIdx.x / WARP; r < t.n; r += THREADS / WARP) {
        uint32_t n = visible(t, r, start);
        if (n)
            softmax(w.p[r], n, blend, &w.max[r], &w.sum[r], &w.old_weight[r], &w.new_weight[r]);
    }
    __syncthreads();
    mix_slots<ROWS, Num>(w, a, t, start, blend);
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
 * vector has n numbers value(i, load(i)): `load` only reads memory, so that reads can be ahead.
 * n may be 0, for lanes that have no vector but must take part in the shuffles.
 *
 *      levels(i)             L of the codes that number i is multiplied by
 *      add(base, i, load(i)) adds what number i contributes to the float part, in dot16's order
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
    const uint8_t *channel = b.channel_order ? b.channel_order + t.head * b.dim : NULL;
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

/* The same if the values in blocks are f16. */
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

/* The scores of n blocks if the keys in blocks are f16. */
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

/* All of span i of the blocks. Every row attends to all tokens in blocks. */
template <uint32_t ROWS>
static __device__ void attend_blocks(const struct workspace<ROWS> &w, const struct attention &a,
                                     const struct tile &t, uint32_t i, bool blend)
{
    uint32_t span_blocks = SPAN / a.blocks.block_tokens, first = i * span_blocks,
             left = a.start->blocks - first, n = left < span_blocks ? left : span_blocks;
    if (a.blocks.k.bits == TFT_BITS_COUNT) {
        score_f16<ROWS>(w, a, t, first, n);
    } else {
        bool wide = is_wide(a.blocks.k.bits), per_token = a.blocks.k.per_token;
        fold_queries<ROWS>(w, a, t, first, n);
        __syncthreads();
        if (wide && per_token)
            score_codes<ROWS, true, true>(w, a, t, first, n);
        else if (wide)
            score_codes<ROWS, true, false>(w, a, t, first, n);
        else if (per_token)
            score_codes<ROWS, false, true>(w, a, t, first, n);
        else
            score_codes<ROWS, false, false>(w, a, t, first, n);
    }
    __syncthreads();
    for (uint32_t r = threadIdx.x / WARP; r < t.n; r += THREADS / WARP)
        softmax(w.p[r], n * a.blocks.block_tokens, blend, &w.max[r], &w.sum[r], &w.old_weight[r],
                &w.new_weight[r]);
    __syncthreads();
    if (a.blocks.v.bits == TFT_BITS_COUNT) {
        mix_f16<ROWS>(w, a, t, first, n, blend);
    } else {
        fold_probabilities<ROWS>(w, a, t, first, n);
        __syncthreads();
        if (is_wide(a.blocks.v.bits))
            mix_codes<ROWS, true>(w, a, t, first, n, blend);
        else
            mix_codes<ROWS, false>(w, a, t, first, n, blend);
    }
    __syncthreads();
}

/* Spans of blocks that the chunk attends to. */
static __device__ uint32_t block_spans(const struct attention &a)
{
    return a.blocks.dim ? (a.start->blocks * a.blocks.block_tokens + SPAN - 1) / SPAN : 0;
}

/* ------------------------------------------------------------------------------------ the whole */

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

/* More than one token. Thread blocks: blockIdx.x is the KV head, blockIdx.y the tile. Slots come
   before blocks, as on the CPU. */
template <uint32_t ROWS, typename Num, bool CODED>
static __global__ void __launch_bounds__(THREADS, 2) attend_tiles(struct attention a)
{
    struct workspace<ROWS> w = take_workspace<ROWS>(a);
    uint32_t dim = a.slots.dim, group = a.H / a.slots.heads, row = blockIdx.y * ROWS,
             left = a.M * group - row;
    struct tile t = {blockIdx.x, row, left < ROWS ? left : ROWS, group, a.start->slot + a.skip};
    load_queries(w, a, t);
    __syncthreads();
    uint32_t end = t.slot + (t.row + t.n - 1) / group + 1;
    for (uint32_t start = 0; start < end; start += SPAN)
        attend_slots<ROWS, Num>(w, a, t, start, start > 0);
    for (uint32_t i = 0; CODED && i < block_spans(a); i++)
        attend_blocks<ROWS>(w, a, t, i, true);
    for (uint32_t i = threadIdx.x; i < t.n * dim; i += THREADS) {
        uint32_t of = t.row + i / dim;
        store_output(a.y, of / group, (t.head * group + of % group) * dim + i % dim, w.o[i],
                     w.sum[i / dim]);
    }
}

/* Merges the partial results of the tile's rows in order: `slots` spans of slots, then `blocks`
   spans of blocks. A thread has one channel of one row. */
static __device__ void merge(const struct attention &a, const struct tile &t, uint32_t slots,
                             uint32_t blocks)
{
    uint32_t dim = a.slots.dim, spans = a.partials.slot_spans + a.partials.block_spans;
    for (uint32_t unit = threadIdx.x; unit < t.n * dim; unit += THREADS) {
        uint32_t head = t.head * t.group + t.row + unit / dim, d = unit % dim;
        const float *max = a.partials.max + (size_t)head * spans,
                    *sum = a.partials.sum + (size_t)head * spans;
        const float *o = a.partials.o + (size_t)head * spans * dim + d;
        float top = max[0], total = sum[0], v = o[0];
        for (uint32_t i = 1; i < slots + blocks; i++) {
            uint32_t b = i < slots ? i : a.partials.slot_spans + i - slots;
            float both = top > max[b] ? top : max[b], old = tft_expf(top - both),
                  now = tft_expf(max[b] - both);
            v = fmaf(o[b * dim], now, v * old);
            total = fmaf(sum[b], now, total * old);
            top = both;
        }
        store_output(a.y, 0, head * dim + d, v, total);
    }
}

/* Counts this thread block in *done. Returns whether it is the last of n, which then sees all that
   the others wrote; *done is 0 again after that. */
static __device__ bool is_last(uint32_t *done, uint32_t n)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(done, 1) + 1 == n;
        if (last)
            *done = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

/* One token. Thread blocks: blockIdx.x is the KV head, blockIdx.y the tile, blockIdx.z the span. A
   recorded graph may have more spans than the token attends to: those thread blocks end at once. Of
   the others, the last one to finish merges the spans of the tile. */
template <uint32_t ROWS, typename Num, bool CODED>
static __global__ void __launch_bounds__(THREADS, 2) attend_split(struct attention a)
{
    uint32_t dim = a.slots.dim, group = a.H / a.slots.heads, row = blockIdx.y * ROWS,
             left = group - row, slot = a.start->slot + a.skip;
    uint32_t span = blockIdx.z, spans = a.partials.slot_spans + a.partials.block_spans,
             slots = slot / SPAN + 1, blocks = CODED ? block_spans(a) : 0;
    bool coded = CODED && span >= a.partials.slot_spans;
    if (coded ? span - a.partials.slot_spans >= blocks : span >= slots)
        return;
    struct workspace<ROWS> w = take_workspace<ROWS>(a);
    struct tile t = {blockIdx.x, row, left < ROWS ? left : ROWS, group, slot};
    load_queries(w, a, t);
    __syncthreads();
    if (coded)
        attend_blocks<ROWS>(w, a, t, span - a.partials.slot_spans, false);
    else
        attend_slots<ROWS, Num>(w, a, t, span * SPAN, false);
    uint32_t head = t.head * group + row;
    size_t first = (size_t)head * spans + span;
    for (uint32_t i = threadIdx.x; i < t.n * dim; i += THREADS)
        a.partials.o[(first + i / dim * spans) * dim + i % dim] = w.o[i];
    if (threadIdx.x < t.n) {
        a.partials.max[first + threadIdx.x * spans] = w.max[threadIdx.x];
        a.partials.sum[first + threadIdx.x * spans] = w.sum[threadIdx.x];
    }
    if (is_last(a.partials.done + head, slots + blocks))
        merge(a, t, slots, blocks);
}

template <uint32_t ROWS, typename Num, bool CODED>
static void launch_tiles(cudaStream_t stream, const struct attention &a)
{
    uint32_t tiles = (a.M * (a.H / a.slots.heads) + ROWS - 1) / ROWS;
    launch(stream, attend_tiles<ROWS, Num, CODED>, dim3(a.slots.heads, tiles), THREADS,
           workspace_bytes<ROWS>(a), a);
}

template <uint32_t ROWS, typename Num, bool CODED>
static void launch_split(cudaStream_t stream, const struct attention &a)
{
    dim3 blocks(a.slots.heads, (a.H / a.slots.heads + ROWS - 1) / ROWS,
                a.partials.slot_spans + a.partials.block_spans);
    launch(stream, attend_split<ROWS, Num, CODED>, blocks, THREADS, workspace_bytes<ROWS>(a), a);
}

/* Chooses ROWS: enough for the rows there are, as long as the workspace fits in 64 KiB, the shared
   memory of sm_75. 4 rows always fit, even of heads of 256 channels and 8-bit codes. */
template <typename Num, bool CODED>
static void attend(cudaStream_t stream, const struct attention &a)
{
    constexpr size_t max_bytes = 64 << 10;
    uint32_t rows = a.M * (a.H / a.slots.heads);
    if (a.M == 1 && rows > 4 && workspace_bytes<8>(a) <= max_bytes)
        launch_split<8, Num, CODED>(stream, a);
    else if (a.M == 1)
        launch_split<4, Num, CODED>(stream, a);
    else if (rows > 16 && workspace_bytes<32>(a) <= max_bytes)
        launch_tiles<32, Num, CODED>(stream, a);
    else if (rows > 4 && workspace_bytes<16>(a) <= max_bytes)
        launch_tiles<16, Num, CODED>(stream, a);
    else
        launch_tiles<4, Num, CODED>(stream, a);
}

void tft_cuda_attend(cudaStream_t stream, const struct tft_cuda_rows *y, const float *q, size_t ldq,
                     const struct tft_cuda_slots *slots, const struct tft_cuda_blocks *blocks,
                     uint32_t H, uint32_t M, uint32_t skip, const struct tft_cuda_start *start,
                     const struct tft_cuda_partials *partials)
{
    struct attention a = {*y, *slots, {}, *partials, q, ldq, H, M, skip, start};
    if (blocks) {
        a.blocks = *blocks;
        attend<uint16_t, true>(stream, a);
    } else if (slots->num == TFT_NUM_F16) {
        attend<uint16_t, false>(stream, a);
    } else {
        attend<float, false>(stream, a);
    }
}
