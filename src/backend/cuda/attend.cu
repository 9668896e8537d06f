/*
 * Attention over the slots and the blocks of codes of the cache (kv/kv.h), with the bits of
 * backend/cpu/attend.c. span.cuh has the work on a span, int8.cuh that on slots of bytes. The two
 * kernels are:
 *
 *      attend_tiles   more tokens: a thread block goes through all spans of its tile
 *      attend_split   one token: a thread block has one span, and the last one merges the spans
 */
#include "int8.cuh"

/* ---------------------------------------------------------------------------------------- spans */

template <uint32_t ROWS>
static __device__ void softmax_row(const struct workspace<ROWS> &w, uint32_t r, uint32_t n,
                                   bool blend)
{
    softmax(w.p[r], n, blend, &w.max[r], &w.sum[r], &w.old_weight[r], &w.new_weight[r]);
}

/* Num is int8_t if slots are bytes. */
template <typename Num> static constexpr bool is_byte = sizeof(Num) == 1;

/* Scores, softmax and mix of the span of slots from `start` on. */
template <uint32_t ROWS, typename Num>
static __device__ void attend_slots(const struct workspace<ROWS> &w, const struct attention &a,
                                    const struct tile &t, uint32_t start, bool blend)
{
    if constexpr (is_byte<Num>)
        score_bytes(w, a, t, start);
    else
        score_slots<ROWS, Num>(w, a, t, start);
    for (uint32_t r = threadIdx.x / WARP; r < t.n; r += THREADS / WARP)
        if (uint32_t n = visible(t, K, r, start)) {
            if constexpr (is_byte<Num>)
                softmax_bytes(w, a, t, r, start, n, blend);
            else
                softmax_row(w, r, n, blend);
        }
    __syncthreads();
    if constexpr (is_byte<Num>)
        mix_bytes(w, a, t, start, blend);
    else
        mix_slots<ROWS, Num>(w, a, t, start, blend);
}

/* Scores, softmax and mix of span i of the blocks. */
template <uint32_t ROWS>
static __device__ void attend_blocks(const struct workspace<ROWS> &w, const struct attention &a,
                                     const struct tile &t, uint32_t i, bool blend)
{
    uint32_t n = span_of(a, K, i).n * a.blocks.block_tokens;
    score_blocks<ROWS>(w, a, t, i);
    for (uint32_t r = threadIdx.x / WARP; r < t.n; r += THREADS / WARP)
        softmax_row(w, r, n, blend);
    __syncthreads();
    mix_blocks<ROWS>(w, a, t, i, blend);
}

/* -------------------------------------------------------------------------------------- kernels */

/* More than one token. Thread blocks: blockIdx.x is the KV head, blockIdx.y the tile. Slots come
   before blocks, as on the CPU. */
template <uint32_t ROWS, typename Num, bool CODED>
static __global__ void __launch_bounds__(THREADS, 2) attend_tiles(struct attention a)
{
    struct workspace<ROWS> w = take_workspace<ROWS>(a);
    uint32_t dim = a.slots.dim;
    struct tile t = tile_of(a, blockIdx.x, blockIdx.y * ROWS, ROWS);
    load_queries(w, a, t);
    __syncthreads();
    if constexpr (is_byte<Num>)
        byte_queries(w, a, t);
    for (uint32_t i = 0; i < slot_spans(t, K); i++)
        attend_slots<ROWS, Num>(w, a, t, i * SPAN, i > 0);
    for (uint32_t i = 0; CODED && i < block_spans(a, K); i++)
        attend_blocks<ROWS>(w, a, t, i, true);
    for (uint32_t i = threadIdx.x; i < t.n * dim; i += THREADS) {
        uint32_t of = t.row + i / dim;
        store_output(a.y, of / t.group, (t.head * t.group + of % t.group) * dim + i % dim, w.o[i],
                     w.sum[i / dim]);
    }
}

/* Merges the partial results of the tile's rows in order: `slots` spans of slots, then `blocks`
   spans of blocks. A thread has one channel of one row. */
static __device__ void merge(const struct attention &a, const struct tft_cuda_partials &partials,
                             const struct tile &t, uint32_t slots, uint32_t blocks)
{
    uint32_t dim = a.slots.dim, spans = partials.slot_spans + partials.block_spans;
    for (uint32_t unit = threadIdx.x; unit < t.n * dim; unit += THREADS) {
        uint32_t head = t.head * t.group + t.row + unit / dim, d = unit % dim;
        const float *max = partials.max + (size_t)head * spans,
                    *sum = partials.sum + (size_t)head * spans;
        const float *o = partials.o + (size_t)head * spans * dim + d;
        float top = max[0], total = sum[0], v = o[0];
        for (uint32_t i = 1; i < slots + blocks; i++) {
            uint32_t b = i < slots ? i : partials.slot_spans + i - slots;
            float both = top > max[b] ? top : max[b], old = tft_expf(top - both),
                  now = tft_expf(max[b] - both);
            v = fmaf(o[b * dim], now, v * old);
            total = fmaf(sum[b], now, total * old);
            top = both;
        }
        store_output(a.y, 0, head * dim + d, v, total);
    }
}

