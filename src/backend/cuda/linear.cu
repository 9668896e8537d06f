/*
 * The int8 matrix product, tft_gemm_i8_fn (CushionCache eq. 5). Weights are in panels as in the
 * file (simd/panel.h): [N / 16][K / 4][16 rows][4 k]. Sums are integers and exact, so any order
 * gives the reference's bits.
 *
 *      gemv    one token. Each weight is read once: memory is the limit, and dp4a is fast enough.
 *      gemm    more tokens, on tensor cores.
 */
#include "launch.h"
#include "machine.cuh"

static constexpr uint32_t WARP = 32, QUAD_BYTES = TFT_PANEL * TFT_QUAD;

/* The result for an exact sum of products, before the bias. */
static __device__ float dequantized(int32_t acc, const struct tft_affine &q, int32_t rowsum,
                                    float scale)
{
    int32_t d = (int32_t)((uint32_t)acc - (uint32_t)q.zero * (uint32_t)rowsum);
    return (float)d * (q.scale * scale);
}

/* The matrices of a launch. Thread blocks 0, 1, .. have the panels of the first matrix, the next
   thread blocks the panels of the second matrix, and so on. */
struct products {
    struct tft_cuda_product p[TFT_CUDA_PRODUCTS];
    uint32_t n;
};

/* The number of thread blocks, of `panels` panels each, for a matrix. */
static inline __host__ __device__ uint32_t blocks_of(const struct tft_cuda_matrix &w,
                                                     uint32_t panels)
{
    return (w.rows + panels * TFT_PANEL - 1) / (panels * TFT_PANEL);
}

/* The matrix of thread block *block. *block becomes the thread block's number in the matrix. */
static __device__ struct tft_cuda_product product_of(const struct products &all, uint32_t panels,
                                                     uint32_t *block)
{
    UNROLL
    for (uint32_t i = 0; i < TFT_CUDA_PRODUCTS - 1; i++) {
        uint32_t own = blocks_of(all.p[i].w, panels);
        if (*block < own)
            return all.p[i];
        *block -= own;
    }
    return all.p[TFT_CUDA_PRODUCTS - 1];
}

static uint32_t blocks_of_all(const struct products &all, uint32_t panels)
{
    uint32_t blocks = 0;
    for (uint32_t i = 0; i < all.n; i++)
        blocks += blocks_of(all.p[i].w, panels);
    return blocks;
}

/* ------------------------------------------------------------------------------------ one token */

static constexpr uint32_t SPLIT = 8; /* warps that share the columns of a panel */

/* A lane's reads in flight: 32 KiB for a thread block. Memory of 3 TB/s and a latency of 0.7 us,
   shared by 132 multiprocessors, needs about half of that per multiprocessor. */
static constexpr uint32_t AHEAD = 8;

/*
 * A thread block computes the 16 outputs of one panel. Lane l of a warp reads 16 bytes: rows
 * 4 (l % 4) .. 4 (l % 4) + 3 of quad l / 4. So a warp reads 512 contiguous bytes, 8 quads. The
 * warps take groups of 8 quads in turn, and add their sums in shared memory.
 *
 * A lane past the last quad reads quad 0 with x = 0. No read is conditional, so all AHEAD reads can
 * be in flight at once. __launch_bounds__ asks for two thread blocks per multiprocessor: for more,
 * the compiler saves registers by delaying reads.
 */
