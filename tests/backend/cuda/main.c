/* cuda_kernels [--seed N] [--bench] [NAME], and gpu_kernels likewise. Without a GPU it prints why
   and exits with 77, which meson takes for a skipped test. */
#include "gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/inside.h"

enum { GUARD = 64, MAX_ALLOCATIONS = 256 };

static struct {
    unsigned char *p;
    size_t n;
} allocations[MAX_ALLOCATIONS];
static size_t n_allocations;

static void must(cudaError_t e, const char *what)
{
    if (e == cudaSuccess)
        return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(e));
    exit(1);
}

void *gpu_alloc(size_t n)
{
    void *p;
    unsigned char guard[GUARD];
    if (n_allocations == MAX_ALLOCATIONS) {
        fprintf(stderr, "more than %d allocations in one case\n", MAX_ALLOCATIONS);
        exit(1);
    }
    must(cudaMalloc(&p, n + GUARD), "cudaMalloc");
    memset(guard, 0xa5, GUARD);
    must(cudaMemcpy((char *)p + n, guard, GUARD, cudaMemcpyHostToDevice), "cudaMemcpy");
    allocations[n_allocations].p = p;
    allocations[n_allocations++].n = n;
    return p;
}

void *gpu_copy(const void *from, size_t n)
{
    void *p = gpu_alloc(n);
    must(cudaMemcpy(p, from, n, cudaMemcpyHostToDevice), "cudaMemcpy");
    return p;
}

void gpu_read(struct gpu *g, void *to, const void *from, size_t n)
{
    must(cudaGetLastError(), g->c->name);
    must(cudaStreamSynchronize(g->stream), g->c->name);
    must(cudaMemcpy(to, from, n, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void gpu_same(struct gpu *g, const void *want, const void *got, size_t n, const char *fmt, ...)
{
    char what[200];
    void *here = malloc(n + !n);
    va_list args;
    if (!here)
        exit(1);
    va_start(args, fmt);
    vsnprintf(what, sizeof what, fmt, args);
    va_end(args);
    gpu_read(g, here, got, n);
    check_same(g->c, want, here, n, "%s", what);
    free(here);
}

void gpu_free(struct gpu *g)
{
    unsigned char want[GUARD], got[GUARD];
    memset(want, 0xa5, GUARD);
    while (n_allocations) {
        n_allocations--;
        gpu_read(g, got, allocations[n_allocations].p + allocations[n_allocations].n, GUARD);
        check_same(g->c, want, got, GUARD, "behind the end of %zu bytes",
                   allocations[n_allocations].n);
        must(cudaFree(allocations[n_allocations].p), "cudaFree");
    }
    check_free();
}

/* --------------------------------------------------------------------------------------- timing */

size_t gpu_copies(double bytes)
{
    double n = 512e6 / bytes;
    return n < 1 ? 1 : n > 100 ? 100 : (size_t)n;
}

static double run_graph(struct gpu *g, cudaGraphExec_t graph, size_t times)
{
    uint64_t start = check_ns();
    for (size_t i = 0; i < times; i++)
        must(cudaGraphLaunch(graph, g->stream), "cudaGraphLaunch");
    must(cudaStreamSynchronize(g->stream), "cudaStreamSynchronize");
    return (double)(check_ns() - start) / (double)times;
}

void gpu_time(struct gpu *g, const struct gpu_timed *t)
{
    enum { RUNS = 9 };
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    double ns[RUNS], limit = t->is_int8 ? g->int8 : g->fma;
    size_t times = 1;
    must(cudaStreamBeginCapture(g->stream, cudaStreamCaptureModeThreadLocal),
         "cudaStreamBeginCapture");
    for (size_t i = 0; i < t->copies; i++)
        t->launch(g, t->arg, i);
    must(cudaStreamEndCapture(g->stream, &graph), "cudaStreamEndCapture");
    must(cudaGraphInstantiateWithFlags(&exec, graph, 0), "cudaGraphInstantiate");
    run_graph(g, exec, 1);
    while (run_graph(g, exec, times) * (double)times < 5e6)
        times *= 2;
    for (size_t i = 0; i < RUNS; i++)
        ns[i] = run_graph(g, exec, times) / (double)t->copies;
    double each = check_median(ns, RUNS);
    printf("  %-44s %9.2f us %8.1f GB/s %4.0f %% %10.1f GOP/s %4.0f %%\n", t->name, each / 1e3,
           t->bytes / each, 100 * t->bytes / each / g->read, t->ops / each,
           100 * t->ops / each / limit);
    fflush(stdout);
    must(cudaGraphExecDestroy(exec), "cudaGraphExecDestroy");
    must(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

int main(int argc, char **argv)
{
    struct check c = check_start(argc, argv);
    struct tft_kernels ref, cuda = {.name = "cuda"};
    uint64_t seed = c.rng;
    int n;
    cudaError_t e = cudaGetDeviceCount(&n);
    if (e != cudaSuccess) {
        printf("skipped: no GPU here: %s\n", cudaGetErrorString(e));
        return 77;
    }
    struct gpu g = {.c = &c};
    int multiprocessors = 0;
    memset(&ref, 0, sizeof ref);
    tft_kernels_fill(&ref, 0);
    c.ref = &ref;
    c.now = &cuda;
    must(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0),
         "cudaDeviceGetAttribute");
    g.multiprocessors = (uint32_t)multiprocessors;
    tft_cuda_limits(&(struct device){.index = 0}, &g.read, &g.int8, &g.fma);
    if (c.bench)
        printf("limits by its clocks: memory read %.1f GB/s, int8 %.0f GOP/s, fma %.0f GFLOP/s\n",
               g.read, g.int8, g.fma);
    /* cudaStreamDefault: the stream waits for copies that cudaMemcpy has not finished */
    must(cudaStreamCreateWithFlags(&g.stream, cudaStreamDefault), "cudaStreamCreate");
    gpu_rows(&g);
    gpu_linear(&g);
    gpu_attention(&g);
    gpu_cache(&g);
    must(cudaStreamDestroy(g.stream), "cudaStreamDestroy");
    printf("cuda: %u kernels checked, %u failures\n", c.checked, c.failed);
    if (c.failed)
        printf("repeat with --seed %llu\n", (unsigned long long)seed);
    return c.failed ? 1 : 0;
}