/* Counts this thread block in *done. Returns whether this is the last of n thread blocks: the last
   one sees all writes of the others, and resets *done to 0. */
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
   recorded graph may have more spans than the token attends to: the extra thread blocks end at
   once. The last of the other thread blocks merges the spans of the tile. */
template <uint32_t ROWS, typename Num, bool CODED>
static __global__ void __launch_bounds__(THREADS, 2)
    attend_split(struct attention a, struct tft_cuda_partials partials)
{
    struct tile t = tile_of(a, blockIdx.x, blockIdx.y * ROWS, ROWS);
    uint32_t dim = a.slots.dim, span = blockIdx.z,
             spans = partials.slot_spans + partials.block_spans, slots = slot_spans(t, K),
             blocks = CODED ? block_spans(a, K) : 0;
    bool coded = CODED && span >= partials.slot_spans;
    if (coded ? span - partials.slot_spans >= blocks : span >= slots)
        return;
    struct workspace<ROWS> w = take_workspace<ROWS>(a);
    load_queries(w, a, t);
    __syncthreads();
    if constexpr (is_byte<Num>)
        if (!coded)
            byte_queries(w, a, t);
    if (coded)
        attend_blocks<ROWS>(w, a, t, span - partials.slot_spans, false);
    else
        attend_slots<ROWS, Num>(w, a, t, span * SPAN, false);
    uint32_t head = t.head * t.group + t.row;
    size_t first = (size_t)head * spans + span;
    for (uint32_t i = threadIdx.x; i < t.n * dim; i += THREADS)
        partials.o[(first + i / dim * spans) * dim + i % dim] = w.o[i];
    if (threadIdx.x < t.n) {
        partials.max[first + threadIdx.x * spans] = w.max[threadIdx.x];
        partials.sum[first + threadIdx.x * spans] = w.sum[threadIdx.x];
    }
    if (is_last(partials.done + head, slots + blocks))
        merge(a, partials, t, slots, blocks);
}

template <uint32_t ROWS, typename Num, bool CODED>
static void launch_tiles(cudaStream_t stream, const struct attention &a)
{
    uint32_t tiles = (a.M * (a.H / a.slots.heads) + ROWS - 1) / ROWS;
    launch(stream, attend_tiles<ROWS, Num, CODED>, dim3(a.slots.heads, tiles), THREADS,
           workspace_bytes<ROWS>(a), a);
}

template <uint32_t ROWS, typename Num, bool CODED>
static void launch_split(cudaStream_t stream, const struct attention &a,
                         const struct tft_cuda_partials &partials)
{
    dim3 blocks(a.slots.heads, (a.H / a.slots.heads + ROWS - 1) / ROWS,
                partials.slot_spans + partials.block_spans);
    launch(stream, attend_split<ROWS, Num, CODED>, blocks, THREADS, workspace_bytes<ROWS>(a), a,
           partials);
}

/* Chooses ROWS: enough for all rows, as long as the workspace fits. */
template <typename Num, bool CODED>
static void attend(cudaStream_t stream, const struct attention &a,
                   const struct tft_cuda_partials &partials)
{
    uint32_t rows = a.M * (a.H / a.slots.heads);
    if (a.M == 1 && rows > 4 && workspace_bytes<8>(a) <= MAX_WORKSPACE)
        launch_split<8, Num, CODED>(stream, a, partials);
    else if (a.M == 1)
        launch_split<4, Num, CODED>(stream, a, partials);
    else if (rows > 16 && workspace_bytes<32>(a) <= MAX_WORKSPACE)
        launch_tiles<32, Num, CODED>(stream, a);
    else if (rows > 4 && workspace_bytes<16>(a) <= MAX_WORKSPACE)
        launch_tiles<16, Num, CODED>(stream, a);
    else
        launch_tiles<4, Num, CODED>(stream, a);
}

void tft_cuda_attend(cudaStream_t stream, const struct tft_cuda_rows *y, const float *q, size_t ldq,
                     const struct tft_cuda_slots *slots, const struct tft_cuda_blocks *blocks,
                     uint32_t H, uint32_t M, uint32_t skip, const struct tft_cuda_start *start,
                     const struct tft_cuda_partials *partials)
{
    struct attention a = {*y, *slots, {}, q, ldq, H, M, skip, start};
    bool bytes = slots->scale[K];
    if (blocks)
        a.blocks = *blocks;
    if (blocks && bytes) {
        attend<int8_t, true>(stream, a, *partials);
    } else if (blocks) {
        attend<uint16_t, true>(stream, a, *partials);
    } else if (bytes) {
        attend<int8_t, false>(stream, a, *partials);
    } else if (slots->num == TFT_NUM_F16) {
        attend<uint16_t, false>(stream, a, *partials);
    } else {
        attend<float, false>(stream, a, *partials);
    }
}
