/*
 * Attention over the cache, slots (kv.h) and blocks of codes (coded.h): attend.c, whose orders are
 * kept to the bit. A span's scores are chains over the channels, a position to each thread; its
 * exponentials are added up in dot16's order by 16 lanes; its values are chains over the positions,
 * a channel to each thread; and spans are merged in the order of their positions. On codes both are
 * sums of integers (tft_score_codes_fn, tft_mix_codes_fn), once the other factor has been folded.
 *
 * Queries that share a KV head are rows: row i is that of token i / group, query head i % group of
 * it. A block has ROWS of them.
 */
#include <math.h>

#include "simd/affine.h"
#include "codes.cuh"

static constexpr uint32_t SPAN = 256, THREADS = SPAN, WARP = 32, LANES = 16;

template <typename Num> static __device__ float number(const Num *x);
template <> __device__ float number<float>(const float *x)
{
    return *x;
}
template <> __device__ float number<uint16_t>(const uint16_t *x)
{
    return tft_f16_to_f32(*x);
}

/* ------------------------------------------------------------------------------- a block's work */

struct job {
    struct tft_cuda_rows y;
    struct tft_cuda_slots slots;
    struct tft_cuda_blocks blocks;
    struct tft_cuda_partials partials;
    const float *q;
    size_t ldq;
    uint32_t H, M, skip;
    const struct tft_cuda_start *start;
};

/* Vectors that are folded for a row at most: one for each block of a span, or for each group of
   channels. */
static constexpr uint32_t FOLDS = 16;

/* The block's memory. 4 rows are read at once, so ROWS is a multiple of that. */
template <uint32_t ROWS> struct workspace {
    float (*p)[SPAN]; /* [ROWS, SPAN] scores, then probabilities */
    float *q;         /* [E, ROWS] */
    float *o;         /* [ROWS, E] the spans so far */
    float *max, *sum; /* [ROWS] of them, */
    float *old, *now; /* and what they and the new one are multiplied by */

    /* where there are codes: vectors folded to integers, by their bytes: x = 128 high + low, low
       only where codes have 8 bits */
    int8_t *high, *low;       /* [ROWS, folded] */
    float (*step)[FOLDS], (*base)[FOLDS]; /* [ROWS] */
    int32_t (*less)[FOLDS];   /* sum of x (L - 1), which makes a sum of x (2 c - (L - 1)) of one of
                                 2 x c */
    uint32_t folded;
};

/* Numbers that are folded for a row at once: of a query, a vector for each block; of probabilities,
   for each group of channels. */
static inline __host__ __device__ uint32_t folded_numbers(const struct tft_cuda_blocks &b)
{
    if (!b.dim)
        return 0;
    uint32_t k = b.k.per_token ? b.dim : SPAN / b.block_tokens * b.dim,
             v = b.v.per_token ? channel_groups(b) * SPAN : SPAN;
    return k > v ? k : v;
}

template <uint32_t ROWS> static size_t workspace_bytes(const struct job &j)
{
    size_t own = sizeof(float) * ROWS * (SPAN + 2 * j.slots.dim + 4);
    return own +
           (j.blocks.dim ? ROWS * (3 * FOLDS * sizeof(float) + 2 * folded_numbers(j.blocks)) : 0);
}

template <uint32_t ROWS>
static __device__ struct workspace<ROWS> take_workspace(const struct job &j) {
    struct workspace<ROWS> w;
    uint32_t dim = j.slots.dim;
    float *at = (float *)tft_shared();
    w.p = (float(*)[SPAN])at;
    w.q = at + ROWS * SPAN;
    w.o = w.q + ROWS * dim;
    w.max = w.o + ROWS * dim;
    w.sum = w.max + ROWS;
    w.old = w.sum + ROWS;
    w.now = w.old + ROWS;
    w.step = (float(*)[FOLDS])(w.now + ROWS);
    w.base = w.step + ROWS;
    w.less = (int32_t(*)[FOLDS])(w.base + ROWS);
    w.folded = folded_numbers(j.blocks);
    w.high = (int8_t *)(w.less + ROWS);
    w.low = w.high + ROWS * w.folded;
    return w;
}

