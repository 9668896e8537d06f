/* Kernels on rows of numbers: embedding, norms, RoPE, activations, dynamic ranges. Each kernel
   equals the reference kernel named in launch.h. */
#include "simd/affine.h"
#include "simd/expf.h"
#include "launch.h"
#include "machine.cuh"

static constexpr uint32_t THREADS = 256, WARP = 32, LANES = 16;

/* sum16 (simd/kernels.h) of the numbers of the first 16 lanes of a warp. Lane 0 gets the result. */
static __device__ float sum16(float l)
{
    for (unsigned half = 8; half; half /= 2)
        l += __shfl_down_sync(0xffffffff, l, half);
    return l;
}

/* The sum of x: [n] in dot16's order, computed by a thread block; add(sum, element) adds an element
   to its lane's sum. All threads get the result. Only 16 lanes add, but all threads read: 16 lanes
   alone would wait for memory at each step. */
template <typename Add> static __device__ float total(const float *x, uint32_t n, Add add)
{
    constexpr uint32_t PIECE = 2048;
    __shared__ float piece[PIECE], result;
    float l = 0;
    for (uint32_t at = 0; at < n; at += PIECE) {
        uint32_t count = n - at < PIECE ? n - at : PIECE;
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
            piece[i] = x[at + i];
        __syncthreads();
        if (threadIdx.x < LANES)
            for (uint32_t i = threadIdx.x; i < count; i += LANES)
                l = add(l, piece[i]);
    }
    if (threadIdx.x < WARP) {
        l = sum16(l);
        if (threadIdx.x == 0)
            result = l;
    }
    __syncthreads();
    return result;
}

/* y[m][i] = v, as a float or quantized to a byte. */
static __device__ void put(const struct tft_cuda_rows &y, uint32_t m, uint32_t i, float v)
{
    if (y.bytes)
        y.bytes[m * y.ld + i] = tft_affine_byte(v, &y.affine[m * y.affine_step]);
    else
        y.floats[m * y.ld + i] = v;
}

/* ------------------------------------------------------------------------------------ embedding */

/* A thread block for each token. */
static __global__ void embed(float *x, size_t ld, const int32_t *tokens,
                             const struct tft_cuda_start *start, struct tft_cuda_embedding e)
{
    uint32_t m = blockIdx.x, row = (uint32_t)tokens[m];
    size_t cols = tft_panel_cols(e.width);
    for (uint32_t k = threadIdx.x; k < e.width; k += blockDim.x) {
        float v = (float)e.data[tft_panel_at(row, k, cols)] * e.scale[row];
        x[m * ld + k] =
            e.pos_embed ? v + e.pos_embed[(size_t)(start->position + m) * e.width + k] : v;
    }
}

void tft_cuda_embed(cudaStream_t stream, float *x, size_t ld, const int32_t *tokens,
                    const struct tft_cuda_start *start, uint32_t M,
                    const struct tft_cuda_embedding *e)
{
    launch(stream, embed, M, THREADS, 0, x, ld, tokens, start, *e);
}

/* ---------------------------------------------------------------------------------------- norms */

/* tft_rmsnorm_fn: a thread block for each token. */
static __global__ void rmsnorm(struct tft_cuda_rows y, const float *x, size_t ldx, const float *w,
                               uint32_t n, float eps)
{
    uint32_t m = blockIdx.x;
    x += m * ldx;
    float r = 1.0f /
              sqrtf(total(x, n, [](float l, float v) { return fmaf(v, v, l); }) / (float)n + eps);
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
        put(y, m, i, x[i] * r * w[i]);
}

/* tft_layernorm_fn: a thread block for each token. */
static __global__ void layernorm(struct tft_cuda_rows y, const float *x, size_t ldx, const float *w,
                                 const float *b, uint32_t n, float eps)
{
    uint32_t m = blockIdx.x;
    x += m * ldx;
    float mean = total(x, n, [](float l, float v) { return l + v; }) / (float)n;
    float r = 1.0f /
              sqrtf(total(x, n, [=](float l, float v) { return fmaf(v - mean, v - mean, l); }) /
                        (float)n +
                    eps);
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
        put(y, m, i, fmaf((x[i] - mean) * r, w[i], b[i]));
}

void tft_cuda_norm(cudaStream_t stream, const struct tft_cuda_rows *y, const float *x, size_t ldx,
                   const float *w, const float *b, uint32_t M, uint32_t n, float eps)
{
    if (b)
        launch(stream, layernorm, M, THREADS, 0, *y, x, ldx, w, b, n, eps);
    else
        launch(stream, rmsnorm, M, THREADS, 0, *y, x, ldx, w, n, eps);
}

/* Head `head` of token blockIdx.y: query heads 0 .. H - 1, then key heads. */
static __device__ float *head_of(const struct tft_cuda_heads &x, uint32_t head)
{
    bool second = head >= x.heads[0];
    return (second ? x.x[1] : x.x[0]) + blockIdx.y * (second ? x.ld[1] : x.ld[0]) +
           (second ? head - x.heads[0] : head) * x.dim;
}

/* tft_rmsnorm_fn of single heads: a thread block for each head and token. */
static __global__ void rmsnorm_heads(struct tft_cuda_heads h, const float *w0, const float *w1,
                                     float eps)
{
    float *x = head_of(h, blockIdx.x);
    const float *w = blockIdx.x < h.heads[0] ? w0 : w1;
    float r =
        1.0f /
        sqrtf(total(x, h.dim, [](float l, float v) { return fmaf(v, v, l); }) / (float)h.dim + eps);
    for (uint32_t i = threadIdx.x; i < h.dim; i += blockDim.x)
        x[i] = x[i] * r * w[i];
}

