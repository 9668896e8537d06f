/*
 * Attention with keys and values apart (kv/kv.h), with the bits of backend/cpu/split.c. Three
 * kernels, one after the other:
 *
 *      score_rows     a thread block has one span of keys and a tile of queries; a score is stored
 *                     at the number of the key's token
 *      softmax_rows   a warp has one row
 *      mix_rows       a thread block has a tile, and goes through all spans of values
 */
#include "span.cuh"

/* The index of a tile's row r among the rows of all heads; and the row's scores. */
static __device__ size_t row_of(const struct attention &a, const struct tile &t, uint32_t r)
{
    return (size_t)t.head * a.M * t.group + t.row + r;
}

static __device__ float *scores_of(const struct attention &a, const struct tft_cuda_split &split,
                                   const struct tile &t, uint32_t r)
{
    return split.scores + row_of(a, t, r) * split.max_tokens;
}

/* Thread blocks: blockIdx.x is the KV head, blockIdx.y the tile, blockIdx.z the span: spans of
   slots, then of blocks. A recorded graph may have more spans than the tokens attend to. */
template <uint32_t ROWS>
static __global__ void __launch_bounds__(THREADS, 2)
    score_rows(struct attention a, struct tft_cuda_split split)
{
    struct tile t = tile_of(a, blockIdx.x, blockIdx.y * ROWS, ROWS);
    bool coded = blockIdx.z >= split.slot_spans;
    uint32_t i = coded ? blockIdx.z - split.slot_spans : blockIdx.z;
    if (i >= (coded ? block_spans(a, K) : slot_spans(t, K)))
        return;
    struct workspace<ROWS> w = take_workspace<ROWS>(a);
    load_queries(w, a, t);
    __syncthreads();
    if (coded)
        score_blocks<ROWS>(w, a, t, i);
    else
        score_slots<ROWS, uint16_t>(w, a, t, i * SPAN);
    const uint32_t *owner = coded ? split.block_owner[K] : split.slot_owner[K];
    for (uint32_t r = 0; r < t.n; r++) {
        uint32_t n = coded ? span_of(a, K, i).n * a.blocks.block_tokens
                           : visible(t, K, r, i * SPAN);
        if (threadIdx.x < n)
            scores_of(a, split, t, r)[owner[i * SPAN + threadIdx.x]] = w.p[r][threadIdx.x];
    }
}

/* A thread block has as many rows of a KV head (blockIdx.x) as it has warps; blockIdx.y counts
   them. A token attends to all tokens up to itself. */
static __global__ void softmax_rows(struct attention a, struct tft_cuda_split split)
{
    struct tile t = tile_of(a, blockIdx.x, blockIdx.y * (THREADS / WARP), THREADS / WARP);
    uint32_t r = threadIdx.x / WARP;
    if (r >= t.n)
        return;
    uint32_t own = t.slot[K] + (t.row + r) / t.group;
    float max;
    softmax(scores_of(a, split, t, r), split.slot_owner[K][own] + 1, false, &max,
            &split.sum[row_of(a, t, r)], NULL, NULL);
}

/* w.p = the probabilities of the tokens in span i of values; 0 in rows past the tile's last. */
template <uint32_t ROWS>
static __device__ void load_probabilities(const struct workspace<ROWS> &w,
                                          const struct attention &a,
                                          const struct tft_cuda_split &split, const struct tile &t,
                                          bool coded, uint32_t i)
{
    const uint32_t *owner = coded ? split.block_owner[V] : split.slot_owner[V];
    for (uint32_t r = 0; r < ROWS; r++) {
        uint32_t n = r >= t.n ? 0
                     : coded  ? span_of(a, V, i).n * a.blocks.block_tokens
                              : visible(t, V, r, i * SPAN);
        w.p[r][threadIdx.x] =
            threadIdx.x < n ? scores_of(a, split, t, r)[owner[i * SPAN + threadIdx.x]] : 0;
    }
    __syncthreads();
}

/* Thread blocks: blockIdx.x is the KV head, blockIdx.y the tile. */
template <uint32_t ROWS>
static __global__ void __launch_bounds__(THREADS, 2)
    mix_rows(struct attention a, struct tft_cuda_split split)
{
    struct workspace<ROWS> w = take_workspace<ROWS>(a);
    struct tile t = tile_of(a, blockIdx.x, blockIdx.y * ROWS, ROWS);
    uint32_t dim = a.slots.dim;
    if (threadIdx.x < ROWS) /* spans are added without weights */
        w.old_weight[threadIdx.x] = w.new_weight[threadIdx.x] = 1;
    __syncthreads();
    for (uint32_t i = 0; i < slot_spans(t, V); i++) {
        load_probabilities<ROWS>(w, a, split, t, false, i);
        mix_slots<ROWS, uint16_t>(w, a, t, i * SPAN, i > 0);
    }
    for (uint32_t i = 0; i < block_spans(a, V); i++) {
        load_probabilities<ROWS>(w, a, split, t, true, i);
        mix_blocks<ROWS>(w, a, t, i, true);
    }
    for (uint32_t i = threadIdx.x; i < t.n * dim; i += THREADS) {
        uint32_t of = t.row + i / dim;
        store_output(a.y, of / t.group, (t.head * t.group + of % t.group) * dim + i % dim, w.o[i],
                     split.sum[row_of(a, t, i / dim)]);
    }
}

template <uint32_t ROWS>
static void attend(cudaStream_t stream, const struct attention &a,
                   const struct tft_cuda_split &split)
{
    uint32_t rows = a.M * (a.H / a.slots.heads), tiles = (rows + ROWS - 1) / ROWS,
             warps = THREADS / WARP;
    launch(stream, score_rows<ROWS>,
           dim3(a.slots.heads, tiles, split.slot_spans + split.block_spans), THREADS,
           workspace_bytes<ROWS>(a), a, split);
    launch(stream, softmax_rows, dim3(a.slots.heads, (rows + warps - 1) / warps), THREADS, 0, a,
           split);
    launch(stream, mix_rows<ROWS>, dim3(a.slots.heads, tiles), THREADS, workspace_bytes<ROWS>(a), a,
           split);
}

void tft_cuda_attend_split(cudaStream_t stream, const struct tft_cuda_rows *y, const float *q,
                           size_t ldq, const struct tft_cuda_slots *slots,
                           const struct tft_cuda_blocks *blocks, uint32_t H, uint32_t M,
                           uint32_t skip, const struct tft_cuda_start *start,
                           const struct tft_cuda_split *split)
{
    struct attention a = {*y, *slots, *blocks, q, ldq, H, M, skip, start};
    if (M * (H / slots->heads) > 4 && workspace_bytes<16>(a) <= MAX_WORKSPACE)
        attend<16>(stream, a, *split);
    else
        attend<4>(stream, a, *split);
}