/* The rows of a block: of KV head `head`, from row `row` on, n of them. */
struct tile {
    uint32_t head, row, n, group, slot; /* slot: of token 0 */
};

/* Slots of the span at `start` that row i of the tile may see. */
static __device__ uint32_t visible(const struct tile &t, uint32_t i, uint32_t start)
{
    uint32_t end = t.slot + (t.row + i) / t.group + 1;
    return end <= start ? 0 : end - start < SPAN ? end - start : SPAN;
}

template <uint32_t ROWS>
static __device__ void load_queries(const struct workspace<ROWS> &w, const struct job &j,
                                    const struct tile &t)
{
    uint32_t dim = j.slots.dim;
    for (uint32_t i = threadIdx.x; i < ROWS * dim; i += THREADS) {
        uint32_t r = i / dim, d = i % dim, row = t.row + r;
        w.q[d * ROWS + r] =
            r < t.n ? j.q[row / t.group * j.ldq + (t.head * t.group + row % t.group) * dim + d] : 0;
    }
}

/* A row to each warp in turn: tft_softmax_fn of the first n of p, and what the span and those
   before it are merged by. */
static __device__ void softmax(float *p, uint32_t n, bool begun, float *max, float *sum, float *old,
                               float *now)
{
    uint32_t lane = threadIdx.x % WARP;
    float top = p[0], total = 0;
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
    for (unsigned half = LANES / 2; half; half /= 2) /* sum16 */
        total += __shfl_down_sync(0xffffffff, total, half);
    if (lane)
        return;
    if (begun) {
        float both = *max > top ? *max : top;
        *old = tft_expf(*max - both);
        *now = tft_expf(top - both);
        *sum = fmaf(total, *now, *sum * *old);
        *max = both;
    } else {
        *sum = total;
        *max = top;
    }
}

/* A span of a row, mixed in o, joins those before: tft_blend_fn */
template <uint32_t ROWS>
static __device__ void join(const struct workspace<ROWS> &w, uint32_t r, uint32_t at, float o,
                            bool begun)
{
    w.o[at] = begun ? fmaf(o, w.now[r], w.o[at] * w.old[r]) : o;
}

/* --------------------------------------------------------------------------------------- floats */

/* p = scores of the span, a position to each thread: tft_score_fn. k: the key of the thread's,
   whose channels are a panel's columns apart; NULL: none */
