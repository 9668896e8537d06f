/*
 * A CPU that plays an NVIDIA GPU, to test the CUDA backend on machines without one: the parts of
 * CUDA's runtime that the backend uses. Memory of the device is memory of the host; work that is
 * queued on a stream is done at once; a graph is a list of launches. player.cpp runs the kernels:
 * each thread of a thread block is a coroutine that runs to its next barrier. Threads and thread
 * blocks run in random order, so that a missing barrier shows.
 *
 * Environment variables: PLAYER_GPUS (1), PLAYER_CAPABILITY (90), PLAYER_BYTES of memory (1 GiB),
 * PLAYER_CLOCKS (1; 0: the driver does not tell them),
 * PLAYER_FAILS (0: never; N: waiting for the stream fails, from the N-th time on),
 * PLAYER_FAILS_CALL (0: never; N: the N-th call fails; calls that free something do not count),
 * PLAYER_LOG (a file that gets the number of these calls when the program ends).
 */
#ifndef TFT_TEST_CUDA_RUNTIME_API_H
#define TFT_TEST_CUDA_RUNTIME_API_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorNoDevice = 100,
    cudaErrorIllegalAddress = 700,
} cudaError_t;

typedef struct player_stream *cudaStream_t;
typedef struct player_graph *cudaGraph_t, *cudaGraphExec_t;

enum { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };
enum { cudaStreamDefault = 0, cudaStreamNonBlocking = 1, cudaStreamCaptureModeThreadLocal = 1 };
enum {
    cudaDevAttrClockRate = 13,
    cudaDevAttrMultiProcessorCount = 16,
    cudaDevAttrMemoryClockRate = 36,
    cudaDevAttrGlobalMemoryBusWidth = 37,
    cudaDevAttrComputeCapabilityMajor = 75,
    cudaDevAttrComputeCapabilityMinor = 76,
};

cudaError_t cudaGetLastError(void);
const char *cudaGetErrorString(cudaError_t e);
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int index);
cudaError_t cudaGetDevice(int *index);
cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int index);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *all);
cudaError_t cudaMalloc(void **p, size_t size);
cudaError_t cudaFree(void *p);
cudaError_t cudaMallocHost(void **p, size_t size);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaMemsetAsync(void *p, int byte, size_t n, cudaStream_t stream);
cudaError_t cudaMemcpy(void *to, const void *from, size_t n, int kind);
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, cudaStream_t stream);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph,
                                          unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec);

#ifdef __cplusplus
}
#endif

#endif