static __global__ void __launch_bounds__(SPLIT *WARP, 2)
    gemv(struct products all, bool add, const uint8_t *x, const struct tft_affine *q)
{
    constexpr uint32_t QUADS = 8, ROWS = 4;
    __shared__ int32_t part[SPLIT][TFT_PANEL];
    uint32_t block = blockIdx.x;
    const struct tft_cuda_product p = product_of(all, 1, &block);
    const struct tft_cuda_matrix &w = p.w;
    uint32_t lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, quads = w.cols / TFT_QUAD;
    const int4 *panel = (const int4 *)(w.data + (size_t)block * TFT_PANEL * w.cols);
    const uint32_t *x4 = (const uint32_t *)x;
    int32_t acc[ROWS] = {0, 0, 0, 0};
    for (uint32_t first = warp * QUADS + lane / ROWS; first < quads;
         first += AHEAD * SPLIT * QUADS) {
        int4 rows[AHEAD];
        uint32_t bytes[AHEAD];
        UNROLL
        for (uint32_t i = 0; i < AHEAD; i++) {
            uint32_t quad = first + i * SPLIT * QUADS, readable = quad < quads ? quad : 0;
            rows[i] = panel[readable * ROWS + lane % ROWS];
            bytes[i] = x4[readable];
            bytes[i] = quad < quads ? bytes[i] : 0;
        }
        UNROLL
        for (uint32_t i = 0; i < AHEAD; i++) {
            acc[0] = dot4(bytes[i], (uint32_t)rows[i].x, acc[0]);
            acc[1] = dot4(bytes[i], (uint32_t)rows[i].y, acc[1]);
            acc[2] = dot4(bytes[i], (uint32_t)rows[i].z, acc[2]);
            acc[3] = dot4(bytes[i], (uint32_t)rows[i].w, acc[3]);
        }
    }
    for (uint32_t r = 0; r < ROWS; r++) {
        /* the sum over the lanes with the same rows */
        for (uint32_t step = WARP / 2; step >= ROWS; step /= 2)
            acc[r] += __shfl_xor_sync(0xffffffff, acc[r], step);
        if (lane < TFT_PANEL / ROWS)
            part[warp][lane * ROWS + r] = acc[r];
    }
    __syncthreads();
    uint32_t n = block * TFT_PANEL + threadIdx.x;
    if (threadIdx.x < TFT_PANEL && n < w.rows) {
        int32_t sum = 0;
        for (uint32_t i = 0; i < SPLIT; i++)
            sum += part[i][threadIdx.x];
        float v = dequantized(sum, *q, w.rowsum[n], w.scale[n]);
        v = w.bias ? v + w.bias[n] : v;
        p.y[n] = add ? p.y[n] + v : v;
    }
}

/* ---------------------------------------------------------------------------------- many tokens */

/*
 * A thread block has WM x WN warps. Each warp computes MT x 16 tokens times 2 panels (32 outputs),
 * as MT x 4 tiles of the tensor core's 16 x 8. All warps go through the columns (k) together, in
 * stages of 64 columns. A stage is copied to shared memory, and STAGES stages are in flight or in
 * use. A stage is
 *
 *      tokens    [WM MT 16][64 bytes], rows 80 bytes apart, so that 8 rows are in different banks
 *      weights   [2 WN panels][16 quads][4 parts][16 bytes]; a part is 4 rows of a quad. In every
 *                other pair of quads, parts 0 and 1 trade places with 2 and 3, for the banks
 *
 * Any output may be any column of a tile, so the choice serves the reads: lane 4 g + t reads one
 * part, 4 rows of a quad, which is column g of B of four tiles at once. Column g of tile j is row
 * 4 (g % 4) + j of the warp's panel g / 4. A lane's 8 results of a token, columns 2 t and 2 t + 1
 * of 4 tiles, are then adjacent in y.
 */
static constexpr uint32_t COLUMNS = 64, STAGES = 3, ROW_BYTES = COLUMNS + 16,
                          PANEL_BYTES = TFT_PANEL * COLUMNS, TILES = 4;

template <uint32_t MT, uint32_t WM, uint32_t WN> struct gemm_shape {
    static constexpr uint32_t tokens = MT * 16 * WM, panels = 2 * WN, threads = WM * WN * WARP;
    static constexpr uint32_t stage_bytes = tokens * ROW_BYTES + panels * PANEL_BYTES,
                              shared = STAGES * stage_bytes;
};

/* The offset of a part in a panel of a stage. */
static __device__ uint32_t part_at(uint32_t quad, uint32_t part)
{
    return quad * QUAD_BYTES + (part ^ (quad / 2 % 2 * 2)) * 16;
}

/* One thread's part of each stage: it copies 16 bytes of X tokens and of W panels. All threads
   together copy 16-byte pieces of `token_step` tokens and of `panel_step` panels at a time. The
   first token or panel replaces one past the end, and the results are not stored. */
template <uint32_t MT, uint32_t WM, uint32_t WN>
struct loader {
    typedef gemm_shape<MT, WM, WN> shape;
    static constexpr uint32_t token_step = shape::threads / (COLUMNS / 16),
                              panel_step = shape::threads / (PANEL_BYTES / 16);
    static constexpr uint32_t X = shape::tokens / token_step, W = shape::panels / panel_step;
    static_assert(X * token_step == shape::tokens && W * panel_step == shape::panels,
                  "each thread copies as much");
    const uint8_t *x[X];
    const int8_t *w[W];
    uint32_t x_end, w_end; /* columns that remain from x[i], from w[i] on */
    uint32_t x_to, w_to;   /* offsets in a stage */