template <uint32_t ROWS, typename Num>
static __device__ void score(const struct workspace<ROWS> &w, const Num *k, uint32_t dim)
{
    float factor = 1.0f / sqrtf((float)dim), s[ROWS] = {};
    ahead<(ROWS > 8 ? 4 : 16)>(
        k ? dim : 0, [=](uint32_t d) { return k[d * TFT_KEY_PANEL]; },
        [&](uint32_t d, Num number_of_key) {
            float key = number(&number_of_key);
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

/* o = fma(p, v, o) over n positions, a multiple of 4, `dim` apart: tft_mix_fn. p: of 4 rows, SPAN
   apart */
template <uint32_t ROWS, typename Num>
static __device__ void chain(float o[4], const float *p, const Num *v, uint32_t n, uint32_t dim)
{
    struct four {
        Num x[4];
    };
    ahead<(ROWS > 8 ? 2 : 4)>(
        n / 4,
        [=](uint32_t i) {
            return four{
                {v[4 * i * dim], v[(4 * i + 1) * dim], v[(4 * i + 2) * dim], v[(4 * i + 3) * dim]}};
        },
        [&](uint32_t i, four x) {
            UNROLL
            for (uint32_t k = 0; k < 4; k++) {
                float4 some = *(const float4 *)(p + k * SPAN + 4 * i);
                o[k] = fmaf(some.x, number(&x.x[0]), o[k]);
                o[k] = fmaf(some.y, number(&x.x[1]), o[k]);
                o[k] = fmaf(some.z, number(&x.x[2]), o[k]);
                o[k] = fmaf(some.w, number(&x.x[3]), o[k]);
            }
        });
}

/* The values of a span of slots. A channel of 4 rows to each thread. */
template <uint32_t ROWS, typename Num>
static __device__ void mix_slots(const struct workspace<ROWS> &w, const struct job &j,
                                 const struct tile &t, uint32_t start, bool begun)
{
    uint32_t dim = j.slots.dim;
    const Num *values = (const Num *)j.slots.v + ((size_t)t.head * j.slots.capacity + start) * dim;
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
                o[k] = fmaf(w.p[r + k][i], number(v + i * dim), o[k]);
            if (n[k])
                join(w, r + k, (r + k) * dim + d, o[k], begun);
        }
    }
}

template <uint32_t ROWS, typename Num>
static __device__ void attend_slots(const struct workspace<ROWS> &w, const struct job &j,
                                    const struct tile &t, uint32_t start, bool begun)
{
    uint32_t dim = j.slots.dim, slot = start + threadIdx.x, column = slot % TFT_KEY_PANEL;
    const Num *k = (const Num *)j.slots.k +
                   ((size_t)t.head * j.slots.capacity + slot - column) * dim + column;
    score<ROWS, Num>(w, threadIdx.x < visible(t, t.n - 1, start) ? k : NULL, dim);
    __syncthreads();
    for (uint32_t r = threadIdx.x / WARP; r < t.n; r += THREADS / WARP) {
        uint32_t n = visible(t, r, start);
        if (n)
            softmax(w.p[r], n, begun, &w.max[r], &w.sum[r], &w.old[r], &w.now[r]);
    }
    __syncthreads();
    mix_slots<ROWS, Num>(w, j, t, start, begun);
    __syncthreads();
}

/* ---------------------------------------------------------------------------------------- codes */

static __device__ bool is_wide(unsigned bits)
{
    return bits == TFT_BITS_8;
}

/* fold() of n numbers f(i, of(i)), by 16 lanes of a warp; those of the other half fold others.
   levels(i): L of the code that number i meets; add(base, i, of(i)): the sum of what is not folded,
   in dot16's order. n may be 0, for lanes that have nothing to do but wait. */
template <typename Of, typename F, typename Levels, typename Add>
static __device__ void fold(int8_t *high, int8_t *low, float *step, float *base, int32_t *less,
                            uint32_t n, bool wide, Of of, F f, Levels levels, Add add)
{
    constexpr uint32_t AHEAD = 4;
    uint32_t lane = threadIdx.x % LANES, own = (n + LANES - 1 - lane) / LANES;
    float most = 0, sum = 0, limit = wide ? TFT_FOLD_I16 : TFT_FOLD_I8;
    int32_t correction = 0;
    auto get = [&](uint32_t k) { return of(lane + k * LANES); };
    ahead<AHEAD>(own, get, [&](uint32_t k, const decltype(of(0)) &s) {
        float size = fabsf(f(lane + k * LANES, s));
        most = size > most ? size : most;
        sum = add(sum, lane + k * LANES, s);
    });
    for (unsigned half = LANES / 2; half; half /= 2) {
        float other = __shfl_xor_sync(0xffffffff, most, half);
        most = other > most ? other : most;
        sum += __shfl_down_sync(0xffffffff, sum, half);
    }
    bool sound = most >= TFT_FOLD_LEAST && most <= FLT_MAX;
    float inverse = sound ? limit / most : 0;
    ahead<AHEAD>(own, get, [&](uint32_t k, const decltype(of(0)) &s) {
        uint32_t i = lane + k * LANES;
        float v = f(i, s) * inverse;
        v = v > -limit ? v : -limit;
        int32_t x = (int32_t)rintf(v < limit ? v : limit), upper = wide ? (x + 64) >> 7 : x;
        high[i] = (int8_t)upper;
        if (wide)
            low[i] = (int8_t)(x - upper * 128);
        correction += x * (int32_t)(levels(i) - 1);
    });
    for (unsigned half = LANES / 2; half; half /= 2)
        correction += __shfl_xor_sync(0xffffffff, correction, half);
    if (lane || !n)
        return;
    *step = sound ? most / limit : 0;
    *base = sum;
    *less = correction;
}

/* Queries times scales, for each of n blocks; or queries, for each group of channels. */
template <uint32_t ROWS>
static __device__ void fold_queries(const struct workspace<ROWS> &w, const struct job &j,
                                    const struct tile &t, uint32_t first, uint32_t n)
{
    const struct tft_cuda_blocks &b = j.blocks;
    const uint8_t *channel = b.channel_order ? b.channel_order + t.head * b.dim : NULL;
    uint32_t parts = b.k.per_token ? channel_groups(b) : n, scales = n_scales(b, b.k);
    for (uint32_t unit = threadIdx.x / LANES; unit < (ROWS * parts + 1) / 2 * 2;
         unit += THREADS / LANES) {
        uint32_t r = unit / parts, part = unit % parts,
                 from = b.k.per_token ? part * b.group_channels : 0;
        uint32_t some = unit >= ROWS * parts              ? 0
                        : !b.k.per_token                  ? b.dim
                        : b.dim - from < b.group_channels ? b.dim - from
                                                          : b.group_channels;
        const unsigned char *record_scales =
            record(b, b.k, t.head, b.k.per_token ? first : first + part) + b.k.code_bytes;
        size_t at = (size_t)r * w.folded + (b.k.per_token ? from : part * b.dim);
        auto q = [&](uint32_t i) {
            return w.q[(channel ? channel[from + i] : from + i) * ROWS + r];
        };
        auto levels = [&](uint32_t i) { return key_levels(b.quads[t.head], from + i); };
        auto fold_part = [&](auto of, auto f, auto add) {
            fold(w.high + at, w.low + at, &w.step[r][part], &w.base[r][part], &w.less[r][part],
                 some, is_wide(b.k.bits), of, f, levels, add);
        };
        if (b.k.per_token)
            fold_part(
                q, [](uint32_t, float q) { return q; },
                [](float sum, uint32_t, float q) { return sum + q; });
        else
            fold_part(
                [&](uint32_t i) { return record_scaling(b, record_scales, scales, i); },
                [&](uint32_t i, const struct raw_scaling &s) { return q(i) * scale_of(b, s); },
                [&](float sum, uint32_t i, const struct raw_scaling &s) {
                    return fmaf(q(i), mid_of(b, s), sum);
                });
    }
}

/* The sum of x (2 c - (L - 1)), from the sums of products with the bytes of x. */
static __device__ float distance(int32_t high, int32_t low, bool wide, int32_t less)
{
    uint32_t all = wide ? 128 * (uint32_t)high + (uint32_t)low : (uint32_t)high;
    return (float)(int32_t)(2 * all - (uint32_t)less);
}

/* p = scores of n blocks, a token to each thread: tft_score_codes_fn */
template <uint32_t ROWS, bool wide, bool per_token>
static __device__ void score_codes(const struct workspace<ROWS> &w, const struct job &j,
                                   const struct tile &t, uint32_t first, uint32_t n)
{
    const struct tft_cuda_blocks &b = j.blocks;
    uint32_t block = threadIdx.x / b.block_tokens, token = threadIdx.x % b.block_tokens,
             row = token % TFT_PANEL, scales = n_scales(b, b.k);
    float factor = 1.0f / sqrtf((float)b.dim), s[ROWS] = {};
    int32_t high[ROWS] = {}, low[ROWS] = {};
    if (block >= n)
        return;
    const unsigned char *codes = record(b, b.k, t.head, first + block),
                        *own = codes + b.k.code_bytes;
    codes += token / TFT_PANEL * (b.k.code_bytes / (b.block_tokens / TFT_PANEL));
    uint32_t at = per_token ? 0 : block * b.dim, d = 0;
    for (uint32_t bits = 0; bits < TFT_BITS_COUNT; bits++)
        codes = each_quad<(ROWS > 8 || wide ? 1 : 4)>(
            (enum tft_bits)bits, b.quads[t.head][bits], codes, row, [&](uint32_t, uint32_t four) {
                UNROLL
                for (uint32_t r = 0; r < ROWS; r++) {
                    high[r] = dot4(four, *(const uint32_t *)(w.high + r * w.folded + at + d),
                                   high[r]);
                    if (wide)
                        low[r] = dot4(four, *(const uint32_t *)(w.low + r * w.folded + at + d),
                                      low[r]);
                }
                d += TFT_QUAD;
                if (!per_token || (d % b.group_channels && d < b.dim))
                    return;
                uint32_t g = (d - 1) / b.group_channels;
                float scale = record_scale(b, own, scales, g * b.block_tokens + token);
                float mid = record_scale(b, own, scales, scales + g * b.block_tokens + token);
                UNROLL
                for (uint32_t r = 0; r < ROWS; r++) {
                    s[r] = fmaf(distance(high[r], low[r], wide, w.less[r][g]) * (w.step[r][g] / 2),
                                scale, s[r]);
                    s[r] = fmaf(w.base[r][g], mid, s[r]);
                    high[r] = low[r] = 0;
                }
            });
    UNROLL
    for (uint32_t r = 0; r < ROWS; r++) {
        if (!per_token)
            s[r] = fmaf(distance(high[r], low[r], wide, w.less[r][block]), w.step[r][block] / 2,
                        w.base[r][block]);
        w.p[r][threadIdx.x] = s[r] * factor;
    }
}

/* Probabilities times scales, for each group of channels; or probabilities, for each of n
   blocks. */
template <uint32_t ROWS>
static __device__ void fold_probabilities(const struct workspace<ROWS> &w, const struct job &j,
                                          const struct tile &t, uint32_t first, uint32_t n)
{
    const struct tft_cuda_blocks &b = j.blocks;
    uint32_t parts = b.v.per_token ? channel_groups(b) : n, scales = n_scales(b, b.v);
    for (uint32_t unit = threadIdx.x / LANES; unit < (ROWS * parts + 1) / 2 * 2;
         unit += THREADS / LANES) {
        uint32_t r = unit / parts, part = unit % parts,
                 from = b.v.per_token ? 0 : part * b.block_tokens;
        uint32_t some = unit >= ROWS * parts ? 0
                        : b.v.per_token      ? n * b.block_tokens
                                             : b.block_tokens;
        size_t at = (size_t)r * w.folded + (b.v.per_token ? part * SPAN : from);
        auto p = [&](uint32_t i) { return w.p[r][from + i]; };
        auto levels = [&](uint32_t) { return tft_bits_levels((enum tft_bits)b.v.bits); };
        auto fold_part = [&](auto of, auto f, auto add) {
            fold(w.high + at, w.low + at, &w.step[r][part], &w.base[r][part], &w.less[r][part],
                 some, is_wide(b.v.bits), of, f, levels, add);
        };
        auto of_token = [&](uint32_t i) {
            return record_scaling(
                b, record(b, b.v, t.head, first + i / b.block_tokens) + b.v.code_bytes, scales,
                part * b.block_tokens + i % b.block_tokens);
        };
        if (b.v.per_token)
            fold_part(
                of_token,
                [&](uint32_t i, const struct raw_scaling &s) { return p(i) * scale_of(b, s); },
                [&](float sum, uint32_t i, const struct raw_scaling &s) {
                    return fmaf(p(i), mid_of(b, s), sum);
                });
        else
            fold_part(
                p, [](uint32_t, float p) { return p; },
                [](float sum, uint32_t, float p) { return sum + p; });
    }
}

/* The values of n blocks: tft_mix_codes_fn. A channel of 4 rows to each thread. */
template <uint32_t ROWS, bool wide>
static __device__ void mix_codes(const struct workspace<ROWS> &w, const struct job &j,
                                 const struct tile &t, uint32_t first, uint32_t n, bool begun)
{
    const struct tft_cuda_blocks &b = j.blocks;
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
            float scale = record_scale(b, own, scales, d),
                  mid = record_scale(b, own, scales, scales + d);
            UNROLL
            for (uint32_t k = 0; k < 4; k++) {
                o[k] =
                    fmaf(distance(high[k], low[k], wide, w.less[r + k][i]) * (w.step[r + k][i] / 2),
                         scale, o[k]);
                o[k] = fmaf(w.base[r + k][i], mid, o[k]);
                high[k] = low[k] = 0;
            }
        }
        UNROLL
        for (uint32_t k = 0; k < 4; k++) {
            if (b.v.per_token)
                o[k] = o[k] + fmaf(distance(high[k], low[k], wide, w.less[r + k][g]),
                                   w.step[r + k][g] / 2, w.base[r + k][g]);
            if (r + k < t.n)
                join(w, r + k, (r + k) * dim + d, o[k], begun);
        }
    }
}

