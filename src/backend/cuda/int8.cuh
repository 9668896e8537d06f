/*
 * Attention within a span of slots of bytes, with the bits of backend/cpu/int8.c: both products are
 * exact sums of integers.
 *
 *      queries        a warp rounds one row to bytes
 *      scores         a thread has one position
 *      weights        tft_softmax_u8_fn: a warp computes one row
 *      mix            a thread has one channel of 4 rows
 */
#ifndef TFT_CUDA_INT8_CUH
#define TFT_CUDA_INT8_CUH

#include "span.cuh"

/* The number that the scores of row r with keys in slots lack, where blocks have others. */
template <uint32_t ROWS>
static __device__ float lacking_of(const struct workspace<ROWS> &w, const struct attention &a,
                                   const struct tile &t, uint32_t r)
{
    const float *offset = a.slots.key_offset;
    float sum = 0;
    if (!offset || !a.blocks.dim || !a.start->blocks[K])
        return 0;
    load_ahead<8>(
        a.slots.dim, [=](uint32_t d) { return offset[t.head * a.slots.dim + d]; },
        [&](uint32_t d, float x) { sum += w.q[d * ROWS + r] * x; });
    return sum;
}

/* tft_byte_queries, after load_queries. */
template <uint32_t ROWS>
static __device__ void byte_queries(const struct workspace<ROWS> &w, const struct attention &a,
                                    const struct tile &t)
{
    uint32_t dim = a.slots.dim, width = key_width<int8_t>(dim);
    float factor = 1.0f / sqrtf((float)dim);
    for (uint32_t r = threadIdx.x / WARP; r < ROWS; r += THREADS / WARP) {
        struct tft_affine q = byte_affine(dim, [&](uint32_t d) { return w.q[d * ROWS + r]; });
        bool has_nan = false;
        for (uint32_t d = threadIdx.x % WARP; d < width; d += WARP) {
            int byte = d < dim ? tft_affine_byte(w.q[d * ROWS + r], &q) : q.zero;
            has_nan |= byte == 0;
            w.query[(d / TFT_QUAD * ROWS + r) * TFT_QUAD + d % TFT_QUAD] = (int8_t)(byte - q.zero);
        }
        has_nan = any_lane(has_nan);
        if (threadIdx.x % WARP)
            continue;
        w.query_step[r] = has_nan ? NAN : q.scale * factor;
        w.lacking[r] = lacking_of(w, a, t, r) * factor;
    }
    __syncthreads();
}

/* w.p = scores of the span of slots from `start` on. */
template <uint32_t ROWS>
static __device__ void score_bytes(const struct workspace<ROWS> &w, const struct attention &a,
                                   const struct tile &t, uint32_t start)
{
    uint32_t slot = start + threadIdx.x;
    int32_t s[ROWS] = {};
    if (threadIdx.x < visible(t, K, t.n - 1, start)) {
        const uint32_t *k = (const uint32_t *)a.slots.k +
                            slot_at<int8_t>(a.slots, K, t.head, slot, 0) / TFT_QUAD;
        float scale = *slot_scale(a.slots, K, t.head, slot);
        load_ahead<(ROWS > 8 ? 4 : 16)>(
            key_width<int8_t>(a.slots.dim) / TFT_QUAD,
            [=](uint32_t quad) { return k[quad * TFT_KEY_PANEL]; },
            [&](uint32_t quad, uint32_t four) {
                UNROLL
                for (uint32_t r = 0; r < ROWS; r += 4) {
                    int4 q = *(const int4 *)(w.query + (quad * ROWS + r) * TFT_QUAD);
                    s[r] = dot4_signed((uint32_t)q.x, four, s[r]);
                    s[r + 1] = dot4_signed((uint32_t)q.y, four, s[r + 1]);
                    s[r + 2] = dot4_signed((uint32_t)q.z, four, s[r + 2]);
                    s[r + 3] = dot4_signed((uint32_t)q.w, four, s[r + 3]);
                }
            });
        UNROLL
        for (uint32_t r = 0; r < ROWS; r++)
            w.p[r][threadIdx.x] = (float)s[r] * (w.query_step[r] * scale);
    }
    __syncthreads();
}