    /* first: the thread block's first panel */
    __device__ loader(const struct tft_cuda_rows &rows, const struct tft_cuda_matrix &m,
                      uint32_t first, uint32_t M)
    {
        uint32_t row = threadIdx.x / (COLUMNS / 16), c = threadIdx.x % (COLUMNS / 16) * 16,
                 token = blockIdx.y * shape::tokens + row;
        uint32_t own = threadIdx.x / (PANEL_BYTES / 16),
                 quad = threadIdx.x / 4 % (COLUMNS / TFT_QUAD), part = threadIdx.x % 4;
        UNROLL
        for (uint32_t i = 0; i < X; i++, token += token_step)
            x[i] = rows.bytes + (token < M ? token : 0) * rows.ld + c;
        UNROLL
        for (uint32_t i = 0; i < W; i++) {
            uint32_t panel = first + own + i * panel_step;
            w[i] = m.data + (size_t)(panel < blocks_of(m, 1) ? panel : 0) * TFT_PANEL * m.cols +
                   quad * QUAD_BYTES + part * 16;
        }
        x_end = m.cols > c ? m.cols - c : 0;
        w_end = m.cols > quad * TFT_QUAD ? m.cols - quad * TFT_QUAD : 0;
        x_to = row * ROW_BYTES + c;
        w_to = shape::tokens * ROW_BYTES + own * PANEL_BYTES + part_at(quad, part);
    }

    /* Starts to copy columns k .. k + 63 to a stage, zeros past the last column. */
    __device__ void load(unsigned char *stage, uint32_t k) const
    {
        UNROLL
        for (uint32_t i = 0; i < X; i++)
            copy16(stage + x_to + i * token_step * ROW_BYTES, x[i] + (k < x_end ? k : 0),
                   k < x_end);
        UNROLL
        for (uint32_t i = 0; i < W; i++)
            copy16(stage + w_to + i * panel_step * PANEL_BYTES,
                   w[i] + (k < w_end ? k : 0) * TFT_PANEL, k < w_end);
    }
};

/* A warp adds the products of 32 columns of a stage, from column `from` on, to its tiles. x, w: the
   warp's tokens and panels in the stage */
template <uint32_t MT>
static __device__ void multiply(int32_t acc[MT][TILES][4], const unsigned char *x,
                                const unsigned char *w, uint32_t from)
{
    uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, quad = from / TFT_QUAD + t;
    w += g / 4 * PANEL_BYTES;
    int4 low = *(const int4 *)(w + part_at(quad, g % 4)),
         high = *(const int4 *)(w + part_at(quad + 4, g % 4));
    x += lane % 16 * ROW_BYTES + from + lane / 16 * 16;
    UNROLL
    for (uint32_t i = 0; i < MT; i++, x += 16 * ROW_BYTES) {
        uint32_t a[4];
        load_matrices(a, x);
        mma(acc[i][0], a, (uint32_t)low.x, (uint32_t)high.x);
        mma(acc[i][1], a, (uint32_t)low.y, (uint32_t)high.y);
        mma(acc[i][2], a, (uint32_t)low.z, (uint32_t)high.z);
        mma(acc[i][3], a, (uint32_t)low.w, (uint32_t)high.w);
    }
}

/* Stores the results of a lane: outputs first .. first + 7 of tokens m, m + 8, .. */
template <uint32_t MT>
static __device__ void store(const int32_t acc[MT][TILES][4], const struct tft_cuda_product &p,
                             bool add, const struct tft_cuda_rows &x, uint32_t first, uint32_t m,
                             uint32_t M)
{
    constexpr uint32_t ROWS = 8;
    float scale[ROWS], bias[ROWS];
    int32_t rowsum[ROWS];
    if (first >= p.w.rows)
        return;
    UNROLL
    for (uint32_t r = 0; r < ROWS; r++) {
        scale[r] = p.w.scale[first + r];
        rowsum[r] = p.w.rowsum[first + r];
        bias[r] = p.w.bias && first + r < p.w.rows ? p.w.bias[first + r] : 0;
    }
    UNROLL
    for (uint32_t i = 0; i < MT * 2; i++, m += 8) {
        float *y = p.y + m * p.ldy + first, old[ROWS] = {};
        if (m >= M)
            return;
        const struct tft_affine q = x.affine[m * x.affine_step];
        UNROLL
        for (uint32_t r = 0; r < ROWS; r++)
            if (add && first + r < p.w.rows)
                old[r] = y[r];
        UNROLL
        for (uint32_t r = 0; r < ROWS; r++) {
            float v =
                dequantized(acc[i / 2][r % TILES][i % 2 * 2 + r / TILES], q, rowsum[r], scale[r]);
            v = p.w.bias ? v + bias[r] : v;
            if (first + r < p.w.rows)
                y[r] = add ? old[r] + v : v;
        }
    }
}