/* The same where blocks have floats. */
template <uint32_t ROWS>
static __device__ void mix_halves(const struct workspace<ROWS> &w, const struct job &j,
                                  const struct tile &t, uint32_t first, uint32_t n, bool begun)
{
    uint32_t dim = j.blocks.dim, block = j.blocks.block_tokens;
    for (uint32_t unit = threadIdx.x; unit < ROWS / 4 * dim; unit += THREADS) {
        uint32_t d = unit % dim, r = unit / dim * 4;
        float o[4] = {};
        for (uint32_t i = 0; i < n; i++)
            chain<ROWS>(o, w.p[r] + i * block,
                        (const uint16_t *)record(j.blocks, j.blocks.v, t.head, first + i) + d,
                        block, dim);
        UNROLL
        for (uint32_t k = 0; k < 4; k++)
            if (r + k < t.n)
                join(w, r + k, (r + k) * dim + d, o[k], begun);
    }
}

template <uint32_t ROWS>
static __device__ void score_halves(const struct workspace<ROWS> &w, const struct job &j,
                                    const struct tile &t, uint32_t first, uint32_t n)
{
    uint32_t block = threadIdx.x / j.blocks.block_tokens,
             token = threadIdx.x % j.blocks.block_tokens, dim = j.blocks.dim;
    const uint16_t *k = (const uint16_t *)record(j.blocks, j.blocks.k, t.head, first + block);
    score<ROWS, uint16_t>(
        w, block < n ? k + (token - token % TFT_KEY_PANEL) * dim + token % TFT_KEY_PANEL : NULL,
        dim);
}

