/* src/backend/cuda/machine.cuh for a CPU that plays the GPU: the same names in plain C++. */
#ifndef TFT_TEST_CUDA_MACHINE_CUH
#define TFT_TEST_CUDA_MACHINE_CUH

#include <stdint.h>
#include <string.h>

#include <functional>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __shared__ static /* one thread block runs at a time */
#define __launch_bounds__(...)
#define UNROLL
#define NO_UNROLL

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) int4 {
    int x, y, z, w;
};

extern dim3 threadIdx, blockIdx, blockDim;

/* ---- the player */

enum { PLAYER_WARP = 32 };

/* Runs the kernel for all thread blocks and threads, or records it if the stream is capturing. */
void player_launch(cudaStream_t stream, dim3 blocks, unsigned threads, size_t shared,
                   std::function<void()> kernel);
unsigned char *player_shared();

/* Wait until all threads of the thread block, or of the warp, have arrived here. */
void player_wait_block();
void player_wait_warp();

/* Memory that the lanes of this warp share: 32 bytes for each lane. There are two such memories, in
   turns, so a lane may read until all lanes have filled the next one: one barrier an exchange, as
   little as a GPU has. */
void *player_exchange();

static inline unsigned player_lane()
{
    return threadIdx.x % PLAYER_WARP;
}

/* ---- the parts of CUDA C++ that the kernels use */

static inline void __syncthreads()
{
    player_wait_block();
}

static inline void __syncwarp()
{
    player_wait_warp();
}

/* The value of another lane. */
template <typename T> static T player_shuffle(T value, unsigned lane)
{
    T *all = (T *)player_exchange();
    all[player_lane()] = value;
    player_wait_warp();
    return all[lane % PLAYER_WARP];
}

template <typename T> static T __shfl_down_sync(unsigned, T value, unsigned by)
{
    return player_shuffle(value,
                          player_lane() + by < PLAYER_WARP ? player_lane() + by : player_lane());
}

template <typename T> static T __shfl_xor_sync(unsigned, T value, unsigned with)
{
    return player_shuffle(value, player_lane() ^ with);
}

/* Thread blocks run one after the other. */
static inline void __threadfence() {}

static inline uint32_t atomicAdd(uint32_t *to, uint32_t n)
{
    uint32_t old = *to;
    *to += n;
    return old;
}

/* ---- machine.cuh */

template <typename... P, typename... A>
static void launch(cudaStream_t stream, void (*kernel)(P...), dim3 blocks, unsigned threads,
                   size_t shared, A... a)
{
    player_launch(stream, blocks, threads, shared, [=] { kernel(static_cast<P>(a)...); });
}

static inline unsigned char *tft_shared()
{
    return player_shared();
}

static inline int32_t dot4(uint32_t x, uint32_t w, int32_t sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (int32_t)(x >> i & 255) * (int8_t)(w >> i);
    return sum;
}

static inline int32_t dot4_signed(uint32_t x, uint32_t w, int32_t sum)
{
    for (int i = 0; i < 32; i += 8)
        sum += (int8_t)(x >> i & 255) * (int8_t)(w >> i & 255);
    return sum;
}

static inline void mma(int32_t c[4], const uint32_t a[4], uint32_t b0, uint32_t b1)
{
    struct fragment {
        uint32_t a[4], b[2];
    } *all = (fragment *)player_exchange(), own = {{a[0], a[1], a[2], a[3]}, {b0, b1}};
    unsigned g = player_lane() / 4, t = player_lane() % 4;
    all[player_lane()] = own;
    player_wait_warp();
    for (unsigned i = 0; i < 4; i++) { /* c[i]: row g or g + 8, column 2 t or 2 t + 1 */
        unsigned column = 2 * t + i % 2;
        for (unsigned k = 0; k < 4; k++)
            for (unsigned high = 0; high < 2; high++)
                c[i] = dot4(all[g * 4 + k].a[i / 2 + 2 * high], all[column * 4 + k].b[high], c[i]);
    }
}

static inline void load_matrices(uint32_t a[4], const void *row)
{
    const void **all = (const void **)player_exchange();
    all[player_lane()] = row;
    player_wait_warp();
    for (unsigned i = 0; i < 4; i++)
        memcpy(&a[i], (const unsigned char *)all[8 * i + player_lane() / 4] + player_lane() % 4 * 4,
               4);
}

static inline void copy16(void *to, const void *from, bool valid)
{
    if (valid)
        memcpy(to, from, 16);
    else
        memset(to, 0, 16);
}

static inline void copy_group() {}
template <int N>
static void copy_wait()
{
}

#endif
