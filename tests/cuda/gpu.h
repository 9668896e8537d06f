/*
 * Kernels of the CUDA backend (launch.h) beside the C reference, on a GPU or on the CPU that plays
 * one. Operands are those of the harness of the CPU's kernels (tests/kernels/check.h); results are
 * compared bit by bit.
 */
#ifndef TFT_TEST_GPU_H
#define TFT_TEST_GPU_H

#include <cuda_runtime_api.h>

#include "check.h"

struct gpu {
    struct check *c; /* c->ref: the reference */
    cudaStream_t stream;
    uint32_t multiprocessors;
    double read, int8, fma; /* limits.c */
};

/* A copy of n bytes in the GPU's memory, or n that are undefined; until gpu_free. */
void *gpu_copy(const void *from, size_t n);
void *gpu_take(size_t n);

/* What is there once all that was launched is done. */
void gpu_read(struct gpu *g, void *to, const void *from, size_t n);

/* That it is what the reference has. */
void gpu_same(struct gpu *g, const void *want, const void *got, size_t n, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* All that the case has taken of either memory. Nothing was written behind any of it. */
void gpu_free(struct gpu *g);

/* Times a kernel, if asked for with --bench: a graph of `copies` launches, of other operands each,
   since what was just read is still in a cache. bytes, ops: of one launch. is_int8: whether ops are
   of bytes or of floats. */
struct gpu_timed {
    const char *name;
    void (*launch)(struct gpu *g, void *arg, size_t copy);
    void *arg;
    size_t copies;
    double bytes, ops;
    bool is_int8;
};
void gpu_time(struct gpu *g, const struct gpu_timed *t);

/* So many of `bytes` that a GPU's caches do not hold them. */
size_t gpu_copies(double bytes);

/* The families */
void gpu_rows(struct gpu *g);
void gpu_linear(struct gpu *g);
void gpu_attention(struct gpu *g);
void gpu_cache(struct gpu *g);

#endif