/* Span i of the blocks, which all rows see. */
template <uint32_t ROWS>
static __device__ void attend_blocks(const struct workspace<ROWS> &w, const struct job &j,
                                     const struct tile &t, uint32_t i, bool begun)
{
    uint32_t most = SPAN / j.blocks.block_tokens, first = i * most, left = j.start->blocks - first,
             n = left < most ? left : most;
    if (j.blocks.k.bits == TFT_BITS_COUNT) {
        score_halves<ROWS>(w, j, t, first, n);
    } else {
        bool wide = is_wide(j.blocks.k.bits), per_token = j.blocks.k.per_token;
        fold_queries<ROWS>(w, j, t, first, n);
        __syncthreads();
        if (wide && per_token)
            score_codes<ROWS, true, true>(w, j, t, first, n);
        else if (wide)
            score_codes<ROWS, true, false>(w, j, t, first, n);
        else if (per_token)
            score_codes<ROWS, false, true>(w, j, t, first, n);
        else
            score_codes<ROWS, false, false>(w, j, t, first, n);
    }
    __syncthreads();
    for (uint32_t r = threadIdx.x / WARP; r < t.n; r += THREADS / WARP)
        softmax(w.p[r], n * j.blocks.block_tokens, begun, &w.max[r], &w.sum[r], &w.old[r],
                &w.now[r]);
    __syncthreads();
    if (j.blocks.v.bits == TFT_BITS_COUNT) {
        mix_halves<ROWS>(w, j, t, first, n, begun);
    } else {
        fold_probabilities<ROWS>(w, j, t, first, n);
        __syncthreads();
        if (is_wide(j.blocks.v.bits))
            mix_codes<ROWS, true>(w, j, t, first, n, begun);
        else
            mix_codes<ROWS, false>(w, j, t, first, n, begun);
    }
    __syncthreads();
}