void tft_cuda_rmsnorm_heads(cudaStream_t stream, const struct tft_cuda_heads *x,
                            const float *const w[2], uint32_t M, float eps)
{
    launch(stream, rmsnorm_heads, dim3(x->heads[0] + x->heads[1], M), 2 * WARP, 0, *x, w[0], w[1],
           eps);
}

/* ----------------------------------------------------------------------------------------- RoPE */

/* tft_rope_fn: a thread rotates one pair of numbers of one head and token. */
static __global__ void rope(struct tft_cuda_heads h, const float *c, const float *s, uint32_t n_rot,
                            bool halves)
{
    uint32_t half = n_rot / 2, unit = blockIdx.x * blockDim.x + threadIdx.x;
    if (unit >= (h.heads[0] + h.heads[1]) * half)
        return;
    uint32_t pair = unit % half, i = halves ? pair : 2 * pair, j = halves ? pair + half : i + 1;
    float *x = head_of(h, unit / half);
    c += blockIdx.y * n_rot;
    s += blockIdx.y * n_rot;
    float a = x[i], b = x[j];
    x[i] = fmaf(a, c[i], b * s[i]);
    x[j] = fmaf(b, c[j], a * s[j]);
}

void tft_cuda_rope(cudaStream_t stream, const struct tft_cuda_heads *x, const float *c,
                   const float *s, uint32_t M, uint32_t n_rot, bool halves)
{
    uint32_t units = (x->heads[0] + x->heads[1]) * (n_rot / 2);
    launch(stream, rope, dim3((units + THREADS - 1) / THREADS, M), THREADS, 0, *x, c, s, n_rot,
           halves);
}

/* --------------------------------------------------------------------------- hidden activations */

/* A thread block computes THREADS adjacent numbers of a row, whole blocks of the Hadamard
   transform: a thread has one number and exchanges it with its partner at each step. */
static __global__ void activate(struct tft_cuda_rows y, const float *g, const float *u, size_t ld,
                                uint32_t n, uint32_t block)
{
    __shared__ float x[THREADS];
    uint32_t m = blockIdx.y, i = blockIdx.x * THREADS + threadIdx.x, own = threadIdx.x;
    float v = 0;
    if (i < n) {
        float a = g[m * ld + i];
        if (u) {
            v = a / (1.0f + tft_expf(-a)) * u[m * ld + i];
        } else {
            float t = a * fmaf(a * a, TFT_GELU_G3, TFT_GELU_G1);
            v = a / (1.0f + tft_expf(-t));
        }
    }
    for (uint32_t h = 1; h < block; h *= 2) {
        x[own] = v;
        __syncthreads();
        v = own & h ? x[own - h] - v : v + x[own + h];
        __syncthreads();
    }
    if (i < n)
        put(y, m, i, v);
}

void tft_cuda_activate(cudaStream_t stream, const struct tft_cuda_rows *y, const float *g,
                       const float *u, size_t ld, uint32_t M, uint32_t n, uint32_t block)
{
    launch(stream, activate, dim3((n + THREADS - 1) / THREADS, M), THREADS, 0, *y, g, u, ld, n,
           block);
}

/* ------------------------------------------------------------------------------- dynamic ranges */

/* The least *min and the largest *max of all threads of the thread block, for all threads. */
static __device__ void extremes(float *min, float *max)
{
    __shared__ float low[THREADS], high[THREADS];
    __syncthreads();
    low[threadIdx.x] = *min;
    high[threadIdx.x] = *max;
    for (uint32_t half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            low[threadIdx.x] = fminf(low[threadIdx.x], low[threadIdx.x + half]);
            high[threadIdx.x] = fmaxf(high[threadIdx.x], high[threadIdx.x + half]);
        }
    }
    __syncthreads();
    *min = low[0];
    *max = high[0];
}

/* tft_range_fn of each row: a thread block per row. ranges: [M, 2]; x: [M, n] */
static __global__ void row_ranges(float *ranges, const float *x, size_t ldx, uint32_t n)
{
    float min = 0, max = 0;
    x += blockIdx.x * ldx;
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    extremes(&min, &max);
    if (threadIdx.x == 0) {
        ranges[2 * blockIdx.x] = min;
        ranges[2 * blockIdx.x + 1] = max;
    }
}

/* A thread block per row, which is quantized by its own range. */
static __global__ void quantize(uint8_t *y, size_t ldy, const float *x, size_t ldx, uint32_t n,
                                struct tft_affine *affine, const float *ranges)
{
    uint32_t m = blockIdx.x;
    struct tft_affine own = tft_affine_of(ranges[2 * m], ranges[2 * m + 1]);
    for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
        y[m * ldy + i] = tft_affine_byte(x[m * ldx + i], &own);
    if (threadIdx.x == 0)
        affine[m] = own;
}

void tft_cuda_quantize(cudaStream_t stream, uint8_t *y, size_t ldy, const float *x, size_t ldx,
                       uint32_t M, uint32_t n, struct tft_affine *affine, float *ranges)
{
    launch(stream, row_ranges, M, THREADS, 0, ranges, x, ldx, n);
    launch(stream, quantize, M, THREADS, 0, y, ldy, x, ldx, n, affine, ranges);
}
