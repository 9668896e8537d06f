/*
 * What the kernels need of the machine beyond CUDA C++: launching, and the instructions that have
 * no other name. tests/cuda/machine.cuh is the same for a CPU that plays the device.
 */
#ifndef TFT_CUDA_MACHINE_CUH
#define TFT_CUDA_MACHINE_CUH

#include <cuda_runtime.h>
#include <stdint.h>

#define UNROLL _Pragma("unroll")
#define ONCE _Pragma("unroll 1") /* the loop's body is long */

/* Queues kernel(a...). shared: bytes of tft_shared(). */
template <typename... P, typename... A>
static void launch(cudaStream_t stream, void (*kernel)(P...), dim3 blocks, unsigned threads,
                   size_t shared, A... a)
{
    if (shared > 48 * 1024)
        cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)shared);
    kernel<<<blocks, threads, shared, stream>>>(static_cast<P>(a)...);
}

/* The block's memory whose size the launch says; aligned to 16. */
static __device__ __forceinline__ unsigned char *tft_shared()
{
    extern __shared__ __align__(16) unsigned char shared[];
    return shared;
}

/* sum + the four products of x's bytes, unsigned, and w's, signed */
static __device__ __forceinline__ int32_t dot4(uint32_t x, uint32_t w, int32_t sum)
{
    int32_t d;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(w), "r"(sum));
    return d;
}

/*
 * c += A B by a warp: A [16, 32] u8 row by row, B [32, 8] s8 column by column, exact. Lane l = 4 g
 * + t has of
 *      A   rows g, g + 8, g, g + 8, bytes 4 t .. 4 t + 3 of the first 16 columns in a[0], a[1], of
 *          the others in a[2], a[3]
 *      B   column g, bytes 4 t .. 4 t + 3 of the first 16 rows in b0, of the others in b1
 *      c   row g columns 2 t, 2 t + 1, then row g + 8
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

/* Four matrices of 8 rows of 16 bytes in shared memory, whose rows lanes 0 .. 7, 8 .. 15 and so on
   say: lane 4 g + t gets of each one row g, bytes 4 t .. 4 t + 3. With rows g, g + 8, and both
   again 16 bytes on, that is mma's A. */
static __device__ __forceinline__ void load_matrices(uint32_t a[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"((unsigned)__cvta_generic_to_shared(row)));
}

/* 16 bytes to shared memory, without waiting, or zeros; then: all so far are a group; all groups
   but the newest `left` have come. */
static __device__ __forceinline__ void copy16(void *to, const void *from, bool there)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(there ? 16 : 0));
#else
    *(int4 *)to = there ? *(const int4 *)from : make_int4(0, 0, 0, 0);
#endif
}

static __device__ __forceinline__ void copy_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}

template <int left> static __device__ __forceinline__ void copy_wait()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(left));
#endif
}

#endif