static __device__ uint32_t block_spans(const struct job &j)
{
    return j.blocks.dim ? (j.start->blocks * j.blocks.block_tokens + SPAN - 1) / SPAN : 0;
}

/* ------------------------------------------------------------------------------------ the whole */

static __device__ void put_head(const struct tft_cuda_rows &y, uint32_t m, uint32_t i, float o,
                                float sum)
{
    float v = o * (1.0f / sum);
    if (y.bytes)
        y.bytes[m * y.ld + i] = tft_affine_byte(v, &y.affine[m * y.affine_step]);
    else
        y.floats[m * y.ld + i] = v;
}

/* Many tokens. Blocks: KV heads, tiles of rows. */
template <uint32_t ROWS, typename Num, bool CODED>
static __global__ void __launch_bounds__(THREADS, 2) attend_tiles(struct job j)
{
    struct workspace<ROWS> w = take_workspace<ROWS>(j);
    uint32_t dim = j.slots.dim, group = j.H / j.slots.heads, row = blockIdx.y * ROWS,
             left = j.M * group - row;
    struct tile t = {blockIdx.x, row, left < ROWS ? left : ROWS, group, j.start->slot + j.skip};
    load_queries(w, j, t);
    __syncthreads();
    uint32_t end = t.slot + (t.row + t.n - 1) / group + 1;
    for (uint32_t start = 0; start < end; start += SPAN)
        attend_slots<ROWS, Num>(w, j, t, start, start > 0);
    for (uint32_t i = 0; CODED && i < block_spans(j); i++)
        attend_blocks<ROWS>(w, j, t, i, true);
    for (uint32_t i = threadIdx.x; i < t.n * dim; i += THREADS) {
        uint32_t of = t.row + i / dim;
        put_head(j.y, of / group, (t.head * group + of % group) * dim + i % dim, w.o[i],
                 w.sum[i / dim]);
    }
}

