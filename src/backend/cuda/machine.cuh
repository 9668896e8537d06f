/*
 * Additions to CUDA C++ for the kernels: launches, and instructions in inline assembly.
 * tests/backend/cuda/machine.cuh has the same names for a CPU that plays the GPU.
 */
#ifndef TFT_CUDA_MACHINE_CUH
#define TFT_CUDA_MACHINE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#define UNROLL _Pragma("unroll")
#define NO_UNROLL _Pragma("unroll 1") /* for a loop with a long body */

/* Queues kernel(a...). blocks: thread blocks; threads: of each thread block; shared: bytes that
   tft_shared() returns */
template <typename... P, typename... A>
static void launch(cudaStream_t stream, void (*kernel)(P...), dim3 blocks, unsigned threads,
                   size_t shared, A... a)
{
    if (shared > 48 * 1024)
        cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)shared);
    kernel<<<blocks, threads, shared, stream>>>(static_cast<P>(a)...);
}

/* The shared memory of the thread block, of the size given to launch(), aligned to 16 bytes. */
static __device__ __forceinline__ unsigned char *tft_shared()
{
    extern __shared__ __align__(16) unsigned char shared[];
    return shared;
}

/* sum + x0 w0 + x1 w1 + x2 w2 + x3 w3: bytes of x are unsigned, bytes of w signed. */
static __device__ __forceinline__ int32_t dot4(uint32_t x, uint32_t w, int32_t sum)
{
    int32_t d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(w), "r"(sum));
    return d;
}

/* The same with signed bytes of x. */
static __device__ __forceinline__ int32_t dot4_signed(uint32_t x, uint32_t w, int32_t sum)
{
    int32_t d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(w), "r"(sum));
    return d;
}

/*
 * C += A B, exact, by the 32 lanes of a warp: A is [16, 32] u8, B [32, 8] s8, C [16, 8].
 * Lane 4 g + t (g < 8, t < 4) holds
 *
 *      a[0], a[1]   row g, row g + 8 of A, columns 4 t .. 4 t + 3
 *      a[2], a[3]   row g, row g + 8 of A, columns 16 + 4 t .. 16 + 4 t + 3
 *      b0, b1       column g of B, rows 4 t .. 4 t + 3; rows 16 + 4 t .. 16 + 4 t + 3
 *      c[0], c[1]   row g of C, columns 2 t, 2 t + 1
 *      c[2], c[3]   row g + 8 of C, columns 2 t, 2 t + 1
 */
static __device__ __forceinline__ void mma(int32_t c[4], const uint32_t a[4], uint32_t b0,
                                           uint32_t b1)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, "
                 "%7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    for (int i = 0; i < 4; i++)
        asm volatile(
            "mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
            : "+r"(c[i % 2 * 2]), "+r"(c[i % 2 * 2 + 1])
            : "r"(a[i]), "r"(i < 2 ? b0 : b1));
#endif
}

/* A warp loads four matrices of 8 rows of 16 bytes from shared memory. row: lanes 0 .. 7 point to
   the rows of the first matrix, lanes 8 .. 15 to the rows of the second, and so on. Lane 4 g + t
   gets bytes 4 t .. 4 t + 3 of row g of matrix i in a[i]. If the matrices are rows 0 .. 7 and
   8 .. 15 of A, then both again 16 columns further, `a` is the operand of mma. */
static __device__ __forceinline__ void load_matrices(uint32_t a[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)));
}

/* Starts to copy 16 bytes to shared memory, or 16 zeros unless `valid`, and does not wait. */
static __device__ __forceinline__ void copy16(void *to, const void *from, bool valid)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(valid ? 16 : 0));
#else
    *(int4 *)to = valid ? *(const int4 *)from : make_int4(0, 0, 0, 0);
#endif
}

/* Groups the copies that this thread has started since the last group. */
static __device__ __forceinline__ void copy_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

/* Waits until all groups of this thread but the newest N have arrived. */
template <int N>
static __device__ __forceinline__ void copy_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(N));
#endif
}

#endif