/* By a warp: row r's weights of the span's first n slots as bytes, and 0 for the other slots. */
template <uint32_t ROWS>
static __device__ void softmax_bytes(const struct workspace<ROWS> &w, const struct attention &a,
                                     const struct tile &t, uint32_t r, uint32_t start, uint32_t n,
                                     bool blend)
{
    uint32_t lane = threadIdx.x % WARP, bytes = 0;
    float *p = w.p[r], largest = 0, total = 0;
    const float *scale = slot_scale(a.slots, V, t.head, start);
    softmax(p, n, blend, &w.max[r], &w.sum[r], &w.old_weight[r], &w.new_weight[r], w.lacking[r]);
    __syncwarp();
    for (uint32_t i = lane; i < n; i += WARP) {
        p[i] *= scale[i];
        largest = p[i] > largest ? p[i] : largest;
    }
    __syncwarp();
    for (uint32_t i = lane; i < n && lane < LANES; i += LANES)
        total += p[i];
    for (unsigned half = WARP / 2; half; half /= 2) {
        float other = __shfl_xor_sync(0xffffffff, largest, half);
        largest = other > largest ? other : largest;
    }
    for (unsigned half = LANES / 2; half; half /= 2) /* sum16 of simd/kernels.h */
        total += __shfl_down_sync(0xffffffff, total, half);
    bool in_range = largest >= TFT_FOLD_LEAST && largest <= FLT_MAX;
    float inverse = in_range ? 255 / largest : 0;
    for (uint32_t i = lane; i < SPAN; i += WARP) {
        float v = i < n && p[i] * inverse > 0 ? p[i] * inverse : 0;
        uint8_t byte = (uint8_t)rintf(v < 255 ? v : 255);
        w.weight[r * SPAN + i] = byte;
        bytes += byte;
    }
    for (unsigned half = WARP / 2; half; half /= 2)
        bytes += __shfl_xor_sync(0xffffffff, bytes, half);
    if (lane == 0)
        w.weight_step[r] = bytes ? total / (float)bytes : 0;
}

/* Mixes the values of a span of slots. A row's weights of slots after its own are 0. */
template <uint32_t ROWS>
static __device__ void mix_bytes(const struct workspace<ROWS> &w, const struct attention &a,
                                 const struct tile &t, uint32_t start, bool blend)
{
    struct sixteen {
        uint32_t x[4];
    };
    uint32_t dim = a.slots.dim,
             sixteens = (visible(t, V, t.n - 1, start) + TFT_PANEL - 1) / TFT_PANEL;
    const uint32_t *values =
        (const uint32_t *)a.slots.v + slot_at<int8_t>(a.slots, V, t.head, start, 0) / TFT_QUAD;
    for (uint32_t unit = threadIdx.x; unit < ROWS / 4 * dim; unit += THREADS) {
        uint32_t d = unit % dim, r = unit / dim * 4;
        const uint32_t *v = values + d;
        int32_t o[4] = {};
        if (r >= t.n)
            continue;
        load_ahead<(ROWS > 8 ? 1 : 2)>(
            sixteens,
            [=](uint32_t i) {
                return sixteen{{v[4 * i * dim], v[(4 * i + 1) * dim], v[(4 * i + 2) * dim],
                                v[(4 * i + 3) * dim]}};
            },
            [&](uint32_t i, sixteen four) {
                UNROLL
                for (uint32_t k = 0; k < 4; k++) {
                    int4 y = *(const int4 *)(w.weight + (r + k) * SPAN + TFT_PANEL * i);
                    o[k] = dot4((uint32_t)y.x, four.x[0], o[k]);
                    o[k] = dot4((uint32_t)y.y, four.x[1], o[k]);
                    o[k] = dot4((uint32_t)y.z, four.x[2], o[k]);
                    o[k] = dot4((uint32_t)y.w, four.x[3], o[k]);
                }
            });
        UNROLL
        for (uint32_t k = 0; k < 4; k++)
            if (r + k < t.n && visible(t, V, r + k, start))
                store_mixed(w, r + k, (r + k) * dim + d, (float)o[k] * w.weight_step[r + k], blend);
    }
    __syncthreads();
}

#endif