/* The spans of the tile's rows, in order: so many of slots and of blocks. */
static __device__ void merge(const struct job &j, const struct tile &t, uint32_t slots,
                             uint32_t blocks)
{
    uint32_t dim = j.slots.dim, spans = j.partials.slot_spans + j.partials.block_spans;
    for (uint32_t unit = threadIdx.x; unit < t.n * dim; unit += THREADS) {
        uint32_t head = t.head * t.group + t.row + unit / dim, d = unit % dim;
        const float *max = j.partials.max + (size_t)head * spans,
                    *sum = j.partials.sum + (size_t)head * spans;
        const float *o = j.partials.o + (size_t)head * spans * dim + d;
        float top = max[0], total = sum[0], v = o[0];
        for (uint32_t i = 1; i < slots + blocks; i++) {
            uint32_t b = i < slots ? i : j.partials.slot_spans + i - slots;
            float both = top > max[b] ? top : max[b], old = tft_expf(top - both),
                  now = tft_expf(max[b] - both);
            v = fmaf(o[b * dim], now, v * old);
            total = fmaf(sum[b], now, total * old);
            top = both;
        }
        put_head(j.y, 0, head * dim + d, v, total);
    }
}

/* Whether this is the last of n blocks that count themselves there; it sees what the others have
   written before. Zero again after that. */
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

/* One token. Blocks: KV heads, tiles of rows, spans, of which only those that the token sees have
   anything to do; the last of them that is done with it puts a tile's spans together. */