/* Thread blocks: blockIdx.x has `panels` panels of one matrix, blockIdx.y `tokens` tokens. */
template <uint32_t MT, uint32_t WM, uint32_t WN>
static __global__ void __launch_bounds__(gemm_shape<MT, WM, WN>::threads)
    gemm(struct products all, bool add, struct tft_cuda_rows x, uint32_t M)
{
    typedef gemm_shape<MT, WM, WN> shape;
    uint32_t block = blockIdx.x;
    const struct tft_cuda_product p = product_of(all, shape::panels, &block);
    const struct tft_cuda_matrix &w = p.w;
    uint32_t panel = block * shape::panels;
    unsigned char *stages = tft_shared();
    uint32_t warp = threadIdx.x / WARP, wm = warp / WN, wn = warp % WN,
             steps = (w.cols + COLUMNS - 1) / COLUMNS;
    int32_t acc[MT][TILES][4] = {};

    const loader<MT, WM, WN> own(x, w, panel, M);
    for (uint32_t i = 0; i < STAGES - 1; i++) {
        if (i < steps)
            own.load(stages + i * shape::stage_bytes, i * COLUMNS);
        copy_group();
    }
    for (uint32_t i = 0; i < steps; i++) {
        copy_wait<STAGES - 2>();
        /* Stage i has arrived for all threads, and all threads are done with the next stage to
           fill. */
        __syncthreads();
        uint32_t next = i + STAGES - 1;
        if (next < steps)
            own.load(stages + next % STAGES * shape::stage_bytes, next * COLUMNS);
        copy_group();
        const unsigned char *tokens = stages + i % STAGES * shape::stage_bytes,
                            *panels = tokens + shape::tokens * ROW_BYTES;
        UNROLL
        for (uint32_t from = 0; from < COLUMNS; from += 32)
            multiply<MT>(acc, tokens + wm * MT * 16 * ROW_BYTES, panels + wn * 2 * PANEL_BYTES,
                         from);
    }
    uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    store<MT>(acc, p, add, x, (panel + wn * 2 + t / 2) * TFT_PANEL + t % 2 * 8,
              blockIdx.y * shape::tokens + wm * MT * 16 + g, M);
}

/* Whether tiles of this shape occupy at least 7 of 8 multiprocessors. */
template <uint32_t MT, uint32_t WM, uint32_t WN>
static bool fills(const struct products &all, uint32_t M, uint32_t multiprocessors)
{
    typedef gemm_shape<MT, WM, WN> shape;
    return (uint64_t)blocks_of_all(all, shape::panels) * ((M + shape::tokens - 1) / shape::tokens) *
               8 >=
           (uint64_t)multiprocessors * 7;
}

template <uint32_t MT, uint32_t WM, uint32_t WN>
static void launch_gemm(cudaStream_t stream, const struct products &all, bool add,
                        const struct tft_cuda_rows *x, uint32_t M)
{
    typedef gemm_shape<MT, WM, WN> shape;
    launch(stream, gemm<MT, WM, WN>,
           dim3(blocks_of_all(all, shape::panels), (M + shape::tokens - 1) / shape::tokens),
           shape::threads, shape::shared, all, add, *x, M);
}

/* Chooses the largest tile that fills the device: a larger tile reads fewer bytes per product. */
void tft_cuda_linear(cudaStream_t stream, const struct tft_cuda_product *products, uint32_t n,
                     bool add, const struct tft_cuda_rows *x, uint32_t M, uint32_t multiprocessors)
{
    struct products all = {{}, n};
    for (uint32_t i = 0; i < n; i++)
        all.p[i] = products[i];
    if (M == 1)
        launch(stream, gemv, blocks_of_all(all, 1), SPLIT * WARP, 0, all, add, x->bytes, x->affine);
    else if (M > 64 && fills<4, 2, 4>(all, M, multiprocessors))
        launch_gemm<4, 2, 4>(stream, all, add, x, M);
    else if (M > 32 && fills<2, 2, 4>(all, M, multiprocessors))
        launch_gemm<2, 2, 4>(stream, all, add, x, M);
    else
        launch_gemm<2, 1, 4>(stream, all, add, x, M);
}
