/*
 * Compares the kernels of the CUDA backend (launch.h) with the C reference, bit by bit, on a GPU or
 * on the CPU that plays one. Operands come from the harness of the CPU's kernels
 * (tests/simd/kernels/check.h).
 */
#ifndef TFT_TEST_GPU_H
#define TFT_TEST_GPU_H

#include <cuda_runtime_api.h>

#include "check.h"

struct gpu {
    struct check *c; /* c->ref: the reference */
    cudaStream_t stream;
    uint32_t multiprocessors;
    double read, int8, fma; /* limits, tft_cuda_limits */
};

/* n bytes of the GPU's memory until gpu_free: a copy of `from`; undefined. */
void *gpu_copy(const void *from, size_t n);
void *gpu_alloc(size_t n);

/* Copies from the GPU's memory, after all that was launched is done. */
void gpu_read(struct gpu *g, void *to, const void *from, size_t n);

/* Fails the case, with the line fmt, unless the n bytes at `got` on the GPU equal the bytes at
   `want`. */
void gpu_same(struct gpu *g, const void *want, const void *got, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* Frees the case's allocations on the GPU and in the harness. Fails if anything was written past
   the end of an allocation of the GPU. */
void gpu_free(struct gpu *g);

/* A kernel to be timed: a graph of `copies` launches, each with its own copy of the operands, since
   operands that were just read are still in a cache. */
struct gpu_timed {
    const char *name;
    void (*launch)(struct gpu *g, void *arg, size_t copy);
    void *arg;
    size_t copies;
    double bytes, ops; /* of one launch */
    bool is_int8;      /* ops are of bytes, else of floats */
};

/* Prints its time, its GB/s and its GOP/s, and their share of the GPU's limits. */
void gpu_time(struct gpu *g, const struct gpu_timed *t);

/* How many copies of `bytes` bytes exceed a GPU's caches. */
size_t gpu_copies(double bytes);

/* The families of kernels */
void gpu_rows(struct gpu *g);
void gpu_linear(struct gpu *g);
void gpu_attention(struct gpu *g);
void gpu_cache(struct gpu *g);

#endif