template <uint32_t ROWS, typename Num, bool CODED>
static __global__ void __launch_bounds__(THREADS, 2) attend_split(struct job j)
{
    uint32_t dim = j.slots.dim, group = j.H / j.slots.heads, row = blockIdx.y * ROWS,
             left = group - row, slot = j.start->slot + j.skip;
    uint32_t span = blockIdx.z, spans = j.partials.slot_spans + j.partials.block_spans,
             slots = slot / SPAN + 1, blocks = CODED ? block_spans(j) : 0;
    bool coded = CODED && span >= j.partials.slot_spans;
    if (coded ? span - j.partials.slot_spans >= blocks : span >= slots)
        return;
    struct workspace<ROWS> w = take_workspace<ROWS>(j);
    struct tile t = {blockIdx.x, row, left < ROWS ? left : ROWS, group, slot};
    load_queries(w, j, t);
    __syncthreads();
    if (coded)
        attend_blocks<ROWS>(w, j, t, span - j.partials.slot_spans, false);
    else
        attend_slots<ROWS, Num>(w, j, t, span * SPAN, false);
    uint32_t head = t.head * group + row;
    size_t first = (size_t)head * spans + span;
    for (uint32_t i = threadIdx.x; i < t.n * dim; i += THREADS)
        j.partials.o[(first + i / dim * spans) * dim + i % dim] = w.o[i];
    if (threadIdx.x < t.n) {
        j.partials.max[first + threadIdx.x * spans] = w.max[threadIdx.x];
        j.partials.sum[first + threadIdx.x * spans] = w.sum[threadIdx.x];
    }
    if (is_last(j.partials.done + head, slots + blocks))
        merge(j, t, slots, blocks);
}

template <uint32_t ROWS, typename Num, bool CODED>
static void launch_tiles(cudaStream_t stream, const struct job &j)
{
    uint32_t tiles = (j.M * (j.H / j.slots.heads) + ROWS - 1) / ROWS;
    launch(stream, attend_tiles<ROWS, Num, CODED>, dim3(j.slots.heads, tiles), THREADS,
           workspace_bytes<ROWS>(j), j);
}

template <uint32_t ROWS, typename Num, bool CODED>
static void launch_split(cudaStream_t stream, const struct job &j)
{
    dim3 blocks(j.slots.heads, (j.H / j.slots.heads + ROWS - 1) / ROWS,
                j.partials.slot_spans + j.partials.block_spans);
    launch(stream, attend_split<ROWS, Num, CODED>, blocks, THREADS, workspace_bytes<ROWS>(j), j);
}

/* As many rows at once as there are, and as 64 KiB have room for, sm_75's shared memory: 4 where
   heads of 256 have 8 bits */
template <typename Num, bool CODED> static void attend(cudaStream_t stream, const struct job &j)
{
    constexpr size_t most = 64 << 10;
    uint32_t rows = j.M * (j.H / j.slots.heads);
    if (j.M == 1 && rows > 4 && workspace_bytes<8>(j) <= most)
        launch_split<8, Num, CODED>(stream, j);
    else if (j.M == 1)
        launch_split<4, Num, CODED>(stream, j);
    else if (rows > 16 && workspace_bytes<32>(j) <= most)
        launch_tiles<32, Num, CODED>(stream, j);
    else if (rows > 4 && workspace_bytes<16>(j) <= most)
        launch_tiles<16, Num, CODED>(stream, j);
    else
        launch_tiles<4, Num, CODED>(stream, j);
}

void tft_cuda_attend(cudaStream_t stream, const struct tft_cuda_rows *y, const float *q, size_t ldq,
                     const struct tft_cuda_slots *slots, const struct tft_cuda_blocks *blocks,
                     uint32_t H, uint32_t M, uint32_t skip, const struct tft_cuda_start *start,
                     const struct tft_cuda_partials *partials)
{
    struct job j = {*y, *slots, {}, *partials, q, ldq, H, M, skip, start};
    if (blocks) {
        j.blocks = *blocks;
        attend<uint16_t, true>(stream, j);
    } else if (slots->num == TFT_NUM_F16) {
        attend<uint16_t, false>(stream, j);
    } else {
        attend<float, false>(stream, j);
    }
}
